/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Throttle: when a background job (resync, verify) may start its next chunk, and
 * how large it may be, so that the application's I/O takes less than twice as
 * long as it would without the job; nobody has to set a number.
 *
 * What it watches, only while a job is there: the application's I/O in flight,
 * when the last one ended, the longest pause that it makes, and how long an I/O
 * takes that no chunk stood in the way of (a running mean for each leg: a write
 * counts for the remote one, a read for the leg it was sent to).
 *
 * Idle: the application has been quiet for four times its longest recent pause
 *	(at least THROTTLE_QUIET_MIN, at most _MAX). All jobs go at once. Chunks
 *	are so large that one takes less than THROTTLE_IDLE_CHUNK more than the
 *	fastest did, since the least ones took longer: that is what the first I/O after the pause
 *	may have to wait.
 * Polite: otherwise. One chunk at a time, and only where no I/O is in flight nor
 *	was a moment ago. Its size is such that its transfer on a leg takes not
 *	much longer than the application's own I/O there; the nearer to that
 *	limit, the longer the rest after it. If even the smallest takes too long,
 *	it rests for THROTTLE_REST_LONG times its duration, so that not one I/O
 *	in a hundred meets it.
 * Forced: if the application leaves no gap, a chunk goes nevertheless, after a
 *	rest of THROTTLE_REST times the last one's duration. So a job takes at
 *	least a tenth (a hundredth where chunks are too slow to be polite) of the
 *	time, and comes to its end. No rest is longer than THROTTLE_REST_MAX: a
 *	chunk that a bad wire has held up for seconds says nothing of the next.
 *
 * Measured in tests/sim/scenarios/mirror_throttle.py, which fails when the mean
 * or the 99th percentile more than doubles.
 *
 * Least: a job that makes the mirror whole (resync) has a least rate (resync_least, KiB/s; 0 =
 *	none) under any load. Whenever it is behind that, a chunk goes, into the
 *	application's I/O if need be, one at a time, and then it rests for as long as that
 *	took: so the application has half of the time at least, whatever the rate is.
 *	Such a chunk is as small as does for the rate, and takes less than
 *	THROTTLE_IDLE_CHUNK more than the fastest did, or twice what the application's
 *	own I/O does. An I/O that takes longer than such a rest always meets a chunk, and
 *	tells nothing: so after THROTTLE_UNHEARD chunks without one that told something, and
 *	after the first, the rest is THROTTLE_REST_HEAR times as long.
 *	Where the application keeps a queue, a chunk waits behind that, and one at a time
 *	would get it nowhere. So while it is behind, it joins that queue without a rest, in
 *	chunks of an eighth or more of what it may have there: of whatever they queue for each has
 *	half. That is no more than the application has in flight, and no more than the queue lets
 *	through soon, as what waits there for long is what a leg looks like that hangs (watch.h):
 *	it begins with the smallest chunk, and grows by what returns within THROTTLE_SHARE_PART of
 *	the time that a request may take, beside small I/O THROTTLE_SMALL_PART (both as window.h has
 *	it). Where the queue is longer by the application alone, that is a quarter more than the
 *	smallest chunk took by itself, within THROTTLE_QUEUE_LASTS, up to a THROTTLE_SHARE_MOST of
 *	that time. What takes longer halves it, and from then on it grows by an eighth of what
 *	returns.
 *
 * An administrator who wants the mirror whole above all switches politeness off
 * (resync_pace full): then it is always as if the application were idle. Beside
 * all that a rate may be set, which is never exceeded, and comes before the least one.
 *
 * Locking: the throttle's own spinlock, innermost, taken with interrupts off.
 */
#ifndef LOCKSTEP_THROTTLE_H
#define LOCKSTEP_THROTTLE_H

#include <linux/blk_types.h>
#include <linux/time64.h>
#include <linux/types.h>

#include "leg.h"

struct throttle;

