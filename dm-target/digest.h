/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Digests: what the remote leg has, told by a second device, the digest LUN that
 * the mirror site computes from the LUN that is the remote leg (the format:
 * lockstep-digest.h). With it (resync_digests) a resync reads 1/128 of a chunk's
 * size over the wire, instead of sending the chunk, and copies from the first to
 * the last block that differs. A verify, too, reads the remote leg only where the
 * digests tell a difference.
 *
 * What must never happen is that something counts as equal that isn't. A block
 * does only if its digest fits, which is computed with a key that this mirror has
 * written to the remote leg itself, into its superblock: a new random one since
 * this table came up, since the last death of either leg (leg.deaths), and since
 * the last doubt. So whatever the device really is (another LUN's digests, a
 * snapshot, a cache, a disk that somebody mixed from these), the answer was
 * computed from bytes that were in that place of the remote leg after both legs
 * began to get all writes; or it doesn't fit, and the chunk is copied.
 *
 * Such a digest is as good as one of this moment, even if writes came in between.
 * So digests are read before a chunk's range is held, and no write has to wait for
 * them; and those of many chunks at once. Let X be the bytes that one was computed
 * from: some of the writes were in them, the others came later. With the range
 * held, all writes are in both legs. If the local leg has X then, each byte that
 * one of the later writes touched is in X what the last of them made it, since
 * that is what the local leg has there; so it is the same on the remote leg, and
 * all other bytes are X there still. So the legs are equal. If a write fails on a
 * leg in between, the leg dies, and the digests don't count any more (deaths); or
 * it is marked, and then the region stays stale.
 *
 * Any doubt (the device is missing, can't be read, takes longer than
 * DIGEST_TIMEOUT or remote_timeout if that is shorter, isn't a digest LUN or not
 * this leg's, no memory) ends in the resync working as if there were no digest
 * LUN. That is told once; and tried again every DIGEST_RETRY, and when a leg came
 * back. A read that doesn't come back is left alone, with what it needs; till it
 * has returned, no other is sent, and the table can't be destroyed (the same goes
 * for a leg's).
 *
 * The remote leg must be the data LUN as it is: on a partition of it, or a
 * volume, the key is found nowhere. So with core mode, which has no superblock;
 * there the option is refused.
 *
 * Locking: digests.lock (a mutex) is held while the key is written and proven;
 * metadata.lock is taken within. The state lock is not held by callers.
 */
#ifndef LOCKSTEP_MIRROR_DIGEST_H
#define LOCKSTEP_MIRROR_DIGEST_H

#include <linux/mutex.h>
#include <linux/types.h>

struct chunk;
struct digest_set;
struct digests;
struct mirror;

#define DIGEST_TIMEOUT	10000u		/* ms */
#define DIGEST_RETRY	(30 * HZ)

/*
 * In the constructor: with the device of the table's option. One that can't be
 * opened is told, and never used. -ENOMEM, or 0 (without the option, too). The
 * other way round waits for reads that were abandoned; NULL is allowed.
 */
int __must_check digests_create(struct mirror *m);
void digests_destroy(struct mirror *m);

/* The table goes: dm gets its device back. And: are reads out that destroy would wait for? */
void digests_leave(struct mirror *m);
bool digests_out(struct mirror *m);

/* No more waiting for the device, and again. Any context; without digests, too. */
void digests_pause(struct mirror *m);
void digests_run(struct mirror *m);

/* Data sectors whose digests are read at once, at most. */
#define DIGEST_WINDOW	8192u		/* 4 MiB: 32 KiB of digests */

/* The last digests that were read, for several workers on the same part of the mirror. */
struct digest_window {
	struct mutex lock;		/* of set, also while it is read */
	struct digest_set *set;		/* or NULL */
};

/* Zeroed before. Closed when nobody uses it, from any context; then it can be used again. */
void digest_window_init(struct digest_window *w);
void digest_window_close(struct digest_window *w);

/**
 * digests_fetch - the digests of a chunk that is to be looked at
 * @w: of workers that have chunks in [first, last], where the chunk lies. A
 *	resync opens it after it has opened its region, and closes it before.
 * @first: a multiple of 8
 *
 * Process context, no locks; sleeps, see above for how long. Returns NULL if
 * there are no digests to rely on; the other way round is digests_put().
 */
struct digest_set *digests_fetch(struct mirror *m, struct digest_window *w, sector_t first,
				 sector_t last, sector_t start, unsigned int sectors);

/**
 * digests_differ - where the legs may differ, by the digests
 * @c: the chunk; its range is held, and the local leg is in its buffer
 * @first: the first sector of the chunk that is in doubt
 * @sectors: how many from there on; 0: the legs are equal in all of the chunk
 *
 * Returns false if the digests don't count any more. Doesn't sleep.
 */
bool __must_check digests_differ(struct digest_set *set, struct chunk *c, unsigned int *first,
				 unsigned int *sectors);

/* NULL is allowed. */
void digests_put(struct digest_set *set);

#endif
