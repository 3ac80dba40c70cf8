// SPDX-License-Identifier: GPL-2.0-only
/*
 * A libFuzzer target (tests/fuzz): the parsers of on-disk data and the plan of recovery on a
 * log and an NVRAM that are wrong in any way.
 *
 * An input is changes to a good picture, after a power cut in the second turn of the ring, so
 * that few bytes lead far. First a byte of flags, see the enum; then changes:
 *
 *   {u8 what, u8 which, u8 at, u8 length, u8 bytes[length]}	see change()
 *
 * Those without DAMAGE are forged: afterwards all checksums of what they touched are set
 * right, so that they get past them. Those with DAMAGE are done after that.
 *
 * What must not happen: reads or writes outside of what the code was given (what lies beside
 * it is poisoned for ASan), and no end. And what was accepted stays so: marked as recovered,
 * as `dcd recover` does it, it is accepted again, with the same end, and nothing is live; and
 * so it is when the leftovers in NVRAM are wiped, as the module does it.
 */
#include <sanitizer/asan_interface.h>
#include <stdlib.h>

#include "fuzz.h"
#include "walk.h"

#define SEGMENT		DCD_SEGMENT_MIN
#define TABLE		DCD_BLOCK
#define PAYLOAD		(DCD_BLOCK + TABLE)
#define PLACES		16U
#define SLOTS		4U
#define LOG		(DCD_RING_START + 2 * PLACES * SEGMENT)	/* the ring may be larger */
#define NVRAM		(DCD_BLOCK + SLOTS * SEGMENT)
#define SECTORS		32U
#define USED		(PAYLOAD + 16 * 512)	/* inputs change no more of a segment */
#define FENCE		4096U
#define FIRST		20U			/* live segment */
#define CHANGES		24

enum { NO_NVRAM = 1, NO_DATA = 2, MOVED = 4 };
enum { DAMAGE = 0x80 };

static u8 log_image[FENCE + LOG + FENCE] __attribute__((aligned(FENCE)));
static u8 nvram_image[FENCE + NVRAM + FENCE] __attribute__((aligned(FENCE)));
static u8 good_log[LOG], good_nvram[NVRAM];
static u8 *const the_log = log_image + FENCE, *const the_nvram = nvram_image + FENCE;
static u8 data_image[SECTORS * 512];
static u32 unreadable;			/* a bit for each place */
static u32 touched_places, touched_slots;
static bool touched_heads;
unsigned long fuzz_accepted;

/* --- what the code may look at --- */

static const u8 *fence_at;
static u64 fenced;

static void take_fence_away(void)
{
	if (fence_at) {
		ASAN_UNPOISON_MEMORY_REGION(fence_at - FENCE, FENCE);
		ASAN_UNPOISON_MEMORY_REGION(fence_at + fenced, FENCE);
	}
	fence_at = NULL;
}

static const u8 *fence(const u8 *p, u64 bytes)
{
	take_fence_away();
	fence_at = p;
	fenced = bytes;
	ASAN_POISON_MEMORY_REGION(p - FENCE, FENCE);
	ASAN_POISON_MEMORY_REGION(p + bytes, FENCE);
	return p;
}

static const u8 *read_log(u64 offset, u64 bytes)
{
	u64 place = offset < DCD_RING_START ? 32 : (offset - DCD_RING_START) / SEGMENT;

	if (place < 32 && unreadable & 1U << place)
		return NULL;
	return fence(the_log + offset, bytes);
}

static const u8 *read_nvram(u64 offset, u64 bytes)
{
	return fence(the_nvram + offset, bytes);
}

/* --- the good picture --- */

static u8 *place_of(u8 *log, u32 n)
{
	return log + DCD_RING_START + (size_t)(n % (2 * PLACES)) * SEGMENT;
}

static u8 *slot_of(u8 *nvram, u32 n)
{
	return nvram + DCD_BLOCK + (size_t)(n % SLOTS) * SEGMENT;
}

static void seal(void *p, size_t bytes, size_t at)
{
	u32 crc;

	memset((u8 *)p + at, 0, sizeof(crc));
	crc = htole32(dcd_crc(p, bytes));
	memcpy((u8 *)p + at, &crc, sizeof(crc));
}

