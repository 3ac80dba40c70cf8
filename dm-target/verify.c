// SPDX-License-Identifier: GPL-2.0-only
#include "verify.h"

#include <linux/delay.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "chunk.h"
#include "digest.h"
#include "lockstep-trace.h"
#include "mirror.h"
#include "repair.h"
#include "resync.h"
#include "throttle.h"

struct verify_job {
	struct verify *v;
	struct work_struct work;
	bool busy;			/* state lock: with a chunk, at */
	sector_t at;
	struct chunk *chunk;
	struct digest_set *digests;	/* of the chunk; NULL: none to rely on */
};

struct verify {
	struct mirror *m;
	struct workqueue_struct *wq;
	struct mutex messages;		/* one start or stop at a time */

	/* state lock */
	bool running;			/* the device is */
	bool active;			/* a run is under way */
	bool ended;			/* the last run has seen everything */
	bool check;			/* and is to mark nothing */
	sector_t next;			/* the first sector that no job has taken */
	u64 differing;

	struct digest_window window;
	struct verify_job jobs[VERIFY_JOBS];
};

/* Do the legs have to be equal, and may they be compared? */
static bool comparable(const struct verify *v)
{
	const struct mirror *m = v->m;

	lockdep_assert_held(&m->lock);
	return v->running && v->active && m->standing == TOGETHER;
}

static bool can_run(const struct verify *v)
{
	return comparable(v) && v->next < v->m->map.len && !resync_active(v->m->resync);
}

void verify_kick(struct verify *v)
{
	unsigned int i;

	lockdep_assert_held(&v->m->lock);
	if (!can_run(v))
		return;
	for (i = 0; i < VERIFY_JOBS; i++)
		queue_work(v->wq, &v->jobs[i].work);
}

static bool chunk_wanted(void *arg)
{
	struct verify_job *job = arg;
	struct mirror *m = job->v->m;
	bool wanted;

	spin_lock_irq(&m->lock);
	wanted = can_run(job->v);
	spin_unlock_irq(&m->lock);
	return wanted;
}

/* Does anybody wait for what a job has taken? */
static bool result_wanted(struct verify *v)
{
	bool wanted;

	spin_lock_irq(&v->m->lock);
	wanted = comparable(v);
	spin_unlock_irq(&v->m->lock);
	return wanted;
}

static bool any_busy(const struct verify *v)
{
	unsigned int i;

	for (i = 0; i < VERIFY_JOBS; i++)
		if (v->jobs[i].busy)
			return true;
	return false;
}

/* Past regions that are stale, as far as a piece of the map goes. False: there may be more. */
static bool skip_stale(struct verify *v)
{
	const struct region_map *map = &v->m->map;
	unsigned long region, next;

	if (v->next >= map->len)
		return true;
	region = region_of(map, v->next);
	next = region_map_skip(map, region);
	if (next == region)
		return true;
	v->next = next < map->nr ? region_start(map, next) : map->len;
	return false;
}

/* The end of a run, if this was it. Returns true for whoever is to tell. */
static bool run_ends(struct verify *v)
{
	if (!v->active || v->next < v->m->map.len || any_busy(v))
		return false;
	v->active = false;
	v->ended = true;
	return true;
}

/* Takes the next chunk, of at most *sectors, within a region. */
static bool take_chunk(struct verify_job *job, unsigned int *sectors)
{
	struct verify *v = job->v;
	struct mirror *m = v->m;
	sector_t last;

	spin_lock_irq(&m->lock);
	while (can_run(v) && !skip_stale(v)) {
		spin_unlock_irq(&m->lock);
		cond_resched();
		spin_lock_irq(&m->lock);
	}
	if (can_run(v)) {
		if (v->next < m->map.len) {
			last = region_last(&m->map, region_of(&m->map, v->next));
			*sectors = min_t(sector_t, *sectors, last - v->next + 1);
			job->at = v->next;
			job->busy = true;
			v->next += *sectors;
		}
	}
	spin_unlock_irq(&m->lock);
	return job->busy;
}

