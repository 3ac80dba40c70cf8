// SPDX-License-Identifier: GPL-2.0-only
/* Log superblock and NVRAM header: two copies each, written in turn. */
#include <linux/crc32c.h>
#include <linux/slab.h>

#include "engine.h"

u32 dcd_crc(const void *p, size_t bytes)
{
	return crc32c(~0U, p, bytes);
}

static int check_features(const struct dcd_engine *e, const char *what, u32 version,
			  const struct dcd_features *f)
{
	u32 unknown = (le32_to_cpu(f->incompat) & ~DCD_INCOMPAT) |
		      (le32_to_cpu(f->ro_compat) & ~DCD_RO_COMPAT);

	if (version == DCD_VERSION && !unknown)
		return 0;
	pr_err("dcd: %s: %s has format version %u, unknown features %#x: use a newer module\n",
	       e->name, what, version, unknown);
	return -EOPNOTSUPP;
}

static bool super_valid(struct dcd_super s)
{
	u32 crc = le32_to_cpu(s.crc);

	s.crc = 0;
	return le64_to_cpu(s.magic) == DCD_SUPER_MAGIC && dcd_crc(&s, sizeof(s)) == crc;
}

static int super_check(struct dcd_engine *e)
{
	const struct dcd_super *s = &e->super;
	u64 sectors = le64_to_cpu(s->data_sectors), segments = le64_to_cpu(s->segments);
	u32 seg = le32_to_cpu(s->segment_bytes), table = le32_to_cpu(s->table_bytes);
	int r = check_features(e, "the log disk", le32_to_cpu(s->version), &s->features);

	if (r)
		return r;
	if (sectors != e->data.sectors) {
		pr_err("dcd: %s: the log %pg belongs to a data disk of %llu sectors, %pg has %llu: wrong data disk?\n",
		       e->name, e->log.bdev, sectors, e->data.bdev, (u64)e->data.sectors);
		return -EMEDIUMTYPE;
	}
	if (seg < DCD_SEGMENT_MIN || seg > DCD_SEGMENT_MAX || seg % DCD_BLOCK ||
	    table < DCD_BLOCK || table % DCD_BLOCK || table > seg / 4 ||
	    segments < DCD_SEGMENTS_MIN || segments > U64_MAX / DCD_SEGMENT_MAX ||
	    le64_to_cpu(s->log_sectors) > e->log.sectors ||
	    DCD_RING_START + segments * seg > e->log.sectors << SECTOR_SHIFT) {
		pr_err("dcd: %s: the log on %pg (%llu segments of %u bytes) doesn't fit its %llu sectors: truncated?\n",
		       e->name, e->log.bdev, segments, seg, (u64)e->log.sectors);
		return -EUCLEAN;
	}
	if (!!(le32_to_cpu(s->flags) & DCD_SUPER_NVRAM) != e->keeps) {
		pr_err("dcd: %s: the log %pg was formatted %s; nvram=%s doesn't fit\n", e->name,
		       e->log.bdev, e->keeps ? "without NVRAM" : "together with an NVRAM",
		       e->nv->type->name);
		return -EMEDIUMTYPE;
	}
	e->epoch = le64_to_cpu(s->epoch);
	e->segments = segments;
	e->segment_bytes = seg;
	e->table_bytes = table;
	return 0;
}

int dcd_super_read(struct dcd_engine *e)
{
	u8 *buf = kmalloc(2 * DCD_BLOCK, GFP_KERNEL);
	struct dcd_super *a, *b;
	int r;

	if (!buf)
		return -ENOMEM;
	a = (struct dcd_super *)buf;
	b = (struct dcd_super *)(buf + DCD_BLOCK);
	r = dcd_disk_io(&e->log, REQ_OP_READ, 0, buf, 2 * DCD_BLOCK);
	if (r) {
		pr_err("dcd: %s: can't read the superblock of the log %pg: error %d\n", e->name,
		       e->log.bdev, r);
	} else if (!super_valid(*a) && !super_valid(*b)) {
		pr_err("dcd: %s: %pg has no valid DCD log: `dcd format` makes one (and forgets what was there)\n",
		       e->name, e->log.bdev);
		r = -EMEDIUMTYPE;
	} else {
		if (!super_valid(*a) || (super_valid(*b) && le64_to_cpu(b->generation) >
					 le64_to_cpu(a->generation)))
			a = b;
		e->super = *a;
		r = super_check(e);
	}
	kfree(buf);
	return r;
}

