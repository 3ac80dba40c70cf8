// SPDX-License-Identifier: GPL-2.0-only
/* The second half of parse.h: places of the ring, entries, slots. */
#include "parse.h"

#define CRC32C_POLYNOMIAL 0x82f63b78U	/* bits reversed */

/*
 * A checksum of @bytes is off by @diff: which bit of them was flipped, if it was
 * only one? Counted from the end, or -1. A flipped bit adds what it contributes,
 * which is the polynomial shifted by the bits behind it.
 */
static s64 flipped_bit(u32 diff, size_t bytes)
{
	u32 delta = CRC32C_POLYNOMIAL;
	s64 bit;

	for (bit = 0; bit < (s64)bytes * 8; bit++) {
		if (delta == diff)
			return bit;
		delta = delta >> 1 ^ (delta & 1 ? CRC32C_POLYNOMIAL : 0);
	}
	return -1;
}

/*
 * @p has a wrong checksum in the field at @crc_at. Sets it right if a single bit
 * does that.
 */
static bool mend(u8 *p, size_t bytes, size_t crc_at)
{
	__le32 stored, none = 0;
	u32 diff;
	s64 bit;

	memcpy(&stored, p + crc_at, sizeof(stored));
	memcpy(p + crc_at, &none, sizeof(none));
	diff = dcd_crc(p, bytes) ^ le32_to_cpu(stored);
	memcpy(p + crc_at, &stored, sizeof(stored));
	if (diff && !(diff & (diff - 1)))
		return true;	/* the checksum's own bit */
	bit = flipped_bit(diff, bytes);
	if (bit < 0 || (bytes - 1 - bit / 8 >= crc_at &&
			bytes - 1 - bit / 8 < crc_at + sizeof(stored)))
		return false;
	p[bytes - 1 - bit / 8] ^= 0x80 >> bit % 8;
	return true;
}

static bool header_crc_right(const struct dcd_segment *p)
{
	struct dcd_segment h = *p;

	h.crc = 0;
	return dcd_crc(&h, sizeof(h)) == le32_to_cpu(p->crc);
}

static bool header_ours(const struct dcd_geometry *g, const struct dcd_segment *h)
{
	return le64_to_cpu(h->magic) == DCD_SEGMENT_MAGIC && le64_to_cpu(h->epoch) == g->epoch &&
	       !memcmp(h->uuid, g->uuid, sizeof(h->uuid));
}

static bool blank(const void *p, u32 bytes)
{
	const u8 *b = p;

	while (bytes--)
		if (*b++)
			return false;
	return true;
}

/* The checksum is wrong: which one was it? A header is in one sector, so it can't be torn. */
static enum dcd_segment_kind damaged_header(const struct dcd_geometry *g,
					    const struct dcd_segment *p, u64 sequence)
{
	struct dcd_segment h = *p;

	if (mend((u8 *)&h, sizeof(h), offsetof(struct dcd_segment, crc))) {
		if (!header_ours(g, &h))
			return DCD_SEGMENT_FOREIGN;
		if (le64_to_cpu(h.sequence) == sequence)
			return DCD_SEGMENT_FLIPPED;
	}
	if (!header_ours(g, p))
		return blank(p, SECTOR_SIZE) ? DCD_SEGMENT_BLANK : DCD_SEGMENT_FOREIGN;
	return le64_to_cpu(p->sequence) < sequence ? DCD_SEGMENT_STALE : DCD_SEGMENT_DAMAGED;
}

enum dcd_segment_kind dcd_segment_header(const struct dcd_geometry *g, const void *sector,
					 u64 sequence, u64 *found)
{
	const struct dcd_segment *h = sector;

	*found = 0;
	if (!header_crc_right(h))
		return damaged_header(g, h, sequence);
	if (!header_ours(g, h))
		return DCD_SEGMENT_FOREIGN;
	if (le64_to_cpu(h->sequence) > DCD_COUNTER_MAX)
		return DCD_SEGMENT_DAMAGED;
	*found = le64_to_cpu(h->sequence);
	if (*found != sequence)
		return *found < sequence ? DCD_SEGMENT_STALE : DCD_SEGMENT_LATER;
	if (le32_to_cpu(h->version) != DCD_VERSION || h->features.incompat ||
	    h->features.ro_compat)
		return DCD_SEGMENT_NEWER;
	return DCD_SEGMENT_VALID;
}

