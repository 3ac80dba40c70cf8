// SPDX-License-Identifier: GPL-2.0-only
/* Writers, and something that is emptied more slowly: what the delays make of it. */
#include <stdio.h>
#include <stdlib.h>

#include "pace.h"
#include "turn.h"

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
				}
}

/* Writes go to any of the bins of a disk, and a ring has them until all bins were emptied. */
#define BINS 1000
#define MARKS 128
#define RING 30000		/* writes */
#define BATCH 512
#define EMPTIED 500.0		/* a second */

#define BIN (1ULL << 16)	/* sectors */

struct turns {
	struct dcd_turn turn;
	double now;
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
	unsigned long free = t->tail, used = t->head - t->tail, i;
	double worst = -1, more = (double)room(t, free) / 2 / (double)(used ? used : 1), whole;
	u64 at = t->bin * BIN;

	t->foreseen = dcd_turn_foresee(&t->turn, BINS * BIN) && t->nmarks;
	if (!t->foreseen)
		return;
	whole = (double)dcd_turn_us(&t->turn, at, BINS * BIN) / 1e6;
	for (i = 0; i < t->nmarks; i++) {
		u64 end = t->mark_bins[i] + BINS, bins = end > t->bins ? end - t->bins : 0;
		double way = (double)dcd_turn_us(&t->turn, at, bins * BIN) / 1e6;
		double left = way * (1 + more * way / (whole + 1e-6));
		double each = left / (double)(room(t, free) + 1);

		if (each > worst) {
			worst = each;
			t->when[0] = t->now + left;
			t->until[0] = free;
		}
		free = t->targets[i];
	}
	t->when[1] = t->now + whole * (1 + more);
	t->until[1] = free;
}

static void bin_done(struct turns *t)
{
	unsigned long n = 0, emptied;

	t->now = t->bin_end;
	emptied = t->live[t->bin];
	t->live[t->bin] = 0;
	dcd_turn_learn(&t->turn, BIN, (u32)emptied, (u64)((t->now - t->bin_begun) * 1e6));
	for (unsigned long i = 0; i < emptied; i++)
		dcd_turn_count(&t->turn, t->bin * BIN, t->bin * BIN, false);
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
		t->mark_bins[i] = t->mark_bins[i + n];
		t->targets[i] = t->targets[i + n];
	}
	foresee(t);
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

/* Where the next one goes: nine of ten to a tenth, if it is @hot. */
static unsigned long next_bin(const struct turns *t, bool hot)
{
	unsigned long n = t->head * 48271 % 0x7fffffff;

	return hot && n / BINS % 10 ? n % (BINS / 10) : n % BINS;
}

/* Half of the ring is written in a moment: a turn later it comes back in a moment. */
static void lumps(double seconds, unsigned int uneven, unsigned long lump, bool hot)
{
	struct turns t = { .uneven = uneven, .lump = lump };
	double next = 0, longest = 0;
	unsigned long settled = 0, written;
	double levels = 0;

	dcd_turn_init(&t.turn, BINS * BIN);
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
		written = next_bin(&t, hot);
		t.live[written]++;
		dcd_turn_count(&t.turn, written * BIN, written * BIN, true);
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
	printf("room comes back in lumps, once a turn, uneven by %u %%, %lu at least%s:\n",
	       uneven, lump, hot ? ", nine of ten from a tenth" : "");
	expect(t.fullest < RING, "  never full, percent", t.fullest * 100.0 / RING);
	expect(levels > 80.0 * (double)settled, "  the room is used, percent",
	       levels / (double)settled);
	expect(longest < 8e6 / EMPTIED, "  longest delay, in times of emptying a write",
	       longest * EMPTIED / 1e6);
	expect((double)settled > 0.95 * EMPTIED * seconds / 2,
	       "  admitted for each that is emptied",
	       (double)settled / (EMPTIED * seconds / 2));
}

