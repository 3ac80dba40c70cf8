// SPDX-License-Identifier: GPL-2.0-only
#include "standing.h"

#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "join.h"
#include "life.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "metadata.h"
#include "mirror.h"

TEST_KNOB(bool, messages_wait, "a message waits for a parting without end");
TEST_KNOB(bool, requeues_at_once, "what a noflush suspend gives back to dm goes at once");
TEST_KNOB(bool, misses_unsaid, "a policy that lets no leg go on alone says of none that it misses anything");
TEST_KNOB(bool, reads_unsaid, "a policy that lets no leg go on alone doesn't say that the remote leg is read");
TEST_KNOB(bool, alone_anew, "a leg doesn't say from which update it went on alone");
TEST_KNOB(bool, partings_first, "a parting that fails is tried again while a leg comes back");

const char *standing_name(enum standing standing)
{
	static const char * const names[] = {
		[TOGETHER] = "together",
		[PARTING] = "parting",
		[ALONE] = "alone",
		[BLOCKED] = "blocked",
		[REFUSING] = "refusing",
	};

	return names[standing];
}

void standing_part(struct mirror *m)
{
	lockdep_assert_held(&m->lock);

	m->standing = PARTING;
	m->changes++;
	mirror_changed(m);
	queue_work(m->state_wq, &m->parting);
}

/*
 * Is a parting that has failed not to be tried again for now? Not if there is a new one, or a
 * suspend waits for what is held.
 */
static bool waits_for_join(const struct mirror *m)
{
	lockdep_assert_held(&m->lock);
	return m->join_ends && m->standing == PARTING && m->changes == m->join_changes &&
	       !m->closed && !test_knob(partings_first);
}

void standing_hold(struct mirror *m, struct write *w)
{
	lockdep_assert_held(&m->lock);

	list_add_tail(&w->held, &m->held);
	count(&m->counters, COUNT_HELD);
	if (waits_for_join(m))
		return;
	/* Parting may have failed before: try again, or what is held fails. Together: once more. */
	if (m->standing == PARTING || m->closed ||
	    (m->standing == TOGETHER && mirror_may_resync(m)))
		queue_work(m->state_wq, &m->parting);
}

static enum standing goal(const struct mirror *m)
{
	if (m->unblocked || m->options.policy == POLICY_DEGRADE)
		return ALONE;
	return m->options.policy == POLICY_BLOCK ? BLOCKED : REFUSING;
}

static u32 why_word(enum leg_why why)
{
	switch (why) {
	case WHY_TIMEOUT:
		return LOCKSTEP_WHY_TIMEOUT;
	case WHY_TOLD:
		return LOCKSTEP_WHY_TOLD;
	case WHY_ABSENT:
		return LOCKSTEP_WHY_ABSENT;
	default:
		return LOCKSTEP_WHY_FAILED;
	}
}

/* The survivor's map, if it becomes the map's home, and its superblock. */
static int write_survivor(struct mirror *m, enum leg_id leg, bool move, bool alone,
			  enum leg_why why)
{
	struct super *s = &m->meta->super[leg];
	struct super next;
	int r = 0;

	mutex_lock(&m->meta->lock[leg]);
	if (move) {
		r = metadata_check(m, leg);
		if (!r && !s->map_epoch)
			super_new_map(s);
		r = r ?: dirty_map_write(&m->dirty, leg);
	}
	metadata_next(m, leg, &next);
	if (!r && alone)
		r = super_go_alone(&next, metadata_random(), ktime_get_real_seconds(),
				   why_word(why));
	if (test_knob(alone_anew))
		next.alone_seq = 0;
	super_set_active(&next, true);
	if (r >= 0)
		r = metadata_write(m, leg, &next);
	mutex_unlock(&m->meta->lock[leg]);
	return r;
}

/* Is there anything that the leg, which is dead, hasn't got and the other one has? */
static bool misses(struct mirror *m, enum leg_id dead)
{
	bool misses;

	spin_lock_irq(&m->lock);
	misses = m->map.nr_stale && m->map.target == dead;
	spin_unlock_irq(&m->lock);
	return misses && !test_knob(misses_unsaid);
}

