/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Region map: which leg holds the truth of which region.
 *
 * One bit for each leg and region: set = this leg's copy of the region is
 * stale, i.e. it may miss a write that the other leg has, and must be copied
 * from there. A leg is "current" in a region where its bit is clear.
 *
 * Invariants:
 *  - a region is never stale on both legs: the leg that is current is the one
 *    to read from and to copy from, so no direction is ever guessed;
 *  - a bit is set before the write that made it true is acknowledged;
 *  - a bit is cleared only by the resync, after it has copied the whole
 *    region, and only if marks() of that leg hasn't moved meanwhile: then no
 *    write failed on the leg while the copying went on.
 *
 * This map is in core memory only and knows nothing after a restart of the
 * host (issue 3 puts it on the legs; nothing outside this file knows that it
 * is a pair of bitmaps).
 *
 * Locking: all functions but create and destroy are called under the mirror's
 * state lock. They don't sleep. Units: sectors of 512 bytes; a region is
 * 1 << shift sectors, the last one may be shorter.
 */
#ifndef LOCKSTEP_REGION_MAP_H
#define LOCKSTEP_REGION_MAP_H

#include <linux/types.h>

#include "leg.h"

struct region_map {
	sector_t len;
	unsigned int shift;
	unsigned long nr;
	unsigned long *stale[LEGS];
	unsigned long nr_stale[LEGS];
	u64 marks[LEGS];
};

#define REGION_NONE	ULONG_MAX
/* 32 MiB of memory for each leg; with the default region size, 256 TiB */
#define REGIONS_MAX	BIT(28)

/**
 * region_map_create - a map in which every leg is current everywhere
 * @len: sectors of the mirror, not 0
 * @shift: log2 of the sectors in a region
 *
 * May sleep. Returns 0, -ENOMEM, or -E2BIG for more than REGIONS_MAX regions.
 */
int __must_check region_map_create(struct region_map *map, sector_t len, unsigned int shift);
void region_map_destroy(struct region_map *map);

/**
 * region_map_mark - the leg may miss a write in [start, last]
 *
 * Regions where the other leg is stale are left alone: this leg stays their
 * truth. Returns true if a region that was current has become stale.
 */
bool region_map_mark(struct region_map *map, enum leg_id leg, sector_t start, sector_t last);

/* Likewise for all regions. */
bool region_map_mark_all(struct region_map *map, enum leg_id leg);

/* Is the leg current in all of [start, last]? */
bool __must_check region_map_current(const struct region_map *map, enum leg_id leg,
				     sector_t start, sector_t last);

/* Is the leg stale in this region? */
bool __must_check region_map_stale(const struct region_map *map, enum leg_id leg,
				   unsigned long region);

/* The region has been copied to the leg. */
void region_map_clear(struct region_map *map, enum leg_id leg, unsigned long region);

/* First region at or after @from that is stale on a leg, or REGION_NONE. */
unsigned long region_map_next(const struct region_map *map, unsigned long from);

/*
 * Take over what another map of the same two legs knows; sizes and region
 * sizes may differ. What is stale there becomes stale here; what lies beyond
 * the other map's end keeps the state it has here.
 */
void region_map_inherit(struct region_map *map, const struct region_map *from);

static inline sector_t region_start(const struct region_map *map, unsigned long region)
{
	return (sector_t)region << map->shift;
}

/* Inclusive. */
static inline sector_t region_last(const struct region_map *map, unsigned long region)
{
	return min_t(sector_t, map->len, region_start(map, region + 1)) - 1;
}

static inline unsigned long region_of(const struct region_map *map, sector_t sector)
{
	return sector >> map->shift;
}

/* Regions in which both legs are current. */
static inline unsigned long region_map_in_sync(const struct region_map *map)
{
	return map->nr - map->nr_stale[LEG_LOCAL] - map->nr_stale[LEG_REMOTE];
}

static inline bool region_map_all_in_sync(const struct region_map *map)
{
	return !map->nr_stale[LEG_LOCAL] && !map->nr_stale[LEG_REMOTE];
}

#endif
