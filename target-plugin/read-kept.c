// SPDX-License-Identifier: GPL-2.0-only
/* What was given up goes on, and is taken over by who tries again: read.h. */
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "lockstep-test.h"
#include "read-own.h"

TEST_KNOB(bool, begins_anew, "a read that is tried again is asked of the disks anew");
TEST_KNOB(bool, none_kept, "what was read for one who was given up isn't kept for him");
TEST_KNOB(bool, parked_stay, "who waits for what was given up isn't told that it was taken over");
TEST_KNOB(bool, stale_hides, "what is kept, and isn't there any more, hides what is");
TEST_KNOB(bool, takes_stale, "a read takes over what was given up, whatever was written meanwhile");

void dcd_read_saw(struct dcd_engine *e, struct dcd_gather *g, const struct dcd_place *p)
{
	if (g->seen && p->value == g->seen_value)
		return;
	g->seen = siphash_3u64(g->seen, p->sector, (uintptr_t)p->value, &e->reads.key) ?: 1;
	g->seen_value = p->value;
}

/* What the index has of the rest of a request now. */
static u64 sees(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t sector = rq->sector + rq->gather.done, last = rq->sector + rq->sectors - 1;
	struct dcd_gather g = {};

	while (sector <= last) {
		struct dcd_place p;

		dcd_index_find(e, sector, last, &p);
		dcd_read_saw(e, &g, &p);
		sector = p.last + 1;
	}
	return g.seen;
}

static bool is_same(const struct dcd_own *o, const struct dcd_request *rq)
{
	return o->rq.sector == rq->sector + rq->gather.done &&
	       o->rq.sector + o->rq.sectors == rq->sector + rq->sectors &&
	       (!o->moved || test_knob(takes_stale));
}

/* One that was given up, and is at just that, or was. Needs the lock. */
static struct dcd_own *left_at(const struct dcd_reads *r, const struct dcd_request *rq)
{
	struct dcd_own *o;

	lockdep_assert_held(&r->lock);
	list_for_each_entry(o, &r->left, list)
		if (o->begun && !o->ended && is_same(o, rq))
			return o;
	list_for_each_entry(o, &r->kept, list)
		if (is_same(o, rq))
			return o;
	return NULL;
}

bool dcd_own_is_wanted(const struct dcd_own *o)
{
	return o->wants == o->rq.gather.seen || test_knob(takes_stale);
}

/* Needs the lock. */
static void take_out(struct dcd_reads *r, struct dcd_own *o)
{
	lockdep_assert_held(&r->lock);
	list_del(&o->list);
	r->kept_bytes -= o->counts;
}

bool dcd_own_keep(struct dcd_engine *e, struct dcd_own *o)
{
	struct dcd_reads *r = &e->reads;

	lockdep_assert_held(&r->lock);
	if (READ_ONCE(e->closing) || !o->begun || o->moved || o->rq.gather.error ||
	    o->rq.gather.bad != DCD_NONE_BAD || test_knob(none_kept) ||
	    r->kept_bytes + o->counts > dcd_most_given_up())
		return false;
	o->kept = jiffies;
	r->kept_bytes += o->counts;
	list_move_tail(&o->list, &r->kept);
	queue_delayed_work(e->quick_wq, &r->drop_work, DCD_KEPT);
	return true;
}

/* What is to be kept no longer, or NULL: when it is the next one's time is set. */
static struct dcd_own *next_drop(struct dcd_engine *e)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_own *o;

	spin_lock_irq(&r->lock);
	o = list_first_entry_or_null(&r->kept, struct dcd_own, list);
	if (o && !READ_ONCE(e->closing) && time_before(jiffies, o->kept + DCD_KEPT)) {
		queue_delayed_work(e->quick_wq, &r->drop_work, o->kept + DCD_KEPT - jiffies);
		o = NULL;
	}
	if (o)
		take_out(r, o);
	spin_unlock_irq(&r->lock);
	return o;
}

static void drop_work(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine,
					    reads.drop_work);
	struct dcd_own *o;

	while ((o = next_drop(e)))
		dcd_own_free(o);
}

void dcd_kept_init(struct dcd_engine *e)
{
	INIT_LIST_HEAD(&e->reads.kept);
	INIT_DELAYED_WORK(&e->reads.drop_work, drop_work);
	get_random_bytes(&e->reads.key, sizeof(e->reads.key));
}

void dcd_reads_end(struct dcd_engine *e)
{
	cancel_delayed_work_sync(&e->reads.drop_work);
	drop_work(&e->reads.drop_work.work);
}

/* Behind the data disk of a log that was left the index doesn't know what is written. */
bool dcd_own_take_over(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_own *o;
	unsigned long irq;
	bool ended, wanted;
	u64 wants;

again:
	spin_lock_irqsave(&r->lock, irq);
	o = left_at(r, rq);
	spin_unlock_irqrestore(&r->lock, irq);
	if (!o || dcd_left(e) || test_knob(begins_anew))
		return false;
	wants = sees(e, rq);
	spin_lock_irqsave(&r->lock, irq);
	/* What was forgotten before the index was asked is @moved by now. */
	o = left_at(r, rq);
	if (o)
		o->wants = wants;
	ended = o && o->ended;
	wanted = o && dcd_own_is_wanted(o);
	if (ended && (wanted || !test_knob(stale_hides))) {
		take_out(r, o);
	} else if (ended) {
		o = NULL;
	} else if (o) {
		o->of = rq;
		list_move_tail(&o->list, &r->owns);
		r->given_up -= o->counts;
		/* Nobody waits for what somebody waits for. */
		if (!list_empty(&r->parked) && !test_knob(parked_stay))
			queue_work(e->quick_wq, &r->unpark_work);
	}
	spin_unlock_irqrestore(&r->lock, irq);
	if (!o)
		return false;
	if (ended && !wanted) {	/* nor will anybody else want it */
		dcd_own_free(o);
		goto again;
	}
	dcd_count(e, DCD_N_READS_TAKEN_OVER, 1);
	if (ended) {
		dcd_own_hand_to(rq, o);
		dcd_read_put(e, rq);
		dcd_own_free(o);
	} else {
		dcd_wait_begins(e);
	}
	return true;
}

void dcd_read_destaged(struct dcd_engine *e, const struct dcd_place *p)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_own *o;
	struct list_head *const lists[] = { &r->owns, &r->left, &r->kept };
	unsigned int i;

	spin_lock_irq(&r->lock);
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_entry(o, lists[i], list)
			o->moved |= o->rq.sector <= p->last &&
				    p->sector < o->rq.sector + o->rq.sectors;
	spin_unlock_irq(&r->lock);
}
