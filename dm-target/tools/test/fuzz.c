// SPDX-License-Identifier: GPL-2.0-only
/*
 * A libFuzzer target (tests/fuzz): superblocks of two legs and a map sector that are wrong in
 * any way, and the verdict on the pair.
 *
 * An input is changes to a mirror in sync:
 *
 *   {u8 what, u8 at, u8 page, u8 length, u8 bytes[length]}	see change()
 *
 * Those without DAMAGE are forged: afterwards checksums are set right, so that they get past
 * them. Those with DAMAGE are done after that.
 *
 * What must not happen: reads or writes outside, and a superblock that is taken although it
 * contradicts itself (super.h). What was taken is taken again when it is written.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "life.h"
#include "verdict.h"

#define DEVICE	200000ULL	/* sectors */
#define CHANGES	24

enum { DAMAGE = 0x80 };

static struct lockstep_slot good[2], slots[2][LOCKSTEP_SLOTS];
static struct lockstep_map_sector good_map, map;
static u64 sizes[2];
static unsigned long moved_back;
unsigned long fuzz_accepted;

static void make_good(void)
{
	struct lockstep_layout layout;

	for (u32 leg = 0; leg < 2; leg++) {
		struct super s = { .leg = leg, .region_shift = 11, .name = "m", .seq = 5 };

		if (!lockstep_layout(DEVICE, s.region_shift, &layout))
			abort();
		s.map_start = layout.map_start;
		s.map_sectors = layout.map_sectors;
		s.data_sectors = layout.map_start - 1000;
		memset(s.set_uuid, 1, sizeof(s.set_uuid));
		memset(s.leg_uuid, 2 + (int)leg, sizeof(s.leg_uuid));
		super_create_sync(&s, 77, 88, 99);
		super_pack(&s, DEVICE, &good[leg]);
	}
	map_sector_init(&good_map, 1, 3);
}

struct change {
	u8 what, at, page, length;
	const u8 *bytes;
};

static void change(const struct change *c)
{
	u32 what = (c->what & ~DAMAGE) % 8, at = c->page % 16 * 256u + c->at;
	size_t n = c->length;
	u8 *to, *end;

	switch (what) {
	case 0:
	case 1:
	case 2:
	case 3:
		to = (u8 *)&slots[what / 2][what % 2];
		end = to + sizeof(slots[0][0]);
		break;
	case 4:
		to = (u8 *)&map;
		end = to + sizeof(map);
		at %= sizeof(map);
		break;
	case 5:
		to = (u8 *)&sizes[c->page % 2];
		end = to + sizeof(sizes[0]);
		at %= sizeof(sizes[0]);
		break;
	case 6:		/* one slot like the other: the newest counts, and both are the same */
		slots[c->page % 2][c->at % 2] = slots[c->page % 2][!(c->at % 2)];
		return;
	default:	/* one leg like the other */
		memcpy(slots[c->page % 2], slots[!(c->page % 2)], sizeof(slots[0]));
		return;
	}
	to += at;
	memcpy(to, c->bytes, n < (size_t)(end - to) ? n : (size_t)(end - to));
}

static void seal_all(void)
{
	for (u32 i = 0; i < 4; i++) {
		struct lockstep_slot *s = &slots[i / 2][i % 2];

		s->crc = cpu_to_le32(crc32c(~0U, (u8 *)s + 4, sizeof(*s) - 4));
	}
	map_sector_seal(&map);
}

static void promise(bool kept, const char *what)
{
	if (kept)
		return;
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

static void look_at_super(const struct super *s, u64 dev_sectors)
{
	struct lockstep_slot again[LOCKSTEP_SLOTS], once_more;
	u64 start = lockstep_slots_start(dev_sectors), detail;
	bool none = generation_none(&s->cur);
	struct super_found found;
	struct super other;

	promise(s->data_sectors <= s->map_start && s->map_start + s->map_sectors <= start,
		"data, map and slots overlap");
	promise(generation_is(&s->cur, &s->history[0].gen) && none == (s->state == LOCKSTEP_NEW),
		"a generation that isn't in the history");
	promise(s->leg <= LOCKSTEP_REMOTE && strnlen(s->name, sizeof(s->name)) < sizeof(s->name),
		"no leg, or a name without an end");
	super_pack(s, dev_sectors, &again[0]);
	again[1] = again[0];
	super_find(again, dev_sectors, &found);
	promise(s->moved_to ? found.reason == SUPER_MOVED_ON : found.kind == SUPER_VALID,
		"written again, it isn't taken");
	promise(super_unpack(again, dev_sectors, &other, &detail) == SUPER_OK,
		"one slot of it isn't taken");
	super_pack(&other, dev_sectors, &once_more);
	promise(!memcmp(&once_more, again, sizeof(once_more)), "written again, it is another");
	if (s->moved_from && super_moved_back(s, slots[1]))
		moved_back++;
}

static void look(void)
{
	struct super_found legs[2];
	struct verdict v;
	char text[400];

	for (u32 i = 0; i < 2; i++) {
		struct super_found *f = &legs[i];

		super_find(slots[i], sizes[i], f);
		super_reason_text(f, text, sizeof(text));
		if (f->kind != SUPER_VALID && f->reason != SUPER_MOVED_ON)
			continue;
		look_at_super(&f->super, sizes[i]);
		super_history_text(&f->super, text, sizeof(text));
		(void)super_state_name(f->super.state);
	}
	verdict_decide(&legs[0], &legs[1], &v);
	verdict_text(&v, &legs[0], &legs[1], text, sizeof(text));
	promise(v.reason < VERDICT_REASONS && v.source <= 1 && v.leg <= 1, "no such verdict");
	promise(v.reason != VERDICT_OK || legs[v.source].kind == SUPER_VALID, "no good source");
	fuzz_accepted += v.reason == VERDICT_OK;
	(void)map_sector_take(&map, 1, 3);
	promise(map_sector_check(&map, 1, 3) == MAP_SECTOR_VALID, "a map sector can't be used");
}

int LLVMFuzzerTestOneInput(const u8 *in, size_t size)
{
	struct change changes[CHANGES];
	u32 n = 0, i;

	if (!good[0].magic)
		make_good();
	for (size_t at = 0; at + 4 <= size && n < CHANGES; n++) {
		struct change *c = changes + n;

		*c = (struct change){ in[at], in[at + 1], in[at + 2], in[at + 3], in + at + 4 };
		at += 4;
		if (c->length > size - at)
			c->length = (u8)(size - at);
		at += c->length;
	}
	for (i = 0; i < 4; i++)
		slots[i / 2][i % 2] = good[i / 2];
	map = good_map;
	sizes[0] = DEVICE;
	sizes[1] = DEVICE;
	for (i = 0; i < n; i++)
		if (!(changes[i].what & DAMAGE))
			change(changes + i);
	seal_all();
	for (i = 0; i < n; i++)
		if (changes[i].what & DAMAGE)
			change(changes + i);
	look();
	return 0;
}
