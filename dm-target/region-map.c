// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bitmap.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "region-map.h"

int region_map_create(struct region_map *map, sector_t len, unsigned int shift)
{
	sector_t nr = ((len - 1) >> shift) + 1;
	enum leg_id leg;

	memset(map, 0, sizeof(*map));
	if (nr > REGIONS_MAX)
		return -E2BIG;

	map->len = len;
	map->shift = shift;
	map->nr = nr;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		map->stale[leg] = kvcalloc(BITS_TO_LONGS(map->nr), sizeof(long), GFP_KERNEL);
		if (!map->stale[leg]) {
			region_map_destroy(map);
			return -ENOMEM;
		}
	}
	return 0;
}

void region_map_destroy(struct region_map *map)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		kvfree(map->stale[leg]);
		map->stale[leg] = NULL;
	}
}

static bool mark_regions(struct region_map *map, enum leg_id leg,
			 unsigned long first, unsigned long last)
{
	enum leg_id other = other_leg(leg);
	unsigned long region;
	bool news = false;

	for (region = first; region <= last; region++) {
		if (test_bit(region, map->stale[other]) || test_bit(region, map->stale[leg]))
			continue;
		__set_bit(region, map->stale[leg]);
		map->nr_stale[leg]++;
		news = true;
	}
	/* Also for a region that was stale already: a resync may be copying it. */
	map->marks[leg]++;
	return news;
}

bool region_map_mark(struct region_map *map, enum leg_id leg, sector_t start, sector_t last)
{
	return mark_regions(map, leg, region_of(map, start), region_of(map, last));
}

bool region_map_mark_all(struct region_map *map, enum leg_id leg)
{
	const unsigned long *other = map->stale[other_leg(leg)];
	unsigned long *stale = map->stale[leg];
	unsigned long before = map->nr_stale[leg];
	unsigned long i;

	/* Word by word: this runs with interrupts off. */
	for (i = 0; i < BITS_TO_LONGS(map->nr); i++)
		stale[i] |= ~other[i];
	if (map->nr % BITS_PER_LONG)
		stale[map->nr / BITS_PER_LONG] &= BITMAP_LAST_WORD_MASK(map->nr);
	map->nr_stale[leg] = map->nr - map->nr_stale[other_leg(leg)];
	map->marks[leg]++;
	return map->nr_stale[leg] != before;
}

bool region_map_current(const struct region_map *map, enum leg_id leg,
			sector_t start, sector_t last)
{
	unsigned long end = region_of(map, last) + 1;

	if (!map->nr_stale[leg])
		return true;
	return find_next_bit(map->stale[leg], end, region_of(map, start)) >= end;
}

bool region_map_stale(const struct region_map *map, enum leg_id leg, unsigned long region)
{
	return test_bit(region, map->stale[leg]);
}

void region_map_clear(struct region_map *map, enum leg_id leg, unsigned long region)
{
	if (WARN_ON_ONCE(!test_bit(region, map->stale[leg])))
		return;
	__clear_bit(region, map->stale[leg]);
	map->nr_stale[leg]--;
}

unsigned long region_map_next(const struct region_map *map, unsigned long from)
{
	unsigned long next = map->nr;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (map->nr_stale[leg])
			next = min(next, find_next_bit(map->stale[leg], map->nr, from));
	return next < map->nr ? next : REGION_NONE;
}

void region_map_inherit(struct region_map *map, const struct region_map *from)
{
	sector_t common = min(map->len, from->len);
	unsigned long region;
	enum leg_id leg;

	/*
	 * A region of the new map that reaches beyond the common part keeps its
	 * staleness, so only regions wholly inside are cleared first.
	 */
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		for (region = 0; region < map->nr; region++) {
			if (region_last(map, region) >= common)
				break;
			if (test_bit(region, map->stale[leg]))
				region_map_clear(map, leg, region);
		}

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		for (region = 0; region < from->nr; region++) {
			if (!test_bit(region, from->stale[leg]))
				continue;
			if (region_start(from, region) >= common)
				break;
			region_map_mark(map, leg, region_start(from, region),
					min(region_last(from, region), common - 1));
		}
}
