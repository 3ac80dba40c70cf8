/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Witness pool: blocks that were brought to the data disk and weren't written over there since, of
 * all ages; and which of them a superblock names as its witnesses (dcd-format.h).
 *
 * An older copy of the disk lacks what was brought there since, so a witness that is younger than
 * the copy tells it from the disk. How old a copy is nobody knows, so there are as many of each
 * octave of ages as of any other, as far as there are any. What is written over is let go, and the
 * pool has others of its age. So what is written again and again, as a journal is, takes the places
 * of the youngest only.
 *
 * A blank disk has zeroes, too, so three quarters of the witnesses are of data, if there are as
 * many.
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

#define DCD_POOL 256U

struct dcd_pool {
	/* Of data, and of zeroes; the oldest first. */
	struct dcd_pool_half {
		struct dcd_pooled {
			struct dcd_witnessed w;
			u64 batch;	/* that brought it */
			bool chosen;
		} all[DCD_POOL];
		unsigned int n;
	} halves[2];
	u64 batch;		/* the last one's number */
};

static inline unsigned int dcd_pool_n(const struct dcd_pool *p)
{
	return p->halves[0].n + p->halves[1].n;
}

/* Number @i, below that. */
static inline const struct dcd_witnessed *dcd_pool_get(const struct dcd_pool *p, unsigned int i)
{
	unsigned int n = p->halves[0].n;

	return i < n ? &p->halves[0].all[i].w : &p->halves[1].all[i - n].w;
}

u32 dcd_zeroes_crc(u32 sectors);	/* of a block of zeroes, or less */
void dcd_pool_empty(struct dcd_pool *p);
/* What this superblock names, and nothing else. */
void dcd_pool_fill(struct dcd_pool *p, const struct dcd_super *s);
/* Something else is there now; or at all those that @is_over says so of. */
void dcd_pool_over(struct dcd_pool *p, u64 sector, u64 last);
typedef bool dcd_pool_test(const struct dcd_witnessed *w, const void *what);
void dcd_pool_drop(struct dcd_pool *p, dcd_pool_test *is_over, const void *what);
/* One more batch; then what it has brought. */
void dcd_pool_batch(struct dcd_pool *p);
void dcd_pool_add(struct dcd_pool *p, const struct dcd_witnessed *w);
/* @most of them at most, to @w. Returns how many. */
unsigned int dcd_pool_choose(struct dcd_pool *p, struct dcd_witnessed *w, unsigned int most);

#endif /* DCD_WITNESS_POOL_H */
