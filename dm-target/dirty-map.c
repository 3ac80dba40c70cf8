// SPDX-License-Identifier: GPL-2.0-only
#include "dirty-map.h"

#include <linux/bitmap.h>
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "lockstep-trace.h"
#include "metadata.h"
#include "mirror.h"

/* Regions of one 512-byte sector of the map, and of one page that is written. */
#define SECTOR_REGIONS	LOCKSTEP_MAP_BITS
#define MAP_PAGE_SECTORS LOCKSTEP_MAP_PAGE
#define MAP_PAGE_BYTES	(MAP_PAGE_SECTORS << SECTOR_SHIFT)
#define PAGE_REGIONS	((unsigned long)SECTOR_REGIONS * MAP_PAGE_SECTORS)

static unsigned long nr_pages(const struct dirty_map *dm)
{
	return DIV_ROUND_UP(dm->nr, PAGE_REGIONS);
}

/* The regions of a page, of which the last one may have fewer. */
static unsigned long page_first(unsigned long page)
{
	return page * PAGE_REGIONS;
}

static unsigned long page_nr(const struct dirty_map *dm, unsigned long page)
{
	return min(dm->nr - page_first(page), PAGE_REGIONS);
}

static unsigned long *page_words(unsigned long *bits, unsigned long page)
{
	BUILD_BUG_ON(SECTOR_REGIONS % 64);
	return bits + BIT_WORD(page_first(page));
}

/* The regions of a map sector; 0 beyond the end. */
static unsigned long sector_nr(const struct dirty_map *dm, unsigned long index)
{
	unsigned long first = index * SECTOR_REGIONS;

	return first < dm->nr ? min_t(unsigned long, dm->nr - first, SECTOR_REGIONS) : 0;
}

/* Between bits of ours and the little-endian bits of a map sector. */
static void put_sector(struct dirty_map *dm, struct lockstep_map_sector *disk,
		       unsigned long index, u64 epoch, const unsigned long *bits)
{
	unsigned long nr = sector_nr(dm, index);
	u64 words[SECTOR_REGIONS / 64];

	map_sector_init(disk, index, epoch);
	if (nr && bits) {
		bitmap_to_arr64(words, bits + BIT_WORD(index * SECTOR_REGIONS), nr);
		/* cpu_to_le64_array() is not there in 6.1 and 6.12. */
		for (unsigned long i = 0; i < DIV_ROUND_UP(nr, 64); i++)
			cpu_to_le64s(&words[i]);
		memcpy(disk->bits, words, DIV_ROUND_UP(nr, 64) * sizeof(*words));
	}
	map_sector_seal(disk);
}

static void get_sector(struct dirty_map *dm, const struct lockstep_map_sector *disk,
		       unsigned long index, unsigned long *bits)
{
	unsigned long nr = sector_nr(dm, index), *to = bits + BIT_WORD(index * SECTOR_REGIONS);
	u64 words[SECTOR_REGIONS / 64];

	memcpy(words, disk->bits, sizeof(words));
	for (unsigned long i = 0; i < ARRAY_SIZE(words); i++)
		le64_to_cpus(&words[i]);
	bitmap_from_arr64(to, words, nr);
}

static void put_page_bits(struct dirty_map *dm, void *to, const unsigned long *bits,
			  unsigned long page, enum leg_id leg)
{
	struct lockstep_map_sector *disk = to;
	u64 epoch = metadata_epoch(dm->m, leg);
	unsigned int i;

	for (i = 0; i < MAP_PAGE_SECTORS; i++)
		put_sector(dm, &disk[i], page * MAP_PAGE_SECTORS + i, epoch, bits);
}

/* Worker, or stopped. */
static int write_page(struct dirty_map *dm, const unsigned long *bits, unsigned long page,
		      enum leg_id leg)
{
	put_page_bits(dm, dm->page, bits, page, leg);
	return metadata_write_map(dm->m, leg, page, dm->page);
}

