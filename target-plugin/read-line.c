// SPDX-License-Identifier: GPL-2.0-only
/* The line of those who read much of what is all over the log: "turns" in read.h. */
#include <linux/module.h>

#include "lockstep-test.h"
#include "read-own.h"

TEST_KNOB(bool, no_turns, "the log is asked for all that is read at once");
TEST_KNOB(bool, few_wait, "a read of few places of the log waits for those of many");
TEST_KNOB(bool, begins_last, "a read that is tried again waits behind all that have come since");
TEST_KNOB(bool, turns_last, "a read of the log has its turn until it has ended");

unsigned int dcd_line_places(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t sector = rq->sector + rq->gather.done, last = rq->sector + rq->sectors - 1;
	unsigned int n = 0;

	while (sector <= last && n < DCD_AT_LOG && !test_knob(no_turns)) {
		struct dcd_place p;

		dcd_index_find(e, sector, last, &p);
		n += p.value && !p.zero && !p.lost;
		sector = p.last + 1;
	}
	return n > DCD_SCATTERED ? n : 0;
}

static struct dcd_turns *turns_of(struct dcd_reads *r, unsigned int places)
{
	return &r->turns[places > DCD_FEW && !test_knob(few_wait)];
}

void dcd_line_end_turn(struct dcd_engine *e, struct dcd_gather *g)
{
	struct dcd_turns *t = turns_of(&e->reads, g->places);

	lockdep_assert_held(&e->reads.lock);
	t->at_log -= g->places;
	g->places = 0;
	if (!list_empty(&t->waiting))
		queue_work(e->quick_wq, &e->reads.unpark_work);
}

bool dcd_line_turn_over(struct dcd_own *o)
{
	int n = atomic_read(&o->log_reads.ios.in_flight);

	if (n != o->in_flight)
		o->went_on = jiffies;
	o->in_flight = n;
	return !test_knob(turns_last) &&
	       (time_after(jiffies, o->rq.since + DCD_TURN_PATIENCE) ||
		(n && time_after(jiffies, o->went_on + DCD_TURN_STALL)));
}

void dcd_line_keep_place(struct dcd_reads *r, const struct dcd_request *rq)
{
	const struct dcd_gather *g = &rq->gather;

	if (g->first_try && !test_knob(begins_last))
		r->tried[r->next_tried++ % DCD_TRIED] =
			(struct dcd_tried) { rq->sector, rq->sectors, g->first_try };
}

/* When was the first try of it? Needs the lock. */
static unsigned long first_try(struct dcd_reads *r, const struct dcd_request *rq)
{
	struct dcd_tried *t;

	for (t = r->tried; t < r->tried + DCD_TRIED; t++) {
		if (t->sectors == rq->sectors && t->sector == rq->sector) {
			t->sectors = 0;
			return t->first_try;
		}
	}
	return jiffies ?: 1;
}

/* Its place in the line. Needs the lock. */
static void line_up(struct dcd_reads *r, struct dcd_turns *t, struct dcd_request *rq)
{
	struct list_head *at = t->waiting.prev;

	if (!rq->gather.first_try)
		rq->gather.first_try = first_try(r, rq);
	while (at != &t->waiting &&
	       time_after(list_entry(at, struct dcd_request, waiting)->gather.first_try,
			  rq->gather.first_try))
		at = at->prev;
	list_add(&rq->waiting, at);
}

/* If the first one may it does: its places are the log's, and it is in no line. Needs the lock. */
static bool begin_first(struct dcd_turns *t)
{
	struct dcd_request *rq = list_first_entry_or_null(&t->waiting, struct dcd_request, waiting);

	if (!rq || (t->at_log && t->at_log + rq->gather.places > DCD_AT_LOG))
		return false;
	list_del(&rq->waiting);
	t->at_log += rq->gather.places;
	return true;
}

bool dcd_line_join(struct dcd_reads *r, struct dcd_request *rq)
{
	struct dcd_turns *t = turns_of(r, rq->gather.places);

	line_up(r, t, rq);
	return t->waiting.next != &rq->waiting || !begin_first(t);
}

struct dcd_request *dcd_line_next(struct dcd_engine *e, struct dcd_turns *t)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_request *rq;

	spin_lock_irq(&r->lock);
	while ((rq = list_first_entry_or_null(&t->waiting, struct dcd_request, waiting))) {
		/* Somebody has given the same up meanwhile. */
		if (dcd_own_has_to_wait(r, rq)) {
			list_move_tail(&rq->waiting, &r->parked);
			continue;
		}
		if (!begin_first(t))
			rq = NULL;
		break;
	}
	spin_unlock_irq(&r->lock);
	return rq;
}
