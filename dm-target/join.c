// SPDX-License-Identifier: GPL-2.0-only
#include "join.h"

#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "home.h"
#include "life.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "metadata.h"
#include "mirror.h"
#include "registry.h"
#include "resync.h"
#include "verdict.h"

TEST_KNOB(bool, tried_counts, "a leg that knows of a newer superblock on the other one comes back after as many that failed");
TEST_KNOB(bool, parting_stays, "a leg doesn't come back while the other one can't be written");
TEST_KNOB(bool, voids_home, "a target forgets the map, although that counts, and stays its home");
TEST_KNOB(bool, map_stays_stopped, "nobody looks after a mark that saw its home dead just before");
TEST_KNOB(bool, other_unseen, "a leg comes back, whoever has used the other one");
TEST_KNOB(bool, touched_once, "that a leg was touched is known to the first try to have it back only");
TEST_KNOB(bool, looks_always, "a leg that misses nothing waits for the other one, too, to come back");
TEST_KNOB(bool, one_patience, "a join waits for an answer as long as the first time");
TEST_KNOB(bool, target_slips, "a leg that stays a target, as its last steps were cut short, counts as in sync");

static int adopt(struct mirror *m, struct super *source)
{
	const struct super *leg = &m->meta->super[other_leg(source->leg)];

	return super_adopt(source, leg, metadata_random(), ktime_get_real_seconds());
}

static int become_target(struct mirror *m, struct super *s)
{
	/* The source's is stable: only a parting and a join change it. */
	return super_join(s, &m->meta->super[s->leg == LEG_LOCAL ? LEG_REMOTE : LEG_LOCAL]);
}

/* Has a parting begun since this step did? */
static bool late(struct mirror *m)
{
	bool late;

	spin_lock_irq(&m->lock);
	late = m->changes != m->join_changes;
	spin_unlock_irq(&m->lock);
	return late;
}

/* Not if it has: then the base may be a newer one than the target has got. */
static int forget_base(struct mirror *m, struct super *source)
{
	if (late(m))
		return -EAGAIN;
	super_forget_base(source);
	return 0;
}

/* Likewise: it may have found the source ALONE, and acknowledge what the target hasn't got. */
static int become_sync(struct mirror *m, struct super *s)
{
	return late(m) ? -EAGAIN : super_in_sync(s);
}

int join_as_target(struct mirror *m, enum leg_id leg, bool full)
{
	enum leg_id source = other_leg(leg);
	int r;

	if (!m->meta)
		return 0;
	if (full) {
		r = metadata_update(m, source, adopt);
		if (r)
			return r;
	}
	r = metadata_update(m, leg, become_target);
	if (r)
		return r;
	if (generation_none(&m->meta->super[source].base))
		return 0;
	return metadata_update(m, source, forget_base);
}

/* What keeps a dead leg from coming back. 0, or an errno with *why set. */
static int judge(struct mirror *m, enum leg_id leg, const struct super_found *found,
		 struct verdict *v, enum leg_why *why)
{
	struct super_found legs[LEGS] = { };
	char text[400];

	legs[leg] = *found;
	legs[other_leg(leg)].kind = SUPER_VALID;
	legs[other_leg(leg)].super = m->meta->super[other_leg(leg)];
	verdict_decide(&legs[LEG_LOCAL], &legs[LEG_REMOTE], v);
	/*
	 * Both in sync with one generation (policy block): it doesn't matter
	 * whom the verdict would have taken. A leg that is ahead has been used
	 * by somebody else meanwhile.
	 */
	if (!v->reason && (v->source == other_leg(leg) || (!v->join && !v->full)))
		return 0;

