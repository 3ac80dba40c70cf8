// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>

#include "batch.h"
#include "dcd-trace.h"
#include "leave.h"
#include "lockstep-test.h"

#define GRANULE		((64ULL << 10) >> SECTOR_SHIFT)
#define PIECE_FIRST	((4ULL << 20) >> SECTOR_SHIFT)
#define PIECE_LEAST	((1ULL << 20) >> SECTOR_SHIFT)
#define PIECE_MOST	((64ULL << 20) >> SECTOR_SHIFT)	/* the read cache looks for each page */
#define FILL_MOST	((1ULL << 20) >> SECTOR_SHIFT)
#define ZEROINGS	4	/* so that of what may be held they leave some for late writes */
#define FILLS		8	/* likewise, each */
#define BLOCK		(DCD_BLOCK >> SECTOR_SHIFT)
#define PARTS		16	/* of a piece that the disk didn't take */
#define AGAIN_MOST	BIT_ULL(31)	/* an entry's */
#define LATE_RESTS	16		/* times as long as it took to fail there is no zeroing, */
#define LATE_MOST	(600 * HZ)	/* at most, when the log was left */
#define FAILED_RESTS	(60 * HZ)	/* past the log, after one that failed */
#define UNDISCARDED	16	/* in a row that failed, and could be written */
#define QUICK_US	5000
#define SLOW_US		50000
#define PATIENCE	(HZ / 4)	/* for a wipe */

TEST_KNOB(bool, discard_waits, "the destager waits for a discard however long it takes");
TEST_KNOB(bool, zeroing_waits, "the destager waits for a zeroing however long it takes");
TEST_KNOB(bool, discard_keeps, "a discard is one, though the LUN says that it zeroes");
TEST_KNOB(bool, zeroes_unmap, "the data disk may unmap what is zeroed");
TEST_KNOB(bool, late_parts, "past the log all parts of what couldn't be wiped are tried, however late they fail");
TEST_KNOB(bool, zeroed_again, "after a leave a data disk is asked for zeroes however late it fails them");
TEST_KNOB(bool, wiped_again, "what couldn't be wiped is wiped again in each round past the log");
TEST_KNOB(bool, any_refuses, "a disk that fails a discard, for whatever reason, can't discard");
TEST_KNOB(bool, wipes_call, "a wipe that was waited for calls the destager, too");
TEST_KNOB(bool, discard_unheld, "what a wipe that hangs may come over is written all the same");

int dcd_zero_disk(struct dcd_engine *e, u64 sector, u64 sectors)
{
	return blkdev_issue_zeroout(e->data.bdev, sector, sectors, GFP_NOIO,
				    test_knob(zeroes_unmap) ? 0 : BLKDEV_ZERO_NOUNMAP);
}

static bool gives_up(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->closing;
	spin_unlock(&e->lock);
	return yes;
}

static void add_bad(struct dcd_wipes *w, u64 first, u64 last)
{
	if (w->n && w->bad[w->n - 1].last + 1 == first)
		w->bad[w->n - 1].last = last;
	else
		w->bad[w->n++] = (struct dcd_wiped_part){ first, last };
}

/* Past the log, which may just have come, the rest of it is written, and all waits for that. */
static bool is_late(const struct dcd_engine *e, const struct dcd_wipes *w)
{
	return READ_ONCE(e->sweep.past_log) && time_after(jiffies, w->since + PATIENCE) &&
	       !test_knob(late_parts);
}

/*
 * All at once, if the disk takes it. Else in smaller pieces up to the first bad block, and behind
 * that again in larger ones, unless the next block is bad, too, as bad blocks come in rows.
 */
