/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Handover: what a table's mirror takes over from the one of the table before.
 *
 * A reload makes a second mirror on the same legs, of the same mapped device,
 * before the first goes: dm suspends the old table, resumes the new one, then
 * destroys the old. When the new mirror is resumed for the first time, it takes
 * over from the suspended old one which leg is dead and why, and the counts of
 * errors. What each leg has, it reads from the legs' metadata, which the old one
 * has written when it was suspended; but the home's map it takes over in memory, if the leg is the
 * same device, and its superblock says that nobody has used it since. So a reload neither
 * restarts a resync nor forgets a stale region or that a leg was failed by hand (but behind a table
 * that only read, unless nobody can have gone on with that leg: heir.h), and a leg may be exchanged
 * by it: another device is a new word on that leg. Both may be, if they are the same legs
 * by their uuids. A leg isn't dead any more if the other one couldn't say that it is alone; as that
 * may be on its way yet, the new table doesn't start without the other one before it has answered.
 *
 * Without metadata (core mode) the regions that are stale are taken over in
 * memory; sync or nosync of the new table line then only mean the sectors that
 * the old one didn't have. If a leg is exchanged, or after a remove and create,
 * the new table line is all that is known. No leg is taken over as dead without what
 * it misses. Such a table doesn't take over from one with metadata: it is refused.
 *
 * A new mirror that couldn't be started, or was refused, has taken over all the same: the old one
 * is gone then. The next table takes over from it, also which leg had everything, though
 * the table that couldn't be started may have named another one in its place, or none. In core
 * mode such a table may have exchanged a leg, and what the last map called stale went with the old
 * one: then all of the other leg is stale, if the one that had everything is named again.
 *
 * All but those that say otherwise are called under the registry's lock, and sleep.
 */
#ifndef LOCKSTEP_HANDOVER_H
#define LOCKSTEP_HANDOVER_H

#include <linux/types.h>

#include "leg.h"

struct mirror;

/*
 * May this mirror take over from that one? At the load, and at the resume. -EINVAL, with ti->error:
 * in core mode, if what the table says contradicts what @from knows.
 */
int __must_check handover_check(struct mirror *m, const struct mirror *from);
/* Likewise for one that has taken over: its first resume was refused, and this is the next one. */
int __must_check handover_check_again(struct mirror *m);

/*
 * At the load, and at the first resume: the legs of the last table that ran, and where their
 * metadata lay when the first of the mirrors began.
 */
void handover_legs(struct mirror *m, const struct mirror *from);

/*
 * Did the last table that ran have this leg, by its uuid or, as long as that isn't known, by its
 * device? No lock needed before @m runs.
 */
bool handover_was(const struct mirror *m, enum leg_id leg);

/*
 * At the first resume of @m. @from is suspended, has neither I/O nor resync, and no message to it
 * is under way: so its lock isn't needed. But if it is @busy, and @m refused for that, it may yet
 * write what it was told before that.
 */
void handover_take(struct mirror *m, const struct mirror *from, bool busy);

#endif
