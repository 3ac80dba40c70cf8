/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Write: one write, zeroing (discard, write-zeroes) or flush of the caller's,
 * in lock step on both legs.
 *
 * Steps: take the range (wait for overlapping writes that came before), copy
 * the data into own pages, join a batch (batch.h), route (choose the legs),
 * send, and when every leg it was sent to has answered, settle; then finish: release the range,
 * acknowledge. A flush has no range and no data, a zeroing no data.
 *
 * The copy makes both legs get the same bytes though the caller may change its
 * pages at any time, so there is one for every size: a large write sent from
 * the caller's pages would differ on the legs if the caller scribbled. It is
 * made after the range has been granted, so a write that waits for its range
 * holds no pages. A write may also be absorbed by another one instead (absorb.h).
 *
 * Life: a struct write is an object of its own and may outlive the caller's
 * bio. A leg that doesn't answer can be abandoned (write_abandon): then writes
 * stop waiting for it and are settled with BLK_STS_TIMEOUT for that leg, while
 * its bios are still out there; object and pages live until they return. An
 * abandoned bio may still reach its leg at any time. So only a dead leg is
 * abandoned, and it is not used again before all of them have returned: by no
 * device and no mirror of this host (registry.h).
 *
 * Memory: how much, budget.h; whence, write-pool.h. A bio that got no object queues
 * (starved) for a worker that waits for one; a write that got no pages waits in a
 * worker, holding none.
 * Objects and pages come back from writes in flight in interrupt context. A
 * worker that waits shares no workqueue with one that it may wait for: while no
 * thread can be made, the workqueue's only one must not be who waits. For pages
 * it waits for writes that have some and so are past all workers but the batch's;
 * for an object maybe for one that a worker is to give its range. So a write
 * always gets on.
 */
#ifndef LOCKSTEP_WRITE_H
#define LOCKSTEP_WRITE_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "batch.h"
#include "budget.h"
#include "dirty-map.h"
#include "leg.h"
#include "range-lock.h"
#include "window.h"
#include "write-pool.h"

struct mirror;

enum write_kind {
	WRITE_DATA,
	WRITE_ZERO,
	WRITE_FLUSH,
};

/* What of a write is done on one leg. */
struct leg_part {
	/* It has no vectors of its own at its end: sparse, who can't know, minds an array of it. */
	union {
		struct bio bio;		/* data, flush */
	};
	struct sender_item item;
	struct write *w;		/* whose part it is */
	blk_status_t status;		/* once it has returned */
	/* What its bio has, with the writes merged into it (batch.h). */
	unsigned int nr_vecs;
	unsigned int size;		/* bytes */
	struct write *next;		/* of the writes that share this bio */
	bool again;			/* scatter.c: its first way was a command, which failed */
};

struct write {
	struct mirror *m;
	enum write_kind kind;
	struct bio *bio;		/* the caller's (dm's clone of it) until finished */
	struct locked_range range;	/* empty for a flush: start 0, last 0 */
	blk_opf_t opf;			/* of the callers' flags, what a leg is to see */
	unsigned short ioprio;
	struct work_struct work;

	/* set by mirror_route() */
	unsigned int sent;		/* bit for each leg */
	unsigned int deaths[LEGS];	/* leg.deaths when it was routed */
	/* for mirror_settle() */
	unsigned int abandoned;		/* bit for each leg; its status is BLK_STS_TIMEOUT */
	blk_status_t status[LEGS];

	/* mirror.c's: why and where it is held */
	bool unacked;			/* it isn't under way, and one leg may have it */
	struct list_head held;
	/* batch.c, absorb.c */
	struct list_head batched;	/* in the open batch, or in the one being sent */
	struct write *head;		/* of the batch that it is on the way in */
	unsigned int on_wire;		/* in the head: writes that are on the way */
	struct bio_list absorbed;	/* callers' bios that share its fate */
	/* window.c */
	u64 sent_at;			/* ktime, ns; 0: isn't counted */
	enum window_kind window;

	/* private to budget.c */
	size_t charged;
	unsigned int zeroes;		/* sectors, by the budget; else 0 */
	u64 admitted;			/* ktime, ns: by the budget, or sent again */
	enum budget_class class;
	bool stuck;

	/* private to write.c */
	struct dirty_wait mark;
	atomic_t state;
	struct list_head flying;
	struct leg_part part[LEGS];

	/* private to write-pool.c, but to be read */
	unsigned int nr_pages;
	struct page *kept;		/* for the first of them; NULL: none */
	struct bio_vec vecs[IO_MAX_PAGES];
};

/* What a mirror has for its writes. */
struct writes {
	struct write_pool pool;
	struct budget budget;
	struct batches batches;
	struct window window;
	struct workqueue_struct *wq;		/* has its range; may wait for pages */
	struct workqueue_struct *starved_wq;

