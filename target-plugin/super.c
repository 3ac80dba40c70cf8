// SPDX-License-Identifier: GPL-2.0-only
/* Log superblock and NVRAM header: two copies each, written in turn. */
#include <linux/module.h>
#include <linux/slab.h>

#include "engine.h"
#include "lockstep-test.h"

#define TEXT 512	/* bytes of a reason */

#define TELL	(10 * HZ)	/* an opening waits for its superblock for so long at most */

TEST_KNOB(bool, both_copies, "the superblock can't be read if one of its copies can't");
TEST_KNOB(bool, super_once, "an open takes what the superblock said before the log was claimed");
TEST_KNOB(bool, one_passes, "a place of the ring is used again when one copy of the superblock has passed it");
TEST_KNOB(bool, one_told, "that the log was passed over is told to one copy of its superblock");
TEST_KNOB(bool, grows_beside, "the data disk's size is changed while the superblock may be written");
TEST_KNOB(bool, one_header, "slots are used again by what one copy of the NVRAM header says");
TEST_KNOB(bool, nvram_apart, "an NVRAM of an earlier time than its log is believed");
TEST_KNOB(bool, passed_unseen, "what went past a dead log has no witness in the NVRAM's header");
TEST_KNOB(bool, no_end, "no end record in NVRAM is right, so none says which entry is the newest");
TEST_KNOB(bool, any_end, "end records that are damaged are as if they had never been written");

void dcd_geometry_of(const struct dcd_engine *e, struct dcd_geometry *g)
{
	memcpy(g->uuid, e->super.uuid, sizeof(g->uuid));
	g->epoch = e->epoch;
	g->data_sectors = e->data.sectors;
	g->segments = e->segments;
	g->segment_bytes = e->segment_bytes;
	g->table_bytes = e->table_bytes;
	g->nvram = e->keeps;
}

static int take_super(struct dcd_engine *e, const struct dcd_super_found *f)
{
	bool again = e->super.magic;	/* that has been told */
	char *text;

	if (f->reason) {
		text = kmalloc(TEXT, GFP_KERNEL);
		if (!text)
			return -ENOMEM;
		dcd_super_text(f, text, TEXT);
		pr_err("dcd: %s: %pg with the data disk %pg: %s\n", e->name, e->log.bdev,
		       e->data.bdev, text);
		kfree(text);
		return dcd_reason_errno(f->reason);
	}
	if (f->geometry.nvram != e->keeps) {
		pr_err("dcd: %s: the log %pg was formatted %s; nvram=%s doesn't fit\n", e->name,
		       e->log.bdev, e->keeps ? "without NVRAM" : "together with an NVRAM",
		       e->nv->type->name);
		return -EMEDIUMTYPE;
	}
	if (f->copies[!f->counts] != DCD_COPY_VALID && !again)
		pr_warn("dcd: %s: copy %u of the superblock of the log %pg is damaged or can't be read, the other one counts\n",
			e->name, !f->counts, e->log.bdev);
	e->super = f->super;
	e->super_differs = f->differ;
	e->older_tail = min(f->other_tail, le64_to_cpu(e->super.tail));
	e->older_applied = min(f->other_applied, le64_to_cpu(e->super.applied));
	e->epoch = f->geometry.epoch;
	e->segments = f->geometry.segments;
	e->segment_bytes = f->geometry.segment_bytes;
	e->table_bytes = f->geometry.table_bytes;
	e->usual = (u64)(e->segment_bytes - dcd_payload_start(e)) >> SECTOR_SHIFT << 4;
	return 0;
}

int dcd_super_blocks(struct dcd_engine *e, u8 *buf, unsigned long patience)
{
	int r = dcd_log_read(e, 0, buf, 2 * DCD_BLOCK, patience);
	unsigned int i, good = 0;

	if (!r || test_knob(both_copies))
		return r;
	for (i = 0; i < 2; i++) {
		u8 *copy = buf + i * DCD_BLOCK;

		r = dcd_log_read(e, i * (DCD_BLOCK >> SECTOR_SHIFT), copy, DCD_BLOCK, patience);
		if (r)
			memset(copy, 0, DCD_BLOCK);
		else
			good++;
	}
	return good ? 0 : r;
}