int dcd_super_write(struct dcd_engine *e, u64 tail, u64 applied)
{
	u64 generation = le64_to_cpu(e->super.generation) + 1;
	struct dcd_super *s = e->destage_buf;
	int r;

	memset(s, 0, DCD_BLOCK);
	*s = e->super;
	s->generation = cpu_to_le64(generation);
	s->tail = cpu_to_le64(tail);
	s->applied = cpu_to_le64(applied);
	s->crc = 0;
	s->crc = cpu_to_le32(dcd_crc(s, sizeof(*s)));
	r = dcd_disk_io(&e->log, REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH | REQ_FUA,
			(generation & 1) * (DCD_BLOCK >> SECTOR_SHIFT), s, DCD_BLOCK);
	if (!r)
		e->super = *s;
	return r;
}

static bool header_valid(const struct dcd_nvram_header *p)
{
	struct dcd_nvram_header h = *p;

	h.crc = 0;
	return le64_to_cpu(h.magic) == DCD_NVRAM_MAGIC &&
	       dcd_crc(&h, sizeof(h)) == le32_to_cpu(p->crc);
}

int dcd_header_read(struct dcd_engine *e)
{
	const struct dcd_nvram_header *a = e->nv->base, *b = e->nv->base + DCD_NVRAM_COPY;
	int r;

	if (e->nv->bytes < DCD_BLOCK) {
		pr_err("dcd: %s: NVRAM of %zu bytes is too small\n", e->name, e->nv->bytes);
		return -ENOSPC;
	}
	if (!header_valid(a) && !header_valid(b)) {
		pr_err("dcd: %s: the NVRAM has no valid DCD header: wrong NVRAM? `dcd format` makes one together with a new log, and gives up what that log has\n",
		       e->name);
		return -EMEDIUMTYPE;
	}
	if (!header_valid(a) || (header_valid(b) && le64_to_cpu(b->generation) >
				 le64_to_cpu(a->generation)))
		a = b;
	r = check_features(e, "the NVRAM", le32_to_cpu(a->version), &a->features);
	if (r)
		return r;
	if (memcmp(a->uuid, e->super.uuid, sizeof(a->uuid)) || le64_to_cpu(a->epoch) != e->epoch) {
		pr_err("dcd: %s: the NVRAM (uuid %pU) doesn't belong to the log %pg (uuid %pU)\n",
		       e->name, a->uuid, e->log.bdev, e->super.uuid);
		return -EMEDIUMTYPE;
	}
	if (le64_to_cpu(a->bytes) > e->nv->bytes || le32_to_cpu(a->segment_bytes) !=
	    e->segment_bytes || le32_to_cpu(a->table_bytes) != e->table_bytes) {
		pr_err("dcd: %s: the NVRAM was formatted with %llu bytes, now it has %zu\n",
		       e->name, le64_to_cpu(a->bytes), e->nv->bytes);
		return -EUCLEAN;
	}
	e->header = *a;
	return 0;
}

void dcd_header_write(struct dcd_engine *e, u64 applied)
{
	struct dcd_nvram_header *h = &e->header;
	u64 generation = le64_to_cpu(h->generation) + 1;
	size_t at = (generation & 1) * DCD_NVRAM_COPY;

	lockdep_assert_held(&e->intake);	/* persist() is never called twice at a time */
	h->generation = cpu_to_le64(generation);
	h->applied = cpu_to_le64(applied);
	h->crc = 0;
	h->crc = cpu_to_le32(dcd_crc(h, sizeof(*h)));
	memcpy(e->nv->base + at, h, sizeof(*h));
	e->nv->type->persist(e->nv, at, sizeof(*h));
}
