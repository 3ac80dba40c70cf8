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
	bool first;		/* no matter which one */
};

static time_t clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static bool over(const struct search *s)
{
	if (s->first && s->found->kind != SUPER_BLANK)
		return true;
	return s->until && clock_now() >= s->until;
}

static bool is_slot(const struct lockstep_slot *slot, u64 sector)
{
	u64 start = le64toh(slot->slots_start);

	return le64toh(slot->magic) == LOCKSTEP_MAGIC &&
	       (start == sector || start + LOCKSTEP_SLOT_SECTORS == sector);
}

/* Of one leg they count; of two, a device that only grows has the newer one at its end. */
static bool newer(const struct super *a, u64 a_end, const struct super *b, u64 b_end)
{
	if (!memcmp(a->leg_uuid, b->leg_uuid, sizeof(a->leg_uuid)) && a->seq != b->seq)
		return a->seq > b->seq;
	return a_end > b_end;
}

static bool is_there(const struct super_found *found)
{
	return found->kind == SUPER_VALID || found->reason == SUPER_MOVED_ON;
}

/*
 * The other end of a move that @found was a part of, or SUPER_BLANK if it is @found that
 * counts. Of another leg: what is moved to was overwritten later, what is moved from isn't
 * ours. Returns where it is, or 0 with the reason in @found.
 */
static u64 other_end(const struct device *d, struct super_found *found, struct super_found *other)
{
	static u8 slots[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));
	const struct super *s = &found->super;
	bool on = found->reason == SUPER_MOVED_ON, same;
	u64 to = on ? s->moved_to : s->moved_from;

	if (to + LOCKSTEP_SLOTS_SECTORS > d->sectors)
		return 0;
	if (!device_try_read(d, slots, sizeof(slots), to)) {
		found->reason = SUPER_UNREADABLE;
		return 0;
	}
	super_find(slots, to + LOCKSTEP_SLOTS_SECTORS, other);
	same = !memcmp(other->super.leg_uuid, s->leg_uuid, sizeof(s->leg_uuid));
	if (!is_there(other) || (same ? other->super.seq <= s->seq : !on))
		*other = (struct super_found){ .kind = SUPER_BLANK };
	return to;
}

/*
 * From the superblock at @start to the one that counts, if that is another. A few steps: a leg
 * moves once for each growth that was cut short. Returns where it is.
 */
static u64 follow(const struct device *d, u64 start, struct super_found *found)
{
	struct super_found other;

	for (int steps = 0; steps < 16; steps++) {
		u64 to;

		if (found->reason != SUPER_MOVED_ON && !found->super.moved_from)
			return start;
		to = other_end(d, found, &other);
		if (!to)
			break;
		if (!is_there(&other)) {
			found->kind = SUPER_VALID;
			found->reason = SUPER_OK;
			return start;
		}
		start = to;
		*found = other;
	}
	found->kind = SUPER_BAD;
	return start;
}

/* Both slots, read from @start, as if the device ended behind them. */
static void take(const struct search *s, const u8 *slots, u64 start)
{
	struct super_found found;
	u64 end;

	super_find(slots, start + LOCKSTEP_SLOTS_SECTORS, &found);
	if (!is_there(&found) || s->found->kind == SUPER_BAD)
		return;
	end = follow(s->d, start, &found) + LOCKSTEP_SLOTS_SECTORS;
	if (found.kind == SUPER_VALID && s->found->kind == SUPER_VALID &&
	    !newer(&found.super, end, &s->found->super, *s->sectors))
		return;
	*s->found = found;
	*s->sectors = end;
}

/* Every slot in [@from, @to), from the end on. Both are multiples of a slot. */
static void each_slot(const struct search *s, u64 from, u64 to)
{
	static u8 block[DEVICE_MOST] __attribute__((aligned(4096)));
	static u8 slots[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));

	while (to > from && !over(s)) {
		u64 step = device_at_once(s->d) / 512, at = to;
		u64 start = to - from > step ? to - step : from;

		to = start;
		if (!device_try_read(s->d, block, (at - start) * 512, start)) {
			/* Not the next part, which is likely to take as long until it fails. */
			to = at - from > sizeof(block) / 512 ? at - sizeof(block) / 512 : from;
			continue;
		}
		while (at > start && !(s->first && s->found->kind != SUPER_BLANK)) {
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
		size_t most = device_at_once(s->d) / LOCKSTEP_SLOTS_BYTES;
		u32 n = 0;

		for (; n < DEVICE_MANY && n < most && end && count; n++, count--, end -= step)
			start[n] = lockstep_slots_start(end);
		device_read_many(s->d, slots[0], LOCKSTEP_SLOTS_BYTES, start, n, good);
		for (u32 i = 0; i < n; i++) {
			if (good[i])
				take(s, slots[i], start[i]);
		}
	}
}

