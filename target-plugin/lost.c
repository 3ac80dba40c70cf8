// SPDX-License-Identifier: GPL-2.0-only
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "batch.h"
#include "dcd-trace.h"
#include "lockstep-test.h"

#define OF_RING		16		/* no more than such a part of it is given up */
#define DUE		8		/* no more than such a part is free: in the next round, */
#define LEAST		(4 * HZ)	/* which is so long after it was found, at least; */
#define PATIENCE	(30 * HZ)	/* else after as long */
#define TRIES		6U		/* before it is given up, */
#define OTHERS		4U		/* and by each of them others, so often */

TEST_KNOB(bool, lost_restless, "what couldn't be read is read again in every round");
TEST_KNOB(bool, lost_stays, "a damaged place of the log holds its tail, and its next start");
TEST_KNOB(bool, lost_at_once, "what can't be read is given up as soon as half of the ring is used");
TEST_KNOB(bool, rests_closed, "at the close what couldn't be read just before isn't read");
TEST_KNOB(bool, others_fail, "what can't be read is given up though others often can't be read either");
TEST_KNOB(bool, gave_once, "what a batch has of the log's is given up though the log has gone since");
TEST_KNOB(bool, asks_each, "for each place that can't be read the log is asked for its superblock");
TEST_KNOB(bool, found_rests, "what could be read at last isn't read before its time, all the same");
TEST_KNOB(bool, lost_in_log, "past a dead log nothing says what is lost, so nothing gets past it");
TEST_KNOB(bool, lost_past_log, "past a dead log nothing that can't be read is waited for");

bool dcd_lost_stays(void)
{
	return test_knob(lost_stays);
}

int dcd_lost_init(struct dcd_engine *e)
{
	e->lost.doubts = kvcalloc(DCD_LOST_RANGES, sizeof(*e->lost.doubts), GFP_KERNEL);
	return e->lost.doubts ? 0 : -ENOMEM;
}

void dcd_lost_free(struct dcd_engine *e)
{
	kvfree(e->lost.doubts);
}

/* One that wasn't seen for a while is another one. */
static struct dcd_doubt *doubt_of(struct dcd_engine *e, u64 at)
{
	struct dcd_doubt *d, *found = NULL, *other = e->lost.doubts;

	e->lost.any = true;
	e->lost.seen = jiffies;
	for (d = e->lost.doubts; d < e->lost.doubts + DCD_LOST_RANGES && !found; d++) {
		if (d->used && d->at == at && time_before(jiffies, d->seen + PATIENCE))
			found = d;
		if (other->used && (!d->used || time_before(d->seen, other->seen)))
			other = d;
	}
	if (!found) {
		found = other;
		found->used = true;
		found->at = at;
		found->failed = 0;
		found->since = jiffies;
	}
	found->seen = jiffies;
	return found;
}

/* NULL: there is none. */
static const struct dcd_doubt *known(const struct dcd_engine *e, u64 at)
{
	const struct dcd_doubt *d;

	if (!e->lost.any || !time_before(jiffies, e->lost.seen + PATIENCE))
		return NULL;
	for (d = e->lost.doubts; d < e->lost.doubts + DCD_LOST_RANGES; d++)
		if (d->used && d->at == at && time_before(jiffies, d->seen + PATIENCE))
			return d;
	return NULL;
}

bool dcd_lost_young(const struct dcd_engine *e, u64 at)
{
	const struct dcd_doubt *d = known(e, at);

	return !d || d->failed < 2 || time_before(jiffies, d->since + LEAST);
}

/*
 * Past a dead log it is an error as soon as it isn't young any more: no round ends before it can be
 * read. Where there are more such places than are known each is young for ever: so all of them
 * together have their time, too.
 */
static bool is_waited_for(const struct dcd_engine *e, u64 at)
{
	const struct dcd_sweep *s = &e->sweep;

	return s->past_log && !dcd_is_leaving(e) && !test_knob(lost_past_log) &&
	       (!s->asking || time_before(jiffies, s->asked + PATIENCE)) && dcd_lost_young(e, at);
}

