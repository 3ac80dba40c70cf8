// SPDX-License-Identifier: GPL-2.0-only
#include <linux/delay.h>
#include <linux/module.h>

#include "batch.h"
#include "beyond.h"
#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"
#include "outcome.h"

#define ASKED_FOR	(30 * HZ)	/* all in all, what can't be read at first */
#define LISTED		64		/* ranges in the kernel's log; the rest is a number */
#define RETRY_NOMEM	(HZ / 50)
#define LITTLE		4		/* segments */
#define UNREAD		HZ	/* what the log hasn't given for so long is passed over */
#define TRIES		8		/* to have so little */
#define UNWIPED		(10 * HZ)	/* without a wipe zeroes aren't waited for any more */

TEST_KNOB(bool, leave_once, "what came while the dead log was emptied is left to its end");
TEST_KNOB(bool, leave_bursts, "writes come at any speed in the last rounds past a log that is left");
TEST_KNOB(bool, leave_zeroes, "zeroes in a log that is left are wiped when nothing goes there any more");
TEST_KNOB(bool, leave_open, "a slot that nobody fills is waited for before a log is left");
TEST_KNOB(bool, leave_late, "a data disk that is late, or fails, is a reason to leave the log at once");
TEST_KNOB(bool, leave_dead, "a dead log is left at once, however much it has, and whatever comes");
TEST_KNOB(bool, leave_anyway, "a log that works is left, too");
TEST_KNOB(bool, no_marks, "the log and the NVRAM that are left aren't marked");
TEST_KNOB(bool, leave_hasty, "what the log that is left doesn't give just now is lost");
TEST_KNOB(bool, leave_forgets, "what was found to be lost is asked for again in the next round");
TEST_KNOB(bool, leave_stays, "a close waits for what the log that is to be left may give");
TEST_KNOB(bool, leave_endless, "each place that can't be read is asked for twice, however many they are");
TEST_KNOB(bool, leave_each, "each place of a log that gives nothing is waited for by itself");
TEST_KNOB(bool, left_is_fine, "what the log that is left can't give is no medium error");

bool dcd_leave_holds(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->leaving >= (e->keeps ? DCD_LEAVE_LAST : DCD_LEAVE_ASKED);
}

bool dcd_is_leaving(const struct dcd_engine *e)
{
	enum dcd_leaving now = READ_ONCE(e->leaving);

	return now == DCD_LEAVE_BEGUN || now == DCD_LEAVE_LAST;
}

bool dcd_left(const struct dcd_engine *e)
{
	return READ_ONCE(e->leaving) == DCD_LEAVE_LEFT;
}
EXPORT_SYMBOL_GPL(dcd_left);

bool dcd_leaves(const struct dcd_engine *e)
{
	return READ_ONCE(e->leaving) != DCD_LEAVE_NOT;
}
EXPORT_SYMBOL_GPL(dcd_leaves);

const char *dcd_leave_text(const struct dcd_engine *e)
{
	enum dcd_leaving now = READ_ONCE(e->leaving);

	return now == DCD_LEAVE_LEFT ? "LEFT" : now ? "LEAVING" : NULL;
}

/* The segments below it are full; what is open may stay so until LAST, if nobody writes. */
static u64 full(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->open && !test_knob(leave_open) ? e->open->segment : e->head;
}

/* If it is in one of two states. True: it is in the other now. */
static bool go(struct dcd_engine *e, enum dcd_leaving from, enum dcd_leaving to)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->leaving == from;
	if (yes)
		WRITE_ONCE(e->leaving, to);
	if (yes && to == DCD_LEAVE_ASKED) {
		e->leave_at = full(e);
		e->leave_past = 0;
		e->leave_whole = jiffies;
		e->leave_left = e->head - e->tail;
		e->leave_tries = 0;
		e->log_dead = true;	/* or nobody has noticed yet that it doesn't answer */
		e->wipes.all_at = jiffies;
	}
	if (yes && to == DCD_LEAVE_BEGUN)
		e->stuck = false;
	spin_unlock(&e->lock);
	if (yes)
		trace_dcd_leave(e, to);
	return yes;
}

int dcd_leave(struct dcd_engine *e)
{
	int works = READ_ONCE(e->leaving) == DCD_LEAVE_NOT ? dcd_log_answers(e) : 0;

	if (works < 0)
		return works;
	if (works && !test_knob(leave_anyway)) {
		pr_err("dcd: %s: the log %pg works, and only a dead one can be left while the LUN is in use: disable the LUN, then `dcd retire`\n",
		       e->name, e->log.bdev);
		return -EBUSY;
	}
	if (go(e, DCD_LEAVE_NOT, DCD_LEAVE_ASKED))
		pr_info("dcd: %s: the log %pg is to be left: everything goes to the data disk %pg\n",
			e->name, e->log.bdev, e->data.bdev);
	dcd_destage_ask(e);
	wake_up_all(&e->room);
	return 0;
}
EXPORT_SYMBOL_GPL(dcd_leave);

