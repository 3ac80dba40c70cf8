/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probe: does a dead leg answer, and what does it say that it is? Reads its
 * superblock (in core mode its first block) and flushes its cache.
 *
 * A leg that is dead may hang, so a probe is not waited for without end: after
 * PROBE_SECONDS, or when nobody may try any more (join_stop()), it is left to
 * itself. It then counts with the abandoned writes (write.h): the leg isn't used,
 * and not probed again, before it has returned; its memory stays until then.
 */
#ifndef LOCKSTEP_PROBE_H
#define LOCKSTEP_PROBE_H

#include "leg.h"

struct mirror;
struct super_found;

#define PROBE_SECONDS	10

/*
 * Process context, sleeps. 0, and then @found says what is on the leg (mirrors
 * with metadata only); -ETIMEDOUT; -ENOMEM; or the errno of the I/O.
 */
int __must_check probe_leg(struct mirror *m, enum leg_id leg, struct super_found *found);

#endif