	*why = !v->reason || v->reason == VERDICT_SPLIT_BRAIN || v->reason == VERDICT_BOTH ?
	       WHY_DIVERGED :
	       v->reason == VERDICT_OUTDATED ? WHY_OUTDATED : WHY_FOREIGN;
	if (m->legs[leg].why != *why) {
		verdict_text(v, &legs[LEG_LOCAL], &legs[LEG_REMOTE], text, sizeof(text));
		DMWARN("%s: the %s leg (%s) can't come back: %s",
		       dm_table_device_name(m->ti->table), leg_name(leg),
		       leg_path(&m->legs[leg]), text);
	}
	return -EINVAL;
}

/* Somebody else has written the leg, or it has nothing: what it may miss is more. */
static int widen(struct mirror *m, enum leg_id leg, bool full)
{
	struct dirty_map *dm = &m->dirty;
	unsigned long *bits = NULL;
	int r = 0;

	/* The leg may hang again: while it is read, the map serves the callers. */
	if (!full) {
		bits = kvcalloc(BITS_TO_LONGS(dm->nr), sizeof(long), GFP_NOIO);
		r = bits ? dirty_map_read(dm, leg, bits) : -ENOMEM;
	}
	if (r)
		goto out;
	dirty_map_hold(dm);
	r = dirty_map_widen(dm, bits);
	if (!r)
		dirty_map_to_stale(dm, leg);
	dirty_map_release(dm);
out:
	kvfree(bits);
	return r;
}

/* Likewise: from now on no other mirror can have it. */
static int take(struct mirror *m, enum leg_id leg, enum leg_why *why)
{
	char by[DM_NAME_LEN];

	if (!registry_take(m, leg, by))
		return 0;
	*why = WHY_TAKEN;
	if (m->legs[leg].why != *why)
		DMWARN("%s: the %s leg (%s) can't come back: it is a leg of %s, which has it by another device",
		       dm_table_device_name(m->ti->table), leg_name(leg),
		       leg_path(&m->legs[leg]), by);
	return -EINVAL;
}

/* Does it miss anything that the other leg has? */
static bool is_target(struct mirror *m, const struct verdict *v)
{
	bool is;

	spin_lock_irq(&m->lock);
	is = v->full || v->join || m->map.nr_stale;
	spin_unlock_irq(&m->lock);
	return is;
}

/* Who has its lock may wait for it without end, and a join holds those up that come after it. */
static int lock_other(struct mirror *m, enum leg_id other)
{
	unsigned long until = jiffies + (m->join_needs ? JOIN_SECONDS : LOOK_SECONDS) * HZ;

	while (!mutex_trylock(&m->meta->lock[other])) {
		if (READ_ONCE(m->legs[other].silent) || time_after(jiffies, until))
			return -EBUSY;
		schedule_timeout_uninterruptible(HZ / 50 + 1);
	}
	return 0;
}

/*
 * Nobody comes back to a leg that somebody else has used, nor is resynced from it. One that misses
 * nothing doesn't need the other, which may hang: then no answer is good enough, and isn't waited
 * for so long.
 */
static int check_other(struct mirror *m, enum leg_id other, enum leg_why *why)
{
	int r;

	if (READ_ONCE(m->legs[other].dead) || test_knob(other_unseen))
		return 0;
	r = lock_other(m, other);
	if (!r) {
		r = metadata_check(m, other);
		mutex_unlock(&m->meta->lock[other]);
	}
	if (!r)
		return 0;
	/* Else it is the other leg's trouble. */
	*why = r == -ESTALE ? WHY_DIVERGED : READ_ONCE(m->legs[other_leg(other)].why);
	if (r == -ESTALE)
		(void)mirror_leg_failed(m, other);
	return r;
}

static bool other_is_foreign(struct mirror *m, enum leg_id leg)
{
	enum leg_id other = other_leg(leg);

	return !m->legs[other].dead && metadata_foreign(m, other) && !test_knob(other_unseen);
}

/*
 * Does the leg know of a newer superblock on the other one than this mirror has written there? Then
 * somebody else has used both. The verdict goes by what was tried last, which counts up with each
 * try that fails; and a leg that can't be read was nobody else's by metadata_check().
 */
