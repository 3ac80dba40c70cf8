// SPDX-License-Identifier: GPL-2.0-only
#include "sender.h"

#include <linux/blkdev.h>
#include <linux/jiffies.h>
#include <linux/mm.h>

#include "leg.h"
#include "lockstep-test.h"

TEST_KNOB(bool, pages_shared, "what the network has yet is used again for another write");
TEST_KNOB(bool, send_inline, "who gives I/O to a leg submits it, if it may sleep");
TEST_KNOB(bool, any_answer, "an answer to any request is one to all that are out");

static bool is_dead(struct sender *s)
{
	return READ_ONCE(container_of(s, struct leg, sender)->dead);
}

/* Under the lock. */
static void goes_out(struct sender *s, struct sender_item *item)
{
	lockdep_assert_held(&s->lock);
	item->since = jiffies;
	list_add_tail(&item->link, &s->out);
}

/* The first of a lane's units, which is out from now on; 0: there is none, and the worker ends. */
static unsigned int take(struct sender_worker *worker, struct sender_item **items)
{
	struct sender_lane *lane = worker->lane;
	struct sender *s = lane->sender;
	struct sender_item *item;
	unsigned int nr, i;

	spin_lock_irq(&s->lock);
	item = list_first_entry_or_null(&lane->queue, struct sender_item, link);
	nr = item ? item->unit : 0;
	for (i = 0; i < nr; i++) {
		items[i] = item;
		item = list_next_entry(item, link);
		list_del(&items[i]->link);
		items[i]->waits = false;
		goes_out(s, items[i]);
	}
	if (!nr)
		__set_bit(worker - lane->workers, &lane->idle);
	spin_unlock_irq(&s->lock);
	return nr;
}

static void drop_taken(struct sender *s, struct sender_item **items, unsigned int nr)
{
	unsigned int i;

	for (i = 0; i < nr; i++) {
		sender_returned(s, items[i]);
		items[i]->ops->drop(items[i]);
	}
}

static void sender_work(struct work_struct *work)
{
	struct sender_worker *worker = container_of(work, struct sender_worker, work);
	struct sender_item *items[SENDER_UNIT_MAX];
	struct sender *s = worker->lane->sender;
	struct blk_plug plug;
	unsigned int nr;

	blk_start_plug(&plug);
	while ((nr = take(worker, items))) {
		if (unlikely(items[0]->ops->drop && is_dead(s)))
			drop_taken(s, items, nr);
		else
			items[0]->ops->send(items, nr);
	}
	blk_finish_plug(&plug);
}

/* As if there were no sender. */
static void send_now(struct sender *s, struct list_head *items)
{
	struct sender_item *some[SENDER_UNIT_MAX], *item;
	unsigned int nr, i;

	while ((item = list_first_entry_or_null(items, struct sender_item, link))) {
		nr = item->unit;
		for (i = 0; i < nr; i++) {
			some[i] = list_first_entry(items, struct sender_item, link);
			list_del(&some[i]->link);
			sender_began(s, some[i]);
		}
		some[0]->ops->send(some, nr);
	}
}

/* Their owners may be gone afterwards, and with the last of them the mirror. */
static void drop_all(struct list_head *items)
{
	struct sender_item *item, *next;

	list_for_each_entry_safe(item, next, items, link)
		item->ops->drop(item);
	INIT_LIST_HEAD(items);
}

void sender_give(struct sender *s, enum sender_lane_id id, struct list_head *items)
{
	struct sender_lane *lane = &s->lanes[id];
	struct sender_item *item;
	unsigned long flags, nr;
	bool drop;

	if (list_empty(items))
		return;
	if (test_knob(send_inline) && in_task() && !irqs_disabled() && id != LANE_ZERO) {
		send_now(s, items);
		return;
	}
	drop = list_first_entry(items, struct sender_item, link)->ops->drop;
	spin_lock_irqsave(&s->lock, flags);
	/*
	 * Who has given the leg up drops what is here by then, or this sees that it is dead. Not
	 * after the lock: what a worker has got by then may have ended, and the mirror with it.
	 */
	drop = drop && is_dead(s);
	if (likely(!drop)) {
		list_for_each_entry(item, items, link)
			item->waits = true;
		list_splice_tail_init(items, &lane->queue);
		nr = find_first_bit(&lane->idle, lane->nr_workers);
		if (nr < lane->nr_workers) {
			__clear_bit(nr, &lane->idle);
			queue_work(id == LANE_ZERO ? s->zero_wq : s->wq, &lane->workers[nr].work);
		}
	}
	spin_unlock_irqrestore(&s->lock, flags);
	if (unlikely(drop))
		drop_all(items);
}

