// SPDX-License-Identifier: GPL-2.0-only
#include "mirror.h"

#include "lockstep-trace.h"
#include "registry.h"
#include "resync.h"

static bool leg_in(unsigned int mask, enum leg_id leg)
{
	return mask & BIT(leg);
}

void mirror_changed(struct mirror *m)
{
	enum leg_id leg;
	bool news = false;

	lockdep_assert_held(&m->lock);

	WRITE_ONCE(m->degraded, m->legs[LEG_LOCAL].dead || m->legs[LEG_REMOTE].dead ||
		   !region_map_all_in_sync(&m->map));
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (leg_health(&m->legs[leg], region_map_nr_stale(&m->map, leg)) != m->shown[leg])
			news = true;
	if (news)
		queue_work(m->wq, &m->event);
	resync_kick(m->resync);
}

static bool mark(struct mirror *m, enum leg_id leg, const struct locked_range *range)
{
	lockdep_assert_held(&m->lock);

	if (!region_map_mark(&m->map, leg, range->start, range->last))
		return false;
	trace_lockstep_stale(m, leg, range->start, range->last);
	return true;
}

int mirror_give_up(struct mirror *m, enum leg_id leg)
{
	struct leg *l = &m->legs[leg];
	enum leg_id other = other_leg(leg);

	lockdep_assert_held(&m->lock);

	if (l->dead)
		return 0;
	if (m->legs[other].dead || region_map_nr_stale(&m->map, other))
		return -EBUSY;

	l->dead = true;
	WRITE_ONCE(l->deaths, l->deaths + 1);
	/* What it acknowledged from its cache may be gone when it is back. */
	if (leg_may_forget(l))
		region_map_mark_all(&m->map, leg);
	trace_lockstep_leg(m, leg, 'D');
	mirror_changed(m);
	return 0;
}

static blk_status_t route_range(struct write *w)
{
	struct mirror *m = w->m;
	struct locked_range *range = &w->range;
	blk_status_t status = BLK_STS_OK;
	bool current_leg = false, news = false;
	unsigned long flags;
	enum leg_id leg;

	w->sent = 0;
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		w->deaths[leg] = READ_ONCE(m->legs[leg].deaths);

	if (likely(!READ_ONCE(m->degraded))) {
		w->sent = BIT(LEG_LOCAL) | BIT(LEG_REMOTE);
		return BLK_STS_OK;
	}

	spin_lock_irqsave(&m->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		w->deaths[leg] = m->legs[leg].deaths;
		if (m->legs[leg].dead) {
			if (m->options.error_policy)
				status = BLK_STS_IOERR;
			continue;
		}
		w->sent |= BIT(leg);
		if (region_map_current(&m->map, leg, range->start, range->last))
			current_leg = true;
	}
	if (!current_leg)
		status = BLK_STS_IOERR;
	if (status == BLK_STS_OK) {
		/* Before the write can be acknowledged, even before it is sent. */
		for (leg = LEG_LOCAL; leg < LEGS; leg++)
			if (!leg_in(w->sent, leg))
				news |= mark(m, leg, range);
		if (news)
			mirror_changed(m);
	}
	spin_unlock_irqrestore(&m->lock, flags);

	if (status)
		count(&m->counters, COUNT_REFUSED);
	return status;
}

/* A leg failed what it was sent; is that news about the leg as it is now? */
static void blame(struct write *w, enum leg_id leg)
{
	struct mirror *m = w->m;
	struct leg *l = &m->legs[leg];

	lockdep_assert_held(&m->lock);

	if (leg_in(w->abandoned, leg))
		return;		/* it is dead, and its answer isn't known */
	if (l->deaths != w->deaths[leg])
		count(&m->counters, COUNT_LATE);
	else
		(void)mirror_give_up(m, leg);	/* refusal: it stays, marked stale */
}

static unsigned int failed_legs(struct write *w)
{
	unsigned int failed = 0;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (leg_in(w->sent, leg) && w->status[leg]) {
			failed |= BIT(leg);
			if (leg_in(w->abandoned, leg))
				continue;	/* it has said nothing */
			atomic64_inc(&w->m->legs[leg].write_errors);
			trace_lockstep_leg_error(w->m, leg, w->range.start, w->status[leg]);
		}
	return failed;
}

static blk_status_t first_error(const struct write *w)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (w->status[leg] && !leg_in(w->abandoned, leg))
			return w->status[leg];
	return BLK_STS_IOERR;
}