static bool knows_more(struct mirror *m, enum leg_id leg, const struct super_found *found)
{
	u64 said = atomic64_read(&m->meta->said[other_leg(leg)]);

	return said && said < found->super.other_seq && !test_knob(tried_counts);
}

static int prepare(struct mirror *m, enum leg_id leg, const struct super_found *found,
		   const struct verdict *v, bool *target, enum leg_why *why)
{
	bool touched;
	int r = 0;

	mutex_lock(&m->meta->lock[leg]);
	/* As often as it is tried: what is in core is what was found, the next time. */
	touched = found->super.seq != m->meta->super[leg].seq || m->meta->touched[leg];
	m->meta->touched[leg] = touched && !test_knob(touched_once);
	metadata_take(m, leg, &found->super);
	mutex_unlock(&m->meta->lock[leg]);
	m->join_needs = is_target(m, v) || touched || test_knob(looks_always);
	if (m->join_needs || !READ_ONCE(m->legs[other_leg(leg)].silent))
		r = check_other(m, other_leg(leg), why);
	if (!r && knows_more(m, leg, found)) {
		*why = WHY_DIVERGED;
		r = -ESTALE;
	}
	if (r != -ESTALE && !m->join_needs)
		r = 0;
	if (!r && (v->full || touched))
		r = widen(m, leg, v->full);
	if (r)
		return r;
	m->meta->touched[leg] = false;
	*target = is_target(m, v);
	if (!*target)
		return 0;
	/* As a target it forgets its map; a parting that failed may have left the home there. */
	if (mirror_home(m) == leg && !test_knob(voids_home)) {
		*why = READ_ONCE(m->legs[leg].why);	/* what fails is the other leg's trouble */
		r = home_move(m, other_leg(leg));
	}
	return r ?: join_as_target(m, leg, v->full);
}

/* Does it answer, and what does it say that it is? In core mode its first block has to do. */
static int probe(struct mirror *m, enum leg_id leg, struct super_found *found)
{
	int r;

	if (m->meta) {
		r = metadata_read(m, leg, found);
		registry_know(m, leg, found);
		/* It may be the leg that somebody waits for by another device. */
		if (!r && registry_draining(m, leg))
			r = -EBUSY;
	} else {
		r = transfer_now(m, leg, REQ_OP_READ | REQ_SYNC, 0, NULL,
				 bdev_logical_block_size(leg_bdev(&m->legs[leg])));
	}
	return r ?: transfer_flush(m, leg);
}

static void begin_joining(struct mirror *m, enum leg_id leg)
{
	spin_lock_irq(&m->lock);
	m->legs[leg].joiner = current;
	spin_unlock_irq(&m->lock);
}

/*
 * A parting that has failed half-way may have left ALONE on the other leg, in a generation that
 * nobody knows of: together, that leg has to say what it said before. No parting comes in between
 * from now on. What fails is our own trouble, and not this leg's.
 */
static int be_as_before(struct mirror *m, enum leg_id leg, enum leg_why *why)
{
	*why = READ_ONCE(m->legs[leg].why);
	return standing_join_ends(m) ? metadata_make_sure(m, other_leg(leg)) : -EBUSY;
}

