/* SPDX-License-Identifier: GPL-2.0-only */
/* Lost: the list of what a set had and can't give any more. */
#ifndef DCD_LOST_H
#define DCD_LOST_H

#include "set.h"

/* Adds to it. Without memory s->failed says that it isn't known. */
void lost_add(struct set *s, u64 first, u64 last, u64 sector, u64 sectors);
/* A later entry wrote here: what was lost before that doesn't matter. */
void lost_cut(struct set *s, u64 sector, u64 sectors);
/* All that was lost by entry @sequence isn't. */
void lost_found(struct set *s, u64 sequence);
/* Which of its @sectors, from @sector on, are in the list: a byte for each. False: none. */
bool lost_sectors(const struct set *s, u64 sequence, u64 sector, u32 sectors, u8 *which);
void lost_none(struct set *s);
/* Lines, or a member "lost" of the open JSON object. */
void lost_text(const struct set *s);
void lost_json(const struct set *s);

#endif