/* What an entry says of itself: it belongs here, and fits segment and data disk. */
static bool entry_fits(const struct dcd_geometry *g, const struct dcd_entry *n)
{
	u64 offset = (u64)le32_to_cpu(n->offset) << SECTOR_SHIFT;
	u64 stored = (u64)le32_to_cpu(n->stored) << SECTOR_SHIFT;
	u64 sector = le64_to_cpu(n->sector), sectors = le32_to_cpu(n->sectors);
	u16 type = le16_to_cpu(n->type);

	if (type < DCD_ENTRY_WRITE || type > DCD_ENTRY_LOST || n->flags || !sectors ||
	    sector >= g->data_sectors || sectors > g->data_sectors - sector)
		return false;
	return stored == (type == DCD_ENTRY_WRITE ? sectors << SECTOR_SHIFT : 0) &&
	       offset >= DCD_BLOCK + g->table_bytes && offset + stored <= g->segment_bytes;
}

static bool entry_crc_right(const struct dcd_entry *p)
{
	struct dcd_entry n = *p;

	n.crc = 0;
	return dcd_crc(&n, sizeof(n)) == le32_to_cpu(p->crc);
}

static bool payload_right(const void *seg, const struct dcd_entry *n)
{
	u64 offset = (u64)le32_to_cpu(n->offset) << SECTOR_SHIFT;
	u64 stored = (u64)le32_to_cpu(n->stored) << SECTOR_SHIFT;

	return dcd_crc((const u8 *)seg + offset, stored) == le32_to_cpu(n->payload_crc);
}

bool dcd_entry_named(const struct dcd_geometry *g, const void *seg, u32 number)
{
	const struct dcd_entry *n = dcd_entry_at(seg, number);

	return entry_crc_right(n) && le64_to_cpu(n->epoch) == g->epoch && entry_fits(g, n);
}

bool dcd_entry_valid(const struct dcd_geometry *g, const void *seg, u32 number)
{
	return dcd_entry_named(g, seg, number) && payload_right(seg, dcd_entry_at(seg, number));
}

/* Does it join those before it? @batch is what they have left open (0: none), then what is. */
static bool batch_goes_on(const struct dcd_entry *n, u64 *batch)
{
	u64 its = le64_to_cpu(n->batch), sequence = le64_to_cpu(n->sequence);

	if ((*batch && its != *batch) || (its && its < sequence))
		return false;
	*batch = its == sequence ? 0 : its;
	return true;
}

/*
 * The body's checksum is wrong by what a single bit would do: is it? One bit
 * spoils one entry at most, in the same way; a torn body has more wrong than that.
 */
static bool one_bit(const struct dcd_geometry *g, const void *seg, u32 entries, u32 used)
{
	const struct dcd_segment *h = seg;
	u32 diff = dcd_crc((const u8 *)seg + DCD_BLOCK, used - DCD_BLOCK) ^
		   le32_to_cpu(h->body_crc);
	s64 bit = flipped_bit(diff, used - DCD_BLOCK);
	u64 first = le64_to_cpu(h->first_entry);
	u32 i, at;

	if (bit < 0)
		return false;
	at = used - 1 - bit / 8;	/* the byte, from the segment's start */
	for (i = 0; i < entries; i++) {
		u32 entry = DCD_BLOCK + i * sizeof(struct dcd_entry), from, to, off;
		struct dcd_entry n = *dcd_entry_at(seg, i);

		if (at >= entry && at < entry + sizeof(n))
			((u8 *)&n)[at - entry] ^= 0x80 >> bit % 8;
		if (!entry_crc_right(&n) || le64_to_cpu(n.epoch) != g->epoch ||
		    le64_to_cpu(n.sequence) != first + i || !entry_fits(g, &n))
			return false;
		from = le32_to_cpu(n.offset) << SECTOR_SHIFT;
		to = from + (le32_to_cpu(n.stored) << SECTOR_SHIFT);
		if (to > used)
			return false;
		off = dcd_crc((const u8 *)seg + from, to - from) ^ le32_to_cpu(n.payload_crc);
		if (at < from || at >= to ? off != 0 :
		    flipped_bit(off, to - from) != bit - (s64)(used - to) * 8)
			return false;
	}
	return true;
}

enum dcd_segment_kind dcd_segment_parse(const struct dcd_geometry *g, const void *seg,
					u64 sequence)
{
	const struct dcd_segment *h = seg;
	enum dcd_segment_kind kind;
	u32 used, entries, i;
	u64 found, batch = 0;

	kind = dcd_segment_header(g, seg, sequence, &found);
	if (kind != DCD_SEGMENT_VALID)
		return kind;
	used = le32_to_cpu(h->used_bytes);
	entries = le32_to_cpu(h->entries);
	if (used < DCD_BLOCK + g->table_bytes || used > g->segment_bytes ||
	    entries > dcd_table_entries(g))
		return DCD_SEGMENT_DAMAGED;
	if (dcd_crc((const u8 *)seg + DCD_BLOCK, used - DCD_BLOCK) != le32_to_cpu(h->body_crc))
		return one_bit(g, seg, entries, used) ? DCD_SEGMENT_FLIPPED : DCD_SEGMENT_TORN;
	for (i = 0; i < entries; i++)
		if (!dcd_entry_valid(g, seg, i) || le64_to_cpu(dcd_entry_at(seg, i)->sequence) !=
						   le64_to_cpu(h->first_entry) + i ||
		    !batch_goes_on(dcd_entry_at(seg, i), &batch))
			return DCD_SEGMENT_DAMAGED;
	return batch ? DCD_SEGMENT_DAMAGED : DCD_SEGMENT_VALID;
}

