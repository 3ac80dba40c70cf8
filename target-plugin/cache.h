/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The read cache: blocks, a page each, that were read from the data disk or the
 * log. When it is full, those go that were not read for the longest time. What is
 * in the NVRAM's slots isn't here: they are memory.
 *
 * A reader asks the index first, as without a cache, and then here with what the
 * index has said: of which origin the bytes are that it wants. So a block is known
 * by its place on the data disk and its origin:
 *
 * - A range in the log: the value of the index. There is one such value for each
 *   entry, and its bytes never change.
 * - The data disk (NULL). Its bytes change by destaging only, but for a leg's superblock
 *   (beyond.h, which calls the same function behind its writes), and from before that
 *   until dcd_cache_destaged() has gone by the index names another origin.
 *
 * So a write, discard or zeroing makes what is here stale by its way into the
 * index, before its answer, and pays nothing for it. Destaging changes nothing that
 * a reader sees: before the index forgets a range its old bytes are let go, and
 * the new ones, if they are here as the log's, become the data disk's.
 *
 * The race: a read asks the index, which says data disk; then a write comes, is
 * destaged and forgotten; then the disk's answer arrives, with the old bytes. So a
 * reader looks at the clocks of its part of the disk before it asks the index, and
 * dcd_cache_put() takes nothing if they have moved on since; dcd_cache_destaged()
 * moves them before it looks for blocks to let go, so either it finds the block
 * or put() sees the clock. (An index that is asked after the clock was moved has
 * the range still, or the disk has its new bytes.)
 *
 * A disk reads into a block before the cache has it, and the reader gets a copy:
 * what a reader does with its memory meanwhile never gets here. Nor does a read
 * that failed. Reads that are part of a long sequence use what is there and leave
 * nothing.
 *
 * Locks: each shard has its own, with interrupts off, for a copy at most; nothing
 * is taken inside. Any context but for new, free and bound.
 */
#ifndef DCD_CACHE_H
#define DCD_CACHE_H

#include <linux/blkdev.h>
#include <linux/list.h>
#include <linux/types.h>

#include "dcd.h"

struct dcd_cache;
struct dcd_engine;
struct dcd_place;

struct dcd_block {
	struct hlist_node hash;
	struct list_head list;		/* of a shard, or whoever reads into it */
	struct page *page;
	u64 number;			/* sector / PAGE_SECTORS */
	const void *origin;
	DECLARE_BITMAP(there, PAGE_SECTORS);
};

/* Of no size: off. NULL: no memory. May sleep, as free and bound. */
struct dcd_cache * __must_check dcd_cache_new(struct dcd_engine *e);
/* No read is under way. NULL is fine. */
void dcd_cache_free(struct dcd_cache *c);
/*
 * So much memory may it take, all in all; 0: none. -ENOMEM leaves it as it was.
 * One caller at a time.
 */
int __must_check dcd_cache_bound(struct dcd_cache *c, size_t bytes);
/* Bytes: what it has, and may have. */
u64 dcd_cache_used(const struct dcd_cache *c);
u64 dcd_cache_most(const struct dcd_cache *c);

/* A read begins, before it asks the index: sets its gather's members. */
void dcd_cache_begin(struct dcd_cache *c, struct dcd_request *rq);
/* Likewise a read that has the rest of one that has begun: its times are those of its own range. */
void dcd_cache_go_on(struct dcd_cache *c, struct dcd_request *rq);
/*
 * The first sectors of a place that isn't in a slot, as many as are here one after
 * the other: copied into the request. How many; negative: its memory is too short.
 */
int dcd_cache_copy(struct dcd_cache *c, struct dcd_request *rq, const struct dcd_place *p);

/* Sectors from @sector up to the end of its block, or to @last. */
static inline u32 dcd_block_part(sector_t sector, sector_t last)
{
	return min_t(sector_t, PAGE_SECTORS - sector % PAGE_SECTORS, last - sector + 1);
}

static inline u32 dcd_block_offset(sector_t sector)
{
	return (sector % PAGE_SECTORS) << SECTOR_SHIFT;
}

/*
 * A block to read sectors of one block into, from @sector on; the caller's, who
 * gives it back by one of the two below. NULL: there is no memory now, or others
 * need it more.
 */
struct dcd_block *dcd_cache_take(struct dcd_cache *c, sector_t sector, const void *origin);
/* It has been read, these sectors of it, as a part of @rq. */
void dcd_cache_put(struct dcd_cache *c, const struct dcd_request *rq, struct dcd_block *b,
		   sector_t sector, u32 sectors);
void dcd_cache_drop(struct dcd_cache *c, struct dcd_block *b);

/*
 * The data disk has what @p says, durable, and the index will forget it. Needs
 * @intake.
 */
void dcd_cache_destaged(struct dcd_cache *c, const struct dcd_place *p);

#endif /* DCD_CACHE_H */
