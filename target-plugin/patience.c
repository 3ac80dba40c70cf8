// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a wait that wasn't in vain for its own sake: a request that waits for time,
 * room or the log is looked at every LOOK jiffies. When it has waited for so long that its
 * initiator should hear from it, or when nobody wants it any more, it leaves the queue and
 * is answered with -EAGAIN. LIO tells a backstore of some ways in which a command can become
 * unwanted (dcd_look()), but not of all (its session is lost), so it is asked.
 *
 * A write that was ended has no entry that isn't filled: nobody looks into its memory again,
 * and what hadn't been entered never will be. What had been may get to its disk all the same: to
 * do that again does no harm, but where it was COMPARE AND WRITE, which wouldn't find any more what
 * it compares with. So that waits for its end (@once), as long as it is wanted. A read waits for
 * disks that read into memory of the engine's (read.h).
 */
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, wait_forever, "a request waits until it can be done, whoever may still want it");
TEST_KNOB(bool, done_twice, "what is to be done once is to be tried again though it may be done yet");

bool dcd_waited_enough(struct dcd_engine *e, unsigned long since)
{
	unsigned int ms = READ_ONCE(e->busy_after_ms);

	return ms && !test_knob(wait_forever) &&
	       time_after_eq(jiffies, since + msecs_to_jiffies(ms));
}
EXPORT_SYMBOL_GPL(dcd_waited_enough);

static bool unwanted(const struct dcd_request *rq)
{
	return rq->unwanted && !test_knob(wait_forever) && rq->unwanted(rq);
}

bool dcd_wait_over(struct dcd_engine *e, const struct dcd_request *rq)
{
	return unwanted(rq) || dcd_waited_enough(e, rq->since);
}

bool dcd_end_wait_over(struct dcd_engine *e, const struct dcd_request *rq)
{
	if (rq->once && !test_knob(done_twice))
		return unwanted(rq);
	return dcd_wait_over(e, rq);
}

static void count_over(struct dcd_engine *e, const struct dcd_request *rq)
{
	dcd_count(e, unwanted(rq) ? DCD_N_UNWANTED : DCD_N_BUSY, 1);
}

void dcd_answer_over(struct dcd_engine *e, struct dcd_request *rq)
{
	count_over(e, rq);
	dcd_answer(e, rq, -EAGAIN);
}

/* How many went from @list, of requests that are @entered or not, to @over. Needs @lock. */
static unsigned int take_over(struct dcd_engine *e, struct list_head *list, bool entered,
			      struct list_head *over)
{
	struct dcd_request *rq, *next;
	unsigned int n = 0;

	lockdep_assert_held(&e->lock);
	list_for_each_entry_safe(rq, next, list, waiting) {
		if (!(entered ? dcd_end_wait_over(e, rq) : dcd_wait_over(e, rq)))
			continue;
		list_move_tail(&rq->waiting, over);
		n++;
	}
	return n;
}

void dcd_patience_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine,
					    patience_work);
	struct dcd_request *rq, *next;
	LIST_HEAD(reads);
	LIST_HEAD(over);
	bool more = false;
	unsigned int i;

	spin_lock(&e->lock);
	for (i = 0; i < DCD_QUEUES; i++) {
		WRITE_ONCE(e->nwaiting, e->nwaiting - take_over(e, &e->waiting[i], false, &over));
		more |= !list_empty(&e->waiting[i]);
	}
	take_over(e, &e->unreported, true, &over);
	more |= !list_empty(&e->unreported);
	spin_unlock(&e->lock);
	more |= dcd_reads_over(e, &over, &reads);
	more |= dcd_throughs_over(e, &over);
	list_for_each_entry_safe(rq, next, &over, waiting)
		dcd_answer_over(e, rq);
	list_for_each_entry_safe(rq, next, &reads, waiting) {
		count_over(e, rq);
		dcd_read_over(e, rq);
	}
	if (more)
		dcd_wait_begins(e);
}

void dcd_wait_begins(struct dcd_engine *e)
{
	queue_delayed_work(e->quick_wq, &e->patience_work, DCD_LOOK);
}

void dcd_look(struct dcd_engine *e)
{
	mod_delayed_work(e->quick_wq, &e->patience_work, 0);
	wake_up_all(&e->room);
}
EXPORT_SYMBOL_GPL(dcd_look);
