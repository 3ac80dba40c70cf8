// SPDX-License-Identifier: GPL-2.0-only
#include "resync.h"

#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "lockstep-trace.h"
#include "mirror.h"

struct resync_job {
	struct resync *rs;
	struct work_struct work;
	bool busy;			/* state lock */
	unsigned long region;		/* state lock; REGION_NONE between regions */
	struct locked_range range;
	struct completion granted;
	struct bio bio;
	struct bio_vec vecs[IO_MAX_PAGES];
	struct page *pages[IO_MAX_PAGES];
};

struct resync {
	struct mirror *m;
	struct workqueue_struct *wq;
	wait_queue_head_t wake;
	bool running;			/* state lock for writing */
	bool again;			/* state lock: another pass is worth it */
	unsigned long cursor;		/* state lock */
	unsigned int rate;
	u64 next_at;			/* state lock: jiffies64 of the next chunk */
	unsigned int nr_jobs;
	struct resync_job *jobs[RESYNC_JOBS_MAX];
};

static bool can_run(const struct resync *rs)
{
	const struct mirror *m = rs->m;

	lockdep_assert_held(&m->lock);
	return rs->running && m->standing == TOGETHER && mirror_may_resync(m) &&
	       !region_map_all_in_sync(&m->map);
}

void resync_kick(struct resync *rs)
{
	unsigned int i;

	lockdep_assert_held(&rs->m->lock);

	rs->again = true;
	if (!can_run(rs))
		return;
	for (i = 0; i < rs->nr_jobs; i++)
		queue_work(rs->wq, &rs->jobs[i]->work);
}

static bool taken(const struct resync *rs, unsigned long region)
{
	unsigned int i;

	for (i = 0; i < rs->nr_jobs; i++)
		if (rs->jobs[i]->region == region)
			return true;
	return false;
}

/* The next region for a job, or REGION_NONE if there is nothing to do now. */
static unsigned long next_region(struct resync *rs)
{
	unsigned long region;

	lockdep_assert_held(&rs->m->lock);

	if (!can_run(rs))
		return REGION_NONE;
	for (;;) {
		region = region_map_next(&rs->m->map, rs->cursor);
		if (region == REGION_NONE) {
			if (!rs->again)
				return REGION_NONE;
			rs->again = false;
			rs->cursor = 0;
			continue;
		}
		rs->cursor = region + 1;
		if (!taken(rs, region))
			return region;
	}
}

static void chunk_granted(struct locked_range *range)
{
	complete(&container_of(range, struct resync_job, range)->granted);
}

/* One synchronous transfer between the job's pages and a leg. */
static int job_io(struct resync_job *job, enum leg_id leg, blk_opf_t opf)
{
	struct leg *l = &job->rs->m->legs[leg];
	unsigned int sectors = job->range.last - job->range.start + 1;
	unsigned int left = sectors << SECTOR_SHIFT;
	unsigned int i;
	int r;

	bio_init(&job->bio, leg_bdev(l), job->vecs, IO_MAX_PAGES, opf);
	job->bio.bi_iter.bi_sector = job->range.start;
	for (i = 0; left; i++) {
		unsigned int len = min_t(unsigned int, left, PAGE_SIZE);

		__bio_add_page(&job->bio, job->pages[i], len, 0);
		left -= len;
	}
	r = submit_bio_wait(&job->bio);
	if (r)
		trace_lockstep_leg_error(job->rs->m, leg, job->range.start, job->bio.bi_status);
	bio_uninit(&job->bio);
	return r;
}

/* The chunk's range is held. */
static int copy_chunk(struct resync_job *job, enum leg_id target)
{
	struct mirror *m = job->rs->m;
	struct leg *to = &m->legs[target], *from = &m->legs[other_leg(target)];
	unsigned int deaths;
	int r;

	spin_lock_irq(&m->lock);
	deaths = to->deaths;
	r = can_run(job->rs) ? 0 : -EINTR;
	spin_unlock_irq(&m->lock);
	if (r)
		return r;

	r = job_io(job, from->id, REQ_OP_READ);
	if (r) {
		atomic64_inc(&from->read_errors);
		return r;
	}

	r = job_io(job, to->id, REQ_OP_WRITE | leg_write_flags(to));
	if (r) {
		atomic64_inc(&to->write_errors);
		spin_lock_irq(&m->lock);
		if (to->deaths == deaths)
			(void)mirror_give_up(m, target, WHY_FAILED);	/* refusal: stays stale */
		spin_unlock_irq(&m->lock);
		return r;
	}
	count_add(&m->counters, COUNT_RESYNCED, job->range.last - job->range.start + 1);
	return 0;
}

/* Wait until the rate allows another chunk. Returns false when paused. */
static bool pace(struct resync *rs, unsigned int sectors)
{
	unsigned int rate = READ_ONCE(rs->rate);
	u64 now = get_jiffies_64();
	u64 at;

	if (!rate)
		return READ_ONCE(rs->running);

	spin_lock_irq(&rs->m->lock);
	at = max(rs->next_at, now);
	rs->next_at = at + max_t(u64, div_u64((u64)sectors * HZ, rate * 2), 1);
	spin_unlock_irq(&rs->m->lock);

	if (at > now)
		wait_event_timeout(rs->wake, !READ_ONCE(rs->running) || READ_ONCE(rs->rate) != rate,
				   at - now);
	return READ_ONCE(rs->running);
}

