// SPDX-License-Identifier: GPL-2.0-only
#include "activate.h"

#include <linux/slab.h>

#include "grow.h"
#include "growth.h"
#include "heir.h"
#include "join.h"
#include "life.h"
#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"
#include "registry.h"
#include "verdict.h"

TEST_KNOB(bool, drains_aside, "a leg that drains is as if it weren't there, whatever the other one says");
TEST_KNOB(bool, swapped_later, "a new table with swapped legs is refused when it is resumed");
TEST_KNOB(bool, drops_the_other, "a new table drops the leg not to be kept, not the one that takes no writes");
TEST_KNOB(bool, dirty_unread, "a new table without a leg forgets what was dirty there");
TEST_KNOB(bool, keeps_any, "a leg that has forgotten is as good as the one to be kept, if it says the same");
TEST_KNOB(bool, parts_later, "a suspend doesn't wait for the parting from a leg that the cleaner has given up");
TEST_KNOB(bool, suspend_keeps, "a leg that fails while the table is suspended isn't given up");
TEST_KNOB(bool, resumes_foreign, "a table is resumed though somebody else has used all that it has");
TEST_KNOB(bool, reads_missing, "a new table reads a leg that the one before has lost");
TEST_KNOB(bool, runs_held, "a resume lets the map run, whoever holds it");
TEST_KNOB(bool, core_forgets, "core mode: what the table says that is stale isn't dirty");

/* The longest text: a history. */
#define TEXT_BYTES	1200

/* Look at a leg. True: I/O that was abandoned may still reach it. */
static bool look(struct mirror *m, enum leg_id leg, struct super_found *found)
{
	found->kind = SUPER_ABSENT;
	if (m->legs[leg].dead)
		return false;
	/* By what is known without asking it: it may hang. */
	if (registry_draining(m, leg))
		return true;
	(void)metadata_read(m, leg, found);
	registry_know(m, leg, found);
	return registry_draining(m, leg);
}

static void tell_draining(struct mirror *m, enum leg_id leg, const char *what)
{
	DMERR("%s: the %s leg (%s) hasn't answered all that was sent to it, by whatever device: %s",
	      m->name, leg_name(leg), leg_path(&m->legs[leg]), what);
}

/*
 * As if the leg that drains weren't there; unless it is the one that has everything. One
 * that can't be looked at may be that, if the other one doesn't say that it has gone on alone:
 * nobody's word but that keeps another host from going on with this one.
 */
static int decide_without(struct mirror *m, struct super_found found[LEGS], enum leg_id leg,
			  struct verdict *v)
{
	const struct super_found *other = &found[other_leg(leg)];
	bool ahead = v->source == leg && (v->join || v->full);

	if (found[leg].kind != SUPER_VALID && !test_knob(drains_aside))
		ahead = other->kind != SUPER_VALID || other->super.state != LOCKSTEP_ALONE;

	if (!ahead) {
		found[leg].kind = SUPER_ABSENT;
		verdict_decide(&found[LEG_LOCAL], &found[LEG_REMOTE], v);
	}
	if (!ahead && !v->reason)
		return 0;
	tell_draining(m, leg, "the other leg can't stand in for it; try again when it has");
	return -EBUSY;
}

/* Look at the legs, and decide. @draining: legs that are left out, for that reason. */
static int find_legs(struct mirror *m, struct super_found found[LEGS], struct verdict *v,
		     bool draining[LEGS])
{
	enum leg_id leg, out = LEGS;
	char *text;
	int r = 0;

	text = kmalloc(TEXT_BYTES, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		draining[leg] = look(m, leg, &found[leg]);
		if (draining[leg])
			out = leg;
	}

	verdict_decide(&found[LEG_LOCAL], &found[LEG_REMOTE], v);
	if (out < LEGS && (!v->reason || found[out].kind == SUPER_ABSENT)) {
		r = decide_without(m, found, out, v);
		if (r)
			goto out;
	}
	verdict_text(v, &found[LEG_LOCAL], &found[LEG_REMOTE], text, TEXT_BYTES);
	if (v->reason) {
		DMERR("%s: %s", m->name, text);
		for (leg = LEG_LOCAL; leg < LEGS; leg++) {
			if (found[leg].kind != SUPER_VALID)
				continue;
			super_history_text(&found[leg].super, text, TEXT_BYTES);
			DMERR("%s: history of the %s leg: %s", m->name, leg_name(leg), text);
		}
		r = -EINVAL;
	} else {
		DMINFO("%s: %s", m->name, text);
	}
out:
	kfree(text);
	return r;
}

