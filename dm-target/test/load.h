/* SPDX-License-Identifier: GPL-2.0-only */
/* What the loads of the mirror's scenarios share, beside tests/torture/device.h. */
#ifndef LOCKSTEP_TEST_LOAD_H
#define LOCKSTEP_TEST_LOAD_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define SECTOR		512u

static uint64_t rng;

/* Ends the program as one that can't run; errno says why. */
static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(2);
}

static inline void rnd_seed(const char *word)
{
	rng = strtoull(word, NULL, 10) * 0x9E3779B97F4A7C15ull + 1;
}

/* Below @n; xorshift64*. */
static inline uint64_t rnd(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (rng * 0x2545F4914F6CDD1Dull >> 16) % n;
}

/* Memory for O_DIRECT. */
static inline void *buffer(size_t bytes)
{
	void *data;

	errno = posix_memalign(&data, 4096, bytes);
	if (errno)
		die("memory");
	return data;
}

#endif
