/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Limits: which legs go together as block devices, and what the mirror's queue
 * says of itself.
 *
 * The block layer stacks the legs' limits: the larger blocks, the smaller
 * requests. Both legs get every write in pieces of their own, so nothing else is
 * needed for I/O. Beyond that:
 *  - A discard is a zeroing of both legs (zero.h): offered only if both can zero,
 *    at most ZERO_AT_ONCE_SECTORS at once, or what the coarser leg frees at least.
 *  - Zeroes are taken in whole blocks of the mirror: the smaller of two limits may
 *    be less than that, such as a SCSI disk's 65535 sectors beside blocks of 4096.
 *  - Flush and FUA are always offered, whatever the legs' caches are set to now.
 *  - DAX, zones, integrity and atomic writes aren't: dm gives them only to a
 *    target that asks for them.
 *  - A device that runs doesn't get larger logical blocks by a table reload: what
 *    uses it has been told the smaller ones, and its writes would fail.
 */
#ifndef LOCKSTEP_LIMITS_H
#define LOCKSTEP_LIMITS_H

struct dm_target;
struct mirror;
struct queue_limits;

/* In the constructor: do the legs fit? 0, or -EINVAL with ti->error set and logged. */
int __must_check limits_check(struct mirror *m);

/* .io_hints: @limits are those of both legs. */
void limits_hints(struct dm_target *ti, struct queue_limits *limits);

#endif