static void a_way_takes_what_waits_there(void)
{
	const u64 disk = 1ULL << 30, tenth = disk / 10;
	struct dcd_turn t;
	bool learned;

	dcd_turn_init(&t, disk);
	dcd_turn_count(&t, 0, 7, true);
	expect(!dcd_turn_foresee(&t, disk), "nothing is learned yet, us", 0);
	/* Far from each other: 10 ms each; near: 1 ms. */
	dcd_turn_learn(&t, 1 << 26, 4, 40000);
	dcd_turn_learn(&t, 1 << 16, 64, 64000);
	for (u64 i = 0; i < 9000; i++)
		dcd_turn_count(&t, i * tenth / 9000, i * tenth / 9000 + 7, true);
	for (u64 i = 1; i < 100; i++)
		dcd_turn_count(&t, i * disk / 100, i * disk / 100 + 7, true);
	learned = dcd_turn_foresee(&t, disk);
	expect(learned, "learned, s", (double)dcd_turn_us(&t, 0, disk) / 1e6);
	expect(dcd_turn_us(&t, 0, 2 * tenth) > 8 * dcd_turn_us(&t, 2 * tenth, 8 * tenth),
	       "a tenth has nine tenths of the turn, s",
	       (double)dcd_turn_us(&t, 0, 2 * tenth) / 1e6);
	expect(dcd_turn_us(&t, 5 * tenth, 7 * tenth) ==
	       dcd_turn_us(&t, 5 * tenth, disk - 5 * tenth) +
	       dcd_turn_us(&t, 0, 12 * tenth - disk), "round the end of the disk, s",
	       (double)dcd_turn_us(&t, 5 * tenth, 7 * tenth) / 1e6);
	for (u64 i = 0; i < 9000; i++)
		dcd_turn_count(&t, i * tenth / 9000, i * tenth / 9000 + 7, false);
	(void)dcd_turn_foresee(&t, disk);
	expect(dcd_turn_us(&t, 0, disk) < 99 * 20000, "what is gone counts no longer, s",
	       (double)dcd_turn_us(&t, 0, disk) / 1e6);
	dcd_turn_count(&t, disk - 8, disk + (1 << 20), true);
	(void)dcd_turn_foresee(&t, disk + (1 << 20) + 1);
	expect(dcd_turn_us(&t, 0, 2 * disk) > 8192 * 1000, "the disk has grown, s",
	       (double)dcd_turn_us(&t, 0, 2 * disk) / 1e6);
}

static void any_turn(void)
{
	static const u64 n[] = { 0, 1, 2, 99, 1ULL << 16, 1ULL << 31, 1ULL << 47, (1ULL << 57) - 1 };
	const int all = sizeof(n) / sizeof(*n);

	for (int a = 0; a < all; a++)
		for (int b = 0; b < all; b++)
			for (int c = 0; c < all; c++) {
				struct dcd_turn t;
				u64 whole;

				dcd_turn_init(&t, n[a]);
				for (int i = 0; i < DCD_SLICES; i++)
					t.loads[i] = (u32)n[c];
				dcd_turn_learn(&t, n[b], (u32)n[c], n[a]);
				dcd_turn_learn(&t, n[a], 1, n[b]);
				(void)dcd_turn_foresee(&t, n[a]);
				whole = dcd_turn_us(&t, 0, n[a]);
				if (whole > 1ULL << 62)
					expect(false, "longer than anything", (double)whole);
				if (n[b] <= n[a] && dcd_turn_us(&t, n[b], n[c]) > whole + 1)
					expect(false, "a part is longer than the whole", a);
			}
}

static void turns_are_foreseen(void)
{
	struct dcd_level l = { .used = 60, .size = 100, .low = 50, .high = 60 };

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
	a_way_takes_what_waits_there();
	any_turn();
	turns_are_foreseen();
	lumps(900, 0, 0, false);
	lumps(3600, 30, RING / 64, false);
	lumps(3600, 30, RING / 32, false);
	lumps(3600, 0, 0, true);
	lumps(3600, 30, RING / 64, true);
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