bool dcd_segment_named(const struct dcd_geometry *g, const void *seg, u64 sequence)
{
	const struct dcd_segment *h = seg;
	u64 found, batch = 0, first = le64_to_cpu(h->first_entry);
	u32 used = le32_to_cpu(h->used_bytes), entries = le32_to_cpu(h->entries), i;

	if (dcd_segment_header(g, seg, sequence, &found) != DCD_SEGMENT_VALID ||
	    used < DCD_BLOCK + g->table_bytes || used > g->segment_bytes ||
	    entries > dcd_table_entries(g))
		return false;
	for (i = 0; i < entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(seg, i);
		u64 end = (u64)le32_to_cpu(n->offset) + le32_to_cpu(n->stored);

		if (!dcd_entry_named(g, seg, i) || le64_to_cpu(n->sequence) != first + i ||
		    end << SECTOR_SHIFT > used || !batch_goes_on(n, &batch))
			return false;
	}
	return !batch;
}

bool dcd_segment_from_slot(const struct dcd_geometry *g, void *seg, const void *slot,
			   u64 sequence)
{
	const struct dcd_segment *h = seg;
	u32 entries, i;
	bool some = false;

	if (!dcd_segment_named(g, seg, sequence))
		return false;
	entries = le32_to_cpu(h->entries);
	for (i = 0; i < entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(seg, i);
		size_t offset = (size_t)le32_to_cpu(n->offset) << SECTOR_SHIFT;

		if (dcd_entry_valid(g, seg, i) || memcmp(dcd_entry_at(slot, i), n, sizeof(*n)) ||
		    !dcd_entry_valid(g, slot, i))
			continue;
		memcpy(seg + offset, slot + offset, (size_t)le32_to_cpu(n->stored) << SECTOR_SHIFT);
		some = true;
	}
	return some;
}

bool dcd_segment_of_slot(const struct dcd_geometry *g, void *seg, const void *slot, u64 sequence,
			 u64 from, u64 until)
{
	u64 first = le64_to_cpu(dcd_entry_at(slot, 0)->sequence), batch = 0;
	u32 used = DCD_BLOCK + g->table_bytes, i, entries;
	struct dcd_segment *h = seg;

	if (!from || first > from || until <= from || until - first > dcd_table_entries(g))
		return false;
	entries = until - first;
	for (i = 0; i < entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(slot, i);

		if (!dcd_entry_valid(g, slot, i) || le64_to_cpu(n->sequence) != first + i ||
		    !batch_goes_on(n, &batch))
			return false;
		used = max(used, (le32_to_cpu(n->offset) + le32_to_cpu(n->stored)) << SECTOR_SHIFT);
	}
	if (batch)
		return false;
	memcpy(seg, slot, g->segment_bytes);
	memset(h, 0, DCD_BLOCK);
	h->magic = cpu_to_le64(DCD_SEGMENT_MAGIC);
	h->version = cpu_to_le32(DCD_VERSION);
	memcpy(h->uuid, g->uuid, sizeof(h->uuid));
	h->epoch = cpu_to_le64(g->epoch);
	h->sequence = cpu_to_le64(sequence);
	h->first_entry = cpu_to_le64(first);
	h->entries = cpu_to_le32(entries);
	h->used_bytes = cpu_to_le32(used);
	h->body_crc = cpu_to_le32(dcd_crc(seg + DCD_BLOCK, used - DCD_BLOCK));
	h->crc = cpu_to_le32(dcd_crc(h, sizeof(*h)));
	return true;
}

bool dcd_entry_from_data(void *seg, u32 number, const void *data, const u8 *left)
{
	const struct dcd_entry *n = dcd_entry_at(seg, number);
	u32 sectors = le32_to_cpu(n->stored), crc = ~0U, i;
	u8 *payload = (u8 *)seg + ((size_t)le32_to_cpu(n->offset) << SECTOR_SHIFT);
	const u8 *from = data;

	if (dcd_crc(data, (size_t)sectors << SECTOR_SHIFT) == le32_to_cpu(n->payload_crc)) {
		memcpy(payload, data, (size_t)sectors << SECTOR_SHIFT);
		return true;
	}
	for (i = 0; i < sectors; i++)
		crc = crc32c(crc, (left[i] ? from : payload) + (i << SECTOR_SHIFT), SECTOR_SIZE);
	if (crc != le32_to_cpu(n->payload_crc))
		return false;
	for (i = 0; i < sectors; i++)
		if (left[i])
			memcpy(payload + (i << SECTOR_SHIFT), from + (i << SECTOR_SHIFT),
			       SECTOR_SIZE);
	return true;
}

