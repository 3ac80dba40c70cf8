// SPDX-License-Identifier: GPL-2.0-only
#include "dirty-map.h"

#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "dirty-clean.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "map-image.h"
#include "metadata.h"
#include "mirror.h"
#include "zero.h"

TEST_KNOB(bool, cleans_parting, "a suspend cleans the map beside a leg that has just died");
TEST_KNOB(bool, widens_unlooked, "what a message makes dirty is written, whoever has used the leg");
TEST_KNOB(uint, slow_wait, "ms from when the home is seen dead to when marks wait for another one");
TEST_KNOB(bool, no_activity_log, "marks go to the map's bits, without a bound");
TEST_KNOB(uint, log_slots, "so many regions the activity log names at most, whatever dirty_limit is");
TEST_KNOB(bool, starved_stays, "who was refused, as another host has used the leg, waits for room");
TEST_KNOB(bool, pin_hurries, "a leg's metadata are moved beside a cleaner that is about to write to it");
TEST_KNOB(bool, room_forgotten, "who waits for room while the map is held waits for a tick of the cleaner");

static bool marked(const struct dirty_map *dm, unsigned long region)
{
	return test_bit(region, dm->bits) || test_bit(region, dm->mapped);
}

/* Room in the log that the regions of a wait take. */
static unsigned int needs(const struct dirty_map *dm, const struct dirty_wait *wait)
{
	unsigned long region;
	unsigned int nr = 0;

	for (region = wait->first; region <= wait->last; region++)
		nr += !marked(dm, region) && activity_needs_room(&dm->activity, region);
	return nr;
}

/*
 * What the cleaner is about to take out of the map, and is wanted again, stays: it is there,
 * whatever becomes of the pages that these waits need. Before any of them is given a place.
 */
static void keep_mapped(struct dirty_map *dm, const struct list_head *batch)
{
	const struct dirty_wait *wait;
	unsigned long region;

	list_for_each_entry(wait, batch, link)
		for (region = wait->first; region <= wait->last; region++)
			if (test_bit(region, dm->mapped))
				set_bit(region, dm->bits);
}

/* Is a region of it to be named by the log, in memory; true if it is durably so already. */
static void place(struct dirty_map *dm, const struct dirty_wait *wait, bool log)
{
	unsigned long region;

	for (region = wait->first; region <= wait->last; region++) {
		struct activity_slot *slot;

		if (marked(dm, region))
			continue;
		slot = activity_find(&dm->activity, region);
		/* The log names it still. */
		if (slot && slot->state != SLOT_NEW)
			activity_set(&dm->activity, slot, SLOT_ACTIVE);
		else if (!slot && log)
			activity_add(&dm->activity, region);
		else if (!slot)
			map_image_set(dm, region);
	}
}

/*
 * Find a place for each wait of @batch, or for as many as there is room for; these go to
 * @placed. In turn, so that one that needs much isn't overtaken for ever.
 */
static void place_all(struct dirty_map *dm, struct list_head *batch, struct list_head *placed)
{
	struct dirty_wait *wait, *tmp;
	bool log = dm->activity.slots && mirror_may_clean(dm->m) && !test_knob(no_activity_log);

	list_for_each_entry_safe(wait, tmp, batch, link) {
		bool room = !log || needs(dm, wait) <= activity_free(&dm->activity);

		/* The room may be held by who waits for room, too: then one gets on without. */
		if (!room && !(dm->starved && time_after(jiffies, dm->since + DIRTY_PATIENCE)))
			break;
		place(dm, wait, log && room);
		list_move_tail(&wait->link, placed);
		if (!room)
			break;
	}
}

/* The pages have been written, or that has failed. */
static void settle(struct dirty_map *dm, struct list_head *placed, bool good)
{
	struct dirty_wait *wait;
	unsigned long region;

	list_for_each_entry(wait, placed, link)
		for (region = wait->first; region <= wait->last; region++) {
			if (good)
				set_bit(region, dm->bits);
			/* Not for certain; if its bit is wanted, it is written again. */
			else if (!test_bit(region, dm->bits))
				clear_bit(region, dm->mapped);
		}
}

