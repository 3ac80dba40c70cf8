// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"

#define CROWD_US	15000
#define DATA_LAST	HZ		/* so long ago they count as going on */
#define US_LEAST	100U
#define US_MOST		(1000 * 1000U)	/* of a load, whatever was measured */
#define SMALLS		4		/* parts of granules in a batch without data, */
#define SMALLS_EACH	2		/* and more for each load of data */
#define CROWD		75		/* percent of most_pieces(): more zeroes wait, */
#define SHARE_MOST	400U		/* percent that are foreseen */
#define SHARE		25		/* percent of what data take, at most */
#define WRITES		2		/* times as many: writes have it, which make two of one */
#define WRITES_LOW	50
#define WRITES_HIGH	90
#define OF_SLOTS	4		/* past the log pieces may be in such a part of NVRAM */
#define PAST_US		100000		/* a batch of wipes there */

TEST_KNOB(bool, zero_in_turn, "zeroes go to the data disk in the destager's turn, however long");
TEST_KNOB(bool, zeroes_crowd, "zeroes come in, however many pieces of them there are");
TEST_KNOB(bool, zeroes_alike, "where there are many, long zeroes and such as put pieces together wait, too");
TEST_KNOB(bool, zeroes_hold, "short pieces of zeroes are written in the destager's turn, however many");
TEST_KNOB(bool, moment_each, "each batch has a moment for wipes, however many there are and whoever waits");
TEST_KNOB(bool, zeroes_past, "past a dead log each round wipes all zeroes");

u64 dcd_zeroes_past_most(const struct dcd_engine *e)
{
	return (u64)READ_ONCE(e->nslots) / OF_SLOTS * dcd_table_places(e);
}

/*
 * In how many pieces zeroes may be, each a range of the index: half of its memory, and a quarter
 * of the log's tables. Where few writes come they have those for themselves, twice when they are
 * logged again, and the writes have the rest.
 */
static u64 most_pieces(const struct dcd_engine *e)
{
	u64 places = e->segments * dcd_table_places(e) / 4;

	if (READ_ONCE(e->log_dead) && e->keeps)
		places = min(places, dcd_zeroes_past_most(e));
	return max(min(places, div_u64(e->index_bytes, 2 * DCD_RANGE_BYTES)), 4ULL);
}

/* With so many of them, more zeroes wait. */
static u64 crowd(const struct dcd_engine *e)
{
	return most_pieces(e) * CROWD / 100;
}

/* How near that is: percent of the second half of the way. */
static unsigned int crowded(const struct dcd_engine *e)
{
	u64 most = crowd(e), from = most / 2, now = READ_ONCE(e->zeroes);

	return now <= from ? 0 : min(div64_u64((now - from) * 100, most - from), 100ULL);
}

bool dcd_zeroes_crowd(const struct dcd_engine *e)
{
	return crowded(e) > 0;
}

/* Percent. */
static unsigned int part_of(u64 n, u64 most)
{
	return div64_u64(min(n, most) * 100, most);
}

/* Twice as long as all would be, if there were so many of them that more wait. */
static u64 long_piece(const struct dcd_engine *e)
{
	return div64_u64(2 * e->data.sectors, crowd(e));
}

unsigned int dcd_zeroes_wait(struct dcd_engine *e, sector_t sector, sector_t last)
{
	u64 most = most_pieces(e), from = crowd(e), now = READ_ONCE(e->zeroes);

	if (READ_ONCE(e->closing) || READ_ONCE(e->stuck))
		return 0;
	if (now < from || READ_ONCE(e->leaving) || (READ_ONCE(e->log_dead) && !e->keeps) ||
	    test_knob(zeroes_crowd))
		return 0;
	if (!dcd_index_more_zeroes(e, sector, &last) && !test_knob(zeroes_alike))
		return 0;
	if (last - sector + 1 >= long_piece(e) && now < WRITES * most && !test_knob(zeroes_alike))
		return 0;
	return now >= WRITES * most ? DCD_ZEROES_STAY : part_of(now - from + 1, most - from);
}

struct dcd_level dcd_zeroes_level(const struct dcd_engine *e)
{
	return (struct dcd_level){
		.used = test_knob(zeroes_crowd) ? 0 : READ_ONCE(e->zeroes),
		.size = WRITES * most_pieces(e),
		.low = WRITES_LOW,
		.high = WRITES_HIGH,
	};
}

u64 dcd_moment_short(const struct dcd_engine *e)
{
	return div_u64(long_piece(e) * crowded(e), 100);
}

