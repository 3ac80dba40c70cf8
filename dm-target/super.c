// SPDX-License-Identifier: GPL-2.0-only
/* Superblock slots and map sectors, to and from their format. */
#include "super.h"

/* The field crc is the first one of each structure. */
static u32 crc_of(const void *p, size_t bytes)
{
	return crc32c(~0U, (const u8 *)p + sizeof(__le32), bytes - sizeof(__le32));
}

static void put_generation(struct lockstep_generation *to, const struct generation *g)
{
	to->id = cpu_to_le64(g->id);
	to->count = cpu_to_le32(g->count);
	to->reserved = 0;
}

static struct generation get_generation(const struct lockstep_generation *from)
{
	return (struct generation){ le64_to_cpu(from->id), le32_to_cpu(from->count) };
}

void super_pack(const struct super *s, u64 dev_sectors, void *slot)
{
	struct lockstep_slot *d = slot;
	int i;

	memset(d, 0, sizeof(*d));
	d->version = cpu_to_le32(LOCKSTEP_VERSION);
	d->magic = cpu_to_le64(LOCKSTEP_MAGIC);
	d->compat = cpu_to_le32(s->compat);
	d->ro_compat = cpu_to_le32(s->ro_compat);
	d->incompat = cpu_to_le32(s->incompat);
	d->flags = cpu_to_le32(s->active ? LOCKSTEP_ACTIVE : 0);
	d->slots_start = cpu_to_le64(lockstep_slots_start(dev_sectors));
	d->seq = cpu_to_le64(s->seq);
	memcpy(d->set_uuid, s->set_uuid, sizeof(d->set_uuid));
	memcpy(d->leg_uuid, s->leg_uuid, sizeof(d->leg_uuid));
	memcpy(d->adopted, s->adopted, sizeof(d->adopted));
	memcpy(d->digest_key, s->digest_key, sizeof(d->digest_key));
	memcpy(d->name, s->name, sizeof(d->name));
	d->created = cpu_to_le64(s->created);
	d->updated = cpu_to_le64(s->updated);
	d->data_sectors = cpu_to_le64(s->data_sectors);
	d->map_start = cpu_to_le64(s->map_start);
	d->map_sectors = cpu_to_le32(s->map_sectors);
	d->region_shift = cpu_to_le32(s->region_shift);
	d->leg = cpu_to_le32(s->leg);
	d->state = cpu_to_le32(s->state);
	d->map_epoch = cpu_to_le64(s->map_epoch);
	d->map_epochs = cpu_to_le64(s->map_epochs);
	put_generation(&d->cur, &s->cur);
	put_generation(&d->base, &s->base);
	d->moved_to = cpu_to_le64(s->moved_to);
	d->moved_from = cpu_to_le64(s->moved_from);
	memcpy(d->log_uuid, s->log_uuid, sizeof(d->log_uuid));
	d->log_state = cpu_to_le32(s->log_state);
	d->other_seq = cpu_to_le64(s->other_seq);
	d->alone_seq = cpu_to_le64(s->alone_seq);
	d->owner = cpu_to_le64(s->owner);
	for (i = 0; i < LOCKSTEP_HISTORY; i++) {
		put_generation(&d->history[i].generation, &s->history[i].gen);
		d->history[i].time = cpu_to_le64(s->history[i].time);
		d->history[i].why = cpu_to_le32(s->history[i].why);
		d->history[i].leg = cpu_to_le32(s->history[i].leg);
	}
	d->crc = cpu_to_le32(crc_of(d, sizeof(*d)));
}

