/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A long replay as a series: writes by the seconds in which they were due, or
 * batches by those in which they were issued, so many seconds a bin. For
 * replays whose log of each request would be too long.
 */
#ifndef BINS_H
#define BINS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct bin {
	uint64_t count, skipped;	/* what is skipped is always a write */
	uint64_t max_ns;
	double sum_ns;
};

struct bins {
	struct bin *all;
	size_t room, used;
	uint64_t width_ns;
};

/* The bin of that time; NULL without memory. It stays where it is until the next call. */
struct bin *bins_at(struct bins *bins, uint64_t time_ns);

/* What was answered by time_ns after `at_ns`; 1 without memory. */
int bins_add(struct bins *bins, uint64_t at_ns, uint64_t time_ns);

/* As CSV: start_s, WHAT, skipped, mean_ns, max_ns. Response times, 0 without any. */
void bins_print(const struct bins *bins, const char *what, FILE *out);
void bins_free(struct bins *bins);

#endif
