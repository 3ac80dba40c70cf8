/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leg: the one thing that a DCD knows of the mirror whose leg its data disk may be. The
 * leg's superblock (dm-target/lockstep-format.h) may say that the disk was taken into use
 * without this DCD's log: by `dcd retire`, or by an administrator whose log was lost. Then
 * what the log has is older than the disk, and must never be written over it. It may say, too,
 * up to which entry of the log that is so: beyond.h.
 *
 * It lies at the end of the data disk, or, as long as the mirror hasn't grown with that, where the
 * end was before: whoever looks for it looks at all of these places (dcd_data_end()) until one
 * names this log. A disk may have superblocks of earlier mirrors in any of them, and earlier ones
 * of the leg where the end was before. The newest end goes first, so wherever the one that is found
 * may point to (moved_to), there is none that counts; and an end that can't be read says that it
 * isn't known, whatever an older one says. What is at today's end, and names another log, goes
 * before what names this one where the end was before: the log isn't used.
 *
 * A disk that was a leg may be a file system's by now. So only what is a slot yet is written
 * (dcd_leg_slots()), and, where the end was before, nothing if one that can be read isn't. But at
 * today's end, beside one that is, what can't be read is written, too: said is what both say, as
 * who asks may be able to read just the other one.
 *
 * Pure: any context, no locks, doesn't sleep. Module and `dcd` ask the same function.
 */
#ifndef DCD_LEG_H
#define DCD_LEG_H

#include "parse.h"
#include "../dm-target/lockstep-format.h"

/*
 * @slots: LOCKSTEP_SLOTS_BYTES, as read at lockstep_slots_start(@data_sectors). Is that the
 * superblock of a leg that has been told of this log? False also of a damaged one.
 */
bool dcd_leg_names(const void *slots, u64 data_sectors, const u8 log_uuid[16]);
/* Likewise of another one. */
bool dcd_leg_names_another(const void *slots, u64 data_sectors, const u8 log_uuid[16]);
/* A bit for each of them that is a slot of this place, torn or not, and nothing else. */
#define DCD_LEG_BOTH	3U
unsigned int dcd_leg_slots(const void *slots, u64 data_sectors);

/* The leg says that it was taken into use without this log. */
bool dcd_leg_left(const void *slots, u64 data_sectors, const u8 log_uuid[16]);

/*
 * May these sectors be a leg's slots, of a data disk that has @disk and what the log's superblock
 * knows of where it ended before? There the DCD writes, too, and its log may be unable to tell.
 */
bool dcd_leg_may_lie(const struct dcd_super *s, u64 disk, u64 sector, u64 last);

/* Entries of that log up to this one are on the data disk, as the leg says; 0: it says nothing. */
u64 dcd_leg_applied(const void *slots, u64 data_sectors, const u8 log_uuid[16], u64 epoch);

/*
 * Both slots say so from now on. *first: the one that is to be written first, and durable before
 * the other. False: this is no leg of which it is known that it is behind this log; the slots are
 * as they were.
 */
bool __must_check dcd_leg_apply(void *slots, u64 data_sectors, const u8 log_uuid[16], u64 epoch,
				u64 applied, unsigned int *first);

#endif
