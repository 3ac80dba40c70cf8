// SPDX-License-Identifier: GPL-2.0-only
/*
 * Of a log or NVRAM that recovery refuses, each entry that is right by itself goes to the data
 * disk, in the order of the entries, and what can't is listed. Log and NVRAM are left as they
 * are: whoever finds a better copy of them can do it again, or another way.
 *
 * A table holds older entries of the same place behind its own, so of each place those count
 * that belong to the newest turn: an entry's sequence less its number is the same for all of
 * those. Of a slot that was begun anew an older one counts, too, if its payload is right, and the
 * log's table names the same write: then all that is beside it there is known. Of an entry that is
 * there twice, in the log and in NVRAM, a whole segment's counts first, then a slot's.
 *
 * Without the log nobody knows which of the NVRAM's entries are on the data disk already, and
 * which of those were written over there by entries that NVRAM has no more. But NVRAM forgets
 * the oldest first. So of entries without a gap up to the newest, each block's newest version is
 * among them, and they may be written over whatever is there; those before a gap may not. Without
 * the NVRAM's header nobody knows whether the log had failed, and what went to the data disk past
 * it: where it had, the gap is between its entries and those of NVRAM.
 *
 * Where one of the NVRAM's end records is damaged the other one may be the older one: entries above
 * it that join it without a gap count, whole batches, as they do in a recovery; and it is told how
 * many writes may be missing behind them.
 *
 * A write whose payload is wrong may have got to the data disk all the same. Where its checksum
 * shows that (dcd_entry_from_data()) it isn't lost, and nothing older is written over it. Without
 * the log nothing older is written there in any case.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "lost.h"
#include "salvage.h"

/*
 * OLDER: of a slot's turn before. NAMED: its payload is wrong, or it is lost. THERE: it is wrong,
 * but the data disk has it.
 */
enum rank { WHOLE, SLOT, PART, OLDER, NAMED, THERE };

