// SPDX-License-Identifier: GPL-2.0-only
#include "metadata.h"

#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "life.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"
#include "registry.h"

TEST_KNOB(bool, any_is_a_dcds, "a superblock of a higher seq that says the same is a DCD's");
TEST_KNOB(bool, known_late, "a superblock says of the other leg what is known when it is written");
TEST_KNOB(bool, overwrites, "metadata are written, whatever somebody else has written there");
TEST_KNOB(bool, higher_is_ours, "a seq that this table has never come to is its own");
TEST_KNOB(bool, unowned, "a superblock doesn't say which table has written it");
TEST_KNOB(bool, any_map, "a new table takes over what a table knows of the map that another host has");
TEST_KNOB(bool, map_read, "a new table reads the map that the one before has in memory");
TEST_KNOB(bool, map_unlooked, "a page of the map is written, whatever somebody else has written to the leg");
TEST_KNOB(bool, unread_looked, "a superblock that can't be read has been looked at");
TEST_KNOB(bool, none_later, "a table that takes over knows the last seq of the one before, parting or not");
TEST_KNOB(bool, whole_is_damaged, "a superblock that is whole and can't be used is overwritten as a damaged one");
TEST_KNOB(bool, one_slot, "a slot that can't be read makes both so");
TEST_KNOB(bool, copies_unseen, "no superblock says which one of the other leg it knows");
TEST_KNOB(bool, moved_for_good, "a superblock whose move was cut short isn't taken, wherever the device ends");
TEST_KNOB(bool, place_stays, "where the first look found no superblock is looked for good");
TEST_KNOB(bool, sure_of_halves, "a superblock that was written half-way is as it was before");

#define READING	(REQ_OP_READ | REQ_SYNC | REQ_META)
#define DURABLE	(REQ_OP_WRITE | REQ_SYNC | REQ_META | REQ_PREFLUSH | REQ_FUA)

sector_t metadata_place(struct mirror *m, enum leg_id leg)
{
	if (!m->meta)
		return 0;
	if (!m->meta->size[leg])
		m->meta->size[leg] = bdev_nr_sectors(leg_bdev(&m->legs[leg]));
	return lockstep_slots_start(m->meta->size[leg]);
}

static int read_slots(struct mirror *m, enum leg_id leg, sector_t sector)
{
	return transfer_now(m, leg, READING, sector, m->meta->slots[leg], LOCKSTEP_SLOTS_BYTES);
}

/*
 * One of the two can't be read: the other one is enough. A change of the superblock counts when
 * both have been written, so one alone is never older than what somebody relies on. The next
 * change writes both.
 */
static int read_one_slot(struct mirror *m, enum leg_id leg, sector_t sector)
{
	u8 *slots = m->meta->slots[leg];
	unsigned int i, bad = 0;
	int r, last = 0;

	for (i = 0; i < LOCKSTEP_SLOTS; i++, slots += LOCKSTEP_SLOT_BYTES) {
		r = transfer_now(m, leg, READING, sector + i * LOCKSTEP_SLOT_SECTORS, slots,
				 LOCKSTEP_SLOT_BYTES);
		if (!r)
			continue;
		memset(slots, 0, LOCKSTEP_SLOT_BYTES);
		last = r;
		bad++;
	}
	if (bad == LOCKSTEP_SLOTS)
		return last;
	if (bad)
		DMWARN_LIMIT("%s: one copy of the superblock of the %s leg (%s) can't be read: the other one counts",
			     m->name, leg_name(leg), leg_path(&m->legs[leg]));
	return 0;
}

/*
 * A move to where the device ends now was cut short (growth.h): the leg was given up meanwhile.
 * What is there counts if it is a newer superblock of the leg; else the one that was to be left.
 */
static int follow_move(struct mirror *m, enum leg_id leg, struct super_found *found)
{
	u64 has = bdev_nr_sectors(leg_bdev(&m->legs[leg]));
	struct super_found there;
	int r;

	if (found->super.moved_to != lockstep_slots_start(has) || test_knob(moved_for_good))
		return 0;
	r = read_slots(m, leg, found->super.moved_to);
	if (r)
		return r;
	super_find(m->meta->slots[leg], has, &there);
	if (there.kind == SUPER_VALID && there.super.seq > found->super.seq &&
	    !memcmp(there.super.leg_uuid, found->super.leg_uuid, sizeof(there.super.leg_uuid))) {
		m->meta->size[leg] = has;
		*found = there;
		return 0;
	}
	found->kind = SUPER_VALID;
	found->reason = SUPER_OK;
	found->detail = 0;
	found->super.moved_to = 0;
	return 0;
}

