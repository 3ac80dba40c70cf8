// SPDX-License-Identifier: GPL-2.0-only
/*
 * At open: index the live part of the log, then write what only NVRAM has to
 * the log as segments of its own. Nothing in NVRAM is changed before it is
 * durable in the log, so a second crash finds the same again. Nothing is
 * written before all is known to be there. What is live is plan.c's decision.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"
#include "opening.h"
#include "plan.h"
#include "wounded.h"

TEST_KNOB(bool, leftover_stays, "what a cut has left of entries that nobody has any more stays in the log");
TEST_KNOB(bool, keeps_some, "a slot that has some of a segment is enough, though the log doesn't answer");
TEST_KNOB(bool, pins_only, "what too many slots would have to keep isn't waited for either");
TEST_KNOB(bool, random_opens, "a segment that a log which fails at random has given, damaged, is left out");
TEST_KNOB(bool, only_stays, "after an opening that had to mend what no slot has all writes are waited for likewise");
TEST_KNOB(bool, mends_over, "what the log doesn't give, and no slot has, is written over with zeroes");
TEST_KNOB(bool, let_go, "what the log has got again is believed to be there, and its slot is used");
TEST_KNOB(bool, discards_thin, "a discard in the log is no more than that, whatever was said of it");
TEST_KNOB(bool, no_copy, "nobody asks the NVRAM for a segment of which nothing is known");
TEST_KNOB(bool, trust_end, "recovery takes a hole for the end of what was acknowledged");

struct recovery {
	struct dcd_geometry geometry;
	struct dcd_plan plan;
	struct dcd_slot_scan *scans;	/* of each slot */
	ktime_t began;
	u64 bytes;			/* read of the log */
	u64 entries;
	u64 slots;
	u64 wiped;
	u8 *unread;			/* sectors of the slot that was read last */
	bool *given;			/* entries of the segment that was read last, by the log */
	struct xarray wounded;		/* segments that were taken so */
	struct dcd_opening log;
	char text[512];
};

/* A slot with its table into @commit_buf; what can't be read is zeroes, and known. */
static void read_slot(struct dcd_engine *e, struct recovery *c, struct dcd_slot *s)
{
	unsigned int n = dcd_nvram_read(e->nv, s->base, e->commit_buf, e->segment_bytes,
					c->unread);

	memcpy(s->table, e->commit_buf + DCD_BLOCK, e->table_bytes);
	if (!n || s->bad)
		return;
	s->bad = true;
	dcd_count(e, DCD_N_NVRAM_ERRORS, 1);
	trace_dcd_nvram_bad(e, s->base - (u8 *)e->nv->base, n);
	pr_err("dcd: %s: %u sectors of slot %u of the NVRAM %s can't be read, a media error: it isn't used any more; look after that memory\n",
	       e->name, n, dcd_slot_number(e, s->base), e->nv->type->name);
}

/* What was said to zero has to, whatever the data disk does now. */
static enum dcd_entry_type type_of(const struct dcd_engine *e, const struct dcd_entry *n)
{
	enum dcd_entry_type type = le16_to_cpu(n->type);

	if (type == DCD_ENTRY_DISCARD && n->zeroes && !e->wipes.to_zeroes &&
	    !test_knob(discards_thin))
		return DCD_ENTRY_WRITE_ZEROES;
	return type;
}

/* Those checksums of a segment that lacks something are found when they are asked for. */
static int index_entries(struct dcd_engine *e, const u8 *seg, u64 sequence, u32 entries,
			 struct recovery *c, bool whole)
{
	u64 start = sequence * (e->segment_bytes >> SECTOR_SHIFT);
	u32 i;
	int r;

	if (c->plan.wounded)
		dcd_sums_keep_right(e, sequence, seg, entries);
	else if (whole)
		dcd_sums_keep(e, sequence, seg, entries);
	for (i = 0; i < entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(seg, i);
		enum dcd_entry_type type = type_of(e, n);

		if (le64_to_cpu(n->sequence) <= c->plan.applied)
			continue;
		if (c->plan.wounded && !dcd_entry_valid(&c->geometry, seg, i))
			type = DCD_ENTRY_LOST;
		r = dcd_index_insert(e, le64_to_cpu(n->sector), le32_to_cpu(n->sectors), type,
				     type == DCD_ENTRY_WRITE ? start + le32_to_cpu(n->offset) :
							       sequence);
		if (r)
			return r;
		c->entries++;
	}
	return 0;
}