#define SEAL(p) seal(p, sizeof(*(p)), offsetof(typeof(*(p)), crc))

static void seal_table(u8 *seg)
{
	for (u32 i = 0; i < 8; i++) {
		struct dcd_entry *n = (struct dcd_entry *)(seg + DCD_BLOCK) + i;
		u64 offset = (u64)le32toh(n->offset) * 512, stored = (u64)le32toh(n->stored) * 512;

		if (!n->epoch)
			continue;
		if (offset <= SEGMENT && stored <= SEGMENT - offset)
			n->payload_crc = htole32(dcd_crc(seg + offset, stored));
		SEAL(n);
	}
}

static void seal_segment(u8 *seg)
{
	struct dcd_segment *h = (struct dcd_segment *)seg;
	u32 used = le32toh(h->used_bytes);

	seal_table(seg);
	if (used > DCD_BLOCK && used <= SEGMENT)
		h->body_crc = htole32(dcd_crc(seg + DCD_BLOCK, used - DCD_BLOCK));
	SEAL(h);
}

static const u8 uuid[16] = "a log's identity";
#define EPOCH 0x1122334455667788ULL

/* Entries of kind @kinds[0], @kinds[1] ...; a 'b' is a write in a batch with the next one. */
static u32 put_table(u8 *seg, u64 first, const char *kinds)
{
	u32 offset = PAYLOAD / 512, i, last;

	for (i = 0; kinds[i]; i++) {
		struct dcd_entry *n = (struct dcd_entry *)(seg + DCD_BLOCK) + i;
		u32 sectors = 1 + i % 2, stored = strchr("dzl", kinds[i]) ? 0 : sectors;

		n->sequence = htole64(first + i);
		n->epoch = htole64(EPOCH);
		n->sector = htole64((first * 3 + i * 5) % (SECTORS - 2));
		n->sectors = htole32(sectors);
		n->stored = htole32(stored);
		n->offset = htole32(offset);
		n->type = htole16(kinds[i] == 'd' ? DCD_ENTRY_DISCARD :
				  kinds[i] == 'l' ? DCD_ENTRY_LOST : kinds[i] == 'z' ? DCD_ENTRY_WRITE_ZEROES : DCD_ENTRY_WRITE);
		for (last = i; kinds[last] == 'b'; last++)
			;
		if (kinds[i] == 'b' || (i && kinds[i - 1] == 'b'))
			n->batch = htole64(first + last);
		memset(seg + (size_t)offset * 512, (int)(first + i), (size_t)stored * 512);
		offset += stored;
	}
	return i;
}

static void put_segment(u64 sequence, u64 first, const char *kinds)
{
	u8 *seg = place_of(good_log, (u32)sequence % PLACES);
	struct dcd_segment *h = (struct dcd_segment *)seg;
	const struct dcd_entry *last;

	h->magic = htole64(DCD_SEGMENT_MAGIC);
	h->version = htole32(DCD_VERSION);
	memcpy(h->uuid, uuid, sizeof(uuid));
	h->epoch = htole64(EPOCH);
	h->sequence = htole64(sequence);
	h->first_entry = htole64(first);
	h->entries = htole32(put_table(seg, first, kinds));
	last = dcd_entry_at(seg, le32toh(h->entries) - 1);
	h->used_bytes = htole32((le32toh(last->offset) + le32toh(last->stored)) * 512);
	seal_segment(seg);
}

static void put_super(u64 generation, u64 tail, u64 applied)
{
	struct dcd_super *s = (struct dcd_super *)(good_log + (generation & 1) * DCD_BLOCK);

	s->magic = htole64(DCD_SUPER_MAGIC);
	s->version = htole32(DCD_VERSION);
	memcpy(s->uuid, uuid, sizeof(uuid));
	s->epoch = htole64(EPOCH);
	s->generation = htole64(generation);
	s->data_sectors = htole64(SECTORS);
	s->log_sectors = htole64((DCD_RING_START + PLACES * SEGMENT) / 512);
	s->segments = htole64(PLACES);
	s->segment_bytes = htole32(SEGMENT);
	s->table_bytes = htole32(TABLE);
	s->tail = htole64(tail);
	s->applied = htole64(applied);
	s->flags = htole32(DCD_SUPER_NVRAM);
	SEAL(s);
}

