// SPDX-License-Identifier: GPL-2.0-only
#include "handover.h"

#include <linux/bug.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "identity.h"
#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"

TEST_KNOB(bool, standby_hands, "a leg that a table which only read has given up is dead in the next one");
TEST_KNOB(bool, standby_forgets, "no leg is dead any more once a table has only read");
TEST_KNOB(bool, death_handed_on, "a new table takes a leg for dead that nobody could call that");
TEST_KNOB(bool, unsaid_kept, "a new table goes on with a leg that died though nobody could say so");
TEST_KNOB(bool, told_kept, "likewise if it was told to be dead, or drains");
TEST_KNOB(bool, keeps_the_rest, "of a table that couldn't be started the next one keeps the leg that it had");
TEST_KNOB(bool, copies_over, "a sync table copies a leg that misses something over the other one");
TEST_KNOB(bool, core_over, "a table without metadata takes over from one with them");
TEST_KNOB(bool, dead_unmarked, "without metadata a leg is dead, and nobody knows what it misses");
TEST_KNOB(bool, grows_remote, "what a longer table has more is stale on the remote leg, dead or not");
TEST_KNOB(bool, forgets_unmapped, "what a leg misses is forgotten when a table exchanges the other one");
TEST_KNOB(bool, dirty_forgotten, "what a suspend couldn't flush is clean in the next table");

static dev_t dev_of(const struct mirror *m, enum leg_id leg)
{
	return m->legs[leg].bdev ? m->legs[leg].bdev->bd_dev : 0;
}

/* The place of that device in this mirror, or LEGS. */
static enum leg_id place_of(const struct mirror *m, dev_t dev)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (dev && dev_of(m, leg) == dev)
			break;
	return leg;
}

/* At the load that may change yet; at the resume, which asks again, it is suspended. */
static enum leg_id which_lacks(const struct mirror *m)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (READ_ONCE(m->legs[leg].dead))
			return leg;
	return READ_ONCE(m->map.nr_stale) ? m->map.target : LEGS;
}

static struct lack find_lack(const struct mirror *m)
{
	struct lack lack = { .leg = which_lacks(m) };

	if (!m->ran && m->registered.lack.leg < LEGS)
		return m->registered.lack;
	if (lack.leg < LEGS) {
		lack.dev = dev_of(m, lack.leg);
		lack.good = dev_of(m, other_leg(lack.leg));
	}
	return lack;
}

/* Does this table, without metadata, say what isn't so? Then why. */
static char *contradicts(const struct mirror *m, const struct lack *lack)
{
	bool bad_here = place_of(m, lack->dev) < LEGS, good_here = place_of(m, lack->good) < LEGS;

	if (lack->leg == LEGS || test_knob(copies_over))
		return NULL;
	/* Both are where they were: what its table says doesn't count. */
	if (place_of(m, lack->dev) == lack->leg && place_of(m, lack->good) == other_leg(lack->leg))
		return NULL;
	if (m->options.mode == MODE_SYNC &&
	    (lack->leg == LEG_LOCAL || place_of(m, lack->dev) == LEG_LOCAL))
		return "sync: the local leg misses something, and would be copied over the other";
	if (!bad_here && !good_here)
		return "sync, nosync: a leg misses something, and both have other devices now";
	return NULL;
}

static int refuse(struct mirror *m, char *why)
{
	if (why)
		m->ti->error = why;
	return why ? -EINVAL : 0;
}

int handover_check(struct mirror *m, const struct mirror *from)
{
	struct lack lack;

	if (!m->meta != !from->meta && !test_knob(core_over))
		return refuse(m, m->meta ?
			      "the last table has no metadata; remove the device first" :
			      "sync, nosync: the last table has metadata; remove the device first");
	if (m->meta || from->meta)
		return 0;
	lack = find_lack(from);
	return refuse(m, contradicts(m, &lack));
}

int handover_check_again(struct mirror *m)
{
	return refuse(m, m->meta ? NULL : contradicts(m, &m->registered.lack));
}

