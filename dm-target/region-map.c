// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bitmap.h>
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "region-map.h"

static unsigned long nr_blocks(const struct region_map *map)
{
	return DIV_ROUND_UP(map->nr, REGION_BLOCK);
}

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
	map->blocks = kvcalloc(BITS_TO_LONGS(nr_blocks(map)), sizeof(long), GFP_KERNEL);
	return map->stale && map->blocks ? 0 : -ENOMEM;
}

void region_map_destroy(struct region_map *map)
{
	kvfree(map->stale);
	kvfree(map->blocks);
	map->stale = NULL;
	map->blocks = NULL;
}

static bool take_target(struct region_map *map, enum leg_id leg)
{
	if (WARN_ON_ONCE(!region_map_takes(map, leg)))
		return false;
	map->target = leg;
	return true;
}

/* Set bits of one word. */
static bool set_word(struct region_map *map, unsigned long word, unsigned long bits)
{
	unsigned long news = bits & ~map->stale[word];

	if (!news)
		return false;
	map->stale[word] |= news;
	map->nr_stale += hweight_long(news);
	__set_bit(word * BITS_PER_LONG / REGION_BLOCK, map->blocks);
	return true;
}

/* The bits of a word that are in [first, last]. */
static unsigned long mask_of(unsigned long word, unsigned long first, unsigned long last)
{
	unsigned long mask = ~0ul;

	if (word == BIT_WORD(first))
		mask &= BITMAP_FIRST_WORD_MASK(first);
	if (word == BIT_WORD(last))
		mask &= BITMAP_LAST_WORD_MASK(last + 1);
	return mask;
}

bool region_map_mark(struct region_map *map, enum leg_id leg, sector_t start, sector_t last)
{
	unsigned long from = region_of(map, start), to = region_of(map, last), word;
	bool news = false;

	if (!take_target(map, leg))
		return false;
	for (word = BIT_WORD(from); word <= BIT_WORD(to); word++)
		news |= set_word(map, word, mask_of(word, from, to));
	/* Also for a region that was stale already: a resync may be copying it. */
	map->marks++;
	return news;
}

void region_map_mark_bits(struct region_map *map, enum leg_id leg, unsigned long first,
			  unsigned long nr, const unsigned long *bits)
{
	unsigned long last = first + nr - 1, word;

	if (!nr || !take_target(map, leg))
		return;
	for (word = BIT_WORD(first); word <= BIT_WORD(last); word++)
		set_word(map, word, mask_of(word, first, last) &
				    (bits ? bits[word - BIT_WORD(first)] : ~0ul));
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

/* So that region_map_next() doesn't look at it any more. */
static void tidy_block(struct region_map *map, unsigned long block)
{
	unsigned long end = min((block + 1) * REGION_BLOCK, map->nr);

	if (find_next_bit(map->stale, end, block * REGION_BLOCK) >= end)
		__clear_bit(block, map->blocks);
}

void region_map_clear(struct region_map *map, enum leg_id leg, unsigned long region)
{
	if (WARN_ON_ONCE(!region_map_stale(map, leg, region)))
		return;
	__clear_bit(region, map->stale);
	map->nr_stale--;
	tidy_block(map, region / REGION_BLOCK);
}

unsigned long region_map_next(const struct region_map *map, unsigned long from)
{
	unsigned long block = from / REGION_BLOCK, next, end;

	while (map->nr_stale && from < map->nr) {
		end = min((block + 1) * REGION_BLOCK, map->nr);
		next = find_next_bit(map->stale, end, from);
		if (next < end)
			return next;
		block = find_next_bit(map->blocks, nr_blocks(map), block + 1);
		from = block * REGION_BLOCK;
	}
	return REGION_NONE;
}

unsigned long region_map_skip(const struct region_map *map, unsigned long from)
{
	unsigned long end = min(from + REGION_PIECE, map->nr);

	return map->nr_stale ? find_next_zero_bit(map->stale, end, from) : from;
}

static void clear_range(struct region_map *map, unsigned long first, unsigned long last)
{
	unsigned long word, block;

	for (word = BIT_WORD(first); word <= BIT_WORD(last); word++) {
		unsigned long bits = map->stale[word] & mask_of(word, first, last);

		map->stale[word] &= ~bits;
		map->nr_stale -= hweight_long(bits);
	}
	for (block = first / REGION_BLOCK; block <= last / REGION_BLOCK; block++)
		tidy_block(map, block);
}

/*
 * Regions of the new map that one step looks at: the old one may have many for each of them. If
 * every other region is stale each is a mark of its own, at some 14 ns: so it is less than a piece.
 */
static unsigned long inherit_piece(const struct region_map *map, const struct region_map *from)
{
	unsigned int finer = map->shift > from->shift ? map->shift - from->shift : 0;

	return max(REGION_PIECE / 16 >> finer, 1ul);
}

/* What is stale in the other map, of the sectors [at, last] that both have. */
static void inherit_marks(struct region_map *map, const struct region_map *from, sector_t at,
			  sector_t last)
{
	unsigned long end = region_of(from, last) + 1, old;
	sector_t to;

	while (at <= last) {
		old = find_next_bit(from->stale, end, region_of(from, at));
		if (old >= end)
			return;
		at = max(at, region_start(from, old));
		to = min(last, region_last(from, old));
		region_map_mark(map, from->target, at, to);
		at = region_start(map, region_of(map, to) + 1);
	}
}

bool region_map_inherit(struct region_map *map, const struct region_map *from, unsigned long *at)
{
	sector_t common = min(map->len, from->len);
	unsigned long end = min(*at + inherit_piece(map, from), map->nr);
	/*
	 * A region of the new map that reaches beyond the common part keeps its
	 * staleness, so only regions wholly inside are cleared first.
	 */
	unsigned long whole = common == map->len ? map->nr : region_of(map, common);
	unsigned long clear = *at < whole ? min(end, whole) - *at : 0;

	/*
	 * What lies beyond has been marked on the remote leg; the source of the
	 * old map has the truth of that part as much as anyone.
	 */
	if (from->nr_stale)
		map->target = from->target;
	if (map->nr_stale && clear)
		clear_range(map, *at, *at + clear - 1);
	if (from->nr_stale && region_start(map, *at) < common)
		inherit_marks(map, from, region_start(map, *at),
			      min(region_last(map, end - 1), common - 1));
	*at = end;
	return end == map->nr;
}
