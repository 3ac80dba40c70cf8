// SPDX-License-Identifier: GPL-2.0-only
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "engine.h"
#include "lockstep-test.h"
#include "opening.h"

#define SECTORS (DCD_BLOCK >> SECTOR_SHIFT)	/* of a block */
#define TRIES	6U	/* of what fails at once; */
#define OTHERS	4U	/* before each of them so many of each copy of the superblock */
#define PLACES	4U	/* of the data disk, all over it */

TEST_KNOB(bool, data_once, "what the data disk doesn't give at once an open does without");
TEST_KNOB(bool, mute_is_right, "a log is used though nothing of its data disk can be read");
TEST_KNOB(bool, opens_late, "an open asks for each bad sector by itself, and for all of them anew each time");
TEST_KNOB(bool, opens_blind, "an open past a log that is away for a moment is refused");
TEST_KNOB(bool, opens_once, "an open takes for lost what the log doesn't give at once");

/* What is known of a sector of the segment that is read. */
enum { GIVEN, UNREAD, BAD };

int dcd_opening_begin(struct dcd_engine *e, struct dcd_opening *o)
{
	unsigned int n = e->segment_bytes >> SECTOR_SHIFT;

	xa_init(&o->bad);
	o->copies = BIT(0) | BIT(1);
	o->state = kvzalloc(n, GFP_KERNEL);
	o->ios = kvcalloc(n, sizeof(*o->ios), GFP_KERNEL);
	return o->state && o->ios ? 0 : -ENOMEM;
}

void dcd_opening_end(struct dcd_opening *o)
{
	xa_destroy(&o->bad);
	kvfree(o->state);
	kvfree(o->ios);
}

static unsigned long known(const struct dcd_opening *o, u64 block)
{
	void *entry = xa_load((struct xarray *)&o->bad, block);

	return entry ? xa_to_value(entry) : 0;
}

static int remember(struct dcd_opening *o, u64 sector)
{
	unsigned long bits = known(o, sector / SECTORS) | BIT(sector % SECTORS);

	if (test_knob(opens_late))
		return 0;
	return xa_err(xa_store(&o->bad, sector / SECTORS, xa_mk_value(bits), GFP_KERNEL));
}

static int give_up(struct dcd_engine *e, struct dcd_opening *o, const char *why)
{
	if (!o->over)
		pr_err("dcd: %s: the log %pg doesn't give all that it has, and %s: that isn't a bad place, so the DCD isn't opened: copy that log to a good disk (ddrescue), and use that; or `dcd recover` brings what log and NVRAM have to the data disk\n",
		       e->name, e->log.bdev, why);
	o->over = true;
	return -EIO;
}

/* What it is known to have: forgets copies that it doesn't give each time. */
static bool gives_others(struct dcd_engine *e, struct dcd_opening *o, unsigned int times)
{
	u8 *buf = kmalloc(DCD_BLOCK, GFP_KERNEL);
	unsigned int i, copy;

	for (i = 0; buf && i < times; i++)
		for_each_set_bit(copy, &o->copies, 2)
			if (dcd_disk_io(&e->log, REQ_OP_READ, copy * SECTORS, buf, DCD_BLOCK))
				__clear_bit(copy, &o->copies);
	kfree(buf);
	return !buf || o->copies;
}

/* Something has failed since @began. False: at once. */
static bool took_long(struct dcd_opening *o, unsigned long began)
{
	unsigned long took = jiffies - began;

	if (took < DCD_LATE)
		return false;
	o->spent += took;
	return true;
}

/*
 * Does it give its superblock? A path that breaks lets what is under way wait before that fails,
 * refuses what comes next at once, and may be whole a moment later.
 */
static bool is_there(struct dcd_engine *e, struct dcd_opening *o)
{
	u8 *buf = kmalloc(DCD_BLOCK, GFP_KERNEL);
	unsigned long until = jiffies + DCD_BLIP;
	unsigned int i;
	int r = 0;

	for (i = 0; buf; i++) {
		r = dcd_disk_io(&e->log, REQ_OP_READ, o->copy * SECTORS, buf, DCD_BLOCK);
		if (!r) {
			o->copies = BIT(0) | BIT(1);
			break;
		}
		o->copy ^= 1;
		if (i && (time_after(jiffies, until) || test_knob(opens_blind)))
			break;
		msleep(i * 20);
	}
	kfree(buf);
	return !r;
}

/* Some of what took long has failed: is it worth to go on? */
static int go_on(struct dcd_engine *e, struct dcd_opening *o)
{
	if (test_knob(opens_late))
		return 0;
	if (!is_there(e, o))
		return give_up(e, o, "doesn't give its superblock any more");
	return o->spent < DCD_OPENING_TIME ? 0 :
	       give_up(e, o, "that has taken five minutes by now");
}

