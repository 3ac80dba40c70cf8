/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Map image: the dirty map and its activity log as a leg has them: from memory to its
 * pages, and back.
 *
 * All but the helpers sleep, for as long as the leg takes. The dirty map's mutex is held
 * (dirty-map.h), but for reading. 0 or an errno.
 */
#ifndef LOCKSTEP_MAP_IMAGE_H
#define LOCKSTEP_MAP_IMAGE_H

#include <linux/bitmap.h>
#include <linux/mutex.h>
#include <linux/sched.h>

#include "dirty-map.h"
#include "lockstep-format.h"

/* Regions of one 512-byte sector of the map, and of one page. */
#define SECTOR_REGIONS	LOCKSTEP_MAP_BITS
#define PAGE_REGIONS	((unsigned long)SECTOR_REGIONS * LOCKSTEP_MAP_PAGE)

static inline unsigned long map_pages(const struct dirty_map *dm)
{
	return DIV_ROUND_UP(dm->nr, PAGE_REGIONS);
}

static inline unsigned long page_first(unsigned long page)
{
	return page * PAGE_REGIONS;
}

/* The regions of a page, of which the last one may have fewer. */
static inline unsigned long page_nr(const struct dirty_map *dm, unsigned long page)
{
	return min(dm->nr - page_first(page), PAGE_REGIONS);
}

/* Likewise of @n of them. */
static inline unsigned long pages_nr(const struct dirty_map *dm, unsigned long page, unsigned int n)
{
	return min(dm->nr - page_first(page), n * PAGE_REGIONS);
}

static inline unsigned long *page_words(unsigned long *bits, unsigned long page)
{
	BUILD_BUG_ON(SECTOR_REGIONS % 64);
	return bits + BIT_WORD(page_first(page));
}

/* Marks get their turn: nobody waits for more than a page of a walk, or one write. */
static inline void let_marks_in(struct dirty_map *dm)
{
	mutex_unlock(&dm->table);
	cond_resched();
	mutex_lock(&dm->table);
}

/* In memory; the page is changed. */
void map_image_set(struct dirty_map *dm, unsigned long region);

/*
 * Write the pages of mapped[] and of the log that are changed to the home leg. After an
 * error none is any more: the next change writes all of its page.
 */
int __must_check map_image_update(struct dirty_map *dm);

/* To any leg: all pages of mapped[] that have a bit, and all of the log. */
int __must_check map_image_write(struct dirty_map *dm, enum leg_id leg);

/*
 * Likewise all pages that the leg has room for; @empty: as if nothing were dirty, with the mutex
 * let go between the writes. -EAGAIN: others want the map (dirty_map_is_wanted()).
 */
int __must_check map_image_write_whole(struct dirty_map *dm, enum leg_id leg, bool empty);

/* What the leg says, added to @bits. */
int __must_check map_image_read(struct dirty_map *dm, enum leg_id leg, unsigned long *bits);

#endif
