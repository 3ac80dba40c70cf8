// SPDX-License-Identifier: GPL-2.0-only
/*
 * format-test slots|refused|maps|layout|fuzz: what super.h promises of damaged, torn and
 * arbitrary bytes. Built under the sanitizers. Exit code 0, or the first broken
 * promise on stderr.
 */
#include <stdlib.h>

#include "life.h"
#include "verdict.h"

#define DEVICE	200000ULL	/* sectors */
#define FUZZ	200000

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			exit(1); \
		} \
	} while (0)

static u64 seed = 1;

/* splitmix64 */
static u64 rnd(void)
{
	u64 z = (seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static u64 below(u64 n)
{
	return rnd() % n;
}

static void fill(void *p, size_t n)
{
	for (u8 *b = p; n--; b++)
		*b = (u8)rnd();
}

/* A superblock in some state, after some life. */
static void some_super(struct super *s)
{
	struct super other = { .leg_uuid = { 9 } };
	struct lockstep_layout layout;

	memset(s, 0, sizeof(*s));
	CHECK(lockstep_layout(DEVICE, 11, &layout));
	s->map_start = layout.map_start;
	s->map_sectors = layout.map_sectors;
	s->data_sectors = layout.map_start - below(1000);
	s->region_shift = 11;
	s->leg = (u32)below(2);
	fill(s->set_uuid, 16);
	fill(s->leg_uuid, 16);
	strcpy(s->name, "mirror");
	super_create_sync(s, rnd() | 1, rnd() >> 1, below(1ULL << 40));
	for (u64 n = below(12); n--;) {
		switch (below(5)) {
		case 0: CHECK(super_go_alone(s, rnd() | 1, rnd(), (u32)below(7)) >= 0); break;
		case 1: CHECK(!super_in_sync(s)); break;
		case 2: super_new_map(s); break;
		case 3: super_set_active(s, !s->active); break;
		case 4: CHECK(!super_adopt(s, &other, rnd() | 1, rnd())); break;
		}
		super_touch(s, rnd(), rnd());
	}
	other = *s;
	if (!below(4))
		CHECK(!super_join(s, &other));
	else if (!below(4))
		super_give_up(s, &other);
}

/* Padding may differ, so what is compared is what would be written. */
static bool same(const struct super *a, const struct super *b)
{
	static u8 x[LOCKSTEP_SLOT_BYTES], y[LOCKSTEP_SLOT_BYTES];

	super_pack(a, DEVICE, x);
	super_pack(b, DEVICE, y);
	return !memcmp(x, y, sizeof(x));
}

static struct lockstep_slot slots[2];
static struct super_found found;

static enum super_kind find(void)
{
	super_find(slots, DEVICE, &found);
	return found.kind;
}

static void reseal(struct lockstep_slot *slot)
{
	slot->crc = htole32(crc32c(~0U, (u8 *)slot + 4, sizeof(*slot) - 4));
}

static void test_bit_flips(const struct super *s)
{
	struct super got;
	u64 detail;
	u8 *bytes = (u8 *)&slots[0];

	for (u32 bit = 0; bit < LOCKSTEP_SLOT_BYTES * 8; bit++) {
		super_pack(s, DEVICE, &slots[0]);
		slots[1] = slots[0];
		bytes[bit / 8] ^= (u8)(1U << bit % 8);
		CHECK(super_unpack(&slots[0], DEVICE, &got, &detail) != SUPER_OK);
		if (bit % 61)
			continue;
		/* The other slot stands in; if that is damaged too, nobody does. */
		CHECK(find() == SUPER_VALID && same(&found.super, s));
		((u8 *)&slots[1])[below(LOCKSTEP_SLOT_BYTES)] ^= (u8)(1U << below(8));
		CHECK(find() != SUPER_VALID);
	}
}

/* Slot 0 or 1 is torn after @n bytes, at an update from @old to @new. */
static void torn(const struct super *old, const struct super *new, int which, u32 n)
{
	static u8 a[LOCKSTEP_SLOT_BYTES], b[LOCKSTEP_SLOT_BYTES];
	u8 *torn_slot = (u8 *)&slots[which];

	super_pack(old, DEVICE, a);
	super_pack(new, DEVICE, b);
	memcpy(&slots[0], which ? b : a, sizeof(a));
	memcpy(&slots[1], a, sizeof(a));
	memcpy(torn_slot, b, n);
	CHECK(find() == SUPER_VALID);
	if (which)
		CHECK(same(&found.super, new));
	else
		CHECK(same(&found.super, memcmp(torn_slot, b, sizeof(b)) ? old : new));
	/* What wasn't written can't be read, or is something else. */
	memset(torn_slot + n, 0xa5, sizeof(a) - n);
	CHECK(find() == SUPER_VALID);
	CHECK(same(&found.super, which || n == sizeof(a) ? new : old));
}

static void test_slots(void)
{
	struct super s, next;
	u64 detail;

	for (int i = 0; i < 500; i++) {
		some_super(&s);
		super_pack(&s, DEVICE, &slots[0]);
		CHECK(super_unpack(&slots[0], DEVICE, &next, &detail) == SUPER_OK);
		CHECK(same(&s, &next));
		/* It is whole there, and nowhere else. */
		CHECK(super_unpack(&slots[0], DEVICE + 8, &next, &detail) == SUPER_MOVED);
		CHECK(detail == lockstep_slots_start(DEVICE));
	}
	test_bit_flips(&s);
	for (u32 n = 0; n <= LOCKSTEP_SLOT_BYTES; n++) {
		some_super(&s);
		next = s;
		super_set_active(&next, !s.active);
		super_touch(&next, rnd(), rnd());
		torn(&s, &next, 0, n);
		torn(&s, &next, 1, n);
	}
}

static void test_refused(void)
{
	struct super s, other;

	some_super(&s);
	super_pack(&s, DEVICE, &slots[0]);
	slots[1] = slots[0];
	CHECK(find() == SUPER_VALID);
	other = s;
	other.updated++;
	super_pack(&other, DEVICE, &slots[1]);
	CHECK(find() == SUPER_BAD && found.reason == SUPER_SLOTS_DIFFER);

	/* A newer program's slot isn't passed over for our older one, nor the other way. */
	for (int i = 0; i < 2; i++) {
		super_pack(&s, DEVICE, &slots[0]);
		slots[1] = slots[0];
		slots[i].version = htole32(3);
		reseal(&slots[i]);
		CHECK(find() == SUPER_BAD && found.reason == SUPER_BAD_VERSION && found.detail == 3);
		slots[i] = slots[!i];
		slots[i].incompat = htole32(0x80);
		reseal(&slots[i]);
		CHECK(find() == SUPER_BAD && found.reason == SUPER_BAD_FEATURES && found.detail == 0x80);
		slots[i] = slots[!i];
		slots[i].ro_compat = htole32(0x80);
		reseal(&slots[i]);
		CHECK(find() == SUPER_BAD && found.reason == SUPER_BAD_FEATURES);
		slots[i] = slots[!i];
		slots[i].compat = htole32(1);
		slots[!i].compat = htole32(1);
		reseal(&slots[0]);
		reseal(&slots[1]);
		CHECK(find() == SUPER_VALID && found.super.compat == 1);
	}
	memset(slots, 0, sizeof(slots));
	CHECK(find() == SUPER_BLANK);
	super_find(slots, 15, &found);
	CHECK(found.kind == SUPER_BAD && found.reason == SUPER_TOO_SMALL);
}

/* @s at the end, and what is where it says it has moved from. */
static bool moved_back(const struct super *s, const struct super *there)
{
	super_pack(there, s->moved_from + LOCKSTEP_SLOTS_SECTORS, &slots[0]);
	slots[1] = slots[0];
	return super_moved_back(s, slots);
}

static void test_moves(void)
{
	const u64 start = lockstep_slots_start(DEVICE);
	const u64 bad_to[] = { 8, start - 8, start, start + 12, LOCKSTEP_SECTORS_MAX + 8 };
	struct super s, old;

	for (int i = 0; i < 200; i++) {
		some_super(&s);
		s.moved_to = start + 8 * (1 + below(1000));
		super_pack(&s, DEVICE, &slots[0]);
		slots[1] = slots[0];
		CHECK(find() == SUPER_BAD && found.reason == SUPER_MOVED_ON);
		CHECK(found.detail == s.moved_to && same(&found.super, &s));
		/* A torn pointer: the older slot, without one, still counts. */
		old = s;
		old.seq--;
		old.moved_to = 0;
		super_pack(&old, DEVICE, &slots[1]);
		((u8 *)&slots[0])[below(LOCKSTEP_SLOT_BYTES)] ^= 1;
		CHECK(find() == SUPER_VALID && same(&found.super, &old));
	}
	for (u32 i = 0; i < sizeof(bad_to) / sizeof(*bad_to); i++) {
		s.moved_to = bad_to[i];
		super_pack(&s, DEVICE, &slots[0]);
		slots[1] = slots[0];
		CHECK(find() == SUPER_BAD && found.reason == SUPER_BAD_LAYOUT);
	}

	some_super(&s);
	s.data_sectors = s.map_start - 64;
	for (u64 from = s.map_start - 128; from <= s.map_start; from += 4) {
		bool good = from % 8 == 0 && from >= s.data_sectors && from + 16 <= s.map_start;

		s.moved_from = from;
		super_pack(&s, DEVICE, &slots[0]);
		slots[1] = slots[0];
		CHECK((find() == SUPER_VALID) == good);
	}
	s.moved_from = s.map_start - 64;
	s.moved_to = start + 8;
	super_pack(&s, DEVICE, &slots[0]);
	slots[1] = slots[0];
	CHECK(find() == SUPER_BAD && found.reason == SUPER_BAD_LAYOUT);
	s.moved_to = 0;

	/* What it has moved from: the older one with the pointer, nothing, of another leg. */
	old = s;
	old.moved_from = 0;
	old.map_start = s.moved_from - s.map_sectors;
	old.data_sectors = old.map_start;
	s.data_sectors = old.data_sectors;
	old.seq = s.seq - 1;
	old.moved_to = start;
	CHECK(!moved_back(&s, &old));
	old.seq = s.seq + 1;
	CHECK(moved_back(&s, &old));
	old.moved_to = 0;
	CHECK(moved_back(&s, &old));
	old.leg_uuid[3] ^= 1;
	CHECK(!moved_back(&s, &old));
	memset(slots, 0, sizeof(slots));
	CHECK(!super_moved_back(&s, slots));
}

static void test_maps(void)
{
	struct lockstep_map_sector good, s;
	u8 *bytes = (u8 *)&s;

	map_sector_init(&good, 7, 42);
	CHECK(map_sector_check(&good, 7, 42) == MAP_SECTOR_VALID);
	for (u32 bit = 0; bit < LOCKSTEP_MAP_BITS; bit += 5) {
		CHECK(!map_sector_test(&good, bit));
		map_sector_set(&good, bit);
		CHECK(map_sector_test(&good, bit));
		if (bit % 2) {
			map_sector_clear(&good, bit);
			CHECK(!map_sector_test(&good, bit));
		}
	}
	CHECK(map_sector_check(&good, 7, 42) == MAP_SECTOR_BAD);
	map_sector_seal(&good);
	for (u32 bit = 0; bit < 512 * 8; bit++) {
		s = good;
		bytes[bit / 8] ^= (u8)(1U << bit % 8);
		CHECK(map_sector_check(&s, 7, 42) == MAP_SECTOR_BAD);
	}
	for (u32 n = 0; n < 512; n++) {
		s = good;
		memset(bytes + n, 0, 512 - n);
		CHECK(map_sector_check(&s, 7, 42) == MAP_SECTOR_BAD || !memcmp(&s, &good, 512));
		memset(bytes + n, 0xa5, 512 - n);
		CHECK(map_sector_check(&s, 7, 42) == MAP_SECTOR_BAD);
	}
	CHECK(map_sector_check(&good, 8, 42) == MAP_SECTOR_BAD);
	CHECK(map_sector_check(&good, 7, 43) == MAP_SECTOR_CLEAR);

	s = good;
	CHECK(map_sector_take(&s, 7, 42) == MAP_SECTOR_VALID && !memcmp(&s, &good, 512));
	CHECK(map_sector_take(&s, 7, 43) == MAP_SECTOR_CLEAR);
	CHECK(map_sector_check(&s, 7, 43) == MAP_SECTOR_VALID && !map_sector_test(&s, 0));
	bytes[100] ^= 1;
	CHECK(map_sector_take(&s, 7, 43) == MAP_SECTOR_BAD);
	CHECK(map_sector_check(&s, 7, 43) == MAP_SECTOR_VALID);
	for (u32 bit = 0; bit < LOCKSTEP_MAP_BITS; bit++)
		CHECK(map_sector_test(&s, bit));
	bytes[100] ^= 1;
	CHECK(map_sector_take(&s, 7, 0) == MAP_SECTOR_CLEAR && !map_sector_test(&s, 0));
}

static void check_layout(u64 dev, unsigned int shift)
{
	struct lockstep_layout l;
	u64 regions;

	if (!lockstep_layout(dev, shift, &l)) {
		CHECK(dev < 32 || dev > LOCKSTEP_SECTORS_MAX || shift < LOCKSTEP_SHIFT_MIN ||
		      shift > LOCKSTEP_SHIFT_MAX ||
		      lockstep_regions(lockstep_slots_start(dev), shift) > LOCKSTEP_REGIONS_MAX ||
		      lockstep_map_sectors((u32)lockstep_regions(dev, shift)) + 16 >= dev - 8);
		return;
	}
	regions = lockstep_regions(l.map_start, shift);
	CHECK(l.map_start && !(l.map_start % 8) && !(l.map_sectors % 8));
	CHECK(l.map_start + l.map_sectors == l.slots_start);
	CHECK(l.slots_start + 16 <= dev && l.slots_start + 16 > dev - 8);
	CHECK((u64)(l.map_sectors - LOCKSTEP_ACTIVITY_SECTORS) * LOCKSTEP_MAP_BITS >= regions);
	CHECK(((regions - 1) << shift) < l.map_start && regions << shift >= l.map_start);
}

static void test_layout(void)
{
	for (u64 dev = 0; dev < 5000; dev++)
		check_layout(dev, 6 + dev % 8);
	for (int i = 0; i < 200000; i++) {
		u64 dev = rnd() >> below(64);
		unsigned int shift = lockstep_default_shift(dev % LOCKSTEP_SECTORS_MAX);

		check_layout(dev, (unsigned int)below(45));
		check_layout(dev % LOCKSTEP_SECTORS_MAX, shift);
		dev = lockstep_slots_start(dev % LOCKSTEP_SECTORS_MAX);
		CHECK(lockstep_regions(dev, shift) <=
		      (shift < LOCKSTEP_SHIFT_LARGE ? LOCKSTEP_REGIONS_DEFAULT :
						      LOCKSTEP_REGIONS_LARGE));
		CHECK(shift == LOCKSTEP_SHIFT_DEFAULT ||
		      lockstep_regions(dev, shift - 1) >
		      (shift - 1 < LOCKSTEP_SHIFT_LARGE ? LOCKSTEP_REGIONS_DEFAULT :
							  LOCKSTEP_REGIONS_LARGE));
	}
}

/* Bytes of which nothing is known, most of them nearly a superblock. */
static void some_slot(struct lockstep_slot *slot)
{
	struct super s;

	some_super(&s);
	super_pack(&s, DEVICE, slot);
	for (u64 n = below(4); n--;) {
		size_t at = below(below(3) ? 496 : sizeof(*slot) - 8);
		u8 *b = (u8 *)slot + at;

		switch (below(4)) {
		case 0: *b = (u8)rnd(); break;
		case 1: fill(b, 1 + below(8)); break;
		case 2: memset(b, below(2) ? 0xff : 0, 8); break;
		case 3: *b ^= (u8)(1U << below(8)); break;
		}
	}
	if (below(8))
		reseal(slot);
	if (!below(50))
		fill(slot, sizeof(*slot));
}

static void check_found(const struct super_found *f)
{
	char text[300];
	int n;

	if (f->kind == SUPER_VALID) {
		const struct super *s = &f->super;

		CHECK(s->data_sectors && s->data_sectors <= s->map_start);
		CHECK(s->map_start + s->map_sectors <= lockstep_slots_start(DEVICE));
		CHECK((u64)s->map_sectors * LOCKSTEP_MAP_BITS >=
		      lockstep_regions(s->data_sectors, s->region_shift));
		CHECK(s->leg <= 1 && memchr(s->name, 0, sizeof(s->name)));
		n = super_history_text(s, text, sizeof(text));
		CHECK(n < (int)sizeof(text) && strlen(text) == (size_t)n);
		CHECK(super_state_name(s->state) && super_why_name((u32)rnd()));
	} else {
		n = super_reason_text(f, text, sizeof(text));
		CHECK(n > 0 && n < (int)sizeof(text) - 1 && strlen(text) == (size_t)n);
	}
}

static void test_fuzz(void)
{
	static struct super_found legs[2];
	u32 valid = 0, accepted = 0;
	struct verdict v;
	char text[400];

	for (int i = 0; i < FUZZ; i++) {
		struct super_found *f = &legs[i % 2];
		size_t room = 1 + below(sizeof(text));
		int n;

		some_slot(&slots[0]);
		if (below(3))
			slots[1] = slots[0];
		else
			some_slot(&slots[1]);
		super_find(slots, below(20) ? DEVICE : below(2 * DEVICE), f);
		if (f->kind == SUPER_VALID && lockstep_slots_start(DEVICE) !=
					      le64toh(slots[0].slots_start))
			continue;
		check_found(f);
		valid += f->kind == SUPER_VALID;
		if (!below(10))
			f->kind = SUPER_ABSENT;
		/* Mostly of one set, or nothing would be decided. */
		if (below(10))
			memcpy(legs[0].super.set_uuid, legs[1].super.set_uuid, 16);
		if (below(2)) {
			legs[0].super.leg = LOCKSTEP_LOCAL;
			legs[1].super.leg = LOCKSTEP_REMOTE;
			legs[0].super.data_sectors = legs[1].super.data_sectors;
			legs[0].super.region_shift = legs[1].super.region_shift;
		}
		if (!below(3) && legs[1].super.state != LOCKSTEP_NEW)
			legs[0].super.base = legs[1].super.cur;
		verdict_decide(&legs[0], &legs[1], &v);
		accepted += v.reason == VERDICT_OK;
		CHECK(v.reason < VERDICT_REASONS && v.source <= 1 && v.leg <= 1);
		CHECK(v.reason != VERDICT_OK || legs[v.source].kind == SUPER_VALID);
		n = verdict_text(&v, &legs[0], &legs[1], text, room);
		CHECK(n < (int)room && strlen(text) == (size_t)n);
		fill(&slots[0], 512);
		(void)map_sector_take((struct lockstep_map_sector *)&slots[0], (u32)below(3), below(3));
	}
	/* Blind if it never comes past the checksum. */
	CHECK(valid > FUZZ / 10 && accepted > FUZZ / 50);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	if (!strcmp(what, "slots"))
		test_slots();
	else if (!strcmp(what, "refused"))
		test_refused();
	else if (!strcmp(what, "moves"))
		test_moves();
	else if (!strcmp(what, "maps"))
		test_maps();
	else if (!strcmp(what, "layout"))
		test_layout();
	else if (!strcmp(what, "fuzz"))
		test_fuzz();
	else
		return 2;
	return 0;
}
