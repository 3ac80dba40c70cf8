/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Zero: how a write of kind WRITE_ZERO is done on a leg. The caller's discard
 * or write-zeroes both become "these sectors read as zeroes" on both legs:
 * what a discarded sector reads as may differ between two devices, and the
 * legs have to stay bit-identical. A device that can deallocate and still
 * promises zeroes does so.
 *
 * Each leg's part runs in a worker of the leg's sender, in a lane of its own, and
 * sleeps until the device is done: so a leg that hangs keeps neither writes nor
 * the other leg's zeroing waiting. What one call of it sends to the device counts
 * as one request (watch.h). The target offers these operations only if
 * both legs have write-zeroes when the table is loaded; if a leg loses it
 * later, the block layer falls back to writing zeroes.
 *
 * A device has no FUA for zeroing, and a flush afterwards doesn't do for a leg that is
 * written through (leg.h): its device may lose its power between the two, come back behind a
 * session that reconnects, and flush what it has no more. So with such a leg these operations
 * aren't offered, and if its cache is switched on later zeroes are written, with FUA.
 */
#ifndef LOCKSTEP_ZERO_H
#define LOCKSTEP_ZERO_H

#include "leg.h"

struct mirror;
struct write;

void zero_init(struct leg *l);

/* Do a leg's part. Sleeps until the device is done: for the sender's workers. */
blk_status_t zero_leg(struct write *w, enum leg_id leg);

/* Can both legs write zeroes by themselves, so that they keep them? */
bool zero_supported(const struct mirror *m);

/*
 * What a leg is asked to zero at once, and so what a request zeroes at most: that bounds how long
 * its range is held. A discard may be ZERO_MAX_SECTORS, if a leg frees no less than that.
 */
#define ZERO_AT_ONCE_SECTORS	(8u << (20 - 9))
#define ZERO_MAX_SECTORS	(32u << (20 - 9))

#endif