	struct mutex abandoning;	/* one write_abandon() at a time */
	spinlock_t lock;		/* what follows */
	struct list_head flying;	/* launched, not settled */
	struct bio_list starved;	/* got no struct write */
	/* Parts that have not returned yet, and one more while a write_abandon() goes on. */
	unsigned int abandoned[LEGS];
	wait_queue_head_t returned;	/* the last of them has */
	struct work_struct starved_work;
};

/* What can't fail, and is there before anything is sent to a leg. */
void writes_init(struct mirror *m);
/* Create and destroy what a mirror's writes need. May sleep. */
int __must_check writes_create(struct mirror *m);
void writes_destroy(struct mirror *m);

/*
 * For .map: take over a write, flush, discard or write-zeroes. The bio may be
 * shortened.
 */
void write_map(struct mirror *m, struct bio *bio);

/*
 * Route a write again and send it. For mirror.c, which holds it since its
 * mirror_route() or mirror_settle(). Any context.
 */
void write_restart(struct write *w);

/*
 * Release the range, acknowledge with this status. For mirror.c, once for each
 * write, which is gone after that. Any context, no locks held.
 */
void write_finish(struct write *w, blk_status_t status);

/**
 * write_abandon - stop waiting for a leg
 *
 * For a leg that is dead: every write, zeroing and flush in flight is settled
 * without it, and every read that can be is tried on the other one (bounce.h). Does nothing if the
 * leg isn't dead. Process context, no locks held; waits only for another call. Returns how many
 * there were, without the reads.
 *
 * They are marked ABANDON_BATCH at a time, with the locks dropped in between. Until
 * the last of them is marked the leg counts as draining, so it can't come alive again;
 * and none is added meanwhile: whoever launches a write sees that the leg has died.
 */
unsigned int write_abandon(struct mirror *m, enum leg_id leg);

/* Are parts of abandoned writes still out on the leg? Any context. */
bool writes_draining(const struct mirror *m, enum leg_id leg);

/**
 * writes_ready - may a dead leg be used again, as far as writes are concerned?
 *
 * Sleeps, at most a second. Returns 0; -EBUSY if abandoned writes are out;
 * -ENOMEM if there is no memory to put aside for the next time. The last word
 * is writes_draining(), under the state lock when the leg is made alive.
 */
int __must_check writes_ready(struct mirror *m, enum leg_id leg);

/*
 * Wait until no leg has abandoned writes any more. Nothing else can be done
 * with the memory and the device that they use: so as long as it takes, in a worker
 * for which nobody waits (registry.h), and now and then the log tells how to end it.
 */
void writes_drain(struct mirror *m);

/*
 * For batch.c and absorb.c, in process context:
 *
 * write_send     route and send it
 * write_launch   route it; false if it isn't sent now, then it is no more the
 *                caller's. Else for each leg in w->sent its part has to be given to
 *                the leg's sender, with all the writes that have been merged into w's
 *                bio. After the last one it may be gone.
 * write_lane     in which lane of a leg's sender it belongs
 * write_of       whose part's item it is
 * write_submit   hand its part to the device. For the sender's workers, sleeps
 * write_again    the leg has got it, and it failed there in scatter.c's way: send it
 *                by itself. Any context
 * write_part_done   all of w's bio has returned from the leg. Any context
 * write_copy     copy the bio's data to this offset (bytes) of w's pages
 * write_pin      w's memory stays; write_unpin() for the end of that is for any
 *                context
 */
void write_send(struct write *w);
bool __must_check write_launch(struct write *w);
enum sender_lane_id write_lane(const struct write *w);
struct write *write_of(struct sender_item *item);
void write_submit(struct write *w, enum leg_id leg);
void write_again(struct write *w, enum leg_id leg);
void write_part_done(struct write *w, enum leg_id leg, blk_status_t status);
void write_copy(struct write *w, struct bio *bio, unsigned int offset);
void write_pin(struct write *w);
void write_unpin(struct write *w);

/*
 * Others (transfer.c) that stop waiting for a dead leg: what they have there counts
 * with the abandoned writes. Under the state lock; and when it has returned, the
 * last that the caller does with the mirror, in any context.
 */
void writes_other_abandoned(struct mirror *m, enum leg_id leg);
void writes_other_returned(struct mirror *m, enum leg_id leg);

/* There is a bio in the budget's ready list. For budget.c. Any context. */
void writes_kick_starved(struct mirror *m);
/*
 * At the table's end, when dm has waited for every bio: who maps those that waited for memory was
 * kicked by the suspend, and looks at the table. Sleeps.
 */
void writes_stop(struct mirror *m);

/* The sectors of a write that isn't a flush. */
static inline sector_t write_sectors(const struct write *w)
{
	return w->range.last - w->range.start + 1;
}

static inline enum leg_id leg_of_part(const struct write *w, const struct leg_part *part)
{
	return part == &w->part[LEG_LOCAL] ? LEG_LOCAL : LEG_REMOTE;
}

#endif