static int come_back(struct mirror *m, enum leg_id leg)
{
	struct leg *l = &m->legs[leg];
	enum leg_why why = WHY_UNREADABLE;
	struct super_found found;
	bool target = false;
	struct verdict v;
	int r;

	/* What was abandoned may still reach the leg: it would undo newer writes. */
	r = writes_ready(m, leg);
	if (!r && registry_draining(m, leg))
		r = -EBUSY;
	if (!r && sender_busy(&l->sender))
		r = -EBUSY;
	if (r == -EBUSY) {
		why = WHY_DRAINING;
	} else if (!r) {
		begin_joining(m, leg);
		r = probe(m, leg, &found);
		if (r == -EBUSY)
			why = WHY_DRAINING;
		if (!r && m->meta)
			r = judge(m, leg, &found, &v, &why) ?: take(m, leg, &why);
		/* Before the superblocks: what was let in ends while they are written. */
		if (!r)
			budget_rejoins(&m->writes.budget, true);
		if (!r && m->meta)
			r = prepare(m, leg, &found, &v, &target, &why);
		if (!r)
			r = be_as_before(m, leg, &why);
	}

	spin_lock_irq(&m->lock);
	l->joiner = NULL;
	if (!r && other_is_foreign(m, leg)) {
		r = -ESTALE;
		why = WHY_DIVERGED;
	}
	/* Not for what is our own trouble. */
	if (r && r != -ENOMEM && r != -EAGAIN && l->why != WHY_TOLD)
		l->why = why;
	if (!r && l->why == WHY_TOLD)
		r = -EPERM;	/* "fail", just now */
	if (!r && (m->changes != m->join_changes || writes_draining(m, leg)))
		r = -EAGAIN;
	/* It may be just about to succeed. */
	if (!r && (standing_parts(m) || metadata_unsure(m, other_leg(leg))))
		r = -EBUSY;
	if (!r) {
		l->dead = false;
		l->why = WHY_NONE;
		if (!m->map.nr_stale)
			m->map.target = leg;
		m->target_ready = target;
		m->standing = TOGETHER;
		m->unblocked = false;
		m->changes++;
		trace_lockstep_leg(m, leg, mirror_health(m, leg));
		mirror_changed(m);
	}
	budget_rejoins(&m->writes.budget, false);
	standing_join_ended(m);
	spin_unlock_irq(&m->lock);
	if (r)
		return r;
	/* A mark that saw its home dead just before has stopped the map, for a parting. */
	if (m->meta && !test_knob(map_stays_stopped)) {
		dirty_map_hold(&m->dirty);
		dirty_map_release(&m->dirty);
	}
	/* Else every mark would go over the wire from now on. */
	if (m->meta && !target && leg == LEG_LOCAL && mirror_home(m) != leg &&
	    home_move(m, leg))
		(void)mirror_leg_failed(m, leg);
	standing_release(m);
	return 0;
}

/* Regions of a leg that is alive have become stale. */
static int mark_target(struct mirror *m, enum leg_id leg)
{
	int r = READ_ONCE(m->target_whole) ? lesser_ask_source(m, leg) : 0;

	if (r)
		return r;
	if (mirror_home(m) == leg)
		r = home_move(m, other_leg(leg));
	if (!r)
		r = join_as_target(m, leg, false);
	if (r) {
		(void)mirror_leg_failed(m, leg);
		return r;
	}
	spin_lock_irq(&m->lock);
	if (m->changes == m->join_changes) {
		m->target_ready = true;
		mirror_changed(m);
	}
	spin_unlock_irq(&m->lock);
	standing_release(m);
	return 0;
}

/* Nobody but it can say first that both are in sync: who is to mend that has to know it. */
static int source_stays(struct mirror *m, enum leg_id target, int error)
{
	struct leg *source = &m->legs[other_leg(target)];

	DMERR_LIMIT("%s: all is copied to the %s leg, but it isn't in sync before the %s leg (%s), its source, has said so, and that takes no superblock: error %d",
		    dm_table_device_name(m->ti->table), leg_name(target), leg_name(source->id),
		    leg_path(source), error);
	return -EREMOTEIO;
}

/*
 * The superblocks of both, in this order. From the first of them on the target may
 * be SYNC for all that a parting knows; to the last it can't stand in for the source.
 */
static int both_in_sync(struct mirror *m, enum leg_id leg)
{
	bool move = leg == LEG_LOCAL && mirror_home(m) != leg;
	int r = 0;

	if (move) {
		dirty_map_hold(&m->dirty);
		r = home_new_map(m, leg);
	}
	if (!r) {
		r = metadata_update(m, other_leg(leg), become_sync);
		if (r && r != -ESTALE)
			r = late(m) ? -EAGAIN : source_stays(m, leg, r);
	}
	if (!r)
		r = metadata_update(m, leg, become_sync);
	if (move) {
		if (!r)
			r = home_set(m, leg);
		dirty_map_release(&m->dirty);
	}
	return r;
}

