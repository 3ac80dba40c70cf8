/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registry: all mirrors of this host, so that no leg serves two of them, and a
 * table reload hands the state on.
 *
 * A reload makes a second mirror on the same legs, of the same mapped device,
 * before the first goes: dm suspends the old table, resumes the new one, then
 * destroys the old. Registered at construction, the new mirror takes over from
 * the suspended old one when it is resumed for the first time: which regions
 * are stale on which leg, and which leg is dead. sync/nosync of the new table
 * line then only mean the sectors that the old one didn't have. So a reload
 * neither restarts a resync nor forgets a stale region.
 *
 * If a leg is exchanged by the reload, nothing is taken over: the new table
 * line's sync/nosync is what is known.
 *
 * After a remove and create nothing is known either: the map is in core memory.
 */
#ifndef LOCKSTEP_REGISTRY_H
#define LOCKSTEP_REGISTRY_H

#include "leg.h"

struct mirror;

/*
 * Are parts of abandoned writes out on this leg, sent by any mirror (the one
 * before a reload)? Sleeps.
 */
bool registry_draining(const struct mirror *m, enum leg_id leg);

/* In the constructor, legs opened. -EBUSY, with ti->error, if a leg is taken. */
int __must_check registry_add(struct mirror *m);
void registry_remove(struct mirror *m);

/* In .preresume. -EBUSY if another mirror still runs on the legs. */
int __must_check registry_resume(struct mirror *m);
/* In .postsuspend: no I/O is in flight. */
void registry_suspend(struct mirror *m);

#endif
