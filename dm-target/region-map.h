/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Region map: in which regions one leg, the target, misses what the other has.
 *
 * One bit for each region: set = the target's copy of the region is stale, i.e.
 * it may miss a write that the other leg, the source, has, and must be copied
 * from there. A leg is "current" in a region unless it is the target and the
 * bit is set. While no bit is set there is no target.
 *
 * Invariants:
 *  - at most one leg is stale anywhere: so the direction of a resync is a
 *    property of the mirror, never of a region, and no direction is guessed;
 *  - a bit is set before the write that made it true is acknowledged;
 *  - a bit is cleared only by the resync, after it has copied the whole
 *    region, and only if marks hasn't moved meanwhile: then no write failed on
 *    the target while the copying went on.
 *
 * This map is what the running mirror knows. What outlives it is the dirty map
 * (dirty-map.h), which covers every bit that is set here.
 *
 * Locking: all functions but create and destroy are called under the mirror's
 * state lock. They don't sleep, and none looks at more than REGION_PIECE regions, or
 * those of one request. Units: sectors of 512 bytes; a region is 1 << shift sectors,
 * the last one may be shorter.
 */
#ifndef LOCKSTEP_REGION_MAP_H
#define LOCKSTEP_REGION_MAP_H

#include <linux/types.h>

#include "leg.h"

struct region_map {
	sector_t len;
	unsigned int shift;
	unsigned long nr;
	enum leg_id target;		/* meaningless while nr_stale is 0 */
	unsigned long *stale;
	unsigned long *blocks;		/* of REGION_BLOCK regions, that have or had any stale */
	unsigned long nr_stale;
	u64 marks;
};

#define REGION_NONE	ULONG_MAX
/* A multiple of a word's bits. */
#define REGION_BLOCK	4096ul
/*
 * What is about more regions than one request has is done in pieces of so many at most, and
 * the lock is dropped in between: some microseconds each.
 */
#define REGION_PIECE	65536ul
/* 32 MiB of memory */
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

/* May the leg be marked: isn't it the source? */
static inline bool region_map_takes(const struct region_map *map, enum leg_id leg)
{
	return !map->nr_stale || map->target == leg;
}

/**
 * region_map_mark - the leg may miss a write in [start, last]
 *
 * For the leg that is the target, or if there is none: a caller that marks the
 * source has a bug, is warned, and changes nothing. Returns true if a region
 * that was current has become stale.
 */
bool region_map_mark(struct region_map *map, enum leg_id leg, sector_t start, sector_t last);

/*
 * Likewise for a piece: those of the @nr regions from @first on whose bit is set in @bits;
 * NULL: all of them. @first is a multiple of a word's bits and is bits[0]'s first.
 */
void region_map_mark_bits(struct region_map *map, enum leg_id leg, unsigned long first,
			  unsigned long nr, const unsigned long *bits);

/* Is the leg current in all of [start, last]? */
bool __must_check region_map_current(const struct region_map *map, enum leg_id leg,
				     sector_t start, sector_t last);

/* Is the leg stale in this region? */
bool __must_check region_map_stale(const struct region_map *map, enum leg_id leg,
				   unsigned long region);

/* The region has been copied to the target, @leg. */
void region_map_clear(struct region_map *map, enum leg_id leg, unsigned long region);

/* First region at or after @from that is stale, or REGION_NONE. */
unsigned long region_map_next(const struct region_map *map, unsigned long from);

/* Within a piece: the first one from @from on that isn't stale, or where the piece ends. */
unsigned long region_map_skip(const struct region_map *map, unsigned long from);

/*
 * Take over what another map of the same two legs knows; sizes and region
 * sizes may differ. What is stale there becomes stale here; what lies beyond
 * the other map's end keeps the state it has here. One piece from *at on, which begins as 0;
 * returns true if it was the last.
 */
bool __must_check region_map_inherit(struct region_map *map, const struct region_map *from,
				     unsigned long *at);

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

/* Regions that are stale on this leg. */
static inline unsigned long region_map_nr_stale(const struct region_map *map, enum leg_id leg)
{
	return leg == map->target ? map->nr_stale : 0;
}

/* Regions in which both legs are current. */
static inline unsigned long region_map_in_sync(const struct region_map *map)
{
	return map->nr - map->nr_stale;
}

static inline bool region_map_all_in_sync(const struct region_map *map)
{
	return !map->nr_stale;
}

#endif
