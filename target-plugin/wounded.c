// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"
#include "opening.h"
#include "wounded.h"

#define FAILURES 16	/* of the data disk, before it isn't asked any more */

TEST_KNOB(bool, unasked, "what is damaged in the log is lost, whatever the data disk has");

struct wounded {
	struct dcd_geometry geometry;
	struct dcd_opening *log;
	u64 sequence;			/* of what is in @commit_buf */
	u64 applied;
	u8 *left;
	unsigned int failures, closed;	/* @closed: of this segment */
};

/* Later ones of the same segment have written over it, whatever has become of those. */
static void not_by_later(struct dcd_engine *e, struct wounded *w, u32 number)
{
	const struct dcd_segment *h = e->commit_buf;
	const struct dcd_entry *n = dcd_entry_at(e->commit_buf, number), *later;
	u64 first = le64_to_cpu(n->sector), end = first + le32_to_cpu(n->sectors);

	for (number++; number < le32_to_cpu(h->entries); number++) {
		u64 from, to;

		later = dcd_entry_at(e->commit_buf, number);
		from = max(first, le64_to_cpu(later->sector));
		to = min(end, le64_to_cpu(later->sector) + le32_to_cpu(later->sectors));
		if (from < to)
			memset(w->left + (from - first), 0, to - from);
	}
}

/* Which sectors of it are lost by it in the end; false: none. */
static bool what_is_left(struct dcd_engine *e, struct wounded *w, u32 number)
{
	const struct dcd_entry *n = dcd_entry_at(e->commit_buf, number);
	u64 first = le64_to_cpu(n->sector), last = first + le32_to_cpu(n->sectors) - 1, sector;
	struct dcd_place p;

	for (sector = first; sector <= last; sector = p.last + 1) {
		bool lost;

		dcd_index_find(e, sector, last, &p);
		lost = p.lost && dcd_segment_of(e, &p) == w->sequence;
		memset(w->left + (sector - first), lost, dcd_place_sectors(&p));
	}
	not_by_later(e, w, number);
	return memchr(w->left, true, last - first + 1);
}

static int write_payload(struct dcd_engine *e, struct dcd_commit *c)
{
	u64 sector = dcd_segment_sector(e, c->segment) + (c->at >> SECTOR_SHIFT);
	int r = dcd_spares_settle(e);

	if (!r)
		r = dcd_disk_io(&e->log, REQ_OP_WRITE | REQ_SYNC, sector, c->buf + c->at, c->bytes);
	return r ?: dcd_disk_flush(&e->log);
}

int dcd_wounded_to_log(struct dcd_engine *e, u64 sequence, const struct dcd_entry *n,
		       bool *refused)
{
	u32 offset = le32_to_cpu(n->offset);
	u64 at = dcd_segment_sector(e, sequence) + offset;
	size_t bytes = (size_t)le32_to_cpu(n->stored) << SECTOR_SHIFT;
	int r;

	*refused = false;
	if (e->log_dead)
		return -EIO;
	e->commit.segment = sequence;
	e->commit.at = offset << SECTOR_SHIFT;
	e->commit.bytes = bytes;
	r = dcd_opening_hurries(e) ? -ETIME : dcd_log_write(e, write_payload);
	*refused = r;
	if (r)
		return r;
	r = dcd_aside_read(e, at, e->scrub.buf, bytes,
			   e->proof.only ? DCD_PROOF_WAITS : DCD_LATE);
	return r ?: memcmp(e->commit_buf + e->commit.at, e->scrub.buf, bytes) ? -EIO : 0;
}

void dcd_wounded_wipe(struct dcd_engine *e, u64 sequence)
{
	int r;

	if (e->log_dead)
		return;
	e->commit.segment = sequence;
	e->commit.at = 0;
	e->commit.bytes = DCD_BLOCK + e->table_bytes;
	memset(e->commit_buf, 0, e->commit.bytes);
	r = dcd_log_write(e, write_payload);
	if (r)
		dcd_log_failed(e, sequence, r);
}

