// SPDX-License-Identifier: GPL-2.0-only
/* See sectors.h. */
#include "sectors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0x544f525455524531ULL	/* "TORTURE1" */
#define WORDS (SECTOR / 8)

enum { W_MAGIC, W_RUN, W_OP, W_SECTOR, W_FILL };

uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static uint64_t hash_words(const uint64_t *w, unsigned int n)
{
	uint64_t h = 0x243f6a8885a308d3ULL;
	unsigned int i;

	for (i = 0; i < n; i++) {
		h = (h ^ w[i]) * 0x100000001b3ULL;
		h ^= h >> 29;
	}
	return random_next(&h);
}

void sector_fill(void *to, uint64_t run, uint32_t op, uint64_t sector)
{
	uint64_t *w = to;
	uint64_t seed = run ^ ((uint64_t)op << 40) ^ sector;
	unsigned int i;

	w[W_MAGIC] = MAGIC;
	w[W_RUN] = run;
	w[W_OP] = op;
	w[W_SECTOR] = sector;
	for (i = W_FILL; i < WORDS - 1; i++)
		w[i] = random_next(&seed);
	w[WORDS - 1] = hash_words(w, WORDS - 1);
}

uint64_t sector_hash(const void *sector)
{
	return hash_words(sector, WORDS);
}

static bool all_zero(const uint64_t *w)
{
	unsigned int i;

	for (i = 0; i < WORDS; i++)
		if (w[i])
			return false;
	return true;
}

static bool whole(const uint64_t *w)
{
	return w[W_MAGIC] == MAGIC && w[WORDS - 1] == hash_words(w, WORDS - 1);
}

struct oracle_seen sector_look(const void *sector, uint64_t run, uint64_t baseline)
{
	struct oracle_seen seen = { .baseline = sector_hash(sector) == baseline };
	const uint64_t *w = sector;

	seen.zero = all_zero(w);
	if (whole(w)) {
		seen.described = true;
		seen.foreign_run = w[W_RUN] != run;
		seen.at = w[W_SECTOR];
		seen.op = (uint32_t)w[W_OP];
	}
	return seen;
}

char *sector_to_text(const void *sector, char *text, unsigned int room)
{
	const uint64_t *w = sector;

	if (whole(w))
		snprintf(text, room, "op %" PRIu64 " of run %" PRIu64 " for sector %" PRIu64,
			 w[W_OP], w[W_RUN], w[W_SECTOR]);
	else if (all_zero(w))
		snprintf(text, room, "zeroes");
	else if (w[W_MAGIC] == MAGIC)
		snprintf(text, room, "pieces, the first of op %" PRIu64 " of run %" PRIu64,
			 w[W_OP], w[W_RUN]);
	else
		snprintf(text, room, "something else (%016" PRIx64 " %016" PRIx64 ")", w[0], w[1]);
	return text;
}
