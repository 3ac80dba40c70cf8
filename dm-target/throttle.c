// SPDX-License-Identifier: GPL-2.0-only
#include "throttle.h"

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "lockstep-test.h"

TEST_KNOB(bool, no_share, "a resync has one chunk at a time, however long that waits");
TEST_KNOB(bool, any_share, "a resync has as much in a queue as the application, however slow it is");
TEST_KNOB(bool, queue_blames, "a resync has the least share of a queue that is long without it");
TEST_KNOB(bool, no_least_rate, "a resync waits politely for ever");

/* Chunks between two decisions about their size. */
#define JUDGED		4
/* A chunk in the application's queue is as large as such a part of what may be there, at least. */
#define SHARED		8
/* What may be there by all chunks, once it was too much, grows by such a part of what returns. */
#define SHARE_GROWS	8
/* An I/O's weight in the running means of latency: one in 2^LATENCY_WEIGHT. */
#define LATENCY_WEIGHT	4
/* The longest pause is forgotten by one in 2^PAUSE_DECAY with each pause. */
#define PAUSE_DECAY	8
/* How often to look whether the application has become quiet. */
#define LOOK_MIN	NSEC_PER_MSEC
#define LOOK_MAX	(10 * NSEC_PER_MSEC)
/* and whether it has more of a queue */
#define LOOK_QUEUE	(40 * NSEC_PER_MSEC)

enum pace {
	PACE_IDLE,		/* at full speed */
	PACE_GAP,		/* polite, nothing else in flight */
	PACE_FORCED,		/* polite, into the application's I/O */
	PACE_LEAST,		/* it is behind its least rate */
	PACE_SHARE,		/* likewise, in the application's queue */
};

/* The size of chunks, as it is found out; in gaps and forced it's the same. */
struct size {
	unsigned int sectors;
	u64 since;		/* the last decision: how many had started */
	unsigned int judged;	/* chunks that have started and ended since */
	u64 ratio;		/* sum over them: cost to limit, in 1/256 */
};

struct throttle {
	spinlock_t lock;		/* all that follows, but wake */
	wait_queue_head_t wake;
	unsigned int min_sectors;
	unsigned int max_sectors;
	unsigned int watchers;

	/* the application */
	unsigned int in_flight;
	u64 sectors_in_flight;
	u64 quiet_since;
	u64 pause;		/* the longest of late */
	u64 latency[LEGS];	/* 0 = unknown */
	unsigned int unheard;	/* chunks for the least rate since one was measured */

	/* the jobs */
	unsigned int chunks;	/* in flight, */
	u64 chunk_sectors;	/* with so many */
	u64 started;		/* chunks ever; never 0 */
	struct size idle;
	struct size polite;
	struct size lagging;	/* chunks that go for the least rate */
	u64 shared;		/* sectors that chunks may have in the application's queue */
	u64 shared_since;	/* since it was halved: how many had started; 0: never */
	u64 queue;		/* ns: the longest that the smallest chunk took there by itself, */
	u64 queue_since;	/* since then */
	u64 patience;		/* ns: how old a request may get */
	u64 fastest;		/* cost of the fastest chunk */
	u64 forced_at;		/* polite: no longer than until then */
	u64 rest_until;		/* polite: not before, even in a gap */

	unsigned int least;	/* KiB/s */
	u64 due_at;		/* by it: when the next sector is */
	u64 least_at;		/* not before, by it */

	u64 idle_since;		/* no chunk is in flight since */
	enum throttle_holds held_by;	/* now */

	bool full;		/* never polite */
	unsigned int rate;
	u64 next_at;		/* by the rate */

	u64 told_since;		/* where the run begins whose rate is told */
	u64 second;		/* of the newest bucket */
	u64 sectors[THROTTLE_RATE_SECONDS + 1];
	u64 held[THROTTLE_RATE_SECONDS + 1][HOLDS];	/* ns */
};