static void put_header(u64 generation)
{
	struct dcd_nvram_header *h =
		(struct dcd_nvram_header *)(good_nvram + (generation & 1) * DCD_NVRAM_COPY);

	h->magic = htole64(DCD_NVRAM_MAGIC);
	h->version = htole32(DCD_VERSION);
	memcpy(h->uuid, uuid, sizeof(uuid));
	h->epoch = htole64(EPOCH);
	h->generation = htole64(generation);
	h->bytes = htole64(NVRAM);
	h->segment_bytes = htole32(SEGMENT);
	h->table_bytes = htole32(TABLE);
	SEAL(h);
}

/* Entries 40 to 50 are live: the last four in NVRAM, where slots 0 and 1 are out of date. */
static void make_good(void)
{
	static const char *const kinds[] = { "wdw", "bbw", "z", "ww", "bw" };
	u64 first = 40, n;

	put_super(6, FIRST, 39);
	put_super(7, FIRST, 39);
	put_header(1);
	put_header(2);
	for (n = FIRST + 3 - PLACES; n < FIRST; n++)
		put_segment(n, n + 20, "w");
	for (n = FIRST; n < FIRST + 5; n++) {
		if (n < FIRST + 3)
			put_segment(n, first, kinds[n - FIRST]);
		if (n > FIRST) {
			put_table(slot_of(good_nvram, (u32)n - FIRST - 1), first, kinds[n - FIRST]);
			seal_table(slot_of(good_nvram, (u32)n - FIRST - 1));
		}
		first += strlen(kinds[n - FIRST]);
	}
	memcpy(the_log, good_log, LOG);
	memcpy(the_nvram, good_nvram, NVRAM);
}

/* Two blocks of live segments are in spares, and garbage is where they were. */
static const struct {
	u32 place, block, spare;
} moved[] = { { FIRST, 2, 5 }, { FIRST + 1, 1, 7 } };
#define TABLES_AND_SPARES (10U * DCD_BLOCK)

static void move(void)
{
	struct dcd_geometry g = { .epoch = EPOCH };
	struct dcd_moves m = { .generation = 3 };

	memcpy(g.uuid, uuid, sizeof(uuid));
	dcd_moves_set(&m, 0, DCD_SPARE_BAD);
	for (u32 i = 0; i < 2; i++) {
		u8 *block = place_of(the_log, moved[i].place % PLACES) + moved[i].block * DCD_BLOCK;

		dcd_moves_set(&m, moved[i].spare, (u64)(block - the_log) / DCD_BLOCK);
		memcpy(the_log + dcd_moves_place(moved[i].spare), block, DCD_BLOCK);
		memset(block, 0xa5, DCD_BLOCK);
	}
	for (u32 i = 0; i < 2; i++) {
		((struct dcd_super *)(the_log + i * DCD_BLOCK))->features.incompat |=
			htole32(DCD_INCOMPAT_MOVED);
		dcd_moves_make(&m, &g, the_log + DCD_MOVED_START + i * DCD_BLOCK);
	}
	touched_heads = true;
}

static void move_back(void)
{
	memcpy(the_log + DCD_MOVED_START, good_log + DCD_MOVED_START, TABLES_AND_SPARES);
	for (u32 i = 0; i < 2; i++) {
		u32 place = moved[i].place % PLACES;

		memcpy(place_of(the_log, place), place_of(good_log, place), 3 * DCD_BLOCK);
	}
}

/* --- changes --- */

struct change {
	u8 what, which, at, length;
	const u8 *bytes;
};

static void touch_place(u32 n)
{
	touched_places |= 1U << n % (2 * PLACES);
}

static void touch_slot(u32 n)
{
	touched_slots |= 1U << n % SLOTS;
}

