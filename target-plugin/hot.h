/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hot: which blocks are brought to the data disk again and again, as a journal's.
 *
 * A guess, by hashes: a block may be taken for another one that is. It knows of the last
 * DCD_HOT_MOST blocks, or up to twice as many. A block is DCD_BLOCK, numbered from the disk's
 * beginning.
 *
 * No locks: who has one of these is its only user.
 */
#ifndef DCD_HOT_H
#define DCD_HOT_H

#include <linux/bitops.h>
#include <linux/types.h>

#define DCD_HOT_BITS	15
#define DCD_HOT_MOST	(BIT(DCD_HOT_BITS) / 4)

/*
 * Those that were brought @once, and @again, lately ([0]) and before that. @n: so many bits are set
 * of what was lately brought once.
 */
struct dcd_hot {
	unsigned long once[2][BITS_TO_LONGS(BIT(DCD_HOT_BITS))];
	unsigned long again[2][BITS_TO_LONGS(BIT(DCD_HOT_BITS))];
	unsigned int n;
};

/* It is brought now. */
void dcd_hot_brought(struct dcd_hot *h, u64 block);
/* Was it brought before; and more than once? */
bool dcd_hot_knows(struct dcd_hot *h, u64 block);
bool dcd_hot_is(struct dcd_hot *h, u64 block);

#endif /* DCD_HOT_H */
