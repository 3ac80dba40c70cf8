/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the destager is on its way round the data disk, and its marks. One is set wherever a
 * batch begins: when it has been passed again, the segments that were committed then are empty,
 * if all of it went well; or those before the first one that something had to stay in.
 *
 * The destager's, but for those who forecast, who may see any mix, and for what the engine's @lock
 * is for. Nothing sleeps.
 */
#ifndef DCD_SWEEP_H
#define DCD_SWEEP_H

#include <linux/types.h>

#define DCD_MARKS 128

/* @way: sectors gone since the beginning, not only of this turn. */
struct dcd_mark {
	u64 way, target, applied;
};

struct dcd_sweep {
	u64 turn;		/* @way where this turn began */
	sector_t at;
	bool past_log;		/* the log is dead: one mark a turn, up to the newest write */
	bool untold;		/* but only what was acknowledged goes past it (witness.c) */
	bool ahead;		/* the next batch is collected */
	struct dcd_mark marks[DCD_MARKS];
	unsigned int n;
	u64 from;		/* segments below it are done with: leave.h; else 0 */
	bool tried;		/* a round by the log that is to be left has failed */
	u64 unread;		/* where something of the log last wasn't read */
	bool skipped;		/* there is something that only who leaves the log goes past */
	bool asking;		/* something isn't read since @asked (jiffies): leave.h, lost.h */
	unsigned long asked;
	u64 short_target, short_applied;	/* no further for now: dcd_sweep_bound(); or 0 */
	/*
	 * Past a dead log, places of it that weren't read in this round. When there are too many it
	 * goes on @blind, with what needs no read of the log: the next one begins at @blind_at.
	 */
	unsigned int missed;
	bool blind;
	sector_t blind_at;
	u64 called;		/* so often a round was asked for at once; @lock */
	u64 answered;		/* and so often before the last one began that has ended; @lock */
};

static inline u64 dcd_sweep_way(const struct dcd_sweep *s)
{
	return s->turn + s->at;
}

/* A mark as @m is the newest now; when there are too many of them they are coarser from then on. */
void dcd_sweep_mark(struct dcd_sweep *s, const struct dcd_mark *m);
/* The newest mark that was passed again, a round of so many sectors later; false: none. */
bool dcd_sweep_passed(const struct dcd_sweep *s, sector_t round, struct dcd_mark *m);
/* All marks so far: the segments from @target on aren't empty by then. */
void dcd_sweep_hold(struct dcd_sweep *s, u64 target, u64 applied);
/*
 * Something is logged again by a round up to @m: until that has ended, no round goes further, so
 * that none takes along what this one has logged.
 */
void dcd_sweep_bound(struct dcd_sweep *s, const struct dcd_mark *m);
/* From where it is the round doesn't read the log; _see: it is over. @round as above. */
void dcd_sweep_blind(struct dcd_sweep *s);
void dcd_sweep_see(struct dcd_sweep *s, sector_t round);
/* Drops it, and those before it. */
void dcd_sweep_drop(struct dcd_sweep *s, const struct dcd_mark *last);

#endif /* DCD_SWEEP_H */
