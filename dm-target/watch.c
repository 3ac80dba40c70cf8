// SPDX-License-Identifier: GPL-2.0-only
#include "watch.h"

#include "mirror.h"

/*
 * Of its own: whoever else works for the mirror may be waiting for the very
 * writes that this ends. It never waits itself.
 */
static struct workqueue_struct *watch_wq;

int watch_module_init(void)
{
	watch_wq = alloc_workqueue("lockstep-watch", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return watch_wq ? 0 : -ENOMEM;
}

void watch_module_exit(void)
{
	destroy_workqueue(watch_wq);
}

static void hangs(struct mirror *m, struct leg *leg, unsigned long age)
{
	const char *name = dm_table_device_name(m->ti->table);
	unsigned int nr;
	bool alive;
	int r;

	spin_lock_irq(&m->lock);
	alive = !leg->dead;
	r = mirror_give_up(m, leg->id, WHY_TIMEOUT);
	spin_unlock_irq(&m->lock);
	if (r) {
		if (!m->watch.told[leg->id])
			DMWARN("%s: the %s leg (%s) has not answered for %u ms, and the %s leg can't stand in: waiting for it",
			       name, leg_name(leg->id), leg_path(leg), jiffies_to_msecs(age),
			       leg_name(other_leg(leg->id)));
		m->watch.told[leg->id] = true;
		return;
	}
	nr = write_abandon(m, leg->id);
	if (!nr && !alive)
		return;
	atomic64_inc(&leg->write_errors);	/* one, however many wait */
	DMWARN("%s: the %s leg (%s) has not answered for %u ms: all goes on without it, %u writes that have waited too",
	       name, leg_name(leg->id), leg_path(leg), jiffies_to_msecs(age), nr);
}

/* When it is to be looked at next, in jiffies; 0: never. */
static unsigned long watch_leg(struct mirror *m, enum leg_id id)
{
	unsigned long timeout = READ_ONCE(m->watch.timeout[id]), age;
	struct leg *leg = &m->legs[id];

	if (!timeout || !leg->dev)
		return 0;
	if (!sender_age(&leg->sender, &age)) {
		m->watch.told[id] = false;
		return timeout;
	}
	if (age < timeout)
		return timeout - age;
	hangs(m, leg, age);
	return timeout;
}

static void watch_work(struct work_struct *work)
{
	struct watch *watch = container_of(to_delayed_work(work), struct watch, work);
	struct mirror *m = container_of(watch, struct mirror, watch);
	unsigned long next = 0, then;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		then = watch_leg(m, leg);
		if (then && (!next || then < next))
			next = then;
	}
	if (next)
		mod_delayed_work(watch_wq, &watch->work, next);
}

void watch_init(struct mirror *m)
{
	enum leg_id leg;

	INIT_DELAYED_WORK(&m->watch.work, watch_work);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		m->watch.timeout[leg] = msecs_to_jiffies(m->options.timeout[leg]);
}

void watch_start(struct mirror *m)
{
	mod_delayed_work(watch_wq, &m->watch.work, 0);
}

void watch_stop(struct mirror *m)
{
	cancel_delayed_work_sync(&m->watch.work);
}

void watch_set(struct mirror *m, enum leg_id leg, unsigned int ms)
{
	WRITE_ONCE(m->watch.timeout[leg], msecs_to_jiffies(ms));
	mod_delayed_work(watch_wq, &m->watch.work, 0);
}
