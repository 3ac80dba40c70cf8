/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spares: blocks before the ring of the log, for those of the ring that are bad (dcd-format.h,
 * "Moved"). A block that takes no writes, or that doesn't give what it was given, is moved to one,
 * for good, with what it is to have; a spare that turns out to be bad itself is left for another
 * one. So a bad place of the log costs nothing: with whatever NVRAM, what is acknowledged has a
 * good place, and no slot has to keep it (proof.h).
 *
 * A block is bad if it fails alone, and for good: the write that brought it up was tried for a
 * while before (blip.h), and the log works elsewhere, as spares and table are written. Where more
 * than DCD_SPARES_AT_ONCE of one segment fail that is a log that fails. Of those that can't all be
 * found within DCD_SPARES_TIME, or in as much time as the disk takes to fail a few of them, those
 * that were found are moved, and the next try looks for the next ones. Where one takes over a
 * second to fail, it has to take a write of a spare, or of the table, before any is searched for:
 * of a log that is dead each would be waited for. A log that fails is one without spares, too: what
 * becomes of it then is said in engine.h and proof.h, as it is of a superblock's copy that takes no
 * writes: those have no spares.
 *
 * What disk.c reads and writes of the log goes the way that @now says (dcd_disk's @moves, which is
 * replaced as a whole, by RCU). It changes only for blocks of a segment that is being written,
 * which nobody reads from the disk: its slot has it.
 *
 * If a change of the table failed half way nobody knows what of it is there, and the ring gets no
 * writes before the newest copy says again what @now says (@unsure). If a start has found copies
 * that @differ, the one that doesn't count is written before anything else is.
 *
 * The committer's, and whoever opens: nobody else writes to the ring at the same time. Process
 * context; they sleep. The superblock's feature is set under @super_lock, beside the destager.
 */
#ifndef DCD_SPARES_H
#define DCD_SPARES_H

#include "moves.h"

struct dcd_engine;

#define DCD_SPARES_AT_ONCE 16U
#define DCD_SPARES_TIMES 3U	/* that bad blocks of one segment are moved */
#define DCD_SPARES_TIME (10 * HZ)	/* nor if one write takes so long to fail */

struct dcd_spares {
	struct dcd_moves now;
	unsigned int first;	/* the copy of the table to be written first */
	bool unsure, differ;
	u8 *buf;		/* a block */
};

/* The superblock is known: what does the log say? Told if it is damage. */
int __must_check dcd_spares_open(struct dcd_engine *e);
void dcd_spares_free(struct dcd_engine *e);
/* The table is as it is used; if not 0 is returned nobody may write to the ring. */
int __must_check dcd_spares_settle(struct dcd_engine *e);
/* How many spares are free yet; any context. */
u32 dcd_spares_unused(const struct dcd_engine *e);
/* Can anything be moved? */
bool dcd_spares_left(const struct dcd_engine *e);
/*
 * @bytes of @buf were written to @sector of the ring, or not, with @error: are there blocks that
 * take no writes? True: they have been moved, or all of them take writes now; it is worth another
 * try. @buf is whole blocks.
 */
bool __must_check dcd_spares_unwritten(struct dcd_engine *e, u64 sector, void *buf, u32 bytes,
				       int error);
/* They were written, and can't be read back, or otherwise: likewise. */
bool __must_check dcd_spares_unread(struct dcd_engine *e, u64 sector, void *buf, u32 bytes);

#endif /* DCD_SPARES_H */
