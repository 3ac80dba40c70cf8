// SPDX-License-Identifier: GPL-2.0-only
/*
 * The way of a write in: at once, or after time and room have come, entry by
 * entry (entries.c); without NVRAM it then waits for the log.
 */
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/scatterlist.h>

#include "lockstep-test.h"
#include "outcome.h"

TEST_KNOB(bool, stuck_stale, "a write is refused by a round that has failed, though another one is asked for");
TEST_KNOB(bool, stuck_starves, "a write waits while anybody asks for a round");
TEST_KNOB(bool, unread_holds, "a close waits for what a log that is left may give yet");
TEST_KNOB(bool, close_commits, "a close waits until the log has all that NVRAM has, however slow it is");
TEST_KNOB(bool, one_turn, "writes wait in one queue, however long they are");

/*
 * The last round has failed, and none is under way that was asked for, as disks may have been
 * mended: by @rq, that is, once it has asked.
 */
static bool is_stuck(const struct dcd_engine *e, const struct dcd_request *rq)
{
	u64 asked = rq->asked && !test_knob(stuck_starves) ? rq->asked : e->sweep.called;

	return e->stuck && (e->sweep.answered >= asked || test_knob(stuck_stale));
}

/*
 * Nothing makes room: the committer does while the log works and has a place
 * for each slot; else only the destager can. Needs @lock.
 */
static bool hopeless(struct dcd_engine *e, const struct dcd_request *rq)
{
	lockdep_assert_held(&e->lock);
	if (e->closing)
		return true;
	if (e->leaving)	/* then they go through, if the data disk works */
		return is_stuck(e, rq) && (e->worn || !e->keeps);
	if (e->worn || (e->log_dead && !e->keeps))
		return true;
	if (dcd_slot_coming(e) || !dcd_may_reserve(e, 1))
		return false;
	if (dcd_ring_is_behind(e, e->tail))
		return false;
	return is_stuck(e, rq) && (e->log_dead || !dcd_ring_free(e));
}

static bool can_go_on(struct dcd_engine *e, const struct dcd_request *rq, unsigned int entries)
{
	bool yes;

	spin_lock(&e->lock);
	yes = (!e->held && !dcd_leave_holds(e) && dcd_may_reserve(e, entries) &&
	       !dcd_open_is_kept(e) && (e->open || dcd_slot_free(e, false))) ||
	      e->leaving == DCD_LEAVE_LEFT || hopeless(e, rq);
	spin_unlock(&e->lock);
	return yes;
}

static u32 sectors_of_next_entry(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t left = rq->sectors - rq->entered, from = rq->sector + rq->entered;

	if (rq->op == DCD_WRITE)
		return min_t(sector_t, dcd_chunk(e), left);
	left = min_t(sector_t, left, 1U << 31);
	return dcd_index_reach(e, from, from + left - 1) - from + 1;
}

static int reserve(struct dcd_engine *e, struct dcd_place_in_slot *place)
{
	int r;

	spin_lock(&e->lock);
	r = dcd_reserve(e, place);
	if (r == -EAGAIN && hopeless(e, place->rq))
		r = -EIO;
	spin_unlock(&e->lock);
	dcd_reserved(e, place);
	return r;
}

/* One entry, from rq->entered on. The last one hands the request over. */
static int enter(struct dcd_engine *e, struct dcd_request *rq, u32 sectors)
{
	struct dcd_place_in_slot place = {
		.rq = rq,
		.sector = rq->sector + rq->entered,
		.sectors = sectors,
		.skip = rq->skip + (rq->entered << SECTOR_SHIFT),
		.last = rq->entered + sectors == rq->sectors,
		.entries = 1,
		.bytes = rq->op == DCD_WRITE ? sectors << SECTOR_SHIFT : 0,
	};
	int r = reserve(e, &place);

	if (r)
		return r;
	rq->entered += sectors;
	/* A new wait asks anew: what an older round couldn't do refuses nothing. */
	rq->asked = 0;
	dcd_fill(e, &place);
	return 0;
}

