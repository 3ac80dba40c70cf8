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
#define LITTLE		4		/* segments: the rest is done without the log */
#define LITTLE_PIECES	8U		/* likewise of zeroes, with so many sectors */
#define LITTLE_SECTORS	((8ULL << 20) >> SECTOR_SHIFT)
#define TURNS		64		/* without a wipe: zeroes aren't waited for any more */
#define ASKED		4	/* places of the data disk, until one answers */
#define TRIES		8		/* to have less than ever, before that, too */

TEST_KNOB(bool, leave_all_at_once, "what came while the log that is left was emptied is left to its end");
TEST_KNOB(bool, leave_zeroes, "zeroes in a log that is left are wiped when nothing goes there any more");
TEST_KNOB(bool, leave_never, "a log isn't left while any zeroes are in it");
TEST_KNOB(bool, leave_late, "a data disk that is late, or fails, is a reason to leave the log at once");
TEST_KNOB(bool, leave_dead, "a dead log is left at once, however much it has, and whatever comes");
TEST_KNOB(bool, leave_anyway, "a log that is away for a moment is left at once");
TEST_KNOB(bool, leave_waits, "the destager waits for what it asks the data disk before the log is left");
TEST_KNOB(bool, leave_unasked, "an empty log is left though the data disk is away");
TEST_KNOB(bool, leave_stuck, "the log is left though the data disk doesn't take all, or hangs");
TEST_KNOB(bool, no_marks, "the log and the NVRAM that are left aren't marked");
TEST_KNOB(bool, leave_hasty, "what the log that is left doesn't give just now is lost");
TEST_KNOB(bool, leave_quiet, "nobody is told that the log is dead, as it is left");
TEST_KNOB(bool, leave_each, "each place of a log that gives nothing is waited for by itself");
TEST_KNOB(bool, left_is_fine, "what the log that is left can't give is no medium error");

bool dcd_leave_holds(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->leaving >= DCD_LEAVE_LAST || (e->leaving >= DCD_LEAVE_ENDS && !e->keeps);
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

/* If it is in one of two states. True: it is in the other now. */
static bool go(struct dcd_engine *e, enum dcd_leaving from, enum dcd_leaving to)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->leaving == from;
	if (yes)
		WRITE_ONCE(e->leaving, to);
	if (yes && to == DCD_LEAVE_ASKED) {
		e->leave_at = e->head;
		e->leave_past = 0;
		e->leave_left = e->head - e->tail;
		e->leave_tries = 0;
		e->leave_ask.due = false;
		e->leave_fails = false;
		e->leave_failing = jiffies;
		e->wipes.turns = 0;
		e->wipes.let_in = 0;
	}
	spin_unlock(&e->lock);
	if (yes)
		trace_dcd_leave(e, to);
	return yes;
}

/* A log that nobody has used lately may be dead, and nobody knows it: so it is asked. */
static bool log_works(struct dcd_engine *e)
{
	void *buf = kvmalloc(DCD_BLOCK, GFP_KERNEL);
	bool works = false;
	int i;

	for (i = 0; buf && i < 2 && !works && !READ_ONCE(e->log_dead); i++)
		works = !dcd_aside_read(e, i * (DCD_BLOCK >> SECTOR_SHIFT), buf, DCD_BLOCK,
					DCD_LATE);
	kvfree(buf);
	return works;
}

void dcd_leave(struct dcd_engine *e, bool yes)
{
	if (yes && READ_ONCE(e->leaving) == DCD_LEAVE_NOT)
		e->leave_dead = !log_works(e);
	if (yes && go(e, DCD_LEAVE_NOT, DCD_LEAVE_ASKED))
		pr_info("dcd: %s: the log %pg is to be left: everything goes to the data disk %pg\n",
			e->name, e->log.bdev, e->data.bdev);
	else if (!yes && (go(e, DCD_LEAVE_ASKED, DCD_LEAVE_NOT) ||
			  go(e, DCD_LEAVE_ENDS, DCD_LEAVE_NOT) ||
			  go(e, DCD_LEAVE_BEGUN, DCD_LEAVE_NOT)))
		pr_info("dcd: %s: the log %pg isn't left\n", e->name, e->log.bdev);
	else if (!yes && READ_ONCE(e->leaving))
		pr_warn("dcd: %s: the log %pg is left, for good\n", e->name, e->log.bdev);
	if (yes)
		dcd_destage_ask(e);
	wake_up_all(&e->room);
}
EXPORT_SYMBOL_GPL(dcd_leave);

