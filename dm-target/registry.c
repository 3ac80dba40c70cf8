// SPDX-License-Identifier: GPL-2.0-only
#include "registry.h"

#include <linux/module.h>
#include <linux/sched/signal.h>

#include "handover.h"
#include "identity.h"
#include "join.h"
#include "lockstep-test.h"
#include "message.h"
#include "metadata.h"
#include "mirror.h"
#include "resync.h"
#include "scatter.h"

TEST_KNOB(bool, name_of_before, "a renamed device is known by the name that it had");
TEST_KNOB(bool, starts_beside, "a table starts while the one before still parts");
TEST_KNOB(bool, both_strange, "a table that has both legs by other devices takes over from none");
TEST_KNOB(bool, two_mirrors, "two mirrors have one leg, if they reach it by two block devices");

static LIST_HEAD(mirrors);
static LIST_HEAD(lingering);
static DEFINE_MUTEX(mirrors_lock);	/* both, and what registered says */
static struct workqueue_struct *linger_wq;

/* Has it taken the leg, and can still use it, or is just making it usable? */
static bool has_leg(struct mirror *m, enum leg_id leg)
{
	bool uses;

	lockdep_assert_held(&mirrors_lock);
	if (!m->registered.taken[leg])
		return false;
	spin_lock_irq(&m->lock);
	uses = !m->legs[leg].dead || m->legs[leg].joiner;
	spin_unlock_irq(&m->lock);
	return uses;
}

/* The old and the new table of one device are one mirror. */
static bool same_mirror(const struct mirror *a, const struct mirror *b)
{
	return dm_table_get_md(a->ti->table) == dm_table_get_md(b->ti->table);
}

/* Who else has this leg, by whatever device. Both have a target. */
static const struct mirror *who_has(const struct mirror *m, enum leg_id leg)
{
	struct mirror *other;
	enum leg_id i;

	lockdep_assert_held(&mirrors_lock);
	list_for_each_entry(other, &mirrors, registered.link) {
		if (!other->ti || same_mirror(other, m) || test_knob(two_mirrors))
			continue;
		for (i = LEG_LOCAL; i < LEGS; i++)
			if (identity_same_uuid(m, leg, other, i) && has_leg(other, i))
				return other;
	}
	return NULL;
}

/*
 * Does @m, which hasn't run, take over from @other? Both its legs may be by other devices, or one
 * may not be known yet: heir.h says what it may go on with, and that it is none of them.
 */
static bool hands_on(const struct mirror *other, const struct mirror *m)
{
	if (other == m || !other->ti || !(other->ran || other->heir) || !same_mirror(other, m))
		return false;
	return identity_share_device(m, other) || !test_knob(both_strange);
}

/* Under mirrors_lock. Once it is about to be removed it has none, and keeps what it had. */
static void learn_name(struct mirror *m)
{
	char name[DM_NAME_LEN], uuid[DM_UUID_LEN];

	lockdep_assert_held(&mirrors_lock);
	if (dm_copy_name_and_uuid(dm_table_get_md(m->ti->table), name, uuid))
		return;
	strscpy(m->registered.name, name, sizeof(name));
	strscpy(m->registered.uuid, uuid, sizeof(uuid));
}

void registry_learn(struct mirror *m)
{
	if (test_knob(name_of_before))
		return;
	mutex_lock(&mirrors_lock);
	learn_name(m);
	mutex_unlock(&mirrors_lock);
}

/* By another device: as far as it is known before the start, which asks again. */
static int check_uuids(struct mirror *m)
{
	const struct mirror *other;
	enum leg_id leg;

	/* A reload that brings such a leg gets on without it. */
	list_for_each_entry(other, &mirrors, registered.link)
		if (hands_on(other, m))
			return 0;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		other = m->legs[leg].dead ? NULL : who_has(m, leg);
		if (!other)
			continue;
		DMERR("%s is a leg of %s (%s), which has it by another device",
		      leg_path(&m->legs[leg]), other->registered.name, other->name);
		m->ti->error = "A leg already belongs to another lockstep device";
		return -EBUSY;
	}
	return 0;
}

int registry_add(struct mirror *m)
{
	struct mirror *other;
	int r = 0;

	m->registered.had = LEGS;
	m->registered.lack.leg = LEGS;
	mutex_lock(&mirrors_lock);
	learn_name(m);
	list_for_each_entry(other, &mirrors, registered.link) {
		if (!other->ti)
			continue;
		if (identity_share_device(m, other) && !same_mirror(m, other)) {
			DMERR("%s or %s is a leg of %s",
			      leg_path(&m->legs[LEG_LOCAL]), leg_path(&m->legs[LEG_REMOTE]),
			      dm_table_device_name(other->ti->table));
			m->ti->error = "A leg already belongs to another lockstep device";
			r = -EBUSY;
			break;
		}
		r = hands_on(other, m) ? handover_check(m, other) : 0;
		if (r)
			break;
	}
	r = r ?: check_uuids(m);
	if (!r)
		list_add_tail(&m->registered.link, &mirrors);
	mutex_unlock(&mirrors_lock);
	return r;
}