static void zero_parts(struct dcd_engine *e, struct dcd_wipes *w)
{
	u64 end = w->last + 1, at = w->first, size = end - at, known_bad = 0;
	u64 block = max(bdev_physical_block_size(e->data.bdev), DCD_BLOCK) >> SECTOR_SHIFT;
	unsigned int failures = 0;

	while (at < end && failures < DCD_WIPE_FAILURES &&
	       !(failures && (gives_up(e) || is_late(e, w)))) {
		u64 to = min(end, at + size);
		int r = dcd_zero_disk(e, at, to - at);

		if (!r) {
			at = to;
			if (at >= known_bad)
				size = min(size * PARTS, end - w->first);
			continue;
		}
		w->error = r;
		if (r == -ENOMEM)
			break;
		failures++;
		known_bad = to;
		if (to - at > block) {
			size = max(div64_u64(to - at, PARTS * block), 1ULL) * block;
			continue;
		}
		add_bad(w, at, to - 1);
		at = to;
		size = block;
	}
	w->done = at;
}

/* Sectors from the last boundary of a granule to @sector. */
static u64 behind(u64 sector, u64 granule, u64 first)
{
	u64 rest;

	div64_u64_rem(sector + granule - first, granule, &rest);
	return rest;
}

/* What the data disk discards is a whole number of them; the first one begins at @first. */
static u64 granule_of(const struct dcd_engine *e, u64 *first)
{
	u64 granule = max(bdev_discard_granularity(e->data.bdev) >> SECTOR_SHIFT, 1U);

	*first = bdev_discard_alignment(e->data.bdev) >> SECTOR_SHIFT;
	if (*first >= granule)
		*first = 0;
	return granule;
}

bool dcd_discard_cut(const struct dcd_engine *e, u64 *sector, u64 *end)
{
	u64 first, granule = granule_of(e, &first), over = behind(*sector, granule, first);

	*sector += over ? granule - over : 0;
	*end -= min(behind(*end, granule, first), *end);
	return *sector < *end;
}

int dcd_discard_disk(struct dcd_engine *e, u64 sector, u64 sectors)
{
	struct block_device *bdev = e->data.bdev;

	/* No more than that: a disk that can't any more gets it written, as any zeroes. */
	return e->wipes.to_zeroes && !test_knob(discard_keeps) ?
	       blkdev_issue_zeroout(bdev, sector, sectors, GFP_NOIO, BLKDEV_ZERO_NOFALLBACK) :
	       blkdev_issue_discard(bdev, sector, sectors, GFP_NOIO);
}

static void discard(struct dcd_engine *e, struct dcd_wipes *w)
{
	w->error = dcd_discard_disk(e, w->first, w->last - w->first + 1);
	if (!w->error)
		w->done = w->last + 1;
}

/* It may wait without end, and the engine is there until it has ended. */
static void wipe_work(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, wipes.work);
	struct dcd_wipes *w = &e->wipes;

	if (w->kind == DCD_LOAD_DISCARD)
		discard(e, w);
	else
		zero_parts(e, w);
	spin_lock(&e->lock);
	w->under_way = false;
	/* Whoever waits for it goes on by himself, and has his own time for another try. */
	if (!e->closing && (w->hangs || test_knob(wipes_call)))
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
	e->wipes.failed_until = jiffies;
	e->wipes.zeroing_until = jiffies;
	e->wipes.data_at = jiffies - HZ;
	e->wipes.to_zeroes = bdev_max_discard_sectors(e->data.bdev) &&
			     bdev_write_zeroes_sectors(e->data.bdev);
	INIT_WORK(&e->wipes.work, wipe_work);
}

bool dcd_discards(const struct dcd_engine *e)
{
	return bdev_max_discard_sectors(e->data.bdev) && !e->wipes.no_discard;
}

static void cut(struct dcd_place *p, sector_t most)
{
	p->last = min(p->last, p->sector + most - 1);
}

sector_t dcd_fill_most(const struct dcd_engine *e)
{
	sector_t most = clamp_t(sector_t, div_u64(dcd_stuck_left(e), FILLS), BLOCK, FILL_MOST);

	return most > GRANULE ? round_down(most, GRANULE) : round_down(most, BLOCK);
}

/*
 * Past the log a round that fails begins anew at the same place. What can't be wiped there is
 * written: else no round would ever end, though the disk takes writes.
 */
