/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batch: writes that go to the legs together.
 *
 * While fewer than `pipeline` batches are on the way to the remote leg, a write
 * goes out at once, as a batch of its own: an idle wire adds no latency. Else it
 * joins the open batch. That is sealed
 *  - when it has `limit` writes (the table's coalesce);
 *  - by a write with FUA or PREFLUSH in it, or by any flush of the caller's;
 *  - when a batch comes back from the remote leg, is abandoned, or turns out not
 *    to go there, and fewer than `pipeline` are on the way.
 * A sealed batch is prepared by a worker: its writes sorted by sector, those that
 * are adjacent merged into one bio for each leg (up to IO_MAX_PAGES vectors,
 * in the first one's array), and all for one leg given to its sender together; for the
 * remote leg as one command if it knows it (scatter.h), and as soon as there is room
 * (window.h).
 *
 * A write of the open batch may absorb others (absorb.h) until the worker begins
 * with the batch.
 *
 * Merging only while the mirror isn't degraded: a bad sector on the only leg
 * that has the data fails the one write it is in.
 *
 * Progress: a write waits in the open batch only while `pipeline` (at least
 * one) batches are on the way; each of them comes back or is abandoned, and
 * that seals it. The worker has a workqueue of its own and waits for no memory:
 * all that a batch needs its writes have brought. Memory: `limit` writes with
 * their pages in the open batch, and what has been sealed is in flight.
 *
 * A batch is "on the way" until each of its writes has returned from the remote
 * leg or was abandoned there. That is counted in its first write (the head),
 * whose memory therefore stays until then.
 *
 * The defaults are measured (bench/run, Financial-1 at 3 Mbit/s and 14 ms, mean
 * response with nothing skipped; and random 4 KiB writes on a LAN, 32 in flight):
 *
 *	limit, pipeline		WAN, ms		LAN, writes/s
 *	1			657		27588
 *	8, 8 (the papers' 8)	508		27399
 *	32, 8			455		27399
 *	32, 6			437		27213
 *	32, 4			420		25643
 *	32, 1			479		23393
 *
 * Locking: writes.lock guards the counts and the open batch; the range lock's
 * lock is taken within it.
 */
#ifndef LOCKSTEP_BATCH_H
#define LOCKSTEP_BATCH_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct mirror;
struct write;

/* Of a write's flags: those that don't wait for a batch to fill. */
#define BATCH_SEALING	(REQ_FUA | REQ_PREFLUSH)

#define COALESCE_DEFAULT		32u
#define COALESCE_MAX			32u
#define COALESCE_PIPELINE_DEFAULT	8u
#define COALESCE_PIPELINE_MAX		1024u

struct batches {
	unsigned int limit;		/* writes in a batch at most; 1: no batches */
	unsigned int pipeline;
	unsigned int on_wire;
	unsigned int nr_open;
	struct list_head open;
	struct workqueue_struct *wq;	/* for all that has its pages and is to be sent */
};

/* May sleep. Destroy takes apart what a failed create has made. */
int __must_check batches_create(struct batches *b, unsigned int limit, unsigned int pipeline);
void batches_destroy(struct batches *b);

/* Process context. What is open already and too large is sealed. */
void batch_set_limit(struct mirror *m, unsigned int limit);

/* The range is held and the data are copied: send it, now or soon. Process context. */
void batch_join(struct write *w);

/* Seal what is open. Process context. */
void batch_seal(struct mirror *m);

/*
 * A write of this batch (told by its head, NULL for none) isn't on the way to
 * the remote leg any more. Under writes.lock. The head may be gone after it.
 */
void batch_returned(struct mirror *m, struct write *head);

#endif
