/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Witness pool: blocks that were brought to the data disk and weren't written over there since, of
 * all ages; and which of them a superblock names as its witnesses (dcd-format.h).
 *
 * An older copy of the disk lacks what was brought there since, so a witness that is younger than
 * the copy tells it from the disk. How old a copy is nobody knows, so there are as many of each
 * octave of ages (0, 1, 2 and 3, 4 to 7 batches, and so on), as far as there are any. What is
 * written over is let go, and the pool has others of its age. So what is written again and again,
 * as a journal is, takes the places of the youngest only.
 *
 * A superblock has the octave of each witness. Who opens it draws an age of that octave, as if that
 * was of any of its batches: so witnesses grow older as they should, on the average, however few
 * batches there are from one opening to the next.
 *
 * Pure functions on the caller's memory: any context, no locks. The module and `dcd` use them.
 */
#ifndef DCD_WITNESS_POOL_H
#define DCD_WITNESS_POOL_H

#include "parse.h"

#define DCD_POOL 512U

struct dcd_pool {
	struct dcd_pooled {
		struct dcd_witnessed w;
		u64 batch;	/* that brought it */
		bool chosen;
	} all[DCD_POOL];	/* the oldest first */
	unsigned int n;
	u64 batch;		/* the last one's number */
};

/* What this superblock names, and nothing else. */
void dcd_pool_fill(struct dcd_pool *p, const struct dcd_super *s);
/* Something else is there now. */
void dcd_pool_over(struct dcd_pool *p, u64 sector, u64 last);
/* One more batch; then what it has brought. */
void dcd_pool_batch(struct dcd_pool *p);
void dcd_pool_add(struct dcd_pool *p, const struct dcd_witnessed *w);
/* @most of them at most, the youngest first, to @w. Returns how many. */
unsigned int dcd_pool_choose(struct dcd_pool *p, struct dcd_witnessed *w, unsigned int most);

#endif /* DCD_WITNESS_POOL_H */