static void get_fields(struct super *s, const struct lockstep_slot *d)
{
	int i;

	s->compat = le32_to_cpu(d->compat);
	s->ro_compat = le32_to_cpu(d->ro_compat);
	s->incompat = le32_to_cpu(d->incompat);
	s->active = le32_to_cpu(d->flags) & LOCKSTEP_ACTIVE;
	s->seq = le64_to_cpu(d->seq);
	memcpy(s->set_uuid, d->set_uuid, sizeof(s->set_uuid));
	memcpy(s->leg_uuid, d->leg_uuid, sizeof(s->leg_uuid));
	memcpy(s->adopted, d->adopted, sizeof(s->adopted));
	memcpy(s->digest_key, d->digest_key, sizeof(s->digest_key));
	memcpy(s->name, d->name, sizeof(s->name));
	s->created = le64_to_cpu(d->created);
	s->updated = le64_to_cpu(d->updated);
	s->data_sectors = le64_to_cpu(d->data_sectors);
	s->map_start = le64_to_cpu(d->map_start);
	s->map_sectors = le32_to_cpu(d->map_sectors);
	s->region_shift = le32_to_cpu(d->region_shift);
	s->leg = le32_to_cpu(d->leg);
	s->state = le32_to_cpu(d->state);
	s->map_epoch = le64_to_cpu(d->map_epoch);
	s->map_epochs = le64_to_cpu(d->map_epochs);
	s->cur = get_generation(&d->cur);
	s->base = get_generation(&d->base);
	s->moved_to = le64_to_cpu(d->moved_to);
	s->moved_from = le64_to_cpu(d->moved_from);
	memcpy(s->log_uuid, d->log_uuid, sizeof(s->log_uuid));
	s->log_state = le32_to_cpu(d->log_state);
	s->log_applied = le64_to_cpu(d->log_applied);
	s->other_seq = le64_to_cpu(d->other_seq);
	s->alone_seq = le64_to_cpu(d->alone_seq);
	s->owner = le64_to_cpu(d->owner);
	for (i = 0; i < LOCKSTEP_HISTORY; i++) {
		s->history[i].gen = get_generation(&d->history[i].generation);
		s->history[i].time = le64_to_cpu(d->history[i].time);
		s->history[i].why = le32_to_cpu(d->history[i].why);
		s->history[i].leg = le32_to_cpu(d->history[i].leg);
	}
}

static bool layout_good(const struct super *s, u64 dev_sectors)
{
	u64 slots = lockstep_slots_start(dev_sectors), regions;

	if (s->region_shift < LOCKSTEP_SHIFT_MIN || s->region_shift > LOCKSTEP_SHIFT_MAX ||
	    !s->data_sectors || s->data_sectors > LOCKSTEP_SECTORS_MAX ||
	    s->data_sectors > s->map_start || s->map_start > slots ||
	    s->map_sectors > slots - s->map_start ||
	    (s->map_start | s->map_sectors) & (LOCKSTEP_MAP_PAGE - 1))
		return false;
	regions = lockstep_regions(s->data_sectors, s->region_shift);
	return regions <= LOCKSTEP_REGIONS_MAX &&
	       lockstep_map_sectors((u32)regions) <= s->map_sectors;
}

/* Neither lies where data or a map may be. */
static bool moves_good(const struct super *s, u64 dev_sectors)
{
	if ((s->moved_to | s->moved_from) & (LOCKSTEP_SLOT_SECTORS - 1))
		return false;
	if (s->moved_to && (s->moved_from || s->moved_to <= lockstep_slots_start(dev_sectors) ||
			    s->moved_to > LOCKSTEP_SECTORS_MAX))
		return false;
	return !s->moved_from || (s->moved_from >= s->data_sectors &&
				  s->moved_from < s->map_start &&
				  s->map_start - s->moved_from >= LOCKSTEP_SLOTS_SECTORS);
}

static bool log_good(const struct super *s)
{
	return s->log_state <= LOCKSTEP_LOG_LEFT &&
	       !s->log_state == !(s->ro_compat & LOCKSTEP_RO_LOG);
}

static bool state_good(const struct super *s)
{
	if (s->leg > LOCKSTEP_REMOTE || s->name[LOCKSTEP_NAME_BYTES - 1] ||
	    s->map_epoch > s->map_epochs || !generation_is(&s->cur, &s->history[0].gen))
		return false;
	switch (s->state) {
	case LOCKSTEP_ALONE:
		return !generation_none(&s->cur) && !generation_is(&s->cur, &s->base);
	case LOCKSTEP_SYNC:
	case LOCKSTEP_TARGET:
		return !generation_none(&s->cur) && generation_none(&s->base);
	case LOCKSTEP_NEW:
		return generation_none(&s->cur) && !generation_none(&s->base);
	default:
		return false;
	}
}

enum super_reason super_unpack(const void *slot, u64 dev_sectors, struct super *s, u64 *detail)
{
	const struct lockstep_slot *d = slot;
	u32 unknown = (le32_to_cpu(d->incompat) & ~LOCKSTEP_INCOMPAT) |
		      (le32_to_cpu(d->ro_compat) & ~LOCKSTEP_RO_COMPAT);