/*
 * With other disks than they were written with, they may not be: then the data disk
 * can't take them.
 */
static int whole_blocks(struct dcd_engine *e, const u8 *seg, u32 entries, u64 applied)
{
	u32 mask = (e->block >> SECTOR_SHIFT) - 1, i;

	for (i = 0; i < entries && mask; i++) {
		const struct dcd_entry *n = dcd_entry_at(seg, i);
		u32 offset = le16_to_cpu(n->type) == DCD_ENTRY_WRITE ? le32_to_cpu(n->offset) : 0;

		if (le64_to_cpu(n->sequence) <= applied ||
		    !((le64_to_cpu(n->sector) | le32_to_cpu(n->sectors) | offset) & mask))
			continue;
		pr_err("dcd: %s: the log %pg has %u sectors for sector %llu of the data disk, which aren't whole blocks of %u bytes, as %pg or %pg has: open it with the disks it was written with, until the log is empty\n",
		       e->name, e->log.bdev, le32_to_cpu(n->sectors), le64_to_cpu(n->sector),
		       e->block, e->data.bdev, e->log.bdev);
		return -EINVAL;
	}
	return 0;
}

/* Is all of the segment in @commit_buf there, be it from the log or from a slot? */
static bool is_whole(struct dcd_engine *e, struct recovery *c)
{
	const struct dcd_segment *h = e->commit_buf;
	u32 i, n = le32_to_cpu(h->entries);

	for (i = 0; i < n; i++)
		if (!dcd_entry_valid(&c->geometry, e->commit_buf, i))
			return false;
	return true;
}

/* Has the slot in @scrub.buf all of the segment in @commit_buf, and not only what is damaged? */
static bool has_all(struct dcd_engine *e, struct recovery *c)
{
	const struct dcd_segment *h = e->commit_buf;
	u32 i, n = le32_to_cpu(h->entries);

	for (i = 0; i < n; i++)
		if (memcmp(dcd_entry_at(e->scrub.buf, i), dcd_entry_at(e->commit_buf, i),
			   sizeof(struct dcd_entry)) ||
		    !dcd_entry_valid(&c->geometry, e->scrub.buf, i))
			return false;
	return true;
}

/*
 * The log has got segment @sequence, which is in @commit_buf, again, and still can't give it, or
 * doesn't answer: the slot @s, which has all of it, isn't used before it is on the data disk. Not
 * 0, told: too many slots would have to wait for that.
 */
static int keep_slot(struct dcd_engine *e, struct recovery *c, struct dcd_slot *s, u64 sequence)
{
	const struct dcd_segment *h = e->commit_buf;

	if (!has_all(e, c) || s->pinned)
		return 0;
	if (!dcd_slots_may_pin(e, true)) {
		pr_err("dcd: %s: segment %llu and others can't be read back from the log %pg, and only %u slots of the NVRAM %s have them: too few are left for writes, so the DCD isn't opened: copy that log to a good disk, and use that; or `dcd recover`, with --salvage if it says so, brings what log and NVRAM have to the data disk\n",
		       e->name, sequence, e->log.bdev, e->npinned + 1, e->nv->type->name);
		return -EIO;
	}
	s->first_entry = le64_to_cpu(h->first_entry);
	s->entries = le32_to_cpu(h->entries);
	s->used = le32_to_cpu(h->used_bytes);
	dcd_slot_pin(e, s, sequence);
	dcd_log_damaged(e, sequence);
	return 0;
}

static void tell_unwritten(const struct dcd_engine *e, u64 sequence, int error)
{
	pr_err("dcd: %s: segment %llu can't be written, or read back: error %d, so the DCD isn't opened: %scopy the log %pg to a disk that takes writes, and use that; or `dcd recover`, with --salvage if it says so, brings what log and NVRAM have to the data disk; then this log, if nothing was lost, or a new one can be used\n",
	       e->name, sequence, error,
	       error == -ETIME ?
	       "try again when it has answered, it may be right then; else " : "",
	       e->log.bdev);
}