int registry_take(struct mirror *m, enum leg_id leg, char by[DM_NAME_LEN])
{
	const struct mirror *other;

	mutex_lock(&mirrors_lock);
	/* What it had before it died is nothing to go by; nor for another one that takes it now. */
	m->registered.taken[leg] = false;
	other = who_has(m, leg);
	if (other)
		strscpy(by, other->registered.name, DM_NAME_LEN);
	else
		m->registered.taken[leg] = true;
	mutex_unlock(&mirrors_lock);
	return other ? -EBUSY : 0;
}

bool registry_taken(const struct mirror *m, enum leg_id leg)
{
	bool taken;

	mutex_lock(&mirrors_lock);
	taken = who_has(m, leg);
	mutex_unlock(&mirrors_lock);
	return taken;
}

static bool reached_from(const struct list_head *list, const struct mirror *m, enum leg_id leg)
{
	const struct mirror *other;
	enum leg_id i;

	list_for_each_entry(other, list, registered.link)
		for (i = LEG_LOCAL; i < LEGS; i++)
			if (writes_draining(other, i) && identity_same_leg(other, i, m, leg))
				return true;
	return false;
}

bool registry_draining(const struct mirror *m, enum leg_id leg)
{
	bool draining;

	mutex_lock(&mirrors_lock);
	draining = writes_draining(m, leg) || reached_from(&mirrors, m, leg) ||
		   reached_from(&lingering, m, leg);
	mutex_unlock(&mirrors_lock);
	return draining;
}

void registry_know(struct mirror *m, enum leg_id leg, const struct super_found *found)
{
	if (found->kind != SUPER_VALID)
		return;
	mutex_lock(&mirrors_lock);
	memcpy(m->registered.leg_uuid[leg], found->super.leg_uuid,
	       sizeof(m->registered.leg_uuid[leg]));
	m->registered.known[leg] = true;
	mutex_unlock(&mirrors_lock);
}

bool registry_knows(const struct mirror *m, enum leg_id leg)
{
	return m->registered.known[leg];
}

bool registry_reload(struct mirror *m)
{
	const struct mirror *other;
	bool found = false;

	mutex_lock(&mirrors_lock);
	list_for_each_entry(other, &mirrors, registered.link) {
		if (!hands_on(other, m))
			continue;
		handover_legs(m, other);
		found = true;
	}
	mutex_unlock(&mirrors_lock);
	return found;
}

void registry_before(struct mirror *m, sector_t *len, enum leg_id *missing)
{
	const struct mirror *other;
	enum leg_id leg;

	*len = 0;
	*missing = LEGS;
	mutex_lock(&mirrors_lock);
	list_for_each_entry(other, &mirrors, registered.link) {
		if (!hands_on(other, m))
			continue;
		*len = other->ti->len;
		for (leg = LEG_LOCAL; leg < LEGS; leg++)
			if (other->ran && READ_ONCE(other->legs[leg].dead))
				*missing = leg;
	}
	mutex_unlock(&mirrors_lock);
}

void registry_remove(struct mirror *m)
{
	mutex_lock(&mirrors_lock);
	list_del_init(&m->registered.link);
	mutex_unlock(&mirrors_lock);
}

/* What legs have waited for is over: they needn't wait any longer. */
static void kick_all(enum leg_why why)
{
	struct mirror *m;
	enum leg_id leg;

	lockdep_assert_held(&mirrors_lock);
	list_for_each_entry(m, &mirrors, registered.link)
		for (leg = LEG_LOCAL; leg < LEGS; leg++)
			if (m->ran && !m->suspended && m->options.rejoin &&
			    READ_ONCE(m->legs[leg].why) == why)
				join_kick(m);
}

void registry_leave(struct mirror *m)
{
	mutex_lock(&mirrors_lock);
	m->ti = NULL;
	kick_all(WHY_TAKEN);
	mutex_unlock(&mirrors_lock);
}

static void linger_work(struct work_struct *work)
{
	struct mirror *m = container_of(work, struct mirror, registered.work);

	writes_drain(m);
	scatter_end(m);
	mutex_lock(&mirrors_lock);
	list_del(&m->registered.link);
	kick_all(WHY_DRAINING);
	mutex_unlock(&mirrors_lock);
	DMINFO("%s: all that was sent by this device, which has gone, has returned", m->name);
	m->registered.free(m);
	/* registry_module_exit() waits for the end of this. */
	module_put(THIS_MODULE);
}