int dcd_super_read(struct dcd_engine *e, bool grown)
{
	struct dcd_super_found *f = kmalloc(sizeof(*f), GFP_KERNEL);
	u8 *buf = kmalloc(2 * DCD_BLOCK, GFP_KERNEL);
	int r = f && buf ? 0 : -ENOMEM;

	if (r || (e->super.magic && test_knob(super_once)))
		goto out;
	r = dcd_super_blocks(e, buf, 0);
	if (r) {
		pr_err("dcd: %s: can't read the superblock of the log %pg: error %d\n", e->name,
		       e->log.bdev, r);
		goto out;
	}
	dcd_super_find(buf, e->data.sectors, e->log.sectors, f);
	if (grown && f->reason == DCD_OTHER_DATA && f->b > f->a) {
		e->data.sectors = f->a;
		dcd_super_find(buf, e->data.sectors, e->log.sectors, f);
	}
	r = take_super(e, f);
out:
	kfree(buf);
	kfree(f);
	return r;
}

/* The newest entry that the log is known to have; while it is dead, the one it had then. */
static u64 durable(struct dcd_engine *e)
{
	u64 newest = le64_to_cpu(e->super.newest);

	spin_lock(&e->lock);
	if (!e->log_dead)
		newest = max(newest, e->committed_entry);
	spin_unlock(&e->lock);
	return newest;
}

static void write_header(struct dcd_engine *e, u64 applied);

/* The superblock that is written next says that no header of before can be its own. */
static void join_header(struct dcd_engine *e, struct dcd_super *s)
{
	mutex_lock(&e->header_lock);
	dcd_generations_join(s, &e->header);
	write_header(e, le64_to_cpu(e->header.applied));
	write_header(e, le64_to_cpu(e->header.applied));
	mutex_unlock(&e->header_lock);
}

static int write_super(struct dcd_engine *e, u64 tail, u64 applied)
{
	struct dcd_super *s = e->super_buf;
	struct dcd_blip blip;
	unsigned int copy;
	int r;

	lockdep_assert_held(&e->super_lock);
	memset(s, 0, DCD_BLOCK);
	*s = e->super;
	s->newest = cpu_to_le64(durable(e));
	if (e->keeps && !test_knob(nvram_apart))
		join_header(e, s);
	dcd_witness_write(e, s);
	copy = dcd_super_next(s, tail, applied);
	dcd_blip_begin(&blip);
	do {
		r = dcd_aside_write(e, copy * (DCD_BLOCK >> SECTOR_SHIFT), s, DCD_BLOCK);
	} while (dcd_blip_again(e, &blip, r));
	if (r)
		return r;
	dcd_count(e, DCD_N_SUPERBLOCKS, 1);
	/* The one that was the newer one is the older one now. */
	spin_lock(&e->lock);
	e->older_tail = min(le64_to_cpu(e->super.tail), tail);
	e->older_applied = min(le64_to_cpu(e->super.applied), applied);
	e->untold = false;
	spin_unlock(&e->lock);
	e->super = *s;
	return 0;
}

int dcd_super_write(struct dcd_engine *e, u64 tail, u64 applied)
{
	int r;

	if (dcd_commit_is_left(e))
		return -ETIME;
	mutex_lock(&e->super_lock);
	r = write_super(e, tail, applied);
	mutex_unlock(&e->super_lock);
	return r;
}

u64 dcd_kept_from(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	if (e->log_dead || test_knob(one_passes))
		return e->tail;
	return min(e->tail, e->older_tail);
}

/*
 * One copy has @tail, or gets it now: is the other one to have it, too? Not for each few segments,
 * while there is room without. But when all is on the data disk, nothing of the log has to be read
 * any more, whichever copy counts; and what of it can't be read never has to be.
 */