static void found(struct verify_job *job, unsigned int differing, sector_t first, sector_t last)
{
	struct verify *v = job->v;
	struct mirror *m = v->m;
	enum leg_id target;
	bool check;
	int r = 0;

	spin_lock_irq(&m->lock);
	v->differing += differing;
	check = v->check;
	target = mirror_has_target(m) ? m->map.target : LEG_REMOTE;
	spin_unlock_irq(&m->lock);

	trace_lockstep_differs(m, target, first, last, differing);
	if (!check)
		r = mirror_mark_differs(m, target, chunk_range(job->chunk));
	DMWARN_LIMIT("%s: verify: the legs differ in %u sectors from %llu to %llu: %s%s",
		     dm_table_device_name(m->ti->table), differing,
		     (unsigned long long)first, (unsigned long long)last,
		     check ? "left as they are" :
		     r ? "can't be marked for a resync now, verify again later" :
			 "copied anew to the leg that is ",
		     r || check ? "" : leg_name(target));
}

/* By digests. False: they don't say so, it may be equal all the same. */
static bool equal_by_digests(struct verify_job *job)
{
	unsigned int first, sectors;

	return job->digests && !chunk_read(job->chunk, LEG_LOCAL) &&
	       digests_differ(job->digests, job->chunk, &first, &sectors) && !sectors;
}

/*
 * The chunk's range is held. @error: of each leg, if it couldn't be read. Returns false if the
 * chunk is to be compared later.
 */
static bool compare_chunk(struct verify_job *job, int error[LEGS])
{
	struct verify *v = job->v;
	struct mirror *m = v->m;
	const struct locked_range *range = chunk_range(job->chunk);
	unsigned int first, last, differing;
	bool ready, equal;

	error[LEG_LOCAL] = 0;
	error[LEG_REMOTE] = 0;
	spin_lock_irq(&m->lock);
	ready = comparable(v);
	/* It may have become stale since it was taken. */
	equal = region_map_current(&m->map, m->map.target, range->start, range->last);
	spin_unlock_irq(&m->lock);
	if (!ready || !equal)
		return ready;

	if (equal_by_digests(job)) {
		count_add(&m->counters, COUNT_VERIFIED, chunk_sectors(job->chunk));
		return true;
	}
	if (chunk_read_both(job->chunk, error))
		return result_wanted(v);
	count_add(&m->counters, COUNT_VERIFIED, chunk_sectors(job->chunk));
	differing = chunk_differs(job->chunk, &first, &last);
	if (differing)
		found(job, differing, range->start + first, range->start + last);
	return true;
}

static bool compare_range(struct verify_job *job, sector_t start, unsigned int sectors,
			  int error[LEGS])
{
	bool compared;

	chunk_lock(job->chunk, start, sectors);
	compared = compare_chunk(job, error);
	chunk_unlock(job->chunk);
	return compared;
}

/* Writes anew what only one leg can't give, and waits for that. False: there is no such leg. */
static bool repaired(struct verify_job *job, sector_t start, unsigned int sectors,
		     const int error[LEGS])
{
	struct repair *rp = job->v->m->repair;

	if (error[LEG_LOCAL] && error[LEG_REMOTE])
		return false;
	repair_request(rp, error[LEG_LOCAL] ? LEG_LOCAL : LEG_REMOTE, start, start + sectors - 1);
	while (repair_busy(rp) && result_wanted(job->v))
		fsleep(USEC_PER_MSEC);
	return true;
}