void registry_linger(struct mirror *m, void (*free)(struct mirror *m))
{
	enum leg_id leg;

	/* dm still has one for the table. */
	__module_get(THIS_MODULE);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (writes_draining(m, leg))
			DMWARN("%s: this table goes, and the %s leg (%s) has not answered all that was sent to it: its memory, the block device and this module stay in use until it has, and no mirror uses that leg before",
			       m->name, leg_name(leg), leg_path(&m->legs[leg]));
	m->registered.free = free;
	INIT_WORK(&m->registered.work, linger_work);
	mutex_lock(&mirrors_lock);
	list_del_init(&m->registered.link);
	list_add_tail(&m->registered.link, &lingering);
	mutex_unlock(&mirrors_lock);
	queue_work(linger_wq, &m->registered.work);
}

/* Does it still write that it has given up a leg, or do what it was told? */
static bool is_busy(struct mirror *m)
{
	return standing_busy(m) || messages_busy(m);
}

/* Is one busy that this mirror takes over from? */
static bool before_parts(const struct mirror *m)
{
	struct mirror *other;
	bool parts = false;

	mutex_lock(&mirrors_lock);
	list_for_each_entry(other, &mirrors, registered.link)
		parts |= hands_on(other, m) && other->suspended && is_busy(other);
	mutex_unlock(&mirrors_lock);
	return parts;
}

/* A message may have parted it while it was suspended, and has ended before that. */
static int await_before(const struct mirror *m)
{
	unsigned long end = jiffies + HANDOVER_SECONDS * HZ;

	if (m->ran || test_knob(starts_beside))
		return 0;
	while (before_parts(m)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		if (time_after(jiffies, end)) {
			DMERR("%s: the table before still writes to a leg that it goes on alone: resume once more when it has",
			      m->name);
			return -EBUSY;
		}
		schedule_timeout_killable(HZ / 50 + 1);
	}
	return 0;
}

int registry_resume(struct mirror *m)
{
	struct mirror *other;
	int r = await_before(m);

	mutex_lock(&mirrors_lock);
	learn_name(m);
	if (!m->ran) {
		list_for_each_entry(other, &mirrors, registered.link) {
			if (!hands_on(other, m))
				continue;
			if (!other->suspended) {
				DMERR("%s: another table on these legs is still active",
				      dm_table_device_name(m->ti->table));
				r = -EBUSY;
				break;
			}
			/* They may have moved since this table was loaded. */
			handover_legs(m, other);
			/* If it is refused, too: dm ends the one before all the same. */
			handover_take(m, other, is_busy(other));
			r = r ?: handover_check(m, other);
		}
	}
	if (!r && !m->ran)
		r = handover_check_again(m);
	/* At the load dm says it. */
	if (r == -EINVAL)
		DMERR("%s: %s", m->name, m->ti->error);
	if (!r)
		m->suspended = false;
	mutex_unlock(&mirrors_lock);
	return r;
}

void registry_suspend(struct mirror *m)
{
	mutex_lock(&mirrors_lock);
	m->suspended = true;
	if (!m->ran)
		memset(m->registered.taken, 0, sizeof(m->registered.taken));
	mutex_unlock(&mirrors_lock);
}

void registry_ran(struct mirror *m)
{
	mutex_lock(&mirrors_lock);
	m->ran = true;
	mutex_unlock(&mirrors_lock);
}

static int tell_draining(const struct list_head *list, char *text, int at)
{
	const struct mirror *m;
	enum leg_id leg;

	list_for_each_entry(m, list, registered.link)
		for (leg = LEG_LOCAL; leg < LEGS; leg++) {
			unsigned int nr = READ_ONCE(m->writes.abandoned[leg]);

			if (!nr)
				continue;
			at += scnprintf(text + at, PAGE_SIZE - at, "%u %s %s ", nr, leg_name(leg),
					leg_path(&m->legs[leg]));
			at += m->registered.known[leg] ?
			      scnprintf(text + at, PAGE_SIZE - at, "%pUb",
					m->registered.leg_uuid[leg]) :
			      scnprintf(text + at, PAGE_SIZE - at, "-");
			at += scnprintf(text + at, PAGE_SIZE - at, " %s\n", m->registered.name);
		}
	return at;
}

static int get_draining(char *text, const struct kernel_param *kp)
{
	int at;

	mutex_lock(&mirrors_lock);
	at = tell_draining(&mirrors, text, 0);
	at = tell_draining(&lingering, text, at);
	mutex_unlock(&mirrors_lock);
	return at;
}

static const struct kernel_param_ops draining_ops = { .get = get_draining };

module_param_cb(draining, &draining_ops, NULL, 0444);
MODULE_PARM_DESC(draining, "legs that abandoned I/O may still reach (registry.h)");

int registry_module_init(void)
{
	linger_wq = alloc_workqueue("lockstep-linger", WQ_UNBOUND, 0);
	return linger_wq ? 0 : -ENOMEM;
}

void registry_module_exit(void)
{
	destroy_workqueue(linger_wq);
}