/*
 * The parts of so many @sectors of which nothing is GIVEN or BAD, all at a time, and none merged
 * with another one, as they would fail together. How many failed; -ENOMEM.
 */
static int read_parts(struct dcd_engine *e, struct dcd_opening *o, u64 start, unsigned int sectors)
{
	unsigned int i, n = e->segment_bytes >> SECTOR_SHIFT, failed = 0;
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(wait);
	bool nomem = false;
	struct dcd_ios ios;

	dcd_ios_init(&ios, &e->log, &wait);
	for (i = 0; i < n; i += sectors) {
		o->ios[i].ios = NULL;
		if (memchr_inv(o->state + i, UNREAD, sectors))
			continue;
		dcd_io_begin(&ios, &o->ios[i], REQ_OP_READ | REQ_NOMERGE, start + i,
			     e->commit_buf + ((size_t)i << SECTOR_SHIFT), sectors << SECTOR_SHIFT);
		if (test_knob(opens_late))
			dcd_ios_wait(&ios, 0);
	}
	dcd_ios_wait(&ios, 0);
	for (i = 0; i < n; i += sectors) {
		if (!o->ios[i].ios)
			continue;
		if (!o->ios[i].status)
			memset(o->state + i, GIVEN, sectors);
		else
			failed++;
		nomem = nomem || o->ios[i].status == BLK_STS_RESOURCE;
	}
	return nomem ? -ENOMEM : failed;
}

/* All parts that are UNREAD yet have taken long to fail: once more, and then never again. */
static int all_bad(struct dcd_engine *e, struct dcd_opening *o, u64 start, unsigned int sectors)
{
	unsigned int i, n = e->segment_bytes >> SECTOR_SHIFT;
	unsigned long began = jiffies;
	int r = test_knob(opens_once) ? 1 : read_parts(e, o, start, sectors);

	if (r <= 0)
		return r;
	(void)took_long(o, began);
	r = 0;
	for (i = 0; i < n && !r; i++) {
		if (o->state[i] != UNREAD)
			continue;
		o->state[i] = BAD;
		r = remember(o, start + i);
	}
	if (!r)
		o->random = !gives_others(e, o, OTHERS) && !test_knob(opens_once);
	return r ?: go_on(e, o);
}

/* How many parts aren't read yet, and may be; or as above. */
static int search(struct dcd_engine *e, struct dcd_opening *o, u64 start)
{
	unsigned int least = e->log.block >> SECTOR_SHIFT;
	unsigned long began = jiffies;
	int r;

	if (least < SECTORS && !test_knob(opens_late)) {
		r = read_parts(e, o, start, SECTORS);
		if (r < 0)
			return r;
		if (r && took_long(o, began)) {
			if (bdev_physical_block_size(e->log.bdev) >= DCD_BLOCK)
				return all_bad(e, o, start, SECTORS);
			if (go_on(e, o))
				return -EIO;
		}
	}
	began = jiffies;
	r = read_parts(e, o, start, least);
	return r > 0 && took_long(o, began) ? all_bad(e, o, start, least) : r;
}

/* As lost.c judges the log that is in use. */
static int search_again(struct dcd_engine *e, struct dcd_opening *o, u64 start)
{
	unsigned int i;
	unsigned int least = e->log.block >> SECTOR_SHIFT;
	int r = 1;

	for (i = 1; r > 0 && i < TRIES && !test_knob(opens_once); i++) {
		unsigned long began;

		o->random = !gives_others(e, o, OTHERS);
		if (o->random && !is_there(e, o) && !test_knob(opens_blind))
			return give_up(e, o, "doesn't give its superblock any more");
		msleep(4U << i);
		began = jiffies;
		r = read_parts(e, o, start, least);
		if (r > 0 && took_long(o, began))
			r = all_bad(e, o, start, least);
	}
	return min(r, 0);
}

/* Returns whether anything of it is. */
static bool what_is_known(struct dcd_engine *e, struct dcd_opening *o, u64 start)
{
	unsigned int i, n = e->segment_bytes >> SECTOR_SHIFT;
	bool any = false;

	for (i = 0; i < n; i++) {
		bool bad = known(o, (start + i) / SECTORS) & BIT((start + i) % SECTORS);

		o->state[i] = bad ? BAD : UNREAD;
		any = any || bad;
	}
	return any;
}

