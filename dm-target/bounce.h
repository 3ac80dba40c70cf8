/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bounce: a read of a caller's that goes to its leg in pages of the mirror's own, so that nobody
 * has to wait for a leg that hangs.
 *
 * What a device has been handed it may write at any time. So a read in its caller's pages can't
 * end before the device says so, however long that takes, and a suspend waits behind it. In pages
 * of the mirror's own it can be abandoned, as a write can (write.h): its caller is answered from
 * the other leg at once, and what comes late is thrown away. The price is a copy, and a worker that
 * submits the read (sender.h), since its caller might sleep in the leg's queue. So it is paid only
 * for a leg that has a timeout, in a mirror of two: the remote leg; the local one with
 * local_timeout, which is off by default.
 *
 * When: in write_abandon(), which takes a dead leg's reads with its writes. A read of a leg
 * that hangs, and can't be given up since the other one isn't in sync, waits (watch.h).
 *
 * Life: a read belongs either to who completes it or to who abandons it, never to both: whoever
 * takes it out of flying, under the lock, ends the caller's bio, and only he may write to its
 * pages. One that was abandoned counts with the abandoned writes until it has returned: the leg
 * isn't used again before, and its mirror lingers (registry.h). One that was still in a lane of the
 * sender is dropped, and has never been sent.
 *
 * The wire: reads of the remote leg go by its read window (read-window.h).
 *
 * Memory: in flight are at most as many bytes as the mirror's writes may hold (memory_kib, see
 * budget.h), and one read. Who has more to read sleeps in .map; he holds nothing meanwhile, so
 * those that are in flight get on, or their leg is given up. Abandoned ones don't count here; of
 * them there is one such crowd for each leg, as it has to drain. A read for which the kernel has no
 * memory goes in its caller's pages, and waits for the device as long as that takes.
 *
 * Locking: bounces.lock, taken with interrupts off; writes.lock inside it.
 */
#ifndef LOCKSTEP_BOUNCE_H
#define LOCKSTEP_BOUNCE_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "leg.h"

struct mirror;
struct mirror_io;

struct bounces {
	spinlock_t lock;		/* what follows */
	struct list_head flying[LEGS];	/* neither completed nor abandoned */
	size_t bytes;			/* of these */
	wait_queue_head_t room;		/* fewer, or a leg has died */
};

enum bounced {
	BOUNCED,		/* it is under way */
	BOUNCE_DIED,		/* its leg has died meanwhile: find another one */
	BOUNCE_DIRECT,		/* there is no memory: send it in the caller's pages */
};

void bounces_init(struct mirror *m);

/* Is a read of this leg to be bounced? Then it has at most IO_MAX_SECTORS. Any context. */
bool bounce_wanted(const struct mirror *m, enum leg_id leg);

/* For .map, with io->bio and io->leg set. Sleeps. When it is over the bio ends. */
enum bounced __must_check bounce_read(struct mirror_io *io);

/*
 * The leg is dead: its reads end with BLK_STS_TIMEOUT and io->unanswered, so that they are
 * tried on the other one. For write_abandon(), while that counts the leg as draining.
 */
void bounces_abandon(struct mirror *m, enum leg_id leg);

#endif
