/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What becomes of the loads of a batch that was moved, good or bad: what is there is made durable
 * and forgotten, what the data disk doesn't take is looked for, what the log can't give is judged,
 * and what is to be logged again is.
 *
 * The destager's. Sleeps for both disks, and for room.
 */
#ifndef DCD_OUTCOME_H
#define DCD_OUTCOME_H

#include "batch.h"

#define DCD_CLOSE_WAITS	(5 * HZ)	/* more than a moment of the log's is (lost.h) */
#define DCD_FAILURES	16		/* of a round, before it is given up */
#define DCD_LEFT	(-EUCLEAN)	/* only bad places of the data disk: stuck.h */
#define DCD_UNREAD	(-ENOMSG)	/* or of the log, which may be mended yet: lost.h */

/*
 * Sectors @moved, the error of the @flush or of the index; @found: something that wasn't known to
 * be stuck, so it is worth another try from dcd_first_missing() on; @again: not all could be logged
 * again; @bad: the first error that is left, or DCD_LEFT, DCD_UNREAD: then segments below @held may
 * get empty all the same, if that isn't 0.
 */
struct dcd_outcome {
	sector_t moved;
	int flush, again, bad;
	bool found;
	u64 held;
};

/* @r is the move's, which @began then; @failures become more. */
void dcd_outcome(struct dcd_engine *e, struct dcd_batch *b, int r, ktime_t began,
		 unsigned int *failures, struct dcd_outcome *o);
/* Where it was interrupted, and the first that isn't on the data disk: there is one. */
sector_t dcd_left_at(const struct dcd_batch *b);
sector_t dcd_first_missing(const struct dcd_batch *b);
/* Those that dcd_turn_count() has counted. */
u32 dcd_loads_of_data(const struct dcd_batch *b);

#endif /* DCD_OUTCOME_H */
