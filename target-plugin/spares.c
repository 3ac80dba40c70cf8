// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"

#define DURABLE (REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH | REQ_FUA)
#define PART (16U * DCD_BLOCK)	/* which is written at once while bad blocks are looked for */
#define BLOCKS 4U	/* as many bad ones may take as long as the first part */
#define BAD_SPARES 4U		/* one after the other: it isn't they that are bad */

TEST_KNOB(bool, dead_searched, "in a log that takes no writes at all bad blocks are searched for, however slowly they fail");
TEST_KNOB(bool, spares_forget, "of bad blocks that aren't all found in time none is moved");
TEST_KNOB(bool, spares_hurry, "bad blocks are looked for as long, however long one takes");
TEST_KNOB(bool, never_move, "a bad block of the log stays where it is");

/* Blocks of a segment that are bad: bytes from where it begins. */
struct bad {
	u32 n;
	u32 at[DCD_SPARES_AT_ONCE];
};

/* What is used from now on. -ENOMEM: what was. */
static int use(struct dcd_engine *e, const struct dcd_moves *m)
{
	struct dcd_moves *copy = kmemdup(m, sizeof(*m), GFP_NOIO), *old;

	if (!copy)
		return -ENOMEM;
	old = rcu_replace_pointer(e->log.moves, copy, true);
	if (old) {
		synchronize_rcu();
		kfree(old);
	}
	e->spares.now = *m;
	return 0;
}

void dcd_spares_free(struct dcd_engine *e)
{
	kfree(rcu_replace_pointer(e->log.moves, NULL, true));
	vfree(e->spares.buf);
}

/* Both copies as they are; what can't be read is zeroes. */
static int read_tables(struct dcd_engine *e, u8 *blocks)
{
	unsigned int i;
	int r;

	for (i = 0; i < 2; i++) {
		u8 *block = blocks + i * DCD_BLOCK;

		r = dcd_log_read(e, (DCD_MOVED_START + i * DCD_BLOCK) >> SECTOR_SHIFT, block,
				 DCD_BLOCK, 0);
		if (r == -ENOMEM)
			return r;
		if (r)
			memset(block, 0, DCD_BLOCK);
	}
	return 0;
}

static int take(struct dcd_engine *e, const u8 *blocks, struct dcd_moves_found *f)
{
	struct dcd_geometry g;

	dcd_geometry_of(e, &g);
	if (!dcd_moves_find(blocks, &g, f)) {
		pr_err("dcd: %s: blocks of the log %pg were moved, as they were bad, and neither copy of the table that says where they are can be used, they are damaged or can't be read: restore that log from a copy; `dcd format` makes a new one (and forgets what was there)\n",
		       e->name, e->log.bdev);
		return -EUCLEAN;
	}
	if (f->copies[!f->counts] != DCD_COPY_VALID)
		pr_warn("dcd: %s: copy %u of the table of moved blocks of the log %pg is damaged or can't be read, the other one counts\n",
			e->name, !f->counts, e->log.bdev);
	e->spares.first = !f->counts;
	e->spares.differ = f->differ;
	return f->moves.used ? use(e, &f->moves) : 0;
}

int dcd_spares_open(struct dcd_engine *e)
{
	struct dcd_moves_found *f;
	u8 *blocks;
	int r = -ENOMEM;

	e->spares.buf = vzalloc(DCD_BLOCK);
	if (!e->spares.buf)
		return r;
	if (!dcd_moves_count(&e->super))
		return 0;
	f = kmalloc(sizeof(*f), GFP_KERNEL);
	blocks = kmalloc(2 * DCD_BLOCK, GFP_KERNEL);
	if (f && blocks)
		r = read_tables(e, blocks);
	if (f && blocks && !r)
		r = take(e, blocks, f);
	if (!r)
		e->spares.now = f->moves;
	kfree(blocks);
	kfree(f);
	return r;
}

/* What is in @buf, to one of the copies. */
static int write_table(struct dcd_engine *e, unsigned int copy)
{
	return dcd_disk_io(&e->log, DURABLE,
			   (DCD_MOVED_START + copy * DCD_BLOCK) >> SECTOR_SHIFT, e->spares.buf,
			   DCD_BLOCK);
}

static void make_table(struct dcd_engine *e, const struct dcd_moves *m)
{
	struct dcd_geometry g;

	dcd_geometry_of(e, &g);
	dcd_moves_make(m, &g, e->spares.buf);
}

