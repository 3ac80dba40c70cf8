/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What becomes of zeroes (discards, WRITE SAME of zeroes) in the log.
 *
 * They are short in the log and may be as long as the disk, so bringing them to the data
 * disk in the destager's turn would hold up the tail, and with it all writes. So the
 * destager does one of four things with a range of them:
 *
 * - What isn't whole granules is written to the data disk in its turn, as data are, but not much
 *   more of it than there are data.
 * - While nothing else is to be done, whole granules are wiped, in pieces, until the next
 *   write comes.
 * - While the log is needed, they are logged again at the head, if the data disk has to
 *   write zeroes as it writes anything else, and it isn't they themselves that fill the log;
 * - if it can do better, as many as it does in a moment are wiped, the rest logged again.
 *
 * So the tail never waits for zeroes. How long they may take is moment.h's.
 *
 * A worker wipes. When a wipe doesn't return within a moment it isn't waited for: it may still
 * come over whatever is written to its range, so that range is held (stuck.h), and what is there
 * stays in the log until it has returned. Meanwhile nothing else is wiped: zeroes are logged again
 * when the log is needed, or stay where they are. So a wipe is no longer than what can be held,
 * and while that is too little there is none. Only a discard of a granule that is larger than what
 * could ever be held is waited for. What is filled is written as data are, and likewise short
 * (late.h).
 *
 * When the data disk doesn't take the zeroes of a wipe, the worker looks for the blocks that are
 * bad, in ever smaller pieces; a disk may be at each of those for seconds, and still only the range
 * is held. It ends after DCD_WIPE_FAILURES errors, or with the one that the close comes upon. Bad
 * blocks are stuck then, as any are; what lies between them is wiped; of the rest nothing is known,
 * and it is wiped another time. If it took long, nothing is wiped by writing for much longer.
 *
 * To wipe is to discard, for zeroes that a discard has brought: whole granules of the
 * data disk's own, the rest of it is written. Nothing tells whether a disk's discard zeroes. So
 * where the disk knows REQ_OP_WRITE_ZEROES a discard is that, which may unmap (@to_zeroes), and
 * the LUN says that what was unmapped reads as zeroes; where it doesn't the LUN doesn't say it.
 * Other zeroes are wiped by REQ_OP_WRITE_ZEROES if the disk knows that; else they are written.
 */
#ifndef DCD_ZEROES_H
#define DCD_ZEROES_H

#include <linux/types.h>
#include <linux/workqueue.h>

#include "moment.h"
#include "pace.h"

struct dcd_engine;
struct dcd_mark;
struct dcd_place;

#define DCD_WIPE_FAILURES 16U

enum dcd_load_kind {
	DCD_LOAD_DATA,
	DCD_LOAD_FILL,		/* zeroes, written in the turn */
	DCD_LOAD_WIPE,
	DCD_LOAD_DISCARD,	/* a wipe that discards */
	DCD_LOAD_AGAIN,		/* to be logged again; data too: stuck.h, lost.h */
	DCD_LOAD_LEFT,		/* stays where it is: a bad place of the data disk, or the log */
};

struct dcd_wiped_part {
	u64 first, last;
};

/*
 * The destager's. @piece: sectors of a wipe, so that it takes a moment; @us: what one of
 * those takes; @load_us: what a load of data does, of which there were some at @data_at.
 * @speed: pieces that it gets rid of, under @lock.
 * @took, @owed: what wipes took beside data of late, and too much in the last batch (us, negative).
 * @all: sectors that were wiped or filled so far; @all_then: when leave.c saw that last, since
 * @all_at (jiffies).
 * @no_room: of this turn no more can be logged again. @again: so many ranges are to be, in this
 * round past the log; @logged: so many ranges of zeroes were. @no_discard: the data disk has
 * refused it. @undiscarded: so many in a row have failed otherwise, on a disk that can be written
 * there. @to_zeroes: how it is done, as it was at the opening, when the LUN was told.
 * @hangs: nobody waits any more for the wipe of @first to @last, of @kind, that @work does,
 * since @since (jiffies). @rests: after one that took long there is no DCD_LOAD_WIPE yet.
 * @flushes_failed: as it was when that was begun (late.h).
 * @under_way needs the engine's lock; while it is set, the results are the worker's: all before
 * @done is wiped, but for the @n parts that are @bad; @error is the last one, or 0.
 */
