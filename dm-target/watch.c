// SPDX-License-Identifier: GPL-2.0-only
#include "watch.h"

#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, undoubted, "a leg may be failed while the other one hangs, for as long as that isn't told");
TEST_KNOB(bool, unasked, "a leg that hangs is given up, whether the other one answers or not");

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
static const char *why_kept(enum leg_id leg, int r)
{
	if (r == -EPERM)
		return "its timeout is 0";
	if (r != -EBUSY)
		return leg == LEG_LOCAL ? "the remote leg doesn't answer, either" :
					  "the local leg doesn't answer, either";
	return leg == LEG_LOCAL ? "the remote leg can't stand in" : "the local leg can't stand in";
}

/* May a leg that hangs be given up? 0; or why not; -EINPROGRESS: it isn't known yet. */
static int may_give_up(struct mirror *m, struct leg *leg, bool never)
{
	enum leg_id other = other_leg(leg->id);
	bool asks;

	spin_lock_irq(&m->lock);
	asks = !never && !leg->dead && mirror_stands_in(m, other);
	spin_unlock_irq(&m->lock);
	if (asks && !test_knob(unasked))
		return ask_leg(m, other);
	ask_rest(m->watch.ask[other]);
	return never ? -EPERM : 0;
}

/* False: ask again soon. */
static bool hangs(struct mirror *m, struct leg *leg, unsigned long age, bool never)
{
	const char *name = dm_table_device_name(m->ti->table);
	int r = may_give_up(m, leg, never);
	bool alive, news = false;
	unsigned int nr;

	if (r == -EINPROGRESS)
		return false;
	spin_lock_irq(&m->lock);
	alive = !leg->dead;
	if (!r)
		r = mirror_give_up(m, leg->id, WHY_TIMEOUT);
	if (r && alive)
		news = set_silent(m, leg, true);
	spin_unlock_irq(&m->lock);
	if (news)
		DMWARN("%s: the %s leg (%s) has not answered for %u ms, and %s: waiting for it",
		       name, leg_name(leg->id), leg_path(leg), jiffies_to_msecs(age),
		       why_kept(leg->id, r));
	if (r)
		return true;
	nr = write_abandon(m, leg->id);
	if (!nr && !alive)
		return true;
	atomic64_inc(&leg->write_errors);	/* one, however many wait */
	DMWARN("%s: the %s leg (%s) has not answered for %u ms: all goes on without it, %u writes that have waited too",
	       name, leg_name(leg->id), leg_path(leg), jiffies_to_msecs(age), nr);
	return true;
}

/* After which age it is silent, in jiffies. */
static unsigned long patience(const struct mirror *m, enum leg_id leg)
{
	return READ_ONCE(m->watch.timeout[leg]) ?: msecs_to_jiffies(WATCH_TELLS_MS);
}

void watch_look(struct mirror *m)
{
	unsigned long age;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (!sender_age(&m->legs[leg].sender, &age) || age < patience(m, leg))
			speaks(m, &m->legs[leg]);
}

bool watch_doubts(struct mirror *m, enum leg_id leg)
{
	unsigned long age;

	return sender_age(&m->legs[leg].sender, &age) &&
	       age > patience(m, leg) / WATCH_DOUBT_PART && !test_knob(undoubted);
}

/* When it is to be looked at next, in jiffies; 0: never. */
static unsigned long watch_leg(struct mirror *m, enum leg_id id)
{
	unsigned long timeout = patience(m, id), age;
	bool never = !READ_ONCE(m->watch.timeout[id]);
	struct leg *leg = &m->legs[id];

	if (!leg->dev)
		return 0;
	if (!sender_age(&leg->sender, &age) || age < timeout) {
		ask_rest(m->watch.ask[other_leg(id)]);
		speaks(m, leg);
		return timeout - age;
	}
	if (!hangs(m, leg, age, never))
		return msecs_to_jiffies(ASK_TICK_MS);
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

int watch_create(struct mirror *m)
{
	enum leg_id leg;

	INIT_DELAYED_WORK(&m->watch.work, watch_work);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		m->watch.timeout[leg] = msecs_to_jiffies(m->options.timeout[leg]);
		if (!m->legs[leg].dev)
			continue;
		m->watch.ask[leg] = ask_create(&m->legs[leg]);
		if (!m->watch.ask[leg])
			return -ENOMEM;
	}
	return 0;
}

void watch_destroy(struct mirror *m)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		ask_destroy(m->watch.ask[leg]);
}

static void set_runs(struct mirror *m, bool runs)
{
	spin_lock_irq(&m->lock);
	m->watch.runs = runs;
	spin_unlock_irq(&m->lock);
}

void watch_start(struct mirror *m)
{
	set_runs(m, true);
	mod_delayed_work(watch_wq, &m->watch.work, 0);
}

void watch_stop(struct mirror *m)
{
	enum leg_id leg;

	set_runs(m, false);
	cancel_delayed_work_sync(&m->watch.work);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		ask_stop(m->watch.ask[leg]);
}

void watch_set(struct mirror *m, enum leg_id leg, unsigned int ms)
{
	WRITE_ONCE(m->watch.timeout[leg], msecs_to_jiffies(ms));
	mod_delayed_work(watch_wq, &m->watch.work, 0);
}
