// SPDX-License-Identifier: GPL-2.0-only
#include "engine.h"

#define GRANULE		((64ULL << 10) >> SECTOR_SHIFT)
#define PIECE_FIRST	((4ULL << 20) >> SECTOR_SHIFT)
#define PIECE_LEAST	((1ULL << 20) >> SECTOR_SHIFT)
#define PIECE_MOST	((64ULL << 20) >> SECTOR_SHIFT)	/* the read cache looks for each page */
#define FILL_MOST	((1ULL << 20) >> SECTOR_SHIFT)
#define AGAIN_MOST	BIT_ULL(31)	/* an entry's */
#define QUICK_US	5000
#define SLOW_US		50000
#define MOMENT_US	30000

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

void dcd_wipes_init(struct dcd_engine *e)
{
	e->wipes.piece = PIECE_FIRST;
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

enum dcd_load_kind dcd_zeroes_part(const struct dcd_engine *e, struct dcd_place *p,
				   unsigned int wipes)
{
	bool discard = p->discard && dcd_discards(e);
	u64 granule = GRANULE, first = 0, piece = e->wipes.piece, end = p->last + 1;
	u64 over, least = discard ? 0 : short_one(e);

	if (discard) {
		granule = max(bdev_discard_granularity(e->data.bdev) >> SECTOR_SHIFT, 1U);
		first = bdev_discard_alignment(e->data.bdev) >> SECTOR_SHIFT;
		if (first >= granule)
			first = 0;
		piece = max(piece - behind(piece, granule, 0), granule);
	}
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
	if (wipes) {
		cut(p, piece);
		return discard ? DCD_LOAD_DISCARD : DCD_LOAD_WIPE;
	}
	cut(p, AGAIN_MOST - behind(AGAIN_MOST, granule, 0));
	return DCD_LOAD_AGAIN;
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

int dcd_wipe(struct dcd_engine *e, enum dcd_load_kind kind, const struct dcd_place *p)
{
	struct block_device *bdev = e->data.bdev;
	sector_t sectors = p->last - p->sector + 1;
	ktime_t began = ktime_get();
	int r;

	if (kind == DCD_LOAD_DISCARD) {
		r = blkdev_issue_discard(bdev, p->sector, sectors, GFP_NOIO);
		if (r && r != -ENOMEM) {
			pr_warn("dcd: %s: the data disk %pg can't discard: error %d; it is written instead\n",
				e->name, bdev, r);
			e->wipes.no_discard = true;
			kind = DCD_LOAD_WIPE;
		} else if (!r) {
			dcd_count(e, DCD_N_DISCARDED_SECTORS, sectors);
		}
	}
	if (kind == DCD_LOAD_WIPE)
		r = blkdev_issue_zeroout(bdev, p->sector, sectors, GFP_NOIO, 0);
	if (!r)
		learn(&e->wipes, sectors, ktime_us_delta(ktime_get(), began));
	return r;
}