/* What is in the slots now, at the end. */
static int check_found(struct mirror *m, enum leg_id leg, struct super_found *found)
{
	int r;

	super_find(m->meta->slots[leg], m->meta->size[leg], found);
	if (found->kind == SUPER_BAD && found->reason == SUPER_MOVED_ON) {
		r = follow_move(m, leg, found);
		if (r)
			return r;
	}
	if (found->kind != SUPER_VALID || !found->super.moved_from)
		return 0;
	r = read_slots(m, leg, found->super.moved_from);
	if (!r && super_moved_back(&found->super, m->meta->slots[leg])) {
		found->kind = SUPER_BAD;
		found->reason = SUPER_MOVED_BACK;
	}
	return r;
}

int metadata_read(struct mirror *m, enum leg_id leg, struct super_found *found)
{
	sector_t sector = metadata_place(m, leg);
	bool one = false;
	int r = 0;

	mutex_lock(&m->meta->lock[leg]);
	memset(found, 0, sizeof(*found));
	if (sector) {
		r = read_slots(m, leg, sector);
		one = r && r != -ETIMEDOUT && !test_knob(one_slot);
		if (one)
			r = read_one_slot(m, leg, sector);
		if (!r)
			r = check_found(m, leg, found);
	}
	/* Blank is what may be overwritten: not a leg of which something can't be read. */
	if (r || !sector || (one && found->kind == SUPER_BLANK)) {
		found->kind = SUPER_BAD;
		found->reason = sector ? SUPER_UNREADABLE : SUPER_TOO_SMALL;
	}
	/* Where none was ever found none is written: the device may have another end next time. */
	if (found->kind != SUPER_VALID && !registry_knows(m, leg) && !test_knob(place_stays))
		m->meta->size[leg] = 0;
	mutex_unlock(&m->meta->lock[leg]);
	return r;
}

bool metadata_is_owner(const struct mirror *m, enum leg_id leg)
{
	return (!m->read_only && m->meta->super[leg].owner == m->meta->owner) ||
	       test_knob(any_map);
}

void metadata_inherit_map(struct mirror *m, const struct mirror *from, enum leg_id leg)
{
	m->meta->mapped[leg] = from->meta->super[leg];
}

bool metadata_knows_map(const struct mirror *m, enum leg_id leg)
{
	const struct super *was = &m->meta->mapped[leg], *is = &m->meta->super[leg];

	return was->seq && was->seq == is->seq && was->owner == is->owner &&
	       was->map_epoch == is->map_epoch &&
	       !memcmp(was->leg_uuid, is->leg_uuid, sizeof(is->leg_uuid)) && !test_knob(map_read);
}

void metadata_take(struct mirror *m, enum leg_id leg, const struct super *s)
{
	m->meta->super[leg] = *s;
	atomic64_set(&m->meta->said[leg], s->state == LOCKSTEP_NEW ? 0 : s->seq);
	m->meta->before[leg] = 0;
	m->meta->later[leg] = false;
	WRITE_ONCE(m->meta->foreign[leg], false);
	m->meta->looked[leg] = ktime_get_boottime_ns();
}

/* Of what the other leg is told by it. */
static bool says_the_same(const struct super *a, const struct super *b)
{
	return a->state == b->state && generation_is(&a->cur, &b->cur) &&
	       generation_is(&a->base, &b->base) && a->data_sectors == b->data_sectors;
}

/* By its own word, and it changes nothing of what it has found there. */
static bool is_a_dcds(const struct super *s, const struct super *core)
{
	return (s->log_applied || test_knob(any_is_a_dcds)) && says_the_same(s, core);
}

/* It is what this table found when it took the leg, and hasn't overwritten yet. */
static bool is_former(struct mirror *m, enum leg_id leg, const struct super *s)
{
	const struct super *core = &m->meta->super[leg];

	return s->owner == core->owner && says_the_same(s, core);
}

