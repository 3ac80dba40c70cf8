// SPDX-License-Identifier: GPL-2.0-only
#include "mirror.h"

#include <linux/completion.h>

#include "join.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "metadata.h"
#include "resync.h"
#include "verify.h"

TEST_KNOB(bool, silent_resyncs, "a resync of all is begun though the local leg says nothing");
TEST_KNOB(bool, restart_forgets, "a write that is sent again is as if no leg had it");
TEST_KNOB(bool, target_acks, "a write that the target hasn't got is acknowledged, whatever the policy");
TEST_KNOB(bool, cleans_forgotten, "the cleaner goes on while something forgotten isn't stale yet");
TEST_KNOB(bool, neither_stays, "of two legs that take no superblock one is given up");
TEST_KNOB(bool, home_once, "of the map's home the other leg knows what that said the time before");
TEST_KNOB(bool, goes_on_foreign, "writes go on to the only leg, whoever else uses it");
TEST_KNOB(bool, unstamped, "what is clean is flushed, and no superblock tells older copies of the legs from them");

static bool leg_in(unsigned int mask, enum leg_id leg)
{
	return mask & BIT(leg);
}

bool mirror_has_target(const struct mirror *m)
{
	return m->map.nr_stale || m->target_ready || m->target_leaving;
}

bool mirror_may_resync(const struct mirror *m)
{
	return !m->read_only && (m->target_ready || !m->meta);
}

char mirror_health(const struct mirror *m, enum leg_id leg)
{
	const struct leg *l = &m->legs[leg];

	lockdep_assert_held(&m->lock);
	if (!l->dev)
		return '-';
	if (l->dead)
		return 'D';
	/* The target's superblock says so until the very end. */
	if (mirror_has_target(m) && leg == m->map.target)
		return 'a';
	return 'A';
}

void mirror_changed(struct mirror *m)
{
	enum leg_id leg;
	bool news = false;

	lockdep_assert_held(&m->lock);

	WRITE_ONCE(m->degraded, m->standing != TOGETHER || m->forgot || m->recalls ||
		   !region_map_all_in_sync(&m->map));
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (mirror_health(m, leg) != m->shown[leg] ||
		    m->legs[leg].silent != m->shown_silent[leg])
			news = true;
	if (news || m->standing != m->shown_standing)
		queue_work(m->wq, &m->event);

	/* The target has to be marked, or has become in sync. */
	if (m->standing == TOGETHER && m->meta && !m->read_only &&
	    !!m->map.nr_stale != m->target_ready)
		join_kick(m);
	transfers_abandon(m);
	resync_kick(m->resync);
	verify_kick(m->verify);
}

static bool mark(struct mirror *m, enum leg_id leg, const struct locked_range *range)
{
	lockdep_assert_held(&m->lock);

	m->target_whole = false;
	m->both_whole = false;
	if (!region_map_mark(&m->map, leg, range->start, range->last))
		return false;
	trace_lockstep_stale(m, leg, range->start, range->last);
	return true;
}

bool mirror_stands_in(const struct mirror *m, enum leg_id leg)
{
	lockdep_assert_held(&m->lock);
	return !m->legs[leg].dead &&
	       !(mirror_has_target(m) && m->map.target == leg && !m->target_whole);
}

int mirror_give_up(struct mirror *m, enum leg_id leg, enum leg_why why)
{
	struct leg *l = &m->legs[leg];

	lockdep_assert_held(&m->lock);

	if (l->dead)
		return 0;
	if (!mirror_stands_in(m, other_leg(leg)))
		return -EBUSY;

	l->dead = true;
	l->why = why;
	l->silent = false;
	WRITE_ONCE(m->degraded, true);
	/*
	 * mirror_route() looks without the lock: who sees this death has to see that we are
	 * degraded, too, or a write would go to the dead leg behind write_abandon()'s back.
	 */
	smp_store_release(&l->deaths, l->deaths + 1);
	/* Where they may differ it is the other one that is believed from now on. */
	if (!m->map.nr_stale || m->target_whole)
		m->map.target = leg;
	m->target_whole = false;
	m->both_whole = false;
	/*
	 * What it acknowledged from its cache may be gone when it is back: that
	 * is at most what hasn't been flushed since its bit was set. Not here, where
	 * nobody may take long: until the parting has done it, everything is held.
	 */
	m->forgets |= leg_may_forget(l);
	trace_lockstep_leg(m, leg, 'D');
	standing_part(m);
	return 0;
}