static void finish(struct list_head *batch, blk_status_t status)
{
	struct dirty_wait *wait, *tmp;

	list_for_each_entry_safe(wait, tmp, batch, link)
		wait->done(wait, status);
}

/* Until the parting that is under way has made the other leg the home. */
static void wait_for_home(struct dirty_map *dm, struct list_head *batch)
{
	spin_lock_irq(&dm->lock);
	dm->stopped = true;
	list_splice(batch, &dm->waiting);
	spin_unlock_irq(&dm->lock);
	/* One that has failed isn't under way. */
	standing_retry(dm->m);
}

static void home_failed(struct dirty_map *dm, enum leg_id home, struct list_head *batch)
{
	/* There may be no other leg to keep the map: as if the write had failed. */
	if (mirror_leg_failed(dm->m, home))
		finish(batch, BLK_STS_IOERR);
	else
		wait_for_home(dm, batch);
}

/* Those for whom there was no room, first again. True: since now; false: as before. */
static bool wait_for_room(struct dirty_map *dm, struct list_head *batch)
{
	bool starved = !list_empty(batch), news;

	spin_lock_irq(&dm->lock);
	news = starved && !dm->starved;
	if (news)
		dm->since = jiffies;
	WRITE_ONCE(dm->starved, starved);
	list_splice(batch, &dm->waiting);
	spin_unlock_irq(&dm->lock);
	return news;
}

/* False: some wait for room. */
static bool do_waiting(struct dirty_map *dm, struct list_head *batch)
{
	enum leg_id home = mirror_home(dm->m);
	LIST_HEAD(placed);
	bool all, scarce;
	int r;

	if (READ_ONCE(dm->m->legs[home].dead)) {
		if (test_knob(slow_wait))
			msleep(test_knob(slow_wait));
		wait_for_home(dm, batch);
		return true;
	}
	r = metadata_look(dm->m, home);
	if (r) {
		LIST_HEAD(none);

		home_failed(dm, home, batch);
		if (!test_knob(starved_stays))
			(void)wait_for_room(dm, &none);
		return true;
	}
	mutex_lock(&dm->table);
	keep_mapped(dm, batch);
	place_all(dm, batch, &placed);
	all = list_empty(batch);
	dm->wanted = all ? 0 : needs(dm, list_first_entry(batch, struct dirty_wait, link));
	r = map_image_update(dm);
	settle(dm, &placed, !r);
	scarce = dm->activity.slots && dirty_clean_wanted(dm);
	mutex_unlock(&dm->table);

	/* Once somebody waits for room the cleaner comes by itself, and not all the time. */
	if (wait_for_room(dm, batch) || (all && scarce))
		dirty_clean_kick(dm);
	if (!r)
		finish(&placed, BLK_STS_OK);
	else
		home_failed(dm, home, &placed);
	return all;
}

static void dirty_work(struct work_struct *work)
{
	struct dirty_map *dm = container_of(work, struct dirty_map, work);

	for (;;) {
		LIST_HEAD(batch);

		spin_lock_irq(&dm->lock);
		if (!dm->stopped)
			list_splice_tail_init(&dm->waiting, &batch);
		spin_unlock_irq(&dm->lock);
		/* The cleaner comes back to those that wait for room. */
		if (list_empty(&batch) || !do_waiting(dm, &batch))
			return;
	}
}

static void dirty_tick(struct work_struct *work)
{
	struct dirty_map *dm = container_of(to_delayed_work(work), struct dirty_map, ticker);

	spin_lock_irq(&dm->lock);
	if (!dm->stopped) {
		dm->tick = true;
		mod_delayed_work(dm->wq, &dm->cleaner, 0);
		queue_delayed_work(dm->wq, &dm->ticker, DIRTY_TICK);
	}
	spin_unlock_irq(&dm->lock);
}

