// SPDX-License-Identifier: GPL-2.0-only
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "aside.h"
#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"

#define DEAD (2 * HZ)	/* a log that works takes a write within that time, if that is all */
#define LOOK (HZ / 4)

TEST_KNOB(bool, aside_waits, "who asks the log for something waits for it however long it takes");
TEST_KNOB(bool, late_marks, "that a log was left is told it late, whatever becomes of that");
TEST_KNOB(bool, writes_wait, "who writes to the log waits for it however long it takes");

/* @done and @left are under the engine's lock. Whoever is the second of the two frees it. */
struct aside {
	struct work_struct work;
	struct dcd_engine *e;
	blk_opf_t opf;
	u64 sector;
	size_t bytes;
	void *buf;
	int error;
	bool done, left;
};

static void free_aside(struct aside *a)
{
	kvfree(a->buf);
	kfree(a);
}

static void do_aside(struct work_struct *work)
{
	struct aside *a = container_of(work, struct aside, work);
	struct dcd_engine *e = a->e;
	unsigned long began = jiffies;
	bool left;

	a->error = dcd_disk_io(&e->log, a->opf, a->sector, a->buf, a->bytes);
	if (!op_is_write(a->opf))
		dcd_proof_read(e, a->sector, a->error, began);
	spin_lock(&e->lock);
	left = a->left;
	a->done = true;
	if (left)
		e->asides--;
	if (left && op_is_write(a->opf))
		e->late_writes--;
	wake_up_all(&e->quiet);
	spin_unlock(&e->lock);	/* the engine may be gone from here on, and @a if it wasn't left */
	if (left)
		free_aside(a);
}

/* NULL: no memory. */
static struct aside *new_aside(struct dcd_engine *e, blk_opf_t opf, u64 sector, size_t bytes)
{
	struct aside *a = kzalloc(sizeof(*a), GFP_NOIO | __GFP_NOWARN);

	if (!a)
		return NULL;
	a->buf = kvmalloc(bytes, GFP_NOIO | __GFP_NOWARN);
	if (!a->buf) {
		kfree(a);
		return NULL;
	}
	a->e = e;
	a->opf = opf;
	a->sector = sector;
	a->bytes = bytes;
	INIT_WORK(&a->work, do_aside);
	return a;
}

/* False: it has come. */
static bool leave(struct aside *a)
{
	struct dcd_engine *e = a->e;
	bool left;

	spin_lock(&e->lock);
	left = !a->done;
	a->left = left;
	if (left)
		e->asides++;
	if (left && op_is_write(a->opf))
		e->late_writes++;
	spin_unlock(&e->lock);
	return left;
}

int dcd_aside_read(struct dcd_engine *e, u64 sector, void *buf, size_t bytes,
		   unsigned long patience)
{
	struct aside *a;
	int r;

	if (test_knob(aside_waits))
		return dcd_disk_io(&e->log, REQ_OP_READ | REQ_SYNC, sector, buf, bytes);
	if (dcd_asides(e) >= DCD_ASIDE_MOST)
		return -ETIME;
	a = new_aside(e, REQ_OP_READ | REQ_SYNC, sector, bytes);
	if (!a)
		return -ENOMEM;
	queue_work(e->aside_wq, &a->work);
	if (patience)
		wait_event_timeout(e->quiet, READ_ONCE(a->done), patience);
	if (leave(a)) {
		if (patience) {
			dcd_count(e, DCD_N_LOG_READS_LATE, 1);
			trace_dcd_log_late(e, sector, 1);
		}
		return -ETIME;
	}
	r = a->error;
	if (!r)
		memcpy(buf, a->buf, bytes);
	free_aside(a);
	return r;
}

/*
 * Where it isn't needed: where NVRAM keeps what is acknowledged, and says what becomes of the log
 * itself; or to find out whether the log takes a write, before it is left. But where only the log
 * can say that it was left, that write is waited for: should it be left, and the leaving be taken
 * back, it would say so later.
 */
static bool is_over(struct dcd_engine *e, unsigned long since)
{
	bool may = e->keeps || (test_knob(late_marks) ? dcd_leaves(e) : dcd_leave_asked(e));
	bool dead = READ_ONCE(e->log_dead) || READ_ONCE(e->closing);
	unsigned long most = dead ? DEAD : DCD_ASIDE_WRITES;

	return may && time_after_eq(jiffies, since + most) && !test_knob(writes_wait);
}

void dcd_aside_wait(struct dcd_engine *e, const bool *done, unsigned long since)
{
	while (!wait_event_timeout(e->quiet, READ_ONCE(*done), LOOK) && !is_over(e, since))
		;
}

int dcd_aside_write(struct dcd_engine *e, u64 sector, void *buf, size_t bytes)
{
	const blk_opf_t opf = REQ_OP_WRITE | REQ_SYNC | REQ_PREFLUSH | REQ_FUA;
	struct aside *a;
	int r;

	if (READ_ONCE(e->late_writes))
		return -ETIME;
	a = new_aside(e, opf, sector, bytes);
	if (!a)	/* then it is waited for */
		return dcd_disk_io(&e->log, opf, sector, buf, bytes);
	memcpy(a->buf, buf, bytes);
	queue_work(e->aside_wq, &a->work);
	dcd_aside_wait(e, &a->done, jiffies);
	if (leave(a)) {
		dcd_count(e, DCD_N_LOG_WRITES_LATE, 1);
		trace_dcd_log_late(e, sector, 1);
		return -ETIME;
	}
	r = a->error;
	free_aside(a);
	return r;
}

unsigned int dcd_asides(struct dcd_engine *e)
{
	unsigned int n;

	spin_lock(&e->lock);
	n = e->asides;
	spin_unlock(&e->lock);
	return n;
}