/* Durable, in both copies, and the superblocks say that they count. */
static int write_tables(struct dcd_engine *e, const struct dcd_moves *m)
{
	struct dcd_spares *s = &e->spares;
	unsigned int i;
	int r = 0;

	make_table(e, m);
	s->unsure = true;
	for (i = 0; i < 2 && !r; i++) {
		r = write_table(e, s->first);
		if (!r)	/* else it is the next one to be written, too: the other one may count */
			s->first = !s->first;
	}
	return r ?: dcd_super_feature(e, DCD_INCOMPAT_MOVED);
}

/* The copy that counts is right, and stays as it is: a cut would tear it. */
static void mend_other(struct dcd_engine *e)
{
	int r;

	e->spares.differ = false;
	make_table(e, &e->spares.now);
	r = write_table(e, e->spares.first);
	if (r)
		pr_warn("dcd: %s: copy %u of the table of moved blocks of the log %pg can't be written: error %d; no more blocks can be moved, and what damages the other copy costs that log: look after that disk\n",
			e->name, e->spares.first, e->log.bdev, r);
}

int dcd_spares_settle(struct dcd_engine *e)
{
	struct dcd_spares *s = &e->spares;
	int first, second;

	if (s->differ)
		mend_other(e);
	if (!s->unsure)
		return 0;
	s->now.generation += 2;	/* above what was tried in vain, too */
	make_table(e, &s->now);
	first = write_table(e, s->first);
	second = write_table(e, !s->first);
	if (first && second) {
		pr_err_ratelimited("dcd: %s: the table of moved blocks of the log %pg can't be written: error %d; nothing else is written there before it is\n",
				   e->name, e->log.bdev, first);
		return first;
	}
	if (second)
		s->first = !s->first;
	s->unsure = false;
	return 0;
}

u32 dcd_spares_unused(const struct dcd_engine *e)
{
	return DCD_SPARES - READ_ONCE(e->spares.now.used) - READ_ONCE(e->spares.now.bad);
}

bool dcd_spares_left(const struct dcd_engine *e)
{
	return !test_knob(never_move) && dcd_moves_free_one(&e->spares.now) < DCD_SPARES;
}

/* What is in this block is in the spare, durable, and can be read there. */
static int fill(struct dcd_engine *e, u32 spare, void *from)
{
	u64 sector = dcd_moves_place(spare) >> SECTOR_SHIFT;
	int r = dcd_disk_io(&e->log, DURABLE, sector, from, DCD_BLOCK);

	if (!r)
		r = dcd_aside_read(e, sector, e->spares.buf, DCD_BLOCK, DCD_LATE);
	return r ?: memcmp(e->spares.buf, from, DCD_BLOCK) ? -EBADMSG : 0;
}

/* To a spare that is good; what isn't is known in @m. */
static int move_one(struct dcd_engine *e, struct dcd_moves *m, u64 block, void *from)
{
	u32 spare = dcd_moves_spare_of(m, block), bad = 0;
	int r = -ENOSPC;

	if (spare < DCD_SPARES)
		dcd_moves_set(m, spare, DCD_SPARE_BAD);
	while (bad < BAD_SPARES) {
		spare = dcd_moves_free_one(m);
		if (spare == DCD_SPARES)
			return -ENOSPC;
		r = fill(e, spare, from);
		if (!r || r == -ENOMEM)
			break;
		dcd_moves_set(m, spare, DCD_SPARE_BAD);
		bad++;
	}
	if (!r)
		dcd_moves_set(m, spare, block);
	return r;
}

static void tell(struct dcd_engine *e, const struct bad *bad, u64 sector)
{
	const struct dcd_moves *m = &e->spares.now;
	u32 i;

	for (i = 0; i < bad->n; i++) {
		u64 block = (sector << SECTOR_SHIFT) / DCD_BLOCK + bad->at[i] / DCD_BLOCK;

		trace_dcd_moved(e, block, dcd_moves_spare_of(m, block));
		dcd_count(e, DCD_N_BLOCKS_MOVED, 1);
		pr_warn("dcd: %s: block %llu of the log %pg is bad: it is moved to a spare, of which %u are left: look after that disk\n",
			e->name, block, e->log.bdev, dcd_spares_unused(e));
	}
}

static int write_part(struct dcd_engine *e, u64 sector, u8 *buf, u32 at, u32 bytes)
{
	return dcd_disk_io(&e->log, REQ_OP_WRITE | REQ_SYNC, sector + (at >> SECTOR_SHIFT),
			   buf + at, bytes);
}

static int read_part(struct dcd_engine *e, u64 sector, u8 *buf, u32 at, u32 bytes)
{
	unsigned long patience = max_t(unsigned long, dcd_proof_patience(e, sector), DCD_LATE);
	int r = dcd_aside_read(e, sector + (at >> SECTOR_SHIFT), e->proof.buf + at, bytes,
			       patience);

	return r ?: memcmp(e->proof.buf + at, buf + at, bytes) ? -EBADMSG : 0;
}