static bool is_ours(struct mirror *m, enum leg_id leg, const struct super_found *found)
{
	const struct super *core = &m->meta->super[leg], *s = &found->super;
	u64 said = atomic64_read(&m->meta->said[leg]), before = m->meta->before[leg];
	bool befores = before && s->owner == before;

	if (found->kind == SUPER_BLANK)
		return !said;
	if (found->reason == SUPER_BAD_CRC)
		return true;
	/* Somebody has written what is whole, with a newer lockstep, perhaps. */
	if (found->kind != SUPER_VALID && found->reason != SUPER_MOVED_ON)
		return test_knob(whole_is_damaged);
	/*
	 * A lower seq is one of an older copy that was put in its place. A higher one than was ever
	 * tried is a DCD's; or this table's own, of a time that it doesn't remember, as its host's
	 * memory was put back; or, as this table is read-only, of whoever had the leg before it.
	 * The table before may have written one since it handed on what it knew.
	 */
	return !memcmp(s->leg_uuid, core->leg_uuid, sizeof(s->leg_uuid)) && s->seq >= said &&
	       (s->seq <= core->seq || (befores && m->meta->later[leg]) || is_a_dcds(s, core) ||
		test_knob(higher_is_ours)) &&
	       (s->owner == m->meta->owner || befores || is_former(m, leg, s));
}

void metadata_inherit(struct mirror *m, const struct mirror *from, enum leg_id leg, bool busy)
{
	struct metadata *to = m->meta;

	to->super[leg] = from->meta->super[leg];
	atomic64_set(&to->said[leg], atomic64_read(&from->meta->said[leg]));
	to->before[leg] = from->meta->before[leg] ?: from->meta->owner;
	to->later[leg] = from->meta->later[leg] || (busy && !test_knob(none_later));
}

bool metadata_is_kept(struct mirror *m, enum leg_id leg, const struct super_found *found)
{
	const struct super *core = &m->meta->super[leg];

	return memcmp(found->super.leg_uuid, core->leg_uuid, sizeof(core->leg_uuid)) ||
	       is_ours(m, leg, found);
}

/* Nobody could tell from the leg that somebody else has used it if that were overwritten. */
int metadata_check(struct mirror *m, enum leg_id leg)
{
	struct metadata *meta = m->meta;
	sector_t sector = lockstep_slots_start(meta->size[leg]);
	struct super_found found;
	bool one;
	int r;

	lockdep_assert_held(&meta->lock[leg]);

	if (test_knob(overwrites))
		return 0;
	r = read_slots(m, leg, sector);
	one = r && r != -ETIMEDOUT && !test_knob(one_slot);
	if (one)
		r = read_one_slot(m, leg, sector);
	if (r == -ETIMEDOUT)
		return r;
	/* What can't be read changes nothing. */
	if (!r)
		super_find(meta->slots[leg], meta->size[leg], &found);
	if (!r && !(one && found.kind == SUPER_BLANK))
		WRITE_ONCE(meta->foreign[leg], !is_ours(m, leg, &found));
	if (metadata_foreign(m, leg)) {
		DMERR_LIMIT("%s: the superblock of the %s leg (%s) isn't as this mirror has written it: it isn't overwritten",
			    m->name, leg_name(leg), leg_path(&m->legs[leg]));
		return -ESTALE;
	}
	/* But whoever writes next looks again. */
	if (!r || test_knob(unread_looked))
		meta->looked[leg] = ktime_get_boottime_ns();
	if (!r && found.kind == SUPER_VALID)
		meta->super[leg].seq = max(meta->super[leg].seq, found.super.seq);
	return 0;
}

int metadata_look(struct mirror *m, enum leg_id leg)
{
	struct metadata *meta = m->meta;
	int r = 0;

	if (!meta || test_knob(map_unlooked))
		return 0;
	/*
	 * Who has it may wait for a leg that hangs, without end: nobody is a hung task for that. A
	 * suspend that is killed knows no more of the leg than one that got no answer.
	 */
	if (mutex_lock_killable(&meta->lock[leg]))
		return -ETIMEDOUT;
	if (ktime_get_boottime_ns() - meta->looked[leg] > METADATA_SECONDS * NSEC_PER_SEC)
		r = metadata_check(m, leg);
	mutex_unlock(&meta->lock[leg]);
	return r;
}

