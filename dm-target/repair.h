/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Repair: writes anew what a leg couldn't read, from the other leg, so that a
 * bad sector is replaced by the disk's own means while the mirror has a copy.
 *
 * A read that failed on one leg and came good on the other, and a piece that
 * verify couldn't read, is a request for the sectors of that read. One request
 * at a time is worked off, in pieces of a physical block (at least 4 KiB), each
 * under its range: read the piece from the leg; if that fails read it from the
 * other leg, write it to the leg, read it back, and compare. Nothing comes from
 * the caller's buffer, and what can be read isn't written.
 *
 * Only while both legs are alive and current there: a stale copy is copied anew
 * by the resync. But at a start after a crash what was being written then becomes stale on the
 * target of a resync, which has all that was acknowledged, as the source has (@both_whole of the
 * mirror): so as long as neither has missed anything since, what the source can't give is taken
 * from the target, as md's raid1 does, and a caller's read of it waits for that. Who read the
 * target itself might get what was never acknowledged, and the source's older data behind the
 * resync. For the same reason such a repair goes by the source's physical blocks: beside the bad
 * one it may have what is newer.
 *
 * What a failure means:
 *  - The write fails: the leg is given up as after any failed write, if the
 *    other one can stand in. Nothing becomes stale by it: the bytes were those
 *    that the leg has to hold already.
 *  - The piece still can't be read, though the write was good: the leg stays, and
 *    its region stays current. Stale is what misses a write; this leg misses
 *    none, it gives an error and never wrong data, and reads go on to the other
 *    leg. Marked stale, the whole leg couldn't stand in for the other any more,
 *    for one sector.
 *  - It reads back something else: the leg says it has what it hasn't. Its
 *    region is marked stale, so that it isn't read, and the resync writes it
 *    again.
 *  - REPAIR_BAD_MAX places of a leg that can't be repaired in an hour: the disk
 *    is failing; the leg is given up, if the other can stand in. A place
 *    counts once: it isn't tried again within the hour, however often it is read.
 *    Behind a crash, as long as @both_whole, a caller's read of one that was written goes to
 *    the target. If it wasn't, the source may still have what is newer.
 *
 * The queue has REPAIR_QUEUE places; what comes when it is full is dropped and
 * counted: the sector will be read again.
 */
#ifndef LOCKSTEP_REPAIR_H
#define LOCKSTEP_REPAIR_H

#include <linux/types.h>

#include "leg.h"

struct mirror;
struct repair;

#define REPAIR_QUEUE	16
/* What md's raid1 takes as its default (max_corr_read_errors). */
#define REPAIR_BAD_MAX	20
#define REPAIR_BAD_SECONDS	3600

/* May sleep. Returns NULL for want of memory. Paused. */
struct repair *repair_create(struct mirror *m);
/* May sleep; paused and drained before. */
void repair_destroy(struct repair *rp);

/* Any context: the leg couldn't read [start, last], the other one could. */
void repair_request(struct repair *rp, enum leg_id leg, sector_t start, sector_t last);

/*
 * Likewise, in process context, and it has been tried when this returns: the sectors are read again
 * then. @read: a caller's read waits for it, so it is done in a suspend, too, which waits for that.
 */
void repair_now(struct repair *rp, enum leg_id leg, sector_t start, sector_t last, bool read);

/* May what this leg, a source, can't give be taken from the target? Any context. */
bool repair_from_target(struct repair *rp, enum leg_id leg);

/* Sectors that go bad of a leg at a time, a power of two; of a piece. */
unsigned int repair_block_sectors(const struct repair *rp, enum leg_id leg);
unsigned int repair_piece_sectors(const struct repair *rp);
/*
 * Was that block of @leg written from the target, and still can't be read? Then no read can have
 * had from the source what isn't there any more. Any context.
 */
bool repair_in_vain(struct repair *rp, enum leg_id leg, sector_t sector);
/* Is a request under way, or waiting? Any context. */
bool repair_busy(struct repair *rp);

/* Requests are taken, and not (those that wait are dropped). Any context. */
void repair_run(struct repair *rp);
void repair_pause(struct repair *rp);
/* Wait for the piece that is under way; after repair_pause(). Sleeps. */
void repair_drain(struct repair *rp);

#endif