static bool is_due(struct dcd_engine *e, u64 tail)
{
	u64 older;
	bool yes;

	spin_lock(&e->lock);
	older = e->older_tail;
	yes = dcd_ring_is_behind(e, tail) ||
	      (!test_knob(one_passes) && (e->damaged > older || READ_ONCE(e->log_unreadable)));
	yes = yes || (e->head == tail && !test_knob(one_told));
	yes = ((yes && older < tail) || e->untold) && !e->log_dead;
	spin_unlock(&e->lock);
	return yes;
}

u64 dcd_super_told(const struct dcd_engine *e)
{
	u64 newer = le64_to_cpu(e->super.applied);

	return test_knob(one_told) ? newer : min(newer, e->older_applied);
}

static int write_second(struct dcd_engine *e)
{
	int r = dcd_super_write(e, le64_to_cpu(e->super.tail), le64_to_cpu(e->super.applied));

	if (!r)
		dcd_count(e, DCD_N_SUPERBLOCKS_BOTH, 1);
	return r;
}

int dcd_super_pass(struct dcd_engine *e, u64 tail, u64 applied, bool both)
{
	int r = dcd_super_write(e, tail, applied);

	if (r)
		return r;
	both = both && !test_knob(one_told) &&
	       (e->older_tail < tail || e->older_applied < applied);
	return both || is_due(e, tail) ? write_second(e) : 0;
}

void dcd_super_catch_up(struct dcd_engine *e)
{
	int r;

	if (!is_due(e, le64_to_cpu(e->super.tail)))
		return;
	r = write_second(e);
	if (r)
		dcd_log_failed(e, DCD_SUPERBLOCK, r);
	wake_up_all(&e->room);
}

void dcd_super_worker(struct work_struct *work)
{
	dcd_super_catch_up(container_of(work, struct dcd_engine, super_work));
}

void dcd_super_kick(struct dcd_engine *e)
{
	if (is_due(e, READ_ONCE(e->tail)))
		queue_work(e->destage_wq, &e->super_work);
}

void dcd_super_tell(struct dcd_engine *e)
{
	if (!READ_ONCE(e->untold))
		return;
	if (!READ_ONCE(e->log_dead))
		queue_work(e->destage_wq, &e->super_work);
	wait_event_timeout(e->room, !READ_ONCE(e->untold) || READ_ONCE(e->log_dead), TELL);
	if (READ_ONCE(e->untold))
		pr_warn("dcd: %s: the log %pg takes no superblock, which is tried again: look after that disk. Until it has taken one, an NVRAM as it was before this opening isn't recognised\n",
			e->name, e->log.bdev);
}

/* What was changed of it. */
static int write_both(struct dcd_engine *e)
{
	u64 tail = le64_to_cpu(e->super.tail), applied = le64_to_cpu(e->super.applied);

	return write_super(e, tail, applied) ?: write_super(e, tail, applied);
}

int dcd_super_feature(struct dcd_engine *e, u32 bit)
{
	__le32 was;
	int r = 0;

	mutex_lock(&e->super_lock);
	was = e->super.features.incompat;
	if (!(le32_to_cpu(was) & bit)) {
		e->super.features.incompat |= cpu_to_le32(bit);
		r = write_both(e);
		if (r)
			e->super.features.incompat = was;
	}
	mutex_unlock(&e->super_lock);
	return r;
}

static void take_size(struct dcd_engine *e, sector_t sectors, u64 leg)
{
	e->super.data_sectors = cpu_to_le64(sectors);
	dcd_grown_add(&e->super, e->data.sectors, leg);
}