/*
 * What took so long to fail for the first time that the second one may tell doesn't. Nor does what
 * is waited for: NVRAM gets no room before it is read. Nor anything past a dead log at the close:
 * there may be no other time.
 */
bool dcd_lost_rests(const struct dcd_engine *e, u64 at)
{
	const struct dcd_doubt *d = known(e, at);
	bool last = READ_ONCE(e->ending) && e->sweep.past_log && !test_knob(rests_closed);

	return d && !test_knob(lost_restless) && !last && time_before(jiffies, d->seen + LEAST) &&
	       (d->failed > 1 || time_before(jiffies, d->since + LEAST)) && !is_waited_for(e, at);
}

bool dcd_lost_doubtful(const struct dcd_engine *e, u64 at)
{
	return known(e, at);
}

/* It isn't that place which failed, but all of the log: it may be read again at once. */
static void no_doubt(struct dcd_engine *e, u64 at)
{
	struct dcd_doubt *d;

	for (d = e->lost.doubts; d < e->lost.doubts + DCD_LOST_RANGES; d++)
		if (d->used && d->at == at && d->failed <= 1)
			d->used = false;
}

void dcd_lost_late(struct dcd_engine *e, u64 at)
{
	doubt_of(e, at);
}

void dcd_lost_failed(struct dcd_engine *e, u64 at)
{
	doubt_of(e, at)->failed++;
}

/* Is there soon no room for writes, nor to say what is lost? */
static bool is_due(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = dcd_ring_free(e) <= e->segments / DUE ||
	      (test_knob(lost_at_once) && e->head - e->tail > e->segments / 2);
	spin_unlock(&e->lock);
	return yes;
}

static bool within_bounds(const struct dcd_engine *e, const struct dcd_place *p)
{
	u64 most = div_u64(e->segments * (e->segment_bytes >> SECTOR_SHIFT), OF_RING);

	return READ_ONCE(e->lost.n) + e->lost.giving_n < DCD_LOST_RANGES &&
	       READ_ONCE(e->lost.sectors) + e->lost.giving_sectors + dcd_place_sectors(p) <= most;
}

/* Does the log give what it is known to have in another place? -ETIME: nobody knows. */
static int ask_others(struct dcd_engine *e)
{
	struct dcd_super_found *f = kmalloc(sizeof(*f), GFP_NOIO);
	u8 *buf = kmalloc(2 * DCD_BLOCK, GFP_NOIO);
	int r = -ENOMEM;

	if (f && buf)
		r = dcd_super_blocks(e, buf, DCD_LATE);
	if (!r) {
		dcd_super_find(buf, 0, e->log.sectors, f);
		r = !f->reason && f->super.generation == e->super.generation;
	}
	kfree(buf);
	kfree(f);
	return r == -ETIME || r == -ENOMEM ? -ETIME : r == 1;
}

/* Once for all loads of a batch, as it may take long. */
static int gives_others(struct dcd_engine *e)
{
	if (!e->lost.others_known || test_knob(asks_each))
		e->lost.others = ask_others(e);
	e->lost.others_known = true;
	return e->lost.others;
}

/* Before anything is given up, as it may have gone since. */
static bool still_gives_others(struct dcd_engine *e)
{
	return test_knob(gave_once) || ask_others(e) == 1;
}

/* It has been read: so it is in the next round, not later. */
static void found(struct dcd_engine *e, u64 at)
{
	struct dcd_doubt *d;

	dcd_lost_gave(e);
	for (d = e->lost.doubts; d < e->lost.doubts + DCD_LOST_RANGES; d++)
		if (d->at == at && !test_knob(found_rests))
			d->used = false;
}

bool dcd_lost_gone(struct dcd_engine *e, const struct dcd_load *l, bool enough)
{
	size_t bytes = (size_t)dcd_place_sectors(&l->place) << SECTOR_SHIFT;
	void *buf = kvmalloc(bytes, GFP_NOIO);
	int r = buf ? dcd_place_read(e, &l->place, buf, DCD_LATE) : -ENOMEM;

	kvfree(buf);
	if (!r)
		found(e, l->whole.at);
	if (r == -ETIME)
		return enough || doubt_of(e, l->whole.at)->failed > 1 || dcd_late_too_long(e);
	return r && r != -ENOMEM;
}