/*
 * Of two legs that are in sync a start takes the local one (verdict.h), so not this one, which is
 * read from now on, with writes that the other lacks and that may end with an error.
 */
static bool start_would_leave(enum leg_id leg)
{
	return leg == LEG_REMOTE && !test_knob(reads_unsaid);
}

/*
 * One parting, from a look at the standing to its change. 0, or an errno and
 * the standing is as it was.
 */
static int part(struct mirror *m)
{
	bool alone, move, together, forgets, target;
	enum leg_id dead, leg;
	unsigned int changes;
	enum leg_why why;
	int r = 0;

	spin_lock_irq(&m->lock);
	together = m->standing != PARTING;
	dead = m->legs[LEG_LOCAL].dead ? LEG_LOCAL : LEG_REMOTE;
	leg = other_leg(dead);
	why = m->legs[dead].why;
	changes = m->changes;
	forgets = m->forgets;
	m->forgets = false;
	move = m->home != leg;
	/*
	 * A leg that is known to be a target is never taken for one in sync.
	 * Before the first I/O, reads too, the other leg has to be outdone under
	 * any policy: what is read now mustn't vanish (life.h).
	 */
	target = m->target_ready && m->map.target == dead;
	alone = (goal(m) == ALONE || !m->ran) && !target;
	spin_unlock_irq(&m->lock);
	if (together)
		return 0;

	write_abandon(m, dead);
	if (forgets)
		dirty_map_to_stale(&m->dirty, dead);
	alone |= !target && (misses(m, dead) || start_would_leave(leg));
	if (move)
		dirty_map_hold(&m->dirty);
	if (m->meta && !m->read_only)
		r = write_survivor(m, leg, move, alone, why);

	spin_lock_irq(&m->lock);
	if (!r) {
		WRITE_ONCE(m->home, leg);
		if (changes == m->changes) {
			m->standing = goal(m);
			m->changes++;
			mirror_changed(m);
		}
	}
	spin_unlock_irq(&m->lock);
	if (move && r)
		dirty_map_fail(&m->dirty, BLK_STS_IOERR);
	if (move)
		dirty_map_release(&m->dirty);
	if (r)
		DMERR_LIMIT("%s: can't write the metadata of the %s leg (%s), the only one left: error %d; writes fail until it can",
			    dm_table_device_name(m->ti->table), leg_name(leg),
			    leg_path(&m->legs[leg]), r);
	return r;
}

static void parting_work(struct work_struct *work)
{
	struct mirror *m = container_of(work, struct mirror, parting);
	bool wait;

	spin_lock_irq(&m->lock);
	wait = waits_for_join(m);
	m->parts = !wait;
	spin_unlock_irq(&m->lock);
	if (wait)
		return;

	if (part(m))
		standing_fail_held(m, BLK_STS_IOERR);
	else
		standing_release(m);

	spin_lock_irq(&m->lock);
	m->parts = false;
	/* A message came in between. */
	if (m->standing == PARTING && !list_empty(&m->held) && !waits_for_join(m))
		queue_work(m->state_wq, &m->parting);
	else if (m->standing != TOGETHER)
		join_kick_later(m);
	spin_unlock_irq(&m->lock);
}

int standing_part_now(struct mirror *m)
{
	return part(m);
}

void standing_release(struct mirror *m)
{
	enum standing standing;
	struct write *w, *tmp;
	LIST_HEAD(list);
	bool closed, requeue;

	spin_lock_irq(&m->lock);
	standing = m->standing;
	closed = m->closed;
	if (standing != PARTING && (standing != BLOCKED || closed))
		list_splice_init(&m->held, &list);
	spin_unlock_irq(&m->lock);

	/*
	 * Until the suspend has got so far that dm keeps them, it sends them here at once, and they
	 * are held again: two workers would be busy with nothing else.
	 */
	requeue = standing == BLOCKED && !list_empty(&list) && dm_noflush_suspending(m->ti);
	if (requeue && !test_knob(requeues_at_once))
		schedule_timeout_uninterruptible(1);
	list_for_each_entry_safe(w, tmp, &list, held) {
		if (standing == BLOCKED)
			mirror_fail_write(w, requeue ? BLK_STS_DM_REQUEUE : BLK_STS_IOERR);
		else if (w->unacked && standing != TOGETHER)
			mirror_settle(w);
		else
			write_restart(w);
	}
}

