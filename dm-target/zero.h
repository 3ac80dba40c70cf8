/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Zero: a discard or write-zeroes of the caller's. Both become "these sectors
 * read as zeroes" on both legs: what a discarded sector reads as may differ
 * between two devices, and the legs have to stay bit-identical. A device that
 * can deallocate and still promises zeroes does so.
 *
 * Runs in a worker that sleeps until the device is done, one leg after the
 * other, in a workqueue of its own so that it never keeps a write waiting
 * that doesn't overlap. Follows the same rules as a write: range, route,
 * settle. The target offers these operations only if both legs have
 * write-zeroes when the table is loaded; if a leg loses it later, the block
 * layer falls back to writing zeroes.
 */
#ifndef LOCKSTEP_ZERO_H
#define LOCKSTEP_ZERO_H

#include <linux/types.h>

struct bio;
struct mirror;

/* For .map. */
void zero_map(struct mirror *m, struct bio *bio);

/* Can both legs write zeroes by themselves? */
bool zero_supported(const struct mirror *m);

/* The most that one request may zero: bounds how long its range is held. */
#define ZERO_MAX_SECTORS	(32u << (20 - 9))

#endif
