/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mean, percentiles and maximum of response times in nanoseconds.
 * Percentiles are by nearest rank: p99 is the smallest time that at least 99 %
 * of the requests don't exceed; so each is a time that was measured.
 */
#ifndef SUMMARY_H
#define SUMMARY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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