/*
 * Make the home leg's map next[]; then bits[] is next[] too. After an error
 * what the page has is unknown: it counts as clear, so that every bit that is
 * wanted is written again.
 */
static int commit(struct dirty_map *dm)
{
	enum leg_id home = mirror_home(dm->m);
	unsigned long page;
	int r;

	for (page = 0; page < nr_pages(dm); page++) {
		unsigned long *next = page_words(dm->next, page);
		unsigned long *disk = page_words(dm->disk, page);
		unsigned long nr = page_nr(dm, page);

		if (bitmap_equal(next, disk, nr))
			continue;
		r = write_page(dm, dm->next, page, home);
		if (r) {
			bitmap_zero(disk, nr);
			return r;
		}
		bitmap_copy(disk, next, nr);
	}
	bitmap_copy(dm->bits, dm->next, dm->nr);
	return 0;
}

/*
 * Take out of bits[] what nobody has written for a while. A writer that comes
 * from now on waits for a page; one that was there before is seen as busy.
 * Returns true if there is something to write.
 */
static bool drop_idle(struct dirty_map *dm)
{
	unsigned long region, i;
	bool some = false;

	for (i = 0; i < BITS_TO_LONGS(dm->nr); i++) {
		unsigned long now = xchg(&dm->touched[i], 0);

		dm->next[i] = dm->bits[i] & ~now;
	}
	for_each_set_bit(region, dm->next, dm->nr) {
		clear_bit(region, dm->bits);
		if (mirror_region_busy(dm->m, region))
			set_bit(region, dm->bits);
		else
			some = true;
	}
	return some;
}

