// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>
#include <linux/sched/mm.h>

#include "dcd-trace.h"
#include "lockstep-test.h"
#include "outcome.h"

TEST_KNOB(bool, late_waits, "the destager waits for a write of the data disk however long it takes");
TEST_KNOB(bool, late_reads_wait, "the destager waits for a read of the log however long it takes");
TEST_KNOB(bool, late_stays, "what can't be asked of a log that is left is waited for");
TEST_KNOB(bool, late_lasts, "what has come late is on the data disk, whatever flush has failed since");
TEST_KNOB(bool, late_unheld, "what a late write may come over is written all the same");

void dcd_late_flush_failed(struct dcd_engine *e)
{
	e->lates.flushes_failed++;
}

bool dcd_late_lasts(const struct dcd_engine *e, unsigned int flushes_failed)
{
	return e->lates.flushes_failed == flushes_failed || test_knob(late_lasts);
}

static struct dcd_place range_of(const struct dcd_load *l)
{
	return (struct dcd_place){
		.sector = l->place.sector, .last = l[l->together - 1].place.last,
	};
}

static unsigned int free_one(const struct dcd_engine *e)
{
	unsigned int i = 0;

	while (i < DCD_LATE_BATCHES && e->lates.batch[i])
		i++;
	return i;
}

static unsigned int nfree(const struct dcd_engine *e)
{
	return DCD_LATE_BATCHES - e->lates.n;	/* only the destager changes it */
}

/* What is read ahead may have to be kept, too. */
static bool may_be(const struct dcd_engine *e)
{
	return !e->sweep.past_log && !test_knob(late_waits) &&
	       nfree(e) > !!dcd_batch_reads(e->ahead);
}

static bool has_spare(struct dcd_engine *e)
{
	unsigned int flags = memalloc_noio_save();

	if (!e->lates.spare)
		e->lates.spare = dcd_batch_new(e);
	memalloc_noio_restore(flags);
	return e->lates.spare;
}

static bool hold(struct dcd_engine *e, struct dcd_batch *b)
{
	unsigned int i;

	for (i = 0; i < b->n; i++) {
		struct dcd_load *l = b->loads + i;
		struct dcd_place p;

		if (!l->together || dcd_io_done(&l->io))
			continue;
		p = range_of(l);
		if (l->alone)
			dcd_stuck_forget(e, &p);
		if (!dcd_stuck_hold(e, &p))
			return false;
		l->late = true;
	}
	return true;
}

bool dcd_late_begin(struct dcd_engine *e, struct dcd_batch *b)
{
	bool held = may_be(e) && has_spare(e) && hold(e, b);
	unsigned int i, k, n = 0;
	sector_t sector = 0;

	for (i = 0; i < b->n; i++) {
		struct dcd_load *l = b->loads + i;

		if (!l->late)
			continue;
		if (!held) {
			l->late = false;
			dcd_stuck_release(e, l->place.sector);
			continue;
		}
		sector = n++ ? sector : l->place.sector;
		for (k = 0; k < l->together; k++) {
			l[k].kind_then = l[k].kind;
			l[k].kind = DCD_LOAD_LEFT;
		}
	}
	b->late = n;
	if (!n)
		return false;
	for (i = 0; test_knob(late_unheld) && i < b->n; i++)
		if (b->loads[i].late)
			dcd_stuck_release(e, b->loads[i].place.sector);
	b->late_since = jiffies;
	b->flushes_failed = e->lates.flushes_failed;
	dcd_count(e, DCD_N_WRITES_LATE, n);
	trace_dcd_late(e, sector, n);
	pr_warn_ratelimited("dcd: %s: the data disk %pg doesn't return from %u writes, the first of them at sector %llu: what is to be there stays in the log until it does\n",
			    e->name, e->data.bdev, n, (u64)sector);
	return true;
}

/* One for each of the two batches that are being read; what is doubtful leaves some for others. */
bool dcd_late_may_read(const struct dcd_engine *e, bool doubtful)
{
	return nfree(e) >= (doubtful ? DCD_LATE_BATCHES / 2 : 2) || test_knob(late_reads_wait);
}

