// SPDX-License-Identifier: GPL-2.0-only
/*
 * Of a log or NVRAM that recovery refuses, each entry that is right by itself goes to the data
 * disk, in the order of the entries, and what can't is listed. Log and NVRAM are left as they
 * are: whoever finds a better copy of them can do it again, or another way.
 *
 * A table holds older entries of the same place behind its own, so of each place those count
 * that belong to the newest turn: an entry's sequence less its number is the same for all of
 * those. Of an entry that is there twice, in the log and in NVRAM, a whole segment's counts
 * first, then a slot's.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../../dm-target/tools/json.h"
#include "salvage.h"

#define BLOCKS_AT_ONCE	DCD_BLOCK	/* of a place that can't be read as a whole */

enum rank { WHOLE, SLOT, PART, NAMED };	/* NAMED: its payload is wrong */

struct found {
	u64 sequence;
	u64 sector;
	u32 sectors;
	u32 crc;	/* of the payload */
	u64 at;		/* byte of the payload */
	u32 stored;	/* sectors */
	u8 rank;
	bool in_nvram;
};

struct salvage {
	struct set *s;
	struct found *found;
	size_t n, room;
	u64 applied, newest;
	bool known;	/* @newest is the NVRAM's word */
	struct lost *lost;
};

static int add(struct salvage *v, const struct found *f)
{
	if (v->n == v->room) {
		size_t room = v->room ? 2 * v->room : 1024;
		struct found *more = realloc(v->found, room * sizeof(*more));

		if (!more) {
			fputs("dcd: no memory\n", stderr);
			v->s->failed = true;
			return -1;
		}
		v->found = more;
		v->room = room;
	}
	v->found[v->n++] = *f;
	return 0;
}

/* All of a place that can be read; what can't is zeroes, which are no entry. */
static void read_place(struct set *s, const struct device *d, u64 at)
{
	u32 bytes = s->super.geometry.segment_bytes;

	if (!device_try_read(d, s->buf, bytes, at))
		return;
	for (u32 from = 0; from < bytes; from += BLOCKS_AT_ONCE)
		if (device_try_read(d, s->buf + from, BLOCKS_AT_ONCE, at + from))
			memset(s->buf + from, 0, BLOCKS_AT_ONCE);
}

/* The newest turn that has an entry here: U64_MAX: there is none. */
static u64 turn_of(const struct set *s)
{
	const struct dcd_geometry *g = &s->super.geometry;
	u64 turn = U64_MAX;

	for (u32 i = 0; i < dcd_table_entries(g); i++) {
		u64 sequence = le64_to_cpu(dcd_entry_at(s->buf, i)->sequence);

		if (!dcd_entry_named(g, s->buf, i) || sequence < i || sequence > DCD_COUNTER_MAX)
			continue;
		if (turn == U64_MAX || sequence - i > turn)
			turn = sequence - i;
	}
	return turn;
}

/* The place that was read, from byte @at on of its device. */
static int look_at(struct salvage *v, u64 at, enum rank rank)
{
	const struct dcd_geometry *g = &v->s->super.geometry;
	u64 turn = turn_of(v->s);

	for (u32 i = 0; turn != U64_MAX && i < dcd_table_entries(g); i++) {
		const struct dcd_entry *n = dcd_entry_at(v->s->buf, i);
		u64 sequence = le64_to_cpu(n->sequence);
		struct found f = {
			.sequence = sequence,
			.sector = le64_to_cpu(n->sector),
			.sectors = le32_to_cpu(n->sectors),
			.crc = le32_to_cpu(n->payload_crc),
			.at = at + ((u64)le32_to_cpu(n->offset) << SECTOR_SHIFT),
			.stored = le32_to_cpu(n->stored),
			.rank = dcd_entry_valid(g, v->s->buf, i) ? rank : NAMED,
			.in_nvram = rank == SLOT,
		};

		if (sequence != turn + i || sequence <= v->applied ||
		    !dcd_entry_named(g, v->s->buf, i))
			continue;
		if (add(v, &f))
			return -1;
	}
	return 0;
}

static enum rank rank_of(const struct set *s, u64 place)
{
	const struct dcd_segment *h = (const struct dcd_segment *)s->buf;
	u64 sequence = le64_to_cpu(h->sequence), at;

	div64_u64_rem(sequence, s->super.geometry.segments, &at);
	return at == place && dcd_segment_parse(&s->super.geometry, s->buf, sequence) ==
	       DCD_SEGMENT_VALID ? WHOLE : PART;
}

static int look_everywhere(struct salvage *v)
{
	const struct dcd_geometry *g = &v->s->super.geometry;

	for (u64 i = 0; i < g->segments; i++) {
		u64 at = dcd_place_of(g, i) << SECTOR_SHIFT;

		read_place(v->s, &v->s->log, at);
		if (look_at(v, at, rank_of(v->s, i)))
			return -1;
	}
	for (u32 i = 0; i < v->s->slots; i++) {
		u64 at = DCD_BLOCK + (u64)i * g->segment_bytes;

		read_place(v->s, &v->s->nvram, at);
		if (look_at(v, at, SLOT))
			return -1;
	}
	return 0;
}

static int by_sequence(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	return (int)x->rank - (int)y->rank;
}