struct dcd_wipes {
	u64 piece;
	u64 us;
	u32 load_us;
	unsigned long data_at;	/* jiffies */
	u32 took;	/* percent of what data took */
	struct dcd_speed speed;
	s64 owed;
	u64 all, all_then;
	unsigned long all_at;
	bool no_room;
	u64 again, logged;
	bool no_discard;
	unsigned int undiscarded;
	bool to_zeroes;
	bool hangs;
	bool rests;
	unsigned long failed_until;	/* jiffies: past the log it is written before that */
	unsigned long zeroing_until;	/* likewise when the log was left; under @lock */
	bool under_way;
	enum dcd_load_kind kind;
	u64 first, last;
	unsigned long since;
	unsigned int flushes_failed;
	u64 done;
	unsigned int n;
	struct dcd_wiped_part bad[DCD_WIPE_FAILURES];
	int error;
	struct work_struct work;
};

void dcd_wipes_init(struct dcd_engine *e);
/*
 * What to do with the first part of @p, a range of zeroes; @p becomes that part. @m is what is left
 * for it. @oldest: the segment that some of it is in.
 */
enum dcd_load_kind dcd_zeroes_part(struct dcd_engine *e, struct dcd_place *p, u64 oldest,
				   struct dcd_moment *m);
/* So many sectors are filled with one write: what can be held has room for several. */
sector_t dcd_fill_most(const struct dcd_engine *e);
/*
 * Does one, of @kind; sleeps for a moment. -EINPROGRESS: it hangs, and its range is held; or that
 * can't be, and it wasn't begun. Of any other error _bad() makes stuck what is known to be bad, if
 * the disk takes other things: how many sectors.
 */
int __must_check dcd_wipe(struct dcd_engine *e, enum dcd_load_kind kind,
			  const struct dcd_place *p);
sector_t dcd_wipe_bad(struct dcd_engine *e);
/*
 * If one that hung has returned: what came of it. What is zeroes in segments below the mark's, and
 * was wiped, is durable then, and forgotten. Sleeps for the data disk.
 */
void dcd_wipes_look(struct dcd_engine *e, const struct dcd_mark *now);
/*
 * Zeroes on the data disk, which aren't a discard: what is allocated there stays so, and no disk
 * takes a part of what it could unmap for all of it. An errno. Sleeps, and waits for the disk.
 */
int __must_check dcd_zero_disk(struct dcd_engine *e, u64 sector, u64 sectors);
/*
 * A discard, as the LUN promises it: what was there is zeroes, or anything. Likewise; of whole
 * granules of the disk's own, as it may leave parts of them as they are. _cut(): the range becomes
 * those that are in it; false: there is none.
 */
int __must_check dcd_discard_disk(struct dcd_engine *e, u64 sector, u64 sectors);
bool __must_check dcd_discard_cut(const struct dcd_engine *e, u64 *sector, u64 *end);
/*
 * When the log was left (through.h), whoever zeroes: one has failed, which @took so long (jiffies).
 * Are zeroes written for now, as the next might take as long? Any process context.
 */
void dcd_zeroing_failed(struct dcd_engine *e, unsigned long took);
bool __must_check dcd_zeroing_rests(struct dcd_engine *e);
/* Any process context. */
bool dcd_wipes_under_way(struct dcd_engine *e);
/* Does the data disk discard? */
bool dcd_discards(const struct dcd_engine *e);

#endif /* DCD_ZEROES_H */