void sender_give_one(struct sender *s, enum sender_lane_id lane, struct sender_item *item)
{
	LIST_HEAD(items);

	list_add(&item->link, &items);
	sender_give(s, lane, &items);
}

/* The first unit that can be dropped. */
static void take_droppable(struct sender *s, struct list_head *unit)
{
	struct sender_item *item, *next;
	enum sender_lane_id lane;
	unsigned long flags;
	unsigned int left = 0;

	spin_lock_irqsave(&s->lock, flags);
	for (lane = 0; lane < LANES && list_empty(unit); lane++)
		list_for_each_entry_safe(item, next, &s->lanes[lane].queue, link) {
			if (!left && !list_empty(unit))
				break;
			if (!item->ops->drop)
				continue;
			if (!left)
				left = item->unit;
			list_move_tail(&item->link, unit);
			item->waits = false;
			left--;
		}
	spin_unlock_irqrestore(&s->lock, flags);
}

void sender_drop(struct sender *s)
{
	LIST_HEAD(unit);

	for (;;) {
		take_droppable(s, &unit);
		if (list_empty(&unit))
			return;
		drop_all(&unit);
	}
}

bool sender_take_back(struct sender *s, struct sender_item *item)
{
	unsigned long flags;
	bool waits;

	spin_lock_irqsave(&s->lock, flags);
	waits = item->waits;
	if (waits) {
		list_del_init(&item->link);
		item->waits = false;
	}
	spin_unlock_irqrestore(&s->lock, flags);
	return waits;
}

void sender_began(struct sender *s, struct sender_item *item)
{
	unsigned long flags;

	spin_lock_irqsave(&s->lock, flags);
	goes_out(s, item);
	spin_unlock_irqrestore(&s->lock, flags);
}

void sender_anew(struct sender *s, struct sender_item *item)
{
	unsigned long flags;

	spin_lock_irqsave(&s->lock, flags);
	list_del(&item->link);
	goes_out(s, item);
	spin_unlock_irqrestore(&s->lock, flags);
}

void sender_returned(struct sender *s, struct sender_item *item)
{
	unsigned long flags;

	spin_lock_irqsave(&s->lock, flags);
	list_del_init(&item->link);
	if (test_knob(any_answer))
		list_for_each_entry(item, &s->out, link)
			item->since = jiffies;
	spin_unlock_irqrestore(&s->lock, flags);
}

bool sender_busy(struct sender *s)
{
	unsigned long flags;
	bool busy;

	spin_lock_irqsave(&s->lock, flags);
	busy = !list_empty(&s->out);
	spin_unlock_irqrestore(&s->lock, flags);
	return busy;
}

bool sender_age(struct sender *s, unsigned long *age)
{
	struct sender_item *oldest;
	unsigned long flags;

	spin_lock_irqsave(&s->lock, flags);
	oldest = list_first_entry_or_null(&s->out, struct sender_item, link);
	*age = oldest ? jiffies - oldest->since : 0;
	spin_unlock_irqrestore(&s->lock, flags);
	return oldest;
}

static void init_lane(struct sender *s, struct sender_lane *lane, unsigned int nr_workers)
{
	unsigned int i;

	lane->sender = s;
	lane->nr_workers = nr_workers;
	INIT_LIST_HEAD(&lane->queue);
	for (i = 0; i < nr_workers; i++) {
		lane->workers[i].lane = lane;
		INIT_WORK(&lane->workers[i].work, sender_work);
		__set_bit(i, &lane->idle);
	}
}

void sender_init(struct sender *s)
{
	spin_lock_init(&s->lock);
	INIT_LIST_HEAD(&s->out);
	init_lane(s, &s->lanes[LANE_URGENT], 1);
	init_lane(s, &s->lanes[LANE_LATER], 1);
	init_lane(s, &s->lanes[LANE_ZERO], SENDER_ZEROINGS);
}

int sender_create(struct sender *s)
{
	s->wq = alloc_workqueue("lockstep-leg", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	s->zero_wq = alloc_workqueue("lockstep-zero", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return s->wq && s->zero_wq ? 0 : -ENOMEM;
}

void sender_destroy(struct sender *s)
{
	if (s->zero_wq)
		destroy_workqueue(s->zero_wq);
	if (s->wq)
		destroy_workqueue(s->wq);
	s->zero_wq = NULL;
	s->wq = NULL;
}

bool sender_has_page(struct page *page)
{
	return page_count(page) == 1 || test_knob(pages_shared);
}

struct page *sender_page(struct page *page, gfp_t gfp)
{
	struct page *other = sender_has_page(page) ? NULL : alloc_page(gfp);

	if (!other)
		return page;
	put_page(page);
	return other;
}
