// SPDX-License-Identifier: GPL-2.0-only
/*
 * Level 2: what is live of the segments below a target goes to the data disk in
 * sector order, in one walk over the index; overwritten data isn't there any
 * more. A walk goes in stretches: batches are copied, the data disk is flushed,
 * and only then does the index forget them: after a flush that failed nobody
 * knows what the disk has, and all of it is copied again. A walk that is given
 * up (I/O arrives, an error) loses nothing: the tail stays where it is, and the
 * next walk finds less to do.
 */
#include "dcd-trace.h"
#include "engine.h"

#define RETRY_NOMEM	(HZ / 10)
#define STRETCH		((8ULL << 20) >> SECTOR_SHIFT)	/* sectors of a stretch */
#define ZEROES		((4ULL << 20) >> SECTOR_SHIFT)	/* sectors of a batch of zeroes */
#define FAILURES	16		/* of a walk, before it is given up */
#define NVRAM_LOW	50		/* percent of the slots */
#define NVRAM_HIGH	90

u64 dcd_ring_free(const struct dcd_engine *e)
{
	u64 most = e->segments - 1;

	lockdep_assert_held(&e->lock);
	return most - max(e->head - e->tail, mul_u64_u32_div(most, dcd_index_fill(e), DCD_FULL));
}

/* The index counts too: dcd_ring_free(). */
static struct dcd_level ring_level(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return (struct dcd_level){
		.used = e->segments - 1 - dcd_ring_free(e),
		.size = e->segments - 1,
		.low = e->destage.low,
		.high = max(e->destage.high, e->destage.low + 1),
	};
}

/* Slots that are waiting for the log: not the open one. */
static struct dcd_level nvram_level(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return (struct dcd_level){
		.used = max(e->head - e->committed, 1ULL) - 1,
		.size = e->nslots,
		.low = NVRAM_LOW,
		.high = NVRAM_HIGH,
	};
}

u64 dcd_pace_us(struct dcd_engine *e, sector_t sectors)
{
	struct dcd_level ring, nvram;
	u64 us;

	spin_lock(&e->lock);
	ring = ring_level(e);
	nvram = nvram_level(e);
	us = max(dcd_pace_delay(&ring, &e->data_speed, sectors),
		 dcd_pace_delay(&nvram, &e->log_speed, sectors));
	spin_unlock(&e->lock);
	return us;
}

void dcd_pace_learn(struct dcd_engine *e, struct dcd_speed *speed, sector_t sectors,
		    ktime_t began)
{
	s64 us = ktime_us_delta(ktime_get(), began);

	if (us <= 0)
		return;
	spin_lock(&e->lock);
	dcd_speed_add(speed, sectors, us);
	spin_unlock(&e->lock);
}

bool dcd_pressed(struct dcd_engine *e)
{
	struct dcd_level ring;

	spin_lock(&e->lock);
	ring = ring_level(e);
	spin_unlock(&e->lock);
	return dcd_level_above(&ring, ring.low);
}

static bool urgent(struct dcd_engine *e)
{
	return READ_ONCE(e->log_dead) || dcd_pressed(e);
}

static unsigned long idle_time(struct dcd_engine *e)
{
	return msecs_to_jiffies(READ_ONCE(e->destage.idle_ms));
}

static bool idle(struct dcd_engine *e)
{
	return time_after_eq(jiffies, READ_ONCE(e->last_intake) + idle_time(e));
}

void dcd_destage_kick(struct dcd_engine *e)
{
	if (urgent(e))
		mod_delayed_work(e->destage_wq, &e->destage_work, 0);
	else
		queue_delayed_work(e->destage_wq, &e->destage_work, idle_time(e));
}

/* Adjacent ranges at and behind b->next that are to go; false: no more. */
static bool collect(struct dcd_engine *e, u64 target, struct dcd_batch *b)
{
	struct dcd_place *p = b->places;
	size_t bytes = 0;

	b->n = 0;
	while (b->n < DCD_PLACES && dcd_index_next(e, b->next, p)) {
		sector_t room = (DCD_IO_MAX - bytes) >> SECTOR_SHIFT;

		if (b->n && p->sector != b->next)
			break;
		if (dcd_segment_of(e, p) >= target) {
			if (b->n)
				break;
			b->next = p->last + 1;
			continue;
		}
		if (p->zero) {
			if (b->n)
				break;
			p->last = min_t(sector_t, p->last, p->sector + ZEROES - 1);
			b->next = p->last + 1;
			b->n = 1;
			return true;
		}
		if (!room)
			break;
		p->last = min(p->last, p->sector + room - 1);
		bytes += (p->last - p->sector + 1) << SECTOR_SHIFT;
		b->next = p->last + 1;
		b->n++;
		p++;
	}
	return b->n;
}