static void mark_missed(struct write *w, enum leg_id leg)
{
	if (w->kind != WRITE_FLUSH)
		mark(w->m, leg, &w->range);
}

/* No leg has it for certain, and nobody was told that one has. */
static void mark_failed(struct write *w)
{
	struct mirror *m = w->m;
	bool whole = lesser_is_whole(m);

	mark_missed(w, lesser_leg(m));
	m->target_whole = whole && m->map.nr_stale;
}

/* Is there a leg that this may be sent to and be acknowledged from? */
static blk_status_t route_degraded(struct write *w)
{
	struct mirror *m = w->m;
	enum leg_id leg;

	lockdep_assert_held(&m->lock);

	switch (m->standing) {
	case PARTING:
	case BLOCKED:
		standing_hold(m, w);
		return BLK_STS_AGAIN;
	case REFUSING:
		return BLK_STS_IOERR;
	case TOGETHER:
	case ALONE:
		break;
	}

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		w->deaths[leg] = m->legs[leg].deaths;
		if (!m->legs[leg].dead)
			w->sent |= BIT(leg);
		/* Nobody would know of its miss: a bug of ours, and no write is lost by it. */
		else if (WARN_ON_ONCE(!region_map_takes(&m->map, leg)))
			return BLK_STS_IOERR;
		else if (w->kind != WRITE_FLUSH && mark(m, leg, &w->range))
			/* Before it can be acknowledged, even before it is sent. */
			mirror_changed(m);
	}
	return BLK_STS_OK;
}

/*
 * It isn't sent, or not yet, and may never be; if one leg has it from before, that is where the
 * legs differ.
 */
static void missed_before(struct write *w)
{
	if (!w->unacked || test_knob(restart_forgets))
		return;
	w->unacked = false;
	mark_failed(w);
	mirror_changed(w->m);
}

blk_status_t mirror_route(struct write *w)
{
	struct mirror *m = w->m;
	blk_status_t status;
	unsigned long flags;
	enum leg_id leg;

	w->sent = 0;
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		/* Before degraded: pairs with mirror_give_up(). */
		w->deaths[leg] = smp_load_acquire(&m->legs[leg].deaths);

	if (likely(!READ_ONCE(m->degraded))) {
		w->sent = BIT(LEG_LOCAL) | BIT(LEG_REMOTE);
		return BLK_STS_OK;
	}

	spin_lock_irqsave(&m->lock, flags);
	status = route_degraded(w);
	if (status)
		missed_before(w);
	spin_unlock_irqrestore(&m->lock, flags);
	if (status == BLK_STS_IOERR)
		count(&m->counters, COUNT_REFUSED);
	return status;
}

static unsigned int failed_legs(struct write *w)
{
	unsigned int failed = 0;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (leg_in(w->sent, leg) && w->status[leg])
			failed |= BIT(leg);
	return failed;
}

/*
 * Each error once, though a held write is settled more than once. A leg that was
 * abandoned has said nothing.
 */
static void count_errors(struct write *w, unsigned int failed)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (leg_in(failed & ~w->abandoned, leg)) {
			atomic64_inc(&w->m->legs[leg].write_errors);
			trace_lockstep_leg_error(w->m, leg, w->range.start, w->status[leg]);
		}
}

/* What the caller is told: a leg that was abandoned has said nothing. */
/* BLK_STS_AGAIN is what this file says of a write that is held. */
static blk_status_t error_of(const struct write *w, enum leg_id leg)
{
	bool ours = leg_in(w->abandoned, leg) || w->status[leg] == BLK_STS_AGAIN;

	return ours ? BLK_STS_IOERR : w->status[leg];
}

/* Keep it until the standing changes, or the target is marked. */
static blk_status_t hold_unacked(struct write *w)
{
	w->unacked = true;
	standing_hold(w->m, w);
	return BLK_STS_AGAIN;
}

/* Leg @bad failed it and is dead, the other one has it. */
static blk_status_t settle_without(struct write *w, enum leg_id bad)
{
	switch (w->m->standing) {
	case ALONE:
		mark_missed(w, bad);
		return BLK_STS_OK;
	case REFUSING:
		mark_missed(w, bad);
		return error_of(w, bad);
	default:
		return hold_unacked(w);
	}
}

