// SPDX-License-Identifier: GPL-2.0-only
/*
 * Level 2: the destager goes round the data disk in sector order, as a one-way
 * elevator, and takes along whatever is live of the segments that are committed
 * when it comes by; overwritten data isn't there any more. A step is a batch: it
 * is copied, the data disk is flushed, and only then the index forgets it: after a
 * flush that failed nobody knows what the disk has, and all of it is copied again.
 * Meanwhile the next batch is read from the log, a disk of its own.
 * Once round from a mark the segments of its time are empty and the tail moves, so
 * room comes back all the time, not once a turn. Anything that goes wrong on the
 * way takes the marks away that have it before them.
 *
 * What a disk takes long for it doesn't wait for: late.h.
 *
 * It gives way between any two I/Os: it stops when writes come while there is room
 * enough, and has but few in flight while others read. What was interrupted goes
 * on from there.
 */
#include <linux/module.h>

#include "batch.h"
#include "beyond.h"
#include "dcd-trace.h"
#include "lockstep-test.h"
#include "outcome.h"

#define RETRY_NOMEM	(HZ / 10)
#define READS		(HZ / 20)	/* so long ago they count as going on */
#define READS_DEPTH	2
#define AMID_UNREAD	(HZ / 4)	/* while a part of the log can't be read: the next round */
#define AMID_BLIP	(HZ / 2)	/* meanwhile: the next round */
#define ASKED_LATEST	(600 * HZ)	/* if writes go on past it */
#define ASKED_IN	16		/* a dead log has a part of a round in so many */
#define CLOSE_TRIES	50
#define LAST_CHANCE	(30 * HZ)	/* of a close */
#define LEAVING		(HZ / 50)	/* while the log is being left: the next look */

TEST_KNOB(bool, close_hurries, "a close may not wait for the destager's round that is under way");
TEST_KNOB(bool, asks_beside, "a log that dies within a round is asked while a commit is under way");
TEST_KNOB(bool, asks_at_once, "a dead log is asked before a round's first step, which puts off its end");
TEST_KNOB(bool, blip_leaves, "a log that is emptied is left at once when the data disk is away for a moment");
TEST_KNOB(bool, close_asks, "a close that goes past a log lets go when that works for a moment");
TEST_KNOB(bool, close_flushes, "a close flushes the destager's queue");
TEST_KNOB(bool, close_unread, "a close doesn't wait for what can't be read for a moment");
TEST_KNOB(bool, commit_hurries, "past a dead log a round may not wait for a commit that is under way");
TEST_KNOB(bool, failed_speaks, "a round that has failed refuses what comes before the next one, too");
TEST_KNOB(bool, held_holds_all, "what stays in the log holds all that was there before the sweep came by");
TEST_KNOB(bool, lost_each, "past a dead log each round that fails says anew what is lost");
TEST_KNOB(bool, missed_ends, "a round past a dead log ends when too much of that wasn't read");
TEST_KNOB(bool, refusal_hurries, "a dead log is asked as often however long it takes to refuse");
TEST_KNOB(bool, round_unasked, "whether a dead log works again isn't asked before a round is over");
TEST_KNOB(bool, stall_fails, "a data disk that was mute before it refused isn't away for a moment");
TEST_KNOB(bool, well_at_begin, "a data disk was well when a round began, and not while it went on");

/* Of a log that is damaged it is wrong to have more than what has to be there. */
static bool urgent(struct dcd_engine *e)
{
	return READ_ONCE(e->log_dead) || READ_ONCE(e->damaged) > READ_ONCE(e->tail) ||
	       READ_ONCE(e->leaving) || dcd_zeroes_crowd(e) || dcd_pressed(e);
}

static unsigned long idle_time(struct dcd_engine *e)
{
	return msecs_to_jiffies(READ_ONCE(e->destage.idle_ms));
}

static bool idle(struct dcd_engine *e)
{
	return time_after_eq(jiffies, READ_ONCE(e->last_intake) + idle_time(e));
}

/*
 * Of the next round, after one that failed: whoever would like it sooner waits for it. With
 * the log dead nobody waits for more than a blip: writes are refused as soon as NVRAM is full.
 */
static unsigned long to_retry(struct dcd_engine *e)
{
	unsigned long left = 0;

	spin_lock(&e->lock);
	if (e->round_error && (!e->log_dead || dcd_blip_data(e)) &&
	    time_before(jiffies, e->round_retry))
		left = e->round_retry - jiffies;
	spin_unlock(&e->lock);
	return left;
}