void dcd_leave_not(struct dcd_engine *e)
{
	if (go(e, DCD_LEAVE_ASKED, DCD_LEAVE_NOT) || go(e, DCD_LEAVE_BEGUN, DCD_LEAVE_NOT))
		pr_info("dcd: %s: the log %pg isn't left\n", e->name, e->log.bdev);
	else if (READ_ONCE(e->leaving))
		pr_warn("dcd: %s: the log %pg is left, for good\n", e->name, e->log.bdev);
	wake_up_all(&e->room);
}
EXPORT_SYMBOL_GPL(dcd_leave_not);

/*
 * The log alone can say that it was left. What was acknowledged is in memory, or it has that; but
 * what was refused goes to the data disk, too, from now on (witness.c).
 */
static bool log_can_tell(struct dcd_engine *e)
{
	int r = e->after_log ? dcd_witness_none(e) :
			       dcd_super_write(e, le64_to_cpu(e->super.tail),
					       le64_to_cpu(e->super.applied));

	if (!r)
		return true;
	dcd_log_failed(e, DCD_SUPERBLOCK, r);
	if (go(e, DCD_LEAVE_ASKED, DCD_LEAVE_NOT))
		pr_err("dcd: %s: the log %pg takes no writes: error %d; without an NVRAM that keeps its content nothing could tell a later start that it was left, so it isn't: disable the LUN, then `dcd recover`\n",
		       e->name, e->log.bdev, r);
	wake_up_all(&e->room);
	return false;
}

bool dcd_leave_asked(const struct dcd_engine *e)
{
	return READ_ONCE(e->leaving) == DCD_LEAVE_ASKED;
}

bool dcd_leave_paces(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->leaving == DCD_LEAVE_ASKED ||
	       (e->leaving == DCD_LEAVE_BEGUN && !test_knob(leave_bursts));
}

u64 dcd_leave_left(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->head - max(e->tail, e->leave_past);
}

/*
 * Nothing but another kind of round gets writes on. Where NVRAM keeps what comes there is no hurry:
 * each round past the log frees slots, which those of a leave don't.
 */
static bool hurries(const struct dcd_engine *e)
{
	return !e->keeps || test_knob(leave_dead);
}

/*
 * The last rounds wipe all zeroes, and hold writes up: so that is done before, as long as it goes
 * on at all. What is logged again meanwhile is passed in another turn.
 */
static bool zeroes_go(struct dcd_engine *e)
{
	struct dcd_wipes *w = &e->wipes;

	if (!READ_ONCE(e->zeroes) || test_knob(leave_zeroes))
		return false;
	if (w->all != w->all_then)
		w->all_at = jiffies;
	w->all_then = w->all;
	return time_before(jiffies, w->all_at + UNWIPED);
}

/*
 * What there was when it was asked for is on the data disk. What has come meanwhile holds writes up
 * from now on, as no slot is free before all of it is done: so that is next, until it is little, or
 * doesn't get less however often.
 */
static bool is_empty_enough(struct dcd_engine *e)
{
	u64 left = dcd_leave_left(e);
	bool less = left < e->leave_left - e->leave_left / 8;

	if (e->head - left < e->leave_at)
		return false;
	if (!zeroes_go(e)) {
		e->leave_tries = less ? 0 : e->leave_tries + 1;
		e->leave_left = min(left, e->leave_left);
		if (left <= LITTLE || e->leave_tries > TRIES || test_knob(leave_once))
			return true;
	}
	e->leave_at = full(e);
	return false;
}

bool dcd_leave_due(struct dcd_engine *e)
{
	bool due;

	if (READ_ONCE(e->leaving) != DCD_LEAVE_ASKED)
		return false;
	spin_lock(&e->lock);
	due = e->leaving == DCD_LEAVE_ASKED &&
	      (hurries(e) || e->sweep.tried || is_empty_enough(e));
	spin_unlock(&e->lock);
	return due;
}

/* Does a round wait for the data disk, which is late or fails? The next one would, too. */
static bool waits_for_data(const struct dcd_engine *e, int error)
{
	if (test_knob(leave_late))
		return false;
	return error == DCD_LEFT ? dcd_stuck_any(e) : READ_ONCE(e->data_failing);
}

