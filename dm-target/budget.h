/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budget: how much memory the writes of a mirror may hold, and who waits for it.
 *
 * What is charged: the struct write of each write, zeroing and flush, and the pages of its copy,
 * from before they are taken until they are given back. What an abandoned write (write.h) holds
 * stays charged, since it is memory still. Not charged is what doesn't grow with the load: the
 * reserves and the idle objects of write-pool.h, and the chunks of resync, verify and repair.
 * A write that is absorbed (absorb.h) has no memory of ours, and isn't charged.
 *
 * The limit is memory_kib (at least BUDGET_LEAST), or by default BUDGET_PERCENT of the machine's
 * memory, but at least BUDGET_MIN and at most BUDGET_MAX: dm-crypt takes as much for all its
 * devices together, and more than BUDGET_MAX in flight fills no wire better. All mirrors of a
 * host together have HOST_PERCENT of the memory, at least HOST_MIN, whatever their own limits are.
 *
 * Who gets memory: there are five classes, each with a queue: flushes, small writes, large ones,
 * background writes, and zeroings. A queue has two lists: who sleeps, and bios for which nobody
 * does (below). They take turns, each in its order: thousands of bios may have been left by one
 * caller, or by dm after a suspend, and somebody who commits meanwhile isn't to wait for them all.
 * The next one of a queue is served if its class may have so much at once (below), and
 *  - there is room below the mirror's limit and the host's; or
 *  - the live part, which is what writes hold that aren't yet acknowledged, stays within
 *    BUDGET_LEAST; or
 *  - nothing of its class is live, however large it is.
 * So each class always gets on: though abandoned writes hold the whole limit for minutes, though
 * other mirrors hold all that the host has (they may be stacked on this one, and wait for it), and
 * though others of another class wait without end. And so the bound is: the limit, BUDGET_LEAST,
 * and one largest write of each class. They go in that order, but background writes and zeroings
 * only if none of the first three waits.
 *
 * Zeroings (zero.h) take no memory but the struct write, and time. So no more than BUDGET_ZEROES
 * sectors are zeroed at a time, which is what the legs have under way at most: a suspend waits for
 * all that was let in. One of less than ZEROES_LEAST counts as that, as it is a request, too.
 *
 * How they wait: the caller sleeps in .map, killable. Nobody sleeps who has a fatal signal pending,
 * who reclaims memory (PF_MEMALLOC), or is dm's own worker (it maps what came while a device was
 * suspended, reads, too): then only the bio waits, among those for which nobody sleeps, and a
 * worker (write.c's for starved bios) maps it. It is never failed: a caller's dirty pages would be
 * lost. A bio that waits holds no range and no memory of ours: its place in the queue is in dm's
 * per-bio data. Nothing that others wait for waits here: not reads, the mirror's own I/O, messages,
 * status.
 *
 * What a noflush suspend finds in the queues, but flushes, goes back to dm, which keeps it until
 * the resume. Any other suspend waits for it, also for what came while the device was suspended
 * before. Who submits goes on to sleep while it begins, or thousands of bios would be waiting
 * by the time that dm lets none through; but no longer than CLOSED_PATIENCE, then he leaves his
 * bio here.
 *
 * Background writes: others than zeroings without REQ_SYNC, FUA, PREFLUSH, META, PRIO and SWAP.
 * That is writeback for which nobody waits, of which there is always more; a synchronous write
 * would wait behind all of it in the queues of the legs. So they have half of the limit at most,
 * and of that only so much at once that it is answered not much later than if there were no queue:
 * the fastest answer, and as long again, but BACKGROUND_SLACK_MIN to _MAX. A write that took longer
 * takes a quarter from what they may have; each other one adds to it while more are waiting. One
 * largest write they may always have. What the fastest answer is, is found out again every
 * BACKGROUND_PROBE: they have no more than one largest write until some that came afterwards have
 * returned.
 *
 * Small writes, of WINDOW_SMALL at most, are commits, and pages of an fsync, of which there may be
 * thousands; large ones are all others. A suspend waits for all that was let in, and a commit for
 * the small ones that were let in before it: so each of these classes has so much at once that each
 * write is answered in time:
 *
 *		in time		begins with	at least	at most
 *	small	2 s		256 KiB		128 KiB		16 MiB
 *	large	8 s		4 MiB		1 MiB		half of the limit
 *
 * It begins anew when none was live for FRONT_IDLE, as the wire may be another one by then; at a
 * resume, when dm fills all of it at once, and the first ones to return would say that there is
 * room for more; and when a leg comes back: it doesn't grow then until that has ended. At the last
 * two what background writes may have begins with one largest again, too.
 *
 * It grows by all that is answered in half of that time while more are waiting, so it doubles in a
 * round trip; what took longer brings it down to what would have been in time. What was let in
 * before it was brought down last, or before it began anew, teaches nothing. A leg may be far, or
 * slow, whatever is let in: so twice the fastest answer isn't too long for the one, nor four times
 * that for the other; and what was late with no more than the least is the fastest. Scattered pages
 * take a disk much longer than what was learnt of adjacent ones, so small ones have a bound.
 *
 * Locking: the budget's own spinlock, taken with interrupts off; innermost but for the tasks' and
 * the workqueues' own locks, so that memory can be given back in any context.
 */
#ifndef LOCKSTEP_BUDGET_H
#define LOCKSTEP_BUDGET_H

#include <linux/bio.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct budget;
struct mirror;
struct write;

#define BUDGET_PERCENT		2
#define BUDGET_MIN		(4ul << 20)
#define BUDGET_MAX		(256ul << 20)
#define BUDGET_LEAST		(1024ul * 1024)
#define BUDGET_ZEROES		(SENDER_ZEROINGS * ZERO_AT_ONCE_SECTORS)
#define ZEROES_LEAST		(ZERO_AT_ONCE_SECTORS / 4)
#define HOST_PERCENT		4
#define HOST_MIN		(16ul << 20)
/* Of the option. */
#define MEMORY_KIB_MAX		(1024u * 1024 * 1024)

#define BACKGROUND_SLACK_MIN	(4 * NSEC_PER_MSEC)
#define BACKGROUND_SLACK_MAX	(100 * NSEC_PER_MSEC)
#define BACKGROUND_PROBE	(10ull * NSEC_PER_SEC)
#define FRONT_IDLE		(10ull * NSEC_PER_SEC)

enum budget_class {
	BUDGET_FLUSHES,
	BUDGET_SMALL,
	BUDGET_LARGE,
	BUDGET_BACKGROUND,
	BUDGET_ZEROINGS,
	BUDGET_CLASSES,
};

/* What a bio needs to wait, and then its share; in dm's per-bio data. */
struct budget_share {
	struct list_head list;
	struct bio *bio;
	struct task_struct *task;	/* who sleeps for it, or NULL */
	size_t bytes;
	enum budget_class class;
	unsigned int zeroes;		/* of a zeroing: sectors, ZEROES_LEAST at least */
	bool granted;
};

/* Who waits, of a class. */
struct budget_queue {
	struct list_head sleepers;
	struct list_head left;		/* for these nobody sleeps: a worker is to map them */
	bool lefts_turn;
};

/* What small or large writes may have at once. */
struct budget_front {
	size_t window;
	u64 since;			/* ktime, ns: when it was shrunk, or forgotten */
	u64 fastest;			/* answer, ms; 0: unknown */
	u64 idle;			/* ktime, ns: since when none is live, if so */
};

struct budget {
	spinlock_t lock;		/* what follows, but host */
	size_t limit;
	size_t used;
	size_t stuck;			/* of it: abandoned writes' */
	size_t live[BUDGET_CLASSES];	/* bytes; of zeroings sectors */
	unsigned int waiting;
	struct budget_queue queues[BUDGET_CLASSES];
	struct bio_list ready;		/* have their share, and nobody who maps them */
	bool closed;			/* nobody sleeps for long */
	bool gives_back;		/* nor at all: what waits goes back to dm */
	bool rejoins;			/* a leg is coming back */

	struct budget_front fronts[BUDGET_LARGE + 1];	/* of these classes */

	/* Of background writes; ktime, ns */
	size_t window;			/* may have at once */
	u64 fastest;			/* answer; 0: unknown */
	u64 shrunk;			/* the window last */
	u64 probed;			/* when a probe last began */
	size_t parked;			/* the window while a probe is under way, else 0 */
	unsigned int heard;		/* answers in it */

	struct list_head host;		/* of all budgets */
};

struct budget_told {
	size_t used, limit;
	unsigned int waiting;
};

/* Module init and exit. */
int __must_check budget_module_init(void);
void budget_module_exit(void);

/* @kib: 0 is the default. budget_end() is called once for each init; nothing is charged then. */
void budget_init(struct budget *b, unsigned int kib);
void budget_end(struct budget *b);

/* From now on; who has more gives it back in its time. Process context. */
void budget_set(struct mirror *m, unsigned int kib);

/**
 * budget_enter - a bio's share, in .map
 * @sectors: that are copied; 0: none
 *
 * Sleeps. False: the bio waits, and is no more the caller's: budget_pop() tells when it has its
 * share. Else budget_move() has to follow.
 */
bool __must_check budget_enter(struct mirror *m, struct bio *bio, unsigned int sectors);

/* A bio that has got its share and is to be mapped by the worker, or NULL. Process context. */
struct bio *budget_pop(struct budget *b);

/* The bio's share is the write's. */
void budget_move(struct write *w, struct bio *bio);

/* It is acknowledged, and a leg keeps its memory. Once, before that returns. Any context. */
void budget_stuck(struct write *w);

/* The write's share is given back. Any context. */
void budget_leave(struct write *w);

/*
 * Being suspended, and no more. If @noflush what waits is given back by budget_unserved(), as long
 * as there is any, to end with BLK_STS_DM_REQUEUE: the last one first, as dm puts each before
 * those that it has. Process context.
 */
void budget_close(struct mirror *m, bool noflush);
struct bio *budget_unserved(struct budget *b);
void budget_open(struct budget *b);

/*
 * A leg that answers is about to come back, and then it has, or not: what is known of how long
 * writes take isn't so any more, and nothing is learnt meanwhile. Any context.
 */
void budget_rejoins(struct budget *b, bool rejoins);

/* Any context. */
void budget_tell(struct budget *b, struct budget_told *told);

#endif
