// SPDX-License-Identifier: GPL-2.0-only
#include "heir.h"

#include "handover.h"
#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"
#include "registry.h"
#include "verdict.h"

TEST_KNOB(bool, takes_strange, "a new table goes on with a leg that the one before hadn't");
TEST_KNOB(bool, takes_stale, "a new table goes on with a leg that misses what the last one had acknowledged");
TEST_KNOB(bool, reloads_foreign, "a new table goes on with what somebody else has used since the one before");
TEST_KNOB(bool, keeps_unread, "a new table goes on with the leg to be kept, though that alone can't be read");
TEST_KNOB(bool, standby_owns, "a table that only read keeps its legs, as one that wrote does");
TEST_KNOB(bool, keeps_the_gone, "a leg without which a table tried to go on is kept nevertheless");

/*
 * Is it none of the legs that the last table had? Then it hasn't what was read and written by that,
 * whatever it says of itself.
 */
static bool is_strange(const struct mirror *m, enum leg_id leg)
{
	if (handover_was(m, leg) || test_knob(takes_strange))
		return false;
	DMERR("%s: the %s leg (%s) is none of those that the last table had: bring that leg itself, or remove the device and start it anew",
	      m->name, leg_name(leg), leg_path(&m->legs[leg]));
	return true;
}

int heir_check_load(struct mirror *m, const struct super_found found[LEGS])
{
	enum leg_id leg, missing;
	sector_t len;

	registry_before(m, &len, &missing);
	if (missing == LEGS)
		return 0;
	leg = other_leg(missing);
	if (found[leg].kind != SUPER_VALID || !is_strange(m, leg))
		return 0;
	m->ti->error = "The only leg that has everything is another one; see the kernel's log";
	return -EINVAL;
}

int heir_start_anew(struct mirror *m, const char *how)
{
	DMERR("%s: somebody else has used what this device would go on with %s, and whoever has it open would go on with what was read before: have its I/O fail (dmsetup wipe_table), unmount it, remove it and start it anew",
	      m->name, how);
	return -ESTALE;
}

int heir_check_used(struct mirror *m, const struct super_found found[LEGS], enum leg_id *drop)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; m->keep < LEGS && leg < LEGS; leg++) {
		if (m->legs[leg].dead || found[leg].kind != SUPER_VALID ||
		    metadata_is_kept(m, leg, &found[leg]) || test_knob(reloads_foreign))
			continue;
		if (leg == m->keep || (m->kept_read && !test_knob(standby_owns))) {
			*drop = LEGS;
			return heir_start_anew(m, "since its last table ran");
		}
		DMERR("%s: somebody else has used the %s leg (%s) since the last table ran",
		      m->name, leg_name(leg), leg_path(&m->legs[leg]));
		return -ESTALE;
	}
	return 0;
}

/* It isn't there, or can't be known, and nothing else will do. */
static int tell_missing(const struct mirror *m, enum leg_id leg)
{
	DMERR("%s: the %s leg (%s), which alone has what was acknowledged, can't be taken; try again when it can",
	      m->name, leg_name(leg), leg_path(&m->legs[leg]));
	return -EBUSY;
}

void heir_find_kept(struct mirror *m)
{
	enum leg_id had = m->registered.had;

	if (m->keep == LEGS || had == LEGS || m->keep == had || m->legs[had].dead ||
	    !handover_was(m, had) || test_knob(takes_stale))
		return;
	m->keep = had;
	m->keep_only = !m->registered.had_both;
}

int heir_check_source(struct mirror *m, const struct verdict *v)
{
	enum leg_id had = m->registered.had;

	if (m->keep == LEGS)
		return 0;
	if (is_strange(m, v->source))
		return -EINVAL;
	if (had < LEGS && v->source != had && !m->registered.had_both && !test_knob(takes_stale))
		return tell_missing(m, had);
	if (v->source == m->keep)
		return 0;
	if (m->keep_only && v->alone)
		return tell_missing(m, m->keep);
	/* One that is ahead of the leg to be kept has been used by somebody else, as in join.c. */
	if (v->alone || (!v->join && !v->full))
		return 0;
	DMERR("%s: the %s leg (%s) has been used without this mirror, which runs with what the %s leg has",
	      m->name, leg_name(v->source),
	      leg_path(&m->legs[v->source]), leg_name(m->keep));
	return -EINVAL;
}

enum leg_id heir_may_drop(struct mirror *m, const struct super_found found[LEGS],
			  const bool draining[LEGS])
{
	if (m->keep == LEGS || (m->kept_read && !test_knob(standby_owns)))
		return LEGS;
	if (m->keep_either && !test_knob(keeps_unread) &&
	    (draining[m->keep] || found[m->keep].reason == SUPER_UNREADABLE))
		return m->keep;
	return other_leg(m->keep);
}

void heir_keep_other(struct mirror *m)
{
	if (test_knob(keeps_the_gone))
		return;
	m->keep = other_leg(m->keep);
	m->keep_either = false;
	m->keep_whole = false;
	m->registered.had = m->keep;
}
