/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turn: how long the destager will take for a part of its way round the data disk.
 *
 * By what waits there, not by how long the way is: where nine of ten writes go to a tenth of the
 * disk a tenth of the way takes nearly all of the time. So the index counts for each of
 * DCD_SLICES equal slices of the data disk the loads that it has there (batch.h: a range of at
 * most DCD_LOAD_SECTORS with data; zeroes have a speed of their own). What a load takes depends
 * on how near the next one is, and is learned for each power of two of that distance from every
 * batch. Of a distance that no batch has had, the cost is guessed from the next shorter one that
 * is known: DCD_TURN_DEARER percent more for each doubling, and not more than the next longer
 * one costs. A guess that is too low lets too many writes in, and they stop when the ring is
 * full; with 15 percent one write took 505 ms, with this none over 105.
 *
 * Arithmetic without overflow for any arguments, but the disk has less than 2^57 sectors. Units are
 * in the names. Locking: who changes the index counts, one at a time (@intake); all else is the
 * destager's, which reads the counts as they are at the moment.
 */
#ifndef DCD_TURN_H
#define DCD_TURN_H

#include <linux/types.h>

#define DCD_SLICES		128
#define DCD_DISTANCES		40
#define DCD_TURN_DEARER		35
#define DCD_LOAD_SECTORS	128

struct dcd_turn {
	u64 slice;			/* sectors; the last one is as long as the disk is */
	u64 whole;			/* sectors of the disk when it was foreseen */
	u32 loads[DCD_SLICES];
	u64 us[DCD_DISTANCES];		/* of a load, 2^-8, by log2 of the distance; 0: unknown */
	u64 until[DCD_SLICES + 1];	/* us from the disk's beginning on, as foreseen */
};

/* A disk with so many sectors, where nothing waits. */
void dcd_turn_init(struct dcd_turn *t, u64 sectors);

/* A range that waits, or (@more false) waits no longer. */
void dcd_turn_count(struct dcd_turn *t, u64 sector, u64 last, bool more);

/* So many loads, all that there were on a way of so many sectors, took so long. */
void dcd_turn_learn(struct dcd_turn *t, u64 sectors, u32 loads, u64 us);

/* Look at a disk of so many sectors as it is now. False: nobody knows what a load takes there. */
bool dcd_turn_foresee(struct dcd_turn *t, u64 sectors);

/* As it was foreseen: from @sector on for so many sectors (at most the whole disk), us. */
u64 dcd_turn_us(const struct dcd_turn *t, u64 sector, u64 sectors);

#endif /* DCD_TURN_H */
