/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Verdict: what two legs are to each other, told from what was found on them
 * alone. Pure: any context, no locks; the module and lockstep-meta ask the same
 * function. Why it is right: the rules of life.h.
 *
 * The table of all combinations, "L" and "R" the local and the remote leg. The
 * first line that fits counts.
 *
 *  what was found                      verdict
 *  ----------------------------------  -------------------------------------------
 *  L and R absent                      refuse NOTHING
 *  one blank (no superblock)           refuse BLANK
 *  one bad (see enum super_reason)     refuse BAD
 *  one is a disk whose DCD's log may
 *  have what it lacks (super.h)        refuse BYPASSED
 *  of different sets                   refuse FOREIGN
 *  L says remote and R says local      refuse SWAPPED
 *  one says it is the other            refuse WRONG_LEG
 *  both are the same leg (its uuid)    refuse WRONG_LEG
 *  region sizes differ; or the lengths
 *  do, and the shorter has no room     refuse GEOMETRY
 *
 *  one absent, the present one is      SYNC, ALONE:  it is the source, alone
 *                                      TARGET, NEW:  refuse INCOMPLETE
 *
 *  NEW and NEW                         refuse INCOMPLETE
 *  NEW and SYNC or ALONE               NEW.base in the other's history: the other
 *                                      is the source, full; else refuse OUTDATED,
 *                                      the other is older than it should be
 *  NEW and TARGET                      refuse INCOMPLETE
 *
 *  same generation (L.cur = R.cur):    R SYNC        R ALONE       R TARGET
 *    L SYNC                            L             refuse BOTH   L
 *    L ALONE                           refuse BOTH   refuse BOTH   L
 *    L TARGET                          R             R             refuse INCOMPLETE
 *
 *  L went on (L.base = R.cur, so L     R SYNC        R ALONE       R TARGET
 *  is ALONE), R didn't go on from L    L             refuse BOTH   L
 *                                      and with L.alone_seq below what R knows of L: it
 *                                      went on from an older copy    refuse BOTH
 *  R went on (R.base = L.cur)          the same with L and R exchanged
 *  each went on from the other         refuse BOTH
 *
 *  else, by the histories:
 *    each has the other's cur          refuse BOTH
 *    L has R.cur                       refuse OUTDATED, the remote leg is older
 *    R has L.cur                       refuse OUTDATED, the local leg is older
 *    they have a generation in common  refuse SPLIT_BRAIN
 *    they have none                    refuse UNRELATED
 *
 * What would be OK so far, neither being NEW, is not if one has a lower seq than the other
 * knows of (super_know()): it is an older copy of that leg, and what was written and cleaned
 * after it is in no map: refuse OUTDATED, that leg; both: refuse BOTH.
 *
 * A source alone says nothing about what the absent leg may have: that the
 * caller wants it has to be said by who can know. SPLIT_BRAIN, OUTDATED,
 * UNRELATED and BOTH are left by `lockstep resolve` only; INCOMPLETE by bringing
 * the leg that has the data.
 *
 * Of different lengths are legs whose growth was cut short (growth.h): the longer
 * one has to be the source, else GEOMETRY. If both are SYNC at one generation it
 * is, and the other one joins.
 *
 * What is resynced: if full, everything; else the union of both legs' maps,
 * whoever is the source (nothing, if that is empty). ALONE and TARGET need the
 * steps of a join even then.
 */
#ifndef LOCKSTEP_VERDICT_H
#define LOCKSTEP_VERDICT_H

#include "super.h"

enum verdict_reason {
	VERDICT_OK,
	VERDICT_NOTHING,
	VERDICT_BLANK,
	VERDICT_BAD,
	VERDICT_BYPASSED,
	VERDICT_FOREIGN,
	VERDICT_SWAPPED,
	VERDICT_WRONG_LEG,
	VERDICT_GEOMETRY,
	VERDICT_INCOMPLETE,
	VERDICT_BOTH,
	VERDICT_OUTDATED,
	VERDICT_SPLIT_BRAIN,
	VERDICT_UNRELATED,
	VERDICT_REASONS,
};

struct verdict {
	enum verdict_reason reason;	/* VERDICT_OK, or why it is refused */
	u32 leg;			/* if refused: the leg it is about */
	/* if VERDICT_OK */
	u32 source;		/* LOCKSTEP_LOCAL or LOCKSTEP_REMOTE */
	bool alone;		/* without the other leg; the caller must have been told to */
	bool full;		/* the other leg is NEW */
	bool join;		/* the other leg must become TARGET whatever the maps say */
	bool crashed;		/* wasn't stopped cleanly; of a leg left behind nobody asks */
};

/* Decide. @legs[LOCKSTEP_LOCAL], @legs[LOCKSTEP_REMOTE]: what was found. */
void verdict_decide(const struct super_found *local, const struct super_found *remote,
		    struct verdict *v);

/* One word: "ok", "split-brain", ... */
const char *verdict_word(enum verdict_reason reason);

/*
 * A sentence or two for people: what was decided, or what is wrong and what to
 * do. Returns the length. 500 bytes are enough.
 */
int verdict_text(const struct verdict *v, const struct super_found *local,
		 const struct super_found *remote, char *buf, size_t size);

#endif