struct throttle *throttle_create(unsigned int min_sectors, unsigned int max_sectors,
				 unsigned int rate)
{
	struct throttle *t = kzalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return NULL;
	spin_lock_init(&t->lock);
	init_waitqueue_head(&t->wake);
	t->min_sectors = min_sectors;
	t->max_sectors = max_sectors;
	t->rate = rate;
	t->started = 1;
	t->idle.sectors = min_sectors;
	t->polite.sectors = min_sectors;
	t->lagging.sectors = min_sectors;
	t->patience = THROTTLE_PATIENCE;
	return t;
}

void throttle_destroy(struct throttle *t)
{
	kfree(t);
}

/* --- the application --- */

void throttle_app_begin(struct throttle *t, struct throttle_io *io, unsigned int sectors)
{
	unsigned long flags;
	u64 now;

	io->began = 0;
	if (likely(!READ_ONCE(t->watchers)))
		return;

	spin_lock_irqsave(&t->lock, flags);
	if (t->watchers) {
		now = ktime_get_ns();
		io->began = now;
		io->chunks = t->chunks ? 0 : t->started;
		io->sectors = sectors;
		t->sectors_in_flight += sectors;
		if (!t->in_flight++)
			t->pause = max(now - t->quiet_since,
				       t->pause - (t->pause >> PAUSE_DECAY));
	}
	spin_unlock_irqrestore(&t->lock, flags);
}

void throttle_app_end(struct throttle *t, struct throttle_io *io, enum leg_id leg)
{
	unsigned long flags;
	u64 now, *mean;

	if (likely(!io->began))
		return;

	spin_lock_irqsave(&t->lock, flags);
	now = ktime_get_ns();
	t->in_flight--;
	t->sectors_in_flight -= io->sectors;
	t->quiet_since = now;
	if (leg < LEGS && io->chunks == t->started) {
		t->unheard = 0;
		mean = &t->latency[leg];
		*mean = *mean ? *mean - (*mean >> LATENCY_WEIGHT) +
				((now - io->began) >> LATENCY_WEIGHT) :
			now - io->began;
	}
	spin_unlock_irqrestore(&t->lock, flags);
}

void throttle_watch(struct throttle *t)
{
	spin_lock_irq(&t->lock);
	if (!t->watchers) {
		/* Nothing is known: not idle until it has been quiet for a while. */
		t->quiet_since = ktime_get_ns();
		t->pause = 0;
		t->latency[LEG_LOCAL] = 0;
		t->latency[LEG_REMOTE] = 0;
		t->unheard = THROTTLE_UNHEARD;
		t->rest_until = 0;
		t->forced_at = t->quiet_since;
		t->due_at = t->quiet_since;
		t->least_at = t->quiet_since;
		t->idle_since = t->quiet_since;
		t->shared = t->min_sectors;
		t->shared_since = 0;
		t->queue = 0;
	}
	WRITE_ONCE(t->watchers, t->watchers + 1);
	spin_unlock_irq(&t->lock);
}

void throttle_unwatch(struct throttle *t)
{
	spin_lock_irq(&t->lock);
	WRITE_ONCE(t->watchers, t->watchers - 1);
	spin_unlock_irq(&t->lock);
}

/* --- the jobs --- */

/* What a chunk took beyond the fastest one: the way there and back has no part in it. */
static u64 judge_idle(const struct throttle *t, u64 ns)
{
	u64 more = ns > t->fastest ? ns - t->fastest : 0;

	return max(div64_u64(more << 8, THROTTLE_IDLE_CHUNK), 1ULL);
}

/* For how long a leg may be busy with a chunk of this pace; 0 = no opinion. */
static u64 limit(const struct throttle *t, enum leg_id leg, enum pace pace)
{
	u64 latency = t->latency[leg];

	/* Without reads the local leg still has its part in each write. */
	if (!latency && leg == LEG_LOCAL)
		latency = t->latency[LEG_REMOTE];
	/*
	 * An I/O that comes just after the chunk waits for what the chunk takes
	 * beyond the way there and back, which both have. A forced chunk waits
	 * itself for the I/O that was there before.
	 */
	return pace == PACE_GAP ? latency + latency / 3 : 2 * latency;
}

