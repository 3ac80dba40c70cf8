// SPDX-License-Identifier: GPL-2.0-only
/*
 * Witnesses: a few of the blocks that were brought to the data disk (witness-pool.h) are written
 * down, with their checksums, in each superblock. A disk that has others there isn't the data disk,
 * or it is an older copy of it, and what the log has would spoil it.
 *
 * At every moment the superblock that counts is true for the disk, wherever no live entry is over a
 * witness. For what comes to the data disk after it was written was live then, in a
 * segment from its tail on, or came later; so it is live for whoever opens the log with that
 * superblock. What came there before has been here, before the index forgot it. Only past a
 * dead log that isn't so: an NVRAM header (or what stands for it: beyond.h) that says more than
 * the superblock makes its witnesses void. The header has its own then, as they are here when it
 * is written, and the same is true of it: what it doesn't say is live. Where every write is
 * acknowledged by the log alone, those that it hasn't got, and that were refused, go to the data
 * disk only when the superblock has no witnesses any more.
 *
 * The destager's, and who opens.
 */
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "batch.h"
#include "leg.h"
#include "lockstep-test.h"
#include "opening.h"

#define DATA_EACH_BATCH		32
#define ZEROES_EACH_BATCH	8
#define MOST		(DCD_BLOCK >> SECTOR_SHIFT)	/* sectors of one */

TEST_KNOB(bool, witnesses_stay, "refused writes go past a dead log over what its superblock names");
TEST_KNOB(bool, asks_once, "a witness that fails once says nothing");
TEST_KNOB(bool, hot_hide, "the witnesses are of the last batch only");
TEST_KNOB(bool, leg_is_one, "what may be a mirror's superblock is a witness, too");
TEST_KNOB(bool, in_turn, "an open asks the data disk for one witness after the other");
TEST_KNOB(bool, any_data, "any data disk of the right size is taken for the right one");

/* Does the header say what the superblock doesn't? */
static bool past_log(const struct dcd_engine *e)
{
	return le64_to_cpu(e->header.applied) > le64_to_cpu(e->super.applied);
}

void dcd_witness_begin(struct dcd_engine *e)
{
	if (past_log(e))
		dcd_witness_passed(&e->super, &e->header);
	dcd_pool_fill(&e->pool, &e->super);
}

void dcd_witness_over(struct dcd_engine *e, const struct dcd_place *p)
{
	mutex_lock(&e->super_lock);
	dcd_pool_over(&e->pool, p->sector, p->last);
	mutex_unlock(&e->super_lock);
}

/* Any number below @most, but the same one in each run. */
static u64 drawn(const struct dcd_engine *e, u64 n, u64 most)
{
	return mul_u64_u32_shr(most, hash_64(e->pool.batch << 8 | n, 32), 32);
}

/* Is it this on the data disk now, and can be read there: zeroes, or data? */
static bool can_be(const struct dcd_engine *e, const struct dcd_load *l, bool zero)
{
	if (!l->there)
		return false;
	switch (l->kind) {
	case DCD_LOAD_DATA:
		return !zero;
	case DCD_LOAD_FILL:
	case DCD_LOAD_WIPE:
		return zero;
	case DCD_LOAD_DISCARD:
		/* Else nothing tells what it leaves. */
		return zero && e->wipes.to_zeroes;
	default:
		return false;
	}
}

static u64 blocks_of(const struct dcd_load *l)
{
	return DIV_ROUND_UP_ULL(dcd_place_sectors(&l->place), MOST);
}

static void add(struct dcd_engine *e, const struct dcd_load *l, u64 block)
{
	u64 from = block * MOST;
	struct dcd_witnessed w = { .sector = l->place.sector + from };

	w.sectors = min_t(u64, dcd_place_sectors(&l->place) - from, MOST);
	w.crc = l->kind != DCD_LOAD_DATA ? dcd_zeroes_crc(w.sectors) :
		dcd_crc(l->buf + (from << SECTOR_SHIFT), w.sectors << SECTOR_SHIFT);
	if (!dcd_leg_may_lie(&e->super, e->data.sectors, w.sector, w.sector + w.sectors - 1) ||
	    test_knob(leg_is_one))
		dcd_pool_add(&e->pool, &w);
}

/*
 * @most blocks at most, one of each so many, and not the same one of each: the first blocks of all
 * that is written at a time may be what is written again soon.
 */
static void add_some(struct dcd_engine *e, const struct dcd_batch *b, bool zero, u32 most)
{
	u64 all = 0, each, at = 0, next, n = 0;
	unsigned int i;

	for (i = 0; i < b->n; i++)
		if (can_be(e, b->loads + i, zero))
			all += blocks_of(b->loads + i);
	each = max(DIV_ROUND_UP_ULL(all, most), 1ULL);
	next = drawn(e, n, each);
	for (i = 0; i < b->n; i++) {
		const struct dcd_load *l = b->loads + i;

		if (!can_be(e, l, zero))
			continue;
		for (; next < at + blocks_of(l); next = n * each + drawn(e, n, each)) {
			add(e, l, next - at);
			n++;
		}
		at += blocks_of(l);
	}
}

/* The loads are in the order of their places. */
static bool is_brought(const struct dcd_witnessed *w, const void *what)
{
	const struct dcd_batch *b = what;
	u64 last = w->sector + w->sectors - 1;
	unsigned int i = 0, end = b->n;

	while (i < end) {
		unsigned int at = i + (end - i) / 2;

		if (b->loads[at].place.last < w->sector)
			i = at + 1;
		else
			end = at;
	}
	for (; i < b->n && b->loads[i].place.sector <= last; i++)
		if (b->loads[i].there)
			return true;
	return false;
}

