// SPDX-License-Identifier: GPL-2.0-only
/* What a DCD writes into the superblock of a mirror's leg, and what the mirror makes of that. */
#include <stdio.h>

#include "../../dm-target/super.h"
#include "leg.h"

#define DEVICE	65536U
#define EPOCH	77U

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			return 1; \
		} \
	} while (0)

static const u8 log_uuid[16] = { 1, 2, 3 }, other_uuid[16] = { 4 };

static struct super leg(u32 log_state)
{
	struct super s = { .seq = 10, .leg = LOCKSTEP_REMOTE, .state = LOCKSTEP_SYNC };
	struct lockstep_layout l;

	if (lockstep_layout(DEVICE, LOCKSTEP_SHIFT_DEFAULT, &l)) {
		s.map_start = l.map_start;
		s.map_sectors = l.map_sectors;
		s.data_sectors = l.map_start;
		s.region_shift = LOCKSTEP_SHIFT_DEFAULT;
	}
	s.cur = s.history[0].gen = (struct generation){ .id = 5, .count = 1 };
	super_set_log(&s, log_uuid, log_state);
	return s;
}

static void both(const struct super *s, u8 *slots)
{
	super_pack(s, DEVICE, slots);
	memcpy(slots + LOCKSTEP_SLOT_BYTES, slots, LOCKSTEP_SLOT_BYTES);
}

static bool finds(const u8 *slots, u64 seq)
{
	struct super_found f;

	super_find(slots, DEVICE, &f);
	return f.kind == SUPER_VALID && f.super.seq == seq &&
	       f.super.log_state == LOCKSTEP_LOG_BEHIND && f.super.state == LOCKSTEP_SYNC;
}

static bool applies(u8 *slots, unsigned int *first)
{
	return dcd_leg_apply(slots, DEVICE, log_uuid, EPOCH, 99, first);
}

static int it_is_said(void)
{
	u8 slots[LOCKSTEP_SLOTS_BYTES], was[sizeof(slots)], mid[sizeof(slots)];
	struct super s = leg(LOCKSTEP_LOG_BEHIND);
	unsigned int first;
	u64 seq;

	both(&s, slots);
	memcpy(was, slots, sizeof(was));
	CHECK(finds(slots, 10));
	CHECK(!dcd_leg_applied(slots, DEVICE, log_uuid, EPOCH));
	CHECK(applies(slots, &first));
	CHECK(dcd_leg_applied(slots, DEVICE, log_uuid, EPOCH) == 99);
	CHECK(!dcd_leg_applied(slots, DEVICE, other_uuid, EPOCH));
	CHECK(!dcd_leg_applied(slots, DEVICE, log_uuid, EPOCH + 1));
	CHECK(!dcd_leg_left(slots, DEVICE, log_uuid));
	seq = le64_to_cpu(((struct lockstep_slot *)slots)->seq);
	CHECK(seq > 11 && finds(slots, seq));
	/* Cut off in the middle of either slot, or between them. */
	for (size_t n = 0; n <= LOCKSTEP_SLOT_BYTES; n += 512) {
		size_t at = first * LOCKSTEP_SLOT_BYTES, then = !first * LOCKSTEP_SLOT_BYTES;

		memcpy(mid, was, sizeof(mid));
		memcpy(mid + at, slots + at, n);
		CHECK(finds(mid, memcmp(mid + at, slots + at, LOCKSTEP_SLOT_BYTES) ? 10 : seq));
		memcpy(mid + at, slots + at, LOCKSTEP_SLOT_BYTES);
		memcpy(mid + then, slots + then, n);
		CHECK(finds(mid, seq));
		CHECK(dcd_leg_applied(mid, DEVICE, log_uuid, EPOCH) == 99);
	}
	return 0;
}

/* It was idle, and knows nothing of it. */
static int the_mirror_goes_on(void)
{
	u8 slots[LOCKSTEP_SLOTS_BYTES];
	struct super s = leg(LOCKSTEP_LOG_BEHIND);
	unsigned int first;

	both(&s, slots);
	CHECK(applies(slots, &first));
	super_touch(&s, 0, 0);
	super_pack(&s, DEVICE, slots);
	CHECK(dcd_leg_applied(slots, DEVICE, log_uuid, EPOCH) == 99);
	CHECK(!finds(slots, 11));
	super_pack(&s, DEVICE, slots + LOCKSTEP_SLOT_BYTES);
	CHECK(finds(slots, 11));
	CHECK(!dcd_leg_applied(slots, DEVICE, log_uuid, EPOCH));
	return 0;
}

static int the_good_slot_stays(void)
{
	struct super s = leg(LOCKSTEP_LOG_BEHIND);

	for (unsigned int bad = 0; bad < LOCKSTEP_SLOTS; bad++) {
		u8 slots[LOCKSTEP_SLOTS_BYTES];
		unsigned int first;

		both(&s, slots);
		slots[bad * LOCKSTEP_SLOT_BYTES + 100] ^= 1;
		CHECK(applies(slots, &first) && first == bad);
		CHECK(dcd_leg_applied(slots, DEVICE, log_uuid, EPOCH) == 99);
	}
	return 0;
}

/* It says where the superblock is to be, and there is none yet. */
static int a_growth_was_cut_short(void)
{
	struct super s = leg(LOCKSTEP_LOG_BEHIND);
	u8 slots[LOCKSTEP_SLOTS_BYTES];
	unsigned int first;

	s.moved_to = 2 * DEVICE;
	both(&s, slots);
	CHECK(dcd_leg_names(slots, DEVICE, log_uuid) && !dcd_leg_names(slots, DEVICE, other_uuid));
	CHECK(applies(slots, &first));
	CHECK(dcd_leg_applied(slots, DEVICE, log_uuid, EPOCH) == 99);
	return 0;
}

static int not_its_leg(void)
{
	u8 slots[LOCKSTEP_SLOTS_BYTES] = { 0 }, was[sizeof(slots)];
	unsigned int first;

	CHECK(!applies(slots, &first));
	for (u32 state = LOCKSTEP_LOG_NONE; state <= LOCKSTEP_LOG_LEFT; state++) {
		struct super s = leg(state);

		if (state == LOCKSTEP_LOG_BEHIND)
			super_set_log(&s, other_uuid, state);
		both(&s, slots);
		memcpy(was, slots, sizeof(was));
		CHECK(!applies(slots, &first) && !memcmp(was, slots, sizeof(was)));
	}
	return 0;
}

int main(void)
{
	return it_is_said() || the_mirror_goes_on() || the_good_slot_stays() ||
	       a_growth_was_cut_short() || not_its_leg();
}
