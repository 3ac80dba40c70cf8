// SPDX-License-Identifier: GPL-2.0-only
#include "window.h"

#include <linux/ktime.h>

#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"

TEST_KNOB(bool, learned_stays, "what a window has learned is as good after any time");
TEST_KNOB(bool, grows_late, "a window grows by what took nearly as long as a request may");
TEST_KNOB(bool, windows_apart, "what other mirrors have on the way is no matter for a window");
TEST_KNOB(bool, small_at_once, "small writes are sent however many are on the way");

/* Of the host's mirrors: how many have something of the kind on the way. */
static atomic_t busy[WINDOW_KINDS];

static struct window_class *class_of(struct mirror *m, enum window_kind id)
{
	return &m->writes.window.classes[id];
}

static struct sender_item *item_of(struct write *run)
{
	return &run->part[LEG_REMOTE].item;
}

static unsigned int bytes_of(const struct write *run)
{
	return run->part[LEG_REMOTE].size;
}

/* How many mirrors share the wire, as far as is known, with this one. */
static unsigned int sharers(const struct window_class *c)
{
	return test_knob(windows_apart) ? 1 : atomic_read(&busy[c->kind]) + !c->counted;
}

size_t window_limit(const struct window_class *c)
{
	return max(c->limit / sharers(c), min(c->limit, c->least));
}

bool window_room(const struct window_class *c, size_t bytes)
{
	size_t limit = window_limit(c);

	return !c->bytes || (c->bytes < limit && bytes <= limit - c->bytes);
}

void window_add(const struct mirror *m, struct window_class *c, unsigned int bytes)
{
	/* What is sent to a dead leg is dropped, or hangs there. */
	if (!c->counted && !READ_ONCE(m->legs[LEG_REMOTE].dead)) {
		c->counted = true;
		atomic_inc(&busy[c->kind]);
	}
	c->bytes += bytes;
}

void window_leave(struct window_class *c)
{
	if (c->counted)
		atomic_dec(&busy[c->kind]);
	c->counted = false;
}

void window_wake(struct window_class *c)
{
	/* What a slow wire has taught isn't too much for any. */
	if (c->bytes > c->first || c->limit <= c->first ||
	    ktime_get_ns() - c->used < WINDOW_IDLE || test_knob(learned_stays))
		return;
	c->limit = c->first;
	c->halved = 0;
}

static void on_the_way(struct window_class *c, struct write *run, u64 now)
{
	run->sent_at = now;
	window_add(run->m, c, bytes_of(run));
}

bool window_take(struct mirror *m, struct write **runs, unsigned int nr)
{
	struct window_class *c;
	enum window_kind id;
	unsigned long flags;
	size_t bytes = 0;
	unsigned int i;
	bool now;

	for (i = 0; i < nr; i++) {
		bytes += bytes_of(runs[i]);
		/* The first one knows how many belong together. */
		item_of(runs[i])->unit = i ? 0 : nr;
	}
	id = bytes <= WINDOW_SMALL ? WINDOW_OF_SMALL : WINDOW_OF_LARGE;
	if (test_knob(small_at_once) && id == WINDOW_OF_SMALL)
		return true;
	c = class_of(m, id);

	spin_lock_irqsave(&m->writes.lock, flags);
	window_wake(c);
	now = READ_ONCE(m->legs[LEG_REMOTE].dead) ||
	      (list_empty(&c->parked) && window_room(c, bytes));
	for (i = 0; i < nr; i++) {
		runs[i]->window = id;
		if (now)
			on_the_way(c, runs[i], ktime_get_ns());
		else
			list_add_tail(&item_of(runs[i])->link, &c->parked);
	}
	spin_unlock_irqrestore(&m->writes.lock, flags);
	if (!now)
		count_add(&m->counters, COUNT_PARKED, nr);
	return now;
}

/* The first unit, if there is room for it, to the lists of its lane. */
static bool unpark(struct window_class *c, struct list_head *lanes)
{
	struct sender_item *item = list_first_entry_or_null(&c->parked, struct sender_item, link);
	unsigned int nr = item ? item->unit : 0, i;
	struct sender_item *first = item;
	u64 now = ktime_get_ns();
	size_t bytes = 0;

	for (i = 0; i < nr; i++) {
		bytes += bytes_of(write_of(item));
		item = list_next_entry(item, link);
	}
	if (!nr || !window_room(c, bytes))
		return false;
	for (i = 0; i < nr; i++) {
		struct write *run = write_of(first);

		first = list_next_entry(first, link);
		list_move_tail(&item_of(run)->link, &lanes[write_lane(run)]);
		on_the_way(c, run, now);
	}
	return true;
}