bool dcd_late_may_be(struct dcd_engine *e)
{
	return nfree(e) && has_spare(e) && !test_knob(late_reads_wait);
}

unsigned int dcd_late_unread(struct dcd_engine *e, struct dcd_batch *b)
{
	unsigned int i, n = 0;
	u64 sector = 0;

	for (i = 0; i < b->begun; i++) {
		struct dcd_load *l = b->order[i];

		l->unanswered = !dcd_io_done(&l->io);
		if (!l->unanswered)
			continue;
		dcd_lost_late(e, l->whole.at);
		dcd_lost_wait(l);
		sector = n++ ? sector : dcd_place_in_log(e, &l->whole);
	}
	b->unanswered = n;
	if (!n)
		return 0;
	b->late_since = jiffies;
	dcd_count(e, DCD_N_LOG_READS_LATE, n);
	trace_dcd_log_late(e, sector, n);
	pr_warn_ratelimited("dcd: %s: the log %pg doesn't return from %u reads, the first of them at sector %llu: what is there isn't destaged until it does\n",
			    e->name, e->log.bdev, n, sector);
	return n;
}

bool dcd_late_reads(const struct dcd_engine *e, u64 at, unsigned long *since)
{
	unsigned int i, k;

	for (i = 0; i < DCD_LATE_BATCHES; i++) {
		const struct dcd_batch *b = e->lates.batch[i];

		for (k = 0; b && b->unanswered && k < b->n; k++) {
			if (!b->loads[k].unanswered || b->loads[k].whole.at != at)
				continue;
			*since = b->late_since;
			return true;
		}
	}
	return false;
}

bool dcd_late_too_long(const struct dcd_engine *e)
{
	unsigned int i;

	for (i = 0; i < DCD_LATE_BATCHES && dcd_is_leaving(e); i++) {
		const struct dcd_batch *b = e->lates.batch[i];

		if (b && b->unanswered && time_after(jiffies, b->late_since + DCD_LATE_LEAVES))
			return !test_knob(late_stays);
	}
	return false;
}

struct dcd_batch *dcd_late_keep(struct dcd_engine *e, struct dcd_batch *b)
{
	struct dcd_batch *other = e->lates.spare;
	unsigned int i, k;

	for (i = 0; i < b->n; i++) {
		struct dcd_load *l = b->loads + i;

		l->there = false;
		l->error = 0;
		for (k = 1; l->late && k < l->together; k++)
			l[k].late = true;
	}
	e->lates.spare = NULL;
	spin_lock(&e->lock);
	e->lates.batch[free_one(e)] = b;
	e->lates.n++;
	spin_unlock(&e->lock);
	return other;
}

/* Of one write that has returned: what becomes of its loads. */
static void has_returned(struct dcd_engine *e, struct dcd_load *l)
{
	int error = blk_status_to_errno(l->io.status);
	struct dcd_place p = range_of(l);
	unsigned int k;

	trace_dcd_destage(e, p.sector, dcd_place_sectors(&p), error);
	for (k = 0; k < l->together; k++) {
		l[k].kind = l[k].kind_then;
		l[k].there = !error;
	}
	if (error)
		return;
	dcd_stuck_release(e, p.sector);
	dcd_count(e, DCD_N_DESTAGED_SECTORS, dcd_place_sectors(&p));
}

/* @others: does it take others? Asked once, if at all. */
static void did_not_take(struct dcd_engine *e, const struct dcd_batch *b,
			 const struct dcd_load *l, int *others)
{
	int error = blk_status_to_errno(l->io.status);
	struct dcd_place p = range_of(l);

	dcd_stuck_release(e, p.sector);
	if (error == -ENOMEM)
		return;
	if (*others < 0)
		*others = dcd_stuck_others_since(e, p.sector, b->late_since);
	dcd_stuck_took_so_long(e, jiffies - b->late_since);
	if (!*others || !dcd_stuck_add(e, &p, l->alone ? 0 : error))
		dcd_data_failed(e, error);
	else if (l->alone)
		dcd_count(e, DCD_N_DATA_ERRORS, 1);
}