/* Core mode: nothing is written, so nobody waits. Under the lock. */
static void mark_core(struct dirty_map *dm, struct dirty_wait *wait)
{
	unsigned long region;

	for (region = wait->first; region <= wait->last; region++) {
		set_bit(region, dm->mapped);
		__set_bit(region / PAGE_REGIONS, dm->used);
		set_bit(region, dm->bits);
	}
}

/* The slow path of dirty_map_mark(). */
static bool mark_later(struct dirty_map *dm, struct dirty_wait *wait)
{
	unsigned long flags;

	spin_lock_irqsave(&dm->lock, flags);
	if (!dm->m->meta) {
		mark_core(dm, wait);
		spin_unlock_irqrestore(&dm->lock, flags);
		return true;
	}
	list_add_tail(&wait->link, &dm->waiting);
	if (!dm->stopped)
		queue_work(dm->wq, &dm->work);
	spin_unlock_irqrestore(&dm->lock, flags);
	count(&dm->m->counters, COUNT_MARKED);
	return false;
}

bool dirty_map_mark(struct dirty_map *dm, struct dirty_wait *wait, sector_t start, sector_t last)
{
	unsigned long region, end = last >> dm->shift;
	bool set = true;

	for (region = start >> dm->shift; region <= end; region++) {
		if (!test_bit(region, dm->touched))
			set_bit(region, dm->touched);
		if (!test_bit(region, dm->bits))
			set = false;
	}
	if (likely(set))
		return true;

	wait->first = start >> dm->shift;
	wait->last = end;
	return mark_later(dm, wait);
}

int dirty_map_read(struct dirty_map *dm, enum leg_id leg, unsigned long *bits)
{
	bitmap_zero(bits, dm->nr);
	return map_image_read(dm, leg, bits);
}

/* Nobody else uses the map: bits[] is what the home leg's map is to have. */
static void map_all(struct dirty_map *dm)
{
	unsigned long page;

	bitmap_copy(dm->mapped, dm->bits, dm->nr);
	for (page = 0; page < map_pages(dm); page++)
		if (!bitmap_empty(page_words(dm->mapped, page), page_nr(dm, page)))
			__set_bit(page, dm->used);
}

int dirty_map_load(struct dirty_map *dm, enum leg_id leg)
{
	int r = map_image_read(dm, leg, dm->bits);

	map_all(dm);
	return r;
}

void dirty_map_inherit(struct dirty_map *dm, const struct dirty_map *from)
{
	bitmap_or(dm->bits, from->bits, from->mapped, dm->nr);
	map_all(dm);
}

void dirty_map_fill(struct dirty_map *dm, unsigned long first)
{
	if (first < dm->nr)
		bitmap_set(dm->bits, first, dm->nr - first);
	map_all(dm);
}

void dirty_map_add_stale(struct dirty_map *dm)
{
	bitmap_or(dm->bits, dm->bits, dm->m->map.stale, dm->nr);
	map_all(dm);
}

/* So many pages are changed at a time: more than what is under way. */
#define CHANGE_PAGES	(16 * METADATA_MAP_PAGES)

/*
 * CHANGE_PAGES of the home leg's map from @page on, if there are so many: @bits (NULL: all)
 * alone, or @add: what it has, and they.
 */