/* What a chunk took as a part of what it may take, in 1/256; 0 = no opinion. */
static u64 judge(const struct throttle *t, const struct throttle_grant *grant)
{
	enum leg_id leg;
	u64 worst = 0;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		u64 ns = grant->ns[leg], may = limit(t, leg, grant->pace), part;

		if (!ns)
			continue;
		part = may ? div64_u64(ns << 8, may) : 0;
		if (grant->pace == PACE_IDLE)
			part = judge_idle(t, ns);
		else if (grant->pace == PACE_LEAST)
			part = part ? min(part, judge_idle(t, ns)) : judge_idle(t, ns);
		worst = max(worst, part);
	}
	return worst;
}

/* Steps up are so small, and taken so seldom, that one too far does no harm. */
static void resize(struct throttle *t, struct size *size, u64 ratio,
		   const struct throttle_grant *grant)
{
	/* What was in flight at the last decision tells of the one before. */
	if (grant->nr <= size->since)
		return;
	size->ratio += ratio;
	if (++size->judged < JUDGED)
		return;

	ratio = size->ratio / JUDGED;
	size->ratio = 0;
	size->judged = 0;
	size->since = t->started;
	/* The way has become longer, or what else is on it: the fastest one is of another time. */
	if (ratio > 256 && size->sectors == t->min_sectors && size != &t->polite)
		t->fastest = 0;
	if (ratio > 256)
		size->sectors = max(t->min_sectors,
				    rounddown(size->sectors / 2, t->min_sectors));
	else if (ratio && ratio < 200)
		size->sectors = min(t->max_sectors,
				    roundup(size->sectors + size->sectors / 2, t->min_sectors));
}

static u64 quiet_needed(const struct throttle *t)
{
	return clamp_t(u64, 4 * t->pause, THROTTLE_QUIET_MIN, THROTTLE_QUIET_MAX);
}

/* How long until the job is behind its least rate. */
static u64 until_due(const struct throttle *t, u64 now, bool least)
{
	if (!least || !t->least || test_knob(no_least_rate))
		return U64_MAX;
	return t->due_at > now ? t->due_at - now : 0;
}

/* So many sectors may all chunks have in the application's queue. */
static u64 share(const struct throttle *t)
{
	if (test_knob(no_share))
		return 0;
	return test_knob(any_share) ? t->sectors_in_flight : min(t->sectors_in_flight, t->shared);
}

/* And so many one more; 0 = none. */
static unsigned int share_left(const struct throttle *t)
{
	u64 most = share(t), room = most - min(most, t->chunk_sectors);

	if (room < max_t(u64, most / SHARED, t->min_sectors))
		return 0;
	return min_t(u64, rounddown(room, t->min_sectors), t->max_sectors);
}

/* Where all jobs go whatever the application does: as many as there are, by default. */
static unsigned int share_each(const struct throttle *t)
{
	return min_t(u64, rounddown(share(t) / SHARED, t->min_sectors), t->max_sectors);
}

/* How long before a chunk may start; 0 = now, at *pace. */
static u64 delay_politely(const struct throttle *t, u64 now, int *pace)
{
	u64 quiet = t->in_flight ? 0 : now - t->quiet_since;
	u64 latency = t->latency[LEG_REMOTE] ?: t->latency[LEG_LOCAL];
	u64 moment = clamp_t(u64, latency / 4, NSEC_PER_USEC * 50, NSEC_PER_MSEC * 2);
	u64 look;

	if (t->rest_until > now)
		return min(t->rest_until - now, quiet_needed(t) - quiet);
	if (quiet >= moment) {
		*pace = PACE_GAP;
		return 0;
	}
	if (t->forced_at <= now) {
		*pace = PACE_FORCED;
		return 0;
	}
	look = t->in_flight ? clamp_t(u64, latency / 2, LOOK_MIN, LOOK_MAX) : moment - quiet;
	return min(look, t->forced_at - now);
}

