/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Self-describing sectors: each 512-byte sector of a write tells which run and
 * which op wrote it and for which place, and carries a checksum over all of
 * it. Its filling depends on all three, so a sector put together from two
 * writes is recognised whatever the size of the pieces.
 */
#ifndef LOCKSTEP_TORTURE_SECTORS_H
#define LOCKSTEP_TORTURE_SECTORS_H

#include <stdint.h>

#include "oracle.h"

#define SECTOR 512U

/* A reproducible stream of numbers (splitmix64). */
uint64_t random_next(uint64_t *state);

/* Writes one sector's content to @to (512 bytes, 8-byte aligned). */
void sector_fill(void *to, uint64_t run, uint32_t op, uint64_t sector);

/* A fingerprint, for baselines. */
uint64_t sector_hash(const void *sector);

/* What is it? @baseline: fingerprint of what was there at the beginning. */
struct oracle_seen sector_look(const void *sector, uint64_t run, uint64_t baseline);

/* "write 7 of run 3 for sector 9", "zeroes", ...; returns @text. */
char *sector_to_text(const void *sector, char *text, unsigned int room);

#endif