#define THROTTLE_QUIET_MIN	(200 * NSEC_PER_MSEC)
#define THROTTLE_QUIET_MAX	(10ULL * NSEC_PER_SEC)
#define THROTTLE_IDLE_CHUNK	(100 * NSEC_PER_MSEC)
#define THROTTLE_REST		9
#define THROTTLE_REST_LONG	99
#define THROTTLE_REST_MAX	(2ULL * NSEC_PER_SEC)
#define THROTTLE_REST_HEAR	4
#define THROTTLE_UNHEARD	16
#define THROTTLE_SHARE_PART	16
#define THROTTLE_SMALL_PART	8
#define THROTTLE_SMALL		64u		/* sectors, in the mean */
#define THROTTLE_SHARE_MOST	4
#define THROTTLE_QUEUE_LASTS	(30ULL * NSEC_PER_SEC)
#define THROTTLE_PATIENCE	(10ULL * NSEC_PER_SEC)
/* Seconds over which the rate is told. */
#define THROTTLE_RATE_SECONDS	5
/* KiB/s. 4 GiB are whole again within 18 minutes then, 100 GiB within 7 hours. */
#define RESYNC_LEAST_DEFAULT	4096u

/* What a job has waited for most of the time, over the last THROTTLE_RATE_SECONDS. */
enum throttle_holds {
	HOLDS_NOTHING,
	HOLDS_APPLICATION,
	HOLDS_RATE,
	HOLDS,
};

/* What an I/O of the application carries with it. */
struct throttle_io {
	u64 began;			/* 0: not watched */
	u64 chunks;			/* started until then; 0: one was in flight */
	unsigned int sectors;
};

/* The leave to do one chunk, and what became of it. */
struct throttle_grant {
	unsigned int sectors;		/* allowed, at most; then: done, maybe 0 */
	u64 ns[LEGS];			/* what it took on each leg, 0 = untouched */
	/* throttle.c's */
	int pace;
	bool least;
	unsigned int booked;
	u64 nr;
};

/**
 * throttle_create - a throttle with nothing to watch
 * @min_sectors: the smallest chunk; every size is a multiple of it
 * @max_sectors: the largest chunk, a multiple of @min_sectors
 * @rate: KiB in each second, 0 = no bound
 *
 * May sleep. Returns NULL for want of memory.
 */
struct throttle *throttle_create(unsigned int min_sectors, unsigned int max_sectors,
				 unsigned int rate);
void throttle_destroy(struct throttle *t);

/* Around each bio of the application; @sectors: of data. Any context. */
void throttle_app_begin(struct throttle *t, struct throttle_io *io, unsigned int sectors);
/* @leg: whose latency it tells (see above), LEGS if it tells none. */
void throttle_app_end(struct throttle *t, struct throttle_io *io, enum leg_id leg);

/* Around a job's whole run: from the first to the last there is something to watch. */
void throttle_watch(struct throttle *t);
void throttle_unwatch(struct throttle *t);

/**
 * throttle_begin - wait until a chunk may start
 * @grant: sectors and pace are set, ns cleared
 * @least: does the least rate count for this job?
 * @wanted: asked without locks held, again after throttle_wake(); when it says
 *	no, the wait ends
 *
 * Sleeps. Returns false if the chunk isn't wanted any more; else throttle_end()
 * has to follow.
 */
bool __must_check throttle_begin(struct throttle *t, struct throttle_grant *grant, bool least,
				 bool (*wanted)(void *arg), void *arg);
void throttle_end(struct throttle *t, const struct throttle_grant *grant);

/* Whoever waits in throttle_begin() asks wanted() again. Any context. */
void throttle_wake(struct throttle *t);

/* Leave the application its latency? So it does at first. Any context. */
void throttle_set_polite(struct throttle *t, bool polite);

/* Any context. */
void throttle_set_rate(struct throttle *t, unsigned int rate);

/* Likewise, the least rate; so it is 0 at first. Any context. */
void throttle_set_least(struct throttle *t, unsigned int least);

/* A request that is older than that is one of a leg that hangs; 0: never. Any context. */
void throttle_set_patience(struct throttle *t, unsigned int ms);

/* KiB in each second, over the last THROTTLE_RATE_SECONDS. Any context. */
unsigned int throttle_rate(struct throttle *t);

/* What holds the jobs back? Any context. */
enum throttle_holds throttle_holds(struct throttle *t);

#endif