void dcd_leave_tried(struct dcd_engine *e, u64 target, int error)
{
	if (error == DCD_UNREAD) {
		spin_lock(&e->lock);
		if (time_after(jiffies, e->leave_whole + UNREAD) || test_knob(leave_hasty))
			e->leave_past = target;
		spin_unlock(&e->lock);
		return;
	}
	e->leave_whole = jiffies;
	e->sweep.tried = error && READ_ONCE(e->leaving) == DCD_LEAVE_ASKED &&
			 !waits_for_data(e, error);
}

void dcd_leave_begin(struct dcd_engine *e)
{
	if (!dcd_leave_due(e))
		return;
	e->sweep.tried = false;
	if (!e->keeps && !log_can_tell(e))
		return;
	if (!go(e, DCD_LEAVE_ASKED, DCD_LEAVE_BEGUN))
		return;
	e->sweep.n = 0;
	e->sweep.asking = false;
	e->mute.is = false;
	xa_destroy(&e->leave_lost);	/* of one that was taken back */
}

/*
 * It has failed for no longer than a log may be away. Where all of the log gives nothing that is as
 * long for all of its places, however many they are.
 */
static bool may_come(struct dcd_engine *e, const struct dcd_load *l)
{
	bool young = dcd_lost_young(e, l->whole.at);

	if (test_knob(leave_hasty))
		return false;
	if (test_knob(leave_each) && young)
		return true;
	switch (dcd_lost_away(e)) {
	case DCD_AWAY:
		return true;
	case DCD_AWAY_LONG:
		return false;
	default:
		return young;
	}
}

/* All of its places together have had the time that each has: more of them than fit into that. */
static bool is_over(struct dcd_engine *e)
{
	struct dcd_sweep *s = &e->sweep;

	if (!s->asking) {
		s->asking = true;
		s->asked = jiffies;
	}
	return time_after(jiffies, s->asked + ASKED_FOR) && !test_knob(leave_endless);
}

bool dcd_leave_unread(struct dcd_engine *e, struct dcd_load *l)
{
	bool over, gone;

	if (!dcd_is_leaving(e) || l->error == -ENOMEM)
		return false;
	/* It stays in the log, for the next start, if NVRAM keeps what is newer. */
	if (READ_ONCE(e->ending) && e->keeps && !test_knob(leave_stays)) {
		dcd_lost_wait(l);
		return true;
	}
	over = is_over(e);
	gone = (over && dcd_lost_away(e) != DCD_AWAY_NOT) || dcd_lost_gone(e, l, over);
	if (!gone) {
		if (dcd_lost_doubtful(e, l->whole.at))
			return false;
		dcd_lost_wait(l);	/* for the next round, which reads it */
		return true;
	}
	if (!over && may_come(e, l)) {
		dcd_lost_wait(l);
		return true;
	}
	l->lost = true;
	l->unread = false;
	l->buf = NULL;
	l->error = 0;
	dcd_leave_skip(e, l);
	/* Without memory it is asked for again. */
	if (!test_knob(leave_forgets))
		xa_store(&e->leave_lost, l->place.at, xa_mk_value(1), GFP_NOIO);
	return true;
}

bool dcd_leave_lost(struct dcd_engine *e, struct dcd_load *l)
{
	if (!dcd_is_leaving(e) || !xa_load(&e->leave_lost, l->place.at))
		return false;
	l->lost = true;
	dcd_leave_skip(e, l);
	return true;
}

void dcd_leave_skip(struct dcd_engine *e, struct dcd_load *l)
{
	l->kind = DCD_LOAD_LEFT;
	e->sweep.skipped = true;
}

bool dcd_leave_taken_back(struct dcd_engine *e)
{
	struct dcd_sweep *s = &e->sweep;

	if (!s->skipped || dcd_is_leaving(e))
		return false;
	s->skipped = false;
	s->n = 0;
	return true;
}

/*
 * Durable, in each copy: nobody opens the two any more, and nothing in them counts, for whoever
 * retires them once more.
 */
static int mark(struct dcd_engine *e, const struct dcd_mark *m, bool lacks)
{
	__le32 bits = cpu_to_le32(DCD_INCOMPAT_RETIRED | (lacks ? DCD_INCOMPAT_LACKS : 0));
	__le32 was = e->super.features.incompat;
	int r;

	if (test_knob(no_marks))
		return 0;
	if (e->keeps) {
		e->header.features.incompat |= bits;
		dcd_header_write(e, m->applied);
		dcd_header_write(e, m->applied);
	}
	e->super.features.incompat |= bits;
	r = dcd_super_write(e, m->target, m->applied) ?: dcd_super_write(e, m->target, m->applied);
	if (!r)
		return 0;
	if (e->keeps) {
		pr_warn("dcd: %s: the log %pg can't be told that it was left: error %d; the NVRAM %s says so: keep or format that\n",
			e->name, e->log.bdev, r, e->nv->type->name);
		return 0;
	}
	/* What is written next is newer than what was tried. */
	e->super.features.incompat = was;
	dcd_log_failed(e, DCD_SUPERBLOCK, r);
	return r;
}

