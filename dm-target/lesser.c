// SPDX-License-Identifier: GPL-2.0-only
#include "lesser.h"

#include "join.h"
#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, doubts_remote, "of two legs that fail the remote one is the lesser, whichever has forgotten");
TEST_KNOB(bool, failed_misses, "a leg that misses a write that failed on both doesn't stand in");
TEST_KNOB(bool, nothing_forgotten, "a flush that fails on a leg that stays changes nothing");

bool lesser_in_doubt(const struct mirror *m, enum leg_id leg)
{
	return (m->forgot | m->recalled) == BIT(leg) && mirror_stands_in(m, other_leg(leg)) &&
	       !test_knob(doubts_remote);
}

enum leg_id lesser_leg(const struct mirror *m)
{
	enum leg_id leg;

	lockdep_assert_held(&m->lock);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (m->legs[leg].dead)
			return leg;
	if (mirror_has_target(m))
		return m->map.target;
	return lesser_in_doubt(m, LEG_LOCAL) ? LEG_LOCAL : LEG_REMOTE;
}

bool lesser_is_whole(const struct mirror *m)
{
	lockdep_assert_held(&m->lock);
	/* Without metadata the resync has begun by the time that anybody asks. */
	if (!m->meta || m->target_ready || m->target_leaving || test_knob(failed_misses))
		return false;
	if (m->legs[LEG_LOCAL].dead || m->legs[LEG_REMOTE].dead)
		return false;
	return (!m->map.nr_stale || m->target_whole) &&
	       !((m->forgot | m->recalled) & BIT(lesser_leg(m)));
}

void lesser_forgot(struct mirror *m, enum leg_id leg)
{
	lockdep_assert_held(&m->lock);
	if ((m->forgot & BIT(leg)) || !leg_may_forget(&m->legs[leg]) ||
	    test_knob(nothing_forgotten))
		return;
	m->forgot |= BIT(leg);
	m->changes++;
	join_kick(m);
}

void lesser_take_forgotten(struct mirror *m)
{
	u8 forgot;

	spin_lock_irq(&m->lock);
	forgot = m->forgot;
	m->recalls += !!forgot;
	m->recalled |= forgot;
	m->forgot = 0;
	if (forgot)
		m->target_whole = false;
	spin_unlock_irq(&m->lock);
	if (!forgot)
		return;
	dirty_map_to_stale(&m->dirty, LEGS);
	spin_lock_irq(&m->lock);
	if (!--m->recalls)
		m->recalled = 0;
	mirror_changed(m);
	spin_unlock_irq(&m->lock);
}
