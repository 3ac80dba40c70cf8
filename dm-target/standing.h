/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Standing: how the mirror gets on when a leg is given up, and what has to be
 * durable before it does.
 *
 *   together   both legs are used
 *   parting    a leg has been given up, and the other doesn't say so yet on
 *              stable storage: what misses the dead leg is held
 *   alone      it does: writes go to the one leg and are acknowledged
 *   blocked    policy block: writes are held until the leg is back, or until
 *              "unblock" or "fail_held"
 *   refusing   policy error: writes that can't be on both legs fail
 *
 *   from        event                                       to
 *   together    a leg is given up (mirror_give_up)          parting.
 *   parting     the survivor's metadata are written:
 *                 policy degrade, or unblocked              alone
 *                 policy block                              blocked
 *                 policy error                              refusing
 *   parting     they can't be written, or half-way: what    the same; the next write
 *               is held fails                               tries again
 *   alone, blocked, refusing
 *               policy changed, or "unblock"                parting
 *   alone, blocked, refusing, and parting if that has failed
 *               the leg joins again (join.h)                together
 *
 * Parting makes the survivor the map's home, with all bits that are set, and,
 * if it goes on alone while the dead leg's superblock may say "in sync", begins
 * a new generation on it. Likewise under any policy if the dead leg misses anything
 * by then, for its cache is lost: it must never be taken for the source. And under any
 * policy if the remote leg survives, for of two legs in sync a start takes the local
 * one: a write that only the remote leg has may end with an error, and be read, and
 * what was read mustn't be gone after the next start. So whoever sees the two legs later
 * can tell which one has everything, and what the other misses. While the survivor's
 * metadata can't be written, none of this can be promised.
 *
 * Held writes wait in mirror.held: those that may not be sent yet, and those
 * that one leg has and that may not be acknowledged yet. Whoever changes the
 * standing then calls standing_release().
 *
 * Locking: standing, unblocked, held, changes and home are guarded by the state
 * lock. The work below runs one at a time for each mirror.
 */
#ifndef LOCKSTEP_STANDING_H
#define LOCKSTEP_STANDING_H

#include <linux/blk_types.h>
#include <linux/types.h>

#include "table.h"

enum standing {
	TOGETHER,
	PARTING,
	ALONE,
	BLOCKED,
	REFUSING,
};

struct mirror;
struct write;

const char *standing_name(enum standing standing);

void standing_init(struct mirror *m);

/* Under the state lock: part, from whatever standing there is. The work is queued. */
void standing_part(struct mirror *m);

/*
 * Part now, in the caller's context, which sleeps; no I/O of the callers' is in
 * flight, or it is held. Returns 0, or the errno of writing the survivor's metadata.
 */
int __must_check standing_part_now(struct mirror *m);

/* Under the state lock: keep a write until the standing changes. */
void standing_hold(struct mirror *m, struct write *w);

/*
 * Send again, acknowledge or fail what is held, as the standing now says. No
 * locks held; process context.
 */
void standing_release(struct mirror *m);

/* Likewise, but all fail with this status. Returns how many. */
unsigned int standing_fail_held(struct mirror *m, blk_status_t status);

/*
 * The device is being suspended: nothing may be held from now on; all of the callers' I/O has
 * ended, and only a suspend can be waiting for a leg (transfer.h); and both no more.
 */
void standing_close(struct mirror *m);
void standing_quiet(struct mirror *m);
void standing_open(struct mirror *m);

/* Wait until no parting is under way. Sleeps. */
void standing_drain(struct mirror *m);

/*
 * Likewise, but for PARTING_SECONDS at most: for a message, which has to end though
 * the leg that is left hangs, to which a parting writes. What the message has set
 * holds all the same, as soon as the parting ends.
 */
#define PARTING_SECONDS	3
void standing_await(struct mirror *m);

/* Is a parting queued or under way, as of now? Any context. */
bool standing_busy(const struct mirror *m);

/*
 * Is a parting under way? Under the state lock: one that isn't finds whatever is made of the
 * standing before the lock is given back.
 */
bool standing_parts(struct mirror *m);

/*
 * A parting has failed: try again. Any context, and, which waits for the end of
 * it, a sleeping one: 0, or -EIO if the survivor's metadata still can't be written.
 */
void standing_retry(struct mirror *m);
int __must_check standing_retry_now(struct mirror *m);

/*
 * A leg is about to come back. A parting that has failed before isn't tried again until the join
 * has ended, however many writes are held, or a leg that is well would never find a moment without
 * one; what is held waits for the join. Under join_lock: the begin, which sleeps, for
 * PARTING_SECONDS at most, and false is returned if a parting is under way all the same; and in
 * any case the end, under the state lock.
 */
bool __must_check standing_join_ends(struct mirror *m);
void standing_join_ended(struct mirror *m);

/* Messages. Process context. */
int __must_check standing_unblock(struct mirror *m);
void standing_set_policy(struct mirror *m, enum table_policy policy);

#endif
