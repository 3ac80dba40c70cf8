/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registry: all mirrors of this host, so that no leg serves two of them, and a
 * table reload hands the state on.
 *
 * A reload makes a second mirror on the same legs, of the same mapped device,
 * before the first goes: dm suspends the old table, resumes the new one, then
 * destroys the old. When the new mirror is resumed for the first time, it takes
 * over from the suspended old one which leg is dead and why, and the counts of
 * errors. What each leg has, it reads from the legs' metadata, which the old one
 * has written when it was suspended. So a reload neither restarts a resync nor
 * forgets a stale region or that a leg was failed by hand, and a leg may be
 * exchanged by it: another device is a new word on that leg.
 *
 * Without metadata (core mode) the regions that are stale are taken over in
 * memory; sync or nosync of the new table line then only mean the sectors that
 * the old one didn't have. If a leg is exchanged, or after a remove and create,
 * the new table line is all that is known.
 *
 * A new mirror that couldn't be started has taken over all the same: the old one
 * is gone then. The next table takes over from it.
 */
#ifndef LOCKSTEP_REGISTRY_H
#define LOCKSTEP_REGISTRY_H

#include <linux/types.h>

#include "leg.h"

struct mirror;

/*
 * Are parts of abandoned writes out on this leg, sent by any mirror (the one
 * before a reload)? Sleeps.
 */
bool registry_draining(const struct mirror *m, enum leg_id leg);

/* In the constructor, legs opened. -EBUSY, with ti->error, if a leg is taken. */
int __must_check registry_add(struct mirror *m);
/*
 * Is there a mirror that runs, or has run, on one of the legs? Takes over from it
 * where the legs' metadata are. Sleeps.
 */
bool registry_reload(struct mirror *m);
/* That mirror's length in sectors, and the leg that it has lost; 0 and LEGS: none. Sleeps. */
void registry_before(struct mirror *m, sector_t *len, enum leg_id *missing);
void registry_remove(struct mirror *m);

/* In .preresume, first. -EBUSY if another mirror still runs on the legs. */
int __must_check registry_resume(struct mirror *m);
/* It could be: from now on others inherit from it. */
void registry_ran(struct mirror *m);
/* In .postsuspend: no I/O is in flight. */
void registry_suspend(struct mirror *m);

#endif
