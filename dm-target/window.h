/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Window: how many bytes of writes are on the way to the remote leg. Reads go by the same rule,
 * with a class of their own (read-window.h).
 *
 * Why: what the device is given at once queues there, and a request that queues is as old as one
 * that hangs (watch.h): a burst of small writes that the wire takes 20 s for has requests of 20 s,
 * though the leg works. And an iSCSI initiator sends the first burst of each command that it has
 * (64 KiB with LIO) before it sends more of any, and a target asks for the rest of all of
 * them at once: so of many large writes on a slow wire none is complete before nearly all are.
 * Measured: a checkpoint of PostgreSQL, 114 writes, on 3 Mbit/s, none answered for 10 s.
 *
 * Rule: there are two classes, and each has its limit. A write is sent while fewer bytes of its
 * class than that are on the way, or none. Else it is parked, and sent in its turn when others
 * have returned. Large is what is more than WINDOW_SMALL in one bio, or in one command
 * (scatter.h). Small ones don't wait for large ones, and go before all large ones that are
 * parked: they need not be asked for, are complete in the order in which they were sent, and are
 * somebody's commit more often than not. What isn't a caller's write isn't counted: a
 * resync chooses its chunks by the time that they take (throttle.h).
 *
 * The limit follows the wire, so that a write is answered within about a part of remote_timeout
 * (of its default, if that is never): a WINDOW_PART, small ones a WINDOW_SMALL_PART.
 *  - one that took longer halves it, but only if it was sent since the last time;
 *  - else, if others are parked, it grows: by all that returns until it has been
 *    halved once (so it doubles in a round trip), by an eighth of that afterwards; but not by what
 *    took more than a quarter of remote_timeout: what is on the way then may be due to twice as
 *    much (eight mirrors, each with a single large write on the way, take half of it by 3 Mbit/s).
 * Mirrors of one host come by one wire more often than not: so what has a limit is what all of them
 * have on the way, each a like part of its own one, but not less than the least. One by another
 * wire has less to begin with, too, and grows.
 *
 * It starts at WINDOW_FIRST, and isn't less than WINDOW_LEAST, WINDOW_SMALL_LEAST for small ones.
 * What takes longer with no more than that on the way isn't late for a queue of ours, and a shorter
 * one wouldn't help it: the way is far (what is beyond the first burst takes two round trips), or
 * the leg slow. From then on WINDOW_LONE times that is allowed (but half of remote_timeout at
 * most), until others take less. So a wire where a lone write takes less than a sixth of
 * remote_timeout isn't left idle for long. 7 MiB at 155 Mbit/s and 400 ms take 25 s the first
 * time, then 6 (always 128 KiB on the way: 45; no window: 9, then 8).
 *
 * Why a 16th: a commit beside a burst waits for what is on the way. Measured
 * (mirror_window.py: 7 MiB at 3 Mbit/s and 14 ms, a small write with FUA always beside
 * it; and pgbench, S-iW):
 *
 *	part	burst, x its bytes' time	longest commit, s	pgbench, ms
 *	8	1.08				0.93			935
 *	16	1.14				0.57			931
 *	32	1.15				0.40			930
 *
 * Ways out: something of its class is on the way while any write is parked. It returns, or the
 * leg is given up; then window_drop() hands out those that are parked, which have never
 * been sent. To a dead leg nothing is parked.
 *
 * A wire that becomes slower by a hundred times within a second has been given too much by
 * then: such a leg may be given up, and comes back. But a limit above the first one is forgotten
 * when that would have been enough for WINDOW_IDLE: the wire may be another one, and what is little
 * for it tells nothing.
 *
 * Locking: writes.lock guards the classes of writes.
 */
#ifndef LOCKSTEP_WINDOW_H
#define LOCKSTEP_WINDOW_H

#include <linux/list.h>
#include <linux/time64.h>
#include <linux/types.h>

struct mirror;
struct write;

#define WINDOW_SMALL	(32u << 10)	/* bytes, at most */
#define WINDOW_FIRST	(256u << 10)
#define WINDOW_LEAST	(128u << 10)
#define WINDOW_SMALL_LEAST	(32u << 10)
#define WINDOW_PART		16
#define WINDOW_SMALL_PART	8
#define WINDOW_LONE		3
#define WINDOW_IDLE		(10ULL * NSEC_PER_SEC)

enum window_kind {
	WINDOW_OF_SMALL,
	WINDOW_OF_LARGE,
	WINDOWS,			/* of writes */
	WINDOW_OF_READS = WINDOWS,
	WINDOW_KINDS,
};

struct window_class {
	enum window_kind kind;
	bool counted;			/* among the host's mirrors that have some on the way */
	size_t bytes;			/* on the way */
	size_t limit;			/* of them, and of other mirrors' */
	size_t first, least;		/* of the limit */
	unsigned int part;		/* of remote_timeout */
	u64 halved;			/* ktime, ns; 0: never */
	u64 used;			/* ktime, ns, when the first limit wasn't enough last */
	u64 lone;			/* ns: one took, limit at its least; 0: no matter */
	struct list_head parked;	/* sender items; of writes: runs' remote parts (batch.h) */
};

struct window {
	struct window_class classes[WINDOWS];
};

/* How many bytes may be on the way now? Any context, with the class' lock. */
size_t window_limit(const struct window_class *c);

/* May so many more? Likewise. */
bool __must_check window_room(const struct window_class *c, size_t bytes);

/* They are. Likewise. */
void window_add(const struct mirror *m, struct window_class *c, unsigned int bytes);

/* The leg is dead: what hangs there is no matter for other mirrors. Likewise. */
void window_leave(struct window_class *c);

/* Something new is to go: is the limit of another time? Likewise. */
void window_wake(struct window_class *c);

/*
 * So many bytes, which were added at @sent_at (ktime, ns), have returned: the limit follows.
 * Likewise.
 */
void window_back(struct mirror *m, struct window_class *c, unsigned int bytes, u64 sent_at);

void window_class_init(struct window_class *c, enum window_kind kind, size_t first, size_t least,
		       unsigned int part);

void window_init(struct mirror *m);

/**
 * window_take - may these runs go to the remote leg now?
 * @runs: launched; more than one: they are to be one command
 *
 * True: they are on the way, and the caller gives them to the leg's sender as one unit. False:
 * they are parked, and no more the caller's; they are given to it later, or the leg dies.
 * Any context.
 */
bool __must_check window_take(struct mirror *m, struct write **runs, unsigned int nr);

/*
 * This run has returned from the remote leg, or was dropped by the sender. Gives what there is
 * room for to that. Any context, no locks held.
 */
void window_returned(struct write *run);

/* The leg is dead: move the items of all runs that are parked to @items. Under writes.lock. */
void window_drop(struct mirror *m, struct list_head *items);

#endif