static void likely(const struct search *s, u64 data_sectors)
{
	u64 end = s->d->sectors / LOCKSTEP_SLOT_SECTORS * LOCKSTEP_SLOT_SECTORS;
	u64 from = data_sectors / LOCKSTEP_SLOT_SECTORS * LOCKSTEP_SLOT_SECTORS;

	*s->found = (struct super_found){ .kind = SUPER_BLANK };
	each_end(s, s->d->sectors, COARSE_STEP, COARSE_STEPS);
	if (from && from < end)
		each_slot(s, from, end - from > DENSE ? from + DENSE : end);
	each_end(s, s->d->sectors, FINE_STEP, FINE / FINE_STEP);
	each_slot(s, end > DENSE ? end - DENSE : 0, end);
}

int search_likely(const struct device *d, u64 data_sectors, struct super_found *found,
		  u64 *sectors)
{
	struct search s = { .d = d, .found = found, .sectors = sectors,
			    .until = clock_now() + SEARCH_SECONDS };

	likely(&s, data_sectors);
	return over(&s) ? SEARCH_ENDED : 0;
}

void search_all(const struct device *d, struct super_found *found, u64 *sectors)
{
	struct search s = { .d = d, .found = found, .sectors = sectors };

	likely(&s, 0);
	if (found->kind != SUPER_BLANK)
		return;
	s.first = true;
	fprintf(stderr, "lockstep-meta: %s: no superblock at its end: all of it is read, to find an older one\n",
		d->path);
	each_slot(&s, 0, lockstep_slots_start(d->sectors));
}

/*
 * A bit for each slot that is one of this place, and in @unread for each that can't be read, for a
 * while: what is written over for that may be somebody's data.
 */
static u32 slots_at(const struct device *d, u64 start, u32 *unread)
{
	static u8 block[LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	const struct lockstep_slot *slot = (void *)block;
	u32 there = 0;

	*unread = 0;
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		u64 at = start + i * LOCKSTEP_SLOT_SECTORS;

		if (!device_patient_read(d, block, sizeof(block), at))
			*unread |= 1U << i;
		else if (is_slot(slot, at) && le64toh(slot->slots_start) == start)
			there |= 1U << i;
	}
	return there;
}

/* Each of these. */
static int put_each(const struct device *d, u64 start, u32 there, const u8 *slot)
{
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (there & 1U << i && (device_write(d, slot, LOCKSTEP_SLOT_BYTES,
						    start + i * LOCKSTEP_SLOT_SECTORS) ||
				       device_flush(d)))
			return -1;
	}
	return 0;
}

int search_clear(const struct device *d, u64 sectors)
{
	static u8 slots[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));
	static const u8 zeroes[LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	u64 start = lockstep_slots_start(sectors);
	u32 unread, there = slots_at(d, start, &unread);

	/* What can't be read now may be there later. */
	if (unread && device_read(d, slots, sizeof(slots), start))
		return -1;
	return put_each(d, start, there, zeroes);
}

int search_put(const struct device *d, u64 sectors, const struct super *s)
{
	static u8 slot[LOCKSTEP_SLOT_BYTES] __attribute__((aligned(4096)));
	u64 start = lockstep_slots_start(sectors);
	u32 unread, there = slots_at(d, start, &unread);

	if (!there || (sectors != d->sectors && (there | unread) != (1U << LOCKSTEP_SLOTS) - 1)) {
		fprintf(stderr, "lockstep-meta: %s: where its superblock was there is something else by now: nothing was changed\n",
			d->path);
		return -1;
	}
	super_pack(s, sectors, slot);
	/* Who comes next may be able to read only the one that can't be read now: a write may mend it. */
	if (sectors == d->sectors && unread) {
		fprintf(stderr, "lockstep-meta: %s: one of the two copies of its superblock can't be read: it is written anew (a block of %u sectors in the last %u)\n",
			d->path, LOCKSTEP_SLOT_SECTORS, LOCKSTEP_SLOTS_SECTORS);
		there |= unread;
	}
	if (put_each(d, start, there, slot))
		return -1;
	if (there == (1U << LOCKSTEP_SLOTS) - 1 || !unread)
		return 0;
	fprintf(stderr, "lockstep-meta: %s: only one of the two copies of its superblock says so: the other one can't be read, and may be something else's by now\n",
		d->path);
	return -1;
}