static int change_pages(struct dirty_map *dm, unsigned long page, const unsigned long *bits,
			bool add)
{
	unsigned long nr = pages_nr(dm, page, CHANGE_PAGES);
	unsigned long *mapped = page_words(dm->mapped, page);
	unsigned long *set = page_words(dm->bits, page);
	unsigned long *had = dm->had;
	unsigned int i;
	int r;

	bitmap_copy(had, mapped, nr);
	if (!bits)
		bitmap_fill(mapped, nr);
	else if (add)
		bitmap_or(mapped, mapped, bits, nr);
	else
		bitmap_copy(mapped, bits, nr);
	if (bitmap_equal(had, mapped, nr))
		return 0;
	for (i = 0; i * PAGE_REGIONS < nr; i++) {
		unsigned long of = pages_nr(dm, page + i, 1), at = BIT_WORD(i * PAGE_REGIONS);

		if (bitmap_equal(had + at, mapped + at, of))
			continue;
		__set_bit(page + i, dm->used);
		__set_bit(page + i, dm->changed);
	}
	r = map_image_update(dm);
	if (r)
		/* What both the old and the new page have is there for certain. */
		bitmap_and(mapped, mapped, had, nr);
	else if (add)
		bitmap_or(set, set, mapped, nr);
	return r;
}

int dirty_map_widen(struct dirty_map *dm, const unsigned long *bits)
{
	enum leg_id home = mirror_home(dm->m);
	unsigned long page;
	int r = 0;

	lockdep_assert_held(&dm->change);
	if (dm->parked)
		return -EBUSY;
	if (home != LEGS && !test_knob(widens_unlooked))
		r = metadata_look(dm->m, home);
	mutex_lock(&dm->table);
	for (page = 0; page < map_pages(dm) && !r; page += CHANGE_PAGES) {
		r = change_pages(dm, page, bits ? bits + BIT_WORD(page_first(page)) : NULL, true);
		cond_resched();
	}
	mutex_unlock(&dm->table);
	return r;
}

int dirty_map_write(struct dirty_map *dm, enum leg_id leg)
{
	int r;

	mutex_lock(&dm->table);
	r = map_image_write(dm, leg);
	mutex_unlock(&dm->table);
	return r;
}

int dirty_map_write_whole(struct dirty_map *dm, enum leg_id leg, bool empty)
{
	int r;

	mutex_lock(&dm->table);
	r = map_image_write_whole(dm, leg, empty);
	mutex_unlock(&dm->table);
	return r;
}

/* Nobody else uses the map: bits[] is what the home leg says, as far as that is known. */
static void take_bits(struct dirty_map *dm)
{
	const struct activity *a = &dm->activity;
	unsigned int i;

	bitmap_copy(dm->bits, dm->mapped, dm->nr);
	for (i = 0; a->slots && i < LOCKSTEP_ENTRIES; i++)
		if (a->slots[i].state == SLOT_ACTIVE)
			__set_bit(a->slots[i].region, dm->bits);
}

/* Of the pages from @page to @end, page by page, as interrupts are off. */
static void copy_stale(struct dirty_map *dm, unsigned long page, unsigned long end)
{
	struct mirror *m = dm->m;
	unsigned long at;

	for (at = page; at < end; at++) {
		spin_lock_irq(&m->lock);
		bitmap_copy(page_words(dm->stale, at - page), page_words(m->map.stale, at),
			    page_nr(dm, at));
		spin_unlock_irq(&m->lock);
	}
}

int dirty_map_clean(struct dirty_map *dm)
{
	struct mirror *m = dm->m;
	unsigned long page;
	unsigned int changes;
	int r;

	/* What a leg has forgotten that has just died is stale when its parting has marked it. */
	if (mirror_parts(m, &changes) && !test_knob(cleans_parting))
		return -EAGAIN;
	r = dirty_map_empty(dm) ? mirror_flush_legs(m) : mirror_stamp_legs(m);
	r = r ?: metadata_look(m, mirror_home(m));
	if (r)
		return r;
	/* Asked under the table: what is made stale from now on waits for that. */
	mutex_lock(&dm->table);
	if (mirror_changes(m) != changes && !test_knob(cleans_parting))
		r = -EAGAIN;
	for (page = 0; page < map_pages(dm) && !r; page += CHANGE_PAGES) {
		copy_stale(dm, page, min(map_pages(dm), page + CHANGE_PAGES));
		r = change_pages(dm, page, dm->stale, false);
		cond_resched();
	}
	/* Only now: a stale region may have been named by the log alone. */
	if (!r)
		r = dirty_clean_log(dm);
	/* Whatever has failed: a bit that is no more there for certain mustn't spare a mark. */
	take_bits(dm);
	mutex_unlock(&dm->table);
	return r;
}