/*
 * It died, and the other one couldn't say so: nothing was acknowledged without it, for as far as is
 * known that one still says that both are in sync (standing.h).
 */
static bool unsaid(const struct mirror *from, enum leg_id leg)
{
	return from->meta && from->legs[leg].dead && from->standing == PARTING &&
	       from->meta->super[other_leg(leg)].state == LOCKSTEP_SYNC &&
	       !test_knob(death_handed_on);
}

/* Likewise, and by itself: the new table looks at both, as the join of this one would have. */
static bool died_unsaid(const struct mirror *from, enum leg_id leg)
{
	return unsaid(from, leg) && from->legs[leg].why != WHY_TOLD && !writes_draining(from, leg);
}

/*
 * Can nobody go on with a leg that is dead, but by a split brain? The other one says that it went
 * on alone, or this one that it misses something. A table that only reads says nothing, and has
 * read no dead leg: it knows it of the one before.
 */
static bool is_said(const struct mirror *from, enum leg_id leg)
{
	bool wrote = from->ran && !from->read_only;

	if (test_knob(standby_forgets))
		return false;
	return from->meta->super[other_leg(leg)].state == LOCKSTEP_ALONE ||
	       (wrote ? from->target_ready && from->map.target == leg : from->legs[leg].said);
}

/* While a table only reads another host may go on with a leg that is dead here, unless that. */
static bool is_dead(const struct mirror *m, const struct mirror *from, enum leg_id leg)
{
	return from->legs[leg].dead && !died_unsaid(from, leg) &&
	       (!m->meta || !m->kept_read || is_said(from, leg) || test_knob(standby_hands));
}

/* It stays in use, and was just found to miss what the other one has: no leg says so yet. */
static bool is_new_target(const struct mirror *m, enum leg_id leg)
{
	return m->meta && m->map.nr_stale && m->map.target == leg && !m->target_ready &&
	       !m->legs[leg].dead && !m->legs[other_leg(leg)].dead;
}

/*
 * The leg that has everything: the map's home; but not if it is dead unsaid, for the other one has
 * everything, too, and may say by now, or say later, that it is alone. So if it was told to be
 * dead, too, for by another device it isn't any more; and if it drains, which may be for ever.
 * LEGS: it never ran.
 */
static enum leg_id has_all(const struct mirror *m)
{
	bool lost;

	if (m->home == LEGS)
		return LEGS;
	if (is_new_target(m, m->home))
		return other_leg(m->home);
	lost = test_knob(told_kept) ? died_unsaid(m, m->home) : unsaid(m, m->home);
	return lost && !test_knob(unsaid_kept) ? other_leg(m->home) : m->home;
}

/* Has the home forgotten what the other leg has, though it may say that it is in sync? */
static bool has_forgotten(const struct mirror *m)
{
	return m->home < LEGS && (is_new_target(m, m->home) ||
				  (unsaid(m, m->home) && leg_may_forget(&m->legs[m->home])));
}

/* Had both legs everything, so that a new table can go on with either? */
static bool both_had_all(const struct mirror *m)
{
	return m->meta && m->home < LEGS && m->standing == TOGETHER && !mirror_has_target(m) &&
	       !m->forgot && !m->recalls && !metadata_foreign(m, LEG_LOCAL) &&
	       !metadata_foreign(m, LEG_REMOTE);
}

/*
 * Which leg had everything when a table of this device ran last? If that is in sync, and not alone,
 * nothing was acknowledged without the other one.
 */
static void hand_on_had(struct mirror *m, const struct mirror *from)
{
	struct registered *r = &m->registered;
	enum leg_id had = has_all(from);

	r->had = had < LEGS ? had : from->registered.had;
	r->had_both = had == LEGS ? from->registered.had_both :
		      from->meta && from->meta->super[had].state == LOCKSTEP_SYNC &&
		      !has_forgotten(from) && !from->forgot && !from->recalls;
}

