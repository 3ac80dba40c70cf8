/* SPDX-License-Identifier: GPL-2.0-only */
/* What dm-lockstep needs of compat.h; see compat/probes. */
#ifndef LOCKSTEP_MIRROR_COMPAT_H
#define LOCKSTEP_MIRROR_COMPAT_H

#include <linux/blkdev.h>

#include "compat.h"

/* Both sizes are the device's own limits, which an administrator may lower. */
static inline void mirror_limit_discard(struct queue_limits *limits, unsigned int sectors,
					unsigned int granularity)
{
	limits->discard_granularity = granularity;
	limits->discard_alignment = 0;
#if HAVE_MAX_HW_DISCARD
	limits->max_hw_discard_sectors = sectors;
#else
	limits->max_discard_sectors = sectors;
#endif
}

#endif
