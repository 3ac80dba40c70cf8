/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Absorb: writes that become part of one that hasn't gone out yet.
 *
 * A write with data that waits for its range, or in the open batch (batch.h),
 * absorbs what comes later and lies wholly within it: in order of arrival their
 * bytes replace its own when it goes out, it gets their FUA and PREFLUSH, and
 * all are acknowledged together, with its status. None has been before, so all
 * of them were in flight at the same time, and any order of them is right; and
 * so it doesn't matter either that one overtakes a third write, zeroing or
 * chunk that waits in between (range-lock.h tells why that starves nobody).
 *
 * So a hot block takes two round trips however many writes come for it while the
 * first is on the way. What is absorbed has no struct write and no pages of its
 * own, only its caller's bio, which is copied from when the write that has
 * absorbed it is closed: by whoever sends that, with no locks held.
 *
 * Off with coalesce 1.
 */
#ifndef LOCKSTEP_ABSORB_H
#define LOCKSTEP_ABSORB_H

#include <linux/types.h>

struct bio;
struct locked_range;
struct mirror;
struct write;

/*
 * For .map: can the bio, a write with data, be absorbed? Then it has been, and
 * may have been acknowledged already.
 */
bool __must_check absorb(struct mirror *m, struct bio *bio);

/* The take function (range-lock.h) of a write with data. */
void absorb_take(struct locked_range *range, void *what, bool waits);

/*
 * w is about to go out for the first time: it absorbs no more, and gets the bytes
 * of what it has absorbed. The caller sends it. Process context.
 */
void absorb_end(struct write *w);

#endif
