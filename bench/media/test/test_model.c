// SPDX-License-Identifier: GPL-2.0-only
/* The spindle's service times against the disk's data sheet. */
#include <linux/types.h>

#include "media-model.h"

#include <stdio.h>
#include <stdlib.h>

static unsigned int failures;
static u64 rng = 88172645463325252ULL;

static u64 rnd(u64 n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng >> 8) % n;
}

static void near(const char *what, double got, double want, double tolerance)
{
	bool ok = got >= want * (1 - tolerance) && got <= want * (1 + tolerance);

	printf("%-44s %9.3f (want %.3f +- %.0f%%)%s\n", what, got, want, tolerance * 100,
	       ok ? "" : "  WRONG");
	if (!ok)
		failures++;
}

static double random_ms(u64 sectors, bool spread, bool write)
{
	struct spindle s;
	u64 now = 0, sum = 0;
	int i;

	spindle_init(&s, sectors, spread);
	for (i = 0; i < 200000; i++) {
		u64 t = spindle_serve(&s, now, write, rnd(sectors / 8) * 8, 8);

		sum += t;
		now += t + 1000 + rnd(50000);
	}
	return (double)sum / i / 1e6;
}

static double stream_mb(u64 from, bool write)
{
	struct spindle s;
	u64 now = 12345, at = from, wait, t;

	spindle_init(&s, SPINDLE_SECTORS, false);
	spindle_serve(&s, 0, write, from, 1);
	at = from + 1;
	while (at < from + 200000) {
		u64 start = now;

		if (write)
			t = spindle_serve(&s, now, true, at, 128);
		else if (spindle_read_ahead(&s, now, at, 128, &wait))
			t = wait;
		else
			t = spindle_serve(&s, now, false, at, 128);
		now = start + t;
		at += 128;
	}
	return (double)(at - from) * 512 / ((double)now / 1e9) / 1e6;
}

int main(void)
{
	struct spindle s;
	u64 now = 0, first, second;
	u32 d;
	double sum = 0, weight = 0;

	for (d = 0; d < SPINDLE_CYLINDERS; d++) {
		sum += (double)spindle_seek(d, false) * (SPINDLE_CYLINDERS - d);
		weight += SPINDLE_CYLINDERS - d;
		if (d && spindle_seek(d, false) < spindle_seek(d - 1, false))
			failures++;
	}
	near("average seek, ms", sum / weight / 1e6, 3.6, 0.01);
	near("seek to the next cylinder, ms", spindle_seek(1, false) / 1e6, 0.443, 0.01);
	near("random 4K read, all the disk", random_ms(SPINDLE_SECTORS, false, false), 5.67, 0.02);
	near("random 4K write, all the disk", random_ms(SPINDLE_SECTORS, false, true), 6.27, 0.02);
	near("random 4K read, 64 MiB spread, ms", random_ms(131072, true, false), 5.67, 0.02);
	near("sequential read, outer, MB/s", stream_mb(0, false), 66, 0.05);
	near("sequential read, inner, MB/s", stream_mb(35000000, false), 49, 0.05);
	near("sequential write, outer, MB/s", stream_mb(0, true), 66, 0.05);

	/* A write again to the same sector has to wait for a turn. */
	spindle_init(&s, SPINDLE_SECTORS, false);
	first = spindle_serve(&s, now, true, 1000, 8);
	now += first;
	second = spindle_serve(&s, now, true, 1000, 8);
	near("the same place again, ms", second / 1e6, 4.0, 0.001);
	/* A write that follows after a pause has missed its place. */
	now += second + 50000;
	second = spindle_serve(&s, now, true, 1008, 8);
	near("the next place, 50 us late, ms", second / 1e6, 4.0 - 0.05 + 0.057, 0.01);
	return failures ? 1 : 0;
}
