/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Dirty clean: the dirty map's cleaner, which finds out what isn't dirty any more
 * (dirty-map.h). A work item of its own, so that marks don't wait for the legs' caches.
 *
 * It works in three steps: with the map's mutex it picks regions that nobody writes; without
 * it the legs are flushed; with it what nobody has wanted again meanwhile is clean.
 */
#ifndef LOCKSTEP_DIRTY_CLEAN_H
#define LOCKSTEP_DIRTY_CLEAN_H

#include <linux/types.h>

struct dirty_map;
struct work_struct;

/* Has the log so little room that it is to be cleaned? Under the mutex. */
bool dirty_clean_wanted(const struct dirty_map *dm);

/* Now, unless the map is stopped. Any context but under the map's lock. */
void dirty_clean_kick(struct dirty_map *dm);

/* The log names nothing any more: the legs have been flushed, and no write is in flight. */
int __must_check dirty_clean_log(struct dirty_map *dm);

/* dirty_map.cleaner */
void dirty_clean_work(struct work_struct *work);

#endif
