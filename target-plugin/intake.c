// SPDX-License-Identifier: GPL-2.0-only
/*
 * The write path: room in the open slot, payload, index, entry; then the
 * caller may acknowledge.
 */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/scatterlist.h>

#include "dcd-trace.h"
#include "engine.h"

#define CHUNK		128U		/* sectors an entry, at most */

bool dcd_test_ack_early;
module_param_named(test_ack_early, dcd_test_ack_early, bool, 0400);
MODULE_PARM_DESC(test_ack_early,
		 "for tests of the crash checker only: acknowledge a write before it is persistent");

static u32 payload_start(const struct dcd_engine *e)
{
	return DCD_BLOCK + e->table_bytes;
}

/*
 * Nothing makes room: the committer does while the log works and has a place
 * for each slot; else only the destager can. Needs @lock.
 */
static bool hopeless(struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	if (e->closing || (e->log_dead && !e->keeps))
		return true;
	if (dcd_slot_coming(e))
		return false;
	return e->stuck && (e->log_dead || !dcd_ring_free(e));
}

static bool can_go_on(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = dcd_slot_free(e) || hopeless(e);
	spin_unlock(&e->lock);
	return yes;
}

static void persist(struct dcd_engine *e, void *p, size_t len)
{
	e->nv->type->persist(e->nv, (u8 *)p - (u8 *)e->nv->base, len);
}

/* What test_ack_early has left. */
static void persist_late(struct dcd_engine *e)
{
	lockdep_assert_held(&e->intake);
	if (e->late_len)
		e->nv->type->persist(e->nv, e->late_off, e->late_len);
	e->late_len = 0;
}

void dcd_seal_open(struct dcd_engine *e)
{
	lockdep_assert_held(&e->intake);
	if (!e->open)
		return;
	persist_late(e);
	spin_lock(&e->lock);
	e->open->state = DCD_SLOT_SEALED;
	spin_unlock(&e->lock);
	e->open = NULL;
}

static void seal_and_commit(struct dcd_engine *e)
{
	dcd_seal_open(e);
	mod_delayed_work(e->commit_wq, &e->commit_work, 0);
}

/* An open slot with @bytes of room; -EAGAIN: wait for room and ask again. */
static int slot_with_room(struct dcd_engine *e, u32 bytes)
{
	struct dcd_slot *s = e->open;
	int r = 0;

	lockdep_assert_held(&e->intake);
	if (READ_ONCE(e->log_dead) && !e->keeps)
		return -EIO;
	if (s && s->used + bytes <= e->segment_bytes &&
	    s->entries < e->table_bytes / sizeof(struct dcd_entry))
		return 0;
	if (s)
		seal_and_commit(e);
	spin_lock(&e->lock);
	s = dcd_slot_free(e);
	if (s) {
		s->state = DCD_SLOT_OPEN;
		s->segment = e->head++;
		s->first_entry = e->next_entry;
		s->entries = 0;
		s->used = payload_start(e);
		s->opened = jiffies;
		e->open = s;
	} else {
		r = hopeless(e) ? -EIO : -EAGAIN;
	}
	spin_unlock(&e->lock);
	if (!r) {
		queue_delayed_work(e->commit_wq, &e->commit_work, dcd_seal_after(e));
		dcd_slots_kick(e);
	}
	return r;
}

static u32 sectors_of_next_entry(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t left = rq->sectors - rq->entered, from = rq->sector + rq->entered;
	u32 most = min(CHUNK, (e->segment_bytes - payload_start(e)) >> SECTOR_SHIFT);

	if (rq->op == DCD_WRITE)
		return min_t(sector_t, most, left);
	left = min_t(sector_t, left, 1U << 31);
	return dcd_index_reach(e, from, from + left - 1) - from + 1;
}

/* One entry, from rq->entered on; -EAGAIN: there is no room now. */
static int enter(struct dcd_engine *e, struct dcd_request *rq)
{
	u32 sectors = sectors_of_next_entry(e, rq);
	sector_t sector = rq->sector + rq->entered;
	bool zero = rq->op != DCD_WRITE;
	u32 bytes = zero ? 0 : sectors << SECTOR_SHIFT;
	struct dcd_entry *entry, new = { };
	struct dcd_slot *s;
	u64 at;
	int r;

	mutex_lock(&e->intake);
	r = slot_with_room(e, bytes);
	if (r)
		goto out;
	s = e->open;
	if (bytes && sg_pcopy_to_buffer(rq->sgl, rq->nents, s->base + s->used, bytes,
					rq->entered << SECTOR_SHIFT) != bytes) {
		r = -EINVAL;
		goto out;
	}
	at = zero ? s->segment : s->segment * (e->segment_bytes >> SECTOR_SHIFT) +
				 (s->used >> SECTOR_SHIFT);
	r = dcd_index_insert(e, sector, sectors, zero, at);
	if (r)
		goto out;

	new.sequence = cpu_to_le64(e->next_entry);
	new.epoch = cpu_to_le64(e->epoch);
	new.sector = cpu_to_le64(sector);
	new.sectors = cpu_to_le32(sectors);
	new.stored = cpu_to_le32(bytes >> SECTOR_SHIFT);
	new.offset = cpu_to_le32(s->used >> SECTOR_SHIFT);
	new.type = cpu_to_le16(rq->op == DCD_WRITE ? DCD_ENTRY_WRITE :
			       rq->op == DCD_DISCARD ? DCD_ENTRY_DISCARD : DCD_ENTRY_WRITE_ZEROES);
	new.payload_crc = cpu_to_le32(dcd_crc(s->base + s->used, bytes));
	new.crc = cpu_to_le32(dcd_crc(&new, sizeof(new)));
	if (bytes)
		persist(e, s->base + s->used, bytes);
	entry = (struct dcd_entry *)(s->base + DCD_BLOCK) + s->entries;
	*entry = new;
	if (dcd_test_ack_early) {
		/* Until the slot is sealed, so that a cut finds something to lose. */
		if (!e->late_len)
			e->late_off = (u8 *)entry - (u8 *)e->nv->base;
		e->late_len += sizeof(*entry);
	} else {
		persist_late(e);
		persist(e, entry, sizeof(*entry));
	}
	trace_dcd_entry(e, e->next_entry, s->segment, sector, sectors);
	e->next_entry++;
	s->entries++;
	s->used += bytes;
	rq->entered += sectors;
	rq->segment = s->segment;
out:
	mutex_unlock(&e->intake);
	return r;
}