/* All of it, or nothing. */
static int enter_batch(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_place_in_slot place = {
		.rq = rq,
		.skip = rq->skip,
		.last = true,
		.entries = dcd_batch_entries(e, rq),
		.bytes = rq->sectors << SECTOR_SHIFT,
	};
	int r = reserve(e, &place);

	if (!r)
		dcd_batch_fill(e, &place);
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

/* What went in takes so much of the log: dcd_counts(). */
static void keep_pace(struct dcd_engine *e, u32 counts)
{
	u64 us = dcd_pace_us(e, counts);
	ktime_t now = ktime_get();

	if (!us)
		return;
	spin_lock(&e->lock);
	e->next_intake = ktime_add_us(max(now, e->next_intake), us);
	spin_unlock(&e->lock);
	dcd_destage_kick(e);
}

static enum dcd_queue queue_of(const struct dcd_engine *e, const struct dcd_request *rq)
{
	if (rq->op != DCD_WRITE)
		return DCD_ZEROES;
	return rq->sectors > dcd_chunk(e) && !test_knob(one_turn) ? DCD_LONG : DCD_SHORT;
}

/* It has to be quick now, or it ends as BUSY. */
static bool is_urgent(struct dcd_engine *e, const struct dcd_request *rq)
{
	unsigned int ms = READ_ONCE(e->busy_after_ms);

	return ms && time_after(jiffies, rq->since + msecs_to_jiffies(ms) / 2);
}

/*
 * What its next step takes of what the queues share, in quarters of a short write. 64 KiB at one
 * place of a disk take nearly the time of 4 KiB, but 16 times the room of the log: between the two.
 * Zeroes are put together until they are long.
 */
static unsigned int share(struct dcd_engine *e, const struct dcd_request *rq)
{
	if (rq->op != DCD_WRITE)
		return 1;
	if (rq->ranges)
		return 4 * dcd_batch_entries(e, rq);
	return queue_of(e, rq) == DCD_LONG && !is_urgent(e, rq) ? 16 : 4;
}

/*
 * It waits until there are fewer pieces of zeroes (moment.h), and no write waits behind it; but not
 * for so long that it ends as BUSY, as long as that can be.
 */
static bool is_held(struct dcd_engine *e, const struct dcd_request *rq)
{
	unsigned int ms = READ_ONCE(e->busy_after_ms) ?: DCD_BUSY_AFTER_MS;
	unsigned int part = rq->op == DCD_WRITE ? 0 :
		dcd_zeroes_wait(e, rq->sector + rq->entered, rq->sector + rq->sectors - 1);

	return part == DCD_ZEROES_STAY ||
	       (part && time_before(jiffies, rq->since + msecs_to_jiffies(ms) * part / 200));
}

/* Does the first one there wait for its turn? */
static bool waits_there(struct dcd_engine *e, enum dcd_queue queue)
{
	const struct dcd_request *rq;

	lockdep_assert_held(&e->lock);
	rq = list_first_entry_or_null(&e->waiting[queue], struct dcd_request, waiting);
	return rq && !is_held(e, rq);
}

/* @had: go_on()'s. */
static bool others_turn(struct dcd_engine *e, enum dcd_queue own, const u64 *had)
{
	bool yes = false;
	unsigned int i;

	if (!had)
		return READ_ONCE(e->nwaiting);
	spin_lock(&e->lock);
	for (i = 0; i < DCD_QUEUES; i++)
		yes |= had[i] < had[own] && waits_there(e, i);
	spin_unlock(&e->lock);
	return yes;
}

/*
 * All of it, or as far as it can go now: -EAGAIN; or as far as it is its queue's turn:
 * -EINPROGRESS. After 0 it belongs to whoever publishes its last entry. @had: what each queue
 * has had, as share() has it; NULL: it comes while nobody waits.
 */
static int go_on(struct dcd_engine *e, struct dcd_request *rq, u64 *had)
{
	sector_t left = rq->sectors - rq->entered;
	enum dcd_queue own = queue_of(e, rq);	/* in the end it isn't ours any more */

	while (left) {
		u32 sectors = rq->ranges ? left : sectors_of_next_entry(e, rq);
		u32 counts = dcd_counts(rq->op, sectors), takes = share(e, rq);
		ktime_t at;
		int r;

		if (others_turn(e, own, had))
			return -EINPROGRESS;
		if (is_held(e, rq) || early(e, &at))
			return -EAGAIN;
		r = rq->ranges ? enter_batch(e, rq) : enter(e, rq, sectors);
		if (r)
			return r;
		left -= sectors;
		if (had)
			had[own] += takes;
		keep_pace(e, counts);
	}
	return 0;
}

static bool has_all_data(const struct dcd_request *rq)
{
	sector_t bytes = 0;
	struct scatterlist *sg;
	unsigned int i;

	if (rq->op != DCD_WRITE)
		return true;
	for_each_sg(rq->sgl, sg, rq->nents, i)
		bytes += sg->length;
	return bytes >= rq->skip + (rq->sectors << SECTOR_SHIFT);
}

static void wait_in_queue(struct dcd_engine *e, struct dcd_request *rq)
{
	spin_lock(&e->lock);
	list_add_tail(&rq->waiting, &e->waiting[queue_of(e, rq)]);
	WRITE_ONCE(e->nwaiting, e->nwaiting + 1);
	spin_unlock(&e->lock);
	queue_work(e->intake_wq, &e->intake_work);
	wake_up_all(&e->room);
	dcd_wait_begins(e);
}

void dcd_intake(struct dcd_engine *e, struct dcd_request *rq)
{
	int r = -EAGAIN;

	rq->engine = e;
	rq->entered = 0;
	rq->segment = 0;
	rq->asked = 0;
	rq->again = false;
	if (!rq->sectors || !has_all_data(rq)) {
		dcd_answer(e, rq, rq->sectors ? -EINVAL : 0);
		return;
	}
	/* Who comes while others wait waits behind them. */
	if (!READ_ONCE(e->nwaiting))
		r = go_on(e, rq, NULL);
	if (r == -EAGAIN || r == -EINPROGRESS)
		wait_in_queue(e, rq);
	else if (r == -EREMCHG)
		dcd_through(e, rq);
	else if (r)
		dcd_answer(e, rq, r);
}

void dcd_intake_again(struct dcd_engine *e, struct dcd_request *rq)
{
	rq->entered = 0;
	rq->segment = 0;
	rq->asked = 0;
	rq->again = false;
	if (dcd_wait_over(e, rq))
		dcd_answer_over(e, rq);
	else
		wait_in_queue(e, rq);
}

/*
 * Of the queue that has had least. Nobody saves up: who had nothing to wait for has had as much.
 * One that is held only if there is no other.
 */
static struct dcd_request *next_waiting(struct dcd_engine *e, u64 *had)
{
	unsigned int i, next = DCD_QUEUES;
	struct dcd_request *rq = NULL;

	spin_lock(&e->lock);
	for (i = 0; i < DCD_QUEUES; i++)
		if (waits_there(e, i) && (next == DCD_QUEUES || had[i] < had[next]))
			next = i;
	for (i = 0; i < DCD_QUEUES && next < DCD_QUEUES; i++)
		if (!waits_there(e, i))
			had[i] = max(had[i], had[next]);
	if (next == DCD_QUEUES)
		next = DCD_ZEROES;
	rq = list_first_entry_or_null(&e->waiting[next], struct dcd_request, waiting);
	if (rq)
		list_del(&rq->waiting);
	spin_unlock(&e->lock);
	return rq;
}

/* It has been at it; @rest: a part of it is left for its next turn. */
static void was_at(struct dcd_engine *e, struct dcd_request *rest)
{
	spin_lock(&e->lock);
	if (rest)
		list_add(&rest->waiting, &e->waiting[queue_of(e, rest)]);
	else
		WRITE_ONCE(e->nwaiting, e->nwaiting - 1);
	spin_unlock(&e->lock);
}

static void wait_for_time(struct dcd_engine *e, struct dcd_request *rq, ktime_t until)
{
	ktime_t at;

	do {
		at = min(until, ktime_add_ms(ktime_get(), jiffies_to_msecs(DCD_LOOK)));
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&at, HRTIMER_MODE_ABS);
	} while (at < until && !dcd_wait_over(e, rq));
}

