/* SPDX-License-Identifier: GPL-2.0-only */
/* What the media need of compat.h; see compat/probes. */
#ifndef LOCKSTEP_MEDIA_COMPAT_H
#define LOCKSTEP_MEDIA_COMPAT_H

#include <linux/blkdev.h>
#include <linux/hrtimer.h>

#include "compat.h"

static inline void media_hrtimer_setup(struct hrtimer *timer,
				       enum hrtimer_restart (*fn)(struct hrtimer *),
				       clockid_t clock, enum hrtimer_mode mode)
{
#if HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, fn, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = fn;
#endif
}

static inline void media_limit_discard(struct queue_limits *limits, unsigned int sectors)
{
	limits->discard_granularity = SECTOR_SIZE;
	limits->max_hw_discard_sectors = sectors;
	limits->max_discard_sectors = sectors;
}

#endif
