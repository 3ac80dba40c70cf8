// SPDX-License-Identifier: GPL-2.0-only
#include "write.h"

#include <linux/delay.h>

#include "abandon.h"
#include "absorb.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"
#include "zero.h"

TEST_KNOB(uint, slow_starved, "ms that who maps what has waited for memory takes to begin");
TEST_KNOB(bool, starved_lingers, "a table goes while who maps what has waited for memory looks at it");

/* What of the caller's flags a leg is to see. */
#define LEG_FLAGS	(REQ_SYNC | REQ_META | REQ_PRIO | REQ_IDLE | REQ_FUA | \
			 REQ_PREFLUSH | REQ_BACKGROUND | REQ_NOUNMAP)

#define DRAIN_TELL	(600 * HZ)	/* once more; it has been told at first */

/* Somebody waits for it (sender.h). */
#define URGENT		(REQ_SYNC | REQ_META | REQ_PRIO | REQ_FUA | REQ_PREFLUSH)

static void give_back(struct write *w)
{
	budget_leave(w);
	write_pool_put(&w->m->writes.pool, w);
}

void write_release(struct write *w, unsigned int bits)
{
	if (((atomic_fetch_or(bits, &w->state) | bits) & GONE) == GONE)
		give_back(w);
}

/* Will a leg that was abandoned keep its memory, though it is acknowledged? */
static bool is_out(const struct write *w)
{
	unsigned int state = atomic_read(&w->state);

	return (state & ANY_ABANDONED) && (state & ALL_RETURNED) != ALL_RETURNED;
}

void write_pin(struct write *w)
{
	atomic_andnot(UNPINNED, &w->state);
}

void write_unpin(struct write *w)
{
	write_release(w, UNPINNED);
}

void write_finish(struct write *w, blk_status_t status)
{
	struct bio_list absorbed = w->absorbed;
	struct bio *bio = w->bio;

	if (w->kind != WRITE_FLUSH) {
		trace_lockstep_write_done(w->m, w->range.start, write_sectors(w), status);
		range_unlock(&w->m->ranges, &w->range);
	}
	if (unlikely(is_out(w)))
		budget_stuck(w);
	write_release(w, FINISHED);

	/* Last: the mirror may be gone after it. */
	do {
		bio->bi_status = status;
		bio_endio(bio);
	} while (unlikely((bio = bio_list_pop(&absorbed))));
}

void write_settle(struct write *w)
{
	unsigned int state = atomic_read(&w->state);
	enum leg_id leg;

	w->abandoned = 0;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (!(w->sent & BIT(leg))) {
			w->status[leg] = BLK_STS_OK;
		} else if (unlikely(state & ABANDONED(leg))) {
			w->abandoned |= BIT(leg);
			w->status[leg] = BLK_STS_TIMEOUT;
		} else {
			w->status[leg] = w->part[leg].status;
		}
	}
	mirror_settle(w);
}

/*
 * An abandoned part is back, which has been published (@state): unless that was the last bit
 * of GONE, somebody else may have freed w by now.
 */
static void part_returned(struct mirror *m, struct write *w, enum leg_id leg, unsigned int state,
			  blk_status_t status)
{
	struct writes *ws = &m->writes;
	unsigned long flags;

	if (status) {
		atomic64_inc(&m->legs[leg].write_errors);
		count(&m->counters, COUNT_LATE);
	}
	if ((state & GONE) == GONE)
		give_back(w);

	/* Under the lock to the end: writes_drain() may be about to let m go. */
	spin_lock_irqsave(&ws->lock, flags);
	if (!--ws->abandoned[leg])
		wake_up_all(&ws->returned);
	spin_unlock_irqrestore(&ws->lock, flags);
}

void write_leave_batch(struct write *w)
{
	struct write *head = w->head;

	w->head = NULL;
	batch_returned(w->m, head);
}

/* A leg is done with its part. */
static void leg_done(struct write *w, enum leg_id leg, blk_status_t status)
{
	unsigned int bits = ANSWERED(leg) | RETURNED(leg);
	struct mirror *m = w->m;
	struct writes *ws = &m->writes;
	unsigned long flags;
	unsigned int old;
	bool settles;

	w->part[leg].status = status;

	spin_lock_irqsave(&ws->lock, flags);
	if (leg == LEG_REMOTE)
		write_leave_batch(w);
	old = atomic_fetch_or(bits, &w->state);
	settles = !(old & ABANDONED(leg)) && ((old | bits) & ALL_ANSWERED) == ALL_ANSWERED;
	if (settles)
		list_del(&w->flying);
	spin_unlock_irqrestore(&ws->lock, flags);

	if (unlikely(old & ABANDONED(leg)))
		part_returned(m, w, leg, old | bits, status);
	else if (settles)
		write_settle(w);
}