/* One leg has it, leg @bad failed it. BLK_STS_AGAIN: it is held now. */
static blk_status_t settle_half(struct write *w, enum leg_id bad)
{
	struct mirror *m = w->m;
	enum leg_id good = other_leg(bad);

	lockdep_assert_held(&m->lock);

	if (m->legs[bad].deaths == w->deaths[bad])
		(void)mirror_give_up(m, bad, WHY_FAILED);
	else if (!w->unacked && !leg_in(w->abandoned, bad))
		count(&m->counters, COUNT_LATE);

	if (m->legs[bad].dead)
		return settle_without(w, bad);

	/* The source failed it, or the leg that has it has died meanwhile. */
	if (!mirror_stands_in(m, good)) {
		mark_missed(w, good);
		lesser_forgot(m, bad);
		return error_of(w, bad);
	}

	/*
	 * It was given up after it had got this, and is back: flushed since, and
	 * with its misses marked, of which this is one more. It is written once more: what the
	 * policy says of a write that one leg alone has is asked when a leg is dead, not here.
	 */
	mark_missed(w, bad);
	if (w->kind == WRITE_FLUSH || (test_knob(target_acks) && mirror_may_resync(m)))
		return BLK_STS_OK;
	return hold_unacked(w);
}

/*
 * No leg has it for certain: each may hold the old, the new or torn data. Any is
 * right for a failed write, but it must be the same on both. For this write neither leg is
 * better than the other, so neither is given up; one that has forgotten others is the lesser.
 */
static void settle_none(struct write *w)
{
	struct mirror *m = w->m;
	enum leg_id leg;

	lockdep_assert_held(&m->lock);
	/* First: which one is the lesser depends on it. */
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (leg_in(w->sent, leg) && !m->legs[leg].dead)
			lesser_forgot(m, leg);
	if (w->sent == (BIT(LEG_LOCAL) | BIT(LEG_REMOTE)))
		mark_failed(w);
}

void mirror_settle(struct write *w)
{
	struct mirror *m = w->m;
	unsigned int failed = failed_legs(w);
	blk_status_t status = BLK_STS_OK;
	unsigned long flags;

	if (unlikely(failed)) {
		if (!w->unacked)
			count_errors(w, failed);
		spin_lock_irqsave(&m->lock, flags);
		if (failed == w->sent) {
			status = error_of(w, leg_in(failed, LEG_LOCAL) ? LEG_LOCAL : LEG_REMOTE);
			settle_none(w);
		} else {
			status = settle_half(w, leg_in(failed, LEG_LOCAL) ? LEG_LOCAL : LEG_REMOTE);
		}
		mirror_changed(m);
		spin_unlock_irqrestore(&m->lock, flags);
		if (status == BLK_STS_AGAIN)
			return;
	}
	if (!status && w->kind != WRITE_FLUSH &&
	    (failed || w->sent != (BIT(LEG_LOCAL) | BIT(LEG_REMOTE))))
		count(&m->counters, COUNT_ALONE);
	write_finish(w, status);
}

void mirror_fail_write(struct write *w, blk_status_t status)
{
	struct mirror *m = w->m;

	spin_lock_irq(&m->lock);
	missed_before(w);
	spin_unlock_irq(&m->lock);
	count(&m->counters, COUNT_REFUSED);
	write_finish(w, status);
}

enum leg_id mirror_read_leg(struct mirror *m, sector_t start, sector_t last,
			    unsigned int tried)
{
	enum leg_id leg, found = LEGS;
	unsigned long flags;

	if (likely(!READ_ONCE(m->degraded) && !tried))
		return LEG_LOCAL;

	spin_lock_irqsave(&m->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (leg_in(tried, leg) || m->legs[leg].dead || lesser_in_doubt(m, leg) ||
		    !region_map_current(&m->map, leg, start, last))
			continue;
		found = leg;
		break;
	}
	spin_unlock_irqrestore(&m->lock, flags);
	return found;
}

enum leg_id mirror_home(struct mirror *m)
{
	return READ_ONCE(m->home);
}

bool mirror_may_clean(struct mirror *m)
{
	bool may;

	spin_lock_irq(&m->lock);
	may = m->standing == TOGETHER && !m->read_only &&
	      (test_knob(cleans_forgotten) || (!m->forgot && !m->recalls));
	/* A start that failed has no home. */
	if (m->meta && m->home == LEGS)
		may = false;
	spin_unlock_irq(&m->lock);
	return may;
}