int dcd_opening_segment(struct dcd_engine *e, struct dcd_opening *o, u64 sequence)
{
	unsigned int i, n = e->segment_bytes >> SECTOR_SHIFT;
	u64 start = dcd_segment_sector(e, sequence);
	unsigned long began = jiffies;
	int error = -EIO, r;

	o->random = false;
	if (!what_is_known(e, o, start)) {
		error = dcd_disk_io(&e->log, REQ_OP_READ, start, e->commit_buf, e->segment_bytes);
		if (!error || error == -ENOMEM)
			return error;
		if (took_long(o, began) && go_on(e, o))
			return -EIO;
	}
	r = search(e, o, start);
	if (r > 0)
		r = search_again(e, o, start);
	if (r)
		return r;
	for (i = 0, r = 0; i < n; i++) {
		if (o->state[i] == GIVEN)
			continue;
		memset(e->commit_buf + ((size_t)i << SECTOR_SHIFT), 0, SECTOR_SIZE);
		r = error;
	}
	return r;
}

int dcd_opening_header(struct dcd_engine *e, struct dcd_opening *o, u64 sequence)
{
	u64 sector = dcd_segment_sector(e, sequence);
	unsigned long began = jiffies;
	int r, error;

	if (known(o, sector / SECTORS) & BIT(sector % SECTORS))
		return -EIO;
	error = dcd_disk_io(&e->log, REQ_OP_READ, sector, e->commit_buf, e->log.block);
	/* It may be away for a moment. */
	if (error && time_before(jiffies, began + DCD_LATE) && !gives_others(e, o, 1) &&
	    is_there(e, o) && !test_knob(opens_blind))
		error = dcd_disk_io(&e->log, REQ_OP_READ, sector, e->commit_buf, e->log.block);
	if (!error || !took_long(o, began)) {
		o->headers = 0;
		return error;
	}
	r = remember(o, sector) ?: go_on(e, o);
	if (!r && ++o->headers == DCD_OPENING_HEADERS && !test_knob(opens_late))
		r = give_up(e, o, "doesn't give anything of many places in a row");
	return r ?: error;
}

void dcd_opening_written(struct dcd_engine *e, struct dcd_opening *o, u64 sequence)
{
	u64 at = dcd_segment_sector(e, sequence) / SECTORS;
	u64 end = at + e->segment_bytes / DCD_BLOCK;

	for (; at < end; at++)
		xa_erase(&o->bad, at);
}

unsigned int dcd_opening_parts_once(struct dcd_engine *e, u64 sector, void *buf, size_t bytes)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(wait);
	struct dcd_io io[DCD_PARTS];
	unsigned int i, bad = 0;
	struct dcd_ios ios;

	dcd_ios_init(&ios, &e->data, &wait);
	for (i = 0; i < DCD_PARTS; i++)
		dcd_io_begin(&ios, &io[i], REQ_OP_READ | REQ_NOMERGE,
			     sector + i * (bytes >> SECTOR_SHIFT), buf + i * bytes, bytes);
	dcd_ios_wait(&ios, 0);
	for (i = 0; i < DCD_PARTS; i++) {
		if (!io[i].status)
			continue;
		memset(buf + i * bytes, 0, bytes);
		bad++;
	}
	return bad;
}

unsigned int dcd_opening_parts(struct dcd_engine *e, u64 sector, void *buf, size_t bytes)
{
	unsigned long until = jiffies + DCD_BLIP_READS;
	unsigned int bad = dcd_opening_parts_once(e, sector, buf, bytes), i;

	for (i = 0; bad == DCD_PARTS && !test_knob(data_once); i++) {
		if (i && time_after(jiffies, until))
			break;
		msleep(50);
		bad = dcd_opening_parts_once(e, sector, buf, bytes);
	}
	return bad;
}

bool dcd_opening_gives(struct dcd_engine *e)
{
	u64 part = round_down(e->data.sectors / PLACES, SECTORS);
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(wait);
	u8 *buf = kmalloc(DCD_BLOCK, GFP_KERNEL);
	bool yes = test_knob(mute_is_right);
	struct dcd_io io[PLACES];
	struct dcd_ios ios;
	unsigned int i;

	/* All into the same memory, as nobody wants what is there. */
	dcd_ios_init(&ios, &e->data, &wait);
	for (i = 0; buf && i < PLACES; i++)
		dcd_io_begin(&ios, &io[i], REQ_OP_READ | REQ_NOMERGE, i * part, buf, DCD_BLOCK);
	dcd_ios_wait(&ios, 0);
	for (i = 0; buf && i < PLACES; i++)
		yes = yes || !io[i].status;
	kfree(buf);
	if (!yes)
		pr_err("dcd: %s: nothing of the data disk %pg can be read, so it isn't known whether that is what the log %pg belongs to: the DCD isn't opened; try again when it can be read\n",
		       e->name, e->data.bdev, e->log.bdev);
	return yes;
}