static void couldnt_compare(struct verify_job *job, sector_t start, unsigned int sectors,
			    const int error[LEGS])
{
	struct mirror *m = job->v->m;

	spin_lock_irq(&m->lock);
	job->v->differing += sectors;
	spin_unlock_irq(&m->lock);
	DMWARN_LIMIT("%s: verify: sectors %llu to %llu can't be read from %s: not compared",
		     dm_table_device_name(m->ti->table), (unsigned long long)start,
		     (unsigned long long)start + sectors - 1,
		     !error[LEG_REMOTE] ? "the local leg" :
		     !error[LEG_LOCAL] ? "the remote leg" : "either leg");
}

/* A leg couldn't be read somewhere in the chunk. False: it is to be compared later. */
static bool compare_pieces(struct verify_job *job, unsigned int sectors)
{
	unsigned int piece = repair_piece_sectors(job->v->m->repair), nr;
	sector_t at = job->at, end = at + sectors;
	int error[LEGS];

	job->digests = NULL;
	for (; at < end; at += nr) {
		nr = min_t(sector_t, piece - (at & (piece - 1)), end - at);
		if (!compare_range(job, at, nr, error))
			return false;
		if ((error[LEG_LOCAL] || error[LEG_REMOTE]) && repaired(job, at, nr, error) &&
		    !compare_range(job, at, nr, error))
			return false;
		if (error[LEG_LOCAL] || error[LEG_REMOTE])
			couldnt_compare(job, at, nr, error);
	}
	return true;
}

static void tell_end(struct verify *v)
{
	struct mirror *m = v->m;
	u64 differing;

	spin_lock_irq(&m->lock);
	differing = v->differing;
	spin_unlock_irq(&m->lock);
	DMINFO("%s: verify has ended: %llu sectors differed, or couldn't be compared",
	       dm_table_device_name(m->ti->table), (unsigned long long)differing);
	dm_table_event(m->ti->table);
}

static void job_work(struct work_struct *work)
{
	struct verify_job *job = container_of(work, struct verify_job, work);
	struct verify *v = job->v;
	struct mirror *m = v->m;
	struct throttle_grant grant;
	struct digest_set *digests;
	int error[LEGS];
	bool compared, ends;
	enum leg_id leg;

	throttle_watch(m->throttle);
	while (throttle_begin(m->throttle, &grant, false, chunk_wanted, job)) {
		if (take_chunk(job, &grant.sectors)) {
			digests = digests_fetch(m, &v->window, 0, m->map.len - 1, job->at,
						grant.sectors);
			job->digests = digests;
			compared = compare_range(job, job->at, grant.sectors, error);
			digests_put(digests);
			for (leg = LEG_LOCAL; leg < LEGS; leg++)
				grant.ns[leg] = chunk_took(job->chunk, leg);
			if (compared && (error[LEG_LOCAL] || error[LEG_REMOTE]))
				compared = compare_pieces(job, grant.sectors);
			spin_lock_irq(&m->lock);
			job->busy = false;
			if (!compared)
				v->next = min(v->next, job->at);
			spin_unlock_irq(&m->lock);
		} else {
			grant.sectors = 0;
		}
		throttle_end(m->throttle, &grant);

		spin_lock_irq(&m->lock);
		ends = run_ends(v);
		spin_unlock_irq(&m->lock);
		if (ends)
			tell_end(v);
	}
	throttle_unwatch(m->throttle);
}

void verify_run(struct verify *v)
{
	unsigned long flags;

	spin_lock_irqsave(&v->m->lock, flags);
	v->running = true;
	verify_kick(v);
	spin_unlock_irqrestore(&v->m->lock, flags);
}

void verify_pause(struct verify *v)
{
	unsigned long flags;

	spin_lock_irqsave(&v->m->lock, flags);
	v->running = false;
	spin_unlock_irqrestore(&v->m->lock, flags);
	throttle_wake(v->m->throttle);
}

void verify_drain(struct verify *v)
{
	flush_workqueue(v->wq);
}

