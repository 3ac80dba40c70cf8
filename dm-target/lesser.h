/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lesser leg: the one that is marked stale where the legs may differ and neither is known to
 * be better: a write failed on both, or a leg that stays in use has forgotten what it had in its
 * cache.
 *
 * A dead leg is the lesser, or the target of a resync, as there is one direction only. Else a leg
 * that alone has forgotten: what was acknowledged is on the other one. Else the remote one.
 *
 * What is marked for a write that failed, and was acknowledged to nobody, is no reason yet not
 * to go on with the lesser leg if the other one is lost: it has all that was acknowledged
 * (@target_whole of the mirror). That ends when its superblock is about to say TARGET, before
 * which lesser_ask_source() reads from the other leg all that the resync will have to read, or when
 * it misses anything else.
 *
 * Called under the mirror's state lock, but for those two at the end, which sleep.
 */
#ifndef LOCKSTEP_LESSER_H
#define LOCKSTEP_LESSER_H

#include <linux/types.h>

#include "leg.h"

struct mirror;

enum leg_id lesser_leg(const struct mirror *m);

/* The leg alone has forgotten what the other one has, and not all of that is marked yet. */
bool lesser_in_doubt(const struct mirror *m, enum leg_id leg);

/* If a write that failed is marked on the lesser leg now: has that all that was acknowledged? */
bool lesser_is_whole(const struct mirror *m);

/*
 * A flush has failed on this leg, which stays in use; or a write, and with it the device's power
 * may have gone.
 */
void lesser_forgot(struct mirror *m, enum leg_id leg);

/*
 * If a leg that stays has forgotten anything: make all that is dirty stale on the lesser one.
 * Under join_lock, or when nobody joins.
 */
void lesser_take_forgotten(struct mirror *m);

/*
 * @leg, the lesser one and whole, is about to say that it is a target. Can its source be read
 * wherever they may differ? If so @leg isn't whole any more, and 0 is returned. If not the source
 * is given up: a resync could never copy that place, and what was acknowledged there is on @leg.
 * What becomes stale meanwhile, before the place that is being read, isn't asked for. Under
 * join_lock; ends with an errno when the mirror changes, or joins are to stop.
 */
int __must_check lesser_ask_source(struct mirror *m, enum leg_id leg);

#endif