bool mirror_must_yield(struct mirror *m)
{
	unsigned int changes;

	return mirror_parts(m, &changes) || READ_ONCE(m->closed) || READ_ONCE(m->join_off);
}

bool mirror_parts(struct mirror *m, unsigned int *changes)
{
	bool parts;

	spin_lock_irq(&m->lock);
	parts = m->standing == PARTING;
	*changes = m->changes;
	spin_unlock_irq(&m->lock);
	return parts;
}

unsigned int mirror_changes(struct mirror *m)
{
	unsigned int changes;

	spin_lock_irq(&m->lock);
	changes = m->changes;
	spin_unlock_irq(&m->lock);
	return changes;
}

bool mirror_region_stale(struct mirror *m, unsigned long region)
{
	bool stale;

	spin_lock_irq(&m->lock);
	stale = m->map.nr_stale && test_bit(region, m->map.stale);
	spin_unlock_irq(&m->lock);
	return stale;
}

bool mirror_any_stale(const struct mirror *m)
{
	return READ_ONCE(m->map.nr_stale);
}

bool mirror_region_busy(struct mirror *m, unsigned long region)
{
	/* In this order: a write that fails marks before it gives its range back. */
	if (range_lock_busy(&m->ranges, region_start(&m->map, region),
			    region_last(&m->map, region)))
		return true;
	return mirror_region_stale(m, region);
}

int mirror_flush_legs(struct mirror *m)
{
	enum leg_id leg;
	int r;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct leg *l = &m->legs[leg];

		if (READ_ONCE(l->dead) || !leg_may_forget(l))
			continue;
		r = transfer_flush(m, leg);
		if (r) {
			(void)mirror_leg_failed(m, leg);
			return r;
		}
	}
	return 0;
}

int mirror_stamp_legs(struct mirror *m)
{
	enum leg_id home = mirror_home(m), other = other_leg(home);
	int r, of_home;

	/* On its own: dm passes over an error of a flush that comes with a write. */
	r = mirror_flush_legs(m);
	if (r || !m->meta || test_knob(unstamped) || READ_ONCE(m->legs[home].dead) ||
	    READ_ONCE(m->legs[other].dead))
		return r;
	/*
	 * Each is to know of the other what that has said after the flush, so the home says it
	 * twice. And last: it vouches for the other one, whose regions are about to be clean.
	 */
	of_home = test_knob(home_once) ? 0 : metadata_update(m, home, NULL);
	r = metadata_update(m, other, NULL);
	if (!of_home)
		of_home = metadata_update(m, home, NULL);
	if (of_home == -ESTALE)
		(void)mirror_leg_failed(m, home);
	/* Neither can say that it goes on without the other one; what is dirty stays so. */
	else if (r && r != -ESTALE && of_home && !test_knob(neither_stays))
		return r;
	/* Who doesn't answer is given up for one that does, or by the watch. */
	if (r && (r != -ETIMEDOUT || !of_home))
		(void)mirror_leg_failed(m, other);
	if (of_home && of_home != -ETIMEDOUT)
		(void)mirror_leg_failed(m, home);
	return r ?: of_home;
}

/*
 * The only leg that has everything isn't this mirror's any more: nobody writes on to it. What comes
 * waits for a parting, and that fails.
 */
static void stop_writes(struct mirror *m, enum leg_id leg)
{
	lockdep_assert_held(&m->lock);
	if (test_knob(goes_on_foreign))
		return;
	/* It is dead already, or it is the target. */
	(void)mirror_give_up(m, other_leg(leg), WHY_DIVERGED);
	if (m->standing != PARTING)
		standing_part(m);
}

int mirror_leg_failed(struct mirror *m, enum leg_id leg)
{
	int r;

	spin_lock_irq(&m->lock);
	r = mirror_give_up(m, leg, WHY_FAILED);
	if (r)
		lesser_forgot(m, leg);
	if (r && metadata_foreign(m, leg))
		stop_writes(m, leg);
	spin_unlock_irq(&m->lock);
	return r;
}

struct mark_wait {
	struct dirty_wait wait;
	struct completion done;
	blk_status_t status;
};

static void marked(struct dirty_wait *wait, blk_status_t status)
{
	struct mark_wait *mw = container_of(wait, struct mark_wait, wait);

	mw->status = status;
	complete(&mw->done);
}

