// SPDX-License-Identifier: GPL-2.0-only
#include "lesser.h"

#include <linux/blkdev.h>

#include "join.h"
#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, asks_a_block, "of what is stale only the first block is asked for");
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
	if (forgot) {
		m->target_whole = false;
		m->both_whole = false;
	}
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

/* The next piece of what is stale, from *at on. 0: there is none. */
static unsigned int next_piece(const struct mirror *m, sector_t *at)
{
	unsigned long region;

	lockdep_assert_held(&m->lock);
	region = region_map_next(&m->map, region_of(&m->map, *at));
	/* Not whole any more: then nothing depends on the answer. */
	if (region == REGION_NONE || !m->target_whole)
		return 0;
	if (test_knob(asks_a_block) && *at)
		return 0;
	*at = max(*at, region_start(&m->map, region));
	return min_t(sector_t, test_knob(asks_a_block) ? PAGE_SECTORS : IO_MAX_SECTORS,
		     region_last(&m->map, region) + 1 - *at);
}

int lesser_ask_source(struct mirror *m, enum leg_id leg)
{
	enum leg_id source = other_leg(leg);
	unsigned int sectors;
	sector_t at = 0;
	int r = 0;

	if (writes_draining(m, source))
		return -EBUSY;		/* it hasn't answered yet, as it was asked last */
	spin_lock_irq(&m->lock);
	m->legs[leg].joiner = current;
	m->join_needs = true;
	while (!r && (sectors = next_piece(m, &at))) {
		spin_unlock_irq(&m->lock);
		r = transfer_now(m, source, REQ_OP_READ | REQ_SYNC, at, NULL,
				 sectors << SECTOR_SHIFT);
		at += sectors;
		spin_lock_irq(&m->lock);
		if (!r && m->join_off)
			r = -EBUSY;
		else if (!r && m->changes != m->join_changes)
			r = -EAGAIN;
	}
	m->legs[leg].joiner = NULL;
	m->target_whole &= !!r;
	spin_unlock_irq(&m->lock);
	/* One that says nothing is the watch's. */
	if (r && r != -EAGAIN && r != -EBUSY && r != -ETIMEDOUT && r != -ENOMEM)
		(void)mirror_leg_failed(m, source);
	return r;
}
