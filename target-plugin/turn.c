// SPDX-License-Identifier: GPL-2.0-only
/* See turn.h. */
#include <linux/compiler.h>
#include <linux/math64.h>

#include "turn.h"

#define LOAD_US_MOST	(10ULL * 1000 * 1000)
#define LOADS_MOST	0x7fffffffULL
#define ONE		0x10000ULL	/* of fixed point fractions */
#define UNITS		8		/* what is learned is in 2^-8 us */
#define FORGET		2048		/* loads; so many new ones count half */

static u64 at_most(u64 n, u64 most)
{
	return n < most ? n : most;
}

static unsigned int slice_of(const struct dcd_turn *t, u64 sector)
{
	return (unsigned int)at_most(div64_u64(sector, t->slice), DCD_SLICES - 1);
}

static unsigned int log2_of(u64 distance)
{
	unsigned int n = 0;

	while ((distance >>= 1) && n < DCD_DISTANCES - 1)
		n++;
	return n;
}

void dcd_turn_init(struct dcd_turn *t, u64 sectors)
{
	*t = (struct dcd_turn){ .slice = div_u64(sectors, DCD_SLICES) + 1 };
}

void dcd_turn_count(struct dcd_turn *t, u64 sector, u64 last, bool more)
{
	u32 *loads = &t->loads[slice_of(t, sector)];
	u32 n = (u32)at_most(div_u64(last - sector, DCD_LOAD_SECTORS) + 1, LOADS_MOST);

	/* Who foresees reads it meanwhile. */
	WRITE_ONCE(*loads, more ? *loads + n : *loads - n);
}

void dcd_turn_learn(struct dcd_turn *t, u64 sectors, u32 loads, u64 us)
{
	u64 *known, each, n = at_most(loads, LOADS_MOST);

	if (!n)
		return;
	known = &t->us[log2_of(div64_u64(sectors, n))];
	each = at_most(div64_u64(us, n) + 1, LOAD_US_MOST) << UNITS;
	*known = *known ? div64_u64(*known * FORGET + each * n, FORGET + n) : each;
}

/*
 * us of one of so many loads on a way of so many sectors, if anything is known: from the
 * next shorter distance, but not more than the next longer one.
 */
static u64 load_us(const struct dcd_turn *t, u64 sectors, u64 loads)
{
	int distance = (int)log2_of(div64_u64(sectors, loads)), i;
	u64 us = LOAD_US_MOST << UNITS;

	for (i = distance; i < DCD_DISTANCES; i++)
		if (t->us[i]) {
			us = t->us[i];
			break;
		}
	for (i = distance; i >= 0; i--) {
		u64 shorter = t->us[i];

		if (!shorter)
			continue;
		for (; i < distance; i++)
			shorter += div_u64(shorter * DCD_TURN_DEARER, 100);
		us = at_most(us, shorter);
		break;
	}
	return us >> UNITS;
}

/* Sector where a slice begins. */
static u64 begin_of(const struct dcd_turn *t, unsigned int slice)
{
	return slice < DCD_SLICES ? at_most(slice * t->slice, t->whole) : t->whole;
}

bool dcd_turn_foresee(struct dcd_turn *t, u64 sectors)
{
	bool known = true;
	unsigned int i;

	t->whole = sectors;
	for (i = 0; i < DCD_SLICES; i++) {
		u64 loads = at_most(READ_ONCE(t->loads[i]), LOADS_MOST);
		u64 length = begin_of(t, i + 1) - begin_of(t, i);
		u64 us = loads ? load_us(t, length, loads) : 0;

		if (us == LOAD_US_MOST)
			known = false;
		t->until[i + 1] = t->until[i] + loads * us;
	}
	return known;
}

/* us from the disk's beginning to @sector. */
static u64 until(const struct dcd_turn *t, u64 sector)
{
	unsigned int slice = slice_of(t, sector);
	u64 begin = begin_of(t, slice), length = begin_of(t, slice + 1) - begin;
	u64 us = t->until[slice + 1] - t->until[slice], part = sector - begin;

	if (sector >= t->whole)
		return t->until[DCD_SLICES];
	while (length >> 40) {
		length >>= 1;
		part >>= 1;
	}
	part = at_most(div64_u64(part * ONE, length), ONE);
	return t->until[slice] + (us >> 16) * part + ((us & (ONE - 1)) * part >> 16);
}

u64 dcd_turn_us(const struct dcd_turn *t, u64 sector, u64 sectors)
{
	u64 from = until(t, sector), end = sector + at_most(sectors, t->whole);

	if (end <= t->whole)
		return until(t, end) - from;
	return t->until[DCD_SLICES] - from + until(t, end - t->whole);
}
