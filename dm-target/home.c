// SPDX-License-Identifier: GPL-2.0-only
#include "home.h"

#include <linux/delay.h>

#include "life.h"
#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"

TEST_KNOB(uint, slow_home, "ms from when a leg has the map to when it is the map's home");

int home_new_map(struct mirror *m, enum leg_id leg)
{
	int r;

	mutex_lock(&m->meta->lock[leg]);
	r = metadata_check(m, leg);
	if (!r) {
		super_new_map(&m->meta->super[leg]);
		r = dirty_map_write(&m->dirty, leg);
	}
	mutex_unlock(&m->meta->lock[leg]);
	return r;
}

int home_set(struct mirror *m, enum leg_id to)
{
	int r = 0;

	if (test_knob(slow_home))
		msleep(test_knob(slow_home));
	spin_lock_irq(&m->lock);
	if (m->legs[to].dead)
		r = -EAGAIN;
	else
		WRITE_ONCE(m->home, to);
	spin_unlock_irq(&m->lock);
	return r;
}

int home_move(struct mirror *m, enum leg_id to)
{
	int r;

	dirty_map_hold(&m->dirty);
	r = home_new_map(m, to);
	if (!r)
		r = metadata_update(m, to, NULL);
	if (!r)
		r = home_set(m, to);
	dirty_map_release(&m->dirty);
	return r;
}