struct found {
	u64 sequence;
	u64 sector;
	u32 sectors;
	u32 crc;	/* of the payload */
	u64 batch;	/* sequence of its last one, 0: none */
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
	size_t *guards;	/* those whose sectors may have what is newer than an older one */
	size_t n_guards;
	bool known;	/* @newest is the NVRAM's word, and what joins it */
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
	device_read_around(d, s->buf, s->super.geometry.segment_bytes, at, s->unread);
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
			.batch = le64_to_cpu(n->batch),
			.at = at + ((u64)le32_to_cpu(n->offset) << SECTOR_SHIFT),
			.stored = le32_to_cpu(n->stored),
			.rank = le16_to_cpu(n->type) != DCD_ENTRY_LOST &&
				dcd_entry_valid(g, v->s->buf, i) ? rank : NAMED,
			.in_nvram = rank == SLOT,
		};

		if (sequence <= v->applied || !dcd_entry_named(g, v->s->buf, i) ||
		    (sequence != turn + i && f.rank != SLOT))
			continue;
		if (sequence != turn + i)
			f.rank = OLDER;
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

	for (u64 i = 0; !v->s->log_lost && i < g->segments; i++) {
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

/*
 * What joins the older end record counts. Where entries are behind a gap, more may have been
 * acknowledged than what joins: then nobody knows where it ended.
 */
static void find_end(struct salvage *v)
{
	u64 joins = v->newest, end = v->newest;

	for (size_t i = 0; i < v->n; i++) {
		const struct found *f = v->found + i;

		if (f->sequence <= joins)
			continue;
		if (f->sequence != joins + 1) {
			v->known = false;
			return;
		}
		joins++;
		if (!f->batch || f->batch == f->sequence)
			end = joins;
	}
	v->newest = end;
}

/* Does what comes next say that the log had the same write? */
static bool is_known(const struct salvage *v, size_t i)
{
	const struct found *f = v->found + i;

	while (++i < v->n && v->found[i].sequence == f->sequence)
		if (v->found[i].rank == NAMED && !v->found[i].in_nvram)
			return v->found[i].sector == f->sector && v->found[i].sectors == f->sectors &&
			       v->found[i].stored == f->stored && v->found[i].crc == f->crc;
	return false;
}

/* Of each sequence the best; up to the newest that counts. */
static void choose(struct salvage *v)
{
	size_t n = 0;

	if (v->n)
		qsort(v->found, v->n, sizeof(*v->found), by_sequence);
	if (v->known && v->s->header.end_bad)
		find_end(v);
	for (size_t i = 0; i < v->n; i++) {
		const struct found *f = v->found + i;

		if ((v->known && f->sequence > v->newest) ||
		    (n && v->found[n - 1].sequence == f->sequence) ||
		    (f->rank == OLDER && !is_known(v, i)))
			continue;
		v->found[n++] = *f;
	}
	v->n = n;
	if (n && v->found[n - 1].sequence > v->newest)
		v->newest = v->found[n - 1].sequence;
}

/*
 * What of entry @i is written over by a later one: by @any, or by one whose write isn't lost, or
 * that is said to be lost.
 */
static void find_over(const struct salvage *v, size_t i, bool any, u8 *over)
{
	const struct found *f = v->found + i;

	memset(over, 0, f->sectors);
	for (size_t k = i + 1; k < v->n; k++) {
		const struct found *o = v->found + k;
		u64 begin = max_t(u64, f->sector, o->sector);
		u64 end = min_t(u64, f->sector + f->sectors, o->sector + o->sectors);

		if ((any || o->rank != NAMED || !o->stored) && begin < end)
			memset(over + (begin - f->sector), 1, end - begin);
	}
}

/* Has the data disk what is left of it? */
static bool is_there(struct salvage *v, const struct found *f, const u8 *over)
{
	struct set *s = v->s;
	size_t bytes = (size_t)f->stored << SECTOR_SHIFT;
	struct dcd_entry *n = (struct dcd_entry *)(s->buf + DCD_BLOCK);
	u32 at = DCD_BLOCK + s->super.geometry.table_bytes;

	if (!bytes)
		return false;
	device_read_around(f->in_nvram ? &s->nvram : &s->log, s->buf + at, bytes, f->at, s->unread);
	if (device_try_read(&s->data, s->spare, bytes, f->sector << SECTOR_SHIFT))
		return false;
	n->offset = cpu_to_le32(at >> SECTOR_SHIFT);
	n->stored = cpu_to_le32(f->stored);
	n->payload_crc = cpu_to_le32(f->crc);
	for (u32 k = 0; k < f->sectors; k++)
		s->unread[k] = !over[k];
	return dcd_entry_from_data(s->buf, 0, s->spare, s->unread);
}

/*
 * What a later one has written there says nothing of this one, whatever has become of the later
 * one: the data disk may have both.
 */
static void ask_data(struct salvage *v, size_t i)
{
	struct found *f = v->found + i;
	u8 *over = calloc(f->sectors, 1);

	if (over) {
		find_over(v, i, true, over);
		if (is_there(v, f, over))
			f->rank = THERE;
	}
	free(over);
}

/* A named one, when it is known which of the later ones are there. */
static void lost_parts(struct salvage *v, size_t i)
{
	const struct found *f = v->found + i;
	u8 *over = calloc(f->sectors, 1);
	u32 from = 0;

	if (over)
		find_over(v, i, false, over);
	while (from < f->sectors) {
		u32 to = from;

		while (to < f->sectors && (!over || !over[to]))
			to++;
		if (to > from)
			lost_add(v->s, f->sequence, f->sequence, f->sector + from, to - from);
		from = to + 1;
	}
	free(over);
}

/*
 * Without a log, or the NVRAM's header: those without a gap up to the newest. False: the newest
 * aren't there.
 */
static bool last_run(struct salvage *v)
{
	size_t from = v->n;

	if (!v->n || v->found[v->n - 1].sequence != v->newest || (v->s->log_lost && !v->known))
		return v->newest <= v->applied;
	while (from && (from == v->n ||
			v->found[from - 1].sequence + 1 == v->found[from].sequence))
		from--;
	v->n -= from;
	memmove(v->found, v->found + from, v->n * sizeof(*v->found));
	/* Without the log what was before that run may as well be on the data disk; else it is listed. */
	if (v->s->log_lost)
		v->applied = v->found[0].sequence - 1;
	return true;
}

static void tell_missing(struct salvage *v)
{
	struct set *s = v->s;
	char text[512];

	dcd_plan_missing(&s->plan, v->newest);
	if (!s->plan.missing)
		return;
	dcd_plan_text(&s->plan, text, sizeof(text));
	fprintf(stderr, "dcd: %s: %s\n", s->nvram.path, text);
}

static void find_lost(struct salvage *v)
{
	u64 next = v->applied + 1;

	for (size_t i = 0; i < v->n; i++)
		if (v->found[i].rank == NAMED)
			ask_data(v, i);
	for (size_t i = 0; i < v->n; i++) {
		const struct found *f = v->found + i;

		if (f->sequence > next)
			lost_add(v->s, next, f->sequence - 1, 0, 0);
		if (f->rank == NAMED)
			lost_parts(v, i);
		next = f->sequence + 1;
	}
	if (next <= v->newest)
		lost_add(v->s, next, v->newest, 0, 0);
}

/*
 * Without the log, or the NVRAM's header, nobody knows whether a later one whose payload is wrong
 * has got there.
 */
static void find_guards(struct salvage *v)
{
	bool unknown = v->s->log_lost || v->s->header_lost;

	v->guards = malloc((v->n + 1) * sizeof(*v->guards));
	if (!v->guards) {
		fputs("dcd: no memory\n", stderr);
		v->s->failed = true;
		return;
	}
	for (size_t i = 0; i < v->n; i++)
		if (v->found[i].rank == THERE || (unknown && v->found[i].rank == NAMED))
			v->guards[v->n_guards++] = i;
}

/* May what is in these sectors be newer than entry @i? */
static bool guarded(const struct salvage *v, size_t i, u64 sector, u64 end)
{
	for (size_t k = 0; k < v->n_guards; k++) {
		const struct found *o = v->found + v->guards[k];

		if (v->guards[k] > i && o->sector < end && sector < o->sector + o->sectors)
			return true;
	}
	return false;
}

/* But for what may be newer there. */
static int write_around(struct salvage *v, size_t i)
{
	const struct found *f = v->found + i;
	int r = 0;

	for (u32 n = 0; !r && n < f->sectors; n++) {
		u64 sector = f->sector + n;

		if (guarded(v, i, sector, sector + 1))
			continue;
		r = f->stored ? device_write(&v->s->data, v->s->buf + ((size_t)n << SECTOR_SHIFT),
					     SECTOR_SIZE, sector << SECTOR_SHIFT) :
				device_zero(&v->s->data, SECTOR_SIZE, sector << SECTOR_SHIFT);
	}
	return r;
}

static int write_one(struct salvage *v, const struct found *f)
{
	struct set *s = v->s;
	size_t bytes = (size_t)f->stored << SECTOR_SHIFT;
	bool around = guarded(v, f - v->found, f->sector, f->sector + f->sectors);

	if (!f->stored && around)
		return write_around(v, f - v->found);
	if (!f->stored)
		return device_zero(&s->data, (u64)f->sectors << SECTOR_SHIFT, f->sector << SECTOR_SHIFT);
	if (device_read_around(f->in_nvram ? &s->nvram : &s->log, s->buf, bytes, f->at, s->unread))
		fprintf(stderr, "dcd: entry %" PRIu64 " can't be read any more\n", f->sequence);
	if (dcd_crc(s->buf, bytes) != f->crc) {
		fprintf(stderr, "dcd: entry %" PRIu64 " reads otherwise for the second time: copy log and NVRAM to good devices, then again\n",
			f->sequence);
		return -1;
	}
	if (around)
		return write_around(v, f - v->found);
	return device_write(&s->data, s->buf, bytes, f->sector << SECTOR_SHIFT);
}

static int write_all(struct salvage *v, bool dry, struct tally *done)
{
	for (size_t i = 0; i < v->n; i++) {
		const struct found *f = v->found + i;

		if (f->rank == NAMED || f->rank == THERE)
			continue;
		if (!dry && write_one(v, f))
			return -1;
		done->entries++;
		done->sectors += f->sectors;
	}
	return dry ? 0 : device_flush(&v->s->data);
}

static bool nvram_has_any(const struct salvage *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->found[i].in_nvram)
			return true;
	return false;
}