static int copy_region(struct resync_job *job, unsigned long region, enum leg_id target)
{
	struct mirror *m = job->rs->m;
	sector_t at = region_start(&m->map, region);
	sector_t last = region_last(&m->map, region);
	int r = 0;

	for (; at <= last && !r; at = job->range.last + 1) {
		job->range.start = at;
		job->range.last = min_t(sector_t, last, at + IO_MAX_SECTORS - 1);
		if (!pace(job->rs, job->range.last - at + 1))
			return -EINTR;

		reinit_completion(&job->granted);
		if (!range_lock(&m->ranges, &job->range, chunk_granted))
			wait_for_completion_io(&job->granted);
		r = copy_chunk(job, target);
		range_unlock(&m->ranges, &job->range);
	}
	return r;
}

static void job_work(struct work_struct *work)
{
	struct resync_job *job = container_of(work, struct resync_job, work);
	struct resync *rs = job->rs;
	struct mirror *m = rs->m;
	unsigned long region;
	enum leg_id target;
	u64 marks;
	int r;

	spin_lock_irq(&m->lock);
	job->busy = true;
	while ((region = next_region(rs)) != REGION_NONE) {
		job->region = region;
		target = region_map_stale(&m->map, LEG_REMOTE, region) ? LEG_REMOTE : LEG_LOCAL;
		marks = m->map.marks;
		spin_unlock_irq(&m->lock);

		r = copy_region(job, region, target);

		spin_lock_irq(&m->lock);
		job->region = REGION_NONE;
		if (r)
			continue;
		if (marks != m->map.marks) {
			/* A write failed somewhere: maybe here, so once more. */
			rs->again = true;
			continue;
		}
		region_map_clear(&m->map, target, region);
		trace_lockstep_in_sync(m, target, region);
		mirror_changed(m);
	}
	job->busy = false;
	spin_unlock_irq(&m->lock);
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
	WRITE_ONCE(rs->running, false);
	spin_unlock_irqrestore(&rs->m->lock, flags);
	wake_up_all(&rs->wake);
}

void resync_drain(struct resync *rs)
{
	flush_workqueue(rs->wq);
}

void resync_set_rate(struct resync *rs, unsigned int rate)
{
	spin_lock_irq(&rs->m->lock);
	WRITE_ONCE(rs->rate, rate);
	rs->next_at = 0;	/* what the old rate has booked ahead */
	spin_unlock_irq(&rs->m->lock);
	wake_up_all(&rs->wake);
}

const char *resync_action(const struct resync *rs)
{
	const struct mirror *m = rs->m;
	unsigned int i;

	lockdep_assert_held(&m->lock);

	if (region_map_all_in_sync(&m->map))
		return "idle";
	if (m->legs[LEG_LOCAL].dead || m->legs[LEG_REMOTE].dead)
		return "waiting";
	if (!rs->running)
		return "paused";
	for (i = 0; i < rs->nr_jobs; i++)
		if (rs->jobs[i]->busy || work_busy(&rs->jobs[i]->work))
			return "resync";
	return "stalled";
}

static void job_free(struct resync_job *job)
{
	unsigned int i;

	if (!job)
		return;
	for (i = 0; i < IO_MAX_PAGES; i++)
		if (job->pages[i])
			__free_page(job->pages[i]);
	kfree(job);
}

static struct resync_job *job_create(struct resync *rs)
{
	struct resync_job *job = kzalloc(sizeof(*job), GFP_KERNEL);
	unsigned int i;

	if (!job)
		return NULL;
	job->rs = rs;
	job->region = REGION_NONE;
	INIT_WORK(&job->work, job_work);
	init_completion(&job->granted);
	for (i = 0; i < IO_MAX_PAGES; i++) {
		job->pages[i] = alloc_page(GFP_KERNEL);
		if (!job->pages[i]) {
			job_free(job);
			return NULL;
		}
	}
	return job;
}

struct resync *resync_create(struct mirror *m, unsigned int jobs, unsigned int rate)
{
	struct resync *rs = kzalloc(sizeof(*rs), GFP_KERNEL);

	if (!rs)
		return ERR_PTR(-ENOMEM);
	rs->m = m;
	rs->rate = rate;
	init_waitqueue_head(&rs->wake);
	rs->wq = alloc_workqueue("lockstep-resync", WQ_UNBOUND | WQ_MEM_RECLAIM, jobs);
	if (!rs->wq) {
		kfree(rs);
		return ERR_PTR(-ENOMEM);
	}
	for (; rs->nr_jobs < jobs; rs->nr_jobs++) {
		rs->jobs[rs->nr_jobs] = job_create(rs);
		if (!rs->jobs[rs->nr_jobs]) {
			resync_destroy(rs);
			return ERR_PTR(-ENOMEM);
		}
	}
	return rs;
}

void resync_destroy(struct resync *rs)
{
	unsigned int i;

	destroy_workqueue(rs->wq);
	for (i = 0; i < rs->nr_jobs; i++)
		job_free(rs->jobs[i]);
	kfree(rs);
}
