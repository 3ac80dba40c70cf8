// SPDX-License-Identifier: GPL-2.0-only
#include "resync.h"

#include <linux/slab.h>
#include <linux/workqueue.h>

#include "chunk.h"
#include "digest.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"
#include "repair.h"
#include "throttle.h"
#include "verify.h"

TEST_KNOB(bool, stays_stalled, "what couldn't be copied isn't tried again");
TEST_KNOB(bool, runs_suspended, "whoever kicks the resync starts it, suspended or not");

/* Regions of which the log says that they can't be copied, each once; then no more. */
#define TOLD_MAX 16

/* A region of which chunks are being copied. */
struct open_region {
	unsigned long region;		/* REGION_NONE: this entry is free */
	enum leg_id target;
	u64 marks;			/* the map's when it was opened */
	unsigned int chunks;		/* in jobs' hands */
	bool all_taken;
	bool failed;			/* it stays stale */
	struct digest_window *window;	/* this entry's own */
};

struct resync_job {
	struct resync *rs;
	struct work_struct work;
	bool busy;			/* state lock */
	struct open_region *of;		/* the region of its chunk */
	struct chunk *chunk;
	struct digest_set *digests;	/* of the chunk; NULL: none to rely on */
};

struct resync {
	struct mirror *m;
	struct workqueue_struct *wq;
	bool compare;

	/* state lock; running also read without it */
	bool running;
	bool again;			/* another pass is worth it */
	unsigned long cursor;		/* the next region of this pass */
	struct open_region *current_region;	/* with chunks that nobody has taken */
	sector_t next;			/* the first of them */
	/* A job's chunk may keep one open each, beside the current one. */
	struct open_region open[RESYNC_JOBS_MAX + 1];
	struct digest_window windows[RESYNC_JOBS_MAX + 1];
	unsigned long told[TOLD_MAX];
	unsigned int nr_told;

	struct delayed_work retry;	/* of what could not be copied */
	unsigned int nr_jobs;
	struct resync_job jobs[RESYNC_JOBS_MAX];
};

static bool can_run(const struct resync *rs)
{
	const struct mirror *m = rs->m;

	lockdep_assert_held(&m->lock);
	return (rs->running || test_knob(runs_suspended)) && m->standing == TOGETHER &&
	       mirror_may_resync(m) && !region_map_all_in_sync(&m->map);
}

void resync_kick(struct resync *rs)
{
	unsigned int i;

	lockdep_assert_held(&rs->m->lock);

	rs->again = true;
	if (!can_run(rs))
		return;
	for (i = 0; i < rs->nr_jobs; i++)
		queue_work(rs->wq, &rs->jobs[i].work);
}

static struct open_region *find_open(struct resync *rs, unsigned long region)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(rs->open); i++)
		if (rs->open[i].region == region)
			return &rs->open[i];
	return NULL;
}

/* The next stale region that isn't open, or REGION_NONE. */
static unsigned long next_region(struct resync *rs)
{
	unsigned long region;

	for (;;) {
		region = region_map_next(&rs->m->map, rs->cursor);
		if (region == REGION_NONE) {
			if (!rs->again)
				return REGION_NONE;
			rs->again = false;
			rs->cursor = 0;
			continue;
		}
		if (!find_open(rs, region))
			return region;
		rs->cursor = region + 1;
	}
}

static unsigned int find_told(const struct resync *rs, unsigned long region)
{
	unsigned int i;

	for (i = 0; i < rs->nr_told; i++)
		if (rs->told[i] == region)
			break;
	return i;
}

/* All chunks of a region have been copied, or have failed. */
static void close_region(struct resync *rs, struct open_region *of)
{
	struct mirror *m = rs->m;
	unsigned long region = of->region;
	unsigned int told;

	of->region = REGION_NONE;
	digest_window_close(of->window);
	if (of->failed)
		return;
	if (of->marks != m->map.marks) {
		/* A write failed somewhere: maybe here, so once more. */
		rs->again = true;
		return;
	}
	region_map_clear(&m->map, of->target, region);
	told = find_told(rs, region);
	if (told < rs->nr_told)
		rs->told[told] = rs->told[--rs->nr_told];
	trace_lockstep_in_sync(m, of->target, region);
	mirror_changed(m);
}

static void no_more_chunks(struct resync *rs, struct open_region *of)
{
	of->all_taken = true;
	if (rs->current_region == of)
		rs->current_region = NULL;
	if (!of->chunks)
		close_region(rs, of);
}

