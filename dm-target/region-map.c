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

	memset(map, 0, sizeof(*map));
	if (nr > REGIONS_MAX)
		return -E2BIG;

	map->len = len;
	map->shift = shift;
	map->nr = nr;
	map->target = LEG_REMOTE;
	map->stale = kvcalloc(BITS_TO_LONGS(map->nr), sizeof(long), GFP_KERNEL);
	return map->stale ? 0 : -ENOMEM;
}

void region_map_destroy(struct region_map *map)
{
	kvfree(map->stale);
	map->stale = NULL;
}

/* May bits be set for this leg? */
static bool take_target(struct region_map *map, enum leg_id leg)
{
	if (WARN_ON_ONCE(map->nr_stale && map->target != leg))
		return false;
	map->target = leg;
	return true;
}

bool region_map_mark(struct region_map *map, enum leg_id leg, sector_t start, sector_t last)
{
	unsigned long region;
	bool news = false;

	if (!take_target(map, leg))
		return false;
	for (region = region_of(map, start); region <= region_of(map, last); region++) {
		if (test_bit(region, map->stale))
			continue;
		__set_bit(region, map->stale);
		map->nr_stale++;
		news = true;
	}
	/* Also for a region that was stale already: a resync may be copying it. */
	map->marks++;
	return news;
}

bool region_map_mark_all(struct region_map *map, enum leg_id leg)
{
	bool news = map->nr_stale != map->nr;

	if (!take_target(map, leg))
		return false;
	bitmap_fill(map->stale, map->nr);
	map->nr_stale = map->nr;
	map->marks++;
	return news;
}

void region_map_mark_bits(struct region_map *map, enum leg_id leg, const unsigned long *bits)
{
	if (!take_target(map, leg))
		return;
	bitmap_or(map->stale, map->stale, bits, map->nr);
	map->nr_stale = bitmap_weight(map->stale, map->nr);
	map->marks++;
}

bool region_map_current(const struct region_map *map, enum leg_id leg,
			sector_t start, sector_t last)
{
	unsigned long end = region_of(map, last) + 1;

	if (!region_map_nr_stale(map, leg))
		return true;
	return find_next_bit(map->stale, end, region_of(map, start)) >= end;
}

bool region_map_stale(const struct region_map *map, enum leg_id leg, unsigned long region)
{
	return region_map_nr_stale(map, leg) && test_bit(region, map->stale);
}

void region_map_clear(struct region_map *map, enum leg_id leg, unsigned long region)
{
	if (WARN_ON_ONCE(!region_map_stale(map, leg, region)))
		return;
	__clear_bit(region, map->stale);
	map->nr_stale--;
}

unsigned long region_map_next(const struct region_map *map, unsigned long from)
{
	unsigned long next = map->nr;

	if (map->nr_stale)
		next = find_next_bit(map->stale, map->nr, from);
	return next < map->nr ? next : REGION_NONE;
}

void region_map_inherit(struct region_map *map, const struct region_map *from)
{
	sector_t common = min(map->len, from->len);
	unsigned long region;

	/*
	 * A region of the new map that reaches beyond the common part keeps its
	 * staleness, so only regions wholly inside are cleared first.
	 */
	for (region = 0; map->nr_stale && region < map->nr; region++) {
		if (region_last(map, region) >= common)
			break;
		if (test_bit(region, map->stale))
			region_map_clear(map, map->target, region);
	}
	/*
	 * What lies beyond has been marked on the remote leg; the source of the
	 * old map has the truth of that part as much as anyone.
	 */
	if (from->nr_stale)
		map->target = from->target;
	for (region = 0; from->nr_stale && region < from->nr; region++) {
		if (!test_bit(region, from->stale))
			continue;
		if (region_start(from, region) >= common)
			break;
		region_map_mark(map, from->target, region_start(from, region),
				min(region_last(from, region), common - 1));
	}
}
