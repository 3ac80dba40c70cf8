// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>
#include <linux/slab.h>

#include "batch.h"
#include "dcd-trace.h"
#include "lockstep-test.h"

#define TRIES		4	/* at a time; one that the disk takes doesn't count */
#define OF_RING		16	/* no more than such a part of it is stuck, */
#define FAR		4	/* and the tail is no further behind than that */
#define OF_TIME		16	/* no more than such a part is spent with trying, but */
#define SELDOM		(600 * HZ)	/* it is done so often */
#define OTHERS		3	/* places that a disk is asked for, until it takes one, */
#define BLOCK		(DCD_BLOCK >> SECTOR_SHIFT)	/* each so many sectors */

TEST_KNOB(bool, stuck_stays, "a bad place of the data disk holds the log's tail");
TEST_KNOB(bool, always_asks, "the data disk is asked, whatever it has taken meanwhile");
TEST_KNOB(bool, looks_long, "what a disk can't take is looked for however long it takes");
TEST_KNOB(bool, close_others, "a close waits until several places of the data disk were asked");
TEST_KNOB(bool, zeroes_alone, "zeroes are logged again while a wipe hangs, though nothing else is behind them");
TEST_KNOB(bool, asks_held, "the data disk is asked for a block where something may come late, too");

int dcd_stuck_init(struct dcd_engine *e)
{
	e->bad.range = kvcalloc(DCD_STUCK_RANGES, sizeof(*e->bad.range), GFP_KERNEL);
	e->bad.next = jiffies;
	e->bad.moved = jiffies - 60 * HZ;	/* it hasn't yet */
	return e->bad.range ? 0 : -ENOMEM;
}

void dcd_stuck_free(struct dcd_engine *e)
{
	kvfree(e->bad.range);
}

sector_t dcd_stuck_most(const struct dcd_engine *e)
{
	return div_u64(e->segments * (e->segment_bytes >> SECTOR_SHIFT), OF_RING);
}