/* @which of a table: the lower five bits say where, the rest which entry. */
static void change(const struct change *c, struct images *m)
{
	u8 *place = place_of(the_log, c->which), *slot = slot_of(the_nvram, c->which);
	u32 from = c->length ? c->bytes[0] : 0, entry = DCD_BLOCK + c->which / 32 * 64;
	u64 less = (u64)c->which << 8 | c->at;
	size_t n = c->length < 64 ? c->length : 64;
	u8 *to = NULL;

	switch (c->what & ~DAMAGE) {
	case 0:
		to = the_log + c->which % 2 * DCD_BLOCK + c->at;
		break;
	case 1:
		to = the_nvram + c->which % 2 * DCD_NVRAM_COPY + c->at;
		break;
	case 2:
		to = place + c->at;
		break;
	case 3:
		to = place + entry + c->at % 64;
		break;
	case 4:
		to = slot + entry + c->at % 64;
		break;
	case 5:
		to = place + PAYLOAD + c->at * 16;
		break;
	case 6:
		to = slot + PAYLOAD + c->at * 16;
		break;
	case 7:
		memmove(place, place_of(the_log, from), USED);
		break;
	case 8:
		memmove(slot, slot_of(the_nvram, from), USED);
		break;
	case 9:		/* what only the NVRAM had is in the log too */
		memcpy(place + DCD_BLOCK, slot_of(the_nvram, from) + DCD_BLOCK, USED - DCD_BLOCK);
		break;
	case 10:	/* and the other way */
		memcpy(slot + DCD_BLOCK, place_of(the_log, from) + DCD_BLOCK, USED - DCD_BLOCK);
		break;
	case 11:
		memset(place, 0, USED);
		break;
	case 12:
		memset(slot, 0, USED);
		break;
	case 13:
		unreadable |= 1U << c->which % 32;
		return;
	case 14:
		m->log_bytes -= less * 64 < m->log_bytes ? less * 64 : m->log_bytes;
		return;
	case 15:
		m->nvram_bytes -= less * 8 < m->nvram_bytes ? less * 8 : m->nvram_bytes;
		return;
	case 16:
		to = the_log + DCD_MOVED_START + c->which % 2 * DCD_BLOCK + c->at * 8;
		break;
	default:
		return;
	}
	if (to)
		memcpy(to, c->bytes, n);
	if (to && to < the_log + DCD_RING_START && to >= the_log)
		touched_heads = true;
	else if ((c->what & ~DAMAGE) == 1)
		touched_heads = true;
	else if (strchr("\4\6\10\12\14", c->what & ~DAMAGE))
		touch_slot(c->which);
	else
		touch_place(c->which);
}

static void seal_touched(void)
{
	for (u32 i = 0; i < 2 && touched_heads; i++) {
		SEAL((struct dcd_super *)(the_log + i * DCD_BLOCK));
		SEAL((struct dcd_nvram_header *)(the_nvram + i * DCD_NVRAM_COPY));
		SEAL((struct dcd_moved *)(the_log + DCD_MOVED_START + i * DCD_BLOCK));
	}
	for (u32 i = 0; i < 2 * PLACES; i++)
		if (touched_places & 1U << i)
			seal_segment(place_of(the_log, i));
	for (u32 i = 0; i < SLOTS; i++)
		if (touched_slots & 1U << i)
			seal_table(slot_of(the_nvram, i));
}

static void put_back(void)
{
	take_fence_away();
	memcpy(the_log, good_log, sizeof(struct dcd_super));
	memcpy(the_log + DCD_BLOCK, good_log + DCD_BLOCK, sizeof(struct dcd_super));
	memcpy(the_nvram, good_nvram, DCD_BLOCK);
	move_back();
	for (u32 i = 0; i < 2 * PLACES; i++)
		if (touched_places & 1U << i)
			memcpy(place_of(the_log, i), place_of(good_log, i), USED);
	for (u32 i = 0; i < SLOTS; i++)
		if (touched_slots & 1U << i)
			memcpy(slot_of(the_nvram, i), slot_of(good_nvram, i), USED);
	touched_places = 0;
	touched_slots = 0;
	touched_heads = false;
	unreadable = 0;
}