/* Of each sequence the best; up to the newest that counts. */
static void choose(struct salvage *v)
{
	size_t n = 0;

	if (v->n)
		qsort(v->found, v->n, sizeof(*v->found), by_sequence);
	for (size_t i = 0; i < v->n; i++) {
		const struct found *f = v->found + i;

		if ((v->known && f->sequence > v->newest) ||
		    (n && v->found[n - 1].sequence == f->sequence))
			continue;
		v->found[n++] = *f;
	}
	v->n = n;
	if (n && v->found[n - 1].sequence > v->newest)
		v->newest = v->found[n - 1].sequence;
}

static void lost(struct salvage *v, u64 first, u64 last, u64 sector, u64 sectors)
{
	struct lost *more = realloc(v->lost, (v->s->n_lost + 1) * sizeof(*more));

	if (!more) {
		fputs("dcd: no memory\n", stderr);
		v->s->failed = true;
		return;
	}
	v->lost = more;
	more[v->s->n_lost++] = (struct lost){ first, last, sector, sectors };
}

/* A named one: what of it isn't written over by a later one that is right. */
static void lost_parts(struct salvage *v, size_t i)
{
	const struct found *f = v->found + i;
	u8 *over = calloc(f->sectors, 1);
	u32 from = 0;

	for (size_t k = i + 1; over && k < v->n; k++) {
		const struct found *o = v->found + k;
		u64 begin = max_t(u64, f->sector, o->sector);
		u64 end = min_t(u64, f->sector + f->sectors, o->sector + o->sectors);

		if (o->rank != NAMED && begin < end)
			memset(over + (begin - f->sector), 1, end - begin);
	}
	while (from < f->sectors) {
		u32 to = from;

		while (to < f->sectors && (!over || !over[to]))
			to++;
		if (to > from)
			lost(v, f->sequence, f->sequence, f->sector + from, to - from);
		from = to + 1;
	}
	free(over);
}

static void find_lost(struct salvage *v)
{
	u64 next = v->applied + 1;

	for (size_t i = 0; i < v->n; i++) {
		const struct found *f = v->found + i;

		if (f->sequence > next)
			lost(v, next, f->sequence - 1, 0, 0);
		if (f->rank == NAMED)
			lost_parts(v, i);
		next = f->sequence + 1;
	}
	if (next <= v->newest)
		lost(v, next, v->newest, 0, 0);
}

static int write_one(struct salvage *v, const struct found *f)
{
	struct set *s = v->s;
	size_t bytes = (size_t)f->stored << SECTOR_SHIFT;

	if (!f->stored)
		return device_zero(&s->data, (u64)f->sectors << SECTOR_SHIFT, f->sector << SECTOR_SHIFT);
	if (device_read(f->in_nvram ? &s->nvram : &s->log, s->buf, bytes, f->at))
		return -1;
	if (dcd_crc(s->buf, bytes) != f->crc) {
		fprintf(stderr, "dcd: entry %" PRIu64 " reads otherwise for the second time: copy log and NVRAM to good devices, then again\n",
			f->sequence);
		return -1;
	}
	return device_write(&s->data, s->buf, bytes, f->sector << SECTOR_SHIFT);
}

static int write_all(struct salvage *v, bool dry, struct tally *done)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct found *f = v->found + i;

		if (f->rank == NAMED)
			continue;
		if (!dry && write_one(v, f))
			return -1;
		done->entries++;
		done->sectors += f->sectors;
	}
	return dry ? 0 : device_flush(&v->s->data);
}

int set_salvage(struct set *s, bool dry, bool anyway, struct tally *done)
{
	struct salvage v = { .s = s };
	int r = 0;

	dcd_plan_begin(&s->plan, &s->super.geometry, &s->super.super,
		       s->has_nvram ? &s->header.header : NULL, s->header.newest);
	v.applied = s->plan.applied;
	v.newest = s->plan.known;
	v.known = s->has_nvram && s->header.newest;
	memset(done, 0, sizeof(*done));
	if (!look_everywhere(&v)) {
		choose(&v);
		find_lost(&v);
		for (size_t i = 0; i < v.n; i++)
			set_cover(s, v.found[i].sector, v.found[i].sectors);
		r = set_witnesses(s, anyway);
		if (!r && !s->failed && write_all(&v, dry, done))
			s->failed = true;
	}
	free(v.found);
	s->lost = v.lost;
	return s->failed ? -1 : r;
}

void set_lost_text(const struct set *s)
{
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct lost *l = s->lost + i;

		if (l->sectors)
			printf("lost: entry %" PRIu64 ", sectors %" PRIu64 " + %" PRIu64 "\n",
			       l->first, l->sector, l->sectors);
		else
			printf("lost: entries %" PRIu64 " to %" PRIu64 ", where they wrote isn't known\n",
			       l->first, l->last);
	}
	if (s->nvram_lost)
		puts("lost: what only the NVRAM had");
}

void set_lost_json(const struct set *s)
{
	json_open("lost", '[');
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct lost *l = s->lost + i;

		json_open(NULL, '{');
		json_number("first_entry", l->first);
		json_number("last_entry", l->last);
		if (l->sectors) {
			json_number("sector", l->sector);
			json_number("sectors", l->sectors);
		}
		json_close('}');
	}
	json_close(']');
	json_bool("nvram_lost", s->nvram_lost);
}
