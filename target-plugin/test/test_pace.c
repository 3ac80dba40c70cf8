// SPDX-License-Identifier: GPL-2.0-only
/* Writers, and something that is emptied more slowly: what the delays make of it. */
#include <stdio.h>
#include <stdlib.h>

#include "pace.h"

#define SIZE (1ULL << 18)	/* sectors */
#define WRITE 8

static unsigned int failures;

static void expect(bool ok, const char *what, double got)
{
	if (!ok)
		failures++;
	printf("%s%s: %g\n", ok ? "" : "WRONG  ", what, got);
}

/*
 * @seconds of writes as fast as they are admitted (the wire takes 50 us for each).
 * Emptied is @rate sectors a second, what a write brings needs @need percent of
 * its sectors there; the room comes back in @portion sectors at a time.
 */
static void saturate(const char *what, double seconds, u64 rate, unsigned int need, u64 portion)
{
	struct dcd_level l = { .size = SIZE, .low = 50, .high = 75 };
	struct dcd_speed speed = { 0 };
	double now = 0, emptied = 0, filled = 0, fullest = 0, longest = 0, settled = 0, before = 0;
	double learnt = 0, steepest = 1;
	unsigned long late = 0;

	while (now < seconds) {
		u64 us = dcd_pace_delay(&l, &speed, WRITE);
		double wait = us > 50 ? (double)us : 50;

		if (now > seconds / 2) {
			settled += WRITE;
			if (wait > longest)
				longest = wait;
			if (us)
				late++;
			if (before > 0 && wait / before > steepest)
				steepest = wait / before;
			before = wait;
		}
		now += wait / 1e6;
		filled += WRITE * need / 100.0;
		if (filled - emptied > fullest)
			fullest = filled - emptied;
		while (now - learnt > (double)portion / (double)rate) {
			learnt += (double)portion / (double)rate;
			emptied += (double)portion < filled - emptied ? (double)portion :
									  filled - emptied;
			dcd_speed_add(&speed, portion, (u64)(portion * 1000000.0 / (double)rate));
		}
		l.used = (u64)(filled - emptied);
	}
	printf("%s:\n", what);
	expect(fullest < SIZE, "  never full, percent", fullest * 100 / SIZE);
	expect(fullest > SIZE / 2, "  the room is used, percent", fullest * 100 / SIZE);
	settled *= need / 100.0 / (seconds / 2) / (double)rate;
	expect(settled > 0.95 && settled < 1.05, "  admitted for each that is emptied", settled);
	expect(late > 0, "  writes with a delay", (double)late);
	expect(longest < 3e6 * WRITE * need / 100 / (double)rate + 50,
	       "  longest delay, in times of emptying a write",
	       longest / (1e6 * WRITE * need / 100 / (double)rate));
	expect(steepest < 2, "  from one write to the next at most times", steepest);
}

static void no_delay_for_a_burst(void)
{
	struct dcd_level l = { .size = SIZE, .low = 50, .high = 75 };
	struct dcd_speed speed = { 0 };

	dcd_speed_add(&speed, 1000, 1000000);
	for (l.used = 0; l.used <= SIZE / 2; l.used += 64)
		if (dcd_pace_delay(&l, &speed, 128)) {
			expect(false, "a delay below the low watermark at", (double)l.used);
			return;
		}
}

static void grows_with_the_level(void)
{
	struct dcd_level l = { .size = SIZE, .low = 50, .high = 75 };
	struct dcd_speed known = { 0 }, unknown = { 0 };
	u64 last[2] = { 0 };

	dcd_speed_add(&known, 4000, 1000000);
	for (l.used = 0; l.used <= SIZE; l.used += 16) {
		u64 us[2] = { dcd_pace_delay(&l, &known, WRITE),
			      dcd_pace_delay(&l, &unknown, WRITE) };

		for (int i = 0; i < 2; i++) {
			if (us[i] < last[i] || us[i] > DCD_PACE_MAX_US)
				expect(false, "the delay falls at", (double)l.used);
			/* Near the end it is a hyperbola, and still no step. */
			if (l.used < SIZE * 99 / 100 && us[i] > last[i] + 100 + last[i] / 10)
				expect(false, "a step at", (double)l.used);
			last[i] = us[i];
		}
		if (l.used == SIZE * 3 / 4)
			expect(us[0] > 1990 && us[0] < 2010, "us at the high watermark, of 2000",
			       (double)us[0]);
		if (l.used <= SIZE * 3 / 4 && us[1])
			expect(false, "a delay by guess", (double)us[1]);
	}
}

static void speed_forgets(void)
{
	struct dcd_speed s = { 0 };

	dcd_speed_add(&s, 5000, 1000000);
	expect(s.rate == 5000 << 8, "the first is believed", (double)(s.rate >> 8));
	for (int i = 0; i < 60; i++)
		dcd_speed_add(&s, 1000, 1000000);
	expect(s.rate >> 8 >= 999 && s.rate >> 8 <= 1010, "and forgotten", (double)(s.rate >> 8));
	dcd_speed_add(&s, 0, 1000);
	dcd_speed_add(&s, 1000, 0);
	expect(s.rate >> 8 >= 999 && s.rate >> 8 <= 1010, "nothing teaches nothing",
	       (double)(s.rate >> 8));
}

static void any_arguments(void)
{
	static const u64 n[] = { 0, 1, 2, 99, 1ULL << 16, 1ULL << 31, 1ULL << 47, 1ULL << 63,
				 ~0ULL - 1, ~0ULL };
	const int all = sizeof(n) / sizeof(*n);

	for (int a = 0; a < all; a++)
		for (int b = 0; b < all; b++)
			for (int c = 0; c < all; c++)
				for (int d = 0; d < all; d++) {
					struct dcd_speed s = { 0 };
					struct dcd_level l = { n[a], n[b], 0, 99 };

					dcd_speed_add(&s, n[c], n[d]);
					dcd_speed_add(&s, n[d], n[c]);
					dcd_speed_add(&s, n[c], n[d]);
					if (dcd_pace_delay(&l, &s, n[c]) > DCD_PACE_MAX_US)
						expect(false, "beyond the longest delay", a);
				}
}

int main(void)
{
	no_delay_for_a_burst();
	grows_with_the_level();
	speed_forgets();
	any_arguments();
	saturate("each write needs what it brings", 600, 4000, 100, 64);
	saturate("half is overwritten", 600, 4000, 50, 64);
	saturate("room for twice its sectors", 600, 4000, 200, 64);
	saturate("a fast disk", 60, 100000, 100, 1024);
	saturate("room comes back in large portions", 600, 4000, 100, SIZE / 32);
	return failures ? 1 : 0;
}
