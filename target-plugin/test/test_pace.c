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
					if (dcd_pace_delay(&l, &s, n[c]) > DCD_PACE_MAX_US ||
					    dcd_pace_share(&l, n[c], n[d], n[a]) > DCD_PACE_MAX_US)
						expect(false, "beyond the longest delay", a);
					if (dcd_pace_room(n[a], n[b]) > n[b])
						expect(false, "more room than there is", a);
					for (int f = 0; f < all; f++) {
						struct dcd_turn t = { n[a], n[b], n[c], n[d],
								      n[f], n[a] };

						if (dcd_turn_us(&t) > 3600000000ULL)
							expect(false, "beyond an hour", a);
					}
				}
}

/* Writes go to any of the bins of a disk, and a ring has them until all bins were emptied. */
#define BINS 1000
#define MARKS 128
#define RING 30000		/* writes */
#define BATCH 512
#define EMPTIED 500.0		/* a second */

struct turns {
	double now, worked, begun[MARKS];
	unsigned long bin, batch, live[BINS], head, tail, bins, nmarks, mark_bins[MARKS];
	unsigned long targets[MARKS], fullest;
	double when[2];
	u64 until[2];
	bool foreseen;
	double bin_begun, bin_end;
	unsigned int uneven;	/* up to so many percent slower or faster, by chance, for a while */
	u64 chance;
	unsigned long lump;	/* less than so many at a time never come back */
};

static void begin_bin(struct turns *t)
{
	double x;

	if (!(t->bins % 10))
		t->chance = t->chance * 6364136223846793005ULL + 1442695040888963407ULL;
	x = (double)(t->chance >> 33) / (1U << 30) - 1;
	t->bin_begun = t->now;
	t->bin_end = t->now + (double)t->live[t->bin] / EMPTIED * (1 + x * t->uneven / 100);
}

static u64 room(const struct turns *t, unsigned long target)
{
	return dcd_pace_room(t->head - target, RING);
}

/* As admission.c does it. */
static void foresee(struct turns *t)
{
	struct dcd_turn turn = { .us = (u64)((t->worked - t->begun[0]) * 1e6), .whole = BINS,
				 .gone = t->bins - t->mark_bins[0], .used = t->head - t->tail,
				 .room = room(t, t->tail) };
	unsigned long free = t->tail, i;
	double whole, worst = -1, mean = 0;

	t->foreseen = t->nmarks && turn.gone;
	if (!t->foreseen)
		return;
	for (i = 0; i < t->nmarks; i++)
		mean += (double)(t->targets[i] - t->tail) / (double)turn.gone *
			(double)((i + 1 < t->nmarks ? t->mark_bins[i + 1] : t->bins) -
				 t->mark_bins[i]);
	turn.mean = (u64)mean;
	whole = (double)dcd_turn_us(&turn) / 1e6;
	for (i = 0; i < t->nmarks; i++) {
		double left = t->begun[i] + whole - t->worked;
		double each = left / (double)(room(t, free) + 1);

		if (each > worst) {
			worst = each;
			t->when[0] = t->now + (left > 0 ? left : 0);
			t->until[0] = free;
		}
		free = t->targets[i];
	}
	t->when[1] = t->now + whole;
	t->until[1] = free;
}

static void bin_done(struct turns *t)
{
	unsigned long n = 0, emptied;

	t->now = t->bin_end;
	t->worked += t->now - t->bin_begun;
	emptied = t->live[t->bin];
	t->live[t->bin] = 0;
	t->bin = (t->bin + 1) % BINS;
	t->bins++;
	t->batch += emptied;
	if (t->batch < BATCH)
		return;
	t->batch = 0;
	while (n < t->nmarks && t->mark_bins[n] + BINS <= t->bins)
		n++;
	if (n && t->targets[n - 1] - t->tail < t->lump)
		n = 0;
	if (n)
		t->tail = t->targets[n - 1];
	t->nmarks -= n;
	for (unsigned long i = 0; i < t->nmarks; i++) {
		t->begun[i] = t->begun[i + n];
		t->mark_bins[i] = t->mark_bins[i + n];
		t->targets[i] = t->targets[i + n];
	}
	foresee(t);
	t->begun[t->nmarks] = t->worked;
	t->mark_bins[t->nmarks] = t->bins;
	t->targets[t->nmarks++] = t->head;
}

