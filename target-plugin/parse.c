// SPDX-License-Identifier: GPL-2.0-only
#include "parse.h"

u32 dcd_crc(const void *p, size_t bytes)
{
	return crc32c(~0U, p, bytes);
}

static bool all_zero(const void *p, size_t bytes)
{
	const u8 *b = p;

	while (bytes--)
		if (*b++)
			return false;
	return true;
}

/* @crc: the checksum in it, @seen: computed with that field 0. */
static enum dcd_copy copy_kind(const void *p, size_t bytes, bool magic, u32 crc, u32 seen)
{
	if (magic)
		return crc == seen ? DCD_COPY_VALID : DCD_COPY_DAMAGED;
	return all_zero(p, bytes) ? DCD_COPY_BLANK : DCD_COPY_FOREIGN;
}

static enum dcd_copy super_kind(const struct dcd_super *p)
{
	struct dcd_super s = *p;

	s.crc = 0;
	return copy_kind(p, sizeof(*p), le64_to_cpu(s.magic) == DCD_SUPER_MAGIC,
			 le32_to_cpu(p->crc), dcd_crc(&s, sizeof(s)));
}

static enum dcd_copy header_kind(const struct dcd_nvram_header *p, bool unread)
{
	struct dcd_nvram_header h = *p;

	if (unread)
		return DCD_COPY_UNREAD;
	h.crc = 0;
	return copy_kind(p, sizeof(*p), le64_to_cpu(h.magic) == DCD_NVRAM_MAGIC,
			 le32_to_cpu(p->crc), dcd_crc(&h, sizeof(h)));
}

/* Which copy counts, by kinds and generations; 2: none, and *why. */
static unsigned int choose(const enum dcd_copy *kinds, u64 first, u64 second,
			   enum dcd_reason *why)
{
	bool a = kinds[0] == DCD_COPY_VALID, b = kinds[1] == DCD_COPY_VALID;

	*why = DCD_OK;
	if (a || b)
		return !a || (b && second > first);
	if (kinds[0] >= DCD_COPY_DAMAGED || kinds[1] >= DCD_COPY_DAMAGED)
		*why = DCD_BAD_CRC;
	else if (kinds[0] == DCD_COPY_FOREIGN || kinds[1] == DCD_COPY_FOREIGN)
		*why = DCD_NO_MAGIC;
	else
		*why = DCD_BLANK;
	return 2;
}

static enum dcd_reason check_format(u32 version, const struct dcd_features *f, u64 *detail)
{
	*detail = version;
	if (version != DCD_VERSION)
		return DCD_BAD_VERSION;
	*detail = (le32_to_cpu(f->incompat) & ~DCD_INCOMPAT) |
		  (le32_to_cpu(f->ro_compat) & ~DCD_RO_COMPAT);
	return *detail ? DCD_BAD_FEATURES : DCD_OK;
}

static enum dcd_reason retired(const struct dcd_features *f)
{
	return le32_to_cpu(f->incompat) & DCD_INCOMPAT_RETIRED ? DCD_RETIRED : DCD_OK;
}

static bool counter_right(__le64 counter, u64 *detail)
{
	*detail = le64_to_cpu(counter);
	return *detail <= DCD_COUNTER_MAX;
}

static enum dcd_reason check_super(struct dcd_super_found *f, u64 data_sectors, u64 log_sectors)
{
	const struct dcd_super *s = &f->super;
	u64 segments = le64_to_cpu(s->segments);
	u32 seg = le32_to_cpu(s->segment_bytes), table = le32_to_cpu(s->table_bytes);
	enum dcd_reason r = check_format(le32_to_cpu(s->version), &s->features, &f->a);