void dcd_witness_batch(struct dcd_engine *e, const struct dcd_batch *b)
{
	bool data = false;
	unsigned int i;

	mutex_lock(&e->super_lock);
	for (i = 0; i < b->n; i++)
		data = data || can_be(e, b->loads + i, false);
	dcd_pool_drop(&e->pool, is_brought, b);
	if (test_knob(hot_hide))
		dcd_pool_empty(&e->pool);
	if (data)	/* what zeroes all of a disk makes nothing much older */
		dcd_pool_batch(&e->pool);
	add_some(e, b, false, DATA_EACH_BATCH);
	add_some(e, b, true, ZEROES_EACH_BATCH);
	mutex_unlock(&e->super_lock);
}

void dcd_witness_write(struct dcd_engine *e, struct dcd_super *s)
{
	struct dcd_witnessed w[DCD_WITNESSES];

	lockdep_assert_held(&e->super_lock);
	dcd_witness_name(s, w, dcd_pool_choose(&e->pool, w, DCD_WITNESSES));
}

void dcd_witness_write_header(struct dcd_engine *e, u64 applied)
{
	struct dcd_witnessed w[DCD_PASSED];

	lockdep_assert_held(&e->super_lock);
	dcd_witness_pass(&e->header, w, dcd_pool_choose(&e->pool, w, DCD_PASSED), applied);
}

int dcd_witness_none(struct dcd_engine *e)
{
	unsigned int copy;
	int r = 0;

	if (test_knob(witnesses_stay))
		return 0;
	mutex_lock(&e->super_lock);
	dcd_pool_empty(&e->pool);
	mutex_unlock(&e->super_lock);
	for (copy = 0; copy < 2 && !r; copy++)
		r = dcd_super_write(e, le64_to_cpu(e->super.tail), le64_to_cpu(e->super.applied));
	return r;
}

static bool covered(struct dcd_engine *e, const struct dcd_witnessed *w)
{
	sector_t last = w->sector + w->sectors - 1;
	struct dcd_place p;

	dcd_index_find(e, w->sector, last, &p);
	return p.value || p.last != last;
}

/* What the disk gives, and what it is asked for. */
struct asked {
	/* First, so that each is in one page: dm-crypt refuses parts of its sectors. */
	u8 bytes[DCD_WITNESSES][DCD_BLOCK];
	struct dcd_witnessed w[DCD_WITNESSES];
	struct dcd_io ios[DCD_WITNESSES];
	unsigned int n;
};

/*
 * All at a time, and none merged with another one: a disk that is gone may take long to fail, and
 * it takes that once. @again: those that failed. How many did.
 */
static unsigned int ask_once(struct dcd_engine *e, struct asked *a, bool again)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(wait);
	unsigned int i, failed = 0;
	struct dcd_ios ios;

	dcd_ios_init(&ios, &e->data, &wait);
	for (i = 0; i < a->n; i++) {
		if (again && !a->ios[i].status)
			continue;
		dcd_io_begin(&ios, &a->ios[i], REQ_OP_READ | REQ_NOMERGE, a->w[i].sector,
			     a->bytes[i], a->w[i].sectors << SECTOR_SHIFT);
		if (test_knob(in_turn))
			dcd_ios_wait(&ios, 0);
	}
	dcd_ios_wait(&ios, 0);
	for (i = 0; i < a->n; i++)
		failed += !!a->ios[i].status;
	return failed;
}

/*
 * What fails once is asked once more: all of them were under way when a path broke. If none is
 * given the disk may be away for a moment; -EIO: for longer.
 */
static int ask(struct dcd_engine *e, struct asked *a)
{
	unsigned long until = jiffies + DCD_BLIP_READS;
	unsigned int failed, i;

	for (i = 0; i < dcd_pool_n(&e->pool); i++) {
		const struct dcd_witnessed *w = dcd_pool_get(&e->pool, i);

		if (!covered(e, w))
			a->w[a->n++] = *w;
	}
	failed = ask_once(e, a, false);
	for (i = 0; failed && !test_knob(asks_once); i++) {
		if (i && (failed < a->n || time_after(jiffies, until)))
			break;
		msleep(50);
		failed = ask_once(e, a, true);
	}
	if (!failed || failed < a->n)
		return 0;
	if (!dcd_opening_gives(e))
		return -EIO;
	if (ask_once(e, a, true) == a->n)
		pr_warn("dcd: %s: nothing of %pg can be read by which the log %pg would know that it is its data disk\n",
			e->name, e->data.bdev, e->log.bdev);
	return 0;
}

int dcd_witness_check(struct dcd_engine *e)
{
	struct asked *a = kvzalloc(sizeof(*a), GFP_KERNEL);
	unsigned int asked = 0, wrong = 0, i;
	int r;

	if (!a)
		return -ENOMEM;
	r = ask(e, a);
	for (i = 0; !r && i < a->n; i++) {
		/* One error says nothing: a DCD serves what it can of a disk with bad places. */
		if (a->ios[i].status)
			continue;
		asked++;
		wrong += dcd_crc(a->bytes[i], a->w[i].sectors << SECTOR_SHIFT) != a->w[i].crc;
	}
	kvfree(a);
	if (wrong && !test_knob(any_data)) {
		pr_err("dcd: %s: %u of %u blocks that the data disk had when the log %pg (uuid %pU) was used last are others on %pg: it is another disk, or an older copy, or was written to without the DCD. Nothing of the log is written there. If it is to have what is in the log for all that: dcd recover --force, once\n",
		       e->name, wrong, asked, e->log.bdev, e->super.uuid, e->data.bdev);
		r = -EMEDIUMTYPE;
	}
	/* What this recovery has left to the data disk alone may be over some of the header's. */
	if (!r && e->keeps && past_log(e))
		dcd_header_pass(e, le64_to_cpu(e->header.applied));
	return r;
}
