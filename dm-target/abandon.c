// SPDX-License-Identifier: GPL-2.0-only
#include "abandon.h"

#include "mirror.h"

/* A part that was to be sent to the leg, which is dead, and never was. */
static void part_dropped(struct mirror *m, struct write *w, enum leg_id leg)
{
	unsigned int bits = ANSWERED(leg) | RETURNED(leg) | ABANDONED(leg);
	struct writes *ws = &m->writes;
	bool abandoned, settles = false;
	unsigned long flags;
	unsigned int old;

	spin_lock_irqsave(&ws->lock, flags);
	abandoned = atomic_read(&w->state) & ABANDONED(leg);
	if (!abandoned) {
		count(&m->counters, COUNT_ABANDONED);
		if (leg == LEG_REMOTE)
			write_leave_batch(w);
		old = atomic_fetch_or(bits, &w->state);
		settles = ((old | bits) & ALL_ANSWERED) == ALL_ANSWERED;
		if (settles)
			list_del(&w->flying);
	}
	spin_unlock_irqrestore(&ws->lock, flags);

	if (abandoned) {
		write_release(w, RETURNED(leg));
		writes_other_returned(m, leg);
		return;
	}
	/* Unless it settles, m may be gone. */
	if (settles)
		write_settle(w);
}

void abandon_unsent(struct write *run, enum leg_id leg)
{
	struct mirror *m = run->m;
	struct write *w, *next;

	if (leg == LEG_REMOTE) {
		window_returned(run);
		if (unlikely(run->part[leg].again))
			scatter_again_done(m, BLK_STS_TIMEOUT);
	}
	for (w = run; w; w = next) {
		next = w->part[leg].next;
		part_dropped(m, w, leg);
	}
}

/*
 * Some of @todo; those that all others have answered go to @answered. Adds to *nr. False: that
 * was the last of them.
 */
static bool abandon_some(struct mirror *m, enum leg_id leg, struct list_head *todo,
			 struct list_head *answered, unsigned int *nr)
{
	unsigned int seen, some = 0, bits = ANSWERED(leg) | ABANDONED(leg), old;
	bool more;
	struct writes *ws = &m->writes;
	struct write *w;

	spin_lock_irq(&ws->lock);
	for (seen = 0; seen < ABANDON_BATCH && !list_empty(todo); seen++) {
		w = list_first_entry(todo, struct write, flying);
		list_move_tail(&w->flying, &ws->flying);
		old = atomic_read(&w->state);
		/* Under the lock nobody else answers for it. */
		if (old & ANSWERED(leg))
			continue;
		some++;
		if (leg == LEG_REMOTE)
			write_leave_batch(w);
		atomic_or(bits, &w->state);
		if (((old | bits) & ALL_ANSWERED) == ALL_ANSWERED)
			list_move_tail(&w->flying, answered);
	}
	ws->abandoned[leg] += some;
	more = !list_empty(todo);
	spin_unlock_irq(&ws->lock);
	*nr += some;
	return more;
}

/* False: it isn't dead. Else it drains, and @todo is all that was in flight then. */
static bool begin_abandoning(struct mirror *m, enum leg_id leg, struct list_head *todo)
{
	struct writes *ws = &m->writes;
	bool dead;

	spin_lock_irq(&m->lock);
	dead = m->legs[leg].dead;
	if (dead) {
		spin_lock(&ws->lock);
		ws->abandoned[leg]++;
		list_splice_init(&ws->flying, todo);
		spin_unlock(&ws->lock);
	}
	spin_unlock_irq(&m->lock);
	return dead;
}

unsigned int write_abandon(struct mirror *m, enum leg_id leg)
{
	struct writes *ws = &m->writes;
	struct sender_item *item, *following;
	struct write *w, *next;
	LIST_HEAD(answered);
	LIST_HEAD(parked);
	LIST_HEAD(todo);
	unsigned int nr = 0;
	bool more;

	mutex_lock(&ws->abandoning);
	if (!begin_abandoning(m, leg, &todo)) {
		mutex_unlock(&ws->abandoning);
		return 0;
	}
	do {
		more = abandon_some(m, leg, &todo, &answered, &nr);
		list_for_each_entry_safe(w, next, &answered, flying)
			write_settle(w);
		INIT_LIST_HEAD(&answered);
	} while (more);
	if (nr) {
		write_pool_give_spare(&ws->pool);
		count_add(&m->counters, COUNT_ABANDONED, nr);
	}
	if (leg == LEG_REMOTE) {
		spin_lock_irq(&ws->lock);
		window_drop(m, &parked);
		spin_unlock_irq(&ws->lock);
		list_for_each_entry_safe(item, following, &parked, link)
			abandon_unsent(write_of(item), LEG_REMOTE);
	}
	bounces_abandon(m, leg);
	if (leg == LEG_REMOTE)
		read_window_drop(m);
	sender_drop(&m->legs[leg].sender);
	writes_other_returned(m, leg);
	mutex_unlock(&ws->abandoning);
	return nr;
}
