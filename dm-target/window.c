// SPDX-License-Identifier: GPL-2.0-only
#include "window.h"

#include <linux/ktime.h>

#include "lockstep-trace.h"
#include "mirror.h"

static struct window *window_of(struct mirror *m)
{
	return &m->writes.window;
}

static unsigned int bytes_of(const struct write *run)
{
	return run->part[LEG_REMOTE].size;
}

static bool room(const struct window *win, size_t bytes)
{
	return !win->bytes || (win->bytes < win->limit && bytes <= win->limit - win->bytes);
}

static void on_the_way(struct window *win, struct write *run, u64 now)
{
	run->sent_at = now;
	win->bytes += bytes_of(run);
}

bool window_take(struct mirror *m, struct write **runs, unsigned int nr)
{
	struct window *win = window_of(m);
	unsigned long flags;
	size_t bytes = 0;
	unsigned int i;
	bool now;

	for (i = 0; i < nr; i++)
		bytes += bytes_of(runs[i]);
	if (likely(bytes <= WINDOW_SMALL))
		return true;

	spin_lock_irqsave(&m->writes.lock, flags);
	now = READ_ONCE(m->legs[LEG_REMOTE].dead) ||
	      (list_empty(&win->parked) && room(win, bytes));
	for (i = 0; i < nr; i++) {
		if (now)
			on_the_way(win, runs[i], ktime_get_ns());
		else
			list_add_tail(&runs[i]->batched, &win->parked);
		/* The first one knows how many belong together. */
		runs[i]->unit = i ? 0 : nr;
	}
	spin_unlock_irqrestore(&m->writes.lock, flags);
	if (!now)
		count_add(&m->counters, COUNT_PARKED, nr);
	return now;
}

/* The first of those that belong together, taken off if there is room for them; 0: none. */
static unsigned int unpark(struct window *win, struct write **runs)
{
	struct write *run = list_first_entry_or_null(&win->parked, struct write, batched);
	unsigned int nr = run ? run->unit : 0, i;
	u64 now = ktime_get_ns();
	size_t bytes = 0;

	for (i = 0; i < nr; i++) {
		runs[i] = run;
		bytes += bytes_of(run);
		run = list_next_entry(run, batched);
	}
	if (!room(win, bytes))
		return 0;
	for (i = 0; i < nr; i++) {
		list_del(&runs[i]->batched);
		on_the_way(win, runs[i], now);
	}
	return nr;
}

static void window_work(struct work_struct *work)
{
	struct mirror *m = container_of(work, struct mirror, writes.window.work);
	struct write *runs[COALESCE_MAX];
	unsigned int nr;

	for (;;) {
		spin_lock_irq(&m->writes.lock);
		nr = unpark(window_of(m), runs);
		spin_unlock_irq(&m->writes.lock);
		if (!nr)
			return;
		scatter_send_parked(m, runs, nr);
	}
}

/* ns within which a large write should be answered. */
static u64 aim(const struct mirror *m)
{
	unsigned int ms = READ_ONCE(m->options.remote_timeout) ?: REMOTE_TIMEOUT_DEFAULT;

	return (u64)ms * NSEC_PER_MSEC / WINDOW_PART;
}

/* It has taken too long: was it in the queue? Then halve that. */
static void late(struct mirror *m, const struct write *run, u64 now)
{
	struct window *win = window_of(m);

	/* It has seen a longer queue than there is now. */
	if (run->sent_at < win->halved)
		return;
	if (win->limit > WINDOW_LEAST) {
		win->limit = max_t(size_t, win->limit / 2, WINDOW_LEAST);
		win->halved = now;
		count(&m->counters, COUNT_WINDOW_HALVED);
	} else {
		win->lone = now - run->sent_at;
	}
}

static void follow(struct mirror *m, const struct write *run)
{
	struct window *win = window_of(m);
	u64 now = ktime_get_ns(), took = now - run->sent_at;
	size_t old = win->limit;

	if (took > clamp(WINDOW_LONE * win->lone, aim(m), aim(m) * WINDOW_PART / 2)) {
		late(m, run, now);
	} else {
		win->lone = min(win->lone, took);
		if (!list_empty(&win->parked))
			win->limit += win->halved ? bytes_of(run) / 8 : bytes_of(run);
	}
	if (win->limit != old)
		trace_lockstep_window(m, win->limit, win->bytes, took);
}

void window_returned(struct write *run)
{
	struct mirror *m = run->m;
	struct window *win = window_of(m);
	unsigned long flags;

	if (likely(!run->sent_at))
		return;
	spin_lock_irqsave(&m->writes.lock, flags);
	win->bytes -= bytes_of(run);
	follow(m, run);
	run->sent_at = 0;
	if (!list_empty(&win->parked))
		queue_work(m->writes.batches.wq, &win->work);
	spin_unlock_irqrestore(&m->writes.lock, flags);
}

void window_drop(struct mirror *m, struct list_head *runs)
{
	lockdep_assert_held(&m->writes.lock);
	list_splice_init(&window_of(m)->parked, runs);
}

void window_init(struct mirror *m)
{
	struct window *win = window_of(m);

	win->limit = WINDOW_FIRST;
	INIT_LIST_HEAD(&win->parked);
	INIT_WORK(&win->work, window_work);
}
