/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sender: hands a leg's I/O to its device, so that nobody else has to.
 *
 * Whoever submits I/O to a device may sleep there: until a request of its queue is free, until
 * writeback throttling or a scheduler lets it in, until a multipath below has a path again. Of a
 * leg that hangs that may never end. So nothing is submitted to a leg by anybody for whom somebody
 * else waits: not by the caller of a write, not by the worker of a batch, of the dirty map, of
 * the standing or of a join. They give items to the leg's sender, in any context, and its own
 * workers submit them. Only a read of the local leg is submitted by its caller, who waits for
 * nothing else, unless that leg has a timeout (bounce.h).
 *
 * Lanes: a queue each, with workers of its own, so that what waits to be let in by one rule of the
 * device doesn't hold up what goes by another. What one lane is given is sent in that order.
 *	urgent	what somebody waits for: synchronous writes, flushes, reads, metadata
 *	later	writeback and the resync's writes, which the device may hold back for the others
 *	zero	zeroings, SENDER_ZEROINGS at a time, since each sleeps until the device is done
 * All that a worker finds in its queue it sends under one plug, so that adjacent writes are merged
 * in the device's queue.
 *
 * Out: from just before an item is handed to the device until sender_returned() it is out, and
 * has an age. The age of the oldest decides whether the leg hangs (watch.h). An item that waits in
 * a lane has no age: the one that a worker sleeps with before it has.
 *
 * A leg that is given up: what is in a lane then has never been sent, and need not be waited
 * for. It is taken out (sender_drop(), sender_take_back()); only what is out has to drain. Items
 * that are given to a dead leg are dropped at once, but those without a drop function: their owner
 * knows better (transfer.h).
 *
 * Locking: the sender's own spinlock, innermost, taken with interrupts off. send is called with
 * no locks held in a worker, which may sleep; drop in the context of sender_drop(), or of
 * sender_give().
 */
#ifndef LOCKSTEP_SENDER_H
#define LOCKSTEP_SENDER_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct page;

/*
 * A page that was sent, whose I/O has returned, may still be held by somebody: iSCSI gives pages to
 * the network without a copy, and what has failed there, or was sent once more by another path, may
 * leave the host later. With other content it would be another write. So whoever uses a page again
 * uses what sender_page() gives instead: the page itself if nobody else has it, else a new one; for
 * want of memory, if @gfp may fail, the page. Any context that @gfp allows.
 */
struct page *sender_page(struct page *page, gfp_t gfp);
bool sender_has_page(struct page *page);	/* and nobody else */

/* Under way at once on a leg: enough for its queue, and no crowd of threads. */
#define SENDER_ZEROINGS	16

/* Items that may belong together. */
#define SENDER_UNIT_MAX	32

enum sender_lane_id {
	LANE_URGENT,
	LANE_LATER,
	LANE_ZERO,
	LANES,
};

struct sender_item;

struct sender_ops {
	/*
	 * Hand them to the device; each is out by now. They may be gone when this returns.
	 * More than one: a unit.
	 */
	void (*send)(struct sender_item **items, unsigned int nr);
	/* It won't be sent: the leg is dead. NULL: it stays in its lane until taken back. */
	void (*drop)(struct sender_item *item);
};

struct sender_item {
	struct list_head link;		/* in a lane, or out; else its owner's */
	const struct sender_ops *ops;
	/*
	 * So many that follow each other, with this first one, are sent in one call. 0: it
	 * isn't the first.
	 */
	unsigned int unit;
	bool waits;			/* in a lane; the sender's lock */
	unsigned long since;		/* jiffies: since when it is out */
};

struct sender_worker {
	struct work_struct work;
	struct sender_lane *lane;
};

struct sender_lane {
	struct sender *sender;
	struct list_head queue;
	unsigned long idle;		/* a bit for each worker */
	unsigned int nr_workers;
	struct sender_worker workers[SENDER_ZEROINGS];
};

struct sender {
	struct workqueue_struct *wq;	/* NULL: not created */
	struct workqueue_struct *zero_wq;
	spinlock_t lock;		/* what follows */
	struct list_head out;		/* by age, the oldest first */
	struct sender_lane lanes[LANES];
};

/* What can't fail, and has to be there though the leg has no device, which gets nothing to send. */
void sender_init(struct sender *s);
/* May sleep. Destroy waits for the workers, and takes what create has failed to make. */
int __must_check sender_create(struct sender *s);
void sender_destroy(struct sender *s);

/* A new item, or one that has returned. */
static inline void sender_item_init(struct sender_item *item, const struct sender_ops *ops)
{
	item->ops = ops;
	item->unit = 1;
	item->waits = false;
}

/*
 * Send these, in this order. @items is empty afterwards. Any context; no locks of the mirror's
 * are held, unless the items have no drop function.
 */
void sender_give(struct sender *s, enum sender_lane_id lane, struct list_head *items);
void sender_give_one(struct sender *s, enum sender_lane_id lane, struct sender_item *item);

/* The leg is dead: drop all that can be dropped. Any context, no locks of the mirror's held. */
void sender_drop(struct sender *s);

/* True: it was in a lane, has never been sent, and is the caller's again. Any context. */
bool __must_check sender_take_back(struct sender *s, struct sender_item *item);

/* Its caller hands it to the device just now, without the workers. Any context. */
void sender_began(struct sender *s, struct sender_item *item);

/* It is about to be handed to the device once more, as another request. Any context. */
void sender_anew(struct sender *s, struct sender_item *item);

/* It isn't out any more. Any context. */
void sender_returned(struct sender *s, struct sender_item *item);

/* Is anything out? Any context. */
bool sender_busy(struct sender *s);

/* How long the oldest has been out, in jiffies; false: nothing is out. Any context. */
bool __must_check sender_age(struct sender *s, unsigned long *age);

#endif
