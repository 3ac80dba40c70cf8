/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Write: one write of the caller's, in lock step on both legs.
 *
 * Steps: take the range (wait for overlapping writes that came before), choose
 * the legs, copy the data into own pages, send it to the legs, settle what came
 * back, release the range, acknowledge. The copy makes both legs get the same
 * bytes though the caller may change its pages at any time; it is made after
 * the range has been granted, so a write that waits holds no pages.
 *
 * Memory: pages come from the page allocator without waiting, else from a pool
 * that holds enough for one largest write. Whoever has to wait does so in a
 * worker, alone (pages_wait), holding no page that another waits for; pages
 * come back from writes in flight in interrupt context. So a write always gets
 * on. The bios to the legs are part of the per-bio data.
 */
#ifndef LOCKSTEP_WRITE_H
#define LOCKSTEP_WRITE_H

struct bio;
struct mirror;

/* Create and destroy what writes need. May sleep. */
int __must_check write_pool_create(struct mirror *m);
void write_pool_destroy(struct mirror *m);

/* For .map: take over a write with data. The bio may be shortened. */
void write_map(struct mirror *m, struct bio *bio);

/* For .map: take over an empty flush: it goes to every leg that is alive. */
void flush_map(struct mirror *m, struct bio *bio);

#endif
