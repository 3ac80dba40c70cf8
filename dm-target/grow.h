/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Grow: a running mirror whose devices have become larger (growth.h has the rules).
 *
 *   dmsetup message m 0 grow		the legs' metadata move to the new ends
 *   dmsetup reload m --table "0 <longer> lockstep ..."
 *   dmsetup resume m			the mirror is longer
 *
 * The message moves every leg that is alive, while I/O goes on: a leg that fails
 * it is given up as for any other write. Then it is as if the devices had always
 * had that size, and nothing more has to be done if the mirror isn't to be longer.
 *
 * The longer table is taken only by a device that runs, and only if both legs are
 * alive and have room. What is new is stale on the target, durably so before the
 * superblocks have the new length, and is copied like anything else that is stale;
 * a resync that is under way goes on with it. If a leg is lost in between, the
 * mirror is longer on the other one alone; when that leg comes back it gets the
 * length by joining.
 *
 * In core mode there are no metadata: the longer table is all, and its word sync
 * or nosync is about the new room.
 */
#ifndef LOCKSTEP_GROW_H
#define LOCKSTEP_GROW_H

struct mirror;
struct super;

/*
 * The message. Sleeps; process context. 0, or an errno with a DMWARN: -EBUSY if a parting
 * hasn't ended within PARTING_SECONDS (standing.h).
 */
int __must_check grow_legs(struct mirror *m);

/*
 * In the constructor, region_shift known, of a table whose length isn't what it
 * takes over from; @s is a superblock of a leg, NULL in core mode. Sets
 * mirror.grows. 0, or an errno with ti->error set and a DMERR.
 */
int __must_check grow_check(struct mirror *m, const struct super *s);

/* For metadata_update(): the leg's superblock has the table's length from now on. */
int grow_extend(struct mirror *m, struct super *s);

#endif