int dcd_super_grow(struct dcd_engine *e, sector_t sectors, u64 leg)
{
	struct dcd_grown grown[DCD_GROWN];
	__le64 was = e->super.data_sectors;
	int r;

	memcpy(grown, e->super.grown, sizeof(grown));
	if (test_knob(grows_beside))
		take_size(e, sectors, leg);
	/* The committer may be writing what was, and would take it back. */
	mutex_lock(&e->super_lock);
	if (!test_knob(grows_beside))
		take_size(e, sectors, leg);
	r = write_both(e);
	/* Whatever is there: the next one that is written is newer, and either size is right. */
	if (r) {
		e->super.data_sectors = was;
		memcpy(e->super.grown, grown, sizeof(grown));
	}
	mutex_unlock(&e->super_lock);
	return r;
}

int dcd_header_read(struct dcd_engine *e)
{
	struct dcd_header_found *f;
	struct dcd_geometry g;
	char *text;
	void *block;
	int r;

	if (e->nv->bytes < DCD_BLOCK) {
		pr_err("dcd: %s: NVRAM of %zu bytes is too small\n", e->name, e->nv->bytes);
		return -ENOSPC;
	}
	f = kmalloc(sizeof(*f) + TEXT + DCD_BLOCK, GFP_KERNEL);
	if (!f)
		return -ENOMEM;
	text = (char *)(f + 1);
	block = text + TEXT;
	dcd_geometry_of(e, &g);
	if (dcd_nvram_read(e->nv, e->nv->base, block, DCD_BLOCK, e->header_bad))
		pr_err("dcd: %s: a part of the NVRAM's headers can't be read, a media error\n",
		       e->name);
	dcd_header_find(block, e->header_bad, e->nv->bytes, &g, f);
	r = dcd_reason_errno(f->reason);
	if (r) {
		dcd_header_text(f, text, TEXT);
		pr_err("dcd: %s: log %pg (uuid %pU): %s\n", e->name, e->log.bdev, e->super.uuid,
		       text);
	} else if (f->copies[!f->counts] != DCD_COPY_VALID) {
		pr_warn("dcd: %s: copy %u of the NVRAM header is damaged, the other one counts\n",
			e->name, !f->counts);
	}
	e->header = f->header;
	e->header_differs = f->other_applied < le64_to_cpu(f->header.applied);
	e->end_known = f->newest;
	e->end_bad = f->end_bad && !test_knob(any_end);
	e->end_copy = f->end_older;
	memcpy(e->ends, f->ends, sizeof(e->ends));
	kfree(f);
	return r;
}

/* All entries that there are count now: a record that isn't right says so, too. */
static void mend_ends(struct dcd_engine *e)
{
	unsigned int i, older = e->end_copy;

	/* Never used: written when there is something to say, as the opening may be refused yet. */
	e->ends_unused = e->ends[0] == DCD_COPY_BLANK && e->ends[1] == DCD_COPY_BLANK;
	e->end_first = e->next_entry - 1;
	if (e->ends_unused)
		return;
	for (i = 0; i < ARRAY_SIZE(e->ends); i++) {
		if (e->ends[i] == DCD_COPY_VALID)
			continue;
		e->end_copy = i;
		dcd_end_write(e, e->next_entry - 1);
		older = !i;
	}
	e->end_copy = older;
}

/*
 * What of the headers can't be read is written anew, by way of the driver, a sector at a time:
 * the other copy is good.
 */
int dcd_header_mend(struct dcd_engine *e)
{
	u8 *sector = kzalloc(SECTOR_SIZE, GFP_KERNEL);
	unsigned int i, mended = 0;
	int r = 0;

	if (!sector)
		return -ENOMEM;
	for (i = 0; e->keeps && !r && i < ARRAY_SIZE(e->header_bad); i++) {
		if (!e->header_bad[i])
			continue;
		memset(sector, 0, SECTOR_SIZE);
		if (i == 0 || i == DCD_NVRAM_COPY >> SECTOR_SHIFT)
			memcpy(sector, &e->header, sizeof(e->header));
		r = dcd_nvram_mend(e->nv, i << SECTOR_SHIFT, sector, SECTOR_SIZE);
		mended += !r;
	}
	kfree(sector);
	/* Slots are free by what this one says. */
	if (!r && e->keeps && e->header_differs && !test_knob(one_header))
		dcd_header_write(e, le64_to_cpu(e->header.applied));
	if (!r && e->keeps)
		mend_ends(e);
	e->untold = !r && e->keeps;
	if (r)
		pr_err("dcd: %s: a media error in the headers of the NVRAM %s can't be cleared: error %d; `dcd recover` brings what it has to the data disk; then replace that memory\n",
		       e->name, e->nv->type->name, r);
	else if (mended)
		pr_warn("dcd: %s: media errors in %u sectors of the headers of the NVRAM %s are cleared, they are written anew\n",
			e->name, mended, e->nv->type->name);
	return r;
}