/* Is there a chunk to copy? If so, current_region and next tell which. */
static bool have_chunk(struct resync *rs)
{
	struct mirror *m = rs->m;
	struct open_region *of = rs->current_region;
	unsigned long region;

	lockdep_assert_held(&m->lock);

	if (of && (!can_run(rs) || of->failed)) {
		/* Who knows what the legs are when it goes on: from its beginning. */
		of->failed = true;
		no_more_chunks(rs, of);
	}
	if (!can_run(rs))
		return false;
	if (rs->current_region)
		return true;

	region = next_region(rs);
	if (region == REGION_NONE)
		return false;
	of = find_open(rs, REGION_NONE);
	if (WARN_ON_ONCE(!of))
		return false;
	*of = (struct open_region) {
		.region = region,
		.target = m->map.target,
		.marks = m->map.marks,
		.window = of->window,
	};
	rs->cursor = region + 1;
	rs->current_region = of;
	rs->next = region_start(&m->map, region);
	return true;
}

static bool chunk_wanted(void *arg)
{
	struct resync_job *job = arg;
	struct mirror *m = job->rs->m;
	bool wanted;

	spin_lock_irq(&m->lock);
	wanted = have_chunk(job->rs);
	spin_unlock_irq(&m->lock);
	return wanted;
}

/* Takes the next chunk, of at most *sectors. */
static bool take_chunk(struct resync_job *job, sector_t *start, unsigned int *sectors)
{
	struct resync *rs = job->rs;
	struct mirror *m = rs->m;
	struct open_region *of;
	sector_t last;
	bool got;

	spin_lock_irq(&m->lock);
	got = have_chunk(rs);
	if (got) {
		of = rs->current_region;
		last = region_last(&m->map, of->region);
		*start = rs->next;
		*sectors = min_t(sector_t, *sectors, last - rs->next + 1);
		job->of = of;
		of->chunks++;
		rs->next += *sectors;
		if (rs->next > last)
			no_more_chunks(rs, of);
	}
	spin_unlock_irq(&m->lock);
	return got;
}

static void chunk_done(struct resync_job *job, int error)
{
	struct mirror *m = job->rs->m;
	struct open_region *of = job->of;

	spin_lock_irq(&m->lock);
	of->chunks--;
	if (error)
		of->failed = true;
	if (of->all_taken && !of->chunks)
		close_region(job->rs, of);
	spin_unlock_irq(&m->lock);
}

/* The region is open: its bounds and its window stay as they are. */
static struct digest_set *fetch_digests(struct resync_job *job, sector_t start,
					unsigned int sectors)
{
	const struct open_region *of = job->of;
	struct mirror *m = job->rs->m;

	return digests_fetch(m, of->window, region_start(&m->map, of->region),
			     region_last(&m->map, of->region), start, sectors);
}

/* What may differ, in whole physical blocks of the leg that is written. */
static void whole_blocks(struct resync_job *job, enum leg_id to, unsigned int *first,
			 unsigned int *sectors)
{
	struct leg *l = &job->rs->m->legs[to];
	unsigned int block = bdev_physical_block_size(leg_bdev(l)) >> SECTOR_SHIFT;
	unsigned int last = *first + *sectors;

	if (!*sectors)
		return;
	*first = round_down(*first, block);
	*sectors = min(chunk_sectors(job->chunk), round_up(last, block)) - *first;
}

/* Likewise as read_chunk(). The digests are of the remote leg, whichever is the target. */
static int read_by_digests(struct resync_job *job, enum leg_id from, enum leg_id to,
			   unsigned int *first, unsigned int *sectors)
{
	struct chunk *c = job->chunk;
	int r = chunk_read(c, LEG_LOCAL);

	if (r || !digests_differ(job->digests, c, first, sectors)) {
		*first = 0;
		*sectors = chunk_sectors(c);
	}
	whole_blocks(job, to, first, sectors);
	if (from == LEG_LOCAL)
		return r;
	return *sectors ? chunk_read(c, LEG_REMOTE) : 0;
}

/*
 * Read what is to be written: [*first, *first + *sectors) of the chunk, maybe
 * nothing.
 */