/* All that is in the index yet, one after the other: what nobody can give. */
static bool next_unread(struct dcd_engine *e, sector_t from, struct dcd_place *p)
{
	while (dcd_index_next(e, from, p)) {
		if (!p->lost)
			return true;
		from = p->last + 1;
	}
	return false;
}

static void all_lost(struct dcd_engine *e)
{
	sector_t from = 0;
	struct dcd_place p;
	int r = 0;

	while (!READ_ONCE(e->closing) && next_unread(e, from, &p)) {
		u64 segment = dcd_segment_of(e, &p);

		if (!r) {
			dcd_count(e, DCD_N_LOST_PLACES, 1);
			trace_dcd_lost(e, &p, segment, -EIO);
		}
		mutex_lock(&e->intake);
		r = test_knob(left_is_fine) ? dcd_index_erase(e, p.sector, p.last) :
		    dcd_index_insert(e, p.sector, dcd_place_sectors(&p), DCD_ENTRY_LOST, segment);
		mutex_unlock(&e->intake);
		if (r)
			schedule_timeout_uninterruptible(RETRY_NOMEM);
		else
			from = p.last + 1;
	}
}

static void list_lost(struct dcd_engine *e)
{
	unsigned int n = 0;
	struct dcd_place p, next;
	sector_t from = 0;

	for (; dcd_index_next(e, from, &p); from = p.last + 1) {
		while (dcd_index_next(e, p.last + 1, &next) && next.sector == p.last + 1)
			p.last = next.last;
		if (n++ < LISTED)
			pr_err("dcd: %s: LOST: %llu sectors from %llu on were only in the log that was left: they are medium errors until they are written again or the LUN is disabled, the data disk has older data there\n",
			       e->name, (u64)(p.last - p.sector + 1), (u64)p.sector);
	}
	if (n > LISTED)
		pr_err("dcd: %s: LOST: %u more ranges: %lu sectors in all\n", e->name, n - LISTED,
		       (unsigned long)READ_ONCE(e->lost.sectors));
}

static int finish(struct dcd_engine *e, const struct dcd_mark *m)
{
	struct dcd_place p;
	int r = mark(e, m, dcd_index_next(e, 0, &p));

	if (r) {
		pr_err("dcd: %s: the log %pg can't be told that it is left: error %d; trying again\n",
		       e->name, e->log.bdev, r);
		/* But nobody may believe it, should there be a crash and it works again. */
		if (!e->after_log && !dcd_index_next(e, 0, &p))
			dcd_beyond_say(e, m->applied);
		return r;
	}
	all_lost(e);
	dcd_settle(e, m->target, m->applied, true);
	spin_lock(&e->lock);
	WRITE_ONCE(e->leaving, DCD_LEAVE_LEFT);
	e->next_intake = 0;
	e->log_behind = false;
	spin_unlock(&e->lock);
	trace_dcd_leave(e, DCD_LEAVE_LEFT);
	list_lost(e);
	pr_warn("dcd: %s: the log %pg is left for good, and never used again: every write goes through to the data disk %pg before it is acknowledged; %llu sectors are LOST\n",
		e->name, e->log.bdev, e->data.bdev, READ_ONCE(e->lost.sectors));
	wake_up_all(&e->room);
	return 0;
}

int dcd_leave_passed(struct dcd_engine *e, const struct dcd_mark *m)
{
	bool all;

	if (go(e, DCD_LEAVE_BEGUN, DCD_LEAVE_LAST)) {
		e->sweep.from = m->target;	/* below it is only what can't be read */
		dcd_publish_all(e);
	} else if (READ_ONCE(e->leaving) == DCD_LEAVE_LAST) {
		spin_lock(&e->lock);
		all = m->target == e->head && e->published == e->next_entry;
		spin_unlock(&e->lock);
		if (all)
			return finish(e, m);
	}
	e->sweep.n = 0;
	dcd_destage_ask(e);
	return 0;
}

void dcd_leave_failed(struct dcd_engine *e)
{
	e->sweep.from = 0;
	e->sweep.n = 0;
	go(e, DCD_LEAVE_LAST, DCD_LEAVE_BEGUN);
	wake_up_all(&e->room);
}
