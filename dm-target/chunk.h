/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Chunk: a piece of the mirror that is held, and what each leg has in it.
 *
 * What works beside the application (resync, verify, repair) does it chunk by
 * chunk: it holds the chunk's range, so that no write overlaps it and both legs
 * stay as they are, and reads, compares and writes in a buffer for each leg.
 *
 * Each chunk belongs to one worker at a time, in process context; everything
 * but the comparisons sleeps. All memory is allocated at creation, but for pages that the network
 * has yet when a chunk is locked anew (sender_page()).
 */
#ifndef LOCKSTEP_CHUNK_H
#define LOCKSTEP_CHUNK_H

#include <linux/types.h>

#include "leg.h"

struct chunk;
struct locked_range;
struct mirror;

/**
 * chunk_create - a chunk that holds nothing
 * @sectors: its largest size, up to IO_MAX_SECTORS
 * @wanted: becomes false, under the state lock, when nobody waits for what is read any more
 *	    (then transfers_abandon() has to be called); NULL: that doesn't happen
 *
 * Returns NULL for want of memory.
 */
struct chunk *chunk_create(struct mirror *m, unsigned int sectors, const bool *wanted);
/* NULL is allowed. Not while it is held. */
void chunk_destroy(struct chunk *c);

/* Waits for the range [start, start + sectors), after all that came before. */
void chunk_lock(struct chunk *c, sector_t start, unsigned int sectors);
void chunk_unlock(struct chunk *c);

/*
 * Transfers (transfer.h) between a leg and its buffer, or another leg's; the range is
 * held. One on a leg that dies meanwhile (or is dead) ends at once with an error, so
 * that no write has to wait for the range of one that hangs. The leg isn't used again
 * before it has returned, so until then the chunk isn't used either. What errors mean
 * is the caller's business. Returns 0 or an errno. chunk_read_both() reads from both
 * at the same time, and tells how each fared.
 */
int __must_check chunk_read(struct chunk *c, enum leg_id leg);
int __must_check chunk_read_both(struct chunk *c, int error[LEGS]);
/* Sectors [first, first + sectors) of the chunk, from @from's buffer to @to. */
int __must_check chunk_write(struct chunk *c, enum leg_id to, enum leg_id from,
			     unsigned int first, unsigned int sectors);

/**
 * chunk_differs - compare the buffers
 * @first: the first sector of the chunk that differs
 * @last: the last one
 *
 * Returns how many sectors differ.
 */
unsigned int chunk_differs(struct chunk *c, unsigned int *first, unsigned int *last);

/* What is in a leg's buffer, from a sector of the chunk on to the end of its page. */
const void *chunk_data(struct chunk *c, enum leg_id leg, unsigned int sector);

const struct locked_range *chunk_range(const struct chunk *c);
unsigned int chunk_sectors(const struct chunk *c);

/* Nanoseconds that transfers have taken on a leg since chunk_lock(). */
u64 chunk_took(struct chunk *c, enum leg_id leg);

#endif