static u64 delay(struct throttle *t, u64 now, bool least, int *pace)
{
	u64 quiet = t->in_flight ? 0 : now - t->quiet_since;
	u64 due, lagging;

	t->held_by = HOLDS_NOTHING;
	if (t->rate && t->next_at > now) {
		t->held_by = HOLDS_RATE;
		return t->next_at - now;
	}
	if (t->full || quiet >= quiet_needed(t)) {
		*pace = t->full && share_each(t) > t->idle.sectors ? PACE_SHARE : PACE_IDLE;
		return 0;
	}
	due = until_due(t, now, least);
	if (!due && share_left(t)) {
		*pace = PACE_SHARE;
		return 0;
	}
	if (t->chunks)		/* woken by its end; not by a queue that grows */
		return clamp_t(u64, due, LOOK_QUEUE, NSEC_PER_SEC);
	t->held_by = HOLDS_APPLICATION;
	lagging = max(due, t->least_at > now ? t->least_at - now : 0);
	if (!lagging) {
		*pace = PACE_LEAST;
		return 0;
	}
	return min(lagging, delay_politely(t, now, pace));
}

static u64 ns_of(u64 sectors, unsigned int kib)
{
	return div_u64(sectors * NSEC_PER_SEC, 2 * kib);
}

/* Of the chunk that is about to start. */
static unsigned int sectors_of(const struct throttle *t, u64 now, int pace)
{
	u64 owed;

	if (pace == PACE_IDLE)
		return t->idle.sectors;
	if (pace == PACE_SHARE && t->full)
		return share_each(t);
	if (pace != PACE_LEAST && pace != PACE_SHARE)
		return t->polite.sectors;
	owed = min(div64_u64((now - t->due_at) * 2 * t->least, NSEC_PER_SEC),
		   pace == PACE_SHARE ? share_left(t) : t->lagging.sectors);
	return max_t(u64, roundup(owed, t->min_sectors), t->min_sectors);
}

static void turn(struct throttle *t, u64 now);

/* It has been said what it was waiting for since there was no chunk any more. */
static void count_held(struct throttle *t, u64 now)
{
	unsigned int i;

	turn(t, now);
	div_u64_rem(t->second, ARRAY_SIZE(t->held), &i);
	if (!t->chunks)
		t->held[i][t->held_by] += now - t->idle_since;
	t->idle_since = now;
}

/*
 * What it hasn't managed for a second isn't made good; nor does what an idle application has let
 * it do ahead count for longer once that is busy.
 */
static void book(struct throttle *t, u64 now, const struct throttle_grant *grant)
{
	if (grant->least && t->least)
		t->due_at = clamp_t(s64, t->due_at, now - NSEC_PER_SEC, now + NSEC_PER_SEC) +
			    ns_of(grant->booked, t->least);
}

/* Starts the chunk, or returns how long to wait. */
static u64 try_begin(struct throttle *t, struct throttle_grant *grant, bool least)
{
	u64 now, wait;

	spin_lock_irq(&t->lock);
	now = ktime_get_ns();
	count_held(t, now);
	wait = delay(t, now, least, &grant->pace);
	if (!wait) {
		grant->sectors = sectors_of(t, now, grant->pace);
		grant->least = least;
		grant->booked = grant->sectors;
		grant->ns[LEG_LOCAL] = 0;
		grant->ns[LEG_REMOTE] = 0;
		t->chunks++;
		t->chunk_sectors += grant->booked;
		book(t, now, grant);
		grant->nr = ++t->started;
		if (t->rate)
			t->next_at = max(t->next_at, now) +
				     div_u64((u64)grant->sectors * NSEC_PER_SEC, t->rate * 2);
	}
	spin_unlock_irq(&t->lock);
	return wait;
}

