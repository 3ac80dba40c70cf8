/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Brought: which blocks came to the data disk lately.
 *
 * A guess, by hashes: a block may be taken for another one that did. It knows of the last
 * DCD_BROUGHT_MOST blocks, or up to twice as many. A block is DCD_BLOCK, numbered from the disk's
 * beginning.
 *
 * No locks: who has one of these is its only user.
 */
#ifndef DCD_BROUGHT_H
#define DCD_BROUGHT_H

#include <linux/bitops.h>
#include <linux/types.h>

#define DCD_BROUGHT_BITS	15
#define DCD_BROUGHT_MOST	(BIT(DCD_BROUGHT_BITS) / 4)

/* Those of late ([0]), of which so many bits are set, and those before them. */
struct dcd_brought {
	unsigned long bits[2][BITS_TO_LONGS(BIT(DCD_BROUGHT_BITS))];
	unsigned int n;
};

void dcd_brought_add(struct dcd_brought *b, u64 block);
bool dcd_brought_has(const struct dcd_brought *b, u64 block);

#endif /* DCD_BROUGHT_H */
