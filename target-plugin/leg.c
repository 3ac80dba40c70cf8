// SPDX-License-Identifier: GPL-2.0-only
#include "leg.h"

static bool valid(const struct lockstep_slot *s, u64 data_sectors)
{
	return le64_to_cpu(s->magic) == LOCKSTEP_MAGIC &&
	       le32_to_cpu(s->version) == LOCKSTEP_VERSION &&
	       le64_to_cpu(s->slots_start) == lockstep_slots_start(data_sectors) &&
	       le32_to_cpu(s->crc) == crc32c(~0U, (const u8 *)s + sizeof(s->crc),
					     sizeof(*s) - sizeof(s->crc));
}

bool dcd_leg_left(const void *slots, u64 data_sectors, const u8 log_uuid[16])
{
	const struct lockstep_slot *slot = slots, *newest = NULL;
	unsigned int i;

	for (i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (valid(&slot[i], data_sectors) &&
		    (!newest || le64_to_cpu(slot[i].seq) > le64_to_cpu(newest->seq)))
			newest = &slot[i];
	}
	return newest && le32_to_cpu(newest->log_state) == LOCKSTEP_LOG_LEFT &&
	       !memcmp(newest->log_uuid, log_uuid, sizeof(newest->log_uuid));
}