	if (r)
		return r;
	f->a = le64_to_cpu(s->data_sectors);
	f->b = data_sectors;
	if (data_sectors && f->a != f->b)
		return DCD_OTHER_DATA;
	if (seg < DCD_SEGMENT_MIN || seg > DCD_SEGMENT_MAX || seg % DCD_BLOCK ||
	    table < DCD_BLOCK || table % DCD_BLOCK || table > seg / 4 ||
	    segments < DCD_SEGMENTS_MIN || segments > U64_MAX / 2 / DCD_SEGMENT_MAX)
		return DCD_BAD_GEOMETRY;
	if (!counter_right(s->generation, &f->a) || !counter_right(s->tail, &f->a) ||
	    !counter_right(s->applied, &f->a) || !counter_right(s->newest, &f->a))
		return DCD_BAD_COUNTER;
	f->a = max_t(u64, le64_to_cpu(s->log_sectors),
		     (DCD_RING_START + segments * seg) >> SECTOR_SHIFT);
	f->b = log_sectors;
	if (f->a > f->b)
		return DCD_TRUNCATED;
	memcpy(f->geometry.uuid, s->uuid, sizeof(f->geometry.uuid));
	f->geometry.epoch = le64_to_cpu(s->epoch);
	f->geometry.data_sectors = le64_to_cpu(s->data_sectors);
	f->geometry.segments = segments;
	f->geometry.segment_bytes = seg;
	f->geometry.table_bytes = table;
	f->geometry.nvram = le32_to_cpu(s->flags) & DCD_SUPER_NVRAM;
	return retired(&s->features);
}

void dcd_super_find(const void *blocks, u64 data_sectors, u64 log_sectors,
		    struct dcd_super_found *f)
{
	const struct dcd_super *copy[2] = { blocks, blocks + DCD_BLOCK };

	memset(f, 0, sizeof(*f));
	f->copies[0] = super_kind(copy[0]);
	f->copies[1] = super_kind(copy[1]);
	f->counts = choose(f->copies, le64_to_cpu(copy[0]->generation),
			   le64_to_cpu(copy[1]->generation), &f->reason);
	if (f->reason)
		return;
	f->super = *copy[f->counts];
	f->differ = f->copies[!f->counts] != DCD_COPY_VALID ||
		    copy[0]->data_sectors != copy[1]->data_sectors;
	if (f->copies[!f->counts] == DCD_COPY_VALID) {
		f->other_tail = le64_to_cpu(copy[!f->counts]->tail);
		f->other_applied = le64_to_cpu(copy[!f->counts]->applied);
	}
	f->reason = check_super(f, data_sectors, log_sectors);
}

static enum dcd_reason check_header(struct dcd_header_found *f, u64 bytes,
				    const struct dcd_geometry *g)
{
	const struct dcd_nvram_header *h = &f->header;
	enum dcd_reason r = check_format(le32_to_cpu(h->version), &h->features, &f->a);

	if (r)
		return r;
	if (g && memcmp(h->uuid, g->uuid, sizeof(h->uuid)))
		return DCD_OTHER_UUID;
	if (g && le64_to_cpu(h->epoch) != g->epoch)
		return DCD_OTHER_EPOCH;
	if (!counter_right(h->generation, &f->a) || !counter_right(h->applied, &f->a))
		return DCD_BAD_COUNTER;
	f->a = le64_to_cpu(h->bytes);
	f->b = bytes;
	if (f->a > f->b)
		return DCD_TRUNCATED;
	if (g && (le32_to_cpu(h->segment_bytes) != g->segment_bytes ||
		  le32_to_cpu(h->table_bytes) != g->table_bytes))
		return DCD_OTHER_SLOTS;
	return retired(&h->features);
}

/* Of one end record, and what it says. */
static enum dcd_copy end_kind(const void *at, bool unread, u64 epoch, u64 *newest)
{
	struct dcd_nvram_end end;
	u32 crc;

	*newest = 0;
	if (unread)
		return DCD_COPY_UNREAD;
	memcpy(&end, at, sizeof(end));
	if (all_zero(&end, sizeof(end)))
		return DCD_COPY_BLANK;
	crc = le32_to_cpu(end.crc);
	end.crc = 0;
	if (le64_to_cpu(end.magic) != DCD_NVRAM_END_MAGIC || le64_to_cpu(end.epoch) != epoch ||
	    dcd_crc(&end, sizeof(end)) != crc)
		return DCD_COPY_DAMAGED;
	*newest = le64_to_cpu(end.newest);
	return DCD_COPY_VALID;
}

void dcd_ends_find(struct dcd_header_found *f, const void *base, const u8 *unread)
{
	u64 epoch = le64_to_cpu(f->header.epoch), newest[2];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		size_t at = DCD_NVRAM_END + i * DCD_NVRAM_COPY;

		f->ends[i] = end_kind(base + at, unread && unread[at >> SECTOR_SHIFT], epoch,
				      &newest[i]);
		if (f->ends[i] != DCD_COPY_VALID && f->ends[i] != DCD_COPY_BLANK)
			f->end_bad = true;
	}
	f->newest = max(newest[0], newest[1]);
	f->end_older = newest[0] > newest[1];
	/* Both are there before anything is published. */
	if (f->ends[f->end_older] == DCD_COPY_BLANK && f->newest)
		f->end_bad = true;
}

