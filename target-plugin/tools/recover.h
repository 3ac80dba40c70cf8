/* SPDX-License-Identifier: GPL-2.0-only */
/* Recover: what is live goes to the data disk, see recover.c. */
#ifndef DCD_RECOVER_H
#define DCD_RECOVER_H

#include "set.h"

/*
 * Of a set that is open for writing (or o->dry_run). @found: what was live. 0, or -1 as
 * set_walk().
 */
int set_recover(struct set *s, const struct options *o, struct tally *found);

#endif
