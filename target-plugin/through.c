// SPDX-License-Identifier: GPL-2.0-only
/*
 * A copy is written, as what the request has may be changed meanwhile, or be gone, and so that it
 * doesn't matter what memory that is.
 */
#include "through.h"

#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, through_cached, "what goes through is left in the data disk's cache");
TEST_KNOB(bool, through_over, "a write goes through to where one that was given up may still come");
TEST_KNOB(bool, through_beside, "a write goes through to where another one is on its way");
TEST_KNOB(bool, through_passes, "who comes passes those that wait for the same sectors");
TEST_KNOB(bool, through_unplaced, "zeroes have a place among others only when their sectors are free, too");
TEST_KNOB(bool, through_unread, "what was given up, and may come yet, holds no read");
TEST_KNOB(bool, zeroes_fail, "what goes through and can't be zeroed isn't written either");
TEST_KNOB(bool, through_floods, "any number of zeroings go through at a time");
TEST_KNOB(bool, through_alike, "a discard that was given up is taken for the zeroes that wait for it");
TEST_KNOB(bool, through_parts, "a discard that goes through leaves parts of the disk's granules to the disk");
TEST_KNOB(bool, through_fills, "a discard that goes through takes the space that it is to free");
TEST_KNOB(bool, through_stays, "what goes through waits for the data disk, as long as that takes");

/*
 * Its own memory: a request may be on its owner's stack, and is gone when it is answered. @rq:
 * NULL when it was given up, which isn't done while it is @copied; what is parked has its own.
 * @placed: zeroes that are one of the @zeroings. All but the last three are the engine's lock's.
 */
struct through {
	struct list_head list;
	struct work_struct work;
	struct dcd_engine *e;
	struct dcd_request *rq;
	bool copied, placed;
	enum dcd_op op;
	sector_t sector, sectors;
};

static blk_opf_t durable(void)
{
	return test_knob(through_cached) ? 0 : REQ_FUA;
}

/* False: nobody wants it any more. */
static bool copy(struct through *t, void *buf, size_t bytes, size_t done)
{
	struct dcd_engine *e = t->e;
	struct dcd_request *rq;

	spin_lock(&e->lock);
	rq = t->rq;
	t->copied = !!rq;
	spin_unlock(&e->lock);
	if (!rq)
		return false;
	sg_pcopy_to_buffer(rq->sgl, rq->nents, buf, bytes, rq->skip + done);
	spin_lock(&e->lock);
	t->copied = false;
	spin_unlock(&e->lock);
	return true;
}

static bool is_wanted(struct through *t)
{
	bool yes;

	spin_lock(&t->e->lock);
	yes = t->rq;
	spin_unlock(&t->e->lock);
	return yes;
}

/* @zeroes: these, else what the request has. */
static int write_data(struct through *t, bool zeroes)
{
	size_t bytes = (size_t)t->sectors << SECTOR_SHIFT, done = 0;
	size_t most = min_t(size_t, bytes, DCD_IO_MAX);
	void *buf = zeroes ? kvzalloc(most, GFP_NOIO) : kvmalloc(most, GFP_NOIO);
	int r = buf ? 0 : -ENOMEM;

	while (!r && done < bytes) {
		size_t n = min(most, bytes - done);

		if (zeroes ? !is_wanted(t) : !copy(t, buf, n, done)) {
			r = -EAGAIN;
			break;
		}
		r = dcd_disk_io(&t->e->data, REQ_OP_WRITE | REQ_SYNC | durable(),
				t->sector + (done >> SECTOR_SHIFT), buf, n);
		done += n;
	}
	kvfree(buf);
	return r;
}

/* A disk may leave what is no whole granule of its own as it is, and say nothing. */
static int discard_data(struct through *t)
{
	u64 from = t->sector, end = t->sector + t->sectors, first = from, last = end;
	int r;

	if (!test_knob(through_parts) && !dcd_discard_cut(t->e, &first, &last))
		return dcd_zero_disk(t->e, from, end - from);
	r = dcd_discard_disk(t->e, first, last - first);
	if (!r && first > from)
		r = dcd_zero_disk(t->e, from, first - from);
	if (!r && last < end)
		r = dcd_zero_disk(t->e, last, end - last);
	return r;
}

/* A disk that has a command for it, and fails that, may take writes all the same. */
static int zero_data(struct through *t)
{
	unsigned long began = jiffies;
	int r;

	if (dcd_zeroing_rests(t->e))
		return write_data(t, true);
	if (t->op == DCD_DISCARD && dcd_discards(t->e) && !test_knob(through_fills) &&
	    !discard_data(t))
		return dcd_disk_flush(&t->e->data);
	r = dcd_zero_disk(t->e, t->sector, t->sectors);
	if (r && r != -ENOMEM && !test_knob(zeroes_fail)) {
		dcd_zeroing_failed(t->e, jiffies - began);
		return write_data(t, true);
	}
	return r ?: dcd_disk_flush(&t->e->data);
}

