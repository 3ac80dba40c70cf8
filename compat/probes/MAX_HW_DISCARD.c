// SPDX-License-Identifier: GPL-2.0-only
/* A driver sets queue_limits.max_hw_discard_sectors; before, it set max_discard_sectors. */
#include <linux/blkdev.h>

void probe(struct queue_limits *limits);
void probe(struct queue_limits *limits)
{
	limits->max_hw_discard_sectors = 1;
}
