/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Home: the leg whose map counts (mirror.home), and how the other one becomes it: its map has
 * every bit, under a new epoch; then its superblock names that epoch; then it is the home
 * (life.h). Meanwhile the map is stopped (dirty_map_hold()), so no bit is set in between.
 *
 * All of these sleep. 0 or an errno.
 */
#ifndef LOCKSTEP_HOME_H
#define LOCKSTEP_HOME_H

#include "leg.h"

struct mirror;

/*
 * The steps: the leg's map is written, under an epoch that its superblock doesn't name yet. And,
 * when its superblock does, it is the home; -EAGAIN if it has died meanwhile, for then a parting,
 * which may be over by now, has found the other leg to be the home. The map is stopped.
 */
int __must_check home_new_map(struct mirror *m, enum leg_id leg);
int __must_check home_set(struct mirror *m, enum leg_id leg);

/*
 * All of them: the leg that keeps the map is to be a target, and would forget it; or the local one
 * is back, having missed nothing, and keeps it again.
 */
int __must_check home_move(struct mirror *m, enum leg_id to);

#endif
