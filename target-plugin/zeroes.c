// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>

#include "batch.h"
#include "lockstep-test.h"

#define GRANULE		((64ULL << 10) >> SECTOR_SHIFT)
#define PIECE_FIRST	((4ULL << 20) >> SECTOR_SHIFT)
#define PIECE_LEAST	((1ULL << 20) >> SECTOR_SHIFT)
#define PIECE_MOST	((64ULL << 20) >> SECTOR_SHIFT)	/* the read cache looks for each page */
#define FILL_MOST	((1ULL << 20) >> SECTOR_SHIFT)
#define AGAIN_MOST	BIT_ULL(31)	/* an entry's */
#define QUICK_US	5000
#define SLOW_US		50000
#define MOMENT_US	30000
#define PATIENCE	(HZ / 4)	/* for a wipe */

TEST_KNOB(bool, discard_waits, "the destager waits for a discard however long it takes");
TEST_KNOB(bool, zeroing_waits, "the destager waits for a zeroing however long it takes");
TEST_KNOB(bool, discard_keeps, "a discard is one, though the LUN says that it zeroes");
TEST_KNOB(bool, discard_unheld, "what a wipe that hangs may come over is written all the same");

/*
 * In how many pieces zeroes may be, each a range of the index: half of its memory, and of
 * the log's tables what writes of 4 KiB leave free in them.
 */
static u64 most_pieces(const struct dcd_engine *e)
{
	return min(e->segments * dcd_table_places(e) * 3 / 4,
		   div_u64(e->index_bytes, 2 * DCD_RANGE_BYTES));
}

/*
 * Shorter pieces than that are filled. The more pieces there are, the longer those get, so
 * that there are never more than there may be; until then it takes little time.
 */
static u64 short_one(const struct dcd_engine *e)
{
	u64 most = max(most_pieces(e), 1ULL), now = min_t(u64, READ_ONCE(e->zeroes), most);

	return max(div64_u64(div64_u64(e->data.sectors, most) * now, most), GRANULE);
}

/* @flags: without fallback a disk that can't any more gets it written later, as any zeroes. */
static int zero_out(struct dcd_engine *e, sector_t first, sector_t last, unsigned int flags)
{
	return blkdev_issue_zeroout(e->data.bdev, first, last - first + 1, GFP_NOIO, flags);
}

static int discard(struct dcd_engine *e, sector_t first, sector_t last)
{
	if (e->wipes.to_zeroes && !test_knob(discard_keeps))
		return zero_out(e, first, last, BLKDEV_ZERO_NOFALLBACK);
	return blkdev_issue_discard(e->data.bdev, first, last - first + 1, GFP_NOIO);
}

/* Its worker may wait without end, and the engine is there until it has ended. */
static void wipe_work(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, wipes.work);
	struct dcd_wipes *w = &e->wipes;

	w->error = w->kind == DCD_LOAD_DISCARD ? discard(e, w->first, w->last) :
						 zero_out(e, w->first, w->last, 0);
	spin_lock(&e->lock);
	w->under_way = false;
	if (!e->closing)
		mod_delayed_work(e->destage_wq, &e->destage_work, 0);
	wake_up_all(&e->quiet);
	spin_unlock(&e->lock);	/* the engine may be gone from here on */
}

bool dcd_wipes_under_way(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->wipes.under_way;
	spin_unlock(&e->lock);
	return yes;
}

void dcd_wipes_init(struct dcd_engine *e)
{
	e->wipes.piece = PIECE_FIRST;
	e->wipes.to_zeroes = bdev_max_discard_sectors(e->data.bdev) &&
			     bdev_write_zeroes_sectors(e->data.bdev);
	INIT_WORK(&e->wipes.work, wipe_work);
}

bool dcd_discards(const struct dcd_engine *e)
{
	return bdev_max_discard_sectors(e->data.bdev) && !e->wipes.no_discard;
}

unsigned int dcd_wipes_in_a_moment(const struct dcd_engine *e)
{
	return e->wipes.us ? max_t(u64, div64_u64(MOMENT_US, e->wipes.us), 1) : 1;
}

/* Sectors from the last boundary of a granule to @sector. */
static u64 behind(u64 sector, u64 granule, u64 first)
{
	u64 rest;

	div64_u64_rem(sector + granule - first, granule, &rest);
	return rest;
}

static void cut(struct dcd_place *p, sector_t most)
{
	p->last = min(p->last, p->sector + most - 1);
}

enum dcd_load_kind dcd_zeroes_part(struct dcd_engine *e, struct dcd_place *p, u64 oldest,
				   unsigned int wipes)
{
	bool discard = p->discard && dcd_discards(e);
	u64 granule = GRANULE, first = 0, piece = e->wipes.piece, end = p->last + 1;
	u64 over, least = discard ? 0 : short_one(e);
	bool held_up;

	if (discard) {
		granule = max(bdev_discard_granularity(e->data.bdev) >> SECTOR_SHIFT, 1U);
		first = bdev_discard_alignment(e->data.bdev) >> SECTOR_SHIFT;
		if (first >= granule)
			first = 0;
	}
	/* What is written may fail for one bad place in it, and stays as a whole then. */
	piece = min(piece, dcd_stuck_left(e) / (discard ? 1 : 4));
	piece = max(piece - behind(piece, granule, 0), granule);
	over = behind(p->sector, granule, first);
	if (end - p->sector < least)
		over = granule;
	else if (over)	/* to the next boundary, or all of it */
		end = min(end, p->sector + granule - over);
	else if (end - p->sector >= granule)
		end -= behind(end, granule, first);
	p->last = end - 1;
	if (over || end - p->sector < granule) {
		cut(p, FILL_MOST);
		return DCD_LOAD_FILL;
	}
	held_up = e->wipes.hangs || (!discard && dcd_stuck_left(e) < granule);
	if (held_up && (e->wipes.no_room || e->sweep.past_log)) {
		cut(p, FILL_MOST);
		return DCD_LOAD_FILL;
	}
	if (wipes && !held_up) {
		cut(p, piece);
		return discard ? DCD_LOAD_DISCARD : DCD_LOAD_WIPE;
	}
	cut(p, AGAIN_MOST - behind(AGAIN_MOST, granule, 0));
	return held_up && !dcd_stuck_again(e, oldest) ? DCD_LOAD_LEFT : DCD_LOAD_AGAIN;
}