static blk_status_t settle_range(struct write *w)
{
	struct mirror *m = w->m;
	struct locked_range *range = &w->range;
	unsigned int failed, good;
	bool safe = false;
	unsigned long flags;
	enum leg_id leg;

	if (likely(!w->status[LEG_LOCAL] && !w->status[LEG_REMOTE])) {
		if (unlikely(w->sent != (BIT(LEG_LOCAL) | BIT(LEG_REMOTE))))
			count(&m->counters, COUNT_ALONE);
		return BLK_STS_OK;
	}

	failed = failed_legs(w);
	good = w->sent & ~failed;

	spin_lock_irqsave(&m->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (leg_in(good, leg) &&
		    region_map_current(&m->map, leg, range->start, range->last))
			safe = true;

	if (good) {
		for (leg = LEG_LOCAL; leg < LEGS; leg++)
			if (leg_in(failed, leg) && region_map_nr_stale(&m->map, other_leg(leg))) {
				/* The source can't be given up, nor be the target. */
				mark(m, other_leg(leg), range);
				safe = false;
			} else if (leg_in(failed, leg)) {
				mark(m, leg, range);
				blame(w, leg);
			}
	} else if (failed == (BIT(LEG_LOCAL) | BIT(LEG_REMOTE))) {
		/*
		 * Both legs may hold the old, the new or torn data; any is right
		 * for a failed write, but it must be the same on both. Neither
		 * leg is better than the other, so neither is given up.
		 */
		mark(m, m->map.nr_stale ? m->map.target : LEG_REMOTE, range);
	}
	mirror_changed(m);
	spin_unlock_irqrestore(&m->lock, flags);

	if (!safe || m->options.error_policy)
		return first_error(w);
	count(&m->counters, COUNT_ALONE);
	return BLK_STS_OK;
}

static void route_flush(struct write *w)
{
	struct mirror *m = w->m;
	unsigned long flags;
	enum leg_id leg;

	w->sent = 0;
	spin_lock_irqsave(&m->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		w->deaths[leg] = m->legs[leg].deaths;
		if (!m->legs[leg].dead)
			w->sent |= BIT(leg);
	}
	spin_unlock_irqrestore(&m->lock, flags);
}

static blk_status_t settle_flush(struct write *w)
{
	struct mirror *m = w->m;
	unsigned int failed;
	unsigned long flags;
	enum leg_id leg;
	bool safe = true;

	if (likely(!w->status[LEG_LOCAL] && !w->status[LEG_REMOTE]))
		return BLK_STS_OK;

	failed = failed_legs(w);

	/*
	 * Give up a leg only if the other one's flush succeeded. If the leg has
	 * to stay, what it holds alone isn't on stable storage: say so.
	 */
	spin_lock_irqsave(&m->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (!leg_in(failed, leg))
			continue;
		if (leg_in(w->sent & ~failed, other_leg(leg)))
			blame(w, leg);
		if (!m->legs[leg].dead)
			safe = false;
	}
	spin_unlock_irqrestore(&m->lock, flags);

	if (!safe || m->options.error_policy)
		return first_error(w);
	return BLK_STS_OK;
}

blk_status_t mirror_route(struct write *w)
{
	if (w->kind != WRITE_FLUSH)
		return route_range(w);
	route_flush(w);
	return BLK_STS_OK;
}

void mirror_settle(struct write *w)
{
	write_finish(w, w->kind == WRITE_FLUSH ? settle_flush(w) : settle_range(w));
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
		if (leg_in(tried, leg) || m->legs[leg].dead ||
		    !region_map_current(&m->map, leg, start, last))
			continue;
		found = leg;
		break;
	}
	spin_unlock_irqrestore(&m->lock, flags);
	return found;
}

int mirror_fail(struct mirror *m, enum leg_id leg)
{
	int r;

	spin_lock_irq(&m->lock);
	r = mirror_give_up(m, leg);
	spin_unlock_irq(&m->lock);
	if (!r)
		write_abandon(m, leg);	/* it may hang */
	else
		DMWARN("%s: can't fail the %s leg: the %s leg is dead or not in sync everywhere",
		       dm_table_device_name(m->ti->table), leg_name(leg),
		       leg_name(other_leg(leg)));
	return r;
}

int mirror_recover(struct mirror *m, enum leg_id leg)
{
	struct leg *l = &m->legs[leg];
	int r;

	if (!READ_ONCE(l->dead))
		return 0;

	r = registry_draining(m, leg) ? -EBUSY : writes_ready(m, leg);
	if (r == -EBUSY) {
		DMWARN("%s: the %s leg (%s) hasn't answered all that was sent to it: it stays dead until it has",
		       dm_table_device_name(m->ti->table), leg_name(leg), l->dev->name);
		return r;
	}
	r = r ?: leg_probe(l);
	if (r == -ENOMEM) {
		DMWARN("%s: no memory to probe the %s leg (%s): it stays dead; try again",
		       dm_table_device_name(m->ti->table), leg_name(leg), l->dev->name);
		return r;
	}
	if (r) {
		DMWARN("%s: the %s leg (%s) doesn't answer yet: error %d; it stays dead",
		       dm_table_device_name(m->ti->table), leg_name(leg), l->dev->name, r);
		return r;
	}

	spin_lock_irq(&m->lock);
	if (writes_draining(m, leg)) {
		r = -EBUSY;	/* since a moment ago */
	} else if (l->dead) {
		l->dead = false;
		trace_lockstep_leg(m, leg, leg_health(l, region_map_nr_stale(&m->map, leg)));
		mirror_changed(m);
	}
	spin_unlock_irq(&m->lock);
	return r;
}

int mirror_resync_all(struct mirror *m)
{
	int r = 0;

	spin_lock_irq(&m->lock);
	if (region_map_nr_stale(&m->map, LEG_LOCAL)) {
		r = -EBUSY;
	} else {
		region_map_mark_all(&m->map, LEG_REMOTE);
		mirror_changed(m);
	}
	spin_unlock_irq(&m->lock);
	if (r)
		DMWARN("%s: can't resync all of the remote leg: it is the source of a resync",
		       dm_table_device_name(m->ti->table));
	return r;
}
