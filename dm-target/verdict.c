// SPDX-License-Identifier: GPL-2.0-only
/* The decision; the table is in verdict.h. */
#include "growth.h"
#include "verdict.h"

enum relation {
	RELATION_EQUAL,
	RELATION_LOCAL_AHEAD,
	RELATION_REMOTE_AHEAD,
	RELATION_BOTH_AHEAD,
	RELATION_LOCAL_OLDER,
	RELATION_REMOTE_OLDER,
	RELATION_DIVERGED,
	RELATION_UNRELATED,
};

static bool knows(const struct super *s, const struct generation *g)
{
	int i;

	for (i = 0; i < LOCKSTEP_HISTORY && !generation_none(&s->history[i].gen); i++) {
		if (generation_is(&s->history[i].gen, g))
			return true;
	}
	return false;
}

static bool have_common(const struct super *a, const struct super *b)
{
	int i;

	for (i = 0; i < LOCKSTEP_HISTORY && !generation_none(&a->history[i].gen); i++) {
		if (knows(b, &a->history[i].gen))
			return true;
	}
	return false;
}

/* Neither is NEW: both have a cur. */
static enum relation relation(const struct super *l, const struct super *r)
{
	bool l_ahead = generation_is(&l->base, &r->cur);
	bool r_ahead = generation_is(&r->base, &l->cur);

	if (generation_is(&l->cur, &r->cur))
		return RELATION_EQUAL;
	if (l_ahead || r_ahead)
		return l_ahead && r_ahead ? RELATION_BOTH_AHEAD :
		       l_ahead ? RELATION_LOCAL_AHEAD : RELATION_REMOTE_AHEAD;
	l_ahead = knows(l, &r->cur);
	r_ahead = knows(r, &l->cur);
	if (l_ahead || r_ahead)
		return l_ahead && r_ahead ? RELATION_BOTH_AHEAD :
		       l_ahead ? RELATION_REMOTE_OLDER : RELATION_LOCAL_OLDER;
	return have_common(l, r) ? RELATION_DIVERGED : RELATION_UNRELATED;
}

static bool has_all(const struct super *s)
{
	return s->state == LOCKSTEP_SYNC || s->state == LOCKSTEP_ALONE;
}

static void refuse(struct verdict *v, enum verdict_reason reason, u32 leg)
{
	v->reason = reason;
	v->leg = leg;
}

static void accept(struct verdict *v, u32 source, bool join)
{
	v->reason = VERDICT_OK;
	v->source = source;
	v->join = join;
}

/* @leg is NEW; @source is the other one. */
static void decide_new(const struct super *leg, const struct super *source, struct verdict *v)
{
	if (!has_all(source)) {
		refuse(v, VERDICT_INCOMPLETE, source->leg);
	} else if (!knows(source, &leg->base)) {
		refuse(v, VERDICT_OUTDATED, source->leg);
	} else {
		accept(v, source->leg, true);
		v->full = true;
	}
}

static void decide_equal(const struct super *l, const struct super *r, struct verdict *v)
{
	if (l->state == LOCKSTEP_TARGET && r->state == LOCKSTEP_TARGET)
		refuse(v, VERDICT_INCOMPLETE, LOCKSTEP_LOCAL);
	else if (l->state == LOCKSTEP_TARGET)
		accept(v, LOCKSTEP_REMOTE, true);
	else if (r->state == LOCKSTEP_TARGET)
		accept(v, LOCKSTEP_LOCAL, true);
	else if (l->state == LOCKSTEP_ALONE || r->state == LOCKSTEP_ALONE)
		refuse(v, VERDICT_BOTH, LOCKSTEP_LOCAL);
	else
		accept(v, LOCKSTEP_LOCAL, false);
}

/*
 * Went @s on alone from an older copy than @other, whom it left behind, has seen? Then that one has
 * what @s never had, and in no map.
 */
static bool went_on_from_copy(const struct super *s, const struct super *other)
{
	return s->alone_seq && s->alone_seq < other->other_seq;
}