void dcd_destage_ask(struct dcd_engine *e)
{
	spin_lock(&e->lock);
	e->sweep.called++;
	spin_unlock(&e->lock);
	mod_delayed_work(e->destage_wq, &e->destage_work, 0);
}

void dcd_destage_kick(struct dcd_engine *e)
{
	unsigned long left = to_retry(e);

	dcd_super_kick(e);
	if (left && !test_knob(failed_speaks)) {
		spin_lock(&e->lock);
		e->sweep.called++;
		spin_unlock(&e->lock);
	}
	if (left)
		queue_delayed_work(e->destage_wq, &e->destage_work, left);
	else if (urgent(e))
		dcd_destage_ask(e);
	else
		queue_delayed_work(e->destage_wq, &e->destage_work, idle_time(e));
}

static bool answered(struct dcd_engine *e, u64 asked)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->sweep.answered >= asked;
	spin_unlock(&e->lock);
	return yes;
}

/*
 * Until a round that begins now is over. No flush of the work or of its queue will do: each kick
 * takes back what is queued (mod_delayed_work()), and whoever flushes that is let go.
 */
static void destage_now(struct dcd_engine *e)
{
	struct delayed_work *w = &e->destage_work;
	u64 asked;

	do {
		spin_lock(&e->lock);
		asked = ++e->sweep.called;
		spin_unlock(&e->lock);
		mod_delayed_work(e->destage_wq, w, 0);
		if (test_knob(close_hurries))
			flush_delayed_work(w);
		else if (test_knob(close_flushes))
			flush_workqueue(e->destage_wq);
		else
			wait_event(e->room, answered(e, asked));
		/* It may have found that another one is due. */
	} while (work_pending(&w->work) && !timer_pending(&w->timer) && !test_knob(close_hurries));
}

/*
 * Once more without memory, if leaving the log takes another round, if this one was for a part only
 * (no_further()), or, if only NVRAM has what was acknowledged and forgets it, while it may be for a
 * moment only that the log can't be read.
 */
void dcd_destage_all(struct dcd_engine *e)
{
	unsigned int tries = CLOSE_TRIES;
	unsigned long until = 0;
	bool again, waits;
	u64 before;

	spin_lock(&e->lock);
	e->log_retry = jiffies;
	spin_unlock(&e->lock);
	do {
		before = READ_ONCE(e->committed);
		destage_now(e);
		spin_lock(&e->lock);
		waits = e->round_error == DCD_UNREAD && !e->keeps && !e->after_log &&
			!test_knob(close_unread);
		if (waits && !until)
			until = jiffies + DCD_CLOSE_WAITS;
		waits = waits && time_before(jiffies, until);
		again = (e->round_error == -ENOMEM || e->leaving == DCD_LEAVE_LAST || waits ||
			 e->committed != before) &&
			e->committed != e->head;
		spin_unlock(&e->lock);
		if (again)
			schedule_timeout_uninterruptible(HZ / 10);
	} while (again && --tries);
}

/* How many I/Os at a time now. */
static unsigned int width(struct dcd_engine *e)
{
	unsigned int depth = READ_ONCE(e->destage.depth);

	if (READ_ONCE(e->closing) || READ_ONCE(e->growing) ||
	    dcd_leave_due(e) || (!urgent(e) && !idle(e)))
		return 0;
	if (time_before(jiffies, READ_ONCE(e->last_read) + READS))
		return min(depth, READS_DEPTH);
	return depth;
}

