/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Join: how a leg comes back, and how it becomes in sync again.
 *
 *  - A dead leg is tried every few seconds (rejoin). It may come back if all our
 *    I/O to it has returned, it can be read (in core mode its first block) and flushed, and its
 *    superblock shows that it has no history of its own (verdict.h), and no other mirror of
 *    this host has it by another device (registry.h). Otherwise it stays dead, and says why.
 *    Nor before the other leg says for certain what it is taken for: a parting that has failed
 *    half-way may be on that (metadata.h).
 *  - It is marked TARGET of the source's generation on its own superblock
 *    before it gets any resync write: until the end it is inconsistent. Only a
 *    remote leg that misses nothing (policy block: no write was acknowledged without
 *    it) comes back without that.
 *  - Likewise when regions of a leg that is alive have become stale.
 *  - When nothing is stale any more: what the target holds in a volatile cache
 *    is flushed, its superblock says SYNC, then the source forgets that it was
 *    alone. From the first of these writes on, a new parting begins a new
 *    generation. If the target is the local leg, the map's home moves to it in
 *    between.
 *
 * The leg that is coming back may hang: each I/O to it is waited for no longer than JOIN_SECONDS,
 * or until joins are to stop (transfer.h). Parting doesn't wait for it. But a link may have so much
 * to carry (reads of the callers, another mirror's) that no answer comes in that time, as long as
 * that lasts. So after each try that was too late the next one waits twice as long, up to
 * JOIN_SECONDS_MOST, unless somebody waits for its end: by join_enter() or join_now(), behind which
 * there is such a next one at once.
 * Each step ends by looking, under the state lock, whether the standing has
 * changed meanwhile (mirror.changes); then its result doesn't count.
 *
 * Without metadata the same steps are gone through, less the superblocks.
 */
#ifndef LOCKSTEP_JOIN_H
#define LOCKSTEP_JOIN_H

#include "leg.h"

struct mirror;

#define REJOIN_SECONDS_DEFAULT	5

void join_init(struct mirror *m);

/* Any context: there is something to do now, or in a while. */
void join_kick(struct mirror *m);
void join_kick_later(struct mirror *m);

/*
 * The lock that keeps joins out, for who changes what they go by: a try under way ends within
 * JOIN_SECONDS, or at once if that has passed. Sleeps.
 */
void join_enter(struct mirror *m);
void join_leave(struct mirror *m);

/*
 * Try now, in the caller's context, which sleeps. Returns 0 if no leg is dead any more, else an
 * errno, with the reason in leg.why and a DMWARN; -EBUSY, too, if a try has been under way for
 * JOIN_SECONDS, which goes on.
 */
int __must_check join_now(struct mirror *m);

/**
 * join_as_target - the steps from whatever a leg is to a durable target
 * @full: it is NEW: the other leg is to take a new generation first
 *
 * The map's home has the bits of both maps. Under join_lock, or before the first
 * resume. Sleeps. Returns 0 or an errno.
 */
int __must_check join_as_target(struct mirror *m, enum leg_id leg, bool full);

/* Stop trying, and wait for a try under way; and go on. Sleeps. */
void join_stop(struct mirror *m);
void join_run(struct mirror *m);

#endif
