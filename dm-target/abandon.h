/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Abandon: how writes, and reads (bounce.h), stop waiting for a leg that is dead
 * (write_abandon() in write.h), and what of them was never sent. And what write.c and
 * abandon.c share of a write's state.
 */
#ifndef LOCKSTEP_ABANDON_H
#define LOCKSTEP_ABANDON_H

#include "write.h"

#define ABANDON_BATCH	64u

/*
 * write.state. Legs that a write wasn't sent to count as answered and returned.
 * An abandoned leg counts as answered. Who sets the last ANSWERED settles; who
 * sets the last of RETURNED, FINISHED and UNPINNED frees. After setting another
 * bit a write isn't touched any more.
 */
#define ANSWERED(leg)	BIT(leg)
#define RETURNED(leg)	BIT(LEGS + (leg))
#define ABANDONED(leg)	BIT(2 * LEGS + (leg))
#define FINISHED	BIT(3 * LEGS)
#define UNPINNED	BIT(3 * LEGS + 1)	/* no batch is counted in it */
#define ANY_ABANDONED	(ABANDONED(LEG_LOCAL) | ABANDONED(LEG_REMOTE))
#define ALL_ANSWERED	(ANSWERED(LEG_LOCAL) | ANSWERED(LEG_REMOTE))
#define ALL_RETURNED	(RETURNED(LEG_LOCAL) | RETURNED(LEG_REMOTE))
#define GONE		(ALL_RETURNED | FINISHED | UNPINNED)

/* Set a bit of GONE: w may be gone afterwards. Any context. */
void write_release(struct write *w, unsigned int bits);

/* Every leg has answered or was abandoned; w isn't in flying any more. Any context. */
void write_settle(struct write *w);

/* Not on the way to the remote leg any more. Under writes.lock. */
void write_leave_batch(struct write *w);

/*
 * The leg is dead, and the sender (or the window) gives back a run that it has never sent. Any
 * context, no locks held.
 */
void abandon_unsent(struct write *run, enum leg_id leg);

#endif
