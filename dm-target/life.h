/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Life: what each event of a mirror's life makes of its superblocks. The rules
 * that make verdict.h right are here; mirror-life tests play them through all
 * orders of events and crashes (dm-target/test).
 *
 * Each function changes the caller's struct super only; super_touch(), writing
 * it durably, and the order are the caller's. Pure, any context, no locks.
 *
 * What the states mean, always:
 *   SYNC at G     this leg has all that was acknowledged in G. The other leg
 *                 may be SYNC at G too, and may be brought up without us.
 *   ALONE at G    this leg has all that was acknowledged in G; the other leg is
 *                 neither SYNC nor ALONE at G, so it can never be taken for it.
 *                 `base` is the generation that the other may be SYNC at; the
 *                 union of both maps covers all that happened since.
 *   TARGET at G   this leg has G but for what the other leg's map says.
 *   NEW           this leg has nothing. Only the administrator makes one, to be
 *                 filled from a leg that knows generation `base`.
 *
 * The orders. "->" is: durable, before the next step begins.
 *
 *  first use of a set, or after a crash, both legs there (verdict.h says who is
 *  the source):
 *    a leg without anything to resync needs no step. Else a join, before the
 *    first I/O is served, reads too: what was read must not vanish, and what a
 *    crash left on one leg only would, if the other came up without it.
 *  a leg joins (a resync onto it begins). To a running mirror only if the verdict
 *  says so: the running leg is the source, or both are SYNC at one generation.
 *  If the other leg is ahead, somebody else has written on it; it stays out:
 *    [the source isn't the map's home yet: it becomes that first, see below]
 *    ->
 *    [NEW leg: the source super_adopt()]
 *    -> the source's map has every bit of both maps (NEW: all bits)
 *    -> target super_join(): forgets its own map, and that it was NEW
 *    -> [source super_forget_base()]; from here on the target may be written,
 *       and bits of the source's map may be cleared.
 *  a resync is complete: all data is durable on the target
 *    -> [the map's home moves to the target: its new map is durable, see below]
 *    -> source super_in_sync()
 *    -> target super_in_sync().
 *    In this order, because a target that is SYNC while the source still is
 *    ALONE would look, after the source is lost, like two histories.
 *    Until the target's step is known to be durable it counts as "may be SYNC"
 *    for going alone, and as a target if the source is lost.
 *  a leg goes on without the other:
 *    a SYNC leg: if the other is known to be durably TARGET, nothing;
 *    else [its new map is durable, if it wasn't the map's home] -> super_go_alone()
 *    -> a write that the other leg has not got may be acknowledged.
 *    At assembly: before the first I/O, reads too (as above).
 *    A remote leg in a running mirror: before a write ends that the local leg hasn't got,
 *    though it ends with an error. The verdict of two SYNC legs is the local one, and what
 *    was read of that write must not vanish. (A local leg needs it for acknowledging only;
 *    a write that both legs have failed meanwhile doesn't wait for it.)
 *    An ALONE leg: nothing. A TARGET or NEW leg: must not.
 *  a bit is set for a new write: durable on a map that a superblock names, before
 *  the write is sent anywhere; so after the map's home is lost, not before the
 *  other leg's superblock names its new map, even if nothing is acknowledged.
 *  the map's home moves to a leg:
 *    its map sectors with set bits, of super_new_map()'s epoch -> its superblock
 *    with that epoch -> the other map may be left to rot: its bits only make a
 *    later resync longer. At a clean stop it is forgotten with super_forget_map(),
 *    once the home's map is durable.
 */
#ifndef LOCKSTEP_LIFE_H
#define LOCKSTEP_LIFE_H

#include "super.h"

/*
 * The first superblock of a leg. @s: name, uuids, leg, layout and region_shift
 * are set, all else is 0. @epochs: random, so that no map sector of an earlier
 * life is taken for one of this. The map is empty and has an epoch.
 */
void super_create_sync(struct super *s, u64 generation_id, u64 epochs, u64 now);
void super_create_new(struct super *s, const struct super *source, u64 epochs, u64 now);

/* A new epoch for the leg's map: all clear until sectors of that epoch are written. */
void super_new_map(struct super *s);

/* No map sector of the leg counts any more: the other leg keeps the map. */
void super_forget_map(struct super *s);

/*
 * The leg of @s is to be resynced from the leg of @source, and gets its length
 * (growth.h; there is room, says the verdict). Returns 0, or -EPERM if @source is
 * neither SYNC nor ALONE.
 */
int __must_check super_join(struct super *s, const struct super *source);

/*
 * A device that is NEW is to join: a new generation, so that no older one can be
 * taken for it later. Once for each: a join that is tried again changes nothing.
 * -EPERM as above.
 */
int __must_check super_adopt(struct super *source, const struct super *leg, u64 generation_id,
			     u64 now);

/* After the target's super_join() is durable: nobody else can be SYNC at the base. */
void super_forget_base(struct super *source);

/* The resync is complete. Of the source first, then of the target. -EPERM: the leg is NEW. */
int __must_check super_in_sync(struct super *s);

/*
 * The leg goes on without the other. @generation_id: random, not 0. @why:
 * LOCKSTEP_WHY_*. Returns 1 if @s was changed, 0 if it is ALONE already, -EPERM
 * if the leg can't (TARGET, NEW).
 */
int __must_check super_go_alone(struct super *s, u64 generation_id, u64 now, u32 why);

/* Explicit consent to throw away what the leg has; it will be filled from @source. */
void super_give_up(struct super *s, const struct super *source);

/*
 * The other leg's superblock has this @seq, durably: one of it with a lower seq is of an older
 * copy. 0: nothing new is known. Not of a leg that is NEW: the one that it replaces may be newer.
 */
void super_know(struct super *s, u64 seq);

/* In use from now on (durable before the first write), or stopped cleanly. */
void super_set_active(struct super *s, bool active);

#endif
