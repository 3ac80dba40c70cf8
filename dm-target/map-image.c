// SPDX-License-Identifier: GPL-2.0-only
#include "map-image.h"

#include <linux/blkdev.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"

TEST_KNOB(bool, one_page, "pages of the map are written one by one");
TEST_KNOB(bool, no_holes, "each page of a map on a disk that isn't next to another is a write of its own");
TEST_KNOB(bool, whole_stays, "a map that doesn't count yet is written to its end, whoever waits");
TEST_KNOB(bool, one_map, "a page of the map that can't be read makes all of it so");

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
	DECLARE_BITMAP(read, SECTOR_REGIONS);

	memcpy(words, disk->bits, sizeof(words));
	for (unsigned long i = 0; i < ARRAY_SIZE(words); i++)
		le64_to_cpus(&words[i]);
	bitmap_from_arr64(read, words, nr);
	bitmap_or(to, to, read, nr);
}

/* @bits: NULL, all clear. @n: up to METADATA_MAP_PAGES. */
static void write_pages(struct dirty_map *dm, struct transfer_run *run, unsigned long page,
			unsigned int n, const unsigned long *bits)
{
	struct lockstep_map_sector *disk = dm->pages;
	u64 epoch = metadata_epoch(dm->m, run->leg);
	unsigned int i;

	for (i = 0; i < n * LOCKSTEP_MAP_PAGE; i++)
		put_sector(dm, &disk[i], page * LOCKSTEP_MAP_PAGE + i, epoch, bits);
	metadata_write_map(run, page, dm->pages, n);
}

/*
 * The next pages of a set, from *@page on, that are one write; 0: there are none. A disk writes
 * what is between two of them sooner than it gets to another place; by a wire that is more bytes.
 */
static unsigned int next_pages(const struct dirty_map *dm, const unsigned long *set,
			       enum leg_id leg, unsigned long *page)
{
	bool holes = leg == LEG_LOCAL && !test_knob(no_holes);
	unsigned long end = map_pages(dm);

	*page = find_next_bit(set, end, *page);
	if (*page >= end)
		return 0;
	if (test_knob(one_page))
		return 1;
	end = min(end, *page + METADATA_MAP_PAGES);
	if (!holes)
		return find_next_zero_bit(set, end, *page) - *page;
	while (!test_bit(end - 1, set))
		end--;
	return end - *page;
}

/* Some pages of the log; all of them are no more than one write. */
static void write_log(struct dirty_map *dm, struct transfer_run *run, unsigned int page,
		      unsigned int n)
{
	unsigned long at;
	unsigned int i;

	BUILD_BUG_ON(LOCKSTEP_ACTIVITY_PAGES > METADATA_MAP_PAGES);
	if (!dm->m->meta)
		return;
	at = metadata_log_page(dm->m, run->leg);
	for (i = page; i < page + n; i++)
		activity_put_page(&dm->activity, i, (at + i) * LOCKSTEP_MAP_PAGE,
				  metadata_epoch(dm->m, run->leg),
				  dm->pages + (i - page) * (LOCKSTEP_MAP_PAGE << SECTOR_SHIFT));
	metadata_write_map(run, at + page, dm->pages, n);
}

void map_image_set(struct dirty_map *dm, unsigned long region)
{
	set_bit(region, dm->mapped);
	__set_bit(region / PAGE_REGIONS, dm->used);
	__set_bit(region / PAGE_REGIONS, dm->changed);
}

int map_image_update(struct dirty_map *dm)
{
	struct transfer_run run;
	unsigned long at = 0;
	unsigned int page, n;
	int r;

	lockdep_assert_held(&dm->table);
	transfer_run_begin(&run, dm->m, mirror_home(dm->m));

	/* The map before the log: what the log names no more may be in the map since now. */
	while ((n = next_pages(dm, dm->changed, run.leg, &at))) {
		bitmap_clear(dm->changed, at, n);
		write_pages(dm, &run, at, n, dm->mapped);
		at += n;
	}
	r = transfer_run_end(&run);
	for (page = 0; page < LOCKSTEP_ACTIVITY_PAGES && !r; page += n) {
		bool changed = dm->activity.changed & BIT(page);

		for (n = 1; page + n < LOCKSTEP_ACTIVITY_PAGES; n++)
			if (changed != !!(dm->activity.changed & BIT(page + n)))
				break;
		if (changed)
			write_log(dm, &run, page, n);
	}
	r = r ?: transfer_run_end(&run);
	activity_written(&dm->activity, !r);
	return r;
}

int map_image_write(struct dirty_map *dm, enum leg_id leg)
{
	struct transfer_run run;
	unsigned long at = 0;
	unsigned int n;

	lockdep_assert_held(&dm->table);
	transfer_run_begin(&run, dm->m, leg);

	/* Those that are empty by now, too, if they are between others. */
	for (; (n = next_pages(dm, dm->used, leg, &at)); at += n)
		if (!bitmap_empty(page_words(dm->mapped, at), pages_nr(dm, at, n)))
			write_pages(dm, &run, at, n, dm->mapped);
	write_log(dm, &run, 0, LOCKSTEP_ACTIVITY_PAGES);
	return transfer_run_end(&run);
}

