// SPDX-License-Identifier: GPL-2.0-only
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"

#define SEAL_AFTER (HZ / 10)	/* of an open slot; the papers' longest stay in NVRAM */
#define SEAL_LATER (2 * HZ)	/* with little room in the ring */
#define ANSWERS (2 * HZ)	/* each copy of the superblock, if it works */
#define PIN_PATIENCE (30 * HZ)	/* for slots that are pinned */
#define OPENING (5 * HZ)	/* for all writes of an opening, that aren't needed */
#define OFTEN (60 * HZ)	/* a log that fails so often is tried again later, not at once */

TEST_KNOB(bool, opening_commits, "an opening waits until the log has all that NVRAM has");
TEST_KNOB(bool, pins_hold, "a close waits for slots that are pinned");
TEST_KNOB(bool, asked_late, "a dead log that took long to refuse is asked late, though the data disk fails, too");
TEST_KNOB(bool, dead_seals, "past a dead log the clock seals slots, too");
TEST_KNOB(bool, never_pin, "a segment that can't be read back from the log is a dead log");

static int write_segment(struct dcd_engine *e, struct dcd_commit *c)
{
	u64 sequence = c->segment, sector = dcd_segment_sector(e, sequence);
	u32 used = c->used;
	void *buf = c->buf;
	struct dcd_segment *h = buf;
	unsigned int moves = 0;
	unsigned long began;
	struct dcd_blip blip;
	int r;

	memset(h, 0, DCD_BLOCK);
	h->magic = cpu_to_le64(DCD_SEGMENT_MAGIC);
	h->version = cpu_to_le32(DCD_VERSION);
	memcpy(h->uuid, e->super.uuid, sizeof(h->uuid));
	h->epoch = cpu_to_le64(e->epoch);
	h->sequence = cpu_to_le64(sequence);
	h->first_entry = cpu_to_le64(c->first_entry);
	h->entries = cpu_to_le32(c->entries);
	h->used_bytes = cpu_to_le32(used);
	h->body_crc = cpu_to_le32(dcd_crc(buf + DCD_BLOCK, used - DCD_BLOCK));
	h->crc = cpu_to_le32(dcd_crc(h, sizeof(*h)));
	dcd_blip_begin(&blip);
	do {
		began = jiffies;
		r = dcd_spares_settle(e);
		if (!r)
			r = dcd_disk_io(&e->log, REQ_OP_WRITE | REQ_SYNC, sector, buf, used);
		if (!r)
			r = dcd_disk_flush(&e->log);
		trace_dcd_commit(e, sequence, c->entries, used, r);
	} while (dcd_blip_again(e, &blip, r) ||
		 (moves++ < DCD_SPARES_TIMES && time_before(jiffies, began + DCD_SPARES_TIME) &&
		  dcd_spares_unwritten(e, sector, buf, used, r)));
	if (!r) {
		dcd_count(e, DCD_N_SEGMENTS, 1);
		dcd_count(e, DCD_N_LOG_SECTORS, used >> SECTOR_SHIFT);
	}
	if (!r && c->prove)
		c->proof = dcd_proof(e, sequence, buf, used);
	return r;
}

void dcd_log_failed(struct dcd_engine *e, u64 segment, int error)
{
	char where[32] = "superblock";
	bool news;

	dcd_count(e, DCD_N_LOG_WRITE_ERRORS, 1);
	if (segment < DCD_MOVED_TABLE)
		dcd_proof_doubt(e, segment);
	spin_lock(&e->lock);
	news = !e->log_dead;
	e->log_dead = true;
	e->log_retry = jiffies;
	if (!news || time_before(jiffies, e->log_failed + OFTEN))
		e->log_retry += DCD_RETRY;
	e->log_failed = jiffies;
	spin_unlock(&e->lock);
	if (!news)
		return;
	trace_dcd_disk(e, true, error);
	if (segment < DCD_MOVED_TABLE)
		snprintf(where, sizeof(where), "segment %llu", segment);
	else if (segment == DCD_MOVED_TABLE)
		strscpy(where, "the table of moved blocks", sizeof(where));
	pr_err("dcd: %s: can't write %s of the log %pg: error %d; %s, trying again: look after that disk\n",
	       e->name, where, e->log.bdev, error,
	       e->keeps ? "going on from NVRAM to the data disk" : "writes are refused");
	wake_up_all(&e->room);
	dcd_report(e);
}

void dcd_log_damaged(struct dcd_engine *e, u64 segment)
{
	dcd_proof_doubt(e, segment);
	spin_lock(&e->lock);
	WRITE_ONCE(e->damaged, max(e->damaged, segment + 1));
	spin_unlock(&e->lock);
}