static void write_header(struct dcd_engine *e, u64 applied)
{
	unsigned int copy = dcd_header_next(&e->header, applied);
	void *buf = (void *)e->super_buf + DCD_BLOCK;
	size_t at = copy * DCD_NVRAM_COPY;

	lockdep_assert_held(&e->header_lock);
	memcpy(e->nv->base + at, &e->header, sizeof(e->header));
	e->nv->type->persist(e->nv, at, sizeof(e->header));
	if (!dcd_nvram_read(e->nv, e->nv->base + at, buf, sizeof(e->header), NULL))
		return;
	/* A media error that is new: slots will be used again because of what it says. */
	memset(buf, 0, SECTOR_SIZE);
	memcpy(buf, &e->header, sizeof(e->header));
	dcd_count(e, DCD_N_NVRAM_ERRORS, 1);
	if (!dcd_nvram_mend(e->nv, at, buf, SECTOR_SIZE)) {
		dcd_count(e, DCD_N_NVRAM_MENDED, 1);
		return;
	}
	dcd_count(e, DCD_N_NVRAM_UNMENDED, 1);
	at = dcd_header_next(&e->header, applied) * DCD_NVRAM_COPY;
	memcpy(e->nv->base + at, &e->header, sizeof(e->header));
	e->nv->type->persist(e->nv, at, sizeof(e->header));
}

void dcd_header_write(struct dcd_engine *e, u64 applied)
{
	mutex_lock(&e->header_lock);
	write_header(e, applied);
	mutex_unlock(&e->header_lock);
}

void dcd_header_pass(struct dcd_engine *e, u64 applied)
{
	mutex_lock(&e->super_lock);
	mutex_lock(&e->header_lock);
	if (!test_knob(passed_unseen))
		dcd_witness_write_header(e, applied);
	write_header(e, applied);
	if (!test_knob(one_header))
		write_header(e, applied);
	mutex_unlock(&e->header_lock);
	mutex_unlock(&e->super_lock);
}

void dcd_header_feature(struct dcd_engine *e, u32 bit)
{
	if (le32_to_cpu(e->header.features.incompat) & bit)
		return;
	e->header.features.incompat |= cpu_to_le32(bit);
	dcd_header_write(e, le64_to_cpu(e->header.applied));
	dcd_header_write(e, le64_to_cpu(e->header.applied));
}

static void write_end(struct dcd_engine *e, u64 newest)
{
	size_t at = DCD_NVRAM_END + e->end_copy * DCD_NVRAM_COPY;
	struct dcd_nvram_end end;

	e->end_copy = !e->end_copy;
	/* Its checksum is made here: a load from a bad line of NVRAM would be a machine check. */
	dcd_end_make(&end, e->epoch ^ test_knob(no_end), newest);
	memcpy(e->nv->base + at, &end, sizeof(end));
	e->nv->type->persist(e->nv, at, sizeof(end));
}

void dcd_end_raise(struct dcd_engine *e, u64 newest)
{
	if (e->end_known && e->end_known < newest)
		write_end(e, newest);
}

void dcd_end_write(struct dcd_engine *e, u64 newest)
{
	if (unlikely(e->ends_unused)) {
		/* Both are there before one says more than what was there at the opening. */
		e->ends_unused = false;
		write_end(e, e->end_first);
		write_end(e, e->end_first);
	}
	write_end(e, newest);
}