static int check_geometry(struct mirror *m, const struct super *s)
{
	struct dm_target *ti = m->ti;

	if (s->data_sectors != ti->len && !(m->grows && growth_room(s, ti->len))) {
		int r = grow_check(m, s);

		if (r)
			return r;
	}
	if (m->options.region_size && m->options.region_size != 1u << s->region_shift) {
		DMERR("region_size %u: the legs have regions of %u sectors",
		      m->options.region_size, 1u << s->region_shift);
		ti->error = "region_size isn't that of the legs; leave it out";
		return -EINVAL;
	}
	m->region_shift = s->region_shift;
	return 0;
}

/*
 * What can't change while the legs are in use: which leg it is. Else the resume refuses it, and the
 * table before is gone then.
 */
static int check_place(struct mirror *m, const struct super *s, enum leg_id leg)
{
	if (s->leg == leg)
		return 0;
	DMERR("%s: the device named as the %s leg (%s) is the %s leg: are they swapped?",
	      m->name, leg_name(leg), leg_path(&m->legs[leg]), leg_name(s->leg));
	m->ti->error = "A leg is named in the other one's place";
	return -EINVAL;
}

/* After a table reload: the superblock of the first leg that has one. */
static const struct super *look_at_reload(struct mirror *m, struct super_found found[LEGS])
{
	const struct super *first = NULL;
	enum leg_id leg, missing;
	sector_t len;

	registry_before(m, &len, &missing);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		/* Not for nothing: it may hang, as the one that the table before has lost. */
		if (!m->legs[leg].dev ||
		    ((first || (leg == missing && !test_knob(reads_missing))) &&
		     registry_knows(m, leg)))
			continue;
		if (metadata_read(m, leg, &found[leg]) || found[leg].kind != SUPER_VALID)
			continue;
		registry_know(m, leg, &found[leg]);
		if (!first)
			first = &found[leg].super;
	}
	return first;
}

int activate_check(struct mirror *m)
{
	struct super_found found[LEGS] = { };
	bool draining[LEGS];
	const struct super *s;
	struct verdict v;
	int r;

	/* A table reload: the legs are in use, and say so when that has ended. */
	s = registry_reload(m) ? look_at_reload(m, found) : NULL;
	if (s && !test_knob(swapped_later)) {
		r = check_place(m, s, s == &found[LEG_LOCAL].super ? LEG_LOCAL : LEG_REMOTE);
		if (r)
			return r;
	}
	if (s)
		return heir_check_load(m, found) ?: check_geometry(m, s);

	r = find_legs(m, found, &v, draining);
	if (r) {
		m->ti->error = "The legs can't be used together; the kernel's log says why";
		return r;
	}
	return check_geometry(m, &found[v.source].super);
}

/* The other leg isn't there, and the caller wants the mirror without it. */
static int begin_alone(struct mirror *m, enum leg_id missing)
{
	int r;

	/* What of it was dirty when the table before was suspended its own map alone may know. */
	m->meta->touched[missing] = !test_knob(dirty_unread);
	spin_lock_irq(&m->lock);
	m->legs[missing].dead = true;
	spin_unlock_irq(&m->lock);
	dirty_map_to_stale(&m->dirty, missing);
	spin_lock_irq(&m->lock);
	m->standing = PARTING;
	spin_unlock_irq(&m->lock);
	r = standing_part_now(m);
	if (!r && m->grows)
		r = metadata_update(m, other_leg(missing), grow_extend);
	if (r && m->keep == missing)
		heir_keep_other(m);
	return r;
}