/* Elsewhere a log that doesn't give its superblock isn't asked for a judgement (lost.h). */
void dcd_lost_gave(struct dcd_engine *e)
{
	if (e->sweep.past_log)
		e->mute.is = false;
}

enum dcd_away dcd_lost_away(struct dcd_engine *e)
{
	int others = gives_others(e);

	if (others < 0)
		return DCD_AWAY_UNKNOWN;
	if (others) {
		e->mute.is = false;
		return DCD_AWAY_NOT;
	}
	return dcd_blip_mute(e) ? DCD_AWAY : DCD_AWAY_LONG;
}

/*
 * Where the log fails at random it isn't the place that does: others aren't given each time either.
 * @copies: those of the superblock that are yet asked; one of them may be a bad place, too.
 */
static bool gives_each_time(struct dcd_engine *e, unsigned long *copies)
{
	u8 *buf = kmalloc(DCD_BLOCK, GFP_NOIO);
	unsigned int i, copy;

	for (i = 0; buf && i < OTHERS; i++)
		for_each_set_bit(copy, copies, 2)
			if (dcd_log_read(e, copy * (DCD_BLOCK >> SECTOR_SHIFT), buf, DCD_BLOCK,
					 DCD_LATE))
				__clear_bit(copy, copies);
	kfree(buf);
	return buf && *copies;
}

/*
 * The same of a log that fails now and then: it gives what it has at one of several times, and
 * others not at each. What is wrong, or takes long, isn't asked for so often.
 */
static bool gone_for_good(struct dcd_engine *e, const struct dcd_load *l)
{
	unsigned long copies = BIT(0) | BIT(1);
	unsigned int i;

	if (l->error == -EBADMSG || test_knob(lost_at_once))
		return true;
	for (i = 0; i < TRIES; i++) {
		unsigned long began = jiffies;

		if (i)
			msleep(4U << i);
		if (!dcd_lost_gone(e, l, false))
			return false;
		if (time_after(jiffies, began + DCD_LATE))
			break;
		if (!test_knob(others_fail) && !gives_each_time(e, &copies))
			return false;
	}
	return true;
}

/* Before there is an entry that says so, the superblocks do; recovery finds lost ones too. */
static bool said(struct dcd_engine *e)
{
	int r = dcd_super_feature(e, DCD_INCOMPAT_LOST);

	if (r)
		dcd_log_failed(e, DCD_SUPERBLOCK, r);
	return !r;
}

static void tell(struct dcd_engine *e, const struct dcd_load *l)
{
	const struct dcd_place *p = &l->place;

	dcd_count(e, DCD_N_LOST_PLACES, 1);
	trace_dcd_lost(e, p, dcd_segment_of(e, p), l->error);
	pr_err_ratelimited("dcd: %s: %u sectors from %llu on are LOST: the log %pg had their only copy, and can't give it: error %d; reads of them are medium errors until they are written again\n",
			   e->name, dcd_place_sectors(p), (u64)p->sector, e->log.bdev, l->error);
}

/* It was read several times by now. */
static bool give_up(struct dcd_engine *e, const struct dcd_load *l)
{
	if (!said(e))
		return false;
	tell(e, l);
	return true;
}

void dcd_lost_begin(struct dcd_engine *e)
{
	e->lost.others_known = false;
	e->lost.giving_n = 0;
	e->lost.giving_sectors = 0;
}

static void is_lost(struct dcd_engine *e, struct dcd_load *l)
{
	e->lost.giving_n++;
	e->lost.giving_sectors += dcd_place_sectors(&l->place);
	l->kind = DCD_LOAD_AGAIN;
	l->lost = true;
	l->unread = false;
	l->buf = NULL;
	l->error = 0;
}

/* Is there no log that could have it? It was in NVRAM only, and nobody ever tried to write it. */
static bool never_logged(const struct dcd_engine *e, const struct dcd_load *l)
{
	return e->sweep.past_log && dcd_segment_of(e, &l->place) >= READ_ONCE(e->log_tried);
}