void writes_other_abandoned(struct mirror *m, enum leg_id leg)
{
	lockdep_assert_held(&m->lock);
	spin_lock(&m->writes.lock);
	m->writes.abandoned[leg]++;
	spin_unlock(&m->writes.lock);
}

void writes_other_returned(struct mirror *m, enum leg_id leg)
{
	struct writes *ws = &m->writes;
	unsigned long flags;

	spin_lock_irqsave(&ws->lock, flags);
	if (!--ws->abandoned[leg])
		wake_up_all(&ws->returned);
	spin_unlock_irqrestore(&ws->lock, flags);
}

bool writes_draining(const struct mirror *m, enum leg_id leg)
{
	return READ_ONCE(m->writes.abandoned[leg]);
}

int writes_ready(struct mirror *m, enum leg_id leg)
{
	if (!wait_event_timeout(m->writes.returned, !writes_draining(m, leg), HZ))
		return -EBUSY;
	return write_pool_fill_spare(&m->writes.pool);
}

void writes_drain(struct mirror *m)
{
	struct writes *ws = &m->writes;
	enum leg_id leg;

	/* Idle: it may take for ever and holds nobody, so it isn't a hung task. */
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		while (!wait_event_idle_timeout(ws->returned, !writes_draining(m, leg),
						DRAIN_TELL))
			DMWARN("%s: waiting for %u requests that the %s leg (%s) has not answered; "
			       "they end when it answers, or is taken away below this device",
			       m->name, READ_ONCE(ws->abandoned[leg]),
			       leg_name(leg), leg_path(&m->legs[leg]));
	/* Who has woken us is still in there. */
	spin_lock_irq(&ws->lock);
	spin_unlock_irq(&ws->lock);
}

void write_part_done(struct write *w, enum leg_id leg, blk_status_t status)
{
	struct write *next;

	sender_returned(&w->m->legs[leg].sender, &w->part[leg].item);
	if (leg == LEG_REMOTE)
		window_returned(w);
	do {
		next = w->part[leg].next;
		leg_done(w, leg, status);
		w = next;
	} while (w);
}

static void leg_bio_done(struct bio *leg_bio)
{
	struct leg_part *part = container_of(leg_bio, struct leg_part, bio);
	struct write *w = leg_bio->bi_private;
	blk_status_t status = leg_bio->bi_status;

	bio_uninit(leg_bio);
	if (unlikely(part->again))
		scatter_again_done(w->m, status);
	write_part_done(w, leg_of_part(w, part), status);
}

static void send_bio(struct write *w, enum leg_id leg)
{
	struct leg_part *part = &w->part[leg];
	struct bio *leg_bio = &part->bio;
	struct leg *l = &w->m->legs[leg];

	bio_init(leg_bio, leg_bdev(l), w->vecs, part->nr_vecs, REQ_OP_WRITE | w->opf);
	if (w->kind == WRITE_DATA) {
		leg_bio->bi_opf |= leg_write_flags(l);
		leg_bio->bi_vcnt = part->nr_vecs;
		leg_bio->bi_iter.bi_sector = w->range.start;
		leg_bio->bi_iter.bi_size = part->size;
	}
	leg_bio->bi_ioprio = w->ioprio;
	leg_bio->bi_private = w;
	leg_bio->bi_end_io = leg_bio_done;
	submit_bio_noacct(leg_bio);
}

void write_submit(struct write *w, enum leg_id leg)
{
	if (w->kind == WRITE_ZERO)
		write_part_done(w, leg, zero_leg(w, leg));
	else
		send_bio(w, leg);
}

struct write *write_of(struct sender_item *item)
{
	return container_of(item, struct leg_part, item)->w;
}

static void send_local(struct sender_item **items, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++)
		write_submit(write_of(items[i]), LEG_LOCAL);
}

static void drop_local(struct sender_item *item)
{
	abandon_unsent(write_of(item), LEG_LOCAL);
}