/*
 * The last steps have been cut short, with these errors before anything was written to the target:
 * it is still one for certain. Unless it has died: then a parting has taken it for what it may be.
 */
static bool stays_target(const struct mirror *m, enum leg_id leg, int r)
{
	lockdep_assert_held(&m->lock);
	if (m->legs[leg].dead)
		return false;
	if (test_knob(target_slips))
		return r == -EREMOTEIO && m->changes == m->join_changes;
	return r == -EREMOTEIO || r == -EAGAIN;
}

static int in_sync(struct mirror *m, enum leg_id leg)
{
	int r = 0;
	u64 marks;

	/* What is copied after the flush is marked after this. */
	spin_lock_irq(&m->lock);
	marks = m->map.marks;
	spin_unlock_irq(&m->lock);
	if (leg_may_forget(&m->legs[leg]))
		r = transfer_flush(m, leg);
	if (r) {
		(void)mirror_leg_failed(m, leg);
		return r;
	}

	spin_lock_irq(&m->lock);
	if (m->changes != m->join_changes || m->map.nr_stale || m->map.marks != marks) {
		r = -EAGAIN;
	} else {
		m->target_ready = false;
		m->target_leaving = true;
	}
	spin_unlock_irq(&m->lock);
	if (r)
		return r;

	r = both_in_sync(m, leg);
	/* Of the source: it stays, with data that the target can't be believed to have. */
	if (r && r != -EAGAIN && r != -EREMOTEIO)
		(void)mirror_leg_failed(m, leg);

	spin_lock_irq(&m->lock);
	m->target_leaving = false;
	m->target_ready = stays_target(m, leg, r);
	/* That is tried again in a while, and not at once. */
	if (r != -EREMOTEIO)
		mirror_changed(m);
	resync_kick(m->resync);
	spin_unlock_irq(&m->lock);
	/* What it misses since is held until it is marked, which it is. */
	if (r)
		standing_release(m);
	/* Whatever is said of dead legs. */
	if (r == -EREMOTEIO)
		queue_delayed_work(m->join_wq, &m->joining, REJOIN_SECONDS_DEFAULT * HZ);
	return r;
}

/* One step of whatever is to be done. Under join_lock. */
static int step(struct mirror *m)
{
	bool stale, ready;
	enum leg_id leg;
	int r = 0;

	lockdep_assert_held(&m->join_lock);

	lesser_take_forgotten(m);
	spin_lock_irq(&m->lock);
	m->join_changes = m->changes;
	stale = m->map.nr_stale;
	ready = m->target_ready;
	leg = m->map.target;
	if (m->join_off) {
		spin_unlock_irq(&m->lock);
		return -EBUSY;		/* suspended, or read-only */
	}
	switch (m->standing) {
	case PARTING:
		spin_unlock_irq(&m->lock);
		if (!standing_retry_now(m))
			return -EAGAIN;
		if (test_knob(parting_stays))
			return -EIO;

		/*
		 * The leg that is left can't say that it is alone, so nothing was acknowledged
		 * without the dead one: if that is back, it is as good as before.
		 */
		spin_lock_irq(&m->lock);
		break;
	case TOGETHER:
		spin_unlock_irq(&m->lock);
		if (m->meta && stale && !ready)
			return mark_target(m, leg);
		return m->meta && !stale && ready ? in_sync(m, leg) : 0;
	default:
		break;
	}
	leg = m->legs[LEG_LOCAL].dead ? LEG_LOCAL : LEG_REMOTE;
	if (!m->legs[leg].dead)
		r = -EAGAIN;	/* it has ended meanwhile, and the leg is back */
	else if (!m->legs[leg].dev)
		r = -ENODEV;
	else if (m->legs[leg].why == WHY_TOLD)
		r = -EPERM;
	spin_unlock_irq(&m->lock);
	return r ?: come_back(m, leg);
}