bool throttle_begin(struct throttle *t, struct throttle_grant *grant, bool least,
		    bool (*wanted)(void *arg), void *arg)
{
	u64 wait;

	while (wanted(arg)) {
		DEFINE_WAIT(entry);
		ktime_t expires;

		/* Not "uninterruptible": a rest is neither load nor a hang. */
		prepare_to_wait(&t->wake, &entry, TASK_IDLE);
		wait = try_begin(t, grant, least);
		if (wait && wanted(arg)) {
			expires = ns_to_ktime(wait);
			schedule_hrtimeout_range(&expires, wait / 16, HRTIMER_MODE_REL);
		}
		finish_wait(&t->wake, &entry);
		if (!wait)
			return true;
	}
	return false;
}

/* Empties the buckets of the seconds that have passed since the last one. */
static void turn(struct throttle *t, u64 now)
{
	u64 second = div_u64(now, NSEC_PER_SEC);
	unsigned int i;

	if (second - t->second >= ARRAY_SIZE(t->sectors)) {
		memset(t->sectors, 0, sizeof(t->sectors));
		memset(t->held, 0, sizeof(t->held));
		t->told_since = now;
		t->second = second;
	}
	while (t->second < second) {
		t->second++;
		div_u64_rem(t->second, ARRAY_SIZE(t->sectors), &i);
		t->sectors[i] = 0;
		memset(t->held[i], 0, sizeof(t->held[i]));
	}
}

/* Long enough, now and then, for an I/O that no chunk stands in the way of. */
static u64 rest_of_lagging(struct throttle *t, u64 took)
{
	if (t->unheard < THROTTLE_UNHEARD) {
		t->unheard++;
		return took;
	}
	t->unheard = 1;
	return took * THROTTLE_REST_HEAR;
}

/* What a chunk took tells how large the next of its pace may be, and when it may come. */
static void learn(struct throttle *t, const struct throttle_grant *grant, u64 now)
{
	bool idle = grant->pace == PACE_IDLE, lagging = grant->pace == PACE_LEAST;
	struct size *size = idle ? &t->idle : lagging ? &t->lagging : &t->polite;
	u64 took = max(grant->ns[LEG_LOCAL], grant->ns[LEG_REMOTE]), ratio, rest, forced;

	if (!t->fastest || took < t->fastest)
		t->fastest = took;
	ratio = judge(t, grant);
	took = grant->ns[LEG_LOCAL] + grant->ns[LEG_REMOTE];
	if (!idle && !lagging && size->sectors == t->min_sectors && ratio > 256) {
		forced = took * THROTTLE_REST_LONG;
		rest = forced;
	} else {
		forced = took * THROTTLE_REST;
		/* The nearer to the limit, the more of the gaps are left. */
		rest = ratio > 128 ? (took * (ratio - 128)) >> 5 : 0;
	}
	t->forced_at = now + min(forced, THROTTLE_REST_MAX);
	if (lagging)
		t->least_at = now + min(rest_of_lagging(t, took), THROTTLE_REST_MAX);
	else
		t->rest_until = now + min(rest, THROTTLE_REST_MAX);
	resize(t, size, ratio, grant);
}

/* What a chunk may take there: a quarter more, too, than the queue is long without others. */
static u64 share_may_take(const struct throttle *t)
{
	bool small = t->sectors_in_flight <= (u64)t->in_flight * THROTTLE_SMALL &&
		     !test_knob(queue_blames);
	u64 most = div_u64(t->patience, small ? THROTTLE_SMALL_PART : THROTTLE_SHARE_PART);

	if (test_knob(queue_blames))
		return most;
	return max(most, min(t->queue + t->queue / 4, div_u64(t->patience, THROTTLE_SHARE_MOST)));
}

/*
 * In the application's queue a chunk tells how long that is, with what all chunks have there. It
 * is a request as any other: if the queue makes it old, they have too much there.
 */