typedef int (*try_part)(struct dcd_engine *e, u64 sector, u8 *buf, u32 at, u32 bytes);

/* Does it take anything elsewhere? One spare may be bad, too. */
static bool takes_others(struct dcd_engine *e, void *from)
{
	u32 spare = dcd_moves_free_one(&e->spares.now);

	if (spare < DCD_SPARES && !fill(e, spare, from))
		return true;
	make_table(e, &e->spares.now);
	return !write_table(e, e->spares.first);
}

/* 0: some of those that are bad, or all; or it isn't known which are, or it is all of the log. */
static int find(struct dcd_engine *e, u64 sector, u8 *buf, u32 bytes, try_part try, struct bad *bad)
{
	unsigned long until = jiffies + DCD_SPARES_TIME, took;
	u32 at, block;

	bad->n = 0;
	for (at = 0; at < bytes; at += PART) {
		u32 part = min(PART, bytes - at);

		took = jiffies;
		if (!try(e, sector, buf, at, part))
			continue;
		/* It takes a disk as long to give up a block by itself. */
		took = min(jiffies - took, DCD_SPARES_TIME);
		/* Before one block after the other is waited for: of a dead log they all fail. */
		if (try == write_part && took > HZ && !bad->n && !test_knob(dead_searched) &&
		    !takes_others(e, buf + at))
			return -EIO;
		if (time_after(jiffies + BLOCKS * took, until) && !test_knob(spares_hurry))
			until = jiffies + BLOCKS * took;
		for (block = at; block < at + part; block += DCD_BLOCK) {
			int r = try(e, sector, buf, block, DCD_BLOCK);

			if (!r)
				continue;
			if (r == -ENOMEM || r == -ETIME || bad->n == DCD_SPARES_AT_ONCE)
				return r;
			bad->at[bad->n++] = block;
			/* The next try finds the next ones. */
			if (time_after(jiffies, until))
				return test_knob(spares_forget) ? r : 0;
		}
	}
	return 0;
}

/* All of them have failed, and now that the log works elsewhere: do they fail yet? */
static bool still_bad(struct dcd_engine *e, u64 sector, u8 *buf, const struct bad *bad,
		      try_part try)
{
	u32 i;

	for (i = 0; i < bad->n; i++)
		if (!try(e, sector, buf, bad->at[i], DCD_BLOCK))
			return false;
	return true;
}

static int move_all(struct dcd_engine *e, u64 sector, u8 *buf, const struct bad *bad,
		    try_part try)
{
	struct dcd_moves *m = kmemdup(&e->spares.now, sizeof(*m), GFP_NOIO);
	int r = m ? 0 : -ENOMEM;
	u32 i;

	for (i = 0; i < bad->n && !r; i++)
		r = move_one(e, m, (sector << SECTOR_SHIFT) / DCD_BLOCK + bad->at[i] / DCD_BLOCK,
			     buf + bad->at[i]);
	if (!r && !still_bad(e, sector, buf, bad, try))
		r = -EAGAIN;
	if (!r) {
		m->generation++;
		r = write_tables(e, m);
	}
	if (!r)
		r = use(e, m);
	if (!r)
		e->spares.unsure = false;
	kfree(m);
	if (!r)
		tell(e, bad, sector);
	else if (r != -EAGAIN)
		pr_err_ratelimited("dcd: %s: %u bad blocks of the log %pg can't be moved: error %d\n",
				   e->name, bad->n, e->log.bdev, r);
	return r;
}

/* True: it is worth another try. */
static bool move(struct dcd_engine *e, u64 sector, void *buf, u32 bytes, try_part try)
{
	struct bad bad;
	int r = 0;

	WRITE_ONCE(e->log_away, jiffies + 2 * DCD_SPARES_TIME);
	if (!dcd_spares_left(e) || dcd_spares_settle(e) ||
	    find(e, sector, buf, round_up(bytes, DCD_BLOCK), try, &bad))
		return false;
	if (bad.n)
		r = move_all(e, sector, buf, &bad, try);
	if (r && r != -EAGAIN)
		return false;
	WRITE_ONCE(e->log_away, jiffies);
	return true;
}

bool dcd_spares_unwritten(struct dcd_engine *e, u64 sector, void *buf, u32 bytes, int error)
{
	return error && move(e, sector, buf, bytes, write_part);
}

bool dcd_spares_unread(struct dcd_engine *e, u64 sector, void *buf, u32 bytes)
{
	return move(e, sector, buf, bytes, read_part);
}
