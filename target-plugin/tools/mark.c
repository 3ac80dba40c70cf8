// SPDX-License-Identifier: GPL-2.0-only
#include <time.h>

#include "../../dm-target/super.h"
#include "mark.h"

/* Whether there is a good superblock; -1: the disk can't be read. */
static int find(const struct device *d, struct super *s)
{
	u8 slots[LOCKSTEP_SLOTS_BYTES];
	u64 at = lockstep_slots_start(d->bytes / 512);
	struct super_found found;

	if (!at)
		return 0;
	if (device_read(d, slots, sizeof(slots), at * 512))
		return -1;
	super_find(slots, d->bytes / 512, &found);
	*s = found.super;
	return found.kind == SUPER_VALID;
}

/* One copy after the other, so that one of them is always whole. */
static int put(const struct device *d, struct super *s)
{
	u64 sectors = d->bytes / 512, at = lockstep_slots_start(sectors) * 512;
	u8 slot[LOCKSTEP_SLOT_BYTES];

	super_touch(s, (u64)time(NULL), s->owner);
	super_pack(s, sectors, slot);
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (device_write(d, slot, sizeof(slot), at + i * sizeof(slot)) || device_flush(d))
			return -1;
	}
	return 0;
}

int mark_behind(const struct device *data, const u8 log_uuid[16], bool force)
{
	char uuid[UUID_TEXT];
	struct super s;
	int r = find(data, &s);

	if (r <= 0)
		return r;
	if (s.log_state == LOCKSTEP_LOG_BEHIND && !force) {
		super_uuid_text(s.log_uuid, uuid);
		fprintf(stderr, "dcd: data disk %s is a mirror's leg, and another log (uuid %s) may hold acknowledged writes that it lacks: dcd retire that one first. If it is lost, the leg lacks what only that had: lockstep-meta wipe it, and lockstep replace fills it anew. --force goes on without, and tells the mirror nothing\n",
			data->path, uuid);
		return -1;
	}
	super_set_log(&s, log_uuid, LOCKSTEP_LOG_BEHIND);
	return put(data, &s);
}

int mark_left(const struct device *data, const u8 log_uuid[16], bool *marked)
{
	struct super s;
	int r = find(data, &s);

	*marked = r > 0 && s.log_state && !memcmp(s.log_uuid, log_uuid, 16);
	if (!*marked || s.log_state == LOCKSTEP_LOG_LEFT)
		return r < 0 ? -1 : 0;
	super_set_log(&s, log_uuid, LOCKSTEP_LOG_LEFT);
	return put(data, &s);
}