static void wipe_failed(struct dcd_engine *e, int error)
{
	if (error && error != -ENOMEM && error != -EINPROGRESS && !test_knob(wiped_again))
		e->wipes.failed_until = jiffies + FAILED_RESTS;
}

bool dcd_zeroing_rests(struct dcd_engine *e)
{
	bool rests;

	spin_lock(&e->lock);
	rests = time_before(jiffies, e->wipes.zeroing_until);
	spin_unlock(&e->lock);
	return rests && !test_knob(zeroed_again);
}

void dcd_zeroing_failed(struct dcd_engine *e, unsigned long took)
{
	spin_lock(&e->lock);
	e->wipes.zeroing_until = jiffies + min_t(unsigned long, LATE_RESTS * took, LATE_MOST);
	spin_unlock(&e->lock);
}

/* Is none of these wiped now? */
static bool rests(struct dcd_engine *e, bool discard, u64 granule)
{
	struct dcd_wipes *w = &e->wipes;

	w->rests = w->rests && time_before(jiffies, e->bad.next);
	return w->hangs || (!discard && w->rests) ||
	       (e->sweep.past_log && time_before(jiffies, w->failed_until)) ||
	       (dcd_stuck_left(e) < granule && granule <= dcd_stuck_most(e));
}

enum dcd_load_kind dcd_zeroes_part(struct dcd_engine *e, struct dcd_place *p, u64 oldest,
				   struct dcd_moment *m)
{
	bool discard = p->discard && dcd_discards(e);
	u64 granule = GRANULE, first = 0, piece = e->wipes.piece, end = p->last + 1;
	bool rest, small, wipes;
	u64 over;

	if (discard)
		granule = granule_of(e, &first);
	if (e->sweep.past_log && e->wipes.again >= dcd_zeroes_past_most(e))
		m->all = true;
	rest = rests(e, discard, granule);
	piece = min(piece, discard ? dcd_stuck_left(e) : div_u64(dcd_stuck_left(e), ZEROINGS));
	piece = max(piece - behind(piece, granule, 0), granule);
	over = behind(p->sector, granule, first);
	wipes = m->any || m->all || end - p->sector < dcd_moment_short(e);
	if (!discard && granule > dcd_stuck_most(e))
		over = granule;
	else if (over)	/* to the next boundary, or all of it */
		end = min(end, p->sector + granule - over);
	else if (end - p->sector >= granule)
		end -= behind(end, granule, first);
	small = over || end - p->sector < granule;
	if ((small && dcd_moment_fills(e, m)) ||
	    (rest && (e->wipes.no_room || (e->sweep.past_log && m->all)))) {
		p->last = end - 1;
		cut(p, dcd_fill_most(e));
		return DCD_LOAD_FILL;
	}
	if (!small && !rest && wipes && dcd_moment_has(m, e->wipes.us ?: DCD_MOMENT_US)) {
		p->last = end - 1;
		cut(p, piece);
		return discard ? DCD_LOAD_DISCARD : DCD_LOAD_WIPE;
	}
	/* All of it, or there would be more pieces. */
	cut(p, AGAIN_MOST - behind(AGAIN_MOST, granule, 0));
	if (e->sweep.past_log)
		e->wipes.again++;
	else if (rest && !dcd_stuck_again(e, oldest))
		return DCD_LOAD_LEFT;
	return DCD_LOAD_AGAIN;
}

/* A piece takes a moment, and one that would take less becomes longer. */
static void learn(struct dcd_wipes *w, u64 sectors, u64 us)
{
	w->us = max(w->us ? (3 * w->us + us) / 4 : us, 1ULL);	/* 0: nobody knows */
	if (us > SLOW_US)
		w->piece = max(w->piece / 2, PIECE_LEAST);
	else if (us < QUICK_US && sectors >= w->piece)
		w->piece = min(w->piece * 2, PIECE_MOST);
}

