/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Resync: copies stale regions from the leg that is current in them to the one
 * that isn't, while the application goes on.
 *
 * Some jobs (resync_jobs) take chunks of up to IO_MAX_SECTORS one after another,
 * in the order of their sectors: so each leg sees one sequential stream, and a
 * region is usually in several jobs' hands. A chunk's range is held while it is
 * copied, so that no write of the application overlaps it: every write is
 * either before the copy, which then carries it over, or after it, and then it
 * goes to both legs (an alive leg gets every write, stale or not). The region's
 * bit is cleared after the last chunk, if nothing was marked meanwhile
 * (region-map.h). When a chunk starts and how large it is, the throttle says.
 *
 * With compare, a chunk is read from both legs, and only what differs is
 * written, from the first to the last physical block that does. Data that is
 * equal isn't sent to the mirror site then; but the remote leg's copy has to
 * cross the wire in the other direction to be compared, so it helps where that
 * direction is idle or faster, or where a write costs more than a read.
 *
 * With digests (digest.h), what is equal doesn't cross the wire in either
 * direction. They are read before the chunk's range is held; then the local leg,
 * and if it isn't as they say, what differs is copied.
 *
 * A region that can't be read stays stale; the pass goes on with the next one.
 * A pass ends at the last region; a new one starts if a region was copied or
 * marked since the pass began, so an unreadable region doesn't keep the resync
 * busy for ever: it ends "stalled", and the log says where, once. "recover",
 * "resync" or a new mark starts it again, and it starts by itself after
 * RESYNC_RETRY_SECONDS: the source may have been away for a moment only.
 *
 * Memory: all of it is allocated at creation, so a resync needs none: 256 KiB
 * for each job.
 */
#ifndef LOCKSTEP_RESYNC_H
#define LOCKSTEP_RESYNC_H

#include <linux/types.h>

struct mirror;
struct resync;

/* Enough to fill a wire of 72 ms and 80 Mbit/s. */
#define RESYNC_JOBS_DEFAULT	8
#define RESYNC_JOBS_MAX		16

#define RESYNC_RETRY_SECONDS	60

/**
 * resync_create - a resync that is paused
 * @jobs: chunks copied at the same time, 1 to RESYNC_JOBS_MAX
 *
 * The mirror's throttle is there already. May sleep. Returns an ERR_PTR on
 * failure.
 */
struct resync *resync_create(struct mirror *m, unsigned int jobs, bool compare);
/* May sleep; paused and drained before. */
void resync_destroy(struct resync *rs);

/* Under the state lock: there may be something to do. */
void resync_kick(struct resync *rs);

/* Start, and stop: no further chunk begins after resync_pause(). Any context. */
void resync_run(struct resync *rs);
void resync_pause(struct resync *rs);
/* Wait for the chunks that are under way; after resync_pause(). Sleeps. */
void resync_drain(struct resync *rs);

/* From the next chunk on. Any context. */
void resync_set_compare(struct resync *rs, bool compare);

/* Under the state lock: is it copying, or waiting for leave to? */
bool resync_busy(const struct resync *rs);

/*
 * Under the state lock: is a job at work? Unlike resync_busy(), no longer when the
 * last one tells verify that it may go on.
 */
bool resync_active(const struct resync *rs);

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