static int read_chunk(struct resync_job *job, enum leg_id from, enum leg_id to,
		      unsigned int *first, unsigned int *sectors)
{
	struct chunk *c = job->chunk;
	struct mirror *m = job->rs->m;
	unsigned int all = chunk_sectors(c);
	unsigned int last;
	int error[LEGS];

	if (job->digests)
		return read_by_digests(job, from, to, first, sectors);

	*first = 0;
	*sectors = all;
	if (!READ_ONCE(job->rs->compare))
		return chunk_read(c, from);

	/* If only the target can't be read, a write may well mend that. */
	if (chunk_read_both(c, error) && (error[from] || error[to]))
		return error[from];

	if (chunk_differs(c, first, &last)) {
		*sectors = last + 1 - *first;
		whole_blocks(job, to, first, sectors);
	} else {
		*sectors = 0;
	}
	count_add(&m->counters, COUNT_COMPARED, all);
	count_add(&m->counters, COUNT_EQUAL, all - *sectors);
	return 0;
}

/* The source can't be read in the chunk. Who is to mend that has to know the place. */
static void tell_unread(struct resync_job *job, enum leg_id from, enum leg_id to, int error)
{
	const struct locked_range *range = chunk_range(job->chunk);
	struct resync *rs = job->rs;
	struct mirror *m = rs->m;
	bool tell, last;

	spin_lock_irq(&m->lock);
	/* Paused, or without a leg, it says nothing of the place. */
	tell = can_run(rs) && rs->nr_told < TOLD_MAX &&
	       find_told(rs, job->of->region) == rs->nr_told;
	if (tell)
		rs->told[rs->nr_told++] = job->of->region;
	last = rs->nr_told == TOLD_MAX;
	spin_unlock_irq(&m->lock);
	if (tell)
		DMWARN("%s: resync: %s leg %s: somewhere in sectors %llu to %llu it can't be read: error %d. Their region isn't copied, and the %s leg isn't in sync, until that place is written anew%s",
		       dm_table_device_name(m->ti->table), leg_name(from), m->legs[from].dev->name,
		       (unsigned long long)range->start, (unsigned long long)range->last, error,
		       leg_name(to), last ? ". Further regions aren't told" : "");
}

/* The chunk's range is held. @again: what the source couldn't give was asked to be repaired. */
static int copy_chunk(struct resync_job *job, bool again)
{
	struct mirror *m = job->rs->m;
	enum leg_id target = job->of->target;
	struct leg *to = &m->legs[target];
	unsigned int deaths, first, sectors;
	int r;

	spin_lock_irq(&m->lock);
	deaths = to->deaths;
	r = can_run(job->rs) ? 0 : -EINTR;
	spin_unlock_irq(&m->lock);

	if (r)
		return r;
	r = read_chunk(job, other_leg(target), target, &first, &sectors);
	if (r && (again || !repair_from_target(m->repair, other_leg(target))))
		tell_unread(job, other_leg(target), target, r);
	if (r || !sectors)
		return r;

	r = chunk_write(job->chunk, target, other_leg(target), first, sectors);
	if (r) {
		spin_lock_irq(&m->lock);
		if (to->deaths == deaths)
			(void)mirror_give_up(m, target, WHY_FAILED);	/* refusal: stays stale */
		spin_unlock_irq(&m->lock);
		return r;
	}
	count_add(&m->counters, COUNT_RESYNCED, sectors);
	return 0;
}

/* What the source can't give behind a crash the repair takes from the target, under its range. */
static int copy_or_repair(struct resync_job *job, sector_t start, unsigned int sectors)
{
	enum leg_id source = other_leg(job->of->target);
	struct repair *rp = job->rs->m->repair;
	bool again = false;
	int r;

	for (;;) {
		chunk_lock(job->chunk, start, sectors);
		r = copy_chunk(job, again);
		chunk_unlock(job->chunk);
		if (!r || r == -EINTR || again || !repair_from_target(rp, source))
			return r;
		repair_now(rp, source, start, start + sectors - 1, false);
		again = true;
	}
}

static void job_work(struct work_struct *work)
{
	struct resync_job *job = container_of(work, struct resync_job, work);
	struct resync *rs = job->rs;
	struct mirror *m = rs->m;
	struct throttle_grant grant;
	enum leg_id leg;
	sector_t start;
	int r;

	spin_lock_irq(&m->lock);
	job->busy = true;
	spin_unlock_irq(&m->lock);
	throttle_watch(m->throttle);

	while (throttle_begin(m->throttle, &grant, true, chunk_wanted, job)) {
		if (take_chunk(job, &start, &grant.sectors)) {
			job->digests = fetch_digests(job, start, grant.sectors);
			r = copy_or_repair(job, start, grant.sectors);
			digests_put(job->digests);
			for (leg = LEG_LOCAL; leg < LEGS; leg++)
				grant.ns[leg] = chunk_took(job->chunk, leg);
			chunk_done(job, r);
		} else {
			grant.sectors = 0;
		}
		throttle_end(m->throttle, &grant);
	}

	throttle_unwatch(m->throttle);
	spin_lock_irq(&m->lock);
	job->busy = false;
	verify_kick(m->verify);		/* it waits for the last job */
	if (can_run(rs) && !resync_active(rs) && !test_knob(stays_stalled))
		queue_delayed_work(rs->wq, &rs->retry, RESYNC_RETRY_SECONDS * HZ);
	spin_unlock_irq(&m->lock);
}