static void look_at_writes(struct dcd_engine *e, struct dcd_batch *b)
{
	bool some = false, durable = false;
	int others = -1;
	unsigned int i;

	dcd_ios_wait(&b->writing, 0);
	for (i = 0; i < b->n; i++) {
		struct dcd_load *l = b->loads + i;

		if (!l->late || !l->together)
			continue;
		has_returned(e, l);
		some = some || l->there;
	}
	if (some && dcd_late_lasts(e, b->flushes_failed))
		durable = !dcd_destage_flush(e) && !dcd_destage_forget(e, b, b->mark.target);
	for (i = 0; i < b->n; i++) {
		const struct dcd_load *l = b->loads + i;

		if (!l->late || !l->together)
			continue;
		if (!l->there)
			did_not_take(e, b, l, &others);
		else if (l->alone && durable)
			dcd_stuck_took(e);
	}
}

/* What has come of it, good or bad, is what became of a batch of its own. */
static void look_at_reads(struct dcd_engine *e, struct dcd_batch *late, const struct dcd_mark *now,
			  dcd_width *width)
{
	struct dcd_batch *b = e->batch;
	ktime_t began = ktime_get();
	unsigned int failures = 0;
	struct dcd_outcome o;
	int r;

	b->mark = *now;
	if (e->sweep.past_log && e->sweep.n)
		b->mark = e->sweep.marks[0];
	if (!dcd_batch_came(e, b, late))
		return;
	r = dcd_batch_move(e, b, NULL, width);
	dcd_outcome(e, b, r, began, &failures, &o);
	if (b->late)
		e->batch = dcd_late_keep(e, b);
}

static void look_at(struct dcd_engine *e, unsigned int i, const struct dcd_mark *now,
		    dcd_width *width)
{
	struct dcd_batch *b = e->lates.batch[i];

	if (b->late && !atomic_read(&b->writing.in_flight)) {
		look_at_writes(e, b);
		b->late = 0;
	}
	if (dcd_batch_reads(b) < b->unanswered && width(e))
		look_at_reads(e, b, now, width);
	if (b->late || b->unanswered)
		return;
	dcd_ios_wait(&b->reading, 0);
	dcd_ios_wait(&b->doubtful, 0);
	spin_lock(&e->lock);
	e->lates.batch[i] = NULL;
	e->lates.n--;
	spin_unlock(&e->lock);
	if (e->lates.spare)
		dcd_batch_free(b);
	else
		e->lates.spare = b;
}

void dcd_late_look(struct dcd_engine *e, const struct dcd_mark *now, dcd_width *width)
{
	unsigned int i;

	for (i = 0; i < DCD_LATE_BATCHES; i++)
		if (e->lates.batch[i])
			look_at(e, i, now, width);
}

static bool under_way(const struct dcd_batch *b)
{
	return atomic_read(&b->writing.in_flight) || dcd_batch_reads(b);
}

bool dcd_late_under_way(struct dcd_engine *e)
{
	bool yes = false;
	unsigned int i;

	spin_lock(&e->lock);
	for (i = 0; i < DCD_LATE_BATCHES; i++)
		yes = yes || (e->lates.batch[i] && under_way(e->lates.batch[i]));
	spin_unlock(&e->lock);
	return yes;
}

void dcd_late_free(struct dcd_engine *e)
{
	unsigned int i;

	for (i = 0; i < DCD_LATE_BATCHES; i++) {
		struct dcd_batch *b = e->lates.batch[i];

		if (b) {	/* who woke us may have it yet */
			dcd_ios_wait(&b->writing, 0);
			dcd_ios_wait(&b->reading, 0);
			dcd_ios_wait(&b->doubtful, 0);
		}
		dcd_batch_free(b);
	}
	dcd_batch_free(e->lates.spare);
}