/* Slots have what was logged last, until they are used again. */
static int refuse_nvram(struct set *s)
{
	s->reason = "nvram_empty";
	snprintf(s->message, sizeof(s->message), "%s: it has no header, and nothing of this log: wrong NVRAM? Without --nvram what the log has is saved alone",
		 s->nvram.path);
	return -1;
}

/* What is older than the newest may be older than the data disk. */
static int refuse_newest(struct set *s)
{
	s->reason = "newest_entries_missing";
	snprintf(s->message, sizeof(s->message), "%s: the newest entries can't be read, and without the %s nothing tells what of the others is on the data disk already, or older than that: nothing is written",
		 s->nvram.path, s->log_lost ? "log" : "NVRAM's header");
	return -1;
}

int set_salvage(struct set *s, bool dry, bool anyway, struct tally *done)
{
	bool old = s->plan.refusal == DCD_REFUSE_OLD;
	struct salvage v = { .s = s };
	int r = 0;

	dcd_plan_begin(&s->plan, &s->super.geometry, &s->super.super, &s->header.header,
		       s->header.newest);
	old = old || s->plan.refusal == DCD_REFUSE_OLD;
	v.applied = s->plan.applied;
	v.newest = s->plan.known;
	/* One of an earlier time doesn't know what was the newest. */
	v.known = s->has_nvram && s->header.newest && !old;
	s->plan.end_bad = s->has_nvram && s->header.end_bad;
	memset(done, 0, sizeof(*done));
	lost_none(s);	/* what a walk has found */
	if (!look_everywhere(&v)) {
		for (size_t i = 0; i < v.n; i++)
			set_cover(s, v.found[i].sector, v.found[i].sectors);
		if (s->header_lost && !nvram_has_any(&v)) {
			free(v.found);
			return refuse_nvram(s);
		}
		choose(&v);
		if ((s->log_lost || s->header_lost) && !last_run(&v)) {
			free(v.found);
			return refuse_newest(s);
		}
		tell_missing(&v);
		/* What the NVRAM had acknowledged since is nowhere, and nobody knows how much it is. */
		if (old || (s->header_lost && !v.known))
			s->plan.missing = U64_MAX;
		find_lost(&v);
		find_guards(&v);
		r = set_witnesses(s, anyway);
		if (!r && !s->failed && write_all(&v, dry, done))
			s->failed = true;
	}
	free(v.guards);
	free(v.found);
	return s->failed ? -1 : r;
}