static void retry_work(struct work_struct *work)
{
	struct resync *rs = container_of(to_delayed_work(work), struct resync, retry);

	spin_lock_irq(&rs->m->lock);
	if (!resync_active(rs))
		resync_kick(rs);
	spin_unlock_irq(&rs->m->lock);
}

void resync_run(struct resync *rs)
{
	unsigned long flags;

	spin_lock_irqsave(&rs->m->lock, flags);
	rs->running = true;
	resync_kick(rs);
	spin_unlock_irqrestore(&rs->m->lock, flags);
}

void resync_pause(struct resync *rs)
{
	unsigned long flags;

	spin_lock_irqsave(&rs->m->lock, flags);
	rs->running = false;
	spin_unlock_irqrestore(&rs->m->lock, flags);
	throttle_wake(rs->m->throttle);
}

void resync_drain(struct resync *rs)
{
	flush_workqueue(rs->wq);
}

void resync_set_compare(struct resync *rs, bool compare)
{
	WRITE_ONCE(rs->compare, compare);
}

bool resync_busy(const struct resync *rs)
{
	unsigned int i;

	lockdep_assert_held(&rs->m->lock);
	if (!can_run(rs))
		return false;
	for (i = 0; i < rs->nr_jobs; i++)
		if (rs->jobs[i].busy || work_busy((struct work_struct *)&rs->jobs[i].work))
			return true;
	return false;
}

bool resync_active(const struct resync *rs)
{
	unsigned int i;

	lockdep_assert_held(&rs->m->lock);
	for (i = 0; i < rs->nr_jobs; i++)
		if (rs->jobs[i].busy || work_pending(&rs->jobs[i].work))
			return true;
	return false;
}

const char *resync_action(const struct resync *rs)
{
	const struct mirror *m = rs->m;

	lockdep_assert_held(&m->lock);

	if (region_map_all_in_sync(&m->map))
		return "idle";
	if (m->legs[LEG_LOCAL].dead || m->legs[LEG_REMOTE].dead)
		return "waiting";
	if (!rs->running)
		return "paused";
	return resync_busy(rs) ? "resync" : "stalled";
}

struct resync *resync_create(struct mirror *m, unsigned int jobs, bool compare)
{
	struct resync *rs = kzalloc(sizeof(*rs), GFP_KERNEL);
	unsigned int i;

	if (!rs)
		return ERR_PTR(-ENOMEM);
	rs->m = m;
	rs->compare = compare;
	INIT_DELAYED_WORK(&rs->retry, retry_work);
	for (i = 0; i < ARRAY_SIZE(rs->open); i++) {
		rs->open[i].region = REGION_NONE;
		rs->open[i].window = &rs->windows[i];
		digest_window_init(rs->open[i].window);
	}
	rs->wq = alloc_workqueue("lockstep-resync", WQ_UNBOUND | WQ_MEM_RECLAIM, jobs);
	if (!rs->wq) {
		kfree(rs);
		return ERR_PTR(-ENOMEM);
	}
	for (; rs->nr_jobs < jobs; rs->nr_jobs++) {
		struct resync_job *job = &rs->jobs[rs->nr_jobs];

		job->rs = rs;
		INIT_WORK(&job->work, job_work);
		job->chunk = chunk_create(m, IO_MAX_SECTORS, NULL);
		if (!job->chunk) {
			resync_destroy(rs);
			return ERR_PTR(-ENOMEM);
		}
	}
	return rs;
}

void resync_destroy(struct resync *rs)
{
	unsigned int i;

	cancel_delayed_work_sync(&rs->retry);
	destroy_workqueue(rs->wq);
	for (i = 0; i < rs->nr_jobs; i++)
		chunk_destroy(rs->jobs[i].chunk);
	kfree(rs);
}
