// SPDX-License-Identifier: GPL-2.0-only
#include "dirty-clean.h"

#include <linux/jiffies.h>
#include <linux/sched.h>

#include "lockstep-test.h"
#include "map-image.h"
#include "metadata.h"
#include "mirror.h"

TEST_KNOB(bool, clean_waits, "the cleaner waits while a leg's metadata are moved");
TEST_KNOB(bool, tick_stays, "a tick writes all that it can clean, whoever stops the map");
TEST_KNOB(bool, home_only, "a leg that hasn't the map isn't looked at while nothing is cleaned");
TEST_KNOB(bool, half_a_log, "the log is cleaned by halves, whatever a request needs");

/* Room that somebody waits for. */
static unsigned int wanted(const struct dirty_map *dm)
{
	return test_knob(half_a_log) ? 0 : dm->wanted;
}

/*
 * A writer that comes from now on waits for a mark; one that was there before is seen as
 * busy. Asked once before, too, so that who writes all the time doesn't wait for that.
 */
static bool try_leave(struct dirty_map *dm, unsigned long region)
{
	if (mirror_region_busy(dm->m, region))
		return false;
	clear_bit(region, dm->bits);
	if (!mirror_region_busy(dm->m, region))
		return true;
	set_bit(region, dm->bits);
	return false;
}

/* At a tick: what hasn't been written since the last one. Returns true if there is any. */
static bool age_log(struct dirty_map *dm)
{
	struct activity *a = &dm->activity;
	bool some = false;
	unsigned int i;

	for (i = 0; a->slots && i < LOCKSTEP_ENTRIES; i++) {
		struct activity_slot *slot = &a->slots[i];

		if (slot->state == SLOT_ACTIVE && !test_and_clear_bit(slot->region, dm->touched) &&
		    try_leave(dm, slot->region))
			activity_set(a, slot, SLOT_LEAVING);
		some |= slot->state == SLOT_LEAVING || slot->state == SLOT_CLEAN;
	}
	return some;
}

static bool age_word(struct dirty_map *dm, unsigned long word)
{
	unsigned long touched, idle, bit;
	bool some = false;

	if (!READ_ONCE(dm->mapped[word]))
		return false;
	touched = xchg(&dm->touched[word], 0);
	/* Most are stale while a resync is at it, and stay: not asked one by one. */
	idle = READ_ONCE(dm->mapped[word]) & ~touched & ~mirror_stale_word(dm->m, word);
	for_each_set_bit(bit, &idle, BITS_PER_LONG)
		some |= try_leave(dm, word * BITS_PER_LONG + bit);
	return some;
}

/* Likewise of the map. Only pages that have a bit are looked at. */
static bool age_map(struct dirty_map *dm)
{
	unsigned long page, word;
	bool some = false;

	for_each_set_bit(page, dm->used, map_pages(dm)) {
		word = BIT_WORD(page_first(page));
		for (; word < BITS_TO_LONGS(page_first(page) + page_nr(dm, page)); word++)
			some |= age_word(dm, word);
		let_marks_in(dm);
	}
	return some;
}

/*
 * Stale regions stay dirty for as long as the resync takes. If there is no room in the log
 * they are dirty in the map instead.
 */
static int move_stale(struct dirty_map *dm)
{
	struct activity *a = &dm->activity;
	unsigned int i;
	int r;

	for (i = 0; i < LOCKSTEP_ENTRIES; i++)
		if (a->slots[i].state == SLOT_ACTIVE &&
		    mirror_region_stale(dm->m, a->slots[i].region))
			map_image_set(dm, a->slots[i].region);
	r = map_image_update(dm);
	for (i = 0; i < LOCKSTEP_ENTRIES; i++) {
		struct activity_slot *slot = &a->slots[i];

		if (slot->state != SLOT_ACTIVE || !test_bit(slot->region, dm->mapped))
			continue;
		if (r)
			clear_bit(slot->region, dm->mapped);
		else
			activity_set(a, slot, SLOT_CLEAN);
	}
	return r;
}

/*
 * The log is short of room: what hasn't been written for the longest time. touched[] gives
 * what was written since we came by a second chance.
 */