static int data_failed(struct dcd_engine *e, int error)
{
	bool news;

	if (error == -ENOMEM)
		return error;
	dcd_count(e, DCD_N_DATA_ERRORS, 1);
	spin_lock(&e->lock);
	news = !e->data_failing;
	e->data_failing = true;
	spin_unlock(&e->lock);
	if (!news)
		return error;
	trace_dcd_disk(e, false, error);
	pr_err("dcd: %s: can't destage to %pg: error %d; the data stay in the log, trying again\n",
	       e->name, e->data.bdev, error);
	return error;
}

static int flush_data(struct dcd_engine *e)
{
	bool news;
	int r = dcd_disk_flush(&e->data);

	if (r)
		return data_failed(e, r);
	spin_lock(&e->lock);
	news = e->data_failing;
	e->data_failing = false;
	if (news && !e->log_unreadable)
		e->stuck = false;	/* room may be slow to come, but it will */
	spin_unlock(&e->lock);
	if (news) {
		wake_up_all(&e->room);
		trace_dcd_disk(e, false, 0);
		pr_info("dcd: %s: the data disk %pg works again; destaging\n", e->name,
			e->data.bdev);
	}
	return 0;
}

static int move(struct dcd_engine *e, struct dcd_batch *b)
{
	const struct dcd_place *p = b->places;
	size_t at = 0;
	unsigned int i;
	int r;

	for (i = 0; i < b->n && !p->zero; i++) {
		int id = srcu_read_lock(&e->readers);

		r = dcd_place_read(e, p + i, e->destage_buf + at);
		srcu_read_unlock(&e->readers, id);
		if (r && i) {	/* what is before it goes home; it will be the next one's first */
			b->n = i;
			b->next = p[i].sector;
			break;
		}
		if (r) {
			b->next = p->last + 1;	/* no more than that place is passed over */
			dcd_count(e, DCD_N_LOG_READ_ERRORS, 1);
			if (!e->log_unreadable)
				pr_err("dcd: %s: can't read %llu sectors from %llu on from the log %pg: error %d; the data disk has older data there, trying again\n",
				       e->name, (u64)(p->last - p->sector + 1), (u64)p->sector,
				       e->log.bdev, r);
			e->log_unreadable = true;
			return r;
		}
		at += (p[i].last - p[i].sector + 1) << SECTOR_SHIFT;
	}
	if (p->zero)
		r = blkdev_issue_zeroout(e->data.bdev, p->sector, b->next - p->sector, GFP_NOIO,
					 0);
	else
		r = dcd_disk_io(&e->data, REQ_OP_WRITE, p->sector, e->destage_buf, at);
	if (r)
		return data_failed(e, r);
	dcd_count(e, DCD_N_DESTAGED_SECTORS, b->next - p->sector);
	return 0;
}

/*
 * [@from, @to) of the segments below @target is durable on the data disk. What
 * was written there meanwhile is in later segments.
 */
static int forget(struct dcd_engine *e, sector_t from, sector_t to, u64 target)
{
	struct dcd_place p;
	unsigned int n = 0;
	int r = 0;

	mutex_lock(&e->intake);
	spin_lock(&e->lock);
	e->bypassed = max(e->bypassed, target);
	spin_unlock(&e->lock);
	while (!r && dcd_index_next(e, from, &p) && p.sector < to) {
		p.last = min(p.last, to - 1);
		if (dcd_segment_of(e, &p) < target)
			r = dcd_index_erase(e, p.sector, p.last);
		from = p.last + 1;
		if (++n % DCD_PLACES == 0) {
			mutex_unlock(&e->intake);
			cond_resched();
			mutex_lock(&e->intake);
		}
	}
	mutex_unlock(&e->intake);
	return r;
}

/* From b->next on; *more: there is something behind it. */
static int stretch(struct dcd_engine *e, u64 target, struct dcd_batch *b, bool *more)
{
	sector_t from = b->next, to = from, moved = 0;
	ktime_t began = ktime_get();
	int r = 0, f;

	while (!r && moved < STRETCH && (*more = collect(e, target, b))) {
		if (READ_ONCE(e->closing) || (!urgent(e) && !idle(e))) {
			r = -EAGAIN;
			break;
		}
		r = move(e, b);
		trace_dcd_destage(e, b->places[0].sector, b->next - b->places[0].sector, r);
		if (!r) {
			moved += b->next - b->places[0].sector;
			to = b->next;
		}
	}
	if (!moved)
		return r;
	f = flush_data(e);
	if (!f)
		dcd_pace_learn(e, &e->data_speed, moved, began);
	if (!f)
		f = forget(e, from, to, target);
	wake_up_all(&e->room);	/* the index has some again */
	return f ?: r;
}

