/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The way of a write, zeroes, a discard or a flush when the log has been left (leave.h): to the
 * data disk, durable there, then the answer. What was LOST isn't when it has been written over. A
 * batch can't be all or nothing here, so it is refused: the LUN takes single writes only.
 *
 * A data disk that doesn't answer holds nobody: like any other request one is given up when it has
 * waited for long enough (patience.c), but for what is to be done once. What the disk is at may get
 * there at any time, so nothing else goes to those sectors before it has returned, whether or not
 * it is given up by then: who comes for them waits for that (parked), in the order of coming, or
 * until his own wait is over; and so does everybody while DCD_THROUGH_MOST are given up. Nor is
 * anything read there before what was given up has returned: who was told that it never will be
 * done would find that it was, later. Zeroes that were given up, and come in the end, are the
 * answer to who was parked for the same. A disk may take long for zeroes, so DCD_THROUGH_ZEROINGS
 * of those are under way at a time, and others are parked, too: writes come in between, even to the
 * sectors that those are for.
 *
 * What was LOST stays so below a write that was given up, whatever the disk has then.
 */
#ifndef DCD_THROUGH_H
#define DCD_THROUGH_H

#include <linux/list.h>
#include <linux/types.h>

struct dcd_engine;
struct dcd_request;

#define DCD_THROUGH_MOST 64U	/* each may be a thread, and reads need some of those */
#define DCD_THROUGH_ZEROINGS 4U

/*
 * The engine's lock's. @begun: those that haven't returned, of which so many are @given_up.
 * @zeroings: those of them, and of the @parked, that have a place.
 */
struct dcd_throughs {
	struct list_head begun, parked;
	unsigned int given_up, zeroings;
};

void dcd_throughs_init(struct dcd_engine *e);
/* Answered in any case. Sleeps for memory only. */
void dcd_through(struct dcd_engine *e, struct dcd_request *rq);
/* Of a log that has been left. True: the read waits, or has been answered. Likewise. */
bool __must_check dcd_through_holds_read(struct dcd_engine *e, struct dcd_request *rq);
/*
 * Those whose wait is over, to @over: they are to be answered, with no lock held. True: others
 * still wait. Process context.
 */
bool dcd_throughs_over(struct dcd_engine *e, struct list_head *over);
/* At the engine's end: has all returned? Any process context. */
bool dcd_throughs_quiet(struct dcd_engine *e);

#endif /* DCD_THROUGH_H */