/* Is one of them an older copy than the other leg has seen? Neither is NEW. */
static void decide_copies(const struct super *l, const struct super *r, struct verdict *v)
{
	bool l_older = l->seq < r->other_seq, r_older = r->seq < l->other_seq;

	if (v->reason != VERDICT_OK || (!l_older && !r_older))
		return;
	if (l_older && r_older)
		refuse(v, VERDICT_BOTH, LOCKSTEP_LOCAL);
	else
		refuse(v, VERDICT_OUTDATED, l_older ? LOCKSTEP_LOCAL : LOCKSTEP_REMOTE);
}

static void decide_pair(const struct super *l, const struct super *r, struct verdict *v)
{
	if (l->state == LOCKSTEP_NEW || r->state == LOCKSTEP_NEW) {
		if (l->state == LOCKSTEP_NEW)
			decide_new(l, r, v);
		else
			decide_new(r, l, v);
		return;
	}
	switch (relation(l, r)) {
	case RELATION_EQUAL:
		decide_equal(l, r, v);
		break;
	case RELATION_LOCAL_AHEAD:
		if (r->state == LOCKSTEP_ALONE || went_on_from_copy(l, r))
			refuse(v, VERDICT_BOTH, LOCKSTEP_LOCAL);
		else
			accept(v, LOCKSTEP_LOCAL, true);
		break;
	case RELATION_REMOTE_AHEAD:
		if (l->state == LOCKSTEP_ALONE || went_on_from_copy(r, l))
			refuse(v, VERDICT_BOTH, LOCKSTEP_LOCAL);
		else
			accept(v, LOCKSTEP_REMOTE, true);
		break;
	case RELATION_BOTH_AHEAD:
		refuse(v, VERDICT_BOTH, LOCKSTEP_LOCAL);
		break;
	case RELATION_LOCAL_OLDER:
		refuse(v, VERDICT_OUTDATED, LOCKSTEP_LOCAL);
		break;
	case RELATION_REMOTE_OLDER:
		refuse(v, VERDICT_OUTDATED, LOCKSTEP_REMOTE);
		break;
	case RELATION_DIVERGED:
		refuse(v, VERDICT_SPLIT_BRAIN, LOCKSTEP_LOCAL);
		break;
	case RELATION_UNRELATED:
		refuse(v, VERDICT_UNRELATED, LOCKSTEP_LOCAL);
		break;
	}
	decide_copies(l, r, v);
}

static bool same_set(const struct super *l, const struct super *r)
{
	return !memcmp(l->set_uuid, r->set_uuid, sizeof(l->set_uuid));
}

static bool same_leg(const struct super *l, const struct super *r)
{
	return !memcmp(l->leg_uuid, r->leg_uuid, sizeof(l->leg_uuid));
}

static bool same_geometry(const struct super *l, const struct super *r)
{
	const struct super *less = l->data_sectors < r->data_sectors ? l : r;
	const struct super *more = less == l ? r : l;

	return l->region_shift == r->region_shift && growth_room(less, more->data_sectors);
}

/* The growth of the mirror was cut short after one of the two. */
static void decide_lengths(const struct super *l, const struct super *r, struct verdict *v)
{
	u32 longer = l->data_sectors > r->data_sectors ? LOCKSTEP_LOCAL : LOCKSTEP_REMOTE;

	if (v->reason != VERDICT_OK || l->data_sectors == r->data_sectors)
		return;
	if (!v->join)
		accept(v, longer, true);
	else if (v->source != longer)
		refuse(v, VERDICT_GEOMETRY, LOCKSTEP_REMOTE);
}