/* Some of it was LOST, perhaps. */
static int is_found(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t sector = rq->sector, last = rq->sector + rq->sectors - 1, end;
	int r = 0;

	if (!READ_ONCE(e->lost.n))
		return 0;
	mutex_lock(&e->intake);
	for (; !r && sector <= last; sector = end + 1) {
		end = dcd_index_reach(e, sector, last);
		r = dcd_index_erase(e, sector, end);
	}
	mutex_unlock(&e->intake);
	return r;
}

static void answer(struct dcd_engine *e, struct dcd_request *rq, int error)
{
	if (!error && rq->op != DCD_FLUSH)
		error = is_found(e, rq);
	dcd_answer(e, rq, error && error != -ENOMEM ? -EIO : error);
}

static void tell(struct dcd_engine *e, int error)
{
	bool failing = error && error != -ENOMEM, news;

	if (failing)
		dcd_count(e, DCD_N_DATA_ERRORS, 1);
	spin_lock(&e->lock);
	news = e->data_failing != failing;
	e->data_failing = failing;
	spin_unlock(&e->lock);
	if (news && failing)
		pr_err("dcd: %s: the data disk %pg doesn't take a write: error %d\n", e->name,
		       e->data.bdev, error);
}

static bool is_zeroing(enum dcd_op op)
{
	return op == DCD_WRITE_ZEROES || op == DCD_DISCARD;
}

/*
 * Has the data disk got by it what this one, which has waited for it, is for? Zeroes aren't what a
 * discard has left, which may be anything.
 */
static bool did(const struct through *t, const struct dcd_request *rq)
{
	bool same = is_zeroing(t->op) &&
		    (rq->op == DCD_DISCARD ||
		     (is_zeroing(rq->op) && (t->op != DCD_DISCARD || test_knob(through_alike))));

	return same && rq->sector >= t->sector &&
	       rq->sector + rq->sectors <= t->sector + t->sectors;
}

static bool overlaps(const struct through *a, const struct through *b)
{
	return a->sector < b->sector + b->sectors && b->sector < a->sector + a->sectors;
}

static void end_place(struct through *t)
{
	t->e->throughs.zeroings -= t->placed;
	t->placed = false;
}

/* Does it wait for the data disk, or for who is there, as what comes later has to? */
static bool has_turn(const struct through *t)
{
	return t->op != DCD_READ && (!is_zeroing(t->op) || t->placed);
}

/*
 * Is nothing on its way to these sectors? Even if it hasn't been given up yet: it may be, and it
 * must not get there after what was answered; a read waits for what was given up only. And those
 * that have waited for them for longer come first, or they would wait without end where there are
 * always some; but for zeroes that have no place, as that may take long. Needs the engine's lock.
 */
static bool is_free(const struct through *t)
{
	const struct dcd_throughs *all = &t->e->throughs;
	bool writes = t->op != DCD_READ && !test_knob(through_beside);
	const struct through *other;

	lockdep_assert_held(&t->e->lock);
	if (test_knob(through_over))
		return true;
	list_for_each_entry(other, &all->begun, list)
		if (overlaps(other, t) && (!other->rq || writes))
			return false;
	list_for_each_entry(other, &all->parked, list) {
		if (other == t || t->op == DCD_READ || test_knob(through_passes))
			break;
		if (overlaps(other, t) && has_turn(other))
			return false;
	}
	return true;
}

/*
 * Zeroes may take long, so that the data disk's queue would be full of them. Who has a place keeps
 * it while he waits for his sectors. Needs the engine's lock.
 */
static void take_place(struct through *t)
{
	unsigned int *zeroings = &t->e->throughs.zeroings;

	if (t->placed || !is_zeroing(t->op) ||
	    (*zeroings >= DCD_THROUGH_ZEROINGS && !test_knob(through_floods)) ||
	    (test_knob(through_unplaced) && !is_free(t)))
		return;
	t->placed = true;
	(*zeroings)++;
}

static bool is_held(const struct through *t)
{
	if (t->op == DCD_READ)
		return !is_free(t);
	return !has_turn(t) || t->e->throughs.given_up >= DCD_THROUGH_MOST || !is_free(t);
}

/* Needs the engine's lock. */
static void begin(struct through *t)
{
	if (t->op == DCD_READ)
		list_del_init(&t->list);
	else
		list_move_tail(&t->list, &t->e->throughs.begun);
	queue_work(t->e->io_wq, &t->work);
}

/*
 * Those that nothing holds any more begin; or, when @done was given up and has come to the data
 * disk in the end, they go to @answered, as that has done what they are for. Needs the engine's
 * lock.
 */
static void let_in(struct dcd_engine *e, const struct through *done, struct list_head *answered)
{
	struct through *t, *next;

	list_for_each_entry_safe(t, next, &e->throughs.parked, list) {
		take_place(t);
		if (done && did(done, t->rq) && is_free(t)) {
			end_place(t);
			list_move_tail(&t->list, answered);
		} else if (!is_held(t)) {
			begin(t);
		}
	}
}

