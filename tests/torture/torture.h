/* SPDX-License-Identifier: GPL-2.0-only */
/* The commands of the torture program; see torture.c for their use. */
#ifndef LOCKSTEP_TORTURE_TORTURE_H
#define LOCKSTEP_TORTURE_TORTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "oracle.h"

#define MAX_CUTS 8

struct load_options {
	const char *device;
	const char *state;
	uint64_t seed;
	uint64_t cut_us;	/* when, after the start */
	uint64_t more;		/* how many ops to issue after the cut */
	uint64_t pause_us;	/* longest pause between two requests */
	uint32_t ops;
	unsigned int depth;
	bool no_ranges;
	unsigned int nr_cuts;
	struct {
		const char *path;
		const char *text;
	} cuts[MAX_CUTS];
};

/* Exit codes: 0 fine, 1 the device is wrong, 2 couldn't be done. */
int torture_load(const struct load_options *opt);
int torture_check(const char *device, const char *state, enum oracle_promise promise);
int torture_compare(const char *a, const char *b);

#endif