static bool evict(struct dirty_map *dm)
{
	struct activity *a = &dm->activity;
	unsigned int free = activity_free(a), most = max(a->limit / 2, wanted(dm)), n, left = 0;

	for (n = 0; n < 2 * LOCKSTEP_ENTRIES && (free + left < most || n < LOCKSTEP_ENTRIES); n++) {
		struct activity_slot *slot = activity_next(a);
		bool beyond = activity_beyond(a, slot);

		if (slot->state != SLOT_ACTIVE || (!beyond && free + left >= most))
			continue;
		if (!beyond && n < LOCKSTEP_ENTRIES &&
		    test_and_clear_bit(slot->region, dm->touched))
			continue;
		if (!try_leave(dm, slot->region))
			continue;
		activity_set(a, slot, SLOT_LEAVING);
		left += !beyond;
	}
	return a->nr[SLOT_LEAVING];
}

bool dirty_clean_wanted(const struct dirty_map *dm)
{
	return activity_free(&dm->activity) < max(dm->activity.limit / 4, wanted(dm));
}

static bool beyond_any(const struct activity *a)
{
	unsigned int i;

	for (i = a->limit; i < LOCKSTEP_ENTRIES; i++)
		if (a->slots[i].state != SLOT_EMPTY)
			return true;
	return false;
}

/* The first step. Returns true if there is anything for the next ones. */
static bool pick(struct dirty_map *dm, bool tick)
{
	struct activity *a = &dm->activity;
	bool some = false;

	if (tick) {
		some = age_log(dm);
		some |= age_map(dm);
	}
	if (a->slots && (dirty_clean_wanted(dm) || beyond_any(a))) {
		if (mirror_any_stale(dm->m) && move_stale(dm))
			(void)mirror_leg_failed(dm->m, mirror_home(dm->m));
		some |= evict(dm) || beyond_any(a);
	}
	return some;
}

static void settle_log(struct dirty_map *dm, bool tick, bool good)
{
	struct activity *a = &dm->activity;
	unsigned int i;

	for (i = 0; a->slots && i < LOCKSTEP_ENTRIES; i++) {
		struct activity_slot *slot = &a->slots[i];
		bool write = tick || activity_beyond(a, slot);

		if (slot->state == SLOT_LEAVING && !good) {
			activity_set(a, slot, SLOT_ACTIVE);
			set_bit(slot->region, dm->bits);
		} else if (slot->state == SLOT_LEAVING) {
			activity_set(a, slot, write ? SLOT_EMPTY : SLOT_CLEAN);
		} else if (slot->state == SLOT_CLEAN && write) {
			activity_set(a, slot, SLOT_EMPTY);
		}
	}
}

static void settle_word(struct dirty_map *dm, unsigned long page, unsigned long word, bool good)
{
	unsigned long mapped, bit, left;

	/* In core mode a mark may come at any time. */
	spin_lock_irq(&dm->lock);
	mapped = dm->mapped[word];
	left = mapped & ~dm->bits[word];
	if (left && good) {
		WRITE_ONCE(dm->mapped[word], mapped & ~left);
		__set_bit(page, dm->changed);
	}
	spin_unlock_irq(&dm->lock);
	if (good)
		return;
	for_each_set_bit(bit, &left, BITS_PER_LONG)
		set_bit(word * BITS_PER_LONG + bit, dm->bits);
}

/* By who stops the map, or is about to move its metadata, or by a suspend that waits for him. */
static bool is_waited_for(const struct dirty_map *dm)
{
	return (READ_ONCE(dm->stopped) || READ_ONCE(dm->pinned) || mirror_must_yield(dm->m)) &&
	       !test_knob(tick_stays);
}

/*
 * @good: until something changes, or somebody waits for us. What is written at once is little, as
 * marks wait for that. 0, or an errno of what was written.
 */
static int settle_map(struct dirty_map *dm, bool good, unsigned int changes)
{
	unsigned long page, word;
	int r = 0;

	for_each_set_bit(page, dm->used, map_pages(dm)) {
		word = BIT_WORD(page_first(page));
		for (; word < BITS_TO_LONGS(page_first(page) + page_nr(dm, page)); word++)
			/* Only the cleaner clears bits. */
			if (READ_ONCE(dm->mapped[word]) & ~READ_ONCE(dm->bits[word]))
				settle_word(dm, page, word, good);
		spin_lock_irq(&dm->lock);
		if (bitmap_empty(page_words(dm->mapped, page), page_nr(dm, page)))
			__clear_bit(page, dm->used);
		spin_unlock_irq(&dm->lock);
		if (bitmap_weight(dm->changed, map_pages(dm)) >= METADATA_MAP_PAGES && !r)
			r = map_image_update(dm);
		let_marks_in(dm);
		good = good && !r && mirror_changes(dm->m) == changes && !is_waited_for(dm);
	}
	return r;
}