bool metadata_foreign(const struct mirror *m, enum leg_id leg)
{
	return m->meta && READ_ONCE(m->meta->foreign[leg]);
}

/* No superblock at @sector any more. */
static int clear_slots(struct mirror *m, enum leg_id leg, sector_t sector)
{
	void *slots = m->meta->slots[leg];

	memset(slots, 0, LOCKSTEP_SLOTS_BYTES);
	return transfer_now(m, leg, DURABLE, sector, slots, LOCKSTEP_SLOTS_BYTES);
}

static int write_slots(struct mirror *m, enum leg_id leg, struct super *next)
{
	u64 size = m->meta->size[leg];
	sector_t sector = lockstep_slots_start(size);
	void *slot = m->meta->slots[leg];
	unsigned int i;
	int r;

	lockdep_assert_held(&m->meta->lock[leg]);

	/* A seq is never used twice, not even when it wasn't written for certain. */
	next->seq = m->meta->super[leg].seq;
	super_touch(next, ktime_get_real_seconds(), m->meta->owner);
	m->meta->super[leg].seq = next->seq;
	if (test_knob(known_late))
		super_know(next, atomic64_read(&m->meta->said[other_leg(leg)]));
	super_pack(next, size, slot);
	WRITE_ONCE(m->meta->unsure[leg], true);
	for (i = 0; i < LOCKSTEP_SLOTS; i++, sector += LOCKSTEP_SLOT_SECTORS) {
		r = transfer_now(m, leg, DURABLE, sector, slot, LOCKSTEP_SLOT_BYTES);
		if (r)
			return r;
	}
	metadata_take(m, leg, next);
	WRITE_ONCE(m->meta->unsure[leg], false);
	trace_lockstep_super(m, leg, next->state, next->seq);
	count(&m->counters, COUNT_SUPER_WRITES);
	return 0;
}

int metadata_write(struct mirror *m, enum leg_id leg, struct super *next)
{
	int r = metadata_check(m, leg);

	if (r)
		return r;
	if (next->moved_from) {
		r = clear_slots(m, leg, next->moved_from);
		if (r)
			return r;
		next->moved_from = 0;
	}
	return write_slots(m, leg, next);
}

/* @next to the end of a device that has @sectors, or nothing. */
static int write_moved(struct mirror *m, enum leg_id leg, u64 sectors, struct super *next)
{
	u64 had = m->meta->size[leg];
	int r;

	m->meta->size[leg] = sectors;
	r = write_slots(m, leg, next);
	if (!r)
		return 0;
	/* It may be there all the same; if it stays there, super_moved_back() tells. */
	if (clear_slots(m, leg, lockstep_slots_start(sectors)))
		DMWARN("%s: the %s leg (%s) may have an old superblock at its end",
		       dm_table_device_name(m->ti->table), leg_name(leg),
		       leg_path(&m->legs[leg]));
	m->meta->size[leg] = had;
	return r;
}

int metadata_move(struct mirror *m, enum leg_id leg, u64 sectors, const struct super *old)
{
	struct super next = m->meta->super[leg], points = *old;
	int r;

	points.moved_to = lockstep_slots_start(sectors);
	r = metadata_write(m, leg, &points);
	if (!r)
		r = write_moved(m, leg, sectors, &next);
	if (r)
		return r;
	if (metadata_write(m, leg, &next))
		DMWARN("%s: the %s leg (%s) still has its old superblock, before its end",
		       dm_table_device_name(m->ti->table), leg_name(leg),
		       leg_path(&m->legs[leg]));
	return 0;
}

void metadata_next(struct mirror *m, enum leg_id leg, struct super *next)
{
	lockdep_assert_held(&m->meta->lock[leg]);
	*next = m->meta->super[leg];
	if (!test_knob(copies_unseen))
		super_know(next, atomic64_read(&m->meta->said[other_leg(leg)]));
}

