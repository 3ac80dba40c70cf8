// SPDX-License-Identifier: GPL-2.0-only
/* A queue tells how much zeroing may unmap. */
#include <linux/blkdev.h>

unsigned int probe(struct queue_limits *limits);
unsigned int probe(struct queue_limits *limits)
{
	return limits->max_hw_wzeroes_unmap_sectors;
}
