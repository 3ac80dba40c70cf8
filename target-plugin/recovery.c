// SPDX-License-Identifier: GPL-2.0-only
/*
 * At open: index the live part of the log, then write what only NVRAM has to
 * the log as segments of its own. Nothing in NVRAM is changed before it is
 * durable in the log, so a second crash finds the same again. Nothing is
 * written before all is known to be there.
 */
#include "dcd-trace.h"
#include "engine.h"

struct found {
	u64 tail;	/* first segment that may count */
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

/* A segment isn't there, but the next one shows that all before it is on the data disk. */
static bool passed_over(struct dcd_engine *e, u64 applied, u64 above, int error,
			struct found *f)
{
	const struct dcd_segment *h = e->commit_buf;

	if (!above || le64_to_cpu(h->first_entry) > applied + 1)
		return false;
	pr_warn("dcd: %s: can't read segment %llu of the log %pg: error %d; all before segment %llu is on the data disk, going on there\n",
		e->name, f->next, e->log.bdev, error, above);
	f->tail = above;
	f->next = above;
	return true;
}

static int read_log(struct dcd_engine *e, u64 applied, struct found *f)
{
	u64 above;
	int r;

again:
	for (;;) {
		const struct dcd_segment *h = e->commit_buf;

		r = dcd_segment_read(e, e->commit_buf, f->next);
		if (r)
			break;
		if (f->next - f->tail >= e->segments)
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
	/* An NVRAM that keeps shows whether this one counts: then a gap is before what it has. */
	if (r != -ENODATA && (r == -EOPNOTSUPP || !e->keeps)) {
		pr_err("dcd: %s: can't read segment %llu of the log %pg: error %d; it may hold acknowledged writes: mend that disk or copy it to a good one. `dcd format` gives up what only the log has: save both disks before it, and copy the data anew after it\n",
		       e->name, f->next, e->log.bdev, r);
		return r;
	}
	/*
	 * Segments become durable in their order, and none is used again before a
	 * superblock says so: a later one means damage, or what NVRAM took past a
	 * log that failed.
	 */
	above = dcd_segment_above(e, e->commit_buf, f->next);
	if (passed_over(e, applied, above, r, f))
		goto again;
	if (!above) {
		if (r != -ENODATA)
			pr_warn("dcd: %s: can't read segment %llu of the log %pg: error %d; NVRAM and log have nothing behind it, so it is the log's end\n",
				e->name, f->next, e->log.bdev, r);
		return 0;
	}
	pr_err("dcd: %s: segment %llu of the log %pg (or the newest copy of its superblock) is damaged, but segment %llu is there: data are missing; restore the log from a copy. `dcd format` gives up what only log and NVRAM have: save them and the data disk before it, and copy the data anew after it\n",
	       e->name, f->next, e->log.bdev, above);
	return -EUCLEAN;
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

static struct dcd_slot *slot_beginning_at(struct dcd_engine *e, u64 entry)
{
	unsigned int i;

	for (i = 0; i < e->nslots; i++)
		if (e->slots[i].entries && e->slots[i].first_entry == entry)
			return &e->slots[i];
	return NULL;
}

/* Entries above @newest are in NVRAM without a gap. */
static int check_nvram(struct dcd_engine *e, u64 newest)
{
	u64 least = U64_MAX, next = newest + 1;
	unsigned int i, live = 0;
	struct dcd_slot *s;

	for (i = 0; i < e->nslots; i++) {
		slot_scan(e, &e->slots[i], newest);
		live += !!e->slots[i].entries;
	}
	for (; (s = slot_beginning_at(e, next)); live--)
		next += s->entries;
	if (!live)
		return 0;
	for (i = 0; i < e->nslots; i++)
		if (e->slots[i].entries && e->slots[i].first_entry > next)
			least = min(least, e->slots[i].first_entry);
	pr_err("dcd: %s: entries %llu to %llu are neither in the log %pg nor in NVRAM, later ones are there: damaged, or of another time\n",
	       e->name, next, least - 1, e->log.bdev);
	return -EUCLEAN;
}

/* With the log dead a slot waits for the destager, as at any other time. */
static void slot_to_log(struct dcd_engine *e, struct dcd_slot *s, u64 sequence)
{
	int r;

	if (!e->log_dead) {
		memcpy(e->commit_buf + DCD_BLOCK, s->base + DCD_BLOCK, s->used - DCD_BLOCK);
		r = dcd_segment_write(e, e->commit_buf, sequence, s->first_entry, s->entries,
				      s->used);
		if (!r)
			return;
		dcd_log_failed(e, sequence, r);
	}
}

static void settled(struct dcd_engine *e, const struct found *f)
{
	e->committed = f->next;
	e->committed_entry = f->newest;
}

static int read_nvram(struct dcd_engine *e, u64 applied, struct found *f)
{
	struct dcd_slot *s;
	int r;

	while ((s = slot_beginning_at(e, f->newest + 1))) {
		u32 entries = s->entries;

		slot_to_log(e, s, f->next);
		r = index_segment(e, s->base, f->next, entries, applied, f);
		dcd_slot_recovered(e, s, f->next, !e->log_dead);
		if (r)
			return r;
		f->next++;
		f->slots++;
		if (!e->log_dead)
			settled(e, f);
	}
	return 0;
}

/*
 * What the log has below @next is on the data disk: it begins there, so that
 * the places before may be written to whatever is in them.
 */
static void disown(struct dcd_engine *e, u64 next, u64 applied)
{
	int r = dcd_super_write(e, next, applied);

	e->tail = next;
	if (r)
		dcd_log_failed(e, DCD_SUPERBLOCK, r);
}

int dcd_recover(struct dcd_engine *e)
{
	u64 tail = le64_to_cpu(e->super.tail);
	struct found f = { .tail = tail, .next = tail };
	u64 applied = le64_to_cpu(e->super.applied);
	int r;

	if (e->keeps)
		applied = max_t(u64, applied, le64_to_cpu(e->header.applied));
	e->tail = tail;
	mutex_lock(&e->intake);
	r = read_log(e, applied, &f);
	f.newest = max(f.newest, applied);
	if (!r && e->keeps)
		r = check_nvram(e, f.newest);
	if (f.newest == applied)
		f.tail = f.next;
	if (!r && f.tail != e->tail)
		disown(e, f.tail, applied);
	settled(e, &f);
	if (!r && e->keeps)
		r = read_nvram(e, applied, &f);
	mutex_unlock(&e->intake);
	trace_dcd_recovery(e, f.next, f.newest, f.entries, f.slots, r);
	if (r)
		return r;
	e->head = f.next;
	e->next_entry = f.newest + 1;
	pr_info("dcd: %s: recovered %llu live segments, %llu entries (%llu segments from NVRAM)\n",
		e->name, e->head - e->tail, f.entries, f.slots);
	return 0;
}