/* How long wipes may take beside data while the log is needed: percent of what those take. */
static unsigned int share_of(const struct dcd_engine *e)
{
	return dcd_leave_asked(e) ? SHARE : crowded(e) * SHARE / 100;
}

/* Writes have made so many that it is zeroes which slow them down, until there are fewer. */
static bool too_many(const struct dcd_engine *e)
{
	return 2 * READ_ONCE(e->zeroes) > 3 * most_pieces(e) && !test_knob(moment_each);
}

/* Is the destager at data, too? Else it is zeroes alone that the ring is tight by. */
static bool has_data(const struct dcd_engine *e)
{
	return time_before(jiffies, e->wipes.data_at + DATA_LAST);
}

struct dcd_moment dcd_zeroes_moment(struct dcd_engine *e, enum dcd_wiping wiping)
{
	bool some = wiping == DCD_WIPE_SOME, leaves = dcd_leave_asked(e);
	bool tight = some && has_data(e) && dcd_ring_tight(e) && !too_many(e) &&
		     !test_knob(moment_each);
	struct dcd_moment m = {
		.all = wiping == DCD_WIPE_ALL,
		.any = (some && !too_many(e)) || leaves,
		.us = too_many(e) ? CROWD_US : some && !tight ? DCD_MOMENT_US : e->wipes.owed,
		.us_each = div_u64((u64)e->wipes.load_us * (tight ? SHARE : share_of(e)), 100),
		.smalls = SMALLS,
	};

	if (e->sweep.past_log && wiping == DCD_WIPE_SOME) {
		m.us = PAST_US;
		m.ends = true;
	}
	if (test_knob(zeroes_hold)) {
		m.us = S64_MAX / 2;
		m.smalls = UINT_MAX / 2;
	}
	return m;
}

void dcd_moment_over(struct dcd_engine *e, const struct dcd_moment *m)
{
	e->wipes.owed = m->all ? 0 : min_t(s64, m->us, 0);
}

void dcd_moment_data(struct dcd_moment *m)
{
	m->us += m->us_each;
	m->smalls += SMALLS_EACH;
}

void dcd_zeroes_learn(struct dcd_engine *e, u32 loads, u64 us, u64 wiping)
{
	struct dcd_wipes *w = &e->wipes;
	u32 each = min_t(u64, div_u64(us, max(loads, 1U)), US_MOST);
	u32 share = min_t(u64, div64_u64(wiping * 100, max(us, 1ULL)), SHARE_MOST);

	if (!loads)
		return;
	w->data_at = jiffies;
	w->load_us = w->load_us ? (7 * w->load_us + each) / 8 : each;
	WRITE_ONCE(w->took, (7 * w->took + share) / 8);
}

u64 dcd_with_zeroes(const struct dcd_engine *e, u64 us)
{
	unsigned int share = share_of(e);

	if (share)
		share = max(share, READ_ONCE(e->wipes.took));
	return us + div_u64(us * share, 100);
}

/* Only where an entry in NVRAM counts for whoever starts then, and they needn't be gone. */
static bool stay_past_log(const struct dcd_engine *e)
{
	return e->keeps && !dcd_is_leaving(e) && !READ_ONCE(e->ending) && !test_knob(zeroes_past);
}

static enum dcd_wiping past_log(const struct dcd_engine *e)
{
	if (!stay_past_log(e))
		return DCD_WIPE_ALL;
	return READ_ONCE(e->data_failing) || 2 * READ_ONCE(e->nidle) > READ_ONCE(e->nslots) ?
	       DCD_WIPE_SOME : DCD_WIPE_NONE;
}

enum dcd_wiping dcd_zeroes_now(struct dcd_engine *e, bool urgent)
{
	if (e->wipes.no_room)
		return DCD_WIPE_ALL;
	if (e->sweep.past_log)
		return past_log(e);
	if (READ_ONCE(e->data_failing) || test_knob(zero_in_turn) || !urgent)
		return DCD_WIPE_ALL;
	/* The data disk can do it quickly, or it is they that the index, or the log, is full of. */
	if (dcd_discards(e) || !dcd_ring_pressed(e) || dcd_ring_of_zeroes(e))
		return DCD_WIPE_SOME;
	return DCD_WIPE_NONE;
}

bool dcd_moment_has(struct dcd_moment *m, u64 us)
{
	if (m->all)
		return true;
	if (m->us <= 0)
		return false;
	m->us -= us;
	return true;
}

bool dcd_moment_fills(const struct dcd_engine *e, struct dcd_moment *m)
{
	if (!m->all && !m->smalls)
		return dcd_moment_has(m, max(e->wipes.load_us, US_LEAST));
	m->smalls -= !m->all;
	return true;
}