/* A piece takes a moment, and one that would take less becomes longer. */
static void learn(struct dcd_wipes *w, u64 sectors, u64 us)
{
	w->us = w->us ? (3 * w->us + us) / 4 : us;
	if (us > SLOW_US)
		w->piece = max(w->piece / 2, PIECE_LEAST);
	else if (us < QUICK_US && sectors >= w->piece)
		w->piece = min(w->piece * 2, PIECE_MOST);
}

static const char *what(const struct dcd_wipes *w)
{
	return w->kind == DCD_LOAD_DISCARD ? "discard" : "zeroing";
}

static bool is_waited_for(enum dcd_load_kind kind)
{
	return kind == DCD_LOAD_DISCARD ? test_knob(discard_waits) : test_knob(zeroing_waits);
}

static int wipe_or_hold(struct dcd_engine *e, enum dcd_load_kind kind, const struct dcd_place *p)
{
	struct dcd_wipes *w = &e->wipes;

	w->kind = kind;
	w->first = p->sector;
	w->last = p->last;
	w->since = jiffies;
	spin_lock(&e->lock);
	w->under_way = true;
	spin_unlock(&e->lock);
	queue_work(e->wipe_wq, &w->work);
	if (is_waited_for(kind) ||
	    (!wait_event_timeout(e->quiet, !dcd_wipes_under_way(e), PATIENCE) &&
	     !dcd_stuck_hold(e, p)))
		wait_event_idle(e->quiet, !dcd_wipes_under_way(e));
	if (!dcd_wipes_under_way(e)) {
		dcd_stuck_release(e, p->sector);
		return w->error;
	}
	if (test_knob(discard_unheld))
		dcd_stuck_release(e, p->sector);
	WRITE_ONCE(w->hangs, true);
	w->piece = max(w->piece / 2, PIECE_LEAST);
	dcd_count(e, kind == DCD_LOAD_DISCARD ? DCD_N_DISCARDS_HUNG : DCD_N_ZEROINGS_HUNG, 1);
	pr_warn_ratelimited("dcd: %s: the data disk %pg doesn't return from a %s of %llu sectors at %llu; what is written there stays in the log until it does\n",
			    e->name, e->data.bdev, what(w), (u64)(p->last - p->sector + 1),
			    (u64)p->sector);
	return -EINPROGRESS;
}

static void cannot_discard(struct dcd_engine *e, int error)
{
	pr_warn("dcd: %s: the data disk %pg can't discard: error %d; it is written instead\n",
		e->name, e->data.bdev, error);
	e->wipes.no_discard = true;
}

/* It takes others, or all of it fails: nobody waits to find out which of its blocks it is. */
static void cannot_zero(struct dcd_engine *e, int error)
{
	struct dcd_wipes *w = &e->wipes;
	struct dcd_place p = { .sector = w->first, .last = w->last };

	dcd_stuck_took_so_long(e, jiffies - w->since);
	if (!dcd_stuck_others(e, w->first) || !dcd_stuck_add(e, &p, error))
		dcd_data_failed(e, error);
}

void dcd_wipes_look(struct dcd_engine *e)
{
	struct dcd_wipes *w = &e->wipes;

	if (!w->hangs || dcd_wipes_under_way(e))
		return;
	WRITE_ONCE(w->hangs, false);
	dcd_stuck_release(e, w->first);
	pr_info_ratelimited("dcd: %s: the data disk %pg has returned from its %s\n", e->name,
			    e->data.bdev, what(w));
	if (!w->error || w->error == -ENOMEM)
		return;
	if (w->kind == DCD_LOAD_DISCARD)
		cannot_discard(e, w->error);
	else
		cannot_zero(e, w->error);
}

int dcd_wipe(struct dcd_engine *e, enum dcd_load_kind kind, const struct dcd_place *p)
{
	sector_t sectors = p->last - p->sector + 1;
	ktime_t began = ktime_get();
	int r = wipe_or_hold(e, kind, p);

	if (r && r != -EINPROGRESS && r != -ENOMEM && kind == DCD_LOAD_DISCARD) {
		cannot_discard(e, r);
		r = wipe_or_hold(e, DCD_LOAD_WIPE, p);
	} else if (!r && kind == DCD_LOAD_DISCARD) {
		dcd_count(e, DCD_N_DISCARDED_SECTORS, sectors);
	}
	if (!r)
		learn(&e->wipes, sectors, ktime_us_delta(ktime_get(), began));
	return r;
}