const char *dcd_segment_kind_name(enum dcd_segment_kind kind)
{
	static const char *const names[] = {
		[DCD_SEGMENT_VALID] = "valid",
		[DCD_SEGMENT_BLANK] = "blank",
		[DCD_SEGMENT_FOREIGN] = "foreign",
		[DCD_SEGMENT_STALE] = "stale",
		[DCD_SEGMENT_LATER] = "overwritten",
		[DCD_SEGMENT_TORN] = "torn",
		[DCD_SEGMENT_FLIPPED] = "bit-flipped",
		[DCD_SEGMENT_DAMAGED] = "damaged",
		[DCD_SEGMENT_NEWER] = "of a newer format",
	};

	return names[kind];
}

/*
 * A copy of entry @i of a slot if it is above @newest, or was before a bit flipped (then
 * *right is false). Of what never was an entry of ours nothing is known: false.
 */
static bool entry_above(const struct dcd_geometry *g, const void *slot, u32 i, u64 newest,
			struct dcd_entry *n, bool *right)
{
	*n = *dcd_entry_at(slot, i);
	*right = entry_crc_right(n);
	if (!*right && (blank(n, sizeof(*n)) ||
			!mend((u8 *)n, sizeof(*n), offsetof(struct dcd_entry, crc))))
		return false;
	return le64_to_cpu(n->epoch) == g->epoch && le64_to_cpu(n->sequence) > newest;
}

bool dcd_entry_unread(const struct dcd_entry *n, const u8 *unread)
{
	u32 at = le32_to_cpu(n->offset), end = at + le32_to_cpu(n->stored);

	for (; unread && at < end; at++)
		if (unread[at])
			return true;
	return false;
}

static bool table_unread(const struct dcd_geometry *g, const u8 *unread)
{
	u32 at = DCD_BLOCK >> SECTOR_SHIFT, end = at + (g->table_bytes >> SECTOR_SHIFT);

	for (; unread && at < end; at++)
		if (unread[at])
			return true;
	return false;
}

void dcd_slot_scan(const struct dcd_geometry *g, const void *slot, const u8 *unread, u64 newest,
		   struct dcd_slot_scan *s)
{
	u64 batch = 0;
	u32 lost = 0;	/* of @left */
	u32 i, at = 0;	/* number of the first entry above @newest */
	bool begun = false, goes_on = true;

	memset(s, 0, sizeof(*s));
	s->used = DCD_BLOCK + g->table_bytes;
	s->unread = table_unread(g, unread);
	for (i = 0; i < dcd_table_entries(g); i++) {
		struct dcd_entry n;
		u64 sequence;
		bool right;

		if (!entry_above(g, slot, i, newest, &n, &right)) {
			goes_on = goes_on && !begun;
			continue;
		}
		sequence = le64_to_cpu(n.sequence);
		s->highest = max(s->highest, sequence);
		if (!begun) {
			begun = true;
			s->first = sequence;
			at = i;
		}
		goes_on = goes_on && sequence == s->first + i - at;
		if (!goes_on) {
			s->resumes = s->resumes ?: sequence;
			continue;
		}
		s->left++;
		if (!right || !entry_fits(g, &n) || !batch_goes_on(&n, &batch) ||
		    !(payload_right(slot, &n) || dcd_entry_unread(&n, unread))) {
			s->left--;
			s->damaged = true;
			return;
		}
		lost += !payload_right(slot, &n);
		if (batch)
			continue;
		if (at) {	/* those before it would be above @newest, too */
			s->resumes = s->first;
			s->first = 0;
			s->left = 0;
			lost = 0;
			goes_on = false;
			continue;
		}
		s->used = (le32_to_cpu(n.offset) + le32_to_cpu(n.stored)) << SECTOR_SHIFT;
		s->entries += s->left;
		s->lost += lost;
		s->left = 0;
		lost = 0;
	}
}

bool dcd_entry_left(const struct dcd_geometry *g, const void *slot, u32 number, u64 newest)
{
	const struct dcd_entry *n = dcd_entry_at(slot, number);

	return le64_to_cpu(n->epoch) == g->epoch && le64_to_cpu(n->sequence) > newest;
}
