// SPDX-License-Identifier: GPL-2.0-only
/*
 * Witnesses: a few of the blocks that were brought to the data disk last are written down, with
 * their checksums, in each superblock. A disk that has others there isn't the data disk, or it
 * is an older copy of it, and what the log has would spoil it.
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
 * Most of what is brought there may be the same few blocks, again and again, as a journal's, and
 * those tell nothing when they are live once more. So they have only half of the places, and the
 * others are of blocks that weren't brought before (brought.h): the last ones, and such as have
 * ages: who stays the same for 2^i batches of those gets on to the next age, so that some are
 * younger than most copies of the disk.
 *
 * The destager's, and who opens. They are kept in @super.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "batch.h"
#include "lockstep-test.h"
#include "opening.h"

#define EACH_BATCH	4U		/* latest ones, and as many as there are empty places */
#define NEW_EACH_BATCH	2U		/* likewise */
#define MOST		(DCD_BLOCK >> SECTOR_SHIFT)	/* sectors of one */

TEST_KNOB(bool, witnesses_stay, "refused writes go past a dead log over what its superblock names");
TEST_KNOB(bool, asks_once, "a witness that fails once says nothing");
TEST_KNOB(bool, hot_hide, "what is written again and again is all that the witnesses are of");
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
}

/* What the disk has of these sectors now is another thing. */
static void over(struct dcd_super *s, const struct dcd_place *p)
{
	struct dcd_witnessed w;
	u32 i;

	for (i = 0; i < DCD_WITNESSES; i++)
		if (dcd_witness_of(s, i, &w) && w.sector <= p->last &&
		    w.sector + w.sectors > p->sector)
			dcd_witness_set(s, i, NULL);
}

void dcd_witness_over(struct dcd_engine *e, const struct dcd_place *p)
{
	over(&e->super, p);
}

static u32 next_of(const struct dcd_engine *e, enum dcd_witness_kind kind)
{
	return e->witnessed[kind] % dcd_witness_places(kind);
}

u32 dcd_witness_next(const struct dcd_engine *e)
{
	return next_of(e, DCD_WITNESS_LATEST);
}

/* Of this kind, so many places have no witness; the first of them, or the oldest one's. */
static u32 empty(const struct dcd_engine *e, enum dcd_witness_kind kind, u32 *place)
{
	u32 first = dcd_witness_first(kind), i, n = 0;
	struct dcd_witnessed w;

	*place = first + next_of(e, kind);
	for (i = first + dcd_witness_places(kind); i-- > first;) {
		if (dcd_witness_of(&e->super, i, &w))
			continue;
		*place = i;
		n++;
	}
	return n;
}

static void add(struct dcd_engine *e, enum dcd_witness_kind kind, const struct dcd_load *l,
		struct dcd_witnessed *w)
{
	u32 place;

	w->sector = l->place.sector;
	w->sectors = min(dcd_place_sectors(&l->place), MOST);
	w->crc = dcd_crc(l->buf, w->sectors << SECTOR_SHIFT);
	if (!empty(e, kind, &place))
		e->witnessed[kind]++;
	dcd_witness_set(&e->super, place, w);
}

/* One more batch: those that were as old as the next age get there, and the youngest is @w. */
static void grow_older(struct dcd_engine *e, const struct dcd_witnessed *w)
{
	u32 first = dcd_witness_first(DCD_WITNESS_AGES);
	u32 most = dcd_witness_places(DCD_WITNESS_AGES) - 1;
	u32 age = __ffs(++e->witnessed[DCD_WITNESS_AGES] | BIT(most));
	struct dcd_witnessed younger;

	for (; age; age--)
		if (dcd_witness_of(&e->super, first + age - 1, &younger))
			dcd_witness_set(&e->super, first + age, &younger);
	dcd_witness_set(&e->super, first, w);
}

/* Can it be one of this kind? */
static bool can_be(const struct dcd_engine *e, enum dcd_witness_kind kind,
		   const struct dcd_load *l)
{
	return l->there && l->kind == DCD_LOAD_DATA &&
	       (kind == DCD_WITNESS_LATEST ||
		!dcd_brought_has(&e->brought, l->place.sector / MOST));
}

/* Some of the batch, from all over it; how many, of which @any is one. */
static unsigned int add_some(struct dcd_engine *e, enum dcd_witness_kind kind,
			     const struct dcd_batch *b, struct dcd_witnessed *any)
{
	unsigned int most = kind == DCD_WITNESS_NEW ? NEW_EACH_BATCH : EACH_BATCH;
	unsigned int i, n = 0, step, added = 0;
	struct dcd_witnessed w;
	u32 place;

	for (i = 0; i < b->n; i++)
		n += can_be(e, kind, b->loads + i);
	most = max(empty(e, kind, &place), most);
	step = max(DIV_ROUND_UP(n, most), 1U);
	for (i = 0, n = 0; i < b->n; i++) {
		if (!can_be(e, kind, b->loads + i) || n++ % step)
			continue;
		add(e, kind, b->loads + i, &w);
		if (!added || added == e->witnessed[DCD_WITNESS_AGES] % most)
			*any = w;
		added++;
	}
	return added;
}

static void note_brought(struct dcd_engine *e, const struct dcd_load *l)
{
	u64 block;

	for (block = l->place.sector / MOST; block <= l->place.last / MOST; block++)
		dcd_brought_add(&e->brought, block);
}

void dcd_witness_batch(struct dcd_engine *e, const struct dcd_batch *b)
{
	struct dcd_witnessed any;
	unsigned int i;

	mutex_lock(&e->super_lock);
	for (i = 0; i < b->n; i++)
		if (b->loads[i].there)
			over(&e->super, &b->loads[i].place);
	add_some(e, DCD_WITNESS_LATEST, b, &any);
	if (!test_knob(hot_hide) && add_some(e, DCD_WITNESS_NEW, b, &any))
		grow_older(e, &any);
	for (i = 0; i < b->n; i++)
		if (can_be(e, DCD_WITNESS_LATEST, b->loads + i))
			note_brought(e, b->loads + i);
	mutex_unlock(&e->super_lock);
}

int dcd_witness_none(struct dcd_engine *e)
{
	unsigned int copy;
	int r = 0;

	if (test_knob(witnesses_stay))
		return 0;
	mutex_lock(&e->super_lock);
	dcd_witness_void(&e->super);
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

	for (i = 0; i < DCD_WITNESSES; i++)
		if (dcd_witness_of(&e->super, i, &a->w[a->n]) && !covered(e, &a->w[a->n]))
			a->n++;
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
	if (dcd_witnesses_deny(asked, wrong, e->keeps) && !test_knob(any_data)) {
		pr_err("dcd: %s: %u of %u blocks that the data disk had when the log %pg (uuid %pU) was used last are others on %pg: it is another disk, or an older copy, or was written to without the DCD. Nothing of the log is written there. If it is to have what is in the log for all that: dcd recover --force, once\n",
		       e->name, wrong, asked, e->log.bdev, e->super.uuid, e->data.bdev);
		r = -EMEDIUMTYPE;
	} else if (wrong) {
		pr_warn("dcd: %s: %u of %u blocks that the data disk had when the log %pg was used last are others on %pg: either that log failed then, or something else has written there\n",
			e->name, wrong, asked, e->log.bdev, e->data.bdev);
	}
	/* What this recovery has left to the data disk alone may be over some of the header's. */
	if (!r && e->keeps && past_log(e))
		dcd_header_pass(e, le64_to_cpu(e->header.applied));
	return r;
}