static enum leg_id misses(const struct mirror *m, enum leg_id leg)
{
	return leg == LEGS ? lesser_leg(m) : leg;
}

void dirty_map_to_stale(struct dirty_map *dm, enum leg_id leg)
{
	struct mirror *m = dm->m;
	unsigned long page;
	unsigned int i;

	mutex_lock(&dm->table);
	for_each_set_bit(page, dm->used, map_pages(dm)) {
		spin_lock_irq(&m->lock);
		region_map_mark_bits(&m->map, misses(m, leg), page_first(page), page_nr(dm, page),
				     page_words(dm->mapped, page));
		spin_unlock_irq(&m->lock);
		cond_resched();
	}
	for (i = 0; dm->activity.slots && i < LOCKSTEP_ENTRIES; i++) {
		const struct activity_slot *slot = &dm->activity.slots[i];

		if (slot->state != SLOT_ACTIVE && slot->state != SLOT_LEAVING)
			continue;
		spin_lock_irq(&m->lock);
		region_map_mark(&m->map, misses(m, leg), region_start(&m->map, slot->region),
				region_last(&m->map, slot->region));
		spin_unlock_irq(&m->lock);
	}
	mutex_unlock(&dm->table);
}

void dirty_map_stop(struct dirty_map *dm)
{
	spin_lock_irq(&dm->lock);
	dm->stopped = true;
	spin_unlock_irq(&dm->lock);
	cancel_delayed_work_sync(&dm->ticker);
	flush_work(&dm->work);
	cancel_delayed_work_sync(&dm->cleaner);
}

void dirty_map_run(struct dirty_map *dm)
{
	spin_lock_irq(&dm->lock);
	dm->stopped = false;
	dm->parked = false;
	queue_work(dm->wq, &dm->work);
	queue_delayed_work(dm->wq, &dm->ticker, DIRTY_TICK);
	/* The cleaner has stopped coming back to those that wait for room, or couldn't begin. */
	if (dm->starved && !test_knob(room_forgotten))
		queue_delayed_work(dm->wq, &dm->cleaner, 0);
	spin_unlock_irq(&dm->lock);
}

static void lock_change(struct dirty_map *dm)
{
	atomic_inc(&dm->waits);
	mutex_lock(&dm->change);
	atomic_dec(&dm->waits);
}

void dirty_map_pin(struct dirty_map *dm)
{
	lock_change(dm);
	WRITE_ONCE(dm->pinned, true);
	/* Who hasn't seen that waits for the superblock, and marks for him. */
	if (!test_knob(pin_hurries))
		flush_work(&dm->cleaner.work);
}

bool dirty_map_is_wanted(struct dirty_map *dm)
{
	lockdep_assert_held(&dm->change);
	return atomic_read(&dm->waits) || mirror_must_yield(dm->m);
}

void dirty_map_hold(struct dirty_map *dm)
{
	lock_change(dm);
	WRITE_ONCE(dm->pinned, true);
	dirty_map_stop(dm);
}

void dirty_map_release(struct dirty_map *dm)
{
	WRITE_ONCE(dm->pinned, false);
	if (!dm->parked)
		dirty_map_run(dm);
	mutex_unlock(&dm->change);
}

void dirty_map_park(struct dirty_map *dm)
{
	lockdep_assert_held(&dm->change);
	dm->parked = true;
	WRITE_ONCE(dm->pinned, false);
	mutex_unlock(&dm->change);
}

void dirty_map_unpark(struct dirty_map *dm)
{
	lock_change(dm);
	dirty_map_run(dm);
	mutex_unlock(&dm->change);
}

void dirty_map_fail(struct dirty_map *dm, blk_status_t status)
{
	LIST_HEAD(batch);

	spin_lock_irq(&dm->lock);
	list_splice_init(&dm->waiting, &batch);
	spin_unlock_irq(&dm->lock);
	finish(&batch, status);
}