static u64 delay_us(const struct turns *t)
{
	struct dcd_level l = { .used = t->head - t->tail, .size = RING, .low = 50, .high = 60 };
	struct dcd_level last = { .used = l.used, .size = RING, .low = 95, .high = 98 };
	struct dcd_speed speed = { (u64)(EMPTIED * WRITE) << 8 };
	u64 us;

	if (!t->foreseen)
		return dcd_pace_delay(&l, &speed, WRITE);
	us = dcd_pace_delay(&last, &speed, WRITE);
	for (int i = 0; i < 2; i++) {
		double left = (t->when[i] - t->now) * 1e6;
		u64 n = dcd_pace_share(&l, left > 0 ? (u64)left : 0, room(t, t->until[i]) * WRITE,
				       WRITE);

		us = n > us ? n : us;
	}
	return us;
}

/* Half of the ring is written in a moment: a turn later it comes back in a moment. */
static void lumps(double seconds, unsigned int uneven, unsigned long lump)
{
	struct turns t = { .uneven = uneven, .lump = lump };
	double next = 0, longest = 0;
	unsigned long settled = 0;
	double levels = 0;

	while (t.now < seconds) {
		u64 us;

		if (t.head > RING * 3 / 10 && t.bin_end <= next) {
			if (t.bin_end)
				bin_done(&t);
			else
				t.targets[t.nmarks++] = t.head;
			begin_bin(&t);
			continue;
		}
		t.now = next;
		t.live[(t.head * 48271 % 0x7fffffff) % BINS]++;
		t.head++;
		if (t.head - t.tail > t.fullest)
			t.fullest = t.head - t.tail;
		us = delay_us(&t);
		if (us > longest)
			longest = (double)us;
		if (t.now > seconds / 2) {
			settled++;
			levels += (double)(t.head - t.tail) * 100 / RING;
		}
		next = t.now + (us > 50 ? (double)us : 50) / 1e6;
	}
	printf("room comes back in lumps, once a turn, uneven by %u %%, %lu at least:\n",
	       uneven, lump);
	expect(t.fullest < RING, "  never full, percent", t.fullest * 100.0 / RING);
	expect(levels > 80.0 * (double)settled, "  the room is used, percent",
	       levels / (double)settled);
	expect(longest < 8e6 / EMPTIED, "  longest delay, in times of emptying a write",
	       longest * EMPTIED / 1e6);
	expect((double)settled > 0.95 * EMPTIED * seconds / 2,
	       "  admitted for each that is emptied",
	       (double)settled / (EMPTIED * seconds / 2));
}

static void turns_are_foreseen(void)
{
	struct dcd_turn t = { .us = 3000000, .gone = 25, .whole = 100, .mean = 10, .used = 10 };
	struct dcd_level l = { .used = 60, .size = 100, .low = 50, .high = 60 };

	expect(dcd_turn_us(&t) == 12000000, "an even turn, s", (double)dcd_turn_us(&t) / 1e6);
	t.used = 20;
	t.room = 20;
	expect(dcd_turn_us(&t) == 30000000, "a denser rest, s", (double)dcd_turn_us(&t) / 1e6);
	t.gone = 100;
	expect(dcd_turn_us(&t) == 3000000, "its end, s", (double)dcd_turn_us(&t) / 1e6);
	expect(dcd_pace_share(&l, 4000000, 8000, 8) == 4000, "shared evenly, us",
	       (double)dcd_pace_share(&l, 4000000, 8000, 8));
	l.used = 55;
	expect(dcd_pace_share(&l, 4000000, 8000, 8) / 10 == 199, "half of it half way up, us",
	       (double)dcd_pace_share(&l, 4000000, 8000, 8));
	l.used = 50;
	expect(!dcd_pace_share(&l, 4000000, 0, 8), "a burst isn't slowed, us",
	       (double)dcd_pace_share(&l, 4000000, 0, 8));
}

int main(void)
{
	turns_are_foreseen();
	lumps(900, 0, 0);
	lumps(3600, 30, RING / 64);
	lumps(3600, 30, RING / 32);
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