/* Is the time of the next write yet to come? */
static bool early(struct dcd_engine *e, ktime_t *at)
{
	spin_lock(&e->lock);
	e->last_intake = jiffies;
	*at = e->next_intake;
	spin_unlock(&e->lock);
	return ktime_before(ktime_get(), *at);
}

/* One of @sectors went in. */
static void keep_pace(struct dcd_engine *e, u32 sectors)
{
	u64 us = dcd_pace_us(e, sectors);
	ktime_t now = ktime_get();

	if (!us)
		return;
	spin_lock(&e->lock);
	e->next_intake = ktime_add_us(max(now, e->next_intake), us);
	spin_unlock(&e->lock);
	dcd_destage_kick(e);
}

/* All of it, or as far as it can go now: -EAGAIN. */
static int go_on(struct dcd_engine *e, struct dcd_request *rq)
{
	while (rq->entered < rq->sectors) {
		u32 sectors = sectors_of_next_entry(e, rq);
		ktime_t at;
		int r;

		if (early(e, &at))
			return -EAGAIN;
		r = enter(e, rq);
		if (r)
			return r;
		keep_pace(e, sectors);
	}
	return 0;
}

int dcd_intake(struct dcd_engine *e, struct dcd_request *rq)
{
	int r = -EAGAIN;

	rq->engine = e;
	rq->entered = 0;
	/* Who comes while others wait waits behind them. */
	if (list_empty_careful(&e->waiting))
		r = go_on(e, rq);
	if (r != -EAGAIN)
		return r;
	spin_lock(&e->lock);
	list_add_tail(&rq->waiting, &e->waiting);
	spin_unlock(&e->lock);
	queue_work(e->intake_wq, &e->intake_work);
	return -EINPROGRESS;
}

static struct dcd_request *first_waiting(struct dcd_engine *e)
{
	struct dcd_request *rq;

	spin_lock(&e->lock);
	rq = list_first_entry_or_null(&e->waiting, struct dcd_request, waiting);
	spin_unlock(&e->lock);
	return rq;
}

static void wait_for_time_and_room(struct dcd_engine *e)
{
	ktime_t at;

	if (early(e, &at)) {
		dcd_count(e, DCD_N_THROTTLED, 1);
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&at, HRTIMER_MODE_ABS);
	} else if (!can_go_on(e)) {
		dcd_count(e, DCD_N_WAITS_FOR_ROOM, 1);
		dcd_destage_kick(e);
		wait_event(e->room, can_go_on(e));
	}
}

void dcd_intake_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, intake_work);
	struct dcd_request *rq;

	while ((rq = first_waiting(e))) {
		int r = go_on(e, rq);

		if (r == -EAGAIN) {
			wait_for_time_and_room(e);
			continue;
		}
		spin_lock(&e->lock);
		list_del(&rq->waiting);
		spin_unlock(&e->lock);
		dcd_entered(e, rq, r);
	}
}

/* The committer is at rest: else it takes what has come meanwhile when it is done. */
static void commit_if_idle(struct dcd_engine *e)
{
	bool idle;

	mutex_lock(&e->intake);
	spin_lock(&e->lock);
	idle = e->open && e->open->segment == e->committed;
	spin_unlock(&e->lock);
	if (idle)
		seal_and_commit(e);
	mutex_unlock(&e->intake);
}

void dcd_report_after_log(struct dcd_engine *e, struct dcd_request *rq)
{
	spin_lock(&e->lock);
	list_add_tail(&rq->waiting, &e->unreported);
	spin_unlock(&e->lock);
	commit_if_idle(e);
	dcd_report(e);	/* the log may have it, or have failed, since it was entered */
}

void dcd_report(struct dcd_engine *e)
{
	struct dcd_request *rq, *next;
	LIST_HEAD(good);
	LIST_HEAD(bad);

	spin_lock(&e->lock);
	list_for_each_entry_safe(rq, next, &e->unreported, waiting) {
		if (rq->segment < e->committed)
			list_move_tail(&rq->waiting, &good);
		else if (e->log_dead)
			list_move_tail(&rq->waiting, &bad);
	}
	spin_unlock(&e->lock);
	list_for_each_entry_safe(rq, next, &good, waiting)
		dcd_answer(e, rq, 0);
	list_for_each_entry_safe(rq, next, &bad, waiting)
		dcd_answer(e, rq, -EIO);
}

static bool all_left(struct dcd_engine *e, u64 below)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->committed >= below || e->closing || (e->log_dead && (!e->keeps || e->stuck));
	spin_unlock(&e->lock);
	return yes;
}

int dcd_commit_all(struct dcd_engine *e)
{
	u64 below;
	int r;

	mutex_lock(&e->intake);
	seal_and_commit(e);
	spin_lock(&e->lock);
	below = e->head;
	spin_unlock(&e->lock);
	mutex_unlock(&e->intake);
	wait_event(e->room, all_left(e, below));
	spin_lock(&e->lock);
	r = e->committed >= below ? 0 : -EIO;
	spin_unlock(&e->lock);
	return r;
}
