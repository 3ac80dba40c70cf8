/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leaving the log for good, while the engine is open: because it is dead, or is to go. The admin
 * says so (leave_log of struct dcd_config), never the engine by itself. What NVRAM and the log have
 * goes to the data disk; what the log can't give, asked again for some seconds, as it may be away
 * for a moment (blip.h), is LOST, and listed;
 * log and NVRAM are marked as `dcd retire` marks them, so that no later start brings them back; and
 * from then on each write goes through to the data disk, durable there before it is answered
 * (through.h), so the LUN has no volatile write cache.
 *
 *   ASKED  by the admin. If the log works it is used until what it had then is on the data disk, so
 *	    that writes have its room meanwhile (or an NVRAM's that keeps its content, past a dead
 *	    one); then until what came meanwhile is, and so on: they are paced so that this gets
 *	    less each time, until little is left, or it doesn't get less; and until zeroes are wiped
 *	    but for a few, or no more are: others wait meanwhile
 *   ENDS   unless an NVRAM keeps its content: nobody gets a place any more, and what was
 *	    acknowledged gets to the log, if that works
 *   BEGUN  nothing goes to the log any more. The destager goes round once, as past a dead one. What
 *	    it can't read stays in the index
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
 * Where an NVRAM keeps its content, a log that worked when that was asked, and fails then, is left
 * when it has for half a minute: it may be away, and is used again when it is back.
 *
 * A data disk that fails, hangs, or has bad places, holds it up: it is tried again. While it is
 * ASKED a log that works is used meanwhile, so nobody waits; later writes get BUSY or an error as
 * ever. Until LAST the admin may take it back.
 *
 * The destager's, but for dcd_leave(), and asking.
 */
#ifndef DCD_LEAVE_H
#define DCD_LEAVE_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct dcd_engine;
struct dcd_load;
struct dcd_mark;

enum dcd_leaving {
	DCD_LEAVE_NOT,
	DCD_LEAVE_ASKED,
	DCD_LEAVE_ENDS,
	DCD_LEAVE_BEGUN,
	DCD_LEAVE_LAST,
	DCD_LEAVE_LEFT,
};

/*
 * The data disk is asked for a block by a worker, as it may not answer for long, unless it takes
 * something @since the log could be left but for that. @heard: it has answered then; it isn't asked
 * before @next (jiffies). Under @lock.
 */
struct dcd_leave_ask {
	struct work_struct work;
	bool due, under_way;
	unsigned long since, heard, next;
};

void dcd_leave_init(struct dcd_engine *e);
/* Is it being asked? Who frees the engine waits until it isn't. Any context. */
bool dcd_leave_asks(struct dcd_engine *e);
/* Nobody gets a place now. Needs @lock. */
bool dcd_leave_holds(const struct dcd_engine *e);
/* Does it go on, so that a round is for it? */
bool dcd_is_leaving(const struct dcd_engine *e);
/* Is the log to be emptied, with writes coming in more slowly than what is there goes out? */
bool dcd_leave_paces(const struct dcd_engine *e);
/* If it works (again): is it used, as it isn't left yet, and wasn't dead when that was asked? */
bool dcd_leave_uses_log(const struct dcd_engine *e);
/* Is the log to be used no longer: no round by it any more? */
bool dcd_leave_due(struct dcd_engine *e);
/* Before a round: begins if it is due. */
void dcd_leave_begin(struct dcd_engine *e);
/* Segments with what is to go to the data disk yet, less what can't be read. Needs @lock. */
u64 dcd_leave_left(const struct dcd_engine *e);
/*
 * A round up to @target has ended with @error, or 0. If something of the log can't be read all else
 * is on the data disk. If it was the log's otherwise it doesn't get better by waiting. But neither
 * counts of a log that may come back (above). While the data disk is late, or fails, writes would
 * wait for that past the log.
 */
void dcd_leave_tried(struct dcd_engine *e, u64 target, int error);
/*
 * The log can't give a load. True: it stays in the index until all is LOST, and is no error; or it
 * is asked for it again in the next round.
 */
bool dcd_leave_unread(struct dcd_engine *e, struct dcd_load *l);
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
