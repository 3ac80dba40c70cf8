// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is in the log for long is read and compared before somebody needs it: each segment
 * that isn't destaged, as a whole and as recovery would judge it, one at a time, at so many
 * KiB a second (scrub_kib), and never while NVRAM waits for the log disk.
 *
 * One that is wrong is told, and the destager empties the log then: what is right is on
 * the data disk soon, and with it the place of the wrong one is free, unless what is wrong
 * is nowhere else. That stays, as a medium error, until it is written over.
 */
#include "dcd-trace.h"
#include "engine.h"

#define PATIENCE (2 * HZ)	/* with one segment */
#define REST (60 * HZ)	/* from one turn's beginning to the next one's, at least */

static bool live(struct dcd_engine *e, u64 segment)
{
	bool yes;

	spin_lock(&e->lock);
	yes = segment >= e->tail && segment < e->committed && !e->log_dead;
	spin_unlock(&e->lock);
	return yes;
}

/* The next one of this turn; false: it is over. */
static bool next(struct dcd_engine *e, u64 *segment)
{
	struct dcd_scrub *s = &e->scrub;

	spin_lock(&e->lock);
	*segment = max(s->next, e->tail);
	spin_unlock(&e->lock);
	s->next = *segment + 1;
	return *segment < s->end;
}

static void begin_turn(struct dcd_engine *e)
{
	spin_lock(&e->lock);
	e->scrub.next = e->tail;
	e->scrub.end = e->committed;
	spin_unlock(&e->lock);
}

/* VALID also if it isn't live, or wasn't any more. @r: it can't be read. */
static enum dcd_segment_kind look_at(struct dcd_engine *e, u64 segment, int *r)
{
	enum dcd_segment_kind kind = DCD_SEGMENT_VALID;
	struct dcd_geometry g;

	*r = 0;
	if (!live(e, segment))
		return kind;
	dcd_geometry_of(e, &g);
	*r = dcd_aside_read(e, dcd_segment_sector(e, segment), e->scrub.buf, e->segment_bytes,
			    PATIENCE);
	if (!*r)
		kind = dcd_segment_parse(&g, e->scrub.buf, segment);
	if (live(e, segment))
		return kind;
	*r = 0;
	return DCD_SEGMENT_VALID;
}

static void scrub(struct dcd_engine *e, u64 segment)
{
	enum dcd_segment_kind kind;
	int r;

	kind = look_at(e, segment, &r);
	if (r == -ENOMEM)
		return;
	if (r == -ETIME) {	/* a bad place, perhaps: it is proved when it is written again */
		dcd_proof_doubt(e, segment);
		return;
	}
	if (r || kind != DCD_SEGMENT_VALID)
		kind = look_at(e, segment, &r);	/* perhaps it was the way here that spoiled it */
	dcd_count(e, DCD_N_SCRUBBED, 1);
	trace_dcd_scrub(e, segment, kind, r);
	if (!r && kind == DCD_SEGMENT_VALID)
		return;
	dcd_count(e, DCD_N_SCRUB_BAD, 1);
	if (r)
		dcd_count(e, DCD_N_LOG_READ_ERRORS, 1);
	dcd_log_damaged(e, segment);
	pr_err_ratelimited("dcd: %s: segment %llu of the log %pg %s%s: error %d; what is right goes to the data disk now: leave the device open until it has\n",
			   e->name, segment, e->log.bdev, r ? "can't be read" : "is ",
			   r ? "" : dcd_segment_kind_name(kind), r);
	dcd_destage_kick(e);
}

void dcd_scrub_begin(struct dcd_engine *e)
{
	if (READ_ONCE(e->scrub_kib))
		queue_delayed_work(e->io_wq, &e->scrub_work, REST);
}

void dcd_scrub_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine, scrub_work);
	unsigned long now = jiffies, wait = HZ;
	unsigned int kib = READ_ONCE(e->scrub_kib);
	u64 segment;

	if (READ_ONCE(e->closing) || !kib)
		return;
	if (dcd_log_pressed(e)) {
		queue_delayed_work(e->io_wq, &e->scrub_work, wait);
		return;
	}
	if (next(e, &segment)) {
		scrub(e, segment);
		wait = msecs_to_jiffies(div_u64((u64)(e->segment_bytes >> 10) * MSEC_PER_SEC, kib));
	} else if (time_before(now, e->scrub.next_turn)) {
		wait = e->scrub.next_turn - now;
	} else {
		e->scrub.next_turn = now + REST;
		begin_turn(e);
		wait = 1;
	}
	queue_delayed_work(e->io_wq, &e->scrub_work, wait);
}
