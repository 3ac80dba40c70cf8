/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Resync: copies stale regions from the leg that is current in them to the one
 * that isn't, while the application goes on.
 *
 * Some jobs (resync_jobs) each take one stale region at a time and copy it in
 * chunks of up to IO_MAX_SECTORS. A chunk's range is held while it is copied,
 * so that no write of the application overlaps it: every write is either
 * before the copy, which then carries it over, or after it, and then it goes to
 * both legs (an alive leg gets every write, stale or not). The bit is cleared
 * after the last chunk, if nothing was marked meanwhile (region-map.h).
 *
 * A region that can't be read stays stale; the pass goes on with the next one.
 * A pass ends at the last region; a new one starts if a region was copied or
 * marked since the pass began, so an unreadable region doesn't keep the resync
 * busy for ever: it ends "stalled", and a message or a new mark starts it again.
 *
 * Memory: all of it is allocated at creation, so a resync needs none.
 */
#ifndef LOCKSTEP_RESYNC_H
#define LOCKSTEP_RESYNC_H

#include <linux/types.h>

struct mirror;
struct resync;

#define RESYNC_JOBS_DEFAULT	2
#define RESYNC_JOBS_MAX		16

/**
 * resync_create - a resync that is paused
 * @jobs: regions copied at the same time, 1 to RESYNC_JOBS_MAX
 * @rate: KiB in each second over all jobs, 0 = as fast as it goes
 *
 * May sleep. Returns an ERR_PTR on failure.
 */
struct resync *resync_create(struct mirror *m, unsigned int jobs, unsigned int rate);
/* May sleep; paused and drained before. */
void resync_destroy(struct resync *rs);

/* Under the state lock: there may be something to do. */
void resync_kick(struct resync *rs);

/* Start, and stop: no further chunk begins after resync_pause(). Any context. */
void resync_run(struct resync *rs);
void resync_pause(struct resync *rs);
/* Wait for the chunks that are under way; after resync_pause(). Sleeps. */
void resync_drain(struct resync *rs);

/* Process context; takes the state lock. Wakes jobs that wait at the old rate. */
void resync_set_rate(struct resync *rs, unsigned int rate);

/*
 * Under the state lock: one word for the status line:
 * idle     nothing is stale
 * resync   copying
 * paused   the device is suspended
 * waiting  a leg is dead, so there is nowhere to copy to or from
 * stalled  regions are stale, but the last pass could copy none of them
 */
const char *resync_action(const struct resync *rs);

#endif
