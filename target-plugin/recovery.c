// SPDX-License-Identifier: GPL-2.0-only
/*
 * At open: index the live part of the log, then write what only NVRAM has to
 * the log as segments of its own. Nothing in NVRAM is changed before it is
 * durable in the log, so a second crash finds the same again.
 */
#include "engine.h"

struct found {
	u64 next;	/* segment */
	u64 newest;	/* entry */
	u64 entries;
	u64 slots;
};

static int index_segment(struct dcd_engine *e, const u8 *seg, u64 sequence, u32 entries,
			 u64 applied, struct found *f)
{
	const struct dcd_entry *n = (const struct dcd_entry *)(seg + DCD_BLOCK);
	u64 start = sequence * (e->segment_bytes >> SECTOR_SHIFT);
	u32 i;
	int r;

	for (i = 0; i < entries; i++, n++) {
		bool zero = le16_to_cpu(n->type) != DCD_ENTRY_WRITE;

		f->newest = max_t(u64, f->newest, le64_to_cpu(n->sequence));
		if (le64_to_cpu(n->sequence) <= applied)
			continue;
		r = dcd_index_insert(e, le64_to_cpu(n->sector), le32_to_cpu(n->sectors), zero,
				     zero ? sequence : start + le32_to_cpu(n->offset));
		if (r)
			return r;
		f->entries++;
	}
	return 0;
}

static int read_log(struct dcd_engine *e, u64 applied, struct found *f)
{
	int r;

	for (;;) {
		const struct dcd_segment *h = e->commit_buf;

		r = dcd_segment_read(e, e->commit_buf, f->next);
		if (r)
			break;
		if (f->next - le64_to_cpu(e->super.tail) >= e->segments)
			return -EUCLEAN;
		/* Retired entries and those of the log must join. */
		if (le64_to_cpu(h->first_entry) > max(f->newest, applied) + 1) {
			pr_err("dcd: %s: segment %llu begins at entry %llu, %llu is expected: the log is damaged\n",
			       e->name, f->next, le64_to_cpu(h->first_entry), f->newest + 1);
			return -EUCLEAN;
		}
		r = index_segment(e, e->commit_buf, f->next, le32_to_cpu(h->entries), applied, f);
		if (r)
			return r;
		f->next++;
	}
	if (r != -ENODATA) {
		pr_err("dcd: %s: can't read segment %llu of the log %pg: error %d\n", e->name,
		       f->next, e->log.bdev, r);
		return r;
	}
	/* Segments become durable in their order: a later one means damage. */
	r = dcd_segment_read(e, e->commit_buf, f->next + 1);
	if (!r) {
		pr_err("dcd: %s: segment %llu of the log %pg is damaged, later ones are there: restore the log\n",
		       e->name, f->next, e->log.bdev);
		return -EUCLEAN;
	}
	return r == -ENODATA ? 0 : r;
}

static u64 slot_first(const struct dcd_slot *s)
{
	return le64_to_cpu(((const struct dcd_entry *)(s->base + DCD_BLOCK))->sequence);
}

/* Entries above @newest, s->entries, from the slot's first on; 0: none. */
static void slot_scan(struct dcd_engine *e, struct dcd_slot *s, u64 newest)
{
	const struct dcd_entry *n = (const struct dcd_entry *)(s->base + DCD_BLOCK);
	u32 max = e->table_bytes / sizeof(*n);

	s->entries = 0;
	s->used = DCD_BLOCK + e->table_bytes;
	s->first_entry = slot_first(s);
	if (!dcd_entry_valid(e, s->base, 0) || s->first_entry <= newest)
		return;
	while (s->entries < max && dcd_entry_valid(e, s->base, s->entries) &&
	       le64_to_cpu(n[s->entries].sequence) == s->first_entry + s->entries) {
		s->used = (le32_to_cpu(n[s->entries].offset) + le32_to_cpu(n[s->entries].stored)) <<
			  SECTOR_SHIFT;
		s->entries++;
	}
}

static struct dcd_slot *oldest_live(struct dcd_engine *e)
{
	struct dcd_slot *s = NULL;
	unsigned int i;

	for (i = 0; i < e->nslots; i++)
		if (e->slots[i].entries && (!s || e->slots[i].first_entry < s->first_entry))
			s = &e->slots[i];
	return s;
}

static int read_nvram(struct dcd_engine *e, u64 applied, struct found *f)
{
	u64 newest = max(f->newest, applied);
	struct dcd_slot *s;
	unsigned int i;
	int r;

	for (i = 0; i < e->nslots; i++)
		slot_scan(e, &e->slots[i], newest);
	while ((s = oldest_live(e))) {
		if (s->first_entry != newest + 1) {
			pr_err("dcd: %s: entries %llu to %llu are neither in the log nor in NVRAM: damaged, or of another time\n",
			       e->name, newest + 1, s->first_entry - 1);
			return -EUCLEAN;
		}
		memcpy(e->commit_buf, s->base, s->used);
		r = dcd_segment_write(e, e->commit_buf, f->next, s->first_entry, s->entries,
				      s->used);
		if (r) {
			pr_err("dcd: %s: can't write what is in NVRAM to the log %pg: error %d; it stays in NVRAM\n",
			       e->name, e->log.bdev, r);
			return r;
		}
		r = index_segment(e, e->commit_buf, f->next, s->entries, applied, f);
		if (r)
			return r;
		newest += s->entries;
		s->entries = 0;
		f->next++;
		f->slots++;
	}
	f->newest = newest;
	return 0;
}

int dcd_recover(struct dcd_engine *e)
{
	struct found f = { .next = le64_to_cpu(e->super.tail) };
	u64 applied = le64_to_cpu(e->super.applied);
	int r;

	if (e->keeps)
		applied = max_t(u64, applied, le64_to_cpu(e->header.applied));
	mutex_lock(&e->intake);
	r = read_log(e, applied, &f);
	if (!r && e->keeps)
		r = read_nvram(e, applied, &f);
	mutex_unlock(&e->intake);
	if (r)
		return r;
	e->tail = le64_to_cpu(e->super.tail);
	e->head = f.next;
	e->committed = f.next;
	e->committed_entry = max(f.newest, applied);
	e->next_entry = e->committed_entry + 1;
	pr_info("dcd: %s: recovered %llu live segments, %llu entries (%llu segments from NVRAM)\n",
		e->name, e->head - e->tail, f.entries, f.slots);
	return 0;
}
