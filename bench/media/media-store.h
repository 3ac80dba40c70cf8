/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A RAM medium: what a disk holds, and what it only has in its cache.
 *
 * A medium belongs to its name. It holds
 *   durable  - sparse pages: what a power cut can't touch;
 *   pending  - the writes that aren't durable yet, in the order in which they
 *              were submitted: in flight, or acknowledged from the cache.
 * A read sees durable overlaid with pending, so it sees the newest data.
 *
 * A write becomes durable (is "destaged") as a whole: when it is acknowledged
 * and the medium has no cache or the write has FUA; when a flush submitted
 * after its acknowledgment completes (the worst a disk is allowed to do:
 * writes acknowledged later than the flush's submission stay volatile); when
 * the cache destages it. Sectors of older pending writes that lie under it are
 * dead from then on.
 *
 * A power cut applies a seeded subset of pending, each 512-byte sector of each
 * write by itself, in order of submission, and drops the rest. Media users
 * hold an incarnation (struct media_gen); a cut makes it void, and the next
 * media_attach() starts a new one on the same durable pages: nothing is copied.
 *
 * All functions that don't say "may sleep" take site_instant and may be called
 * from any context.
 */
#ifndef LOCKSTEP_MEDIA_STORE_H
#define LOCKSTEP_MEDIA_STORE_H

#include <linux/bio.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/types.h>

#include "site-cut.h"

struct media_gen;

/**
 * struct media_write - a write on its way to being durable
 * @order: in the incarnation's pending list; guarded by site_instant
 * @dirty: for the owner's use (the queue's destage list)
 * @acked: the incarnation's clock at its acknowledgment, 0 in flight
 * @dead: one bit a sector: a newer write to it is already durable
 * @zero: no pages, writes zeroes
 *
 * Also stands for a cached write of a medium that stores nothing (@gen NULL,
 * no pages): then only @dirty, @sector, @count and @acked mean anything.
 */
struct media_write {
	struct kref ref;
	struct media_gen *gen;
	struct list_head order;
	struct list_head dirty;
	sector_t sector;
	unsigned int count;
	bool zero;
	bool serving;
	u64 id;
	u64 acked;
	unsigned long *dead;
	unsigned int nr_pages;
	struct page *pages[];
};

/**
 * media_attach() - use a medium, making it if the name is new
 * @error: gets a message when NULL or an ERR_PTR is returned
 *
 * Several users may share an incarnation. May sleep.
 */
struct media_gen *media_attach(const char *name, unsigned int site, sector_t sectors,
			       char **error);
/* May sleep. Pending writes stay: the power is on. */
void media_detach(struct media_gen *gen);

/**
 * media_write_new() - copy a write's data and make room for it
 * @gen: NULL for a write that is only timed
 * @bio: NULL for zeroes
 *
 * May sleep; doesn't recurse into I/O. Returns NULL without memory. The write
 * isn't pending until media_write_submit().
 */
struct media_write *media_write_new(struct media_gen *gen, sector_t sector,
				    unsigned int count, struct bio *bio);
void media_write_put(struct media_write *w);

/*
 * The functions from here on need site_instant, so that a queue can change
 * together with the content.
 */
void media_write_submit(struct media_write *w);
/* Acknowledgment. */
void media_write_ack(struct media_write *w, bool durable);
/* From the cache to the medium. */
void media_write_destage(struct media_write *w);
/* The cache forgets a write that a newer cached one covers altogether. */
void media_write_absorb(struct media_write *w);
/* Destages the oldest acknowledged writes until at most @bytes are pending. */
void media_cache_bound(struct media_gen *gen, u64 bytes);
/* A flush covers what was acknowledged up to the mark taken at its submission. */
u64 media_mark(struct media_gen *gen);
void media_flush(struct media_gen *gen, u64 mark);
/* Fills a read. False: void, there's nothing to read. */
bool __must_check media_read(struct media_gen *gen, struct bio *bio, sector_t sector);
bool media_is_void(struct media_gen *gen);

/* Cuts one medium's power. May sleep, needs nothing. */
void media_cut(struct media_gen *gen, u64 seed);

void media_store_exit(void);

#endif