void dcd_log_works(struct dcd_engine *e)
{
	bool left;

	spin_lock(&e->lock);
	left = e->leaving != DCD_LEAVE_NOT;
	if (!left) {
		e->log_dead = false;
		e->log_behind = false;	/* it has all, or gets it now */
	}
	spin_unlock(&e->lock);
	if (left)
		return;
	e->sweep.n = 0;		/* they are of the time past it */
	trace_dcd_disk(e, true, 0);
	pr_info("dcd: %s: the log %pg works again\n", e->name, e->log.bdev);
	wake_up_all(&e->room);
	mod_delayed_work(e->commit_wq, &e->commit_work, 0);
}

static bool may_pin_or_ends(struct dcd_engine *e)
{
	return dcd_slots_may_pin(e, false) ||
	       ((READ_ONCE(e->ending) || READ_ONCE(e->log_dead)) && !test_knob(pins_hold));
}

/*
 * Nobody knows whether it is there: so its slot is pinned as soon as another one isn't any more. A
 * close doesn't wait for that, nor does the destager when the log has died, who waits for this to
 * end. One that forgets can't keep it.
 */
static bool may_pin(struct dcd_engine *e, int proof)
{
	if (!e->keeps || test_knob(never_pin))
		return false;
	if (proof == -ETIME && !dcd_slots_may_pin(e, false)) {
		dcd_destage_kick(e);
		wait_event_timeout(e->room, may_pin_or_ends(e), PIN_PATIENCE);
	}
	return dcd_slots_may_pin(e, false);
}

/* Does neither copy of the superblock count what is in its place? */
static bool may_be_written(struct dcd_engine *e, u64 segment)
{
	bool yes;

	spin_lock(&e->lock);
	yes = segment - dcd_kept_from(e) < e->segments;
	spin_unlock(&e->lock);
	return yes;
}

static void write_commit(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, commit.work);
	struct dcd_commit *c = &e->commit;
	bool left;

	c->proof = 0;
	c->error = c->write(e, c);
	spin_lock(&e->lock);
	c->done = true;
	left = c->left;
	wake_up_all(&e->quiet);
	spin_unlock(&e->lock);
	if (!left)
		return;
	vfree(c->buf);
	spin_lock(&e->lock);
	c->left = false;
	wake_up_all(&e->quiet);
	spin_unlock(&e->lock);	/* the engine may be gone from here on */
}

void dcd_commit_init(struct dcd_engine *e)
{
	INIT_WORK(&e->commit.work, write_commit);
}

bool dcd_commit_is_left(const struct dcd_engine *e)
{
	return READ_ONCE(e->commit.left);
}

/* False: it has returned. */
static bool leave_commit(struct dcd_engine *e)
{
	struct dcd_commit *c = &e->commit;
	void *buf = READ_ONCE(c->done) ? NULL : vmalloc(e->segment_bytes);
	bool left;

	if (!buf) {
		wait_event(e->quiet, READ_ONCE(c->done));
		return false;
	}
	memcpy(buf, c->buf, e->segment_bytes);
	spin_lock(&e->lock);
	left = !c->done;
	c->left = left;
	spin_unlock(&e->lock);
	if (!left) {
		vfree(buf);
		return false;
	}
	e->commit_buf = buf;
	dcd_count(e, DCD_N_LOG_WRITES_LATE, 1);
	trace_dcd_log_late(e, dcd_segment_sector(e, c->segment), 1);
	return true;
}

int dcd_log_write(struct dcd_engine *e, dcd_log_writer *write)
{
	struct dcd_commit *c = &e->commit;
	unsigned long began = jiffies;
	bool left = false;

	if (dcd_commit_is_left(e))
		return -ETIME;
	c->buf = e->commit_buf;
	c->write = write;
	c->done = false;
	if (e->keeps) {
		queue_work(e->aside_wq, &c->work);
		dcd_aside_wait(e, &c->done, began);
		left = leave_commit(e);
	} else {
		write_commit(&c->work);
	}
	c->spent += jiffies - began;
	return left ? -ETIME : c->error;
}

bool dcd_opening_hurries(const struct dcd_engine *e)
{
	return e->keeps && e->commit.spent > OPENING && !test_knob(opening_commits);
}

int dcd_segment_write(struct dcd_engine *e, u64 sequence, u64 first, u32 entries, u32 used,
		      bool prove)
{
	struct dcd_commit *c = &e->commit;

	if (dcd_commit_is_left(e))
		return -ETIME;
	c->segment = sequence;
	c->first_entry = first;
	c->entries = entries;
	c->used = used;
	c->prove = prove;
	return dcd_log_write(e, write_segment);
}

