// SPDX-License-Identifier: GPL-2.0-only
/* The superblock of a device that has grown. */
#include "search.h"

#define MIB		2048ULL		/* in sectors */
#define GIB		(1024 * MIB)
#define DENSE		(64 * MIB)
#define FINE_STEP	(4 * MIB)
#define FINE		(16 * GIB)
#define COARSE_STEP	GIB
#define COARSE_STEPS	16384

static bool is_slot(const struct lockstep_slot *slot, u64 sector)
{
	u64 start = le64toh(slot->slots_start);

	return le64toh(slot->magic) == LOCKSTEP_MAGIC &&
	       (start == sector || start + LOCKSTEP_SLOT_SECTORS == sector);
}

/* Both slots at @start, as if the device ended there. */
static int take(const struct device *d, u64 start, struct super_found *found, u64 *sectors)
{
	static u8 slots[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));

	if (device_read(d, slots, sizeof(slots), start))
		return -1;
	*sectors = start + LOCKSTEP_SLOTS_SECTORS;
	super_find(slots, *sectors, found);
	return 0;
}

/* Every slot in [@from, @to), from the end on. Both are multiples of a slot. */
static int each_slot(const struct device *d, u64 from, u64 to, struct super_found *found,
		     u64 *sectors)
{
	static u8 block[256 * LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	const u64 step = sizeof(block) / 512;

	found->kind = SUPER_BLANK;
	while (to > from) {
		u64 start = to - from > step ? to - step : from;

		if (device_read(d, block, (to - start) * 512, start))
			return -1;
		for (u64 at = to; at > start; at -= LOCKSTEP_SLOT_SECTORS) {
			u64 sector = at - LOCKSTEP_SLOT_SECTORS;
			const struct lockstep_slot *slot = (void *)&block[(sector - start) * 512];

			if (!is_slot(slot, sector))
				continue;
			if (take(d, le64toh(slot->slots_start), found, sectors))
				return -1;
			if (found->kind == SUPER_VALID)
				return 0;
		}
		to = start;
	}
	return 0;
}

/* The ends that are multiples of @step, from below @to on, at most @count. */
static int each_end(const struct device *d, u64 to, u64 step, u64 count,
		    struct super_found *found, u64 *sectors)
{
	for (u64 end = to / step * step; end && count--; end -= step) {
		if (take(d, lockstep_slots_start(end), found, sectors))
			return -1;
		if (found->kind == SUPER_VALID)
			return 0;
	}
	return 0;
}

int search_all(const struct device *d, struct super_found *found, u64 *sectors)
{
	return each_slot(d, 0, lockstep_slots_start(d->sectors), found, sectors);
}

int search_likely(const struct device *d, u64 data_sectors, struct super_found *found,
		  u64 *sectors)
{
	u64 end = lockstep_slots_start(d->sectors);
	u64 from = data_sectors / LOCKSTEP_SLOT_SECTORS * LOCKSTEP_SLOT_SECTORS;
	int r;

	r = each_slot(d, end > DENSE ? end - DENSE : 0, end, found, sectors);
	if (!r && found->kind != SUPER_VALID && from && from < end)
		r = each_slot(d, from, end - from > DENSE ? from + DENSE : end, found, sectors);
	if (!r && found->kind != SUPER_VALID)
		r = each_end(d, d->sectors, FINE_STEP, FINE / FINE_STEP, found, sectors);
	if (!r && found->kind != SUPER_VALID)
		r = each_end(d, d->sectors, COARSE_STEP, COARSE_STEPS, found, sectors);
	return r;
}