/* Of the last table that ran: its legs. */
static void hand_on_legs(struct mirror *m, const struct mirror *from)
{
	const struct registered *old = &from->registered;
	struct registered *r = &m->registered;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		r->was_dev[leg] = from->ran ? dev_of(from, leg) : old->was_dev[leg];
		r->was_known[leg] = from->ran ? old->known[leg] : old->was_known[leg];
		memcpy(r->was_uuid[leg], from->ran ? old->leg_uuid[leg] : old->was_uuid[leg],
		       sizeof(r->was_uuid[leg]));
	}
}

void handover_legs(struct mirror *m, const struct mirror *from)
{
	enum leg_id leg;

	hand_on_legs(m, from);
	for (leg = LEG_LOCAL; m->meta && from->meta && leg < LEGS; leg++) {
		if (!leg_same_device(&m->legs[leg], &from->legs[leg]))
			continue;
		m->meta->size[leg] = from->meta->size[leg];
		/* What this table has read itself is newer than what the one before knew. */
		if (m->registered.known[leg] || !from->registered.known[leg])
			continue;
		memcpy(m->registered.leg_uuid[leg], from->registered.leg_uuid[leg],
		       sizeof(m->registered.leg_uuid[leg]));
		m->registered.known[leg] = true;
	}
}

bool handover_was(const struct mirror *m, enum leg_id leg)
{
	const struct registered *r = &m->registered;

	if (m->meta && r->known[leg] && r->was_known[leg])
		return !memcmp(r->leg_uuid[leg], r->was_uuid[leg], sizeof(r->was_uuid[leg]));
	return dev_of(m, leg) && dev_of(m, leg) == r->was_dev[leg];
}

/* Is it the leg that had everything? Without metadata its place is all that can be known. */
static bool is_had(const struct mirror *m, enum leg_id leg)
{
	return leg == m->registered.had && m->legs[leg].bdev &&
	       (!m->meta || handover_was(m, leg));
}

/* The leg that had everything; the other one if that is the one exchanged. */
static enum leg_id to_keep(const struct mirror *m, const struct mirror *from)
{
	enum leg_id keep = has_all(from);

	if (keep == LEGS && m->registered.had < LEGS && !test_knob(keeps_the_rest))
		return is_had(m, m->registered.had) ? m->registered.had :
						     other_leg(m->registered.had);
	if (keep == LEGS)
		keep = from->keep < LEGS ? from->keep : LEG_LOCAL;
	return identity_same_leg(m, keep, from, keep) ? keep : other_leg(keep);
}

/*
 * In core mode, a leg has another device: no map says what the one misses that isn't exchanged, or
 * is back now. All of it; but if the table contradicts that, it is refused, and the next one asks.
 */
static void mark_lack(struct mirror *m, struct lack lack)
{
	enum leg_id leg = contradicts(m, &lack) ? LEGS : place_of(m, lack.dev);

	m->registered.lack = lack;
	if (lack.leg == LEGS || leg == LEGS || test_knob(forgets_unmapped))
		return;
	spin_lock_irq(&m->lock);
	/* sync marks all of the remote one. */
	m->map.target = leg;
	spin_unlock_irq(&m->lock);
	m->keep = other_leg(leg);
	/* Neither leg is dead yet. */
	if (!WARN_ON_ONCE(mirror_mark_all(m, leg)))
		m->registered.lack.leg = LEGS;
}

/*
 * To read it from the leg takes long by a wire that is slow that way, and all I/O waits. What is in
 * memory is what the leg has, if that has answered until the end, and @from was the one that wrote
 * it: whoever has the leg marks its map without a word in the superblock.
 */
static void take_map(struct mirror *m, const struct mirror *from)
{
	enum leg_id leg = from->home;

	if (!m->meta || !from->meta || !from->ran || leg == LEGS || from->legs[leg].dead ||
	    !leg_same_device(&m->legs[leg], &from->legs[leg]) || metadata_foreign(from, leg) ||
	    metadata_unsure(from, leg) || !metadata_is_owner(from, leg) ||
	    m->dirty.nr != from->dirty.nr || m->dirty.shift != from->dirty.shift)
		return;
	dirty_map_inherit(&m->dirty, &from->dirty);
	metadata_inherit_map(m, from, leg);
}

