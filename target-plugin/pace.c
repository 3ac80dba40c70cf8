// SPDX-License-Identifier: GPL-2.0-only
/* See pace.h. */
#include <linux/math64.h>

#include "pace.h"

#define SECOND		1000000ULL	/* us */
#define FORGET_US	(4 * SECOND)	/* a measurement of that length counts half */
#define LONGEST_US	(3600 * SECOND)
#define MOST_SECTORS	0x80000000ULL
#define ONE		0x10000ULL	/* of fixed point fractions */
#define STEEPEST	(64 * ONE)
#define RESERVE		20		/* the last part of it */

static u64 at_most(u64 n, u64 most)
{
	return n < most ? n : most;
}

void dcd_speed_add(struct dcd_speed *s, u64 sectors, u64 us)
{
	u64 now;

	us = at_most(us, LONGEST_US);
	sectors = at_most(sectors, MOST_SECTORS);
	if (!us || !sectors)
		return;
	now = div64_u64((sectors << 8) * SECOND, us);
	if (!now)
		now = 1;
	/* At most 2^59, and the weights together at most 2^32. */
	if (s->rate) {
		u64 sum = us + FORGET_US;

		now = div64_u64(now, sum) * us + div64_u64(now % sum * us, sum) +
		      div64_u64(s->rate, sum) * FORGET_US +
		      div64_u64(s->rate % sum * FORGET_US, sum);
	}
	s->rate = now ? now : 1;
}

/* How full, in fractions of ONE. */
static u64 fullness(const struct dcd_level *l)
{
	u64 used = at_most(l->used, l->size), size = l->size;

	while (size >> 47) {
		size >>= 1;
		used >>= 1;
	}
	return size ? div64_u64(used * ONE, size) : ONE;
}

static u64 percent_of_one(unsigned int percent)
{
	return div64_u64(percent * ONE, 100);
}

bool dcd_level_above(const struct dcd_level *l, unsigned int percent)
{
	return fullness(l) > percent_of_one(percent);
}

u64 dcd_pace_delay(const struct dcd_level *l, const struct dcd_speed *s, u64 sectors)
{
	u64 low = percent_of_one(l->low), high = percent_of_one(l->high), x = fullness(l);
	u64 slope = 0, steep = 0, us = DCD_PACE_MAX_US;

	if (x <= low)
		return 0;
	if (high > low)
		slope = div64_u64((x - low) * ONE, high - low);
	if (x > high)
		steep = x < ONE ? div64_u64((x - high) * ONE, ONE - x) : STEEPEST;
	if (s->rate) {
		us = div64_u64((at_most(sectors, MOST_SECTORS) << 8) * SECOND, s->rate);
		us = at_most(us, DCD_PACE_MAX_US);
		return at_most((us * at_most(slope + steep, STEEPEST)) >> 16, DCD_PACE_MAX_US);
	}
	return at_most((us * at_most(steep, ONE)) >> 16, DCD_PACE_MAX_US);
}

u64 dcd_pace_room(u64 used, u64 size)
{
	u64 left = size - at_most(used, size), reserve = div64_u64(size, RESERVE);

	return left > 2 * reserve ? left - reserve : left / 2;
}

u64 dcd_pace_share_most(const struct dcd_level *l, u64 us, u64 room, u64 sectors, u64 most)
{
	u64 low = percent_of_one(l->low), high = percent_of_one(l->high), x = fullness(l);
	u64 slope = ONE;

	if (x <= low)
		return 0;
	if (x < high)
		slope = div64_u64((x - low) * ONE, high - low);
	us = at_most(us, LONGEST_US) * at_most(sectors, MOST_SECTORS);
	us = at_most(div64_u64(us, room ? room : 1), most);
	return us * slope >> 16;
}

u64 dcd_pace_share(const struct dcd_level *l, u64 us, u64 room, u64 sectors)
{
	return dcd_pace_share_most(l, us, room, sectors, DCD_PACE_MAX_US);
}
