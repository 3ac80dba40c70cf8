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

/* True if that is new. */
static bool set_silent(struct mirror *m, struct leg *leg, bool silent)
{
	lockdep_assert_held(&m->lock);
	if (leg->silent == silent)
		return false;
	leg->silent = silent;
	mirror_changed(m);
	return true;
}

/* What was out has come back, if anything was. */
static void speaks(struct mirror *m, struct leg *leg)
{
	bool news;

	spin_lock_irq(&m->lock);
	news = set_silent(m, leg, false);
	spin_unlock_irq(&m->lock);
	if (news)
		DMINFO("%s: the %s leg (%s) is silent no longer",
		       dm_table_device_name(m->ti->table), leg_name(leg->id), leg_path(leg));
}

/* Why it isn't given up, for people. */
static const char *why_kept(enum leg_id leg, bool never)
{
	if (never)
		return "its timeout is 0";
	return leg == LEG_LOCAL ? "the remote leg can't stand in" : "the local leg can't stand in";
}

static void hangs(struct mirror *m, struct leg *leg, unsigned long age, bool never)
{
	const char *name = dm_table_device_name(m->ti->table);
	bool alive, news = false;
	unsigned int nr;
	int r;

	spin_lock_irq(&m->lock);
	alive = !leg->dead;
	r = never ? -EPERM : mirror_give_up(m, leg->id, WHY_TIMEOUT);
	if (r && alive)
		news = set_silent(m, leg, true);
	spin_unlock_irq(&m->lock);
	if (news)
		DMWARN("%s: the %s leg (%s) has not answered for %u ms, and %s: waiting for it",
		       name, leg_name(leg->id), leg_path(leg), jiffies_to_msecs(age),
		       why_kept(leg->id, never));
	if (r)
		return;
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
	bool never = !timeout;

	if (!leg->dev)
		return 0;
	if (never)
		timeout = msecs_to_jiffies(WATCH_TELLS_MS);
	if (!sender_age(&leg->sender, &age) || age < timeout) {
		speaks(m, leg);
		return timeout - age;
	}
	hangs(m, leg, age, never);
	return READ_ONCE(leg->silent) ? min_t(unsigned long, timeout, HZ) : timeout;
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