unsigned int standing_fail_held(struct mirror *m, blk_status_t status)
{
	struct write *w, *tmp;
	unsigned int n = 0;
	LIST_HEAD(list);

	spin_lock_irq(&m->lock);
	list_splice_init(&m->held, &list);
	spin_unlock_irq(&m->lock);
	list_for_each_entry_safe(w, tmp, &list, held) {
		mirror_fail_write(w, status);
		n++;
	}
	return n;
}

void standing_close(struct mirror *m)
{
	spin_lock_irq(&m->lock);
	m->closed = true;
	/* A message may be waiting in a join, and dm waits for messages first. */
	transfers_abandon(m);
	queue_work(m->state_wq, &m->parting);
	spin_unlock_irq(&m->lock);
}

void standing_quiet(struct mirror *m)
{
	spin_lock_irq(&m->lock);
	m->quiet = true;
	transfers_abandon(m);
	spin_unlock_irq(&m->lock);
}

void standing_open(struct mirror *m)
{
	spin_lock_irq(&m->lock);
	m->closed = false;
	spin_unlock_irq(&m->lock);
}

void standing_drain(struct mirror *m)
{
	flush_work(&m->parting);
}

void standing_await(struct mirror *m)
{
	unsigned long end = jiffies + PARTING_SECONDS * HZ;

	if (test_knob(messages_wait)) {
		standing_drain(m);
		return;
	}
	while (work_busy(&m->parting) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
}

bool standing_busy(const struct mirror *m)
{
	return work_busy((struct work_struct *)&m->parting);
}

bool standing_parts(struct mirror *m)
{
	lockdep_assert_held(&m->lock);
	return m->standing == PARTING && m->parts;
}

void standing_retry(struct mirror *m)
{
	queue_work(m->state_wq, &m->parting);
}

bool standing_join_ends(struct mirror *m)
{
	bool parts;

	spin_lock_irq(&m->lock);
	m->join_ends = true;
	spin_unlock_irq(&m->lock);
	standing_await(m);
	spin_lock_irq(&m->lock);
	parts = standing_parts(m);
	spin_unlock_irq(&m->lock);
	return !parts;
}

void standing_join_ended(struct mirror *m)
{
	lockdep_assert_held(&m->lock);
	/* A write that is held, or a mark, may have waited. */
	if (m->join_ends && m->standing == PARTING)
		queue_work(m->state_wq, &m->parting);
	m->join_ends = false;
}

int standing_retry_now(struct mirror *m)
{
	bool parting;

	standing_retry(m);
	standing_await(m);
	spin_lock_irq(&m->lock);
	parting = m->standing == PARTING;
	spin_unlock_irq(&m->lock);
	return parting ? -EIO : 0;
}

int standing_unblock(struct mirror *m)
{
	int r = 0;

	spin_lock_irq(&m->lock);
	if (m->standing == BLOCKED) {
		m->unblocked = true;
		standing_part(m);
	} else {
		r = -EINVAL;
	}
	spin_unlock_irq(&m->lock);
	if (r)
		DMWARN("%s: unblock: nothing is blocked", dm_table_device_name(m->ti->table));
	standing_await(m);
	return r;
}

void standing_set_policy(struct mirror *m, enum table_policy policy)
{
	/* In one piece: a parting that is about to end goes by the policy that it began with. */
	spin_lock_irq(&m->lock);
	m->options.policy = policy;
	if (m->standing != TOGETHER && m->standing != goal(m))
		standing_part(m);
	spin_unlock_irq(&m->lock);
	standing_await(m);
}

void standing_init(struct mirror *m)
{
	m->standing = TOGETHER;
	m->home = LEGS;
	m->keep = LEGS;
	INIT_LIST_HEAD(&m->held);
	INIT_WORK(&m->parting, parting_work);
}