void handover_take(struct mirror *m, const struct mirror *from, bool busy)
{
	bool map = !m->meta && !from->meta && identity_same_legs(m, from), more = map;
	unsigned long at = 0;
	enum leg_id leg;

	hand_on_had(m, from);
	m->keep = to_keep(m, from);
	m->kept_read = from->ran ? from->read_only : from->kept_read;
	m->keep_only = (from->ran ? has_forgotten(from) : from->keep_only) && is_had(m, m->keep);
	m->keep_either = (from->ran ? both_had_all(from) : from->keep_either) &&
			 identity_same_leg(m, LEG_LOCAL, from, LEG_LOCAL) &&
			 identity_same_leg(m, LEG_REMOTE, from, LEG_REMOTE);
	m->keep_whole = (from->ran ? from->both_whole && !from->forgot && !from->recalls :
				     from->keep_whole) &&
			identity_same_leg(m, LEG_LOCAL, from, LEG_LOCAL) &&
			identity_same_leg(m, LEG_REMOTE, from, LEG_REMOTE);
	/* The sectors that it didn't have are stale on the leg that is dead, if one is. */
	if (map && (from->legs[LEG_LOCAL].dead || from->legs[LEG_REMOTE].dead) &&
	    !test_knob(grows_remote))
		m->map.target = other_leg(m->keep);

	/* What is on the legs says the rest, and says it for an exchanged leg too. */
	while (more) {
		spin_lock_irq(&m->lock);
		more = !region_map_inherit(&m->map, &from->map, &at);
		spin_unlock_irq(&m->lock);
		cond_resched();
	}
	/* Else the map says it, unless it began after the last one that did. */
	if (!m->meta && !from->meta &&
	    (!map || (!from->ran && from->registered.lack.leg < LEGS)))
		mark_lack(m, find_lack(from));
	if (!busy)
		take_map(m, from);
	/* What the suspend couldn't flush. */
	if (map && !test_knob(dirty_forgotten) && dirty_map_unclean(&from->dirty))
		dirty_map_fill(&m->dirty, 0);
	spin_lock_irq(&m->lock);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct leg *l = &m->legs[leg];
		const struct leg *old = &from->legs[leg];

		m->shown[leg] = from->shown[leg];
		if (!l->dev && !old->dev)
			l->why = old->why;
		if (!leg_same_device(l, old))
			continue;
		/* It isn't dead without what it misses. If it drains, that is all (activate.c). */
		if (!m->meta && !map && !(writes_draining(from, leg) && test_knob(dead_unmarked)))
			continue;
		l->dead = is_dead(m, from, leg);
		l->said = l->dead && m->meta && is_said(from, leg);
		l->why = l->dead ? old->why : WHY_NONE;
		l->deaths = old->deaths;
		atomic64_set(&l->read_errors, atomic64_read(&old->read_errors));
		atomic64_set(&l->write_errors, atomic64_read(&old->write_errors));
	}
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (m->meta && from->meta && !m->legs[leg].dead && !from->legs[leg].dead)
			metadata_inherit(m, from, leg, busy);
	m->unblocked = from->unblocked;
	m->heir = true;
	mirror_changed(m);
	spin_unlock_irq(&m->lock);
	for (leg = LEG_LOCAL; m->meta && m->kept_read && leg < LEGS; leg++)
		if (from->legs[leg].dead && from->legs[leg].why == WHY_TOLD && !m->legs[leg].dead &&
		    leg_same_device(&m->legs[leg], &from->legs[leg]))
			DMWARN("%s: that the %s leg (%s) was failed by hand no leg says, and the table before only read: it is looked at again",
			       m->name, leg_name(leg), leg_path(&m->legs[leg]));
}