/* Which entries of the segment in @commit_buf has the log given? */
static void what_is_given(struct dcd_engine *e, struct recovery *c, u64 sequence)
{
	const struct dcd_segment *h = e->commit_buf;
	u32 i, n = dcd_segment_named(&c->geometry, h, sequence) ? le32_to_cpu(h->entries) : 0;

	for (i = 0; i < n; i++)
		c->given[i] = dcd_entry_valid(&c->geometry, e->commit_buf, i);
}

/*
 * Not all of it is known: the log gets again what only the slot had, and nothing is written over
 * the rest, which it may give another time. 0; -ETIME: it is too slow, or dead by now; or another
 * error: it doesn't stay there.
 */
static int mend_parts(struct dcd_engine *e, struct recovery *c, u64 sequence)
{
	const struct dcd_segment *h = e->commit_buf;
	u32 i, n = le32_to_cpu(h->entries);
	bool refused;
	int r = 0;

	for (i = 0; i < n && !r; i++)
		if (!c->given[i] && dcd_entry_valid(&c->geometry, e->commit_buf, i) &&
		    dcd_entry_at(e->commit_buf, i)->stored)
			r = dcd_wounded_to_log(e, sequence, dcd_entry_at(e->commit_buf, i),
					       &refused);
	if (!r)
		e->proof.only = false;
	return r && e->log_dead ? -ETIME : r;
}

/* What is damaged in the log may be in NVRAM yet: then the log gets it again. */
static int mend(struct dcd_engine *e, struct recovery *c, u64 sequence)
{
	const struct dcd_segment *h;
	bool whole;
	u32 i;
	int r;

	what_is_given(e, c, sequence);
	for (i = 0; e->keeps && i < e->nslots; i++) {
		/* What can't be read of it is zeroes, which don't have its checksum. */
		if (dcd_nvram_read(e->nv, e->slots[i].base, e->scrub.buf, e->segment_bytes,
				   c->unread) == e->segment_bytes >> SECTOR_SHIFT ||
		    (!dcd_segment_from_slot(&c->geometry, e->commit_buf, e->scrub.buf, sequence) &&
		     (test_knob(no_copy) ||
		      !dcd_segment_of_slot(&c->geometry, e->commit_buf, e->scrub.buf, sequence,
					   c->plan.from, c->plan.until))))
			continue;
		whole = has_all(e, c) || test_knob(keeps_some);
		/* A slot that may not be kept any more is as good as none. */
		e->proof.only = !whole || (!dcd_slots_may_pin(e, true) && !test_knob(pins_only));
		r = is_whole(e, c) || test_knob(mends_over) ? -EIO :
		    c->log.random ? 0 : mend_parts(e, c, sequence);
		/* Nobody knows of the rest, or of what was written, that it is bad. */
		if (r == -ETIME)
			tell_unwritten(e, sequence, r);
		if (r == -ETIME || !r)
			return r;
		h = e->commit_buf;
		pr_warn("dcd: %s: segment %llu of the log %pg is damaged, NVRAM has what is damaged, or some of it: it is written again\n",
			e->name, sequence, e->log.bdev);
		dcd_proof_doubt(e, sequence);
		r = -ETIME;
		if (!dcd_opening_hurries(e) || !whole)
			r = dcd_segment_write(e, sequence, le64_to_cpu(h->first_entry),
					      le32_to_cpu(h->entries),
					      le32_to_cpu(h->used_bytes), !test_knob(let_go));
		/* Else it may be under way, and the opening is refused. */
		if (r != -ETIME && !test_knob(only_stays))
			e->proof.only = false;
		dcd_opening_written(e, &c->log, sequence);
		if (!r && !e->commit.proof)
			return 0;
		if (!r && !whole)
			r = e->commit.proof;
		/* Nothing is lost while the slot has it, whatever becomes of the log. */
		if (r && r != -ENOMEM && whole) {
			dcd_log_failed(e, sequence, r);
			r = 0;
		}
		if (!r)
			return keep_slot(e, c, e->slots + i, sequence);
		tell_unwritten(e, sequence, r);
		return r;
	}
	return 0;
}