/* The first one that ends at or behind @sector. */
static unsigned int at(const struct dcd_stuck *s, sector_t sector)
{
	unsigned int from = 0, end = s->n;

	while (from < end) {
		unsigned int middle = (from + end) / 2;

		if (s->range[middle].last < sector)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

bool dcd_stuck_part(const struct dcd_engine *e, struct dcd_place *p)
{
	const struct dcd_stuck *s = &e->bad;
	const struct dcd_stuck_range *r = s->range + at(s, p->sector);

	if (r == s->range + s->n || r->sector > p->last)
		return false;
	if (r->sector > p->sector) {
		p->last = r->sector - 1;
		return false;
	}
	p->last = min(p->last, r->last);
	return true;
}

/* A turn of trying: those that weren't tried for longest. */
static void begin_tries(struct dcd_stuck *s)
{
	unsigned int i;
	u32 turn = DCD_STUCK_HELD - 1;

	for (i = 0; i < s->n; i++)
		if (s->range[i].tried != DCD_STUCK_HELD)
			turn = min(turn, s->range[i].tried);
	s->turn = turn;
	s->tries = TRIES;
	s->trying = ~0ULL;
	s->next = jiffies + DCD_RETRY;
}

bool dcd_stuck_try(struct dcd_engine *e, const struct dcd_place *p)
{
	struct dcd_stuck *s = &e->bad;
	struct dcd_stuck_range *r = s->range + at(s, p->sector);

	if (r->tried == DCD_STUCK_HELD)
		return false;
	if (time_after_eq(jiffies, s->next))
		begin_tries(s);
	if (r->sector == s->trying)
		return true;
	if (!s->tries || r->tried > s->turn)
		return false;
	s->tries--;
	s->trying = r->sector;
	r->tried = s->turn + 1;
	return true;
}

bool dcd_stuck_again(struct dcd_engine *e, u64 segment)
{
	/* Behind what all that is lost, and all zeroes, take at the head there has to be more. */
	u64 n = READ_ONCE(e->lost.n) + (test_knob(zeroes_alone) ? 0 : READ_ONCE(e->zeroes));
	u64 least = div_u64(n, dcd_table_places(e)) * 3 / 2 + 2;
	u64 far = max(e->segments / FAR, min(e->segments / 2, least));
	struct dcd_stuck *s = &e->bad;
	bool yes = false;

	spin_lock(&e->lock);
	if (e->head - e->tail > far) {
		if (s->again <= e->tail || e->head - s->again > far)
			s->again = e->committed;
		yes = segment < s->again;
	}
	spin_unlock(&e->lock);
	return yes;
}

static void set_sectors(struct dcd_stuck *s, sector_t sectors)
{
	WRITE_ONCE(s->sectors, sectors);
}

static void remove(struct dcd_stuck *s, unsigned int i)
{
	set_sectors(s, s->sectors - (s->range[i].last - s->range[i].sector + 1));
	WRITE_ONCE(s->n, s->n - 1);
	memmove(s->range + i, s->range + i + 1, (s->n - i) * sizeof(*s->range));
}

/* What is held is a range by itself. */
static bool joins(const struct dcd_stuck_range *r, u32 tried)
{
	return r->tried != DCD_STUCK_HELD && tried != DCD_STUCK_HELD;
}

/* False: there is no room for it. */
static bool add(struct dcd_engine *e, sector_t sector, sector_t last, u32 tried,
		enum dcd_stuck_kind kind)
{
	struct dcd_stuck *s = &e->bad;
	unsigned int i = at(s, sector);

	if (s->sectors + (last - sector + 1) > dcd_stuck_most(e))
		return false;
	if (i && joins(&s->range[i - 1], tried) && s->range[i - 1].last + 1 == sector) {
		s->range[i - 1].last = last;
		s->range[i - 1].kind = max(s->range[i - 1].kind, kind);
	} else if (i < s->n && joins(&s->range[i], tried) && s->range[i].sector == last + 1) {
		s->range[i].sector = sector;
		s->range[i].kind = max(s->range[i].kind, kind);
	} else {
		if (s->n == DCD_STUCK_RANGES)
			return false;
		memmove(s->range + i + 1, s->range + i, (s->n - i) * sizeof(*s->range));
		s->range[i] = (struct dcd_stuck_range){ sector, last, tried, kind };
		WRITE_ONCE(s->n, s->n + 1);
	}
	set_sectors(s, s->sectors + (last - sector + 1));
	return true;
}

bool dcd_stuck_hold(struct dcd_engine *e, const struct dcd_place *p)
{
	return add(e, p->sector, p->last, DCD_STUCK_HELD, DCD_STUCK_BAD);
}

void dcd_stuck_release(struct dcd_engine *e, sector_t sector)
{
	unsigned int i = at(&e->bad, sector);

	if (i < e->bad.n && e->bad.range[i].sector == sector &&
	    e->bad.range[i].tried == DCD_STUCK_HELD)
		remove(&e->bad, i);
}

sector_t dcd_stuck_left(const struct dcd_engine *e)
{
	return e->bad.n < DCD_STUCK_RANGES ? dcd_stuck_most(e) - e->bad.sectors : 0;
}

bool dcd_stuck_held(const struct dcd_engine *e, const struct dcd_place *p)
{
	return e->bad.range[at(&e->bad, p->sector)].tried == DCD_STUCK_HELD;
}

/* @took: it took them, so it will take others of that kind. */
static bool forget(struct dcd_engine *e, const struct dcd_place *p, bool took)
{
	struct dcd_stuck *s = &e->bad;
	unsigned int i = at(s, p->sector);
	bool any = false;

	while (i < s->n && s->range[i].sector <= p->last) {
		struct dcd_stuck_range r = s->range[i];
		enum dcd_stuck_kind kind = took && p->zero ? DCD_STUCK_FILLS : r.kind;

		any = true;
		remove(s, i);
		if (r.sector < p->sector && add(e, r.sector, p->sector - 1, r.tried, kind))
			i++;
		/* One that there is no room for is found again when it is written. */
		if (r.last > p->last && add(e, p->last + 1, r.last, r.tried, kind))
			i++;
	}
	return any;
}

void dcd_stuck_forget(struct dcd_engine *e, const struct dcd_place *p)
{
	(void)forget(e, p, false);
}

void dcd_stuck_took(struct dcd_engine *e)
{
	struct dcd_stuck *s = &e->bad;

	s->tries++;
	dcd_count(e, DCD_N_BAD_MENDED, 1);
	if (s->n)
		return;
	trace_dcd_disk(e, false, 0);
	pr_info("dcd: %s: the data disk %pg has no bad place any more: it works again\n", e->name,
		e->data.bdev);
}

void dcd_stuck_mended(struct dcd_engine *e, const struct dcd_place *p)
{
	if (forget(e, p, true))
		dcd_stuck_took(e);
}

void dcd_stuck_refused(struct dcd_engine *e, const struct dcd_place *p)
{
	struct dcd_stuck *s = &e->bad;
	unsigned int i = at(s, p->sector);

	if (i < s->n && s->range[i].sector <= p->sector)
		s->range[i].kind = DCD_STUCK_BAD;
}

bool dcd_stuck_any(const struct dcd_engine *e)
{
	unsigned int i = 0;

	while (i < e->bad.n && e->bad.range[i].kind == DCD_STUCK_FILLS)
		i++;
	return i < e->bad.n;
}

void dcd_stuck_took_so_long(struct dcd_engine *e, unsigned long time)
{
	unsigned long next = jiffies + clamp(OF_TIME * time, (unsigned long)DCD_RETRY,
					     (unsigned long)SELDOM);

	if (time_before(e->bad.next, next))
		e->bad.next = next;
}

/* [@sector, @end) of it. */
static int write(struct dcd_engine *e, const struct dcd_load *l, sector_t sector, sector_t end)
{
	if (!l->buf)
		return dcd_zero_disk(e, sector, end - sector);
	return dcd_disk_io(&e->data, REQ_OP_WRITE, sector,
			   l->buf + ((sector - l->place.sector) << SECTOR_SHIFT),
			   (end - sector) << SECTOR_SHIFT);
}

/* What a disk can replace: no less than that is written, where the load has as much. */
static u32 block_sectors(const struct dcd_engine *e)
{
	return max(bdev_physical_block_size(e->data.bdev), DCD_BLOCK) >> SECTOR_SHIFT;
}

void dcd_stuck_cut(const struct dcd_engine *e, struct dcd_place *p)
{
	u32 per = block_sectors(e);

	p->last = min_t(u64, p->last, (div_u64(p->sector, per) + 1) * per - 1);
}

/* Of one block that was written by itself it is known. */
static bool is_known(const struct dcd_engine *e, const struct dcd_load *l)
{
	u32 per = block_sectors(e);

	return l->together == 1 &&
	       div_u64(l->place.sector, per) == div_u64(l->place.last, per);
}

static bool is_over(unsigned long until)
{
	return time_after_eq(jiffies, until) && !test_knob(looks_long);
}

/*
 * The sector of the load where the first block begins that can't be written, as far as that can be
 * found in time, or behind it.
 */
static sector_t first_bad(struct dcd_engine *e, const struct dcd_load *l, unsigned long until)
{
	sector_t from = l->place.sector, end = l->place.last + 1;
	u32 per = block_sectors(e);
	u64 low = div_u64(from, per), high = div_u64(end + per - 1, per);

	if (is_known(e, l) || is_over(until))
		return from;
	if (!write(e, l, from, end))
		return end;
	while (high - low > 1 && !is_over(until)) {
		u64 middle = low + (high - low) / 2;

		if (write(e, l, max_t(u64, from, low * per), middle * per))
			high = middle;
		else
			low = middle;
	}
	return max_t(u64, from, low * per);
}

/*
 * The first block from this one on of which nothing is stuck: where something may come to the disk
 * late, it could be written over by what the disk had there before; and where it is bad, it may
 * take long to say so.
 */
static sector_t not_stuck(const struct dcd_engine *e, sector_t block)
{
	const struct dcd_stuck *s = &e->bad;
	unsigned int i;

	for (i = at(s, block); i < s->n && s->range[i].sector < block + BLOCK; i++)
		if (s->range[i].tried != DCD_STUCK_HELD || !test_knob(asks_held))
			block = round_up(s->range[i].last + 1, block_sectors(e));
	return block;
}

/* @destage_buf is the destager's, as this is. */
static bool takes(struct dcd_engine *e, sector_t block)
{
	int r;

	if (dcd_disk_io(&e->data, REQ_OP_READ, block, e->destage_buf, DCD_BLOCK) ||
	    dcd_disk_io(&e->data, REQ_OP_WRITE, block, e->destage_buf, DCD_BLOCK))
		return false;
	r = dcd_disk_flush(&e->data);
	if (r)
		dcd_late_flush_failed(e);
	return !r;
}

/* Far away, and in more than one place, as that may be bad too. */
bool dcd_stuck_others(struct dcd_engine *e, sector_t sector)
{
	sector_t size = e->data.sectors, step = div_u64(size, OTHERS + 1);
	unsigned int i;

	for (i = 0; i < OTHERS; i++) {
		sector_t block;

		/* Each may take as long as the disk's driver does. */
		if (i && READ_ONCE(e->closing) && !test_knob(close_others))
			break;
		sector = sector + step < size ? sector + step : sector + step - size;
		block = min_t(sector_t, round_down(sector, block_sectors(e)), size - BLOCK);
		block = not_stuck(e, block);
		if (block + BLOCK <= size && takes(e, block))
			return true;
	}
	return false;
}

bool dcd_stuck_others_since(struct dcd_engine *e, sector_t sector, unsigned long since)
{
	return (time_after(e->bad.moved, since) && !test_knob(always_asks)) ||
	       dcd_stuck_others(e, sector);
}

void dcd_stuck_moved(struct dcd_engine *e)
{
	e->bad.moved = jiffies;
}

static void tell(struct dcd_engine *e, sector_t sector, sector_t sectors, int error)
{
	dcd_count(e, DCD_N_BAD_PLACES, 1);
	trace_dcd_disk(e, false, error);
	pr_err_ratelimited("dcd: %s: the data disk %pg doesn't take %llu sectors from %llu on: error %d; they stay in the log, trying again now and then: look after that disk\n",
			   e->name, e->data.bdev, (u64)sectors, (u64)sector, error);
}

bool dcd_stuck_add(struct dcd_engine *e, const struct dcd_place *p, int error)
{
	if (test_knob(stuck_stays) || !add(e, p->sector, p->last, e->bad.turn + 1,
					   p->zero ? DCD_STUCK_ZEROES : DCD_STUCK_BAD))
		return false;
	e->bad.trying = ~0ULL;	/* it isn't part of what is being tried now */
	if (error)
		tell(e, p->sector, p->last - p->sector + 1, error);
	return true;
}

sector_t dcd_stuck_look(struct dcd_engine *e, const struct dcd_load *l, unsigned long until)
{
	sector_t end = l->place.last + 1, begin, at;
	unsigned long began = jiffies;
	u32 per = block_sectors(e);
	int error = 0;

	begin = first_bad(e, l, until);
	at = begin;

	/* Bad blocks come in rows. */
	while (at < end && !test_knob(stuck_stays)) {
		bool over = is_over(until);
		sector_t next = over ? end : min_t(u64, end, (div_u64(at, per) + 1) * per);
		int r = over || is_known(e, l) ? l->error : write(e, l, at, next);

		if (!r || r == -ENOMEM || !add(e, at, next - 1, e->bad.turn, DCD_STUCK_BAD))
			break;
		error = r;
		at = next;
	}
	if (at > begin)
		tell(e, begin, at - begin, error);
	dcd_stuck_took_so_long(e, jiffies - began);
	return at - begin;
}

u64 dcd_stuck_room(const struct dcd_engine *e)
{
	u64 known = READ_ONCE(e->bad.sectors) << SECTOR_SHIFT;
	u64 blocks = DCD_STUCK_RANGES * DCD_BLOCK;

	/*
	 * A disk may get bad places when the ring is full: so for a block in each of them there
	 * is always room, for larger ones once they are known. Not all of a segment is payload.
	 */
	return 2 + min(div_u64(e->segments, OF_RING - 2),
		       div_u64(max(2 * known, blocks + blocks / 8), e->segment_bytes));
}
