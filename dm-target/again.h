/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Again: how many bytes of the reads that failed on one leg are asked of the other one at a time.
 *
 * Why: what queues there would be taken for a leg that hangs, and the only one that has these
 * sectors would be given up: eight readers of a bad area were enough, with 256 kbit/s back, or
 * one reader in each of eight mirrors on one disk.
 *
 * Rule: as many as that leg answers within a part of its timeout, as window.h says of writes:
 * first AGAIN_FIRST; while others wait, more by what has come in time; half as many with what was
 * late. The others wait, with the caller's pages only. When nothing is under way, and nobody
 * waits, it begins anew: the wire may be another one by then.
 *
 * Each leg of a mirror has such a bound, and the remote legs of all mirrors of the host have one
 * together, as they come by one wire more often than not. A read waits for its mirror's first: so
 * one whose leg hangs has no more before the host's than its own bound lets.
 *
 * Ways out: of the mirror's, that the leg is given up (transfer.h). A leg without a timeout isn't;
 * so the host's doesn't count what has been under way for AGAIN_STUCK, and that is how long a leg
 * that hangs holds the reads of other mirrors. Nothing waits there for a dead leg. Each is in turn,
 * so behind others by a slow wire, which have one part each, it waits for theirs.
 *
 * Locking: each bound has its own spinlock; nothing is taken within it.
 */
#ifndef LOCKSTEP_AGAIN_H
#define LOCKSTEP_AGAIN_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/time64.h>
#include <linux/wait.h>

#include "leg.h"

struct mirror;

/*
 * A second of 256 kbit/s. With 128 KiB, which take four, and a remote_timeout of 8 s the remote leg
 * was given up for one large write beside a bad area.
 */
#define AGAIN_FIRST	(32u << 10)
#define AGAIN_READS	16		/* of a mirror, at most */
#define AGAIN_MOST	(AGAIN_READS * AGAIN_FIRST)
#define AGAIN_STUCK	(5ULL * NSEC_PER_SEC)

struct again_bound {
	wait_queue_head_t room;
	spinlock_t lock;		/* guards the rest */
	struct list_head waiting;	/* again_turns, the first one is the next */
	unsigned int bytes;		/* under way */
	unsigned int limit;		/* of them; if nothing else is, one may have more */
};

struct again_turn {
	struct list_head link;		/* it waits, or the host counts it */
	u64 began;			/* ktime, ns */
	unsigned int bytes;
};

void again_init(struct mirror *m);

/*
 * Wait until so many bytes may be asked of the leg; when they have come, or haven't, leave ends
 * that. Process context, no locks held; sleeps.
 */
void again_enter(struct mirror *m, enum leg_id leg, struct again_turn *turn, unsigned int bytes);
void again_leave(struct mirror *m, enum leg_id leg, struct again_turn *turn);

#endif
