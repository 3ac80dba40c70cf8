// SPDX-License-Identifier: GPL-2.0-only
/* hrtimer_setup() took the place of hrtimer_init() and of setting .function. */
#include <linux/hrtimer.h>

void probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *));
void probe(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *))
{
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}
