// SPDX-License-Identifier: GPL-2.0-only
#include "read-window.h"

#include <linux/ktime.h>

#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, reads_at_once, "reads are sent however many are on the way");

static struct read_item *of_item(struct sender_item *item)
{
	return container_of(item, struct read_item, item);
}

static bool is_dead(const struct mirror *m)
{
	return READ_ONCE(m->legs[LEG_REMOTE].dead);
}

static void on_the_way(struct window_class *c, struct read_item *r)
{
	r->sent_at = ktime_get_ns();
	c->bytes += r->bytes;
}

unsigned int read_window_piece(const struct mirror *m)
{
	size_t block = max(mirror_block(m), 4096U);
	size_t limit = max(round_down(READ_ONCE(m->read_window.class.limit), block), block);

	return min_t(size_t, limit >> SECTOR_SHIFT, IO_MAX_SECTORS);
}

void read_window_give(struct mirror *m, struct read_item *r)
{
	struct read_window *w = &m->read_window;
	struct window_class *c = &w->class;
	unsigned long flags;
	bool now;

	spin_lock_irqsave(&w->lock, flags);
	now = is_dead(m) || test_knob(reads_at_once) ||
	      (list_empty(&c->parked) && window_room(c, r->bytes));
	if (now) {
		on_the_way(c, r);
	} else {
		list_add_tail(&r->item.link, &c->parked);
		count(&m->counters, COUNT_PARKED);
	}
	spin_unlock_irqrestore(&w->lock, flags);
	/* One that is parked may be over by now, and the mirror with it. */
	if (now)
		sender_give_one(&m->legs[LEG_REMOTE].sender, LANE_URGENT, &r->item);
}

/* The first one, if there is room for it. */
static bool unpark(struct window_class *c, struct list_head *items)
{
	struct sender_item *first = list_first_entry_or_null(&c->parked, struct sender_item, link);

	if (!first || !window_room(c, of_item(first)->bytes))
		return false;
	on_the_way(c, of_item(first));
	list_move_tail(&first->link, items);
	return true;
}

void read_window_returned(struct mirror *m, struct read_item *r)
{
	struct read_window *w = &m->read_window;
	unsigned long flags;
	LIST_HEAD(items);

	if (!r->sent_at)
		return;
	spin_lock_irqsave(&w->lock, flags);
	window_back(m, &w->class, r->bytes, r->sent_at);
	r->sent_at = 0;
	/* What is parked for a dead leg is dropped, by who has given it up. */
	while (!is_dead(m) && unpark(&w->class, &items))
		;
	spin_unlock_irqrestore(&w->lock, flags);
	sender_give(&m->legs[LEG_REMOTE].sender, LANE_URGENT, &items);
}

void read_window_drop(struct mirror *m)
{
	struct read_window *w = &m->read_window;
	struct sender_item *item, *next;
	LIST_HEAD(items);

	spin_lock_irq(&w->lock);
	list_splice_init(&w->class.parked, &items);
	spin_unlock_irq(&w->lock);
	list_for_each_entry_safe(item, next, &items, link)
		item->ops->drop(item);
}

void read_window_init(struct mirror *m)
{
	spin_lock_init(&m->read_window.lock);
	window_class_init(&m->read_window.class, IO_MAX_SECTORS << SECTOR_SHIFT, READ_WINDOW_LEAST,
			  WINDOW_PART);
}