void dcd_header_find(const void *base, const u8 *unread, u64 bytes,
		     const struct dcd_geometry *g, struct dcd_header_found *f)
{
	const struct dcd_nvram_header *copy[2] = { base, base + DCD_NVRAM_COPY };

	memset(f, 0, sizeof(*f));
	f->copies[0] = header_kind(copy[0], unread && unread[0]);
	f->copies[1] = header_kind(copy[1], unread && unread[DCD_NVRAM_COPY >> SECTOR_SHIFT]);
	f->counts = choose(f->copies, le64_to_cpu(copy[0]->generation),
			   le64_to_cpu(copy[1]->generation), &f->reason);
	if (f->reason)
		return;
	f->header = *copy[f->counts];
	if (f->copies[!f->counts] == DCD_COPY_VALID)
		f->other_applied = le64_to_cpu(copy[!f->counts]->applied);
	dcd_ends_find(f, base, unread);
	f->reason = check_header(f, bytes, g);
}

void dcd_end_make(struct dcd_nvram_end *end, u64 epoch, u64 newest)
{
	memset(end, 0, sizeof(*end));
	end->magic = cpu_to_le64(DCD_NVRAM_END_MAGIC);
	end->epoch = cpu_to_le64(epoch);
	end->newest = cpu_to_le64(newest);
	end->crc = cpu_to_le32(dcd_crc(end, sizeof(*end)));
}

/* An earlier version takes them for void: it doesn't keep those true that have an octave. */
static __le32 witnessed_by(u64 generation)
{
	return cpu_to_le32(~(u32)generation);
}

static bool witnesses_count(const struct dcd_super *s)
{
	return s->witnessed == witnessed_by(le64_to_cpu(s->generation));
}

bool dcd_witness_of(const struct dcd_super *s, u32 i, struct dcd_witnessed *w)
{
	u64 place = le64_to_cpu(s->witnesses[i].place), size = le64_to_cpu(s->data_sectors);

	w->sector = place >> 8;
	w->octave = place >> 4 & 0xf;
	w->sectors = place & 0xf;
	w->crc = le32_to_cpu(s->witnesses[i].crc);
	return witnesses_count(s) && w->sectors && w->sectors <= DCD_BLOCK >> SECTOR_SHIFT &&
	       w->sector < size && w->sectors <= size - w->sector;
}

static struct dcd_witness witness(const struct dcd_witnessed *w)
{
	return (struct dcd_witness){
		.place = cpu_to_le64(w->sector << 8 | w->octave << 4 | w->sectors),
		.crc = cpu_to_le32(w->crc),
	};
}

void dcd_witness_name(struct dcd_super *s, const struct dcd_witnessed *w, u32 n)
{
	u32 i;

	memset(s->witnesses, 0, sizeof(s->witnesses));
	for (i = 0; i < n; i++)
		s->witnesses[i] = witness(w + i);
	s->witnessed = witnessed_by(le64_to_cpu(s->generation));
}

void dcd_witness_pass(struct dcd_nvram_header *h, const struct dcd_witnessed *w, u32 n, u64 applied)
{
	u32 i;

	memset(h->witnesses, 0, sizeof(h->witnesses));
	for (i = 0; i < n; i++)
		h->witnesses[i] = witness(w + i);
	h->witnessed = cpu_to_le64(~applied);
}

void dcd_witness_passed(struct dcd_super *s, const struct dcd_nvram_header *h)
{
	dcd_witness_name(s, NULL, 0);
	if (h->witnessed == ~h->applied)
		memcpy(s->witnesses, h->witnesses, sizeof(h->witnesses));
}

static u64 grown_from(const struct dcd_super *s, u32 i)
{
	u64 word = le64_to_cpu(s->grown[i].sectors), sectors = word >> 8;

	return word & 0xff || sectors >= le64_to_cpu(s->data_sectors) ? 0 : sectors;
}

u64 dcd_data_end(const struct dcd_super *s, u64 sectors, u32 i)
{
	u64 said = le64_to_cpu(s->data_sectors);

	if (i > 1)
		return grown_from(s, i - 2);
	return i && said >= sectors ? 0 : i ? said : sectors;
}

