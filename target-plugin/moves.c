// SPDX-License-Identifier: GPL-2.0-only
#include "moves.h"

static bool is_block(u64 what)
{
	return what != DCD_SPARE_FREE && what != DCD_SPARE_BAD;
}

/* Each block of the ring is in one spare at most. */
static bool take(const struct dcd_moved *d, const struct dcd_geometry *g, struct dcd_moves *m)
{
	u64 first = DCD_RING_START / DCD_BLOCK;
	u64 end = first + g->segments * (g->segment_bytes / DCD_BLOCK);
	u32 i;

	memset(m, 0, sizeof(*m));
	m->generation = le64_to_cpu(d->generation);
	for (i = 0; i < DCD_SPARES; i++) {
		u64 what = le64_to_cpu(d->spares[i]);

		if (is_block(what) && (what < first || what >= end ||
				       dcd_moves_spare_of(m, what) < DCD_SPARES))
			return false;
		dcd_moves_set(m, i, what);
	}
	return m->generation <= DCD_COUNTER_MAX;
}

static enum dcd_copy kind(const struct dcd_moved *p, const struct dcd_geometry *g,
			  struct dcd_moves *m)
{
	const u8 *b = (const u8 *)p;
	u32 crc, i, zero = 0;

	if (le64_to_cpu(p->magic) != DCD_MOVED_MAGIC) {
		for (i = 0; i < sizeof(*p) && !b[i]; i++)
			;
		return i == sizeof(*p) ? DCD_COPY_BLANK : DCD_COPY_FOREIGN;
	}
	crc = crc32c(~0U, b, offsetof(struct dcd_moved, crc));
	crc = crc32c(crc, (const u8 *)&zero, sizeof(zero));
	crc = crc32c(crc, b + offsetof(struct dcd_moved, uuid),
		     sizeof(*p) - offsetof(struct dcd_moved, uuid));
	if (crc != le32_to_cpu(p->crc))
		return DCD_COPY_DAMAGED;
	if (memcmp(p->uuid, g->uuid, sizeof(p->uuid)) || le64_to_cpu(p->epoch) != g->epoch)
		return DCD_COPY_FOREIGN;
	return le32_to_cpu(p->version) == DCD_VERSION && take(p, g, m) ? DCD_COPY_VALID :
									 DCD_COPY_DAMAGED;
}

bool dcd_moves_find(const void *blocks, const struct dcd_geometry *g, struct dcd_moves_found *f)
{
	const struct dcd_moved *copy[2] = { blocks, blocks + DCD_BLOCK };
	bool a, b;

	memset(f, 0, sizeof(*f));
	f->copies[1] = kind(copy[1], g, &f->moves);
	f->copies[0] = kind(copy[0], g, &f->moves);
	a = f->copies[0] == DCD_COPY_VALID;
	b = f->copies[1] == DCD_COPY_VALID;
	f->counts = !a || (b && le64_to_cpu(copy[1]->generation) >
				le64_to_cpu(copy[0]->generation));
	f->differ = !a || !b || memcmp(copy[0], copy[1], sizeof(*copy[0]));
	if (!a && !b)
		memset(&f->moves, 0, sizeof(f->moves));
	else if (f->counts)
		(void)take(copy[1], g, &f->moves);
	return a || b;
}

void dcd_moves_make(const struct dcd_moves *m, const struct dcd_geometry *g, void *block)
{
	struct dcd_moved *d = block;
	u32 i;

	memset(block, 0, DCD_BLOCK);
	d->magic = cpu_to_le64(DCD_MOVED_MAGIC);
	d->version = cpu_to_le32(DCD_VERSION);
	memcpy(d->uuid, g->uuid, sizeof(d->uuid));
	d->epoch = cpu_to_le64(g->epoch);
	d->generation = cpu_to_le64(m->generation);
	for (i = 0; i < DCD_SPARES; i++)
		d->spares[i] = cpu_to_le64(m->spares[i]);
	d->crc = cpu_to_le32(dcd_crc(d, sizeof(*d)));
}

void dcd_moves_set(struct dcd_moves *m, u32 spare, u64 block)
{
	m->used -= is_block(m->spares[spare]);
	m->bad -= m->spares[spare] == DCD_SPARE_BAD;
	m->spares[spare] = block;
	m->used += is_block(block);
	m->bad += block == DCD_SPARE_BAD;
}

static u32 find(const struct dcd_moves *m, u64 what)
{
	u32 i = 0;

	while (i < DCD_SPARES && m->spares[i] != what)
		i++;
	return i;
}

u32 dcd_moves_spare_of(const struct dcd_moves *m, u64 block)
{
	return is_block(block) ? find(m, block) : DCD_SPARES;
}

u32 dcd_moves_free_one(const struct dcd_moves *m)
{
	return find(m, DCD_SPARE_FREE);
}

u64 dcd_moves_part(const struct dcd_moves *m, u64 at, u64 bytes, u64 *where)
{
	u32 within = at % DCD_BLOCK, i;
	u64 block = at / DCD_BLOCK;

	*where = at;
	if (!m || !m->used || !bytes || at + bytes <= DCD_RING_START)
		return bytes;
	for (i = 0; i < DCD_SPARES; i++) {
		u64 moved = m->spares[i];

		if (!is_block(moved) || moved < block)
			continue;
		if (moved == block) {
			*where = dcd_moves_place(i) + within;
			return min_t(u64, bytes, DCD_BLOCK - within);
		}
		bytes = min_t(u64, bytes, moved * DCD_BLOCK - at);
	}
	return bytes;
}