static int read_segment(struct dcd_engine *e, struct recovery *c)
{
	u64 sequence = c->plan.place;
	const struct dcd_segment *h;
	int r = dcd_opening_segment(e, &c->log, sequence), mended = 0;

	c->bytes += e->segment_bytes;
	if (r == -ENOMEM || c->log.over)
		return r;
	if (c->plan.take)
		mended = mend(e, c, sequence);
	if (mended)
		return mended;
	h = e->commit_buf;
	if (r)
		dcd_proof_doubt(e, sequence);
	if (!dcd_plan_segment(&c->plan, e->commit_buf, r))
		return 0;
	if (c->plan.wounded && c->log.random) {
		pr_err("dcd: %s: the log %pg doesn't give segment %llu now, nor its superblock each time: it fails at random, and may give it at another time, so nothing is lost for that, and the DCD isn't opened: look after that disk, and try again\n",
		       e->name, e->log.bdev, sequence);
		/* It has given all in the end, and other bytes. */
		return r ?: test_knob(random_opens) ? 0 : -EIO;
	}
	if (c->plan.wounded) {
		dcd_log_damaged(e, sequence);
		r = xa_err(xa_store(&c->wounded, sequence, xa_mk_value(1), GFP_KERNEL));
		if (r)
			return r;
	}
	return whole_blocks(e, e->commit_buf, le32_to_cpu(h->entries), c->plan.applied) ?:
	       index_entries(e, e->commit_buf, sequence, le32_to_cpu(h->entries), c, true);
}

static int read_header(struct dcd_engine *e, struct recovery *c)
{
	int r = dcd_opening_header(e, &c->log, c->plan.place);

	c->bytes += e->log.block;
	if (c->log.over)
		return r;
	if (r)
		dcd_proof_doubt(e, c->plan.place);
	dcd_plan_header(&c->plan, e->commit_buf, r);
	return 0;
}

static void scan_slots(struct dcd_engine *e, struct recovery *c)
{
	u32 i, n = e->keeps ? e->nslots : 0;

	for (i = 0; i < n; i++) {
		read_slot(e, c, e->slots + i);
		dcd_slot_scan(&c->geometry, e->commit_buf, c->unread, c->plan.newest,
			      &c->scans[i]);
		if (test_knob(trust_end))
			c->scans[i].highest = 0;
		cond_resched();
	}
	dcd_plan_slots(&c->plan, c->scans, n);
}

/* Until all is known, or it is refused. */
static int find_out(struct dcd_engine *e, struct recovery *c)
{
	int r = 0;

	dcd_plan_begin(&c->plan, &c->geometry, &e->super, &e->header, e->end_known);
	c->plan.end_bad = e->end_bad;
	c->plan.strict = dcd_lost_stays();
	if (test_knob(trust_end)) {
		c->plan.known = 0;
		c->plan.ends = U64_MAX;
	}
	while (!r && c->plan.want < DCD_WANT_NVRAM) {
		switch (c->plan.want) {
		case DCD_WANT_SEGMENT:
			r = read_segment(e, c);
			break;
		case DCD_WANT_HEADER:
			r = read_header(e, c);
			break;
		default:
			scan_slots(e, c);
			break;
		}
		if (!c->plan.note)
			continue;
		dcd_plan_text(&c->plan, c->text, sizeof(c->text));
		pr_warn("dcd: %s: log %pg: %s\n", e->name, e->log.bdev, c->text);
	}
	if (c->plan.want != DCD_REFUSED)
		return r;
	dcd_plan_text(&c->plan, c->text, sizeof(c->text));
	pr_err("dcd: %s: log %pg: %s\n", e->name, e->log.bdev, c->text);
	return dcd_plan_errno(&c->plan);
}

/*
 * It is in @commit_buf. With the log dead, or so slow that all of them take too long, a slot waits
 * for the destager, as at any other time; and one that the log doesn't have after all is pinned, or
 * else that is a dead log, as in log.c.
 */