/* It has returned; who is parked may have waited for it. */
static void end(struct through *t, int error)
{
	struct dcd_engine *e = t->e;
	struct through *other, *next;
	struct dcd_request *own;
	LIST_HEAD(answered);

	spin_lock(&e->lock);
	list_del(&t->list);
	own = t->rq;
	e->throughs.given_up -= !own;
	end_place(t);
	let_in(e, own || error ? NULL : t, &answered);
	spin_unlock(&e->lock);
	list_for_each_entry_safe(other, next, &answered, list) {
		answer(e, other->rq, 0);
		kfree(other);
	}
	if (own)
		answer(e, own, error);
	else
		wake_up_all(&e->quiet);	/* this work is waited for before the engine goes */
}

static int go_through(struct through *t)
{
	struct dcd_engine *e = t->e;
	int r;

	if (!is_wanted(t))
		return -EAGAIN;
	dcd_count(e, DCD_N_THROUGH, 1);
	switch (t->op) {
	case DCD_FLUSH:
		r = dcd_disk_flush(&e->data);
		break;
	case DCD_WRITE:
		r = write_data(t, false);
		break;
	default:
		r = zero_data(t);
		break;
	}
	if (r != -EAGAIN)
		tell(e, r);
	return r;
}

static void work_on(struct work_struct *work)
{
	struct through *t = container_of(work, struct through, work);

	if (t->op == DCD_READ)
		dcd_read(t->e, t->rq);
	else
		end(t, go_through(t));
	kfree(t);
}

/* NULL: no memory, and it has been answered. */
static struct through *through_of(struct dcd_engine *e, struct dcd_request *rq)
{
	struct through *t = kmalloc(sizeof(*t), GFP_NOIO);

	if (!t) {
		dcd_answer(e, rq, -ENOMEM);
		return NULL;
	}
	*t = (struct through){ .e = e, .rq = rq, .op = rq->op };
	if (rq->op != DCD_FLUSH) {
		t->sector = rq->sector;
		t->sectors = rq->sectors;
	}
	INIT_LIST_HEAD(&t->list);
	INIT_WORK(&t->work, work_on);
	return t;
}

void dcd_through(struct dcd_engine *e, struct dcd_request *rq)
{
	struct through *t;

	if (rq->ranges) {
		dcd_answer(e, rq, -EOPNOTSUPP);
		return;
	}
	t = through_of(e, rq);
	if (!t)
		return;
	spin_lock(&e->lock);
	take_place(t);
	if (is_held(t))
		list_add_tail(&t->list, &e->throughs.parked);
	else
		begin(t);
	spin_unlock(&e->lock);
	dcd_wait_begins(e);
}

bool dcd_through_holds_read(struct dcd_engine *e, struct dcd_request *rq)
{
	struct through *t;
	bool held;

	if (!READ_ONCE(e->throughs.given_up) || test_knob(through_unread))
		return false;
	t = through_of(e, rq);
	if (!t)
		return true;
	spin_lock(&e->lock);
	held = is_held(t);
	if (held)
		list_add_tail(&t->list, &e->throughs.parked);
	spin_unlock(&e->lock);
	if (held) {
		dcd_count(e, DCD_N_READS_PARKED, 1);
		dcd_wait_begins(e);
	} else {
		kfree(t);
	}
	return held;
}

bool dcd_throughs_over(struct dcd_engine *e, struct list_head *over)
{
	struct dcd_throughs *all = &e->throughs;
	struct through *t, *next;
	bool more = false;

	spin_lock(&e->lock);
	list_for_each_entry_safe(t, next, &all->parked, list) {
		if (!dcd_wait_over(e, t->rq))
			continue;
		list_add_tail(&t->rq->waiting, over);
		list_del(&t->list);
		end_place(t);
		kfree(t);
	}
	/* Who waited for one of those. */
	let_in(e, NULL, NULL);
	list_for_each_entry(t, &all->begun, list) {
		if (!t->rq)
			continue;
		if (t->copied || !dcd_end_wait_over(e, t->rq) || test_knob(through_stays)) {
			more = true;
			continue;
		}
		pr_warn_ratelimited("dcd: %s: the data disk %pg doesn't answer what went to sector %llu: nothing else goes there until it has\n",
				    e->name, e->data.bdev, (u64)t->sector);
		list_add_tail(&t->rq->waiting, over);
		t->rq = NULL;
		WRITE_ONCE(all->given_up, all->given_up + 1);
		dcd_count(e, DCD_N_THROUGH_GIVEN_UP, 1);
	}
	more = more || !list_empty(&all->parked);
	spin_unlock(&e->lock);
	return more;
}

bool dcd_throughs_quiet(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = !e->throughs.given_up;
	spin_unlock(&e->lock);
	return yes;
}

void dcd_throughs_init(struct dcd_engine *e)
{
	INIT_LIST_HEAD(&e->throughs.begun);
	INIT_LIST_HEAD(&e->throughs.parked);
}
