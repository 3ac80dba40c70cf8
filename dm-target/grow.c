// SPDX-License-Identifier: GPL-2.0-only
#include "grow.h"

#include <linux/blkdev.h>

#include "growth.h"
#include "join.h"
#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"
#include "registry.h"

TEST_KNOB(bool, grow_holds, "no mark is made while a leg's metadata are moved, whichever leg has the map");

/* Its superblock in core names the new place while its map is written there. */
static int move_leg(struct mirror *m, enum leg_id leg, u64 has, const struct lockstep_layout *to)
{
	struct super before, *s = &m->meta->super[leg];
	bool home;
	int r;

	/*
	 * Of the leg that keeps it, the map must not change meanwhile. No parting makes this leg
	 * the one that keeps it, either; but else marks go on, as this may be many requests.
	 */
	dirty_map_pin(&m->dirty);
	home = mirror_home(m) == leg;
	if (home || test_knob(grow_holds))
		dirty_map_stop(&m->dirty);
	mutex_lock(&m->meta->lock[leg]);
	before = *s;
	r = metadata_check(m, leg);
	if (!r) {
		growth_move(s, m->meta->size[leg], to);
		r = dirty_map_write_whole(&m->dirty, leg, !home);
	}
	if (!r)
		r = metadata_move(m, leg, has, &before);
	if (r) {
		before.seq = s->seq;
		*s = before;
	}
	mutex_unlock(&m->meta->lock[leg]);
	dirty_map_release(&m->dirty);
	return r;
}

static int grow_leg(struct mirror *m, enum leg_id leg)
{
	const char *name = dm_table_device_name(m->ti->table);
	struct leg *l = &m->legs[leg];
	struct lockstep_layout to;
	enum growth growth;
	u64 had, has;
	int r;

	if (READ_ONCE(l->dead))
		return 0;
	had = m->meta->size[leg];
	has = bdev_nr_sectors(leg_bdev(l));
	growth = growth_check(&m->meta->super[leg], had, has, &to);
	if (growth == GROWTH_NONE)
		return 0;
	if (growth != GROWTH_OK) {
		DMWARN("%s: the %s leg's device (%s, %llu sectors, it had %llu) %s", name,
		       leg_name(leg), leg_path(l), has, had, growth_text(growth));
		return -ENOSPC;
	}
	/* Anew if others wanted the map, and have had it: what it has written doesn't count yet. */
	do
		r = move_leg(m, leg, has, &to);
	while (r == -EAGAIN && !mirror_must_yield(m));
	if (r == -EAGAIN) {
		DMWARN("%s: not now: it is suspended, or has just lost a leg", name);
		return -EBUSY;
	}
	if (r) {
		DMWARN("%s: the %s leg's metadata can't be moved to the end of %s: error %d", name,
		       leg_name(leg), leg_path(l), r);
		(void)mirror_leg_failed(m, leg);
	} else {
		DMINFO("%s: the %s leg's metadata are at the end of %llu sectors now, not of %llu",
		       name, leg_name(leg), has, had);
	}
	return r;
}

int grow_legs(struct mirror *m)
{
	enum leg_id leg;
	int r = 0, one;

	if (!m->meta)
		return 0;
	/* No parting and no join changes the map's home, or what a leg is, meanwhile. */
	standing_await(m);
	join_enter(m);
	if (m->join_off || READ_ONCE(m->standing) == PARTING) {
		DMWARN("%s: not now: it is suspended, read-only, or has just lost a leg",
		       dm_table_device_name(m->ti->table));
		r = -EBUSY;
	}
	for (leg = LEG_LOCAL; leg < LEGS && r != -EBUSY; leg++) {
		standing_await(m);	/* the other one may just have failed by this */
		one = grow_leg(m, leg);
		if (one)
			r = one;
	}
	join_leave(m);
	return r;
}

static int check_room(struct mirror *m, enum leg_id leg)
{
	struct dm_target *ti = m->ti;
	struct super_found found;

	(void)metadata_read(m, leg, &found);
	if (found.kind == SUPER_VALID && growth_room(&found.super, ti->len))
		return 0;
	if (found.kind == SUPER_VALID)
		DMERR("the %s leg (%s) has room for %llu sectors of data, the table says %llu; after its device has grown: dmsetup message NAME 0 grow",
		      leg_name(leg), leg_path(&m->legs[leg]), found.super.map_start,
		      (unsigned long long)ti->len);
	ti->error = leg == LEG_LOCAL ? "The local leg has no room for that length" :
				       "The remote leg has no room for that length";
	return -ENOSPC;
}

int grow_check(struct mirror *m, const struct super *s)
{
	struct dm_target *ti = m->ti;
	enum leg_id missing, leg;
	sector_t before;
	int r = 0;

	registry_before(m, &before, &missing);
	if (before && (before > ti->len || (s && s->data_sectors > ti->len))) {
		DMERR("the mirror has %llu sectors, the table says %llu: it can't be made smaller",
		      s ? s->data_sectors : (unsigned long long)before,
		      (unsigned long long)ti->len);
		ti->error = "The table is shorter than the mirror";
		return -EINVAL;
	}
	if (!s)
		return 0;
	if (!before || m->read_only) {
		DMERR("the legs hold %llu sectors of data, the table says %llu", s->data_sectors,
		      (unsigned long long)ti->len);
		ti->error = "The table's length isn't that of the legs' data";
		return -EINVAL;
	}
	if (missing == LEGS && m->legs[LEG_LOCAL].dev && m->legs[LEG_REMOTE].dev) {
		for (leg = LEG_LOCAL; leg < LEGS && !r; leg++)
			r = check_room(m, leg);
		m->grows = !r;
		return r;
	}
	DMERR("the mirror has lost a leg: it grows when both are there");
	ti->error = "Only a mirror with both legs can grow";
	return -EBUSY;
}

int grow_extend(struct mirror *m, struct super *s)
{
	growth_extend(s, m->ti->len);
	return 0;
}