static void slot_to_log(struct dcd_engine *e, struct dcd_slot *s, u64 sequence)
{
	int r;

	if (e->log_dead)
		return;
	if (dcd_opening_hurries(e)) {
		dcd_log_failed(e, sequence, -ETIME);
		return;
	}
	e->log_tried = sequence + 1;
	r = dcd_segment_write(e, sequence, s->first_entry, s->entries, s->used,
			      !test_knob(let_go));
	if (!r && !e->commit.proof)
		return;
	/* What a bad one can't give is in @commit_buf only. */
	if (r || s->bad || !dcd_slots_may_pin(e, false)) {
		dcd_log_failed(e, sequence, r ?: -EIO);
		return;
	}
	dcd_slot_pin(e, s, sequence);
	dcd_log_damaged(e, sequence);
}

/*
 * Of a slot in @commit_buf, writes whose payload can't be read, and which the data disk has: they
 * get it, and go to the log like that. What it has is flushed first (wounded.h).
 */
static int from_data(struct dcd_engine *e, struct recovery *c, struct dcd_slot_scan *scan)
{
	u32 i;
	int r = 0;

	if (!scan->lost || dcd_disk_flush(&e->data))
		return 0;
	for (i = 0; i < scan->entries && r >= 0; i++) {
		const struct dcd_entry *n = dcd_entry_at(e->commit_buf, i);
		u32 at = le32_to_cpu(n->offset), sectors = le32_to_cpu(n->stored);

		if (dcd_entry_valid(&c->geometry, e->commit_buf, i))
			continue;
		r = dcd_wounded_data_has(e, &c->log, n);
		if (r <= 0)
			continue;
		memcpy(e->commit_buf + ((size_t)at << SECTOR_SHIFT), e->scrub.buf,
		       (size_t)sectors << SECTOR_SHIFT);
		scan->lost--;
		dcd_count(e, DCD_N_WOUNDS_CLOSED, 1);
	}
	return min(r, 0);
}

/* Of the slot that was indexed last: only the data disk has it, as the log is dead. */
static int leave_to_data(struct dcd_engine *e, const struct dcd_slot *s, const struct dcd_entry *n)
{
	u64 sector = le64_to_cpu(n->sector), last = sector + le32_to_cpu(n->sectors) - 1;
	u64 at = s->segment * (e->segment_bytes >> SECTOR_SHIFT) + le32_to_cpu(n->offset) - sector;
	struct dcd_place p;
	int r = 0;

	for (; sector <= last && !r; sector = p.last + 1) {
		dcd_index_find(e, sector, last, &p);
		if (!p.value || p.zero || p.lost || p.at - p.sector != at)
			continue;
		dcd_witness_over(e, &p);
		r = dcd_index_erase(e, p.sector, p.last);
	}
	return r;
}

static int without_log(struct dcd_engine *e, struct recovery *c, const struct dcd_slot *s)
{
	u32 i;
	int r = 0;

	for (i = 0; i < s->entries && r >= 0; i++) {
		const struct dcd_entry *n = dcd_entry_at(e->commit_buf, i);

		if (!dcd_entry_unread(n, c->unread))
			continue;
		r = dcd_wounded_data_has(e, &c->log, n);
		if (r > 0)
			r = leave_to_data(e, s, n);
	}
	return min(r, 0);
}

/* What of an entry isn't written over by a later one. */
static void tell_lost(struct dcd_engine *e, const struct dcd_slot *s, const struct dcd_entry *n)
{
	u64 sector = le64_to_cpu(n->sector), last = sector + le32_to_cpu(n->sectors) - 1;
	u64 at = s->segment * (e->segment_bytes >> SECTOR_SHIFT) + le32_to_cpu(n->offset) - sector;
	struct dcd_place p;

	for (; sector <= last; sector = p.last + 1) {
		dcd_index_find(e, sector, last, &p);
		if (!p.value || p.zero || p.at - p.sector != at)
			continue;
		dcd_count(e, DCD_N_NVRAM_LOST, dcd_place_sectors(&p));
		pr_err("dcd: %s: LOST: the %u sectors from %llu on were only in NVRAM, which can't be read there: they are medium errors until they are written again\n",
		       e->name, dcd_place_sectors(&p), (u64)p.sector);
	}
}