static void drop_remote(struct sender_item *item)
{
	abandon_unsent(write_of(item), LEG_REMOTE);
}

static const struct sender_ops part_ops[LEGS] = {
	[LEG_LOCAL] = { .send = send_local, .drop = drop_local },
	[LEG_REMOTE] = { .send = scatter_submit, .drop = drop_remote },
};

enum sender_lane_id write_lane(const struct write *w)
{
	if (w->kind == WRITE_ZERO)
		return LANE_ZERO;
	return w->kind == WRITE_FLUSH || (w->opf & URGENT) ? LANE_URGENT : LANE_LATER;
}

void write_again(struct write *w, enum leg_id leg)
{
	struct sender *s = &w->m->legs[leg].sender;
	struct sender_item *item = &w->part[leg].item;

	sender_returned(s, item);
	item->unit = 1;
	sender_give_one(s, write_lane(w), item);
}

/*
 * From now on write_abandon() finds the write. False if a leg that it was
 * routed to has died since: that one may have been abandoned already.
 */
static bool take_off(struct write *w, struct write *head)
{
	struct writes *ws = &w->m->writes;
	unsigned int clear = 0, drop = 0;
	unsigned long flags;
	bool ok = true;
	enum leg_id leg;

	w->sent_at = 0;
	spin_lock_irqsave(&ws->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct leg_part *part = &w->part[leg];

		if (!(w->sent & BIT(leg)))
			continue;
		clear |= ANSWERED(leg) | RETURNED(leg);
		drop |= ABANDONED(leg);
		if (unlikely(w->deaths[leg] != READ_ONCE(w->m->legs[leg].deaths)))
			ok = false;
		part->nr_vecs = w->nr_pages;
		part->size = write_sectors(w) << SECTOR_SHIFT;
		part->next = NULL;
		part->again = false;
		part->w = w;
		sender_item_init(&part->item, &part_ops[leg]);
	}
	if (likely(ok)) {
		w->unacked = false;
		/* Nothing of it is out there: a leg that drains is dead. */
		WARN_ON_ONCE((atomic_read(&w->state) & clear) != clear);
		atomic_andnot(clear | drop, &w->state);
		list_add_tail(&w->flying, &ws->flying);
		if (likely(w->sent & BIT(LEG_REMOTE)))
			w->head = head;
		else
			batch_returned(w->m, head);
	}
	spin_unlock_irqrestore(&ws->lock, flags);
	return ok;
}

bool write_launch(struct write *w)
{
	struct write *head = w->head;
	struct mirror *m = w->m;
	blk_status_t status;
	unsigned long flags;

	/* Once held, w may be on its way again before mirror_route() has returned. */
	w->head = NULL;
	do {
		status = mirror_route(w);
		if (unlikely(status)) {
			spin_lock_irqsave(&m->writes.lock, flags);
			batch_returned(m, head);
			spin_unlock_irqrestore(&m->writes.lock, flags);
			if (status != BLK_STS_AGAIN)
				write_finish(w, status);
			return false;
		}
	} while (!take_off(w, head));
	return true;
}

void write_send(struct write *w)
{
	enum sender_lane_id lane;
	struct mirror *m = w->m;
	unsigned int sent;

	if (!write_launch(w))
		return;
	/* The last answer may free w; and a leg may be abandoned before it has got its part. */
	sent = w->sent;
	lane = write_lane(w);
	if (sent & BIT(LEG_LOCAL))
		sender_give_one(&m->legs[LEG_LOCAL].sender, lane, &w->part[LEG_LOCAL].item);
	if ((sent & BIT(LEG_REMOTE)) && (w->kind != WRITE_DATA || window_take(m, &w, 1)))
		sender_give_one(&m->legs[LEG_REMOTE].sender, lane, &w->part[LEG_REMOTE].item);
}

static void restart_work(struct work_struct *work)
{
	write_send(container_of(work, struct write, work));
}

void write_restart(struct write *w)
{
	/* How long it was held says nothing of the legs. */
	w->admitted = ktime_get_ns();
	INIT_WORK(&w->work, restart_work);
	queue_work(w->m->writes.batches.wq, &w->work);
}

