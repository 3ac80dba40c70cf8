/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Read window: how many bytes of the callers' reads are on the way to the remote leg.
 *
 * Why: what eight readers have asked for at once fills a slow wire for half a minute, and whatever
 * else comes by it is as late: another mirror's writes, which took that for a leg that hangs; the
 * metadata of a leg that is to come back; `lockstep assemble`, which failed as long as another
 * mirror read. With 32 readers the iSCSI session itself was lost.
 *
 * Rule: window.h's, with a class of its own. A read for which there is no room is parked, and sent
 * in its turn when others have returned. That goes for each read of the remote leg that a caller
 * has asked for, whether it is bounced (bounce.h) or not, and whatever else the mirror has. A
 * second try has a bound of its own (read.h); what isn't a caller's is paced by throttle.h.
 *
 * What is sent at once is no larger than the limit is by then: of a larger read a part after the
 * other, and its rest goes before what is parked. So the limit can be as small as
 * READ_WINDOW_LEAST, which 256 kbit/s carry within a 16th of the default of remote_timeout: with a
 * largest read, which they carry in four seconds, a mirror that reads would take half of the other
 * ones' remote_timeout, and a write of theirs that the target asks for the rest of waits for that
 * twice. 8 MiB at 155 Mbit/s and 400 ms, 32 readers, take 24 s the first time, then 7
 * (mirror_window.py, simulated).
 *
 * Ways out: something is on the way while any read is parked. It returns, or the leg is given up;
 * then read_window_drop() hands out those that are parked, which have never been sent. To a dead
 * leg nothing is parked.
 *
 * Locking: the window's own spinlock, with interrupts off; inside bounces.lock and the state lock.
 */
#ifndef LOCKSTEP_READ_WINDOW_H
#define LOCKSTEP_READ_WINDOW_H

#include <linux/spinlock.h>

#include "sender.h"
#include "window.h"

struct mirror;

#define READ_WINDOW_FIRST	(64u << 10)	/* two seconds of 256 kbit/s */
#define READ_WINDOW_LEAST	(16u << 10)

struct read_window {
	spinlock_t lock;		/* what follows, and each read_item's sent_at */
	struct window_class class;
};

struct read_item {
	struct sender_item item;	/* parked, or the sender's; it has a drop function */
	unsigned int bytes;
	unsigned int done;		/* of them have come */
	unsigned int part;		/* behind those: what is to be sent now */
	u64 sent_at;			/* ktime, ns; 0: isn't counted */
};

void read_window_init(struct mirror *m);

/* A new one; as it is, all of it is sent at once. */
static inline void read_item_init(struct read_item *r, const struct sender_ops *ops,
				  unsigned int bytes)
{
	sender_item_init(&r->item, ops);
	r->bytes = bytes;
	r->done = 0;
	r->part = bytes;
	r->sent_at = 0;
}

/*
 * It goes to the remote leg's sender, now or later, or is dropped. What is sent is r->part, whole
 * blocks of it. Any context, no locks held.
 */
void read_window_give(struct mirror *m, struct read_item *r);

/*
 * Its part has returned from the remote leg, @good or not. Gives what there is room for to the
 * sender. True: the read has a next part, which goes by the window, too, and isn't the caller's
 * until that has returned. False, and nothing else, if it wasn't given here. Any context, no locks
 * held.
 */
bool __must_check read_window_returned(struct mirror *m, struct read_item *r, bool good);

/* It was dropped. Likewise. */
void read_window_dropped(struct mirror *m, struct read_item *r);

/* The remote leg is dead: drop all that are parked. Likewise. */
void read_window_drop(struct mirror *m);

#endif