static bool may_go_on(int error)
{
	return error != -EAGAIN && error != -ENOMEM;
}

static int walk(struct dcd_engine *e, u64 target)
{
	struct dcd_batch *b = e->batch;
	unsigned int failures = 0;
	bool more = true, again = b->resume;
	int r, first = 0;

	b->next = b->resume;
	b->resume = 0;
	while (more) {
		r = stretch(e, target, b, &more);
		first = first ?: r;
		if (r && !may_go_on(r))
			break;
		if (r && ++failures == FAILURES) {
			b->resume = b->next;	/* else nothing behind so many is ever tried */
			break;
		}
		if (!more && again) {
			again = false;
			more = true;
			b->next = 0;
		}
	}
	if (!first && READ_ONCE(e->data_failing))
		first = flush_data(e);	/* there was nothing to try it with */
	return first;
}

/* All entries up to @applied, in segments below @target, are durable, and recorded as such. */
static void settle(struct dcd_engine *e, u64 target, u64 applied, bool log_dead)
{
	synchronize_srcu_expedited(&e->readers);
	spin_lock(&e->lock);
	e->tail = target;
	if (log_dead)
		dcd_slots_bypassed(e, target, applied);
	spin_unlock(&e->lock);
	dcd_slots_kick(e);
	wake_up_all(&e->room);
}

static void set_log_behind(struct dcd_engine *e, bool yes)
{
	spin_lock(&e->lock);
	e->log_behind = yes;
	spin_unlock(&e->lock);
}

static int advance(struct dcd_engine *e, u64 target, u64 applied, bool log_dead)
{
	int r;

	if (log_dead && e->keeps) {
		mutex_lock(&e->intake);
		dcd_header_write(e, applied);
		mutex_unlock(&e->intake);
		settle(e, target, applied, true);
		dcd_count(e, DCD_N_BYPASS_ROUNDS, 1);
	}
	set_log_behind(e, log_dead && !e->keeps);
	if (log_dead && time_before(jiffies, e->log_retry))
		return e->keeps ? 0 : -EIO;
	r = dcd_super_write(e, target, applied);
	if (r) {
		dcd_log_failed(e, DCD_SUPERBLOCK, r);
		if (!log_dead)
			dcd_destage_kick(e);
		return e->keeps ? 0 : r;
	}
	set_log_behind(e, false);
	settle(e, target, applied, log_dead);
	if (log_dead)
		dcd_log_works(e);
	return 0;
}

void dcd_destage_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine,
					    destage_work);
	u64 target, tail, applied;
	bool log_dead;
	int r;

	/* A commit that was under way when the log died has its slot; no other begins. */
	if (READ_ONCE(e->log_dead))
		flush_work(&e->commit_work.work);
	mutex_lock(&e->intake);
	spin_lock(&e->lock);
	log_dead = e->log_dead;
	target = e->committed;
	applied = e->committed_entry;
	if (log_dead) {
		target = e->open ? e->open->segment : e->head;
		applied = (e->open ? e->open->first_entry : e->next_entry) - 1;
	}
	tail = e->tail;
	spin_unlock(&e->lock);
	mutex_unlock(&e->intake);

	if ((target == tail && !log_dead) || READ_ONCE(e->closing))
		return;
	if (!urgent(e) && !idle(e)) {
		queue_delayed_work(e->destage_wq, &e->destage_work, idle_time(e));
		return;
	}
	dcd_count(e, DCD_N_ROUNDS, 1);
	r = walk(e, target);
	if (!r)
		r = advance(e, target, applied, log_dead);
	else if (log_dead)
		dcd_log_try(e);	/* else one bad place keeps it dead for ever */
	trace_dcd_round(e, target, applied, log_dead, r);
	if (r == -EAGAIN)
		dcd_count(e, DCD_N_PREEMPTED, 1);
	if (r == -ENOMEM)
		dcd_count(e, DCD_N_NOMEM, 1);
	if (!r && e->log_unreadable) {
		e->log_unreadable = false;
		pr_info("dcd: %s: the log %pg is readable again\n", e->name, e->log.bdev);
	}
	spin_lock(&e->lock);
	e->stuck = r && may_go_on(r);
	log_dead = e->log_dead;
	spin_unlock(&e->lock);
	wake_up_all(&e->room);
	if (r || log_dead)
		queue_delayed_work(e->destage_wq, &e->destage_work,
				   r == -EAGAIN ? idle_time(e) :
				   r == -ENOMEM ? RETRY_NOMEM : DCD_RETRY);
	else
		dcd_destage_kick(e);
}