static const char *name_of(enum dcd_load_kind kind)
{
	return kind == DCD_LOAD_DISCARD ? "a discard" : "a zeroing";
}

static bool is_waited_for(const struct dcd_engine *e, enum dcd_load_kind kind, u64 sectors)
{
	if (kind == DCD_LOAD_WIPE)
		return test_knob(zeroing_waits);
	return sectors > dcd_stuck_most(e) || test_knob(discard_waits);
}

static void begin(struct dcd_engine *e, enum dcd_load_kind kind, const struct dcd_place *p)
{
	struct dcd_wipes *w = &e->wipes;

	w->kind = kind;
	w->first = p->sector;
	w->last = p->last;
	w->since = jiffies;
	w->flushes_failed = e->lates.flushes_failed;
	w->done = w->first;
	w->n = 0;
	w->error = 0;
	spin_lock(&e->lock);
	w->under_way = true;
	spin_unlock(&e->lock);
	queue_work(e->wipe_wq, &w->work);
}

/* Nobody waits for it any more. False: it has returned. */
static bool leave(struct dcd_engine *e, u64 sectors)
{
	struct dcd_wipes *w = &e->wipes;
	bool left;

	spin_lock(&e->lock);
	left = w->under_way;
	WRITE_ONCE(w->hangs, left);
	spin_unlock(&e->lock);
	if (!left || test_knob(discard_unheld))
		dcd_stuck_release(e, w->first);
	if (!left)
		return false;
	w->piece = max(w->piece / 2, PIECE_LEAST);
	dcd_count(e, w->kind == DCD_LOAD_DISCARD ? DCD_N_DISCARDS_HUNG : DCD_N_ZEROINGS_HUNG, 1);
	trace_dcd_late(e, w->first, 1);
	pr_warn_ratelimited("dcd: %s: the data disk %pg doesn't return from %s of %llu sectors at %llu; what is written there stays in the log until it does\n",
			    e->name, e->data.bdev, name_of(w->kind), sectors, w->first);
	return true;
}

static int do_or_hold(struct dcd_engine *e, enum dcd_load_kind kind, const struct dcd_place *p)
{
	u64 sectors = p->last - p->sector + 1;
	struct dcd_wipes *w = &e->wipes;
	bool waits = is_waited_for(e, kind, sectors);

	/* What else is late may have taken what room there was. */
	if (!waits && dcd_stuck_left(e) < sectors)
		return -EINPROGRESS;
	begin(e, kind, p);
	if (!waits && !wait_event_timeout(e->quiet, !dcd_wipes_under_way(e), PATIENCE) &&
	    dcd_stuck_hold(e, p) && leave(e, sectors))
		return -EINPROGRESS;
	wait_event_idle(e->quiet, !dcd_wipes_under_way(e));
	return w->error;
}

/* So it isn't asked again; any other error says that the disk fails, or is away. */
static bool is_refusal(int error)
{
	return error == -EOPNOTSUPP || error == -EREMOTEIO || test_knob(any_refuses);
}

/* A disk that is @written meanwhile isn't away. */
static bool never_discards(struct dcd_engine *e, int error, bool written)
{
	return is_refusal(error) || (written && ++e->wipes.undiscarded >= UNDISCARDED);
}

static void cannot_discard(struct dcd_engine *e, int error)
{
	pr_warn("dcd: %s: the data disk %pg can't discard: error %d; it is written instead\n",
		e->name, e->data.bdev, error);
	e->wipes.no_discard = true;
}

/* What was wiped is durable, and is forgotten where the index has nothing but zeroes. */
static void forget_wiped(struct dcd_engine *e, u64 target)
{
	struct dcd_wipes *w = &e->wipes;
	bool only_discards = w->kind == DCD_LOAD_DISCARD && !w->to_zeroes;
	u64 from = w->first;
	unsigned int i;

	for (i = 0; i <= w->n && from < w->done; i++) {
		u64 end = i < w->n ? w->bad[i].first : w->done;

		while (from < end && dcd_batch_zeroes(e, e->batch, &from, end, target,
						      only_discards))
			if (dcd_destage_forget(e, e->batch, target))
				return;
		from = i < w->n ? w->bad[i].last + 1 : from;
	}
}

