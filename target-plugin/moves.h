/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Moves: which blocks of the ring are in spares (dcd-format.h, "Moved"), and where a part of the
 * log disk is by that. Whoever reads or writes the ring asks here for each part of it; what is
 * before the ring isn't moved.
 *
 * Pure functions, as parse.h's, which the module and the command `dcd` share.
 */
#ifndef DCD_MOVES_H
#define DCD_MOVES_H

#include "parse.h"

/* @spares as struct dcd_moved has them; how many of them are in use, or bad. */
struct dcd_moves {
	u64 generation;
	u32 used, bad;
	u64 spares[DCD_SPARES];
};

struct dcd_moves_found {
	enum dcd_copy copies[2];
	unsigned int counts;		/* the copy that counts */
	bool differ;			/* the other one isn't the same */
	struct dcd_moves moves;
};

/*
 * @blocks: 2 * DCD_BLOCK, the log disk's from DCD_MOVED_START on. False: neither copy is right;
 * nothing is moved then, which is a guess if the superblock says DCD_INCOMPAT_MOVED.
 */
bool __must_check dcd_moves_find(const void *blocks, const struct dcd_geometry *g,
				 struct dcd_moves_found *f);
/* Does this superblock say that they count? */
static inline bool dcd_moves_count(const struct dcd_super *s)
{
	return le32_to_cpu(s->features.incompat) & DCD_INCOMPAT_MOVED;
}

/* A copy, as it is written: DCD_BLOCK bytes. */
void dcd_moves_make(const struct dcd_moves *m, const struct dcd_geometry *g, void *block);
/* Spare number @spare is for this block of the ring from now on; or FREE, or BAD. */
void dcd_moves_set(struct dcd_moves *m, u32 spare, u64 block);
/* The spare that a block is in, or one that is free; DCD_SPARES: none. */
u32 dcd_moves_spare_of(const struct dcd_moves *m, u64 block);
u32 dcd_moves_free_one(const struct dcd_moves *m);
/* The byte of the log disk where a spare begins. */
static inline u64 dcd_moves_place(u32 spare)
{
	return (u64)(DCD_SPARE_FIRST + spare) * DCD_BLOCK;
}

/*
 * How many of @bytes from byte @at of the log disk on, at least one of them, are one behind the
 * other, at *@where. @m may be NULL: nothing is moved.
 */
u64 dcd_moves_part(const struct dcd_moves *m, u64 at, u64 bytes, u64 *where);

#endif
