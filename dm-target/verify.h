/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Verify: reads both legs and compares them, over the whole mirror, while the
 * application goes on. It finds what no error has told: a disk that has lost or
 * changed data by itself, somebody who has written to a leg.
 *
 * Some jobs take chunks one after another, each under its range, so that no
 * write is under way there; when, and how large, the throttle says. Regions that
 * are stale are passed over: the legs differ there, and the resync copies them.
 *
 * Sectors that differ are counted, logged with their place, and their region
 * is marked stale on the target of a resync if there is one, else on the remote
 * leg: nobody knows which of the two is right, and the local leg is the one
 * that is read. The resync mends them; verify waits for it and goes on. So a
 * run that has ended found all that differed, and all of it is mended or will be.
 * A run that was told to check only counts and logs: for one that nobody watches,
 * since what the resync overwrites may have been the right data.
 *
 * With digests (digest.h) the remote leg is read by the mirror site, and over the
 * wire only where its digests don't fit the local one.
 *
 * A chunk that can't be read from a leg is compared in pieces of a block. One of those that only
 * one leg can't give is handed to the repair, and compared when that is through. What can't be
 * compared then counts as if it differed, and is told with its place.
 *
 * A run keeps its place while a leg is dead and while the device is suspended.
 * It ends with the mirror, or with a reload: it isn't kept anywhere.
 *
 * Memory: VERIFY_JOBS chunks of 256 KiB, from the first run to the mirror's end.
 */
#ifndef LOCKSTEP_VERIFY_H
#define LOCKSTEP_VERIFY_H

#include <linux/types.h>

struct mirror;
struct verify;

#define VERIFY_JOBS	4

/* May sleep. Returns NULL for want of memory. Paused, no run. */
struct verify *verify_create(struct mirror *m);
/* May sleep; paused and drained before. */
void verify_destroy(struct verify *v);

/* Under the state lock: there may be something to do. */
void verify_kick(struct verify *v);

/* As resync_run() and so on. */
void verify_run(struct verify *v);
void verify_pause(struct verify *v);
void verify_drain(struct verify *v);

/*
 * Messages; sleep. A new run, from the first sector, with nothing found; @check:
 * nothing is marked. 0,
 * -EALREADY if one is under way, -EROFS if the mirror is read-only, -ENOMEM;
 * with a DMWARN. And its end, at once; what a run has found that ended by itself
 * stays.
 */
int __must_check verify_start(struct verify *v, bool check);
void verify_stop(struct verify *v);

/*
 * For the status line, under the state lock. Regions compared of the run under
 * way, or of one that has ended by itself; false: there is none.
 */
bool verify_progress(const struct verify *v, unsigned long *done);
u64 verify_differing(const struct verify *v);	/* or couldn't be compared */
/* verify, paused, or waiting (for a leg or the resync); NULL: no run under way. */
const char *verify_action(const struct verify *v);

#endif