/* @bad: the leg that couldn't be written, if it fails. */
static int begin_together(struct mirror *m, const struct verdict *v, enum leg_id *bad)
{
	enum leg_id source = v->source, leg = other_leg(source);
	struct super *s = &m->meta->super[source];
	bool target;
	int r;

	if (v->full)
		dirty_map_fill(&m->dirty, 0);
	target = v->full || v->join || !dirty_map_empty(&m->dirty);

	*bad = source;
	mutex_lock(&m->meta->lock[source]);
	if (!s->map_epoch)
		super_new_map(s);
	r = dirty_map_write(&m->dirty, source);
	mutex_unlock(&m->meta->lock[source]);
	if (!r)
		r = metadata_update(m, source, grow_extend);
	if (r)
		return r;
	*bad = leg;
	r = target ? join_as_target(m, leg, v->full) : metadata_update(m, leg, NULL);
	if (r)
		return r;

	spin_lock_irq(&m->lock);
	m->map.target = leg;
	spin_unlock_irq(&m->lock);
	if (target)
		dirty_map_to_stale(&m->dirty, leg);
	spin_lock_irq(&m->lock);
	m->target_ready = target;
	/* Each has all that was acknowledged; so it stays until one misses anything. */
	m->both_whole = target && !v->full &&
			(!v->join || (m->keep_whole && m->keep == source));
	m->home = source;
	mirror_changed(m);
	spin_unlock_irq(&m->lock);
	dirty_map_run(&m->dirty);
	return 0;
}

/* The source is read everywhere, the other leg where it has all. */
static void begin_read_only(struct mirror *m, const struct verdict *v)
{
	enum leg_id leg = other_leg(v->source);

	if (v->full)
		dirty_map_fill(&m->dirty, 0);
	spin_lock_irq(&m->lock);
	m->legs[leg].dead = v->alone;
	spin_unlock_irq(&m->lock);
	dirty_map_to_stale(&m->dirty, leg);
	spin_lock_irq(&m->lock);
	m->standing = v->alone ? ALONE : TOGETHER;
	m->home = v->source;
	mirror_changed(m);
	spin_unlock_irq(&m->lock);
}

/* Until all has returned that may still reach it. */
static void leave_out(struct mirror *m, enum leg_id leg)
{
	spin_lock_irq(&m->lock);
	m->legs[leg].dead = true;
	m->legs[leg].why = WHY_DRAINING;
	spin_unlock_irq(&m->lock);
	DMWARN("%s: the %s leg (%s) hasn't answered all that was sent to it, by whatever device: starting without it; it comes back when it has",
	       m->name, leg_name(leg), leg_path(&m->legs[leg]));
}

/*
 * In core mode. Where the abandoned writes went isn't known here, nor what else that leg
 * misses: all of it.
 */
static int leave_out_core(struct mirror *m, enum leg_id leg)
{
	enum leg_id other = other_leg(leg);

	if (m->legs[leg].dead || !registry_draining(m, leg))
		return 0;
	if (m->legs[other].dead || m->keep == leg ||
	    (m->map.nr_stale && m->map.target == other)) {
		tell_draining(m, leg, "the other leg can't stand in for it; try again when it has");
		return -EBUSY;
	}
	leave_out(m, leg);
	return mirror_mark_all(m, leg);
}

/* Without metadata: the region map and the dead leg, if any, are what they are. */
static int begin_core(struct mirror *m)
{
	enum leg_id leg;
	int r;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		r = leave_out_core(m, leg);
		if (r)
			return r;
	}
	/* What the table, or the mirror before, calls stale: what is copied there is dirty. */
	if (!test_knob(core_forgets))
		dirty_map_add_stale(&m->dirty);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (!m->legs[leg].dead)
			continue;
		m->standing = PARTING;
		return standing_part_now(m);
	}
	m->home = LEG_LOCAL;
	dirty_map_run(&m->dirty);
	return 0;
}

/* Before anything is written to them. */
static int take_legs(struct mirror *m, const struct super_found found[LEGS])
{
	char by[DM_NAME_LEN];
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (m->legs[leg].dead || found[leg].kind != SUPER_VALID)
			continue;
		if (!registry_take(m, leg, by))
			continue;
		DMERR("%s: the %s leg (%s) is a leg of %s, which has it by another device: stop that one first",
		      m->name, leg_name(leg), leg_path(&m->legs[leg]), by);
		return -EBUSY;
	}
	return 0;
}

/*
 * @drop: if it fails, and the table takes over from one, the leg to try it without; LEGS: none.
 * That is the one not to be kept; but of two that say the same, the one that can't be read or
 * written.
 */
