// SPDX-License-Identifier: GPL-2.0-only
#include "registry.h"

#include "metadata.h"
#include "mirror.h"
#include "resync.h"

static LIST_HEAD(mirrors);
static DEFINE_MUTEX(mirrors_lock);

static bool same_device(const struct leg *a, const struct leg *b)
{
	return a->dev && b->dev && leg_bdev(a)->bd_dev == leg_bdev(b)->bd_dev;
}

static bool same_legs(const struct mirror *a, const struct mirror *b)
{
	return same_device(&a->legs[LEG_LOCAL], &b->legs[LEG_LOCAL]) &&
	       same_device(&a->legs[LEG_REMOTE], &b->legs[LEG_REMOTE]);
}

static bool share_a_leg(const struct mirror *a, const struct mirror *b)
{
	enum leg_id i, j;

	for (i = LEG_LOCAL; i < LEGS; i++)
		for (j = LEG_LOCAL; j < LEGS; j++)
			if (same_device(&a->legs[i], &b->legs[j]))
				return true;
	return false;
}

/* Does @m, which hasn't run, take over from @other? */
static bool hands_on(const struct mirror *other, const struct mirror *m)
{
	return other != m && (other->ran || other->heir) && share_a_leg(m, other) &&
	       dm_table_get_md(other->ti->table) == dm_table_get_md(m->ti->table);
}

int registry_add(struct mirror *m)
{
	struct mapped_device *md = dm_table_get_md(m->ti->table);
	struct mirror *other;
	int r = 0;

	mutex_lock(&mirrors_lock);
	list_for_each_entry(other, &mirrors, registered) {
		if (!share_a_leg(m, other))
			continue;
		if (other->ti->table == m->ti->table) {
			m->ti->error = "A device is a leg of two targets in one table";
			r = -EBUSY;
			break;
		}
		if (dm_table_get_md(other->ti->table) != md) {
			DMERR("%s or %s is a leg of %s",
			      leg_path(&m->legs[LEG_LOCAL]), leg_path(&m->legs[LEG_REMOTE]),
			      dm_table_device_name(other->ti->table));
			m->ti->error = "A leg already belongs to another lockstep device";
			r = -EBUSY;
			break;
		}
	}
	if (!r)
		list_add_tail(&m->registered, &mirrors);
	mutex_unlock(&mirrors_lock);
	return r;
}

bool registry_draining(const struct mirror *m, enum leg_id leg)
{
	const struct mirror *other;
	bool draining = false;
	enum leg_id i;

	mutex_lock(&mirrors_lock);
	list_for_each_entry(other, &mirrors, registered)
		for (i = LEG_LOCAL; i < LEGS; i++)
			if (same_device(&other->legs[i], &m->legs[leg]) &&
			    writes_draining(other, i))
				draining |= other != m;
	mutex_unlock(&mirrors_lock);
	return draining;
}

/* The legs' metadata lie where they lay when the first of the mirrors began. */
static void hand_on_sizes(struct mirror *m, const struct mirror *from)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; m->meta && from->meta && leg < LEGS; leg++)
		if (same_device(&m->legs[leg], &from->legs[leg]))
			m->meta->size[leg] = from->meta->size[leg];
}

bool registry_reload(struct mirror *m)
{
	const struct mirror *other;
	bool found = false;

	mutex_lock(&mirrors_lock);
	list_for_each_entry(other, &mirrors, registered) {
		if (!hands_on(other, m))
			continue;
		hand_on_sizes(m, other);
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
	list_for_each_entry(other, &mirrors, registered) {
		if (!hands_on(other, m))
			continue;
		*len = other->ti->len;
		for (leg = LEG_LOCAL; leg < LEGS; leg++)
			if (READ_ONCE(other->legs[leg].dead))
				*missing = leg;
	}
	mutex_unlock(&mirrors_lock);
}

void registry_remove(struct mirror *m)
{
	mutex_lock(&mirrors_lock);
	list_del(&m->registered);
	mutex_unlock(&mirrors_lock);
}

/*
 * from's lock isn't needed: it is suspended, without I/O or resync, and dm has
 * waited for messages to it when it put the new table in its place.
 */
static void inherit(struct mirror *m, const struct mirror *from)
{
	enum leg_id leg;

	spin_lock_irq(&m->lock);
	/* What is on the legs says the rest, and says it for an exchanged leg too. */
	if (!m->meta && !from->meta && same_legs(m, from))
		region_map_inherit(&m->map, &from->map);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct leg *l = &m->legs[leg];
		const struct leg *old = &from->legs[leg];

		m->shown[leg] = from->shown[leg];
		if (!l->dev && !old->dev)
			l->why = old->why;
		if (!same_device(l, old))
			continue;
		/* Writes of the old table may still reach it, whatever else is exchanged. */
		if (!m->meta && !same_legs(m, from) && !writes_draining(from, leg))
			continue;
		l->dead = old->dead;
		l->why = old->why;
		l->deaths = old->deaths;
		atomic64_set(&l->read_errors, atomic64_read(&old->read_errors));
		atomic64_set(&l->write_errors, atomic64_read(&old->write_errors));
	}
	/* The leg that had everything; the other one may be the one exchanged. */
	m->keep = from->home < LEGS ? from->home : from->keep < LEGS ? from->keep : LEG_LOCAL;
	if (!same_device(&m->legs[m->keep], &from->legs[m->keep]))
		m->keep = other_leg(m->keep);
	m->unblocked = from->unblocked;
	m->heir = true;
	mirror_changed(m);
	spin_unlock_irq(&m->lock);
}

int registry_resume(struct mirror *m)
{
	struct mirror *other;
	int r = 0;

	mutex_lock(&mirrors_lock);
	if (!m->ran) {
		list_for_each_entry(other, &mirrors, registered) {
			if (!hands_on(other, m))
				continue;
			if (!other->suspended) {
				DMERR("%s: another table on these legs is still active",
				      dm_table_device_name(m->ti->table));
				r = -EBUSY;
				break;
			}
			/* They may have moved since this table was loaded. */
			hand_on_sizes(m, other);
			inherit(m, other);
		}
	}
	if (!r)
		m->suspended = false;
	mutex_unlock(&mirrors_lock);
	return r;
}

void registry_suspend(struct mirror *m)
{
	mutex_lock(&mirrors_lock);
	m->suspended = true;
	mutex_unlock(&mirrors_lock);
}

void registry_ran(struct mirror *m)
{
	mutex_lock(&mirrors_lock);
	m->ran = true;
	mutex_unlock(&mirrors_lock);
}