/* What is @left of it isn't lost: it is in the log, or on the data disk alone. */
static int to_index(struct dcd_engine *e, const struct wounded *w, const struct dcd_entry *n,
		    bool in_log)
{
	u64 at = w->sequence * (e->segment_bytes >> SECTOR_SHIFT) + le32_to_cpu(n->offset);
	u64 sector = le64_to_cpu(n->sector);
	u32 from, end, sectors = le32_to_cpu(n->sectors);
	int r = 0;

	for (from = 0; from < sectors && !r; from = end + 1) {
		struct dcd_place p;

		for (end = from; end < sectors && w->left[end]; end++)
			;
		if (end == from)
			continue;
		p.sector = sector + from;
		p.last = sector + end - 1;
		if (in_log) {
			r = dcd_index_insert(e, p.sector, end - from, DCD_ENTRY_WRITE, at + from);
		} else {
			dcd_witness_over(e, &p);
			r = dcd_index_erase(e, p.sector, p.last);
		}
	}
	return r;
}

static int one(struct dcd_engine *e, struct wounded *w, u32 number)
{
	const struct dcd_entry *n = dcd_entry_at(e->commit_buf, number);
	size_t bytes = (size_t)le32_to_cpu(n->stored) << SECTOR_SHIFT;
	bool refused;
	int r;

	if (le64_to_cpu(n->sequence) <= w->applied || !bytes ||
	    dcd_entry_valid(&w->geometry, e->commit_buf, number) || !what_is_left(e, w, number))
		return 0;
	r = dcd_disk_io(&e->data, REQ_OP_READ, le64_to_cpu(n->sector), e->scrub.buf, bytes);
	if (r)
		w->failures++;
	if (r || !dcd_entry_from_data(e->commit_buf, number, e->scrub.buf, w->left))
		return r == -ENOMEM ? r : 0;
	r = dcd_wounded_to_log(e, w->sequence, n, &refused);
	if (refused)
		dcd_log_failed(e, w->sequence, r);
	n = dcd_entry_at(e->commit_buf, number);	/* which may be another one by now */
	r = to_index(e, w, n, !r);
	w->closed += !r;
	return r;
}

int dcd_wounded_data_has(struct dcd_engine *e, struct dcd_opening *o, const struct dcd_entry *n)
{
	size_t bytes = (size_t)le32_to_cpu(n->stored) << SECTOR_SHIFT;
	unsigned long began = jiffies;
	int r;

	if (!bytes || o->data_late >= FAILURES || test_knob(unasked))
		return 0;
	r = dcd_disk_io(&e->data, REQ_OP_READ, le64_to_cpu(n->sector), e->scrub.buf, bytes);
	if (r && time_after(jiffies, began + DCD_LATE))
		o->data_late++;
	if (r)
		return r == -ENOMEM ? r : 0;
	return dcd_crc(e->scrub.buf, bytes) == le32_to_cpu(n->payload_crc);
}

static int one_segment(struct dcd_engine *e, struct wounded *w)
{
	int r = dcd_opening_segment(e, w->log, w->sequence);
	u32 i, n;

	if (r == -ENOMEM || w->log->over)
		return r;
	/* It has been taken as it was, and may read otherwise now. */
	if (!dcd_segment_named(&w->geometry, e->commit_buf, w->sequence))
		return 0;
	w->closed = 0;
	r = 0;
	n = le32_to_cpu(((struct dcd_segment *)e->commit_buf)->entries);
	for (i = 0; i < n && !r && w->failures < FAILURES; i++)
		r = one(e, w, i);
	dcd_count(e, DCD_N_WOUNDS_CLOSED, w->closed);
	if (w->closed)
		pr_warn("dcd: %s: of segment %llu of the log %pg, which is damaged, the data disk %pg has %u writes: they aren't lost\n",
			e->name, w->sequence, e->log.bdev, e->data.bdev, w->closed);
	cond_resched();
	return r;
}

int dcd_wounded_ask(struct dcd_engine *e, struct dcd_opening *o, struct xarray *segments,
		    u64 applied, u8 *left)
{
	struct wounded w = {
		.log = o, .applied = applied, .left = left, .failures = o->data_late,
	};
	unsigned long sequence;
	void *entry;
	int r = 0;

	lockdep_assert_held(&e->intake);
	if (!e->lost.n || xa_empty(segments) || test_knob(unasked) || dcd_disk_flush(&e->data))
		return 0;
	dcd_geometry_of(e, &w.geometry);
	xa_for_each(segments, sequence, entry) {
		w.sequence = sequence;
		r = one_segment(e, &w);
		if (r || w.failures >= FAILURES)
			break;
	}
	return r;
}