/* The log alone can say that it was left. It has all that was acknowledged, if it works. */
static bool log_can_tell(struct dcd_engine *e)
{
	int r;

	dcd_publish_all(e);
	r = READ_ONCE(e->log_dead) ? 0 : dcd_commit_all(e);
	/* If it died by that, what it lacks is in memory yet. */
	r = dcd_super_write(e, le64_to_cpu(e->super.tail), le64_to_cpu(e->super.applied));
	if (!r)
		return true;
	dcd_log_failed(e, DCD_SUPERBLOCK, r);
	if (go(e, DCD_LEAVE_ENDS, DCD_LEAVE_NOT))
		pr_err("dcd: %s: the log %pg takes no writes: error %d; without an NVRAM that keeps its content nothing could tell a later start that it was left, so it isn't: disable the LUN, then `dcd recover`\n",
		       e->name, e->log.bdev, r);
	wake_up_all(&e->room);
	return false;
}

bool dcd_leave_paces(const struct dcd_engine *e)
{
	return READ_ONCE(e->leaving) == DCD_LEAVE_ASKED && !test_knob(leave_all_at_once);
}

bool dcd_leave_uses_log(const struct dcd_engine *e)
{
	enum dcd_leaving now = READ_ONCE(e->leaving);

	return now == DCD_LEAVE_NOT ||
	       (now == DCD_LEAVE_ASKED && !READ_ONCE(e->leave_dead) && !test_knob(leave_anyway));
}

u64 dcd_leave_left(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->head - max(e->tail, e->leave_past);
}

/*
 * It is dead, and nothing but another kind of round gets writes on. Where NVRAM keeps what comes
 * there is no hurry past a dead log either: each round frees slots, which those of a leave don't.
 */
static bool hurries(const struct dcd_engine *e)
{
	return e->log_dead && (!e->keeps || test_knob(leave_dead));
}

/*
 * Once the log is left all zeroes are wiped in one round, which holds writes up: so that is done
 * before, but for what takes no time, as long as it goes on at all. What is logged again meanwhile
 * is passed in another turn.
 */
static bool zeroes_go(struct dcd_engine *e)
{
	struct dcd_wipes *w = &e->wipes;
	bool little = READ_ONCE(e->zeroes) <= LITTLE_PIECES &&
		      READ_ONCE(e->zero_sectors) <= LITTLE_SECTORS;

	if (!READ_ONCE(e->zeroes) || (little && !test_knob(leave_never)) ||
	    test_knob(leave_zeroes))
		return false;
	w->turns = w->all == w->all_then ? w->turns + 1 : 0;
	w->all_then = w->all;
	return w->turns < TURNS;
}

/*
 * There is what the data disk doesn't take, or hasn't answered. It is logged again, and the log has
 * room for it; past the log no round could end, and all writes would wait for that. Zeroes that it
 * doesn't wipe, but takes as writes, are no such thing: past the log they are written.
 */
static bool is_stuck(const struct dcd_engine *e)
{
	return dcd_stuck_any(e) && !test_knob(leave_stuck);
}

/*
 * What the log had is on the data disk, and less has come meanwhile, as writes are paced: so that
 * is next, until it is little, or doesn't get less however often. What is left then holds writes
 * up, as no slot of NVRAM is free before all of it is done. Needs @lock.
 */
static bool is_empty_enough(struct dcd_engine *e)
{
	u64 left = dcd_leave_left(e);

	if (e->head - left < e->leave_at)
		return false;
	if (is_stuck(e) || zeroes_go(e)) {
		e->leave_at = e->head;
		return false;
	}
	if (left < e->leave_left - e->leave_left / 8) {
		e->leave_left = left;
		e->leave_tries = 0;
	}
	if (left <= LITTLE || ++e->leave_tries > TRIES || test_knob(leave_all_at_once))
		return true;
	e->leave_at = e->head;
	return false;
}

static int ask(struct dcd_engine *e)
{
	u64 step = round_down(div_u64(e->data.sectors, ASKED), DCD_BLOCK >> SECTOR_SHIFT);
	void *buf = kvmalloc(DCD_BLOCK, GFP_NOIO);
	int i, r = -ENOMEM;

	for (i = 0; buf && r && i < ASKED; i++)
		r = dcd_disk_io(&e->data, REQ_OP_READ, i * step, buf, DCD_BLOCK);
	kvfree(buf);
	return r;
}

static void ask_work(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, leave_ask.work);
	struct dcd_leave_ask *a = &e->leave_ask;
	int r = ask(e);

	spin_lock(&e->lock);
	a->under_way = false;
	if (!r)
		a->heard = jiffies;
	a->next = jiffies + DCD_LOOK;
	if (!r && !e->closing)
		mod_delayed_work(e->destage_wq, &e->destage_work, 0);
	wake_up_all(&e->quiet);
	spin_unlock(&e->lock);	/* the engine may be gone from here on */
}