static u64 bad_sectors(const struct dcd_wipes *w)
{
	unsigned int i;
	u64 n = 0;

	for (i = 0; i < w->n; i++)
		n += w->bad[i].last - w->bad[i].first + 1;
	return n;
}

sector_t dcd_wipe_bad(struct dcd_engine *e)
{
	struct dcd_wipes *w = &e->wipes;
	sector_t sectors = 0;
	unsigned int i;

	for (i = 0; i < w->n; i++) {
		struct dcd_place p = {
			.sector = w->bad[i].first,
			.last = w->bad[i].last,
			.zero = true,
		};

		if (!dcd_stuck_add(e, &p, w->error))
			break;
		sectors += p.last - p.sector + 1;
	}
	if (time_after(jiffies, w->since + DCD_LATE)) {
		dcd_stuck_took_so_long(e, jiffies - w->since);
		w->rests = true;
	}
	return sectors;
}

/* It has returned with an error, and nobody has waited for that. */
static void failed(struct dcd_engine *e)
{
	struct dcd_wipes *w = &e->wipes;

	if (w->error == -ENOMEM)
		return;
	wipe_failed(e, w->error);
	if (w->kind == DCD_LOAD_DISCARD &&
	    never_discards(e, w->error, dcd_stuck_others_since(e, w->first, w->since)))
		cannot_discard(e, w->error);
	else if (w->kind == DCD_LOAD_DISCARD)
		dcd_data_failed(e, w->error);
	else if (w->n && (!dcd_stuck_others_since(e, w->bad[0].first, w->since) ||
			  dcd_wipe_bad(e) < bad_sectors(w)))
		dcd_data_failed(e, w->error);
}

void dcd_wipes_look(struct dcd_engine *e, const struct dcd_mark *now)
{
	struct dcd_wipes *w = &e->wipes;
	u64 good;

	if (!w->hangs || dcd_wipes_under_way(e))
		return;
	WRITE_ONCE(w->hangs, false);
	dcd_stuck_release(e, w->first);
	trace_dcd_destage(e, w->first, w->last - w->first + 1, w->error);
	pr_info_ratelimited("dcd: %s: the data disk %pg has returned from %s\n", e->name,
			    e->data.bdev, name_of(w->kind));
	good = w->done - w->first - bad_sectors(w);
	if (good && dcd_late_lasts(e, w->flushes_failed) && !dcd_destage_flush(e)) {
		w->all += good;
		dcd_count(e, DCD_N_WIPED_SECTORS, good);
		if (w->kind == DCD_LOAD_DISCARD)
			dcd_count(e, DCD_N_DISCARDED_SECTORS, good);
		forget_wiped(e, now->target);
	}
	if (w->error)
		failed(e);
}

int dcd_wipe(struct dcd_engine *e, enum dcd_load_kind kind, const struct dcd_place *p)
{
	sector_t sectors = p->last - p->sector + 1;
	ktime_t began = ktime_get();
	int r, discard = 0;

	if (kind == DCD_LOAD_DISCARD) {
		r = do_or_hold(e, kind, p);
		if (r == -EINPROGRESS)
			return r;
		if (r && r != -ENOMEM) {
			discard = r;
			kind = DCD_LOAD_WIPE;
		} else if (!r) {
			e->wipes.undiscarded = 0;
			dcd_count(e, DCD_N_DISCARDED_SECTORS, sectors);
		}
	}
	if (kind == DCD_LOAD_WIPE)
		r = do_or_hold(e, kind, p);
	if (discard && never_discards(e, discard, !r))
		cannot_discard(e, discard);
	wipe_failed(e, r);
	if (!r)
		learn(&e->wipes, sectors, ktime_us_delta(ktime_get(), began));
	return r;
}