/* ns within which one of the class should be answered. */
static u64 aim(const struct mirror *m, const struct window_class *c)
{
	unsigned int ms = READ_ONCE(m->options.timeout[LEG_REMOTE]) ?: REMOTE_TIMEOUT_DEFAULT;

	return (u64)ms * NSEC_PER_MSEC / c->part;
}

/* It has taken too long: was it in the queue? Then halve that. */
static void late(struct mirror *m, struct window_class *c, u64 sent_at, u64 now)
{
	size_t limit = window_limit(c);

	/* It has seen a longer queue than there is now. */
	if (sent_at < c->halved)
		return;
	if (limit > c->least) {
		c->limit = max(limit / 2, c->least) * sharers(c);
		c->halved = now;
		count(&m->counters, COUNT_WINDOW_HALVED);
	} else {
		c->lone = now - sent_at;
	}
}

void window_back(struct mirror *m, struct window_class *c, unsigned int bytes, u64 sent_at)
{
	u64 now = ktime_get_ns(), took = now - sent_at;
	size_t old = c->limit;
	unsigned int n;

	if (c->bytes > c->first || !list_empty(&c->parked))
		c->used = now;
	c->bytes -= bytes;
	n = sharers(c);
	if (took > clamp(WINDOW_LONE * c->lone, aim(m, c), aim(m, c) * c->part / 2)) {
		late(m, c, sent_at, now);
	} else {
		c->lone = min(c->lone, took);
		/* Its part of the limit grows by that, where twice as long isn't near the end. */
		if (!list_empty(&c->parked) &&
		    (took <= aim(m, c) * c->part / 4 || test_knob(grows_late)))
			c->limit = max(c->limit, window_limit(c) * n) +
				   (c->halved ? bytes / 8 : bytes) * n;
	}
	if (!c->bytes)
		window_leave(c);
	if (c->limit != old)
		trace_lockstep_window(m, c->limit, c->bytes, took);
}

void window_returned(struct write *run)
{
	struct list_head lanes[LANES];
	enum sender_lane_id lane;
	struct mirror *m = run->m;
	struct window_class *c;
	unsigned long flags;

	if (unlikely(!run->sent_at))
		return;
	for (lane = 0; lane < LANES; lane++)
		INIT_LIST_HEAD(&lanes[lane]);
	c = class_of(m, run->window);

	spin_lock_irqsave(&m->writes.lock, flags);
	window_back(m, c, bytes_of(run), run->sent_at);
	run->sent_at = 0;
	/* What is parked for a dead leg is dropped, by who has given it up. */
	while (!READ_ONCE(m->legs[LEG_REMOTE].dead) && unpark(c, lanes))
		;
	spin_unlock_irqrestore(&m->writes.lock, flags);

	for (lane = 0; lane < LANES; lane++)
		sender_give(&m->legs[LEG_REMOTE].sender, lane, &lanes[lane]);
}

void window_drop(struct mirror *m, struct list_head *items)
{
	enum window_kind id;

	lockdep_assert_held(&m->writes.lock);
	for (id = 0; id < WINDOWS; id++) {
		list_splice_tail_init(&class_of(m, id)->parked, items);
		window_leave(class_of(m, id));
	}
}

void window_class_init(struct window_class *c, enum window_kind kind, size_t first, size_t least,
		       unsigned int part)
{
	c->kind = kind;
	c->limit = first;
	c->first = first;
	c->least = least;
	c->part = part;
	INIT_LIST_HEAD(&c->parked);
}

void window_init(struct mirror *m)
{
	window_class_init(class_of(m, WINDOW_OF_SMALL), WINDOW_OF_SMALL, WINDOW_FIRST,
			  WINDOW_SMALL_LEAST, WINDOW_SMALL_PART);
	window_class_init(class_of(m, WINDOW_OF_LARGE), WINDOW_OF_LARGE, WINDOW_FIRST,
			  WINDOW_LEAST, WINDOW_PART);
}