	*detail = 0;
	if (le64_to_cpu(d->magic) != LOCKSTEP_MAGIC)
		return SUPER_NO_MAGIC;
	if (le32_to_cpu(d->crc) != crc_of(d, sizeof(*d)))
		return SUPER_BAD_CRC;
	if (le32_to_cpu(d->version) != LOCKSTEP_VERSION) {
		*detail = le32_to_cpu(d->version);
		return SUPER_BAD_VERSION;
	}
	if (unknown) {
		*detail = unknown;
		return SUPER_BAD_FEATURES;
	}
	if (le64_to_cpu(d->slots_start) != lockstep_slots_start(dev_sectors)) {
		*detail = le64_to_cpu(d->slots_start);
		return SUPER_MOVED;
	}
	get_fields(s, d);
	if (!layout_good(s, dev_sectors) || !moves_good(s, dev_sectors))
		return SUPER_BAD_LAYOUT;
	return state_good(s) && log_good(s) ? SUPER_OK : SUPER_BAD_STATE;
}

static void refuse(struct super_found *found, enum super_reason reason, u64 detail)
{
	found->kind = reason == SUPER_NO_MAGIC ? SUPER_BLANK : SUPER_BAD;
	found->reason = reason;
	found->detail = detail;
}

static bool whole(enum super_reason r)
{
	return r != SUPER_NO_MAGIC && r != SUPER_BAD_CRC;
}

void super_find(const void *slots, u64 dev_sectors, struct super_found *found)
{
	const struct lockstep_slot *slot = slots;
	u64 detail[LOCKSTEP_SLOTS];
	enum super_reason r[LOCKSTEP_SLOTS];
	unsigned int i, best = 0;

	memset(found, 0, sizeof(*found));
	if (!lockstep_slots_start(dev_sectors)) {
		refuse(found, SUPER_TOO_SMALL, 0);
		return;
	}
	for (i = 0; i < LOCKSTEP_SLOTS; i++)
		r[i] = super_unpack(&slot[i], dev_sectors, &found->super, &detail[i]);
	for (i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (whole(r[i]) && r[i] != SUPER_OK) {
			refuse(found, r[i], detail[i]);
			return;
		}
	}
	if (r[0] != SUPER_OK && r[1] != SUPER_OK) {
		refuse(found, r[0] == r[1] ? r[0] : SUPER_BAD_CRC, 0);
		return;
	}
	if (r[0] == SUPER_OK && r[1] == SUPER_OK) {
		if (slot[0].seq == slot[1].seq && memcmp(&slot[0], &slot[1], sizeof(*slot))) {
			refuse(found, SUPER_SLOTS_DIFFER, 0);
			return;
		}
		best = le64_to_cpu(slot[1].seq) > le64_to_cpu(slot[0].seq);
	} else {
		best = r[1] == SUPER_OK;
	}
	get_fields(&found->super, &slot[best]);
	found->kind = SUPER_VALID;
	if (found->super.moved_to)
		refuse(found, SUPER_MOVED_ON, found->super.moved_to);
}

bool super_moved_back(const struct super *s, const void *slots)
{
	struct super_found there;

	super_find(slots, s->moved_from + LOCKSTEP_SLOTS_SECTORS, &there);
	return (there.kind == SUPER_VALID || there.reason == SUPER_MOVED_ON) &&
	       !memcmp(there.super.leg_uuid, s->leg_uuid, sizeof(s->leg_uuid)) &&
	       there.super.seq > s->seq;
}

static const char * const reasons[SUPER_REASONS] = {
	[SUPER_OK] = "it is good",
	[SUPER_UNREADABLE] = "its superblock can't be read: I/O error",
	[SUPER_TOO_SMALL] = "the device is too small for a superblock",
	[SUPER_NO_MAGIC] = "no lockstep superblock at the end of the device: wrong device, or its size has changed",
	[SUPER_BAD_CRC] = "the superblock's checksum is wrong in both copies: damaged",
	[SUPER_BAD_LAYOUT] = "the superblock's layout doesn't fit the device: truncated, or a copy of another one",
	[SUPER_BAD_STATE] = "the superblock contradicts itself: written by a faulty program",
	[SUPER_SLOTS_DIFFER] = "the superblock's two copies have the same number and differ: two hosts wrote it",
	[SUPER_MOVED_BACK] = "the superblock at the end of the device is one that a growth has left half-way, and isn't the leg's newest: lockstep grow finds that",
};