/* It stays where it is, for the next round. */
static void wait_past_log(struct dcd_engine *e, struct dcd_load *l)
{
	struct dcd_sweep *s = &e->sweep;

	if (!is_waited_for(e, l->whole.at))
		return;
	if (!s->asking) {
		s->asking = true;
		s->asked = jiffies;
	}
	dcd_lost_wait(l);
}

/* The log is dead: nobody who opens it and NVRAM is to ask that one alone. */
static bool give_up_past_log(struct dcd_engine *e, const struct dcd_load *l)
{
	if (!e->keeps || (l->error != -EBADMSG && !never_logged(e, l)) ||
	    test_knob(lost_in_log) || !dcd_lost_gone(e, l, false) ||
	    (!never_logged(e, l) && !still_gives_others(e)))
		return false;
	dcd_header_feature(e, DCD_INCOMPAT_LOST);
	tell(e, l);
	return true;
}

void dcd_lost_wait(struct dcd_load *l)
{
	l->kind = DCD_LOAD_LEFT;
	l->unread = true;
	l->buf = NULL;
	l->error = 0;
}

void dcd_lost_judge(struct dcd_engine *e, struct dcd_load *l)
{
	struct dcd_doubt *d;
	unsigned long waited;
	bool wait;
	int others;

	if (l->error == -ENOMEM || dcd_lost_stays() || !within_bounds(e, &l->place))
		return;
	others = never_logged(e, l) || gives_others(e);
	if (others < 0) {
		dcd_lost_wait(l);
	} else if (!others && (!e->sweep.past_log || !test_knob(lost_past_log)) &&
		   dcd_blip_mute(e)) {
		no_doubt(e, l->whole.at);
		dcd_lost_wait(l);
	}
	if (others <= 0)
		return;
	e->mute.is = false;
	if (e->sweep.past_log) {
		if (give_up_past_log(e, l))
			is_lost(e, l);
		else
			wait_past_log(e, l);
		return;
	}
	d = doubt_of(e, l->whole.at);
	waited = jiffies - d->since;
	if ((waited < LEAST || d->failed < 2) && !test_knob(lost_at_once))
		wait = true;
	else
		wait = !dcd_stuck_again(e, READ_ONCE(e->tail)) || (!is_due(e) && waited < PATIENCE);
	if (!wait && !gone_for_good(e, l)) {
		d->used = false;	/* so that it is read in the next round, not later */
		wait = true;
	}
	if (!wait && still_gives_others(e) && give_up(e, l))
		is_lost(e, l);
	else
		dcd_lost_wait(l);
}

void dcd_lost_keep(struct dcd_engine *e, struct dcd_load *l, bool past_log)
{
	l->lost = true;
	if (dcd_is_leaving(e)) {
		dcd_leave_skip(e, l);
		return;
	}
	if (past_log && e->keeps && !test_knob(lost_in_log)) {
		/* Who opens log and NVRAM asks the NVRAM's header, too. */
		dcd_header_feature(e, DCD_INCOMPAT_LOST);
		l->kind = DCD_LOAD_AGAIN;
		return;
	}
	l->kind = DCD_LOAD_LEFT;
	if (!past_log && dcd_stuck_again(e, l->oldest) && said(e))
		l->kind = DCD_LOAD_AGAIN;
	if (!past_log)
		return;
	/* Nowhere but in the log can it be said; there it may be yet. */
	l->error = -ENODATA;
	l->unread = true;
}

void dcd_lost_no_room(struct dcd_engine *e, struct dcd_load *l, int error)
{
	l->error = error;
	if (!l->lost)
		return;
	l->unread = true;
	pr_err_ratelimited("dcd: %s: %s has no room to say once more that %u sectors from %llu on are LOST: error %d; until something is written over them, or the log %pg takes writes and has room, writes may be refused\n",
			   e->name, e->sweep.past_log ? "the NVRAM" : "the log",
			   dcd_place_sectors(&l->place), (u64)l->place.sector, error,
			   e->log.bdev);
}