/* Who moves a leg's metadata has its superblock for that long, which marks mustn't wait for. */
static bool superblock_moves(const struct dirty_map *dm)
{
	return READ_ONCE(dm->pinned) && !test_knob(clean_waits);
}

/* The log may be short of room many times a second: superblocks aren't written as often. */
static int settle_legs(struct dirty_map *dm, bool tick)
{
	int r;

	if (superblock_moves(dm) ||
	    (!tick && dm->stamped && time_before(jiffies, dm->stamped + DIRTY_STAMP)))
		return mirror_flush_legs(dm->m);
	r = mirror_stamp_legs(dm->m);
	if (!r)
		dm->stamped = jiffies ?: 1;
	return r;
}

/* False: it is somebody else's by now, and nobody writes on to it; or it doesn't answer. */
static bool is_ours(struct dirty_map *dm, enum leg_id leg)
{
	int r = metadata_look(dm->m, leg);

	if (r == -ESTALE)
		(void)mirror_leg_failed(dm->m, leg);
	return !r;
}

/*
 * Nothing is cleaned if the home isn't ours. The other leg is asked, too, as nothing may be cleaned
 * for long: where each tick finds new writes in the same regions. A mirror at rest doesn't ask.
 */
static bool home_is_ours(struct dirty_map *dm, bool tick)
{
	enum leg_id home = mirror_home(dm->m), other;

	/* A start that failed has none. */
	if (!dm->m->meta || home == LEGS || dirty_map_empty(dm))
		return true;
	if (!is_ours(dm, home))
		return false;
	other = other_leg(home);
	if (tick && !READ_ONCE(dm->m->legs[other].dead) && !superblock_moves(dm) &&
	    !test_knob(home_only))
		(void)is_ours(dm, other);
	return true;
}

static void clean(struct dirty_map *dm, bool tick)
{
	struct mirror *m = dm->m;
	unsigned int changes = mirror_changes(m);
	bool some, good;
	int r;

	if (!home_is_ours(dm, tick) || !mirror_may_clean(m))
		return;
	mutex_lock(&dm->table);
	some = pick(dm, tick);
	mutex_unlock(&dm->table);
	if (!some)
		return;

	/* What isn't flushed, on a leg that may be dead now, is as dirty as before. */
	good = !settle_legs(dm, tick);

	/* Asked under the table: what is made stale from now on waits for that. */
	mutex_lock(&dm->table);
	good = good && mirror_changes(m) == changes;
	settle_log(dm, tick, good);
	r = tick ? settle_map(dm, good, changes) : 0;
	r = r ?: map_image_update(dm);
	mutex_unlock(&dm->table);
	if (r)
		(void)mirror_leg_failed(m, mirror_home(m));
	else if (tick && good && m->meta)
		count(&m->counters, COUNT_CLEANED);
}

void dirty_clean_work(struct work_struct *work)
{
	struct dirty_map *dm = container_of(to_delayed_work(work), struct dirty_map, cleaner);
	bool stopped, tick;

	spin_lock_irq(&dm->lock);
	stopped = dm->stopped;
	tick = dm->tick && !stopped;
	if (tick)
		dm->tick = false;
	spin_unlock_irq(&dm->lock);
	if (stopped)
		return;

	clean(dm, tick);

	/* Who holds the room gives it back without telling: so look again soon. */
	spin_lock_irq(&dm->lock);
	if (dm->starved && !dm->stopped) {
		queue_work(dm->wq, &dm->work);
		queue_delayed_work(dm->wq, &dm->cleaner, 1);
	}
	spin_unlock_irq(&dm->lock);
}

void dirty_clean_kick(struct dirty_map *dm)
{
	spin_lock_irq(&dm->lock);
	if (!dm->stopped)
		mod_delayed_work(dm->wq, &dm->cleaner, 0);
	spin_unlock_irq(&dm->lock);
}

int dirty_clean_log(struct dirty_map *dm)
{
	struct activity *a = &dm->activity;
	unsigned int i;

	lockdep_assert_held(&dm->table);
	for (i = 0; a->slots && i < LOCKSTEP_ENTRIES; i++)
		if (a->slots[i].state != SLOT_EMPTY)
			activity_set(a, &a->slots[i], SLOT_EMPTY);
	return map_image_update(dm);
}