int mirror_mark_differs(struct mirror *m, enum leg_id leg, const struct locked_range *range)
{
	struct mark_wait mw = { .wait.done = marked };
	int r = 0;

	init_completion(&mw.done);
	/* As before a write: so that it goes on after a crash. */
	if (!dirty_map_mark(&m->dirty, &mw.wait, range->start, range->last))
		wait_for_completion(&mw.done);
	if (mw.status)
		return blk_status_to_errno(mw.status);

	spin_lock_irq(&m->lock);
	if (m->standing != TOGETHER || (mirror_has_target(m) && m->map.target != leg)) {
		r = -EBUSY;
	} else {
		mark(m, leg, range);
		mirror_changed(m);
	}
	spin_unlock_irq(&m->lock);
	return r;
}

/* Messages */

int mirror_fail(struct mirror *m, enum leg_id leg)
{
	bool silent;
	int r;

	spin_lock_irq(&m->lock);
	/* It couldn't take over, and this one not come back before it has (watch.h). */
	silent = !m->legs[leg].dead &&
		 (m->legs[other_leg(leg)].silent || watch_doubts(m, other_leg(leg)));
	r = silent ? -EBUSY : mirror_give_up(m, leg, WHY_TOLD);
	if (!r)
		m->legs[leg].why = WHY_TOLD;	/* so that it stays dead */
	spin_unlock_irq(&m->lock);
	if (!r)
		write_abandon(m, leg);	/* it may hang */
	else
		DMWARN("%s: can't fail the %s leg: the %s leg %s",
		       dm_table_device_name(m->ti->table), leg_name(leg),
		       leg_name(other_leg(leg)),
		       silent ? "doesn't answer" : "is dead or not in sync everywhere");
	standing_await(m);
	return r;
}

int mirror_recover(struct mirror *m, enum leg_id leg)
{
	int r;

	spin_lock_irq(&m->lock);
	if (!m->legs[leg].dead) {
		resync_kick(m->resync);		/* it may be stalled */
		spin_unlock_irq(&m->lock);
		return 0;
	}
	if (m->legs[leg].why == WHY_TOLD)
		m->legs[leg].why = m->legs[leg].dev ? WHY_FAILED : WHY_ABSENT;
	spin_unlock_irq(&m->lock);
	r = join_now(m);
	/* It isn't kept away any more: from now on it comes back by itself. */
	if (r)
		join_kick_later(m);
	return r;
}

int mirror_mark_all(struct mirror *m, enum leg_id leg)
{
	unsigned long first;
	int r = 0;

	/* In pieces: those that are stale stay so, whatever happens. */
	for (first = 0; first < m->map.nr && !r; first += REGION_PIECE) {
		spin_lock_irq(&m->lock);
		m->target_whole = false;
		m->both_whole = false;
		if (mirror_stands_in(m, other_leg(leg)))
			region_map_mark_bits(&m->map, leg, first,
					     min(REGION_PIECE, m->map.nr - first), NULL);
		else
			r = -EBUSY;
		mirror_changed(m);
		spin_unlock_irq(&m->lock);
		cond_resched();
	}
	return r;
}

/* A silent leg would hold whoever stops the map, for as long as it says nothing. */
static bool local_stands_in(struct mirror *m)
{
	bool yes;

	spin_lock_irq(&m->lock);
	yes = mirror_stands_in(m, LEG_LOCAL) &&
	      (!m->legs[LEG_LOCAL].silent || test_knob(silent_resyncs));
	spin_unlock_irq(&m->lock);
	return yes;
}

int mirror_resync_all(struct mirror *m)
{
	int r = -EBUSY;

	if (m->read_only) {
		DMWARN("%s: resync: the mirror is read-only", dm_table_device_name(m->ti->table));
		return -EROFS;
	}
	if (local_stands_in(m)) {
		dirty_map_hold(&m->dirty);
		/* So that it goes on after a crash. */
		if (local_stands_in(m))
			r = dirty_map_widen(&m->dirty, NULL);
		if (!r)
			r = mirror_mark_all(m, LEG_REMOTE);
		dirty_map_release(&m->dirty);
	}
	if (r == -ESTALE)
		(void)mirror_leg_failed(m, mirror_home(m));
	if (r)
		DMWARN("%s: can't resync all of the remote leg: %s",
		       dm_table_device_name(m->ti->table),
		       r == -EBUSY ? "the local leg is dead, silent, or not in sync everywhere" :
		       r == -ESTALE ? "somebody else has used the leg that has the map" :
				     "the map can't be written");
	return r;
}
