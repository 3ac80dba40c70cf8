/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Heir: what the mirror of a new table may go on with, of what it finds on its legs.
 *
 * The callers who have the device open go on with what they have read and written by the table
 * before. So the leg from which a new table reads is one that the last table had, it is as that one
 * left it, and it has all that was acknowledged by that one: this leg is mirror.keep. The other one
 * stands in for it only if it has all of that, too, and once the new table has tried to go on with
 * the other one alone, that is the one to be kept: it may say so by now, or say it later.
 *
 * A table that only read has stood by (mirror.kept_read), and another host may have gone on with
 * one leg alone meanwhile. That leg isn't stolen then: it has what was acknowledged. So a new table
 * goes on with both legs as they were left, or not at all; but without one that was dead by then,
 * if nobody can go on with that one alone: the other one's superblock says that it has, or the dead
 * one's that it misses something. Any other dead leg is looked at again, also one that was failed
 * by hand: no leg says so.
 *
 * What is wrong the kernel's log says. In .preresume of a mirror that hasn't run,
 * before anything is written, unless it says otherwise; of a mirror with metadata; sleeps. What the
 * table before hands on: handover.h.
 */
#ifndef LOCKSTEP_HEIR_H
#define LOCKSTEP_HEIR_H

#include <linux/types.h>

#include "leg.h"
#include "super.h"

struct mirror;
struct verdict;

/*
 * At the load: the table before has lost a leg, so the other one has everything. -EINVAL, with
 * ti->error, if this table has another leg in its place, as far as that was @found.
 */
int __must_check heir_check_load(struct mirror *m, const struct super_found found[LEGS]);

/*
 * -ESTALE if somebody else has used a leg since the table before was suspended. @drop is LEGS then
 * if that is the one to be kept: nothing else will do.
 */
int __must_check heir_check_used(struct mirror *m, const struct super_found found[LEGS],
				 enum leg_id *drop);

/*
 * The legs have been looked at: the one that had everything is known by its uuid now, by whatever
 * device it comes. Then that is the one to be kept.
 */
void heir_find_kept(struct mirror *m);

/*
 * Is what @v reads from what the callers go on with? -EINVAL: it is none of the last table's legs,
 * or was used without this mirror. -EBUSY: the one that has everything can't be read, and nothing
 * else will do.
 */
int __must_check heir_check_source(struct mirror *m, const struct verdict *v);

/*
 * The leg without which to try again, if both can't be taken; LEGS: none. That is the one not to be
 * kept, or the one to be kept if that can't be read, or drains, and the other one has everything,
 * too.
 */
enum leg_id heir_may_drop(struct mirror *m, const struct super_found found[LEGS],
			  const bool draining[LEGS]);

/* It was tried in vain to go on without the leg to be kept. */
void heir_keep_other(struct mirror *m);

/* Tells who may have the device open what to do. -ESTALE. In any .preresume. */
int heir_start_anew(struct mirror *m, const char *how);

#endif