void dcd_grown_add(struct dcd_super *s, u64 sectors, u64 leg)
{
	u32 kept = DCD_GROWN - 1;

	if (leg && grown_from(s, kept) == leg)
		kept--;
	memmove(s->grown + 1, s->grown, kept * sizeof(s->grown[0]));
	s->grown[0] = (struct dcd_grown){ .sectors = cpu_to_le64(sectors << 8) };
}

unsigned int dcd_super_next(struct dcd_super *s, u64 tail, u64 applied)
{
	u64 generation = le64_to_cpu(s->generation) + 1;
	u32 i;

	/* Witnesses of an earlier version: they aren't kept true, and it would believe them. */
	for (i = 0; i < DCD_GROWN; i++)
		if (!grown_from(s, i))
			s->grown[i] = (struct dcd_grown){ 0 };
	/* Who doesn't know of them doesn't do this, so what it leaves doesn't count. */
	if (witnesses_count(s))
		s->witnessed = witnessed_by(generation);
	s->generation = cpu_to_le64(generation);
	s->tail = cpu_to_le64(tail);
	s->applied = cpu_to_le64(applied);
	s->crc = 0;
	s->crc = cpu_to_le32(dcd_crc(s, sizeof(*s)));
	return generation & 1;
}

unsigned int dcd_header_next(struct dcd_nvram_header *h, u64 applied)
{
	u64 generation = le64_to_cpu(h->generation) + 1;

	h->generation = cpu_to_le64(generation);
	h->applied = cpu_to_le64(applied);
	h->crc = 0;
	h->crc = cpu_to_le32(dcd_crc(h, sizeof(*h)));
	return generation & 1;
}

void dcd_generations_join(struct dcd_super *s, struct dcd_nvram_header *h)
{
	u64 old = le64_to_cpu(s->generation), header = le64_to_cpu(h->generation);
	u64 next = max(old, header + DCD_APART) + 1;
	bool witnesses = witnesses_count(s);

	next += !((next - old) & 1);
	s->flags |= cpu_to_le32(DCD_SUPER_JOINED);
	s->generation = cpu_to_le64(next - 1);
	if (witnesses)
		s->witnessed = witnessed_by(next - 1);
	next += !((next - header) & 1);
	h->generation = cpu_to_le64(next - 1);
}

bool dcd_header_is_old(const struct dcd_super *s, const struct dcd_nvram_header *h)
{
	/* Of a log that is retired the data disk has all. */
	return le32_to_cpu(s->flags) & DCD_SUPER_JOINED &&
	       !(le32_to_cpu(s->features.incompat) & DCD_INCOMPAT_RETIRED) &&
	       le64_to_cpu(h->generation) + DCD_APART < le64_to_cpu(s->generation);
}

void dcd_super_retire(struct dcd_super *s)
{
	s->features.incompat |= cpu_to_le32(DCD_INCOMPAT_RETIRED);
	dcd_super_next(s, le64_to_cpu(s->tail), le64_to_cpu(s->applied));
}

void dcd_header_retire(struct dcd_nvram_header *h)
{
	h->features.incompat |= cpu_to_le32(DCD_INCOMPAT_RETIRED);
	dcd_header_next(h, le64_to_cpu(h->applied));
}

const char *dcd_reason_name(enum dcd_reason reason)
{
	static const char *const names[] = {
		[DCD_OK] = "ok",
		[DCD_BLANK] = "blank",
		[DCD_NO_MAGIC] = "foreign",
		[DCD_BAD_CRC] = "bad_checksum",
		[DCD_BAD_VERSION] = "bad_version",
		[DCD_BAD_FEATURES] = "unknown_features",
		[DCD_BAD_GEOMETRY] = "bad_geometry",
		[DCD_BAD_COUNTER] = "bad_counter",
		[DCD_OTHER_DATA] = "other_data_disk",
		[DCD_TRUNCATED] = "truncated",
		[DCD_OTHER_UUID] = "other_uuid",
		[DCD_OTHER_EPOCH] = "other_epoch",
		[DCD_OTHER_SLOTS] = "other_slots",
		[DCD_RETIRED] = "retired",
	};

	return names[reason];
}