static void tell_all_lost(struct dcd_engine *e, struct recovery *c)
{
	u32 i, k, n = e->keeps ? e->nslots : 0;

	for (i = 0; i < n; i++) {
		struct dcd_slot *s;

		if (!c->scans[i].lost)
			continue;
		s = e->slots + i;
		read_slot(e, c, s);
		for (k = 0; k < s->entries; k++)
			if (dcd_entry_unread(dcd_entry_at(e->commit_buf, k), c->unread) &&
			    dcd_wounded_data_has(e, &c->log,
						 dcd_entry_at(e->commit_buf, k)) <= 0)
				tell_lost(e, s, dcd_entry_at(e->commit_buf, k));
	}
}

static void settled(struct dcd_engine *e, const struct dcd_plan *p)
{
	e->committed = p->next;
	e->committed_entry = p->newest;
	e->log_tried = p->next;
}

static int read_nvram(struct dcd_engine *e, struct recovery *c)
{
	struct dcd_plan *p = &c->plan;
	u32 n = e->keeps ? e->nslots : 0;
	int i, r;

	while ((i = dcd_plan_slot(p, c->scans, n)) >= 0) {
		struct dcd_slot *s = e->slots + i;
		u32 unread;

		s->first_entry = c->scans[i].first;
		s->entries = c->scans[i].entries;
		s->used = c->scans[i].used;
		read_slot(e, c, s);
		r = whole_blocks(e, e->commit_buf, s->entries, c->plan.applied);
		if (r)
			return r;
		unread = c->scans[i].lost;
		r = from_data(e, c, &c->scans[i]);
		if (r)
			return r;
		slot_to_log(e, s, p->next);
		r = index_entries(e, e->commit_buf, p->next, s->entries, c, !c->scans[i].lost);
		dcd_slot_recovered(e, s, p->next, !e->log_dead);
		if (!r && unread && e->log_dead)
			r = without_log(e, c, s);
		if (r)
			return r;
		dcd_plan_took(p, &c->scans[i]);
		c->slots++;
		if (!e->log_dead)
			settled(e, p);
	}
	return 0;
}

/* Whatever is newer in a slot than all that counts would count when that is overtaken. */
static void wipe_leftovers(struct dcd_engine *e, struct recovery *c)
{
	u32 i, n;

	for (i = 0; e->keeps && i < e->nslots; i++) {
		struct dcd_slot *s = e->slots + i;

		memcpy(e->commit_buf + DCD_BLOCK, s->table, e->table_bytes);
		/* The last one first: a cut must not leave one that lacks another before it. */
		for (n = dcd_table_entries(&c->geometry); n--; ) {
			size_t at = DCD_BLOCK + n * sizeof(struct dcd_entry);

			if (!dcd_entry_left(&c->geometry, e->commit_buf, n, c->plan.newest))
				continue;
			memset(s->base + at, 0, sizeof(struct dcd_entry));
			memset(s->table + n, 0, sizeof(struct dcd_entry));
			e->nv->type->persist(e->nv, s->base + at - (u8 *)e->nv->base,
					     sizeof(struct dcd_entry));
			c->wiped++;
		}
		cond_resched();
	}
	if (c->wiped)
		pr_info("dcd: %s: %llu entries in NVRAM lack the rest of their batch, or of themselves: their writes were not acknowledged, they are wiped\n",
			e->name, c->wiped);
}

/*
 * What the log has below @next is on the data disk: it begins there, so that
 * the places before may be written to whatever is in them. Both copies of the superblock say so:
 * what else says it now (beyond.h) may be gone at the next opening. Or it begins where it did, and
 * the superblock has two good copies again, which know the data disk's size and the same tail.
 */
static void disown(struct dcd_engine *e, u64 next, u64 applied)
{
	int r = dcd_super_pass(e, next, applied, true);

	e->tail = next;
	if (r)
		dcd_log_failed(e, DCD_SUPERBLOCK, r);
}