/* Are these two, or this one, the legs of one mirror, each in its place? */
static bool belong(const struct super *l, const struct super *r, struct verdict *v)
{
	if (l && r && !same_set(l, r))
		refuse(v, VERDICT_FOREIGN, LOCKSTEP_REMOTE);
	else if (l && r && l->leg == LOCKSTEP_REMOTE && r->leg == LOCKSTEP_LOCAL)
		refuse(v, VERDICT_SWAPPED, LOCKSTEP_LOCAL);
	else if (l && l->leg != LOCKSTEP_LOCAL)
		refuse(v, VERDICT_WRONG_LEG, LOCKSTEP_LOCAL);
	else if (r && (r->leg != LOCKSTEP_REMOTE || (l && same_leg(l, r))))
		refuse(v, VERDICT_WRONG_LEG, LOCKSTEP_REMOTE);
	else if (l && r && !same_geometry(l, r))
		refuse(v, VERDICT_GEOMETRY, LOCKSTEP_REMOTE);
	else
		return true;
	return false;
}

void verdict_decide(const struct super_found *local, const struct super_found *remote,
		    struct verdict *v)
{
	const struct super_found *found[] = { local, remote };
	const struct super *s[2] = { NULL, NULL };
	u32 i;

	memset(v, 0, sizeof(*v));
	for (i = LOCKSTEP_LOCAL; i <= LOCKSTEP_REMOTE; i++) {
		if (found[i]->kind == SUPER_BLANK || found[i]->kind == SUPER_BAD) {
			refuse(v, found[i]->kind == SUPER_BLANK ? VERDICT_BLANK : VERDICT_BAD, i);
			return;
		}
		if (found[i]->kind != SUPER_VALID)
			continue;
		if (found[i]->bypassed) {
			refuse(v, VERDICT_BYPASSED, i);
			return;
		}
		s[i] = &found[i]->super;
	}
	if (!s[0] && !s[1]) {
		refuse(v, VERDICT_NOTHING, LOCKSTEP_LOCAL);
	} else if (!belong(s[0], s[1], v)) {
		return;
	} else if (s[0] && s[1]) {
		decide_pair(s[0], s[1], v);
		decide_lengths(s[0], s[1], v);
	} else {
		i = s[0] ? LOCKSTEP_LOCAL : LOCKSTEP_REMOTE;
		if (!has_all(s[i])) {
			refuse(v, VERDICT_INCOMPLETE, i);
			return;
		}
		accept(v, i, false);
		v->alone = true;
	}
	if (v->reason == VERDICT_OK)
		v->crashed = s[v->source]->active ||
			     (!v->alone && !v->join && s[!v->source]->active);
}

const char *verdict_word(enum verdict_reason reason)
{
	static const char * const words[VERDICT_REASONS] = {
		[VERDICT_OK] = "ok",
		[VERDICT_NOTHING] = "nothing",
		[VERDICT_BLANK] = "blank",
		[VERDICT_BAD] = "bad",
		[VERDICT_BYPASSED] = "bypassed",
		[VERDICT_FOREIGN] = "foreign",
		[VERDICT_SWAPPED] = "swapped",
		[VERDICT_WRONG_LEG] = "wrong-leg",
		[VERDICT_GEOMETRY] = "geometry",
		[VERDICT_INCOMPLETE] = "incomplete",
		[VERDICT_BOTH] = "both",
		[VERDICT_OUTDATED] = "outdated",
		[VERDICT_SPLIT_BRAIN] = "split-brain",
		[VERDICT_UNRELATED] = "unrelated",
	};

	return words[reason];
}

static const char *leg_word(u32 leg)
{
	return leg == LOCKSTEP_LOCAL ? "local" : "remote";
}

static int accepted_text(const struct verdict *v, const struct super_found *found, char *buf,
			 size_t size)
{
	const char *source = leg_word(v->source), *other = leg_word(!v->source);
	const char *end = v->crashed ? " It was not stopped cleanly." : "";

	if (v->alone && found->super.state == LOCKSTEP_ALONE)
		return scnprintf(buf, size, "The %s leg goes on alone, as it did before.%s",
				 source, end);
	if (v->alone)
		return scnprintf(buf, size, "The %s leg can go on alone. If the %s leg went on without it, writes acknowledged there are missing here, and going on makes a split brain.%s",
				 source, other, end);
	if (v->full)
		return scnprintf(buf, size, "The %s leg is new and is filled from the %s leg.%s",
				 other, source, end);
	if (v->join)
		return scnprintf(buf, size, "The %s leg has the newest data; the %s leg gets what it misses.%s",
				 source, other, end);
	return scnprintf(buf, size, "Both legs are in sync%s.%s",
			 v->crashed ? ", but for writes that were on their way" : "", end);
}

