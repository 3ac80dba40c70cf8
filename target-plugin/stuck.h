/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bad places of the data disk: ranges that it didn't take while it took others, so that what
 * is to be there stays in the log, and is read from there.
 *
 * They don't hold the tail: when the log has gone far enough past them, the destager logs them
 * again at the head (again.c), which costs no more than all of them once for each quarter of the
 * ring, also while something else holds the tail. Now and then a few of them are tried, those first
 * that weren't tried for longest, so that no more than a small part of the time goes into that; a
 * disk that has replaced its sector, or was replaced, gets them then.
 *
 * There may be DCD_STUCK_RANGES of them, with 1/16 of the ring in all. A disk that has more is
 * taken for one that fails: what is above the bound keeps its place in the log, and when the
 * ring is full writes are refused. So is one that doesn't take anything else either: nothing of
 * it gets onto the list. The list is in memory only: who opens the log again finds them again.
 *
 * So is the range of a wipe that hangs (zeroes.h): whatever is written to it might be zeroes in the
 * end. It is held: nothing of it is tried, and nothing goes there past a dead log, until the
 * wipe has returned.
 *
 * Zeroes that are stuck are tried block by block, so that it is found which of them are good.
 *
 * The destager's, and only its, but for the two counts, which anybody may read (READ_ONCE).
 * Process context; dcd_stuck_others() and _look() sleep for the data disk, the rest doesn't sleep.
 */
#ifndef DCD_STUCK_H
#define DCD_STUCK_H

#include <linux/types.h>

struct dcd_engine;
struct dcd_load;
struct dcd_place;

#define DCD_STUCK_RANGES 256U

/* What is known of the worst in a range. */
enum dcd_stuck_kind {
	DCD_STUCK_FILLS,	/* zeroes, which it doesn't wipe, but has taken as a write */
	DCD_STUCK_ZEROES,	/* likewise, but none was written yet */
	DCD_STUCK_BAD,		/* it doesn't take that */
};

/* @tried: the turn of trying when that was done last; DCD_STUCK_HELD: it must not be. */
#define DCD_STUCK_HELD U32_MAX
struct dcd_stuck_range {
	sector_t sector, last;
	u32 tried;
	enum dcd_stuck_kind kind;
};

/*
 * Sorted by @sector, apart from each other. @tries: so many more may be tried until @next,
 * besides what else is in the one at @trying. What is below segment @again is logged again, once.
 * @moved: the data disk took something last then, and a flush.
 */
struct dcd_stuck {
	unsigned int n;
	sector_t sectors;
	u32 turn;
	unsigned int tries;
	sector_t trying;
	unsigned long next;	/* jiffies */
	unsigned long moved;	/* jiffies */
	u64 again;
	struct dcd_stuck_range *range;
};

int __must_check dcd_stuck_init(struct dcd_engine *e);
void dcd_stuck_free(struct dcd_engine *e);

/* @p becomes its first part that is all stuck or all not. True: it is. */
bool dcd_stuck_part(const struct dcd_engine *e, struct dcd_place *p);
/*
 * Holds a range of which nothing is stuck, or lets go of the one at @sector, if there is one.
 * False: there is no room for it. _left(): how many sectors there is room for.
 */
bool __must_check dcd_stuck_hold(struct dcd_engine *e, const struct dcd_place *p);
void dcd_stuck_release(struct dcd_engine *e, sector_t sector);
sector_t dcd_stuck_left(const struct dcd_engine *e);
/* There is never room for more than that. */
sector_t dcd_stuck_most(const struct dcd_engine *e);
/* @p, which is stuck and zeroes, becomes what is tried of it by itself: one block. */
void dcd_stuck_cut(const struct dcd_engine *e, struct dcd_place *p);
/* Is this one, which is stuck, held? */
bool dcd_stuck_held(const struct dcd_engine *e, const struct dcd_place *p);
/* May this one, which is stuck, be written now? Then it counts as tried. */
bool dcd_stuck_try(struct dcd_engine *e, const struct dcd_place *p);
/* Does what is in this segment have to be logged again, as the tail needs it? */
bool dcd_stuck_again(struct dcd_engine *e, u64 segment);
/* The data disk has taken it, and a flush. */
void dcd_stuck_mended(struct dcd_engine *e, const struct dcd_place *p);
/* It hasn't, tried by itself. _any(): are there any but DCD_STUCK_FILLS, held ones too? */
void dcd_stuck_refused(struct dcd_engine *e, const struct dcd_place *p);
bool dcd_stuck_any(const struct dcd_engine *e);
/*
 * The data disk didn't take what is at @sector. Does it take anything else? It is asked for what
 * it has in another block, of which nothing is stuck, gets that again, and a flush.
 */
bool dcd_stuck_others(struct dcd_engine *e, sector_t sector);
/*
 * The same of what was begun at @since (jiffies): if it has taken others since then, it isn't
 * asked, which might take long, too. _moved(): it has just taken some, and a flush.
 */
bool dcd_stuck_others_since(struct dcd_engine *e, sector_t sector, unsigned long since);
void dcd_stuck_moved(struct dcd_engine *e);
/*
 * It does, and didn't take @l, maybe because of its neighbours: which of its blocks can't it
 * take? It is asked until @until (jiffies) only, as the destager does nothing else meanwhile: of
 * what isn't known then, all. How many sectors have come onto the list by that.
 */
sector_t dcd_stuck_look(struct dcd_engine *e, const struct dcd_load *l, unsigned long until);
/*
 * What was late (late.h), and is held by nobody: is stuck, tried next when all others have been
 * (@error: to be told; 0: it is known); isn't, as it is written; was, and isn't any more.
 */
bool __must_check dcd_stuck_add(struct dcd_engine *e, const struct dcd_place *p, int error);
void dcd_stuck_forget(struct dcd_engine *e, const struct dcd_place *p);
void dcd_stuck_took(struct dcd_engine *e);
/* The disk took so many jiffies to say that it doesn't take one: they aren't tried as often. */
void dcd_stuck_took_so_long(struct dcd_engine *e, unsigned long time);
/* Segments of the ring that are kept so that they can be logged again. Any context. */
u64 dcd_stuck_room(const struct dcd_engine *e);

#endif /* DCD_STUCK_H */