int dcd_destage_flush(struct dcd_engine *e)
{
	int r = dcd_batch_flush(e, e->sweep.ahead ? e->ahead : NULL, width);
	bool news;

	if (r) {
		dcd_late_flush_failed(e);
		return dcd_data_failed(e, r);
	}
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

static enum dcd_wiping wiping(struct dcd_engine *e)
{
	return dcd_zeroes_now(e, urgent(e));
}

/* The batch that begins where the sweep is; its mark may be older than @now. */
static void take_batch(struct dcd_engine *e, const struct dcd_mark *now)
{
	struct dcd_sweep *s = &e->sweep;

	if (s->ahead) {
		swap(e->batch, e->ahead);
		s->ahead = false;
		s->turn = e->batch->turn;
		s->at = e->batch->from;
		return;
	}
	e->batch->turn = s->turn;
	e->batch->from = s->at;
	e->batch->mark = *now;
	/* Past the log each turn is for what there was at its beginning. */
	if (s->past_log && s->n)
		e->batch->mark = s->marks[0];
	dcd_batch_collect(e, e->batch, e->data.sectors, e->batch->mark.target, wiping(e));
}

/* The next one; round the disk's end, but not to the same ranges again. */
static void look_ahead(struct dcd_engine *e, const struct dcd_mark *now)
{
	struct dcd_sweep *s = &e->sweep;
	struct dcd_batch *a = e->ahead;

	a->turn = s->turn;
	a->from = e->batch->next;
	s->ahead = dcd_batch_collect(e, a, e->data.sectors, now->target, wiping(e));
	if (!s->ahead) {
		a->turn += e->data.sectors;
		a->from = 0;
		s->ahead = dcd_batch_collect(e, a, s->at, now->target, wiping(e));
	}
	a->mark = *now;
	a->mark.way = a->turn + a->from;
}

/* The sweep has gone past something that stays: what comes before that is done all the same. */
static void hold_marks(struct dcd_engine *e, const struct dcd_outcome *o)
{
	struct dcd_sweep *s = &e->sweep;
	u64 first;

	if (o->held && !o->flush && !s->past_log && !test_knob(held_holds_all) &&
	    dcd_sums_first(e, o->held, &first) && first > le64_to_cpu(e->super.applied) &&
	    first <= READ_ONCE(e->committed_entry))
		dcd_sweep_hold(s, o->held, first - 1);
	else
		s->n = 0;
}

static int step(struct dcd_engine *e, const struct dcd_mark *now, unsigned int *failures)
{
	struct dcd_sweep *s = &e->sweep;
	ktime_t began = ktime_get();
	struct dcd_batch *b;
	struct dcd_outcome o;
	bool drop;
	int r;

	dcd_wipes_look(e, now);
	dcd_late_look(e, now, width);
	take_batch(e, now);
	b = e->batch;
	if (!s->past_log || !s->n)
		dcd_sweep_mark(s, &b->mark);
	if (!b->n) {
		s->turn += e->data.sectors;
		s->at = 0;
		e->wipes.no_room = false;
		return 0;
	}
	if (!s->past_log)
		look_ahead(e, now);
	r = dcd_batch_move(e, b, s->ahead ? e->ahead : NULL, width);
	dcd_outcome(e, b, r, began, failures, &o);
	if (o.bad == DCD_UNREAD) {
		e->unread_at = jiffies;
		s->unread = b->mark.way;
	}
	if (o.bad || o.flush)
		hold_marks(e, &o);
	s->at = r || o.again || b->late ? dcd_left_at(b) : b->next;
	if (o.found)
		s->at = dcd_first_missing(b);
	drop = o.again || o.found || s->at != b->next;
	/* What wipes take is foreseen by itself. */
	if (o.moved && !o.bad)
		dcd_turn_learn(&e->turn, b->next - b->from, dcd_loads_of_data(b),
			       max(ktime_us_delta(ktime_get(), ktime_add(began, b->wiping)), 0LL));
	if (b->late || b->unanswered)
		e->batch = dcd_late_keep(e, b);
	if (drop) {	/* from there on, without what is ahead */
		dcd_batch_drop(e, &e->ahead);
		s->ahead = false;
	}
	return r ?: o.flush ?: o.bad;
}

void dcd_settle(struct dcd_engine *e, u64 target, u64 applied, bool log_dead)
{
	u64 first = READ_ONCE(e->tail);

	dcd_reads_hold(e);
	spin_lock(&e->lock);
	if (!WARN_ON_ONCE(log_dead && target < e->committed)) {
		e->tail = target;
		if (log_dead)
			dcd_slots_bypassed(e, target, applied);
		dcd_slots_unpin(e);
	}
	spin_unlock(&e->lock);
	e->wipes.again = 0;
	WRITE_ONCE(e->wipes.logged, 0);
	dcd_sums_drop(e, first, target);
	dcd_slots_kick(e);
	wake_up_all(&e->room);
}

static void set_log_behind(struct dcd_engine *e, bool yes)
{
	spin_lock(&e->lock);
	e->log_behind = yes;
	spin_unlock(&e->lock);
}

/*
 * What the index has now is durable: of a segment that is empty, what was written
 * over it may be the only thing that is left. An NVRAM that keeps its content has
 * it, see entries.c. Not 0: the log has died.
 */
static int make_durable(struct dcd_engine *e)
{
	return e->keeps ? 0 : dcd_commit_all(e);
}

/* Writes that go on past the log wait while it is asked: not often if the last answer took long. */
static void ask_later(struct dcd_engine *e, unsigned long took)
{
	spin_lock(&e->lock);
	if (e->keeps && took > HZ && !test_knob(refusal_hurries))
		e->log_retry = jiffies + min(took * ASKED_IN, ASKED_LATEST);
	spin_unlock(&e->lock);
}

/* The segments below the mark's are empty. */
static int advance(struct dcd_engine *e, const struct dcd_mark *m, bool log_dead)
{
	unsigned long began;
	int r;

	if (log_dead && dcd_is_leaving(e))
		return dcd_leave_passed(e, m);
	/* What was refused may be the only thing that is left of what it was written over. */
	if (e->sweep.untold)
		return -EIO;
	if (dcd_leave_taken_back(e))
		return -EAGAIN;
	if (!log_dead && make_durable(e))
		return 0;
	if (log_dead)
		e->sweep.asking = false;
	if (log_dead && e->keeps) {
		dcd_header_pass(e, m->applied);
		dcd_settle(e, m->target, m->applied, true);
		dcd_count(e, DCD_N_BYPASS_ROUNDS, 1);
	}
	/* All that was acknowledged without NVRAM is in the log. */
	if (log_dead && !e->keeps && !e->after_log)
		dcd_beyond_say(e, m->applied);
	set_log_behind(e, log_dead && !e->keeps);
	if (log_dead && (time_before(jiffies, e->log_retry) || dcd_leaves(e)))
		return e->keeps ? 0 : -EIO;
	began = jiffies;
	r = dcd_super_pass(e, m->target, m->applied, log_dead);
	if (r) {
		dcd_log_failed(e, DCD_SUPERBLOCK, r);
		ask_later(e, jiffies - began);
		return log_dead && !e->keeps ? r : 0;
	}
	set_log_behind(e, false);
	e->mute.is = false;
	dcd_settle(e, m->target, m->applied, log_dead);
	if (log_dead)
		dcd_log_works(e);
	if (e->log_unreadable && m->way > e->sweep.unread) {
		e->log_unreadable = false;
		pr_info("dcd: %s: the log %pg is readable again\n", e->name, e->log.bdev);
	}
	return 0;
}

/*
 * What is logged again while room is short, or past the log, isn't once more, however often a round
 * fails: until one has ended, all of them are for what there was when it was first. Needs @lock.
 */
static void no_further(struct dcd_engine *e, struct dcd_mark *m, bool log_dead)
{
	bool is_short = !log_dead && dcd_has_stuck(e) && !dcd_ring_free(e);
	struct dcd_sweep *s = &e->sweep;

	lockdep_assert_held(&e->lock);
	if (s->short_target <= e->tail || log_dead != s->past_log || dcd_is_leaving(e) ||
	    (log_dead ? s->short_target < e->committed || test_knob(lost_each) : !is_short))
		s->short_target = 0;
	if (is_short && !s->short_target)
		dcd_sweep_bound(s, m);
	if (s->short_target) {
		m->target = s->short_target;
		m->applied = s->short_applied;
	}
}

/* What a mark would be now. True: the log is dead. */
static bool here(struct dcd_engine *e, struct dcd_mark *m, u64 *tail)
{
	bool log_dead = READ_ONCE(e->log_dead);	/* if it is, only the destager changes it */
	struct dcd_sweep *s = &e->sweep;

	/* Nothing more comes in, and what came may be over something of the log. */
	if (log_dead && !e->keeps)
		dcd_publish_all(e);
	m->way = dcd_sweep_way(&e->sweep);
	spin_lock(&e->lock);
	m->target = e->committed;
	m->applied = e->committed_entry;
	if (log_dead && !s->untold)
		dcd_published_segments(e, &m->target, &m->applied);
	no_further(e, m, log_dead);
	*tail = e->tail;
	spin_unlock(&e->lock);
	return log_dead;
}

static bool may_go_on(int error)
{
	return error != -EAGAIN && error != -ENOMEM;
}

/* There is nothing to refuse a write for: there will be room. */
static bool waits(int error)
{
	return error == DCD_LEFT || error == DCD_UNREAD;
}

/* Of two errors of a round: what may change in a moment, or what it is that is waited for. */
static int worse(int first, int r)
{
	if (r == DCD_LEFT && first == DCD_UNREAD)
		return first;
	return r && (!first || waits(first)) ? r : first;
}

/* The superblock is on the log disk: not for a few segments, if there will be more. */
static bool worth_it(const struct dcd_engine *e, const struct dcd_mark *m, u64 tail, u64 target)
{
	return m->target == target || m->target - tail > e->segments / 64;
}

/*
 * Whether a dead log works again is a question of time, not of when the round is over, which may
 * take minutes. A round that is over sooner gets past a place that is bad for good, so that isn't
 * put off, nor held up much: what takes the log long to answer isn't asked again for much longer.
 * Nor is it asked when this is the last chance: it may be away again just after that.
 */
static void ask_log(struct dcd_engine *e, unsigned long *at)
{
	unsigned long began = jiffies, retry = e->log_retry;

	if (time_before(began, *at) || READ_ONCE(e->closing) || test_knob(round_unasked) ||
	    (dcd_last_chance(e) && !test_knob(close_asks)))
		return;
	dcd_log_ask(e);
	spin_lock(&e->lock);
	if (!test_knob(asks_at_once))
		e->log_retry = retry;
	spin_unlock(&e->lock);
	*at = jiffies + DCD_RETRY + (jiffies - began) * ASKED_IN;
}

/*
 * Until nothing is left, or once round if something goes wrong. @m: how far it
 * came. 0 also if the log has died or works again meanwhile: then come again.
 */
static int go_round(struct dcd_engine *e, struct dcd_mark *m)
{
	struct dcd_sweep *s = &e->sweep;
	u64 begin = dcd_sweep_way(s), tail;
	unsigned int failures = 0;
	unsigned long ask_at = jiffies + (test_knob(asks_at_once) ? 0 : DCD_RETRY);
	struct dcd_mark now;
	int r, first = 0;

	while (here(e, &now, &tail) == s->past_log) {
		if (s->past_log) {
			ask_log(e, &ask_at);
			if (!READ_ONCE(e->log_dead))
				break;
		}
		if (!s->past_log && now.target == tail)
			return READ_ONCE(e->data_failing) ? dcd_destage_flush(e) : 0;
		/* A disk that takes long to fail each isn't waited for without end. */
		if (failures >= DCD_FAILURES && dcd_last_chance(e) &&
		    time_before(jiffies, e->ending + LAST_CHANCE))
			failures = 0;
		if (first && (failures >= DCD_FAILURES || now.way >= begin + e->data.sectors ||
			      (s->blind && test_knob(missed_ends))))
			return first;
		if (s->past_log && s->missed >= DCD_FAILURES && !s->blind)
			dcd_sweep_blind(s);
		if (!width(e))
			return -EAGAIN;
		dcd_super_catch_up(e);
		dcd_foresee(e);
		r = step(e, &now, &failures);
		if (!r && !first && !e->round_error && !test_knob(well_at_begin))
			e->data_well = jiffies;
		if (r && !may_go_on(r))
			return r;
		first = worse(first, r);
		if (!dcd_sweep_passed(s, e->data.sectors, m) ||
		    (!s->past_log && !worth_it(e, m, tail, now.target)))
			continue;
		dcd_sweep_drop(s, m);
		if (!s->past_log && m->target <= tail)	/* something has stayed there */
			continue;
		/* What stays is behind it; and there may have been nothing to try the disk with. */
		r = READ_ONCE(e->data_failing) ? dcd_destage_flush(e) : 0;
		if (!r)
			r = advance(e, m, s->past_log);
		if (r || s->past_log)
			return first ?: r;
		spin_lock(&e->lock);
		e->stuck = false;
		spin_unlock(&e->lock);
	}
	return first;
}

/* A round that ended like this may have failed for a moment of the data disk's only. */
static bool ended_by_blip(const struct dcd_engine *e, int error)
{
	return error && may_go_on(error) && !waits(error) && dcd_blip_data(e);
}

/* After so long a round that ended like this one is worth another. */
static unsigned long wait_after(struct dcd_engine *e, int error)
{
	if (ended_by_blip(e, error))
		return AMID_BLIP;
	if (error == DCD_UNREAD && (e->lates.n || urgent(e)))
		return AMID_UNREAD;
	return error == -EAGAIN ? idle_time(e) : error == -ENOMEM ? RETRY_NOMEM : DCD_RETRY;
}

/* The time of the next round counts from here on, for who asks for it during this one. */
static void set_retry(struct dcd_engine *e, int error)
{
	unsigned long after = wait_after(e, error);

	spin_lock(&e->lock);
	e->round_error = error == -EAGAIN || error == DCD_LEFT ? 0 : error;
	e->round_retry = jiffies + (error == DCD_UNREAD ? AMID_UNREAD : after);
	spin_unlock(&e->lock);
}

/*
 * A commit that was under way when the log died has its slot until it ends; no other begins. Each
 * slot that is sealed meanwhile calls for the committer once more (mod_delayed_work()): that takes
 * the one back that is queued, and lets go whoever waits for it, so all of its queue is waited for.
 */
static void end_commit(struct dcd_engine *e)
{
	if (test_knob(commit_hurries))
		flush_work(&e->commit_work.work);
	else
		flush_workqueue(e->commit_wq);
}

static void do_round(struct dcd_engine *e)
{
	struct dcd_sweep *s = &e->sweep;
	struct dcd_mark m;
	u64 tail, target;
	bool log_dead;
	int r;

	if (dcd_left(e))
		return;
	dcd_super_catch_up(e);
	dcd_leave_begin(e);
	dcd_leave_taken_back(e);
	log_dead = READ_ONCE(e->log_dead);
	if (log_dead) {
		end_commit(e);
		dcd_seal_for_round(e);
	}
	s->untold = log_dead && e->after_log && !dcd_is_leaving(e) && dcd_witness_none(e);
	/* By its superblock, just now: a commit may be under way. */
	if (here(e, &m, &tail) != log_dead) {
		dcd_destage_ask(e);
		return;
	}
	if (s->past_log != log_dead) {
		s->n = 0;
		s->asking = false;
	}
	WRITE_ONCE(s->past_log, log_dead);
	if ((m.target == tail && !log_dead) || READ_ONCE(e->closing)) {
		if (READ_ONCE(e->leaving))
			queue_delayed_work(e->destage_wq, &e->destage_work, LEAVING);
		return;
	}
	if (!urgent(e) && !idle(e)) {
		queue_delayed_work(e->destage_wq, &e->destage_work, idle_time(e));
		return;
	}
	dcd_count(e, DCD_N_ROUNDS, 1);
	if (!e->round_error)
		e->data_well = jiffies;
	set_retry(e, e->round_error);
	s->missed = 0;
	target = m.target;
	r = go_round(e, &m);
	if (!e->round_error && !test_knob(stall_fails))
		e->data_well = jiffies;	/* what hung before it was refused is no refusal */
	dcd_sweep_see(s, e->data.sectors);
	dcd_foresee_nothing(e);
	dcd_batch_drop(e, &e->ahead);
	s->ahead = false;
	if (r && dcd_is_leaving(e)) {
		dcd_leave_failed(e);
	} else if (r && READ_ONCE(e->log_dead)) {
		if (!test_knob(asks_beside))	/* it may have died in this round */
			end_commit(e);
		/* Else one bad place keeps it dead for ever. */
		dcd_log_ask_failed(e, may_go_on(r) && !waits(r) && !dcd_blip_data(e));
	}
	trace_dcd_round(e, m.target, m.applied, log_dead, r);
	if (r == -EAGAIN)
		dcd_count(e, DCD_N_PREEMPTED, 1);
	if (r == -ENOMEM)
		dcd_count(e, DCD_N_NOMEM, 1);
	set_retry(e, r);
	spin_lock(&e->lock);
	e->stuck = r && may_go_on(r) && !waits(r) && !dcd_blip_data(e);
	log_dead = e->log_dead;
	spin_unlock(&e->lock);
	wake_up_all(&e->room);
	if (!r || (r != -EAGAIN && (!ended_by_blip(e, r) || test_knob(blip_leaves))))
		dcd_leave_tried(e, target, r);
	if (READ_ONCE(e->leaving) && (!r || r == -EAGAIN || !log_dead))
		queue_delayed_work(e->destage_wq, &e->destage_work, LEAVING);
	else if (r || (log_dead && s->past_log))
		queue_delayed_work(e->destage_wq, &e->destage_work, wait_after(e, r));
	else
		dcd_destage_kick(e);
}

void dcd_destage_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine,
					    destage_work);
	u64 called;

	spin_lock(&e->lock);
	called = e->sweep.called;
	spin_unlock(&e->lock);
	do_round(e);
	spin_lock(&e->lock);
	e->sweep.answered = called;
	spin_unlock(&e->lock);
	wake_up_all(&e->room);
}