static bool others_wait(struct dcd_engine *e)
{
	return !list_empty(&e->waiting[DCD_SHORT]) || !list_empty(&e->waiting[DCD_LONG]);
}

/* Until it isn't held, it is over, or others come. */
static void wait_held(struct dcd_engine *e, struct dcd_request *rq)
{
	dcd_count(e, DCD_N_WAITS_FOR_ROOM, 1);
	dcd_destage_kick(e);
	while (!wait_event_timeout(e->room, !is_held(e, rq) || others_wait(e) ||
				   dcd_wait_over(e, rq), DCD_LOOK))
		;
}

/* Or until it is over. */
static void wait_for_time_and_room(struct dcd_engine *e, struct dcd_request *rq,
				   unsigned int entries)
{
	ktime_t at;

	if (early(e, &at)) {
		dcd_count(e, DCD_N_THROTTLED, 1);
		wait_for_time(e, rq, at);
	} else if (!can_go_on(e, rq, entries)) {
		dcd_count(e, DCD_N_WAITS_FOR_ROOM, 1);
		dcd_destage_kick(e);
		spin_lock(&e->lock);
		rq->asked = e->sweep.called;
		spin_unlock(&e->lock);
		while (!wait_event_timeout(e->room, can_go_on(e, rq, entries) ||
					   dcd_wait_over(e, rq), DCD_LOOK))
			;
	}
}