int dcd_reason_errno(enum dcd_reason reason)
{
	switch (reason) {
	case DCD_OK:
		return 0;
	case DCD_BAD_VERSION:
	case DCD_BAD_FEATURES:
		return -EOPNOTSUPP;
	case DCD_BAD_GEOMETRY:
	case DCD_BAD_COUNTER:
	case DCD_TRUNCATED:
	case DCD_OTHER_SLOTS:
		return -EUCLEAN;
	default:
		return -EMEDIUMTYPE;
	}
}

/* What log and NVRAM have in common. */
static int text(const char *what, enum dcd_reason reason, u64 a, char *buf, size_t size)
{
	switch (reason) {
	case DCD_BAD_VERSION:
		return scnprintf(buf, size, "%s has format version %llu: use a newer program",
				 what, (unsigned long long)a);
	case DCD_BAD_FEATURES:
		return scnprintf(buf, size, "%s has unknown features %#llx: use a newer program",
				 what, (unsigned long long)a);
	case DCD_BAD_COUNTER:
		return scnprintf(buf, size, "%s says that something was counted up to %llu, which can't be: damaged",
				 what, (unsigned long long)a);
	case DCD_RETIRED:
		return scnprintf(buf, size, "%s was retired: the data disk has all of its writes (but for what is LOST, if its log was left with that), and may have newer ones by now. To use it again: dcd format",
				 what);
	default:
		return scnprintf(buf, size, "%s: %s", what, dcd_reason_name(reason));
	}
}

int dcd_super_text(const struct dcd_super_found *f, char *buf, size_t size)
{
	static const char grown[] =
		" If it is the right one, has grown and wasn't used without this log, say grow=1";

	switch (f->reason) {
	case DCD_BLANK:
	case DCD_NO_MAGIC:
		return scnprintf(buf, size, "no valid DCD log: `dcd format` makes one (and forgets what was there)%s",
				 f->reason == DCD_BLANK ? "; it is blank" : "");
	case DCD_BAD_CRC:
		return scnprintf(buf, size, "no valid DCD log, both copies of the superblock are damaged: restore it from a copy; `dcd format` makes a new one (and forgets what was there)");
	case DCD_OTHER_DATA:
		return scnprintf(buf, size, "the log belongs to a data disk of %llu sectors, this one has %llu: wrong data disk?%s",
				 (unsigned long long)f->a, (unsigned long long)f->b,
				 f->b > f->a ? grown : "");
	case DCD_BAD_GEOMETRY:
		return scnprintf(buf, size, "the log's superblock says %llu segments of %u bytes with tables of %u, which can't be: damaged",
				 (unsigned long long)le64_to_cpu(f->super.segments),
				 le32_to_cpu(f->super.segment_bytes),
				 le32_to_cpu(f->super.table_bytes));
	case DCD_TRUNCATED:
		return scnprintf(buf, size, "the log needs %llu sectors, the disk has %llu: truncated?",
				 (unsigned long long)f->a, (unsigned long long)f->b);
	default:
		return text("the log", f->reason, f->a, buf, size);
	}
}

int dcd_header_text(const struct dcd_header_found *f, char *buf, size_t size)
{
	switch (f->reason) {
	case DCD_BLANK:
	case DCD_NO_MAGIC:
	case DCD_BAD_CRC:
		return scnprintf(buf, size, "the NVRAM has no valid DCD header (%s): wrong NVRAM? If it is the right one, dcd recover --salvage takes what is in it by the log's word. `dcd format` makes one together with a new log, and gives up what that log has",
				 f->reason == DCD_BLANK ? "it is blank" :
				 f->reason == DCD_BAD_CRC ? "both copies are damaged" :
				 "it is something else's");
	case DCD_OTHER_UUID:
		return scnprintf(buf, size, "the NVRAM doesn't belong to the log, its uuid is another: wrong NVRAM or wrong log disk");
	case DCD_OTHER_EPOCH:
		return scnprintf(buf, size, "the NVRAM doesn't belong to the log as it was formatted last: wrong NVRAM or wrong log disk");
	case DCD_TRUNCATED:
		return scnprintf(buf, size, "the NVRAM was formatted with %llu bytes, now it has %llu",
				 (unsigned long long)f->a, (unsigned long long)f->b);
	case DCD_OTHER_SLOTS:
		return scnprintf(buf, size, "the NVRAM has slots of another size than the log's segments: damaged");
	default:
		return text("the NVRAM", f->reason, f->a, buf, size);
	}
}