/* What `dcd recover` writes when all is on the data disk. */
static void mark(struct walked *w)
{
	unsigned int copy;

	take_fence_away();
	if (w->super.geometry.nvram) {
		copy = dcd_header_next(&w->header.header, w->plan.newest);
		memcpy(the_nvram + copy * DCD_NVRAM_COPY, &w->header.header,
		       sizeof(w->header.header));
	}
	for (int i = 0; i < 2; i++) {
		copy = dcd_super_next(&w->super.super, w->plan.next, w->plan.newest);
		memcpy(the_log + copy * DCD_BLOCK, &w->super.super, sizeof(w->super.super));
	}
}

/* What the module does before entries get the sequences of what a cut has left behind. */
static void wipe(const struct dcd_geometry *g, u64 newest)
{
	const u64 bytes = DCD_BLOCK + g->table_bytes;

	for (u32 i = 0; i < SLOTS; i++) {
		u8 *slot = slot_of(the_nvram, i);

		fence(slot, bytes);
		for (u32 n = 0; n < dcd_table_entries(g); n++)
			if (dcd_entry_left(g, slot, n, newest))
				memset(slot + DCD_BLOCK + n * 64, 0, 64);
		touch_slot(i);
	}
	take_fence_away();
}

static void promise(bool kept, const char *what)
{
	if (kept)
		return;
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

static void look_again(const struct images *m, const struct walked *first)
{
	struct walked again;

	promise(!strcmp(walk(m, &again), "ok"), "marked as recovered, it isn't accepted any more");
	promise(!again.entries, "marked as recovered, something is live");
	promise(again.plan.next == first->plan.next && again.plan.newest == first->plan.newest,
		"marked as recovered, it ends elsewhere");
}

/* In 2^63 writes it may be refused. */
static bool count_ends(const struct walked *w)
{
	return w->plan.next > DCD_COUNTER_MAX || w->plan.newest > DCD_COUNTER_MAX ||
	       le64toh(w->super.super.generation) > DCD_COUNTER_MAX ||
	       le64toh(w->header.header.generation) > DCD_COUNTER_MAX;
}

static void look(const struct images *m)
{
	struct walked first;
	const char *told = walk(m, &first);

	if (strcmp(told, "ok") && strcmp(told, "lost"))
		return;
	fuzz_accepted++;
	mark(&first);
	if (count_ends(&first))
		return;
	look_again(m, &first);
	/* Slots where they are in the picture. */
	if (m->nvram && first.super.geometry.segment_bytes == SEGMENT && m->nvram_bytes == NVRAM) {
		wipe(&first.super.geometry, first.plan.newest);
		look_again(m, &first);
	}
}

int LLVMFuzzerTestOneInput(const u8 *in, size_t size)
{
	struct images m = { .log = read_log, .log_bytes = LOG, .nvram = read_nvram,
			    .nvram_bytes = NVRAM, .data = data_image,
			    .data_bytes = sizeof(data_image) };
	struct change changes[CHANGES];
	u32 n = 0, i;

	if (!size)
		return 0;
	if (!le64toh(((struct dcd_super *)good_log)->magic))
		make_good();
	for (size_t at = 1; at + 4 <= size && n < CHANGES; n++) {
		struct change *c = changes + n;

		*c = (struct change){ in[at], in[at + 1], in[at + 2], in[at + 3], in + at + 4 };
		at += 4;
		if (c->length > size - at)
			c->length = (u8)(size - at);
		at += c->length;
	}
	if (in[0] & NO_NVRAM) {
		m.nvram = NULL;
		for (i = 0; i < 2; i++)
			((struct dcd_super *)(the_log + i * DCD_BLOCK))->flags = 0;
		touched_heads = true;
	}
	if (in[0] & MOVED)
		move();
	if (in[0] & NO_DATA) {
		m.data = NULL;
		m.data_bytes = 0;
	}
	for (i = 0; i < n; i++)
		if (!(changes[i].what & DAMAGE))
			change(changes + i, &m);
	seal_touched();
	for (i = 0; i < n; i++)
		if (changes[i].what & DAMAGE)
			change(changes + i, &m);
	look(&m);
	put_back();
	return 0;
}