void dcd_intake_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, intake_work);
	u64 had[DCD_QUEUES] = {};
	struct dcd_request *rq;

	while ((rq = next_waiting(e, had))) {
		unsigned int entries = rq->ranges ? dcd_batch_entries(e, rq) : 1;
		int r;

		while ((r = go_on(e, rq, had)) == -EAGAIN && !dcd_wait_over(e, rq)) {
			if (!is_held(e, rq)) {
				wait_for_time_and_room(e, rq, entries);
			} else if (!others_wait(e)) {
				wait_held(e, rq);
			} else {
				r = -EINPROGRESS;
				break;
			}
		}
		if (r == -EAGAIN)
			dcd_answer_over(e, rq);
		else if (r == -EREMCHG)
			dcd_through(e, rq);
		else if (r && r != -EINPROGRESS)
			dcd_answer(e, rq, r);
		was_at(e, r == -EINPROGRESS ? rq : NULL);
	}
}

/* The committer is at rest: else it takes what has come meanwhile when it is done. */
static void commit_if_idle(struct dcd_engine *e)
{
	bool idle;

	spin_lock(&e->lock);
	idle = e->open && e->open->segment == e->committed;
	if (idle)
		dcd_seal_open(e);
	spin_unlock(&e->lock);
	if (idle)
		mod_delayed_work(e->commit_wq, &e->commit_work, 0);
}

void dcd_report_after_log(struct dcd_engine *e, struct dcd_request *rq)
{
	spin_lock(&e->lock);
	list_add_tail(&rq->waiting, &e->unreported);
	spin_unlock(&e->lock);
	dcd_wait_begins(e);
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

/* A segment that was taken back with all of its entries isn't waited for. Needs @lock. */
static bool committed(struct dcd_engine *e, u64 below)
{
	lockdep_assert_held(&e->lock);
	return e->committed >= min(below, e->head);
}

/*
 * Or nothing can get out of NVRAM for now: past a dead log no round ends while a wipe hangs, a
 * write is late, or something of the log isn't read yet.
 */
static bool all_left(struct dcd_engine *e, u64 below)
{
	bool yes;

	spin_lock(&e->lock);
	yes = committed(e, below) || e->closing ||
	      (e->log_dead && (!e->keeps || e->stuck || READ_ONCE(e->wipes.hangs) ||
			     e->lates.n ||
			     (e->round_error == DCD_UNREAD && !test_knob(unread_holds))));
	spin_unlock(&e->lock);
	return yes;
}

/* A request's wait; or that of a close, if what NVRAM has is as good there. */
static bool waited_enough(struct dcd_engine *e, const struct dcd_request *rq)
{
	unsigned long ending = READ_ONCE(e->ending);

	if (rq)
		return dcd_end_wait_over(e, rq);
	return ending && e->keeps && time_after(jiffies, ending + DCD_CLOSE_WAITS) &&
	       !test_knob(close_commits);
}

int dcd_commit_for(struct dcd_engine *e, const struct dcd_request *rq)
{
	bool left, over;
	u64 below;
	int r;

	spin_lock(&e->lock);
	below = e->head;
	if (rq && dcd_open_is_kept(e))	/* no write is in it */
		below--;
	else
		dcd_seal_open(e);
	spin_unlock(&e->lock);
	mod_delayed_work(e->commit_wq, &e->commit_work, 0);
	do {
		wait_event_timeout(e->room, (left = all_left(e, below)) ||
				   (over = waited_enough(e, rq)), DCD_LOOK);
	} while (!left && !over);
	spin_lock(&e->lock);
	r = committed(e, below) ? 0 : left ? -EIO : -EAGAIN;
	spin_unlock(&e->lock);
	return r;
}

int dcd_commit_all(struct dcd_engine *e)
{
	return dcd_commit_for(e, NULL);
}