static void learn_share(struct throttle *t, const struct throttle_grant *grant, u64 now)
{
	u64 took = max(grant->ns[LEG_LOCAL], grant->ns[LEG_REMOTE]);

	if (now - t->queue_since > THROTTLE_QUEUE_LASTS) {
		t->queue = 0;
		t->queue_since = now;
	}
	if (t->chunk_sectors <= t->min_sectors && took > t->queue) {
		t->queue = took;
		t->shared_since = 0;	/* that wasn't by what chunks had there */
	}
	if (took <= share_may_take(t)) {
		if (t->chunk_sectors >= t->shared / 2)	/* it was the bound */
			t->shared += t->shared_since ? max(grant->booked / SHARE_GROWS, 1U) :
				     grant->booked;
	} else if (grant->nr > t->shared_since) {
		t->shared = max_t(u64, t->shared / 2, t->min_sectors);
		t->shared_since = t->started;
	}
}

void throttle_end(struct throttle *t, const struct throttle_grant *grant)
{
	unsigned int i;
	u64 now;

	spin_lock_irq(&t->lock);
	now = ktime_get_ns();
	count_held(t, now);
	if (grant->sectors && (grant->pace == PACE_SHARE || t->full))
		learn_share(t, grant, now);
	t->chunks--;
	t->chunk_sectors -= grant->booked;
	if (grant->least && t->least)	/* not all that it was allowed */
		t->due_at -= ns_of(grant->booked - grant->sectors, t->least);
	if (grant->sectors) {
		if (grant->pace != PACE_SHARE)
			learn(t, grant, now);
		turn(t, now);
		div_u64_rem(t->second, ARRAY_SIZE(t->sectors), &i);
		t->sectors[i] += grant->sectors;
	}
	spin_unlock_irq(&t->lock);
	throttle_wake(t);
}

void throttle_wake(struct throttle *t)
{
	wake_up_all(&t->wake);
}

void throttle_set_polite(struct throttle *t, bool polite)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	t->full = !polite;
	spin_unlock_irqrestore(&t->lock, flags);
	throttle_wake(t);
}

void throttle_set_rate(struct throttle *t, unsigned int rate)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	t->rate = rate;
	t->next_at = 0;		/* what the old rate has booked ahead */
	spin_unlock_irqrestore(&t->lock, flags);
	throttle_wake(t);
}

void throttle_set_least(struct throttle *t, unsigned int least)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	t->least = least;
	t->due_at = ktime_get_ns();
	spin_unlock_irqrestore(&t->lock, flags);
	throttle_wake(t);
}

void throttle_set_patience(struct throttle *t, unsigned int ms)
{
	unsigned long flags;

	spin_lock_irqsave(&t->lock, flags);
	t->patience = ms ? (u64)ms * NSEC_PER_MSEC : THROTTLE_PATIENCE;
	spin_unlock_irqrestore(&t->lock, flags);
}

enum throttle_holds throttle_holds(struct throttle *t)
{
	u64 now, span, held[HOLDS] = {};
	enum throttle_holds by, most = HOLDS_NOTHING;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&t->lock, flags);
	now = ktime_get_ns();
	count_held(t, now);
	for (i = 0; i < ARRAY_SIZE(t->held); i++)
		for (by = HOLDS_APPLICATION; by < HOLDS; by++)
			held[by] += t->held[i][by];
	span = min(now - t->told_since,
		   now - (t->second - THROTTLE_RATE_SECONDS) * NSEC_PER_SEC);
	if (t->watchers)
		for (by = HOLDS_APPLICATION; by < HOLDS; by++)
			if (held[by] > span / 2)
				most = by;
	spin_unlock_irqrestore(&t->lock, flags);
	return most;
}

unsigned int throttle_rate(struct throttle *t)
{
	u64 now, span, sum = 0;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&t->lock, flags);
	now = ktime_get_ns();
	turn(t, now);
	for (i = 0; i < ARRAY_SIZE(t->sectors); i++)
		sum += t->sectors[i];
	/* The full seconds of the other buckets, and what has passed of this one. */
	span = min(now - t->told_since,
		   now - (t->second - THROTTLE_RATE_SECONDS) * NSEC_PER_SEC);
	spin_unlock_irqrestore(&t->lock, flags);
	return span ? div64_u64(sum * (NSEC_PER_SEC / 2), span) : 0;
}