/* What it did, for those who ask later too. */
static void tell(struct dcd_engine *e, const struct recovery *c)
{
	u64 us = ktime_us_delta(ktime_get(), c->began), segments = e->head - e->tail;

	dcd_count(e, DCD_N_RECOVERED_SEGMENTS, segments);
	dcd_count(e, DCD_N_RECOVERED_ENTRIES, c->entries);
	dcd_count(e, DCD_N_RECOVERY_BYTES, c->bytes);
	dcd_count(e, DCD_N_RECOVERY_US, us);
	pr_info("dcd: %s: recovered %llu live segments, %llu entries (%llu segments from NVRAM): read %llu bytes of the log %pg in %llu ms; the index takes %llu bytes\n",
		e->name, segments, c->entries, c->slots, c->bytes, e->log.bdev,
		div_u64(us, USEC_PER_MSEC), dcd_index_used(e));
	if (e->lost.n)
		pr_err("dcd: %s: %llu sectors are LOST, as the log %pg had their only copy and can't give it any more: reads of them are medium errors until they are written again\n",
		       e->name, e->lost.sectors, e->log.bdev);
}

/* Is there more to say, or may what NVRAM has come to a place that the other copy counts? */
static bool copies_differ(const struct dcd_engine *e, const struct dcd_plan *p)
{
	return e->super_differs || p->next + e->nslots > e->older_tail + e->segments ||
	       (!e->keeps && p->applied > le64_to_cpu(e->super.applied));
}

static int write_moved(struct dcd_engine *e, struct dcd_commit *c)
{
	return dcd_spares_settle(e);
}

/* Where NVRAM keeps its content a log that doesn't answer is dead, and the opening goes on. */
static int settle_moved(struct dcd_engine *e)
{
	int r = dcd_log_write(e, write_moved);

	if (r != -ETIME)
		return r;
	dcd_log_failed(e, DCD_MOVED_TABLE, r);
	return 0;
}

static int recover(struct dcd_engine *e, struct recovery *c)
{
	struct dcd_plan *p = &c->plan;
	int r;

	c->began = ktime_get();
	e->tail = le64_to_cpu(e->super.tail);
	mutex_lock(&e->intake);
	r = find_out(e, c);
	e->head = p->next;	/* without what NVRAM has */
	if (!r)	/* one copy of the table of moved blocks alone may be damaged some day */
		r = settle_moved(e);
	if (!r && p->tail != e->tail)
		disown(e, p->tail, p->applied);
	else if (!r && copies_differ(e, p))
		disown(e, e->tail, e->keeps ? le64_to_cpu(e->super.applied) : p->applied);
	settled(e, p);
	if (!r && e->keeps)
		dcd_end_raise(e, p->last);
	if (!r)
		r = read_nvram(e, c);
	if (!r && dcd_plan_leftover(p) && !test_knob(leftover_stays))
		dcd_wounded_wipe(e, p->begun_at);
	if (!r)
		r = dcd_wounded_ask(e, &c->log, &c->wounded, p->applied, c->unread);
	if (!r) {
		tell_all_lost(e, c);
		wipe_leftovers(e, c);
	}
	mutex_unlock(&e->intake);
	trace_dcd_recovery(e, p->next, p->newest, c->entries, c->slots, c->bytes,
			   ktime_us_delta(ktime_get(), c->began), r);
	if (r)
		return r;
	e->head = p->next;
	e->next_entry = p->newest + 1;
	e->published = e->next_entry;
	e->void_from = DCD_NO_VOID;
	tell(e, c);
	return 0;
}

int dcd_recover(struct dcd_engine *e)
{
	struct recovery *c = kzalloc(sizeof(*c), GFP_KERNEL);
	int r = -ENOMEM;

	if (!c)
		return r;
	dcd_geometry_of(e, &c->geometry);
	xa_init(&c->wounded);
	c->scans = kvcalloc(e->nslots, sizeof(*c->scans), GFP_KERNEL);
	c->unread = kvzalloc(e->segment_bytes >> SECTOR_SHIFT, GFP_KERNEL);
	c->given = kvcalloc(dcd_table_entries(&c->geometry), sizeof(*c->given), GFP_KERNEL);
	if (!dcd_opening_begin(e, &c->log) && c->scans && c->unread && c->given)
		r = recover(e, c);
	dcd_opening_end(&c->log);
	xa_destroy(&c->wounded);
	kvfree(c->given);
	kvfree(c->unread);
	kvfree(c->scans);
	kfree(c);
	return r;
}