void write_copy(struct write *w, struct bio *bio, unsigned int offset)
{
	struct bio copy;

	count_add(&w->m->counters, COUNT_COPIED, bio->bi_iter.bi_size);
	/* A bio only to name the pages. */
	bio_init(&copy, NULL, w->vecs, w->nr_pages, REQ_OP_WRITE);
	copy.bi_vcnt = w->nr_pages;
	copy.bi_iter.bi_size = write_sectors(w) << SECTOR_SHIFT;
	if (offset)
		bio_advance(&copy, offset);
	bio_copy_data(&copy, bio);
	bio_uninit(&copy);
}

static void copy_and_join(struct write *w)
{
	write_copy(w, w->bio, 0);
	batch_join(w);
}

static void pages_work(struct work_struct *work)
{
	struct write *w = container_of(work, struct write, work);
	struct mirror *m = w->m;
	bool got;

	if (!write_pool_pages(&m->writes.pool, w, GFP_NOWAIT | __GFP_NOWARN)) {
		count(&m->counters, COUNT_PUNTED);
		got = write_pool_pages(&m->writes.pool, w, GFP_NOIO);
		/* A mempool that may wait doesn't fail. */
		if (WARN_ON_ONCE(!got)) {
			write_finish(w, BLK_STS_RESOURCE);
			return;
		}
	}
	copy_and_join(w);
}

/* The range is held. In .map, or in a worker after a wait. */
static void write_start(struct write *w, bool may_wait)
{
	if (w->kind != WRITE_DATA) {
		write_send(w);
		return;
	}
	if (may_wait) {
		pages_work(&w->work);
		return;
	}
	if (likely(write_pool_pages(&w->m->writes.pool, w, GFP_NOWAIT | __GFP_NOWARN))) {
		copy_and_join(w);
		return;
	}
	/*
	 * Waiting for pages here could be waiting for writes that this very task
	 * has submitted before and that sit in its bio_list.
	 */
	INIT_WORK(&w->work, pages_work);
	queue_work(w->m->writes.wq, &w->work);
}

/*
 * The range is held. Whatever must be durable before a leg may get the write
 * (the dirty map's mark) comes here, and goes on to write_start().
 */
static void write_granted(struct write *w, bool may_wait)
{
	if (likely(dirty_map_mark(&w->m->dirty, &w->mark, w->range.start, w->range.last)))
		write_start(w, may_wait);
}

/* In the map's worker, for which nobody may wait here. */
static void write_marked(struct dirty_wait *mark, blk_status_t status)
{
	struct write *w = container_of(mark, struct write, mark);

	if (unlikely(status))
		write_finish(w, status);
	else
		write_start(w, false);
}

static void granted_work(struct work_struct *work)
{
	write_granted(container_of(work, struct write, work), true);
}

static void range_granted(struct locked_range *range)
{
	struct write *w = container_of(range, struct write, range);

	queue_work(w->m->writes.wq, &w->work);
}

static enum write_kind kind_of(const struct bio *bio)
{
	switch (bio_op(bio)) {
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return WRITE_ZERO;
	case REQ_OP_FLUSH:
		return WRITE_FLUSH;
	default:
		return bio_sectors(bio) ? WRITE_DATA : WRITE_FLUSH;
	}
}

static void write_begin(struct mirror *m, struct write *w, struct bio *bio, bool may_wait)
{
	w->m = m;
	w->kind = kind_of(bio);
	w->bio = bio;
	w->opf = bio->bi_opf & LEG_FLAGS;
	w->unacked = false;
	w->ioprio = bio->bi_ioprio;
	budget_move(w, bio);
	w->head = NULL;
	bio_list_init(&w->absorbed);
	atomic_set(&w->state, ALL_ANSWERED | ALL_RETURNED | UNPINNED);

	if (w->kind == WRITE_FLUSH) {
		w->range.start = 0;
		w->range.last = 0;
		batch_seal(m);
		write_send(w);
		return;
	}

	w->range.take = w->kind == WRITE_DATA ? absorb_take : NULL;
	w->range.start = dm_target_offset(m->ti, bio->bi_iter.bi_sector);
	w->range.last = w->range.start + bio_sectors(bio) - 1;
	INIT_WORK(&w->work, granted_work);
	w->mark.done = write_marked;
	trace_lockstep_write(m, w->range.start, bio_sectors(bio));

	if (range_lock(&m->ranges, &w->range, range_granted))
		write_granted(w, may_wait);
	else
		count(&m->counters, COUNT_WAITED);
}

