// SPDX-License-Identifier: GPL-2.0-only
#include "leg.h"

/* Above what a mirror counts up while the DCD takes no writes of it. */
#define SEQ_AHEAD 0x10000U

static u32 crc_of(const struct lockstep_slot *s)
{
	return crc32c(~0U, (const u8 *)s + sizeof(s->crc), sizeof(*s) - sizeof(s->crc));
}

/* It may be torn: these words are the same in each version of a slot of this place. */
static bool lies_here(const struct lockstep_slot *s, u64 data_sectors)
{
	return le64_to_cpu(s->magic) == LOCKSTEP_MAGIC &&
	       le64_to_cpu(s->slots_start) == lockstep_slots_start(data_sectors);
}

static bool valid(const struct lockstep_slot *s, u64 data_sectors)
{
	return lies_here(s, data_sectors) && le32_to_cpu(s->version) == LOCKSTEP_VERSION &&
	       le32_to_cpu(s->crc) == crc_of(s);
}

static const struct lockstep_slot *newest_slot(const void *slots, u64 data_sectors)
{
	const struct lockstep_slot *slot = slots, *newest = NULL;
	unsigned int i;

	for (i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (valid(&slot[i], data_sectors) &&
		    (!newest || le64_to_cpu(slot[i].seq) > le64_to_cpu(newest->seq)))
			newest = &slot[i];
	}
	return newest;
}

bool dcd_leg_names(const void *slots, u64 data_sectors, const u8 log_uuid[16])
{
	const struct lockstep_slot *newest = newest_slot(slots, data_sectors);

	return newest && newest->log_state &&
	       !memcmp(newest->log_uuid, log_uuid, sizeof(newest->log_uuid));
}

bool dcd_leg_names_another(const void *slots, u64 data_sectors, const u8 log_uuid[16])
{
	const struct lockstep_slot *newest = newest_slot(slots, data_sectors);

	return newest && newest->log_state && !dcd_leg_names(slots, data_sectors, log_uuid);
}

unsigned int dcd_leg_slots(const void *slots, u64 data_sectors)
{
	const struct lockstep_slot *slot = slots;
	unsigned int i, there = 0;

	for (i = 0; i < LOCKSTEP_SLOTS; i++)
		if (lies_here(&slot[i], data_sectors))
			there |= 1U << i;
	return there;
}

/* The newest, if it says this of this log, or NULL. */
static const struct lockstep_slot *newest_of(const void *slots, u64 data_sectors,
					     const u8 log_uuid[16], u32 state)
{
	const struct lockstep_slot *newest = newest_slot(slots, data_sectors);

	if (!newest || le32_to_cpu(newest->log_state) != state ||
	    memcmp(newest->log_uuid, log_uuid, sizeof(newest->log_uuid)))
		return NULL;
	return newest;
}

bool dcd_leg_left(const void *slots, u64 data_sectors, const u8 log_uuid[16])
{
	return newest_of(slots, data_sectors, log_uuid, LOCKSTEP_LOG_LEFT);
}

bool dcd_leg_may_lie(const struct dcd_super *s, u64 disk, u64 sector, u64 last)
{
	u32 i;

	for (i = 0; i < DCD_ENDS; i++) {
		u64 at = lockstep_slots_start(dcd_data_end(s, disk, i));

		if (at && sector < at + LOCKSTEP_SLOTS_SECTORS && last >= at)
			return true;
	}
	return false;
}

u64 dcd_leg_applied(const void *slots, u64 data_sectors, const u8 log_uuid[16], u64 epoch)
{
	const struct lockstep_slot *s = newest_of(slots, data_sectors, log_uuid,
						  LOCKSTEP_LOG_BEHIND);

	return s && le64_to_cpu(s->log_epoch) == epoch ? le64_to_cpu(s->log_applied) : 0;
}

/*
 * A mirror that was idle writes its next superblock, with its next seq, to slot 0 first: if that
 * is cut off, what is here counts yet, and is what the mirror had before. With the next seq
 * here, too, there would be two with the same.
 */
bool dcd_leg_apply(void *slots, u64 data_sectors, const u8 log_uuid[16], u64 epoch, u64 applied,
		   unsigned int *first)
{
	const struct lockstep_slot *newest = newest_of(slots, data_sectors, log_uuid,
						       LOCKSTEP_LOG_BEHIND);
	struct lockstep_slot *slot = slots;

	if (!newest)
		return false;
	*first = newest == slot;
	slot[*first] = *newest;
	slot[*first].seq = cpu_to_le64(le64_to_cpu(newest->seq) + SEQ_AHEAD);
	slot[*first].log_epoch = cpu_to_le64(epoch);
	slot[*first].log_applied = cpu_to_le64(applied);
	slot[*first].crc = cpu_to_le32(crc_of(&slot[*first]));
	slot[!*first] = slot[*first];
	return true;
}
