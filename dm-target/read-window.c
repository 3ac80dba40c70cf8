// SPDX-License-Identifier: GPL-2.0-only
#include "read-window.h"

#include <linux/ktime.h>

#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, reads_at_once, "reads are sent however many are on the way");
TEST_KNOB(bool, reads_whole, "a read is sent as large as it has come, whatever the limit is by then");

static struct read_item *of_item(struct sender_item *item)
{
	return container_of(item, struct read_item, item);
}

static bool is_dead(const struct mirror *m)
{
	return READ_ONCE(m->legs[LEG_REMOTE].dead);
}

static void on_the_way(const struct mirror *m, struct window_class *c, struct read_item *r)
{
	r->sent_at = ktime_get_ns();
	window_add(m, c, r->part);
}

/* Is there room for the next part? */
static bool has_room(const struct mirror *m, struct read_item *r)
{
	const struct window_class *c = &m->read_window.class;
	size_t block = max(mirror_block(m), 4096U);
	size_t most = max(round_down(window_limit(c), block), block);

	if (test_knob(reads_whole))
		most = r->bytes;
	r->part = min_t(size_t, r->bytes - r->done, most);
	return window_room(c, r->part);
}

void read_window_give(struct mirror *m, struct read_item *r)
{
	struct read_window *w = &m->read_window;
	struct window_class *c = &w->class;
	unsigned long flags;
	bool now;

	spin_lock_irqsave(&w->lock, flags);
	window_wake(c);
	now = is_dead(m) || test_knob(reads_at_once) ||
	      (list_empty(&c->parked) && has_room(m, r));
	if (now) {
		on_the_way(m, c, r);
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
static bool unpark(struct mirror *m, struct list_head *items)
{
	struct window_class *c = &m->read_window.class;
	struct sender_item *first = list_first_entry_or_null(&c->parked, struct sender_item, link);

	if (!first || !has_room(m, of_item(first)))
		return false;
	on_the_way(m, c, of_item(first));
	list_move_tail(&first->link, items);
	return true;
}

static bool returned(struct mirror *m, struct read_item *r, bool good)
{
	struct read_window *w = &m->read_window;
	struct window_class *c = &w->class;
	unsigned long flags;
	LIST_HEAD(items);
	bool more;

	if (!r->sent_at)
		return false;
	spin_lock_irqsave(&w->lock, flags);
	more = good && r->done + r->part < r->bytes;
	if (more) {
		sender_item_init(&r->item, r->item.ops);
		list_add(&r->item.link, &c->parked);
	}
	window_back(m, c, r->part, r->sent_at);
	r->done += r->part;
	r->sent_at = 0;
	/* Who has given it up has dropped what was parked, and doesn't look again. */
	if (unlikely(more && is_dead(m))) {
		r->part = r->bytes - r->done;
		on_the_way(m, c, r);
		list_move_tail(&r->item.link, &items);
	}
	while (!is_dead(m) && unpark(m, &items))
		;
	spin_unlock_irqrestore(&w->lock, flags);
	sender_give(&m->legs[LEG_REMOTE].sender, LANE_URGENT, &items);
	return more;
}

bool read_window_returned(struct mirror *m, struct read_item *r, bool good)
{
	return returned(m, r, good);
}

void read_window_dropped(struct mirror *m, struct read_item *r)
{
	returned(m, r, false);	/* what isn't good has no next part */
}

void read_window_drop(struct mirror *m)
{
	struct read_window *w = &m->read_window;
	struct sender_item *item, *next;
	LIST_HEAD(items);

	spin_lock_irq(&w->lock);
	list_splice_init(&w->class.parked, &items);
	window_leave(&w->class);
	spin_unlock_irq(&w->lock);
	list_for_each_entry_safe(item, next, &items, link)
		item->ops->drop(item);
}

void read_window_init(struct mirror *m)
{
	spin_lock_init(&m->read_window.lock);
	window_class_init(&m->read_window.class, WINDOW_OF_READS, READ_WINDOW_FIRST,
			  READ_WINDOW_LEAST, WINDOW_PART);
}