/* What waits for memory when a noflush suspend begins. */
static void requeue(struct mirror *m)
{
	struct budget *b = &m->writes.budget;
	struct bio *bio;

	/* Until the suspend has got so far that dm keeps them it sends them here again at once. */
	if (READ_ONCE(b->gives_back))
		schedule_timeout_uninterruptible(1);
	/* Of one that is interrupted it would be an error to the caller. */
	while (dm_noflush_suspending(m->ti) && (bio = budget_unserved(b))) {
		bio->bi_status = BLK_STS_DM_REQUEUE;
		bio_endio(bio);
	}
}

static void starved_work(struct work_struct *work)
{
	struct writes *ws = container_of(work, struct writes, starved_work);
	struct mirror *m = container_of(ws, struct mirror, writes);
	struct write *w;
	struct bio *bio;

	if (test_knob(slow_starved))
		msleep(test_knob(slow_starved));
	for (;;) {
		spin_lock_irq(&ws->lock);
		bio = bio_list_pop(&ws->starved);
		spin_unlock_irq(&ws->lock);
		if (!bio)
			bio = budget_pop(&ws->budget);
		if (!bio)
			break;
		w = write_pool_get(&ws->pool, GFP_NOIO);
		write_begin(m, w, bio, true);
	}
	requeue(m);
}

/* Not here, for the reason given in write_start(). */
static void write_starved(struct mirror *m, struct bio *bio)
{
	struct writes *ws = &m->writes;

	count(&m->counters, COUNT_PUNTED);
	spin_lock_irq(&ws->lock);
	bio_list_add(&ws->starved, bio);
	spin_unlock_irq(&ws->lock);
	queue_work(ws->starved_wq, &ws->starved_work);
}

void writes_kick_starved(struct mirror *m)
{
	queue_work(m->writes.starved_wq, &m->writes.starved_work);
}

void writes_stop(struct mirror *m)
{
	if (m->writes.starved_wq && !test_knob(starved_lingers))
		flush_workqueue(m->writes.starved_wq);
}

void write_map(struct mirror *m, struct bio *bio)
{
	unsigned int sectors = 0;
	struct write *w;

	switch (kind_of(bio)) {
	case WRITE_DATA:
		if (bio_sectors(bio) > IO_MAX_SECTORS)
			dm_accept_partial_bio(bio, IO_MAX_SECTORS);
		count(&m->counters, COUNT_WRITES);
		if (bio->bi_opf & REQ_FUA)
			count(&m->counters, COUNT_FUA);
		if (absorb(m, bio))
			return;
		sectors = bio_sectors(bio);
		break;
	case WRITE_ZERO:
		count(&m->counters, COUNT_ZEROES);
		break;
	case WRITE_FLUSH:
		count(&m->counters, COUNT_FLUSHES);
		break;
	}

	if (!budget_enter(m, bio, sectors))
		return;
	w = write_pool_get(&m->writes.pool, GFP_NOWAIT | __GFP_NOWARN);
	if (likely(w))
		write_begin(m, w, bio, false);
	else
		write_starved(m, bio);
}

void writes_init(struct mirror *m)
{
	struct writes *ws = &m->writes;

	mutex_init(&ws->abandoning);
	spin_lock_init(&ws->lock);
	INIT_LIST_HEAD(&ws->flying);
	budget_init(&ws->budget, m->options.memory_kib);
	window_init(m);
	bio_list_init(&ws->starved);
	INIT_WORK(&ws->starved_work, starved_work);
	init_waitqueue_head(&ws->returned);
}

int writes_create(struct mirror *m)
{
	struct writes *ws = &m->writes;
	int r;

	r = write_pool_create(&ws->pool);
	if (r)
		return r;
	r = batches_create(&ws->batches, m->options.coalesce, m->options.coalesce_pipeline);
	if (r)
		return r;
	ws->wq = alloc_workqueue("lockstep-write", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	ws->starved_wq = alloc_ordered_workqueue("lockstep-starved", WQ_MEM_RECLAIM);
	return ws->wq && ws->starved_wq ? 0 : -ENOMEM;
}

void writes_destroy(struct mirror *m)
{
	struct writes *ws = &m->writes;

	if (ws->starved_wq)
		destroy_workqueue(ws->starved_wq);
	if (ws->wq)
		destroy_workqueue(ws->wq);
	batches_destroy(&ws->batches);
	write_pool_destroy(&ws->pool);
	budget_end(&ws->budget);
}