int metadata_update(struct mirror *m, enum leg_id leg,
		    int (*change)(struct mirror *m, struct super *s))
{
	struct super next;
	int r;

	mutex_lock(&m->meta->lock[leg]);
	metadata_next(m, leg, &next);
	super_set_active(&next, true);
	r = change ? change(m, &next) : 0;
	if (!r)
		r = metadata_write(m, leg, &next);
	mutex_unlock(&m->meta->lock[leg]);
	return r;
}

/* Does it say on the disk what it says in core, as far as the other leg is concerned? */
static bool as_in_core(struct mirror *m, enum leg_id leg)
{
	struct super_found found;

	if (read_slots(m, leg, metadata_place(m, leg)) || check_found(m, leg, &found) ||
	    found.kind != SUPER_VALID)
		return false;
	return says_the_same(&found.super, &m->meta->super[leg]);
}

bool metadata_unsure(const struct mirror *m, enum leg_id leg)
{
	return m->meta && READ_ONCE(m->meta->unsure[leg]) && !test_knob(sure_of_halves);
}

int metadata_make_sure(struct mirror *m, enum leg_id leg)
{
	struct super next;
	int r;

	if (!metadata_unsure(m, leg))
		return 0;
	mutex_lock(&m->meta->lock[leg]);
	metadata_next(m, leg, &next);
	super_set_active(&next, true);
	r = metadata_write(m, leg, &next);
	if (r && r != -ESTALE && as_in_core(m, leg)) {
		WRITE_ONCE(m->meta->unsure[leg], false);
		r = 0;
	}
	mutex_unlock(&m->meta->lock[leg]);
	if (r)
		DMWARN_LIMIT("%s: the superblock of the %s leg (%s) may be half-way written, and can't be written again yet: error %d; the other leg doesn't come back before",
			     m->name, leg_name(leg), leg_path(&m->legs[leg]), r);
	return r;
}

u64 metadata_random(void)
{
	u64 id = 0;

	while (!id)
		id = get_random_u64();
	return id;
}

u64 metadata_epoch(const struct mirror *m, enum leg_id leg)
{
	return m->meta ? m->meta->super[leg].map_epoch : 0;
}

static sector_t map_sector_of(const struct mirror *m, enum leg_id leg, unsigned long index)
{
	return m->meta->super[leg].map_start + index * LOCKSTEP_MAP_PAGE;
}

unsigned long metadata_log_page(const struct mirror *m, enum leg_id leg)
{
	return m->meta->super[leg].map_sectors / LOCKSTEP_MAP_PAGE - LOCKSTEP_ACTIVITY_PAGES;
}

void metadata_write_map(struct transfer_run *run, unsigned long index, void *pages, unsigned int n)
{
	struct mirror *m = run->m;

	if (!m->meta)
		return;
	count_add(&m->counters, COUNT_MAP_WRITES, n);
	trace_lockstep_map(m, run->leg, index, n);
	/* What it clears has been flushed before (dirty-map.c): no PREFLUSH. */
	transfer_run_write(run, DURABLE & ~REQ_PREFLUSH, map_sector_of(m, run->leg, index), pages,
			   n * LOCKSTEP_MAP_PAGE << SECTOR_SHIFT);
}

int metadata_read_map(struct mirror *m, enum leg_id leg, unsigned long index, void *pages,
		      unsigned int n)
{
	return transfer_now(m, leg, READING, map_sector_of(m, leg, index), pages,
			    n * LOCKSTEP_MAP_PAGE << SECTOR_SHIFT);
}

int metadata_create(struct mirror *m)
{
	struct metadata *meta = kzalloc(sizeof(*meta), GFP_KERNEL);
	enum leg_id leg;

	if (!meta)
		return -ENOMEM;
	meta->owner = test_knob(unowned) ? 0 : metadata_random();
	m->meta = meta;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		mutex_init(&meta->lock[leg]);
		meta->slots[leg] = (void *)__get_free_pages(GFP_KERNEL,
							    get_order(LOCKSTEP_SLOTS_BYTES));
		if (!meta->slots[leg])
			return -ENOMEM;
	}
	return 0;
}

void metadata_destroy(struct mirror *m)
{
	enum leg_id leg;

	if (!m->meta)
		return;
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		free_pages((unsigned long)m->meta->slots[leg], get_order(LOCKSTEP_SLOTS_BYTES));
	kfree(m->meta);
	m->meta = NULL;
}