static int commit(struct dcd_engine *e, struct dcd_slot *s)
{
	ktime_t began = ktime_get();
	int r = -EIO, proof = 0;
	bool whole = false;

	WRITE_ONCE(e->log_tried, s->segment + 1);
	if (!WARN_ON_ONCE(!may_be_written(e, s->segment)) && !dcd_commit_is_left(e)) {
		/* What its slot can't give either isn't kept by it. */
		whole = dcd_slot_copy(e, s, e->commit_buf);
		r = dcd_segment_write(e, s->segment, s->first_entry, s->entries, s->used, whole);
	}
	if (!r)
		proof = e->commit.proof;
	if (proof && !may_pin(e, proof))
		r = -EIO;
	if (r) {
		dcd_log_failed(e, s->segment, r);
		return r;
	}
	dcd_pace_learn(e, &e->log_speed, s->used >> SECTOR_SHIFT, began);
	if (whole)	/* else those of what is right are found when they are asked for */
		dcd_sums_keep(e, s->segment, e->commit_buf, s->entries);
	if (proof)
		dcd_log_damaged(e, s->segment);	/* so it is destaged at once */
	dcd_slot_committed(e, s, proof);
	dcd_super_kick(e);
	if (proof)
		dcd_destage_kick(e);
	dcd_report(e);
	return 0;
}

int dcd_log_answers(struct dcd_engine *e)
{
	void *buf = kvmalloc(DCD_BLOCK, GFP_KERNEL);
	int i, r = buf ? -EIO : -ENOMEM;

	for (i = 0; i < 2 && r && r != -ENOMEM && !READ_ONCE(e->log_dead); i++)
		r = dcd_aside_read(e, i * (DCD_BLOCK >> SECTOR_SHIFT), buf, DCD_BLOCK, ANSWERS);
	kvfree(buf);
	return r == -ENOMEM ? r : !r && !READ_ONCE(e->log_dead);
}

/*
 * The same segment with the same bytes as when it failed, so it doesn't matter
 * what of it is there. What the destager has taken out of the index meanwhile
 * goes to the log too: it may be newer than what the log has of those ranges.
 */
void dcd_log_ask(struct dcd_engine *e)
{
	u64 applied = max(le64_to_cpu(e->super.applied), le64_to_cpu(e->header.applied));
	struct dcd_slot *s;
	int r;

	if (dcd_leaves(e) || dcd_commit_is_left(e))
		return;
	r = dcd_super_pass(e, e->tail, applied, true);
	if (r) {
		dcd_log_failed(e, DCD_SUPERBLOCK, r);
		return;
	}
	s = dcd_slot_next_sealed(e, true);
	if (!s || !commit(e, s))
		dcd_log_works(e);
}

/* That it takes long to refuse is no reason not to ask it where writes don't go on past it. */
void dcd_log_ask_failed(struct dcd_engine *e, bool stuck)
{
	unsigned long at = e->log_failed + DCD_RETRY;

	if (!stuck || test_knob(asked_late) || time_before(e->log_retry, at))
		at = e->log_retry;
	if (READ_ONCE(e->log_dead) && !time_before(jiffies, at))
		dcd_log_ask(e);
}

/*
 * A segment takes the same place in the ring whatever is in it. Where writes are
 * slowed because there is little room, it isn't given away to slots that are half
 * empty because writes are slow.
 */
unsigned long dcd_seal_after(struct dcd_engine *e)
{
	return dcd_pressed(e) ? SEAL_LATER : SEAL_AFTER;
}

/*
 * Past a dead log it is time for a round, which seals it: no slot gets free before that is over,
 * and if the clock sealed them meanwhile, NVRAM would be full of slots that are nearly empty. Nor
 * does a round if another one is left, by one that has failed.
 */
static bool seals_by_round(const struct dcd_engine *e)
{
	return e->log_dead && e->keeps && !test_knob(dead_seals);
}

void dcd_seal_for_round(struct dcd_engine *e)
{
	spin_lock(&e->lock);
	if (seals_by_round(e) && e->open && !dcd_open_is_kept(e) &&
	    e->open->segment == e->committed)
		dcd_seal_open(e);
	spin_unlock(&e->lock);
}

/* Its time has come, or without NVRAM: somebody waits for it. True: a round is to seal it. */
static bool seal_in_time(struct dcd_engine *e)
{
	unsigned long after = dcd_seal_after(e);
	bool due, later;

	spin_lock(&e->lock);
	due = e->open && !dcd_open_is_kept(e) &&
	      (e->after_log || time_after_eq(jiffies, e->open->opened + after));
	if (due && !seals_by_round(e))
		dcd_seal_open(e);
	later = e->open;
	spin_unlock(&e->lock);
	if (later)
		queue_delayed_work(e->commit_wq, &e->commit_work, SEAL_AFTER);
	return due && later;
}

/* With the log dead it is only the clock of the destager, which then empties NVRAM. */
void dcd_commit_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine,
					    commit_work);
	struct dcd_slot *s;
	bool due;

	do {
		while ((s = dcd_slot_next_sealed(e, false)) && !READ_ONCE(e->closing))
			if (commit(e, s))
				break;
		due = seal_in_time(e);
	} while (dcd_slot_next_sealed(e, false) && !READ_ONCE(e->closing));
	if (!READ_ONCE(e->log_dead) || due || dcd_slot_next_sealed(e, true))
		dcd_destage_kick(e);
}
