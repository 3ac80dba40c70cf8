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

static void hangs(struct mirror *m, struct leg *leg, unsigned long timeout)
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
		if (!m->watch.told)
			DMWARN("%s: the remote leg (%s) has not answered for %u ms, and the local leg can't stand in: waiting for it",
			       name, leg->dev->name, jiffies_to_msecs(timeout));
		m->watch.told = true;
		return;
	}
	nr = write_abandon(m, leg->id);
	if (!nr && !alive)
		return;
	atomic64_inc(&leg->write_errors);	/* one, however many wait */
	DMWARN("%s: the remote leg (%s) has not answered for %u ms: all goes on without it, %u writes that have waited too",
	       name, leg->dev->name, jiffies_to_msecs(timeout), nr);
}

static void watch_work(struct work_struct *work)
{
	struct watch *watch = container_of(to_delayed_work(work), struct watch, work);
	struct mirror *m = container_of(watch, struct mirror, watch);
	struct leg *leg = &m->legs[LEG_REMOTE];
	unsigned long timeout = READ_ONCE(watch->timeout);
	unsigned long now = jiffies, next = timeout, progress, since;

	if (!timeout)
		return;
	if (atomic_read(&leg->inflight)) {
		smp_rmb();	/* pairs with leg_io_start() */
		progress = READ_ONCE(leg->progress);
		since = time_after(now, progress) ? now - progress : 0;
		if (since >= timeout)
			hangs(m, leg, since);
		else
			next = timeout - since;
	} else {
		watch->told = false;
	}
	mod_delayed_work(watch_wq, &watch->work, next);
}

void watch_init(struct mirror *m, unsigned int ms)
{
	INIT_DELAYED_WORK(&m->watch.work, watch_work);
	m->watch.timeout = msecs_to_jiffies(ms);
}

void watch_start(struct mirror *m)
{
	mod_delayed_work(watch_wq, &m->watch.work, 0);
}

void watch_stop(struct mirror *m)
{
	cancel_delayed_work_sync(&m->watch.work);
}

void watch_set(struct mirror *m, unsigned int ms)
{
	WRITE_ONCE(m->watch.timeout, msecs_to_jiffies(ms));
	mod_delayed_work(watch_wq, &m->watch.work, 0);
}
