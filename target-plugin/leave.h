/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leaving a dead log for good, while the engine is open. The admin says so (leave_log of struct
 * dcd_config), never the engine by itself. A log that works is left by `dcd retire` only, when
 * nothing is open. What NVRAM and the log have goes to the data disk. What the log can't give is
 * asked for again: for four seconds if it gives nothing at all (blip.h), for half a minute else,
 * and once more if there is too much for that. Then it is LOST, and listed. Log and NVRAM are
 * marked as `dcd retire` marks them, so that no later start brings them back; and from then on each
 * write goes through to the data disk, durable there before it is answered (through.h), so the LUN
 * has no volatile write cache.
 *
 *   ASKED  by the admin. From now on the log stays dead, even if it works again: it is read, but
 *	    nothing is written to it. Where an NVRAM keeps its content writes have its room, and
 *	    rounds past the log free that, until what there was is on the data disk, or hasn't been
 *	    read for a second; then until what came meanwhile is, and so on: writes are paced so
 *	    that this gets less each time, until little is left, or it doesn't get less; and until
 *	    zeroes are wiped, or no more are. Without such an NVRAM nobody gets a
 *	    place any more
 *   BEGUN  the destager goes round once more, and writes are paced yet. What it can't read stays
 *	    in the index
 *   LAST   nobody gets a place. All that was in NVRAM goes to the data disk, in a second round, of
 *	    no more than that; then the marks, durable; then the rest of the index is LOST
 *   LEFT   for good
 *
 * The marks are the point of no return: before them a cut leaves log and NVRAM as they were, and
 * the next opening brings the same to the data disk; no write has gone past them. Behind them the
 * data disk has all but what is LOST. That is known as long as it is open; a mirror's leg is never
 * told that it has all, as DCD_INCOMPAT_LACKS is among the marks then.
 *
 * The NVRAM's header says it whatever becomes of the log. Without such an NVRAM only the log's own
 * superblock can: if it takes no writes it can't be left, and the request is refused.
 *
 * A data disk that fails, hangs, or has bad places, holds it up: it is tried again, and what NVRAM
 * has no room for gets BUSY or an error as ever past a dead log. Until LAST the admin may take it
 * back.
 *
 * The destager's, but for dcd_leave() and dcd_leave_not() (dcd.h).
 */
#ifndef DCD_LEAVE_H
#define DCD_LEAVE_H

#include <linux/compiler.h>
#include <linux/types.h>

struct dcd_engine;
struct dcd_load;
struct dcd_mark;

enum dcd_leaving {
	DCD_LEAVE_NOT,
	DCD_LEAVE_ASKED,
	DCD_LEAVE_BEGUN,
	DCD_LEAVE_LAST,
	DCD_LEAVE_LEFT,
};

/* Nobody gets a place now. Needs @lock. */
bool dcd_leave_holds(const struct dcd_engine *e);
/* Does it go on, so that a round is for it? */
bool dcd_is_leaving(const struct dcd_engine *e);
/* Is it ASKED for, so that zeroes are to be wiped? */
bool dcd_leave_asked(const struct dcd_engine *e);
/* Is there to be less and less, with writes coming in more slowly than it goes out? Needs @lock. */
bool dcd_leave_paces(const struct dcd_engine *e);
/* Segments with what is to go to the data disk yet, less what can't be read. Needs @lock. */
u64 dcd_leave_left(const struct dcd_engine *e);
/* Is the next round the one of BEGUN? */
bool dcd_leave_due(struct dcd_engine *e);
/* Before a round: begins if it is due. */
void dcd_leave_begin(struct dcd_engine *e);
/*
 * A round up to @target has ended with @error, or 0. If something of the log can't be read all else
 * is on the data disk. If it was the log's otherwise it doesn't get better by waiting; but while
 * the data disk is late, or fails, no later round would get past it either.
 */
void dcd_leave_tried(struct dcd_engine *e, u64 target, int error);
/*
 * The log can't give a load. True: it stays in the index until all is LOST, and is no error; or it
 * is asked for it again in the next round.
 */
bool dcd_leave_unread(struct dcd_engine *e, struct dcd_load *l);
/* Was that so in an earlier round? Then it isn't asked for again. */
bool dcd_leave_lost(struct dcd_engine *e, struct dcd_load *l);
/* Likewise, of what is LOST already. */
void dcd_leave_skip(struct dcd_engine *e, struct dcd_load *l);
/* It was taken back, and what has been passed since the mark isn't all on the data disk. */
bool dcd_leave_taken_back(struct dcd_engine *e);
/* A round has come to its mark, without an error. 0, or why it can't go on. */
int __must_check dcd_leave_passed(struct dcd_engine *e, const struct dcd_mark *m);
/* A round failed: others may have places again. */
void dcd_leave_failed(struct dcd_engine *e);
/* For people: the log's state, or NULL if it is neither being left nor left. */
const char *dcd_leave_text(const struct dcd_engine *e);

#endif /* DCD_LEAVE_H */