/* Returns whether a run was under way. The result of one that has ended stays. */
static bool end_run(struct verify *v)
{
	bool active;

	spin_lock_irq(&v->m->lock);
	active = v->active;
	v->active = false;
	transfers_abandon(v->m);
	spin_unlock_irq(&v->m->lock);
	throttle_wake(v->m->throttle);
	flush_workqueue(v->wq);
	return active;
}

static int start_run(struct verify *v, bool check)
{
	struct mirror *m = v->m;
	unsigned int i;

	for (i = 0; i < VERIFY_JOBS; i++) {
		if (!v->jobs[i].chunk)
			v->jobs[i].chunk = chunk_create(m, IO_MAX_SECTORS, &v->active);
		if (!v->jobs[i].chunk)
			return -ENOMEM;
	}
	/* What changed without a write of ours is just what is looked for: read anew. */
	flush_workqueue(v->wq);
	digest_window_close(&v->window);
	spin_lock_irq(&m->lock);
	v->active = true;
	v->ended = false;
	v->check = check;
	v->next = 0;
	v->differing = 0;
	verify_kick(v);
	spin_unlock_irq(&m->lock);
	return 0;
}

int verify_start(struct verify *v, bool check)
{
	struct mirror *m = v->m;
	int r;

	mutex_lock(&v->messages);
	if (READ_ONCE(v->active))
		r = -EALREADY;
	else if (m->read_only)
		r = -EROFS;
	else
		r = start_run(v, check);
	mutex_unlock(&v->messages);
	if (r)
		DMWARN("%s: verify isn't started: %s", dm_table_device_name(m->ti->table),
		       r == -EALREADY ? "it runs already" :
		       r == -EROFS ? "the mirror is read-only" : "out of memory");
	return r;
}

void verify_stop(struct verify *v)
{
	struct mirror *m = v->m;

	mutex_lock(&v->messages);
	if (end_run(v)) {
		DMINFO("%s: verify is stopped before its end",
		       dm_table_device_name(m->ti->table));
		dm_table_event(m->ti->table);
	}
	mutex_unlock(&v->messages);
}

bool verify_progress(const struct verify *v, unsigned long *done)
{
	const struct region_map *map = &v->m->map;
	sector_t at = v->next;
	unsigned int i;

	lockdep_assert_held(&v->m->lock);
	for (i = 0; i < VERIFY_JOBS; i++)
		if (v->jobs[i].busy)
			at = min(at, v->jobs[i].at);
	*done = at < map->len ? region_of(map, at) : map->nr;
	/* Till the last chunk has been looked at. */
	if (v->active)
		*done = min(*done, map->nr - 1);
	return v->active || v->ended;
}

u64 verify_differing(const struct verify *v)
{
	lockdep_assert_held(&v->m->lock);
	return v->differing;
}

const char *verify_action(const struct verify *v)
{
	lockdep_assert_held(&v->m->lock);
	if (!v->active)
		return NULL;
	if (!v->running)
		return "paused";
	return v->m->standing == TOGETHER ? "verify" : "waiting";
}

struct verify *verify_create(struct mirror *m)
{
	struct verify *v = kzalloc(sizeof(*v), GFP_KERNEL);
	unsigned int i;

	if (!v)
		return NULL;
	v->m = m;
	mutex_init(&v->messages);
	digest_window_init(&v->window);
	for (i = 0; i < VERIFY_JOBS; i++) {
		v->jobs[i].v = v;
		INIT_WORK(&v->jobs[i].work, job_work);
	}
	v->wq = alloc_workqueue("lockstep-verify", WQ_UNBOUND | WQ_MEM_RECLAIM, VERIFY_JOBS);
	if (!v->wq) {
		kfree(v);
		return NULL;
	}
	return v;
}

void verify_destroy(struct verify *v)
{
	unsigned int i;

	destroy_workqueue(v->wq);
	digest_window_close(&v->window);
	for (i = 0; i < VERIFY_JOBS; i++)
		chunk_destroy(v->jobs[i].chunk);
	kfree(v);
}