int map_image_write_whole(struct dirty_map *dm, enum leg_id leg, bool empty)
{
	unsigned long page, log = metadata_log_page(dm->m, leg);
	struct transfer_run run;
	unsigned int n;
	int r = 0;

	lockdep_assert_held(&dm->table);
	transfer_run_begin(&run, dm->m, leg);

	for (page = 0; page < log && !r; page += n) {
		n = min(log - page, (unsigned long)METADATA_MAP_PAGES);
		write_pages(dm, &run, page, n, empty ? NULL : dm->mapped);
		if (empty)
			let_marks_in(dm);
		if (dirty_map_is_wanted(dm) && !test_knob(whole_stays))
			r = -EAGAIN;
	}
	/* A sector that names nothing looks as one without a bit. */
	if (!r && empty)
		write_pages(dm, &run, log, LOCKSTEP_ACTIVITY_PAGES, NULL);
	else if (!r)
		write_log(dm, &run, 0, LOCKSTEP_ACTIVITY_PAGES);
	return transfer_run_end(&run) ?: r;
}

static void tell_damaged(struct dirty_map *dm, enum leg_id leg, unsigned long index,
			 unsigned long regions)
{
	DMWARN("%s: dirty map of the %s leg: sector %lu is damaged: all of its %lu regions count as dirty",
	       dm_table_device_name(dm->m->ti->table), leg_name(leg), index, regions);
}

/* As if it were damaged. Not if the leg doesn't answer at all, nor for trouble of our own. */
static bool is_unreadable(int r)
{
	return r && r != -ETIMEDOUT && r != -ENOMEM && !test_knob(one_map);
}

/*
 * Some pages of a leg's map, into the bits of their regions. @lost: pages that can't be read; each
 * is asked for by itself then.
 */
static int read_pages(struct dirty_map *dm, enum leg_id leg, unsigned long page, unsigned int n,
		      struct lockstep_map_sector *disk, unsigned long *bits, unsigned long *lost)
{
	u64 epoch = metadata_epoch(dm->m, leg);
	unsigned int i;
	int r;

	r = metadata_read_map(dm->m, leg, page, disk, n);
	if (is_unreadable(r) && n > 1) {
		for (i = 0, r = 0; i < n && !r; i++)
			r = read_pages(dm, leg, page + i, 1, disk, bits, lost);
		return r;
	}
	if (is_unreadable(r)) {
		bitmap_fill(page_words(bits, page), page_nr(dm, page));
		++*lost;
		return 0;
	}
	if (r)
		return r;
	for (i = 0; i < n * LOCKSTEP_MAP_PAGE; i++) {
		unsigned long index = page * LOCKSTEP_MAP_PAGE + i;

		if (!sector_nr(dm, index))
			break;
		if (map_sector_take(&disk[i], index, epoch) == MAP_SECTOR_BAD)
			tell_damaged(dm, leg, index, sector_nr(dm, index));
		get_sector(dm, &disk[i], index, bits);
	}
	return 0;
}

static void get_entries(struct dirty_map *dm, const struct lockstep_map_sector *disk,
			unsigned long *bits)
{
	unsigned int e;

	for (e = 0; e < LOCKSTEP_SECTOR_ENTRIES; e++) {
		u32 region = le32_to_cpu(disk->entries[e]) - 1;

		if (region < dm->nr)
			__set_bit(region, bits);
	}
}

/* Likewise of the log. */
static int read_log(struct dirty_map *dm, enum leg_id leg, unsigned int page, unsigned int n,
		    struct lockstep_map_sector *disk, unsigned long *bits, unsigned long *lost)
{
	unsigned long at = metadata_log_page(dm->m, leg) + page;
	u64 epoch = metadata_epoch(dm->m, leg);
	unsigned int i;
	int r;

	r = metadata_read_map(dm->m, leg, at, disk, n);
	if (is_unreadable(r) && n > 1) {
		for (i = 0, r = 0; i < n && !r; i++)
			r = read_log(dm, leg, page + i, 1, disk, bits, lost);
		return r;
	}
	if (is_unreadable(r)) {
		bitmap_fill(bits, dm->nr);
		++*lost;
		return 0;
	}
	for (i = 0; i < n * LOCKSTEP_MAP_PAGE && !r; i++) {
		unsigned long index = at * LOCKSTEP_MAP_PAGE + i;

		if (map_sector_take(&disk[i], index, epoch) == MAP_SECTOR_BAD) {
			tell_damaged(dm, leg, index, dm->nr);
			bitmap_fill(bits, dm->nr);
		} else {
			get_entries(dm, &disk[i], bits);
		}
	}
	return r;
}

int map_image_read(struct dirty_map *dm, enum leg_id leg, unsigned long *bits)
{
	unsigned long page, lost = 0;
	unsigned int n;
	void *buffer;
	int r = 0;

	if (!metadata_epoch(dm->m, leg))
		return 0;
	buffer = kvmalloc(TRANSFER_MAP_BYTES, GFP_NOIO);
	if (!buffer)
		return -ENOMEM;
	for (page = 0; page < map_pages(dm) && !r; page += n) {
		n = min(map_pages(dm) - page, (unsigned long)METADATA_MAP_PAGES);
		r = read_pages(dm, leg, page, n, buffer, bits, &lost);
		cond_resched();
	}
	if (!r)
		r = read_log(dm, leg, 0, LOCKSTEP_ACTIVITY_PAGES, buffer, bits, &lost);
	kvfree(buffer);
	if (lost)
		DMWARN("%s: dirty map of the %s leg (%s): %lu pages can't be read: all that they could name is resynced",
		       dm->m->name, leg_name(leg), leg_path(&dm->m->legs[leg]), lost);
	return r;
}
