/* SPDX-License-Identifier: GPL-2.0-only */
/* Salvage: what of a damaged set can be saved goes to the data disk, see salvage.c. */
#ifndef DCD_SALVAGE_H
#define DCD_SALVAGE_H

#include "set.h"

enum { LOSSES = 3 };	/* the exit code */

/*
 * Of a set that is open for writing (or @dry: nothing is written). @done: what was written; s->lost:
 * what couldn't be. 0, or -1 with s->failed, or refused: it is another data disk (@anyway: told).
 */
int set_salvage(struct set *s, bool dry, bool anyway, struct tally *done);

#endif