void dcd_leave_init(struct dcd_engine *e)
{
	INIT_WORK(&e->leave_ask.work, ask_work);
	e->leave_ask.heard = jiffies - HZ;	/* it hasn't yet */
	e->leave_ask.next = jiffies;
}

bool dcd_leave_asks(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->leave_ask.under_way;
	spin_unlock(&e->lock);
	return yes;
}

/* Is the data disk there? What it has taken says so, or it is asked, and isn't waited for. */
static bool answers(struct dcd_engine *e)
{
	struct dcd_leave_ask *a = &e->leave_ask;
	bool yes, asks;

	if (test_knob(leave_waits))
		return dcd_stuck_others(e, 0);
	spin_lock(&e->lock);
	if (!a->due)
		a->since = jiffies;
	a->due = true;
	yes = time_after(e->bad.moved, a->since) || time_after_eq(a->heard, a->since);
	asks = !yes && !a->under_way && !e->closing && time_after_eq(jiffies, a->next);
	a->under_way |= asks;
	spin_unlock(&e->lock);
	if (asks)
		queue_work(e->aside_wq, &a->work);
	return yes;
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
	/* Not while the data disk is away, which a log that is empty doesn't tell. */
	return due && (READ_ONCE(e->log_dead) || answers(e) || test_knob(leave_unasked));
}

/* Does a round wait for the data disk, which is late or fails? Past the log it would, too. */
static bool waits_for_data(const struct dcd_engine *e, int error)
{
	if (test_knob(leave_late))
		return false;
	return error == DCD_LEFT ? is_stuck(e) : READ_ONCE(e->data_failing);
}

/*
 * A log that worked when it was asked may be away, and come back, and NVRAM has room meanwhile. Or
 * it has failed for as long as one that is left is asked.
 */
static bool may_come_back(const struct dcd_engine *e)
{
	return e->keeps && !e->leave_dead && !test_knob(leave_anyway) &&
	       time_before(jiffies, e->leave_failing + ASKED_FOR);
}

void dcd_leave_tried(struct dcd_engine *e, u64 target, int error)
{
	if (!error || !e->leave_fails)
		e->leave_failing = jiffies;
	e->leave_fails = error;
	if (error == DCD_UNREAD) {
		spin_lock(&e->lock);
		e->leave_past = may_come_back(e) ? 0 : target;
		spin_unlock(&e->lock);
		return;
	}
	e->sweep.tried = error && READ_ONCE(e->leaving) == DCD_LEAVE_ASKED &&
			 !waits_for_data(e, error) && !may_come_back(e);
}

void dcd_leave_begin(struct dcd_engine *e)
{
	if (!dcd_leave_due(e))
		return;
	e->sweep.tried = false;
	if (!go(e, DCD_LEAVE_ASKED, DCD_LEAVE_ENDS) || (!e->keeps && !log_can_tell(e)))
		return;
	spin_lock(&e->lock);
	if (e->leaving == DCD_LEAVE_ENDS) {
		WRITE_ONCE(e->leaving, DCD_LEAVE_BEGUN);
		e->log_dead = true;	/* nothing goes there any more, and past it all does */
		e->stuck = false;
	}
	spin_unlock(&e->lock);
	if (!test_knob(leave_quiet))
		wake_up_all(&e->room);	/* a commit may wait there, and this round waits for it */
	e->sweep.n = 0;
	e->sweep.asking = false;
	e->mute.is = false;
	trace_dcd_leave(e, READ_ONCE(e->leaving));
}

/*
 * It has failed for no longer than a log may be away. Where all of the log gives nothing that is as
 * long for all of its places, however many they are, and longer if it may come back.
 */
static bool may_come(struct dcd_engine *e, const struct dcd_load *l)
{
	struct dcd_sweep *s = &e->sweep;
	bool young;

	if (test_knob(leave_hasty))
		return false;
	if (!s->asking) {
		s->asking = true;
		s->asked = jiffies;
	}
	young = time_before(jiffies, s->asked + ASKED_FOR) && dcd_lost_young(e, l->whole.at);
	if (test_knob(leave_each) && young)
		return true;
	switch (dcd_lost_away(e)) {
	case DCD_AWAY:
		return true;
	case DCD_AWAY_LONG:
		return may_come_back(e);
	default:
		return young;
	}
}

bool dcd_leave_unread(struct dcd_engine *e, struct dcd_load *l)
{
	if (!dcd_is_leaving(e) || l->error == -ENOMEM)
		return false;
	if (!dcd_lost_gone(e, l)) {
		if (dcd_lost_doubtful(e, l->whole.at))
			return false;
		dcd_lost_wait(l);	/* for the next round, which reads it */
		return true;
	}
	if (may_come(e, l)) {
		dcd_lost_wait(l);
		return true;
	}
	l->lost = true;
	l->unread = false;
	l->buf = NULL;
	l->error = 0;
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