static int begin(struct mirror *m, enum leg_id *drop)
{
	struct super_found found[LEGS] = { };
	bool draining[LEGS];
	enum leg_id leg, bad;
	struct verdict v;
	int r;

	/* Without metadata nobody would know what that leg misses. */
	*drop = LEGS;
	if (!m->meta)
		return begin_core(m);
	/* Of a read-only mirror only what the verdict says is used. */
	r = find_legs(m, found, &v, draining);
	heir_find_kept(m);
	*drop = heir_may_drop(m, found, draining);
	/* What somebody else has made of it is why it can't be judged. */
	if (r == -EINVAL)
		r = heir_check_used(m, found, drop) ?: r;
	if (!r && m->keep < LEGS && draining[m->keep]) {
		tell_draining(m, m->keep, "it is the one to go on with; try again when it has");
		if (*drop != m->keep)
			*drop = LEGS;
		r = -EBUSY;
	}
	for (leg = LEG_LOCAL; leg < LEGS && !r; leg++)
		if (draining[leg])
			leave_out(m, leg);
	if (!r)
		r = take_legs(m, found);
	if (!r)
		r = heir_check_used(m, found, drop);
	if (!r)
		r = heir_check_source(m, &v);
	if (!r)
		r = check_geometry(m, &found[v.source].super);
	for (leg = LEG_LOCAL; leg < LEGS && !r; leg++) {
		if (found[leg].kind != SUPER_VALID)
			continue;
		metadata_take(m, leg, &found[leg].super);
		if (!metadata_knows_map(m, leg))
			r = dirty_map_load(&m->dirty, leg);
	}
	if (r)
		return r;
	if (m->grows)
		dirty_map_fill(&m->dirty, growth_first_region(&found[v.source].super));
	if (m->read_only) {
		begin_read_only(m, &v);
		return 0;
	}
	if (v.alone)
		return begin_alone(m, other_leg(v.source));
	/* Else one that says the same, and has forgotten, would be copied over it. */
	if (m->keep_only && !test_knob(keeps_any))
		v.source = m->keep;
	r = begin_together(m, &v, &bad);
	if (r && *drop < LEGS && !v.join && !v.full && !test_knob(drops_the_other))
		*drop = m->keep_only && bad == m->keep && !test_knob(keeps_any) ? LEGS : bad;
	return r;
}

static void set_dead(struct mirror *m, enum leg_id leg, bool dead)
{
	bool taken = registry_taken(m, leg);

	spin_lock_irq(&m->lock);
	m->legs[leg].dead = dead;
	m->legs[leg].why = !dead ? WHY_NONE : taken ? WHY_TAKEN :
			   writes_draining(m, leg) ? WHY_TIMEOUT : WHY_FOREIGN;
	if (!dead)
		m->standing = TOGETHER;
	spin_unlock_irq(&m->lock);
}

int activate_begin(struct mirror *m)
{
	enum leg_id drop, leg;
	bool was_dead[LEGS];
	int r;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		was_dead[leg] = m->legs[leg].dead;
	r = begin(m, &drop);
	/* A parting that failed lets the map run: nobody cleans it before there is a home. */
	if (r)
		dirty_map_stop(&m->dirty);
	/* The next try looks again whether a leg drains. */
	for (leg = LEG_LOCAL; leg < LEGS && r; leg++)
		if (m->legs[leg].dead && !was_dead[leg])
			set_dead(m, leg, false);
	if (!r || drop == LEGS || m->legs[LEG_LOCAL].dead || m->legs[LEG_REMOTE].dead)
		return r;
	DMERR("%s: going on without the %s leg (%s), which can't be taken",
	      m->name, leg_name(drop), leg_path(&m->legs[drop]));
	set_dead(m, drop, true);
	r = begin(m, &leg);
	/* It wasn't that leg: the next try, or the next table, has both again. */
	if (r) {
		dirty_map_stop(&m->dirty);
		set_dead(m, drop, false);
	}
	return r;
}

static int write_idle(struct mirror *m, enum leg_id leg)
{
	struct super next;
	int r;

	mutex_lock(&m->meta->lock[leg]);
	metadata_next(m, leg, &next);
	super_set_active(&next, false);
	/* What it kept when it was the home would be resynced once more at the next start. */
	if (leg != mirror_home(m))
		super_forget_map(&next);
	r = metadata_write(m, leg, &next);
	mutex_unlock(&m->meta->lock[leg]);
	return r;
}