static int try_once(struct mirror *m)
{
	int r = step(m);

	if (!r || test_knob(one_patience))
		m->join_seconds = JOIN_SECONDS;
	else if (r == -ETIMEDOUT)
		m->join_seconds = min(2 * m->join_seconds, JOIN_SECONDS_MOST);
	return r;
}

static void join_work(struct work_struct *work)
{
	struct mirror *m = container_of(to_delayed_work(work), struct mirror, joining);
	int r;

	mutex_lock(&m->join_lock);
	r = try_once(m);
	mutex_unlock(&m->join_lock);

	/* More to do, or what has failed may succeed later. */
	if (r == -EAGAIN)
		join_kick(m);
	else if (r && r != -ENODEV && r != -EPERM)
		join_kick_later(m);
}

void join_enter(struct mirror *m)
{
	atomic_inc(&m->join_wanted);
	mutex_lock(&m->join_lock);
}

void join_leave(struct mirror *m)
{
	mutex_unlock(&m->join_lock);
	atomic_dec(&m->join_wanted);
}

/* A try that is under way may be just what is needed: it isn't cut short for another one. */
static int enter_soon(struct mirror *m)
{
	unsigned long until = jiffies + JOIN_SECONDS * HZ;

	while (!mutex_trylock(&m->join_lock)) {
		if (time_after(jiffies, until) || READ_ONCE(m->closed))
			return -EBUSY;
		schedule_timeout_uninterruptible(HZ / 50 + 1);
	}
	return 0;
}

int join_now(struct mirror *m)
{
	int r;

	do {
		standing_await(m);
		r = enter_soon(m);
		if (r)
			break;
		atomic_inc(&m->join_wanted);	/* by who waits for this try */
		r = try_once(m);
		atomic_dec(&m->join_wanted);
		mutex_unlock(&m->join_lock);
	} while (r == -EAGAIN && !READ_ONCE(m->closed));
	/* Nobody waits for the next one, which has more patience. */
	if (r == -ETIMEDOUT && !test_knob(one_patience))
		join_kick(m);
	if (r == -ENOMEM)
		DMWARN("%s: no memory to probe a leg: it stays dead; try again",
		       dm_table_device_name(m->ti->table));
	else if (r == -EBUSY)
		DMWARN("%s: the dead leg hasn't answered all that was sent to it: it stays dead until it has",
		       dm_table_device_name(m->ti->table));
	else if (r)
		DMWARN("%s: the dead leg doesn't answer yet, or can't be taken: error %d; it stays dead",
		       dm_table_device_name(m->ti->table), r);
	return r;
}

void join_kick(struct mirror *m)
{
	if (!READ_ONCE(m->join_off))
		mod_delayed_work(m->join_wq, &m->joining, 0);
}

void join_kick_later(struct mirror *m)
{
	if (m->options.rejoin && !READ_ONCE(m->join_off))
		queue_delayed_work(m->join_wq, &m->joining, m->options.rejoin * HZ);
}

void join_stop(struct mirror *m)
{
	spin_lock_irq(&m->lock);
	WRITE_ONCE(m->join_off, true);
	transfers_abandon(m);
	spin_unlock_irq(&m->lock);
	cancel_delayed_work_sync(&m->joining);
	/* And by hand. */
	mutex_lock(&m->join_lock);
	mutex_unlock(&m->join_lock);
}

void join_run(struct mirror *m)
{
	if (m->read_only)
		return;
	WRITE_ONCE(m->join_off, false);
	join_kick(m);
}

void join_init(struct mirror *m)
{
	mutex_init(&m->join_lock);
	m->join_seconds = JOIN_SECONDS;
	INIT_DELAYED_WORK(&m->joining, join_work);
	m->join_off = true;
}