bool dirty_map_unclean(const struct dirty_map *dm)
{
	return !bitmap_subset(dm->bits, dm->m->map.stale, dm->nr);
}

bool dirty_map_empty(const struct dirty_map *dm)
{
	return bitmap_empty(dm->bits, dm->nr);
}

void dirty_map_tell(const struct dirty_map *dm, struct dirty_told *told)
{
	unsigned long page;

	memset(told, 0, sizeof(*told));
	if (dm->activity.slots) {
		told->named = activity_named(&dm->activity);
		told->limit = READ_ONCE(dm->activity.limit);
		told->starved = READ_ONCE(dm->starved);
	}
	told->dirty = told->named;
	for_each_set_bit(page, dm->used, map_pages(dm))
		told->dirty += bitmap_weight(page_words(dm->mapped, page), page_nr(dm, page));
	told->dirty = min(told->dirty, dm->nr);
}

/* The largest request has to have room. */
static unsigned int slots_for(const struct dirty_map *dm, unsigned int mib)
{
	if (test_knob(log_slots))
		return test_knob(log_slots);
	return activity_slots((u64)mib << 11, dm->shift, (ZERO_MAX_SECTORS >> dm->shift) + 2);
}

void dirty_map_set_limit(struct dirty_map *dm, unsigned int mib)
{
	if (!dm->activity.slots)
		return;
	mutex_lock(&dm->table);
	activity_set_limit(&dm->activity, slots_for(dm, mib));
	mutex_unlock(&dm->table);
	dirty_clean_kick(dm);
}

int dirty_map_create(struct dirty_map *dm, struct mirror *m, unsigned long nr, unsigned int shift,
		     unsigned int limit_mib)
{
	unsigned long **all[] = { &dm->bits, &dm->touched, &dm->mapped, &dm->used, &dm->changed };
	unsigned long some;
	unsigned int i;

	dm->m = m;
	dm->nr = nr;
	dm->shift = shift;
	dm->stopped = true;
	mutex_init(&dm->change);
	mutex_init(&dm->table);
	spin_lock_init(&dm->lock);
	INIT_LIST_HEAD(&dm->waiting);
	INIT_WORK(&dm->work, dirty_work);
	INIT_DELAYED_WORK(&dm->cleaner, dirty_clean_work);
	INIT_DELAYED_WORK(&dm->ticker, dirty_tick);

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		*all[i] = kvcalloc(BITS_TO_LONGS(i < 3 ? nr : map_pages(dm)), sizeof(long),
				   GFP_KERNEL);
		if (!*all[i])
			return -ENOMEM;
	}
	if (m->meta && activity_create(&dm->activity, slots_for(dm, limit_mib)))
		return -ENOMEM;
	dm->pages = kvmalloc(TRANSFER_MAP_BYTES, GFP_KERNEL);
	some = pages_nr(dm, 0, CHANGE_PAGES);
	dm->had = kvcalloc(BITS_TO_LONGS(some), sizeof(long), GFP_KERNEL);
	dm->stale = kvcalloc(BITS_TO_LONGS(some), sizeof(long), GFP_KERNEL);
	dm->wq = alloc_workqueue("lockstep-map", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return dm->pages && dm->had && dm->stale && dm->wq ? 0 : -ENOMEM;
}

void dirty_map_destroy(struct dirty_map *dm)
{
	unsigned long *all[] = { dm->bits, dm->touched, dm->mapped, dm->used, dm->changed };
	unsigned int i;

	if (dm->wq) {
		dirty_map_stop(dm);
		destroy_workqueue(dm->wq);
	}
	kvfree(dm->pages);
	kvfree(dm->had);
	kvfree(dm->stale);
	activity_destroy(&dm->activity);
	for (i = 0; i < ARRAY_SIZE(all); i++)
		kvfree(all[i]);
}