int verdict_text(const struct verdict *v, const struct super_found *local,
		 const struct super_found *remote, char *buf, size_t size)
{
	const struct super_found *found = v->leg == LOCKSTEP_LOCAL ? local : remote;
	const char *leg = leg_word(v->leg);
	char uuid[UUID_TEXT];
	int n;

	switch (v->reason) {
	case VERDICT_NOTHING:
		return scnprintf(buf, size, "Both legs are absent: name at least one device.");
	case VERDICT_BLANK:
	case VERDICT_BAD:
		n = scnprintf(buf, size, "The %s leg can't be used: ", leg);
		n += super_reason_text(found, buf + n, size - n);
		return n + scnprintf(buf + n, size - n, ".%s", v->reason == VERDICT_BLANK ?
				     " If it has grown: `lockstep grow NAME`." : "");
	case VERDICT_BYPASSED:
		super_uuid_text(found->super.log_uuid, uuid);
		return scnprintf(buf, size, "The %s leg is the disk below a DCD, and the DCD's log (uuid %s) may hold acknowledged writes that aren't on it yet. Use it through that DCD. Or bring them to the disk, with the DCD stopped: `dcd retire --data DISK --log LOG --nvram NVRAM` on the host that has all three; after that it can be used.",
				 leg, uuid);
	case VERDICT_FOREIGN:
		return scnprintf(buf, size, "The legs belong to different mirrors (\"%s\" and \"%s\", their set uuids differ): name the right devices.",
				 local->super.name, remote->super.name);
	case VERDICT_SWAPPED:
		return scnprintf(buf, size, "The legs are swapped: the device named as the local leg is the remote one, and the other way round.");
	case VERDICT_WRONG_LEG:
		return scnprintf(buf, size, "The device named as the %s leg is not this mirror's %s leg: name the right device.",
				 leg, leg);
	case VERDICT_GEOMETRY:
		return scnprintf(buf, size, "The legs' superblocks differ in size: local %llu sectors in regions of 2^%u, remote %llu in regions of 2^%u.",
				 (unsigned long long)local->super.data_sectors,
				 local->super.region_shift,
				 (unsigned long long)remote->super.data_sectors,
				 remote->super.region_shift);
	case VERDICT_INCOMPLETE:
		return scnprintf(buf, size, "No leg here has all the data: the %s leg's superblock says \"%s\". Bring the leg that it was resynced from.",
				 leg, super_state_name(found->super.state));
	case VERDICT_BOTH:
		return scnprintf(buf, size, "The legs' superblocks contradict each other, as after one was put back from a copy. Nobody but you can know which has the right data: see both histories, then `lockstep resolve NAME --keep local|remote`.");
	case VERDICT_OUTDATED:
		if ((found == local ? remote : local)->super.state == LOCKSTEP_NEW)
			return scnprintf(buf, size, "The %s leg is older than the one that the new %s leg was to be filled from. Bring that one; or, if this one's data are to be kept, `lockstep resolve NAME --keep %s`.",
					 leg, leg_word(!v->leg), leg);
		return scnprintf(buf, size, "The %s leg is an older copy, from before the other leg's dirty map began. If it may be overwritten: `lockstep resolve NAME --keep %s`.",
				 leg, leg_word(!v->leg));
	case VERDICT_SPLIT_BRAIN:
		return scnprintf(buf, size, "Split brain: both legs went on alone and have writes that the other has not. Compare both histories, then say which data to keep, `lockstep resolve NAME --keep local|remote`; the other leg's writes are lost then.");
	case VERDICT_UNRELATED:
		return scnprintf(buf, size, "The legs have no generation in common in their histories: it can't be told which is newer. Say which data to keep: `lockstep resolve NAME --keep local|remote`.");
	default:
		return accepted_text(v, v->source == LOCKSTEP_LOCAL ? local : remote, buf, size);
	}
}
