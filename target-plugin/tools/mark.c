// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "../../dm-target/super.h"
#include "../leg.h"
#include "../parse.h"
#include "mark.h"

#define TRIES	10	/* in a second: a path may be away for a moment */

/*
 * Whether there is a good superblock, as of a disk of so many sectors; -1: it can't be read. One
 * that points to a place behind it counts, too: the growth was cut short, or that place was looked
 * at before. @unread: sectors that can't be.
 */
static int find(const struct device *d, u64 sectors, u8 slots[LOCKSTEP_SLOTS_BYTES],
		struct super *s, u32 *unread)
{
	u64 at = lockstep_slots_start(sectors);
	u8 where[LOCKSTEP_SLOTS_BYTES / 512];
	struct super_found found;

	*unread = 0;
	if (!at)
		return 0;
	/* One slot is enough; but what can't be read of the other one may be written over (put()). */
	for (u32 tries = 0; !tries || (*unread && tries < TRIES); tries++) {
		if (tries)
			usleep(100000);
		*unread = device_read_around(d, slots, LOCKSTEP_SLOTS_BYTES, at * 512, where);
	}
	if (*unread == sizeof(where) && device_read(d, slots, LOCKSTEP_SLOTS_BYTES, at * 512))
		return -1;
	super_find(slots, sectors, &found);
	*s = found.super;
	return found.kind == SUPER_VALID || found.reason == SUPER_MOVED_ON;
}

/*
 * One copy after the other, so that one of them is always whole; but what isn't a slot any more may
 * be data by now. At the end of the disk one that can't be read (@unread) is written, too: who
 * comes next may be able to read that one only.
 */
static int put(const struct device *d, u64 sectors, const u8 slots[LOCKSTEP_SLOTS_BYTES],
	       u32 unread, struct super *s)
{
	u32 there = unread && sectors == d->bytes / 512 ? DCD_LEG_BOTH :
							  dcd_leg_slots(slots, sectors);
	u64 at = lockstep_slots_start(sectors) * 512;
	u8 slot[LOCKSTEP_SLOT_BYTES];

	if (there & ~dcd_leg_slots(slots, sectors))
		fprintf(stderr, "dcd: %s: one of the two copies of the leg's superblock can't be read: it is written anew (a block of %u sectors in the last %u)\n",
			d->path, LOCKSTEP_SLOT_SECTORS, LOCKSTEP_SLOTS_SECTORS);
	super_touch(s, (u64)time(NULL), s->owner);
	super_pack(s, sectors, slot);
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (!(there & 1U << i))
			continue;
		if (device_write(d, slot, sizeof(slot), at + i * sizeof(slot)) || device_flush(d))
			return -1;
	}
	return 0;
}

enum whose {
	ITS,		/* of this log */
	NAMED,		/* of any: the newest end where one is named is the leg's */
	ANY,		/* likewise, and at the end of the disk a leg that has none */
};

/*
 * Whether there is the leg that has been told of a log: at the end of the disk or, if that
 * has grown, where that was before, by what @log says. There both slots have to be its, as far as
 * they can be read; -1: an end can't be, and it isn't at a newer one.
 */
static int find_of(const struct device *d, const struct dcd_super *log, enum whose whose,
		   u64 *sectors, u8 slots[LOCKSTEP_SLOTS_BYTES], u32 *unread, struct super *s)
{
	u64 end = d->bytes / 512;
	bool its;

	for (u32 i = 0; i < DCD_ENDS; i++) {
		int r = find(d, *sectors = dcd_data_end(log, end, i), slots, s, unread);

		if (r < 0)
			return r;
		its = s->log_state &&
		      (whose != ITS || !memcmp(s->log_uuid, log->uuid, sizeof(log->uuid)));
		if (r > 0 && (its || (whose == ANY && *sectors == end)) &&
		    (*sectors == end || *unread || dcd_leg_slots(slots, *sectors) == DCD_LEG_BOTH))
			return 1;
	}
	return 0;
}

/*
 * The leg @s was found first, and names a log that isn't @before. If an older end has one that names
 * @before, either of them may be what an earlier mirror has left there.
 */
static int refuse_second(const struct device *data, const struct super *s,
			 const struct dcd_super *before)
{
	u8 slots[LOCKSTEP_SLOTS_BYTES];
	char uuid[UUID_TEXT], older[UUID_TEXT];
	struct super other;
	u64 sectors;
	u32 unread;
	int r;

	if (!s->log_state || !memcmp(s->log_uuid, before->uuid, sizeof(before->uuid)))
		return 0;
	r = find_of(data, before, ITS, &sectors, slots, &unread, &other);
	if (r > 0) {
		super_uuid_text(s->log_uuid, uuid);
		super_uuid_text(before->uuid, older);
		fprintf(stderr, "dcd: data disk %s has the superblocks of two legs: at its end one that had another log (uuid %s), and at sector %" PRIu64 ", where its end was once, one that had the log that was here (uuid %s). An earlier mirror has left one of them, and only the leg may be told of the new log. If the leg is the one at the end: --force. If it is the other one: lockstep-meta wipe --force %s first, which clears the one at the end\n",
			data->path, uuid, (uint64_t)lockstep_slots_start(sectors), older,
			data->path);
	}
	return r ? -1 : 0;
}

int mark_behind(const struct device *data, const u8 log_uuid[16], const struct dcd_super *before,
		bool force, u64 *end)
{
	u8 slots[LOCKSTEP_SLOTS_BYTES];
	char uuid[UUID_TEXT];
	struct super s;
	u64 sectors;
	u32 unread;
	/* First one that knows of a log: at the end there may be an earlier mirror's superblock. */
	int r = before ? find_of(data, before, NAMED, &sectors, slots, &unread, &s) : 0;

	if (before && r <= 0)
		r = find_of(data, before, ANY, &sectors, slots, &unread, &s);
	if (!before)
		r = find(data, sectors = data->bytes / 512, slots, &s, &unread);
	*end = r > 0 ? sectors : 0;
	if (r <= 0)
		return r;
	if (before && !force && refuse_second(data, &s, before))
		return -1;
	if (s.log_state == LOCKSTEP_LOG_BEHIND && !force) {
		super_uuid_text(s.log_uuid, uuid);
		fprintf(stderr, "dcd: data disk %s is a mirror's leg, and another log (uuid %s) may hold acknowledged writes that it lacks: dcd retire that one first. If it is lost, the leg lacks what only that had: lockstep-meta wipe --force it, and lockstep replace fills it anew. If it was never in use, as a dcd format was cut off, --force tells the leg of this one\n",
			data->path, uuid);
		return -1;
	}
	super_set_log(&s, log_uuid, LOCKSTEP_LOG_BEHIND);
	return put(data, sectors, slots, unread, &s);
}

int mark_left(const struct device *data, const struct dcd_super *log, bool *marked)
{
	u8 slots[LOCKSTEP_SLOTS_BYTES];
	struct super s;
	u64 sectors;
	u32 unread;
	int r = find_of(data, log, ITS, &sectors, slots, &unread, &s);

	*marked = r > 0;
	if (r <= 0 || s.log_state == LOCKSTEP_LOG_LEFT)
		return r < 0 ? -1 : 0;
	super_set_log(&s, log->uuid, LOCKSTEP_LOG_LEFT);
	return put(data, sectors, slots, unread, &s);
}