static void do_tick(struct dirty_map *dm)
{
	unsigned int changes = mirror_changes(dm->m);

	if (!mirror_may_clean(dm->m) || !drop_idle(dm))
		return;
	/* What isn't flushed, on a leg that may be dead now, is as dirty as before. */
	if (mirror_flush_legs(dm->m) || mirror_changes(dm->m) != changes) {
		spin_lock_irq(&dm->lock);
		bitmap_or(dm->bits, dm->bits, dm->disk, dm->nr);
		spin_unlock_irq(&dm->lock);
		return;
	}
	if (!dm->m->meta) {
		spin_lock_irq(&dm->lock);
		bitmap_copy(dm->disk, dm->bits, dm->nr);
		spin_unlock_irq(&dm->lock);
		return;
	}
	bitmap_copy(dm->next, dm->bits, dm->nr);
	if (commit(dm))
		(void)mirror_leg_failed(dm->m, mirror_home(dm->m));
	else
		count(&dm->m->counters, COUNT_CLEANED);
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

static void do_waiting(struct dirty_map *dm, struct list_head *batch)
{
	enum leg_id home = mirror_home(dm->m);
	struct dirty_wait *wait;

	if (READ_ONCE(dm->m->legs[home].dead)) {
		wait_for_home(dm, batch);
		return;
	}
	bitmap_copy(dm->next, dm->bits, dm->nr);
	list_for_each_entry(wait, batch, link)
		bitmap_set(dm->next, wait->first, wait->last - wait->first + 1);

	if (!commit(dm)) {
		finish(batch, BLK_STS_OK);
	} else if (mirror_leg_failed(dm->m, home)) {
		/* There is no other leg to keep the map: as if the write had failed. */
		finish(batch, BLK_STS_IOERR);
	} else {
		wait_for_home(dm, batch);
	}
}

static void dirty_work(struct work_struct *work)
{
	struct dirty_map *dm = container_of(work, struct dirty_map, work);
	LIST_HEAD(batch);
	bool tick;

	for (;;) {
		spin_lock_irq(&dm->lock);
		tick = dm->tick && !dm->stopped;
		if (tick)
			dm->tick = false;
		if (!dm->stopped)
			list_splice_tail_init(&dm->waiting, &batch);
		spin_unlock_irq(&dm->lock);

		if (!list_empty(&batch))
			do_waiting(dm, &batch);
		else if (tick)
			do_tick(dm);
		else
			return;
		INIT_LIST_HEAD(&batch);
	}
}

static void dirty_tick(struct work_struct *work)
{
	struct dirty_map *dm = container_of(to_delayed_work(work), struct dirty_map, ticker);

	spin_lock_irq(&dm->lock);
	if (!dm->stopped) {
		dm->tick = true;
		queue_work(dm->wq, &dm->work);
		queue_delayed_work(dm->wq, &dm->ticker, DIRTY_TICK);
	}
	spin_unlock_irq(&dm->lock);
}

/* The slow path of dirty_map_mark(). */
static bool mark_later(struct dirty_map *dm, struct dirty_wait *wait)
{
	unsigned long region, flags;

	spin_lock_irqsave(&dm->lock, flags);
	if (!dm->m->meta) {
		for (region = wait->first; region <= wait->last; region++) {
			set_bit(region, dm->bits);
			set_bit(region, dm->disk);
		}
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

/* One page of a leg's map, into the bits of its regions. */
static int read_page(struct dirty_map *dm, enum leg_id leg, unsigned long page,
		     void *buffer, unsigned long *bits)
{
	struct lockstep_map_sector *disk = buffer;
	u64 epoch = metadata_epoch(dm->m, leg);
	unsigned int i;
	int r;

	r = metadata_read_map(dm->m, leg, page, buffer);
	if (r)
		return r;
	for (i = 0; i < MAP_PAGE_SECTORS; i++) {
		unsigned long index = page * MAP_PAGE_SECTORS + i;

		if (!sector_nr(dm, index))
			break;
		if (map_sector_take(&disk[i], index, epoch) == MAP_SECTOR_BAD)
			DMWARN("%s: dirty map of the %s leg: sector %lu is damaged: all of its %lu regions count as dirty",
			       dm_table_device_name(dm->m->ti->table), leg_name(leg),
			       index, sector_nr(dm, index));
		get_sector(dm, &disk[i], index, bits);
	}
	return 0;
}

int dirty_map_read(struct dirty_map *dm, enum leg_id leg, unsigned long *bits)
{
	unsigned long page;
	void *buffer;
	int r = 0;

	bitmap_zero(bits, dm->nr);
	if (!metadata_epoch(dm->m, leg))
		return 0;
	buffer = kmalloc(MAP_PAGE_BYTES, GFP_NOIO);
	if (!buffer)
		return -ENOMEM;
	for (page = 0; page < nr_pages(dm) && !r; page++)
		r = read_page(dm, leg, page, buffer, bits);
	kfree(buffer);
	return r;
}

int dirty_map_load(struct dirty_map *dm, enum leg_id leg)
{
	int r = dirty_map_read(dm, leg, dm->next);

	if (!r)
		bitmap_or(dm->bits, dm->bits, dm->next, dm->nr);
	return r;
}

int dirty_map_widen(struct dirty_map *dm, const unsigned long *bits)
{
	lockdep_assert_held(&dm->change);
	if (dm->parked)
		return -EBUSY;
	if (bits)
		bitmap_or(dm->next, bits, dm->bits, dm->nr);
	else
		bitmap_fill(dm->next, dm->nr);
	return commit(dm);
}

int dirty_map_write(struct dirty_map *dm, enum leg_id leg)
{
	unsigned long page;
	int r;

	for (page = 0; page < nr_pages(dm); page++) {
		if (bitmap_empty(page_words(dm->bits, page), page_nr(dm, page)))
			continue;
		r = write_page(dm, dm->bits, page, leg);
		if (r)
			return r;
	}
	bitmap_copy(dm->disk, dm->bits, dm->nr);
	return 0;
}

int dirty_map_write_whole(struct dirty_map *dm, enum leg_id leg, bool empty)
{
	unsigned long page, pages = dm->m->meta->super[leg].map_sectors / MAP_PAGE_SECTORS;
	void *buffer = kmalloc(MAP_PAGE_BYTES, GFP_NOIO);
	int r = buffer ? 0 : -ENOMEM;

	for (page = 0; page < pages && !r; page++) {
		put_page_bits(dm, buffer, empty ? NULL : dm->bits, page, leg);
		r = metadata_write_map(dm->m, leg, page, buffer);
	}
	if (!r && !empty)
		bitmap_copy(dm->disk, dm->bits, dm->nr);
	kfree(buffer);
	return r;
}

int dirty_map_clean(struct dirty_map *dm)
{
	struct mirror *m = dm->m;
	int r;

	r = mirror_flush_legs(m);
	if (r)
		return r;
	spin_lock_irq(&m->lock);
	bitmap_copy(dm->next, m->map.stale, dm->nr);
	spin_unlock_irq(&m->lock);
	return commit(dm);
}

void dirty_map_fill(struct dirty_map *dm, unsigned long first)
{
	if (first < dm->nr)
		bitmap_set(dm->bits, first, dm->nr - first);
}

void dirty_map_stop(struct dirty_map *dm)
{
	spin_lock_irq(&dm->lock);
	dm->stopped = true;
	spin_unlock_irq(&dm->lock);
	cancel_delayed_work_sync(&dm->ticker);
	flush_work(&dm->work);
}

void dirty_map_run(struct dirty_map *dm)
{
	spin_lock_irq(&dm->lock);
	dm->stopped = false;
	dm->parked = false;
	queue_work(dm->wq, &dm->work);
	queue_delayed_work(dm->wq, &dm->ticker, DIRTY_TICK);
	spin_unlock_irq(&dm->lock);
}

void dirty_map_hold(struct dirty_map *dm)
{
	mutex_lock(&dm->change);
	dirty_map_stop(dm);
}

void dirty_map_release(struct dirty_map *dm)
{
	if (!dm->parked)
		dirty_map_run(dm);
	mutex_unlock(&dm->change);
}

void dirty_map_park(struct dirty_map *dm)
{
	lockdep_assert_held(&dm->change);
	dm->parked = true;
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

unsigned long dirty_map_weight(const struct dirty_map *dm)
{
	return bitmap_weight(dm->bits, dm->nr);
}

int dirty_map_create(struct dirty_map *dm, struct mirror *m, unsigned long nr, unsigned int shift)
{
	unsigned long **all[] = { &dm->bits, &dm->touched, &dm->disk, &dm->next };
	unsigned int i;

	dm->m = m;
	dm->nr = nr;
	dm->shift = shift;
	dm->stopped = true;
	mutex_init(&dm->change);
	spin_lock_init(&dm->lock);
	INIT_LIST_HEAD(&dm->waiting);
	INIT_WORK(&dm->work, dirty_work);
	INIT_DELAYED_WORK(&dm->ticker, dirty_tick);

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		*all[i] = kvcalloc(BITS_TO_LONGS(nr), sizeof(long), GFP_KERNEL);
		if (!*all[i])
			return -ENOMEM;
	}
	dm->page = kmalloc(MAP_PAGE_BYTES, GFP_KERNEL);
	dm->wq = alloc_workqueue("lockstep-map", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return dm->page && dm->wq ? 0 : -ENOMEM;
}

void dirty_map_destroy(struct dirty_map *dm)
{
	unsigned long *all[] = { dm->bits, dm->touched, dm->disk, dm->next };
	unsigned int i;

	if (dm->wq) {
		dirty_map_stop(dm);
		destroy_workqueue(dm->wq);
	}
	kfree(dm->page);
	for (i = 0; i < ARRAY_SIZE(all); i++)
		kvfree(all[i]);
}
