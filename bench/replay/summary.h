/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mean, minimum, percentiles and maximum of response times in nanoseconds.
 * Percentiles are by nearest rank: p99 is the smallest time that at least 99 %
 * of the requests don't exceed; so each is a time that was measured.
 * within_half_second is how many took no longer than that, as the paper counts.
 */
#ifndef SUMMARY_H
#define SUMMARY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HALF_A_SECOND_NS 500000000u

struct times {
	uint64_t *ns;
	size_t count;
	size_t room;
};

/* Returns -1 without memory; what was added before stays. */
__attribute__((warn_unused_result))
int times_add(struct times *times, uint64_t ns);

/* Sorts in place, then prints one JSON object; zeroes if there are no times. */
void times_print(struct times *times, FILE *out);
void times_free(struct times *times);

#endif