/* Doesn't one answer that can't be given up? Whoever writes to it would wait with it. */
static bool any_silent(struct mirror *m)
{
	bool silent = false;
	enum leg_id leg;

	/* The watch may not have seen yet that it answers again. */
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		silent |= READ_ONCE(m->legs[leg].silent) && sender_busy(&m->legs[leg].sender);
	return silent;
}

/*
 * Whoever takes over from this table has to know which leg has everything. One that says nothing is
 * the watch's.
 */
static void fails_at_last(struct mirror *m, enum leg_id leg)
{
	if (!READ_ONCE(m->legs[leg].silent) && !test_knob(suspend_keeps))
		(void)mirror_leg_failed(m, leg);
}

void activate_suspend(struct mirror *m)
{
	enum leg_id leg;
	int r = 0;

	lesser_take_forgotten(m);
	/* The cleaner may just have given up a leg. */
	dirty_map_stop(&m->dirty);
	if (!test_knob(parts_later))
		standing_drain(m);
	dirty_map_hold(&m->dirty);
	if (!m->read_only)
		r = any_silent(m) ? -ETIMEDOUT : dirty_map_clean(&m->dirty);
	if (r) {
		if (r != -ETIMEDOUT && r != -EAGAIN)
			fails_at_last(m, mirror_home(m));
		lesser_take_forgotten(m);
	}
	dirty_map_park(&m->dirty);
	if (!m->meta || m->read_only)
		return;
	for (leg = LEG_LOCAL; leg < LEGS && !r; leg++) {
		if (m->legs[leg].dead)
			continue;
		r = write_idle(m, leg);
		if (r)
			fails_at_last(m, leg);
	}
	/* Nothing is lost: the next start finds a crash, and resyncs what is dirty. */
	if (r)
		DMWARN("%s: not marked as stopped cleanly: error %d",
		       m->name, r);
}

/* While it is resumed: nobody's I/O is out but the resume's own. */
static void set_resuming(struct mirror *m, bool resuming)
{
	spin_lock_irq(&m->lock);
	m->resuming = resuming;
	if (resuming)
		m->quiet = false;
	spin_unlock_irq(&m->lock);
}

/* Of the legs that have everything. */
static bool none_is_ours(struct mirror *m)
{
	bool none = true;
	enum leg_id leg;

	spin_lock_irq(&m->lock);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		none &= !mirror_stands_in(m, leg) || metadata_foreign(m, leg);
	spin_unlock_irq(&m->lock);
	return none && !test_knob(resumes_foreign);
}

/*
 * Each leg is in use again. -EBUSY: one that is to be doesn't answer. -ESTALE: whatever has
 * everything has been used by somebody else meanwhile.
 */
static int use_again(struct mirror *m)
{
	bool foreign = false;
	enum leg_id leg;
	int r;

	if (transfers_late(m))
		return -EBUSY;
	if (m->read_only)
		return 0;
	for (leg = LEG_LOCAL; m->meta && leg < LEGS; leg++) {
		if (m->legs[leg].dead)
			continue;
		r = metadata_update(m, leg, NULL);
		if (transfers_late(m) || (r == -ETIMEDOUT && !READ_ONCE(m->legs[leg].dead)))
			return -EBUSY;
		foreign |= r == -ESTALE;
		/* It has gone meanwhile. If nobody stands in, I/O tells the callers. */
		if (r && r != -ESTALE)
			(void)mirror_leg_failed(m, leg);
	}
	if (!foreign)
		return 0;
	if (none_is_ours(m))
		return -ESTALE;
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (metadata_foreign(m, leg))
			(void)mirror_leg_failed(m, leg);
	return 0;
}

int activate_again(struct mirror *m)
{
	int r;

	/* First: from now on nothing more is late but what the resume writes itself. */
	watch_start(m);
	set_resuming(m, true);
	r = use_again(m);
	set_resuming(m, false);
	if (r) {
		standing_quiet(m);
		watch_stop(m);
		if (r == -ESTALE)
			(void)heir_start_anew(m, "while it was suspended");
		else
			DMERR("%s: a leg hasn't answered all that the suspend, or a resume, has written to it: try again when it has",
			      m->name);
		return r;
	}
	if (m->read_only)
		return 0;
	/* A parting of a leg that has gone may hold it. */
	if (test_knob(runs_held))
		dirty_map_run(&m->dirty);
	else
		dirty_map_unpark(&m->dirty);
	return 0;
}