int super_reason_text(const struct super_found *found, char *buf, size_t size)
{
	unsigned long long detail = found->detail;

	switch (found->reason) {
	case SUPER_BAD_VERSION:
		return scnprintf(buf, size, "the superblock has format version %llu, this lockstep knows %u: use the one that it was made with, or a newer one",
				 detail, LOCKSTEP_VERSION);
	case SUPER_BAD_FEATURES:
		return scnprintf(buf, size, "the superblock has unknown features %#llx: use a newer lockstep",
				 detail);
	case SUPER_MOVED:
		return scnprintf(buf, size, "the superblock was written for sector %llu of a device, and lies elsewhere: the device's size or start has changed",
				 detail);
	case SUPER_MOVED_ON:
		return scnprintf(buf, size, "the superblock has moved on to sector %llu, for the device was larger: make it as large again, then lockstep grow",
				 detail);
	default:
		return scnprintf(buf, size, "%s", reasons[found->reason]);
	}
}

void super_set_log(struct super *s, const u8 uuid[16], u32 state)
{
	memcpy(s->log_uuid, uuid, sizeof(s->log_uuid));
	s->log_state = state;
	s->ro_compat &= ~LOCKSTEP_RO_LOG;
	if (state)
		s->ro_compat |= LOCKSTEP_RO_LOG;
}

void super_touch(struct super *s, u64 now, u64 owner)
{
	s->seq++;
	s->updated = now;
	s->owner = owner;
}

const char *super_state_name(u32 state)
{
	static const char * const names[] = {
		[LOCKSTEP_SYNC] = "sync",
		[LOCKSTEP_ALONE] = "alone",
		[LOCKSTEP_TARGET] = "target",
		[LOCKSTEP_NEW] = "new",
	};

	return state < ARRAY_SIZE(names) && names[state] ? names[state] : "unknown";
}

const char *super_why_name(u32 why)
{
	static const char * const names[] = {
		[LOCKSTEP_WHY_CREATED] = "created",
		[LOCKSTEP_WHY_FAILED] = "other leg failed",
		[LOCKSTEP_WHY_TIMEOUT] = "other leg stopped answering",
		[LOCKSTEP_WHY_TOLD] = "told to go on alone",
		[LOCKSTEP_WHY_ABSENT] = "assembled without the other leg",
		[LOCKSTEP_WHY_NEW_LEG] = "new device for the other leg",
	};

	return why < ARRAY_SIZE(names) && names[why] ? names[why] : "unknown";
}

void super_uuid_text(const u8 uuid[16], char buf[UUID_TEXT])
{
	int i, n = 0;

	for (i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			buf[n++] = '-';
		n += scnprintf(buf + n, UUID_TEXT - n, "%02x", uuid[i]);
	}
}

int super_history_text(const struct super *s, char *buf, size_t size)
{
	int i, n = scnprintf(buf, size, "%s", generation_none(&s->history[0].gen) ? "none" : "");

	for (i = 0; i < LOCKSTEP_HISTORY && !generation_none(&s->history[i].gen); i++) {
		const struct generation_event *e = &s->history[i];

		n += scnprintf(buf + n, size - n, "%sgeneration %u:%016llx since %llu on the %s leg (%s)",
			       i ? "\n" : "", e->gen.count, (unsigned long long)e->gen.id,
			       (unsigned long long)e->time,
			       e->leg == LOCKSTEP_LOCAL ? "local" : "remote",
			       super_why_name(e->why));
	}
	return n;
}

void map_sector_init(struct lockstep_map_sector *s, u32 index, u64 epoch)
{
	memset(s, 0, sizeof(*s));
	s->index = cpu_to_le32(index);
	s->epoch = cpu_to_le64(epoch);
	map_sector_seal(s);
}

void map_sector_seal(struct lockstep_map_sector *s)
{
	s->crc = cpu_to_le32(crc_of(s, sizeof(*s)));
}

enum map_sector_kind map_sector_check(const struct lockstep_map_sector *s, u32 index, u64 epoch)
{
	if (!epoch)
		return MAP_SECTOR_CLEAR;
	if (le32_to_cpu(s->crc) != crc_of(s, sizeof(*s)) || le32_to_cpu(s->index) != index)
		return MAP_SECTOR_BAD;
	return le64_to_cpu(s->epoch) == epoch ? MAP_SECTOR_VALID : MAP_SECTOR_CLEAR;
}

enum map_sector_kind map_sector_take(struct lockstep_map_sector *s, u32 index, u64 epoch)
{
	enum map_sector_kind kind = map_sector_check(s, index, epoch);

	if (kind == MAP_SECTOR_VALID)
		return kind;
	map_sector_init(s, index, epoch);
	if (kind == MAP_SECTOR_BAD) {
		memset(s->bits, 0xff, sizeof(s->bits));
		map_sector_seal(s);
	}
	return kind;
}
