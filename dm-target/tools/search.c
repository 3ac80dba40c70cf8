// SPDX-License-Identifier: GPL-2.0-only
/* The superblock of a device that has grown. */
#include <stdbool.h>
#include <time.h>

#include "search.h"

#define MIB		2048ULL		/* in sectors */
#define GIB		(1024 * MIB)
#define DENSE		(64 * MIB)
#define FINE_STEP	(4 * MIB)
#define FINE		(16 * GIB)
#define COARSE_STEP	GIB
#define COARSE_STEPS	16384

struct search {
	const struct device *d;
	struct super_found *found;
	u64 *sectors;
	time_t until;		/* 0: no end */
};

static time_t clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static bool over(const struct search *s)
{
	return s->found->kind == SUPER_VALID || (s->until && clock_now() >= s->until);
}

static bool is_slot(const struct lockstep_slot *slot, u64 sector)
{
	u64 start = le64toh(slot->slots_start);

	return le64toh(slot->magic) == LOCKSTEP_MAGIC &&
	       (start == sector || start + LOCKSTEP_SLOT_SECTORS == sector);
}

/* Both slots, read from @start, as if the device ended behind them. */
static void take(const struct search *s, const u8 *slots, u64 start)
{
	*s->sectors = start + LOCKSTEP_SLOTS_SECTORS;
	super_find(slots, *s->sectors, s->found);
}

/* Every slot in [@from, @to), from the end on. Both are multiples of a slot. */
static void each_slot(const struct search *s, u64 from, u64 to)
{
	static u8 block[256 * LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	static u8 slots[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));
	const u64 step = sizeof(block) / 512;

	while (to > from && !over(s)) {
		u64 start = to - from > step ? to - step : from, at = to;

		to = start;
		if (!device_try_read(s->d, block, (at - start) * 512, start))
			continue;
		while (at > start && s->found->kind != SUPER_VALID) {
			const struct lockstep_slot *slot;

			at -= LOCKSTEP_SLOT_SECTORS;
			slot = (void *)&block[(at - start) * 512];
			if (is_slot(slot, at) &&
			    device_try_read(s->d, slots, sizeof(slots), le64toh(slot->slots_start)))
				take(s, slots, le64toh(slot->slots_start));
		}
	}
}

/* The ends that are multiples of @step, from @to on downwards, at most @count. */
static void each_end(const struct search *s, u64 to, u64 step, u64 count)
{
	static u8 slots[DEVICE_MANY][LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));
	u64 start[DEVICE_MANY], end = to / step * step;
	bool good[DEVICE_MANY];

	while (end && count && !over(s)) {
		u32 n = 0;

		for (; n < DEVICE_MANY && end && count; n++, count--, end -= step)
			start[n] = lockstep_slots_start(end);
		device_read_many(s->d, slots[0], LOCKSTEP_SLOTS_BYTES, start, n, good);
		for (u32 i = 0; i < n && s->found->kind != SUPER_VALID; i++) {
			if (good[i])
				take(s, slots[i], start[i]);
		}
	}
}

int search_likely(const struct device *d, u64 data_sectors, struct super_found *found,
		  u64 *sectors)
{
	struct search s = { d, found, sectors, clock_now() + SEARCH_SECONDS };
	u64 end = lockstep_slots_start(d->sectors);
	u64 from = data_sectors / LOCKSTEP_SLOT_SECTORS * LOCKSTEP_SLOT_SECTORS;

	*found = (struct super_found){ .kind = SUPER_BLANK };
	each_end(&s, d->sectors, COARSE_STEP, COARSE_STEPS);
	if (from && from < end)
		each_slot(&s, from, end - from > DENSE ? from + DENSE : end);
	each_end(&s, d->sectors, FINE_STEP, FINE / FINE_STEP);
	each_slot(&s, end > DENSE ? end - DENSE : 0, end);
	if (found->kind == SUPER_VALID)
		return 0;
	found->kind = SUPER_BLANK;
	return over(&s) ? SEARCH_ENDED : 0;
}

void search_all(const struct device *d, struct super_found *found, u64 *sectors)
{
	struct search s = { d, found, sectors, 0 };

	search_likely(d, 0, found, sectors);
	if (found->kind == SUPER_VALID)
		return;
	fprintf(stderr, "lockstep-meta: %s: no superblock at its end: all of it is read, to find an older one\n",
		d->path);
	each_slot(&s, 0, lockstep_slots_start(d->sectors));
	if (found->kind != SUPER_VALID)
		found->kind = SUPER_BLANK;
}

int search_clear(const struct device *d, u64 sectors)
{
	static u8 slots[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));
	static const u8 zeroes[LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	u64 start = lockstep_slots_start(sectors);

	if (device_read(d, slots, sizeof(slots), start))
		return -1;
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		const struct lockstep_slot *slot = (void *)&slots[i * LOCKSTEP_SLOT_BYTES];
		u64 at = start + i * LOCKSTEP_SLOT_SECTORS;

		if (is_slot(slot, at) && le64toh(slot->slots_start) == start &&
		    device_write(d, zeroes, sizeof(zeroes), at))
			return -1;
	}
	return device_flush(d);
}
