// SPDX-License-Identifier: GPL-2.0-only
#include "throttle.h"

#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

/* Chunks between two decisions about their size. */
#define JUDGED		4
/* An I/O's weight in the running means of latency: one in 2^LATENCY_WEIGHT. */
#define LATENCY_WEIGHT	4
/* The longest pause is forgotten by one in 2^PAUSE_DECAY with each pause. */
#define PAUSE_DECAY	8
/* How often to look whether the application has become quiet. */
#define LOOK_MIN	NSEC_PER_MSEC
#define LOOK_MAX	(10 * NSEC_PER_MSEC)

enum pace {
	PACE_IDLE,		/* at full speed */
	PACE_GAP,		/* polite, nothing else in flight */
	PACE_FORCED,		/* polite, into the application's I/O */
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
	u64 quiet_since;
	u64 pause;		/* the longest of late */
	u64 latency[LEGS];	/* 0 = unknown */

	/* the jobs */
	unsigned int chunks;	/* in flight */
	u64 started;		/* chunks ever; never 0 */
	struct size idle;
	struct size polite;
	u64 fastest;		/* cost of the fastest chunk */
	u64 forced_at;		/* polite: no longer than until then */
	u64 rest_until;		/* polite: not before, even in a gap */

	bool full;		/* never polite */
	unsigned int rate;
	u64 next_at;		/* by the rate */

	u64 told_since;		/* where the run begins whose rate is told */
	u64 second;		/* of the newest bucket */
	u64 sectors[THROTTLE_RATE_SECONDS + 1];
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
	return t;
}

void throttle_destroy(struct throttle *t)
{
	kfree(t);
}

/* --- the application --- */

void throttle_app_begin(struct throttle *t, struct throttle_io *io)
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
	t->quiet_since = now;
	if (leg < LEGS && io->chunks == t->started) {
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
		t->rest_until = 0;
		t->forced_at = t->quiet_since;
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

/* For how long a leg may be busy with a chunk of this pace; 0 = no opinion. */
static u64 limit(const struct throttle *t, enum leg_id leg, enum pace pace)
{
	u64 latency = t->latency[leg];

	if (pace == PACE_IDLE)
		return t->fastest + THROTTLE_IDLE_CHUNK;
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
		u64 may = limit(t, leg, grant->pace);

		if (grant->ns[leg] && may)
			worst = max(worst, div64_u64(grant->ns[leg] << 8, may));
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

/* How long before a chunk may start; 0 = now, at *pace. */
static u64 delay(const struct throttle *t, u64 now, int *pace)
{
	u64 quiet = t->in_flight ? 0 : now - t->quiet_since;
	u64 latency = t->latency[LEG_REMOTE] ?: t->latency[LEG_LOCAL];
	u64 moment = clamp_t(u64, latency / 4, NSEC_PER_USEC * 50, NSEC_PER_MSEC * 2);
	u64 look;

	if (t->rate && t->next_at > now)
		return t->next_at - now;
	if (t->full || quiet >= quiet_needed(t)) {
		*pace = PACE_IDLE;
		return 0;
	}
	if (t->chunks)
		return NSEC_PER_SEC;	/* woken by its end */
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

/* Starts the chunk, or returns how long to wait. */
static u64 try_begin(struct throttle *t, struct throttle_grant *grant)
{
	u64 now, wait;

	spin_lock_irq(&t->lock);
	now = ktime_get_ns();
	wait = delay(t, now, &grant->pace);
	if (!wait) {
		grant->sectors = grant->pace == PACE_IDLE ? t->idle.sectors : t->polite.sectors;
		grant->ns[LEG_LOCAL] = 0;
		grant->ns[LEG_REMOTE] = 0;
		t->chunks++;
		grant->nr = ++t->started;
		if (t->rate)
			t->next_at = max(t->next_at, now) +
				     div_u64((u64)grant->sectors * NSEC_PER_SEC, t->rate * 2);
	}
	spin_unlock_irq(&t->lock);
	return wait;
}

bool throttle_begin(struct throttle *t, struct throttle_grant *grant,
		    bool (*wanted)(void *arg), void *arg)
{
	u64 wait;

	while (wanted(arg)) {
		DEFINE_WAIT(entry);
		ktime_t expires;

		/* Not "uninterruptible": a rest is neither load nor a hang. */
		prepare_to_wait(&t->wake, &entry, TASK_IDLE);
		wait = try_begin(t, grant);
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
		t->told_since = now;
		t->second = second;
	}
	while (t->second < second) {
		t->second++;
		div_u64_rem(t->second, ARRAY_SIZE(t->sectors), &i);
		t->sectors[i] = 0;
	}
}

void throttle_end(struct throttle *t, const struct throttle_grant *grant)
{
	bool idle = grant->pace == PACE_IDLE;
	struct size *size = idle ? &t->idle : &t->polite;
	u64 now, ratio, took, rest, forced;
	unsigned int i;

	spin_lock_irq(&t->lock);
	now = ktime_get_ns();
	t->chunks--;
	if (grant->sectors) {
		took = max(grant->ns[LEG_LOCAL], grant->ns[LEG_REMOTE]);
		if (!t->fastest || took < t->fastest)
			t->fastest = took;

		ratio = judge(t, grant);
		took = grant->ns[LEG_LOCAL] + grant->ns[LEG_REMOTE];
		if (!idle && size->sectors == t->min_sectors && ratio > 256) {
			forced = took * THROTTLE_REST_LONG;
			rest = forced;
		} else {
			forced = took * THROTTLE_REST;
			/* The nearer to the limit, the more of the gaps are left. */
			rest = ratio > 128 ? (took * (ratio - 128)) >> 5 : 0;
		}
		t->forced_at = now + min(forced, THROTTLE_REST_MAX);
		t->rest_until = now + min(rest, THROTTLE_REST_MAX);
		resize(t, size, ratio, grant);

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
