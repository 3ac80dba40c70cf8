// SPDX-License-Identifier: GPL-2.0-only
/*
 * Level 2: what is live of the segments below a target goes to the data disk in
 * sector order, in one walk over the index; overwritten data isn't there any
 * more. A walk that is given up (I/O arrives, an error) loses nothing: the tail
 * stays where it is, and the next walk finds less to do.
 */
#include "engine.h"

#define IDLE		(HZ / 2)	/* without writes: destage though there is room */
#define RETRY		(5 * HZ)	/* after an error */
#define PLACES		64		/* of a batch */

struct batch {
	struct dcd_place places[PLACES];
	unsigned int n;
	size_t bytes;
	sector_t next;
};

u64 dcd_ring_free(struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->segments - 1 - (e->head - e->tail);
}

static bool urgent(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = dcd_ring_free(e) < e->segments / 2 || e->log_dead;
	spin_unlock(&e->lock);
	return yes;
}

static bool idle(struct dcd_engine *e)
{
	return time_after_eq(jiffies, READ_ONCE(e->last_intake) + IDLE);
}

void dcd_destage_kick(struct dcd_engine *e)
{
	if (urgent(e))
		mod_delayed_work(e->destage_wq, &e->destage_work, 0);
	else
		queue_delayed_work(e->destage_wq, &e->destage_work, IDLE);
}

/* Adjacent ranges at and behind b->next that are to go; false: no more. */
static bool collect(struct dcd_engine *e, u64 target, struct batch *b)
{
	struct dcd_place *p = b->places;

	b->n = 0;
	b->bytes = 0;
	while (b->n < PLACES && dcd_index_next(e, b->next, p)) {
		sector_t room = (DCD_IO_MAX - b->bytes) >> SECTOR_SHIFT;

		if (b->n && p->sector != b->next)
			break;
		if (dcd_segment_of(e, p) >= target) {
			if (b->n)
				break;
			b->next = p->last + 1;
			continue;
		}
		if (p->zero) {
			if (b->n)
				break;
			b->next = p->last + 1;
			b->n = 1;
			return true;
		}
		if (!room)
			break;
		p->last = min(p->last, p->sector + room - 1);
		b->bytes += (p->last - p->sector + 1) << SECTOR_SHIFT;
		b->next = p->last + 1;
		b->n++;
		p++;
	}
	return b->n;
}

static int move(struct dcd_engine *e, struct batch *b)
{
	const struct dcd_place *p = b->places;
	size_t at = 0;
	unsigned int i;
	int r = 0;

	if (p->zero)
		return blkdev_issue_zeroout(e->data.bdev, p->sector, p->last - p->sector + 1,
					    GFP_NOIO, 0);
	for (i = 0; i < b->n && !r; i++) {
		int id = srcu_read_lock(&e->readers);

		r = dcd_place_read(e, p + i, e->destage_buf + at);
		srcu_read_unlock(&e->readers, id);
		at += (p[i].last - p[i].sector + 1) << SECTOR_SHIFT;
	}
	if (r) {
		atomic64_inc(&e->stats.log_errors);
		return r;
	}
	return dcd_disk_io(&e->data, REQ_OP_WRITE, p->sector, e->destage_buf, at);
}

static int forget(struct dcd_engine *e, struct batch *b)
{
	unsigned int i;
	int r = 0;

	mutex_lock(&e->intake);
	for (i = 0; i < b->n && !r; i++)
		r = dcd_index_erase(e, &b->places[i]);
	mutex_unlock(&e->intake);
	return r;
}

static int walk(struct dcd_engine *e, u64 target)
{
	struct batch *b = kzalloc(sizeof(*b), GFP_NOIO);
	int r = 0;

	if (!b)
		return -ENOMEM;
	while (!r && collect(e, target, b)) {
		if (READ_ONCE(e->closing) || (!urgent(e) && !idle(e))) {
			r = -EAGAIN;
			break;
		}
		r = move(e, b);
		if (!r) {
			atomic64_add(b->bytes >> SECTOR_SHIFT, &e->stats.destaged_sectors);
			r = forget(e, b);
		}
	}
	kfree(b);
	return r ?: dcd_disk_flush(&e->data);
}

/* All entries up to @applied, in segments below @target, are durable on the data disk. */
static int advance(struct dcd_engine *e, u64 target, u64 applied, bool log_dead)
{
	unsigned int i;
	int r;

	if (log_dead) {
		dcd_header_write(e, applied);
	} else {
		r = dcd_super_write(e, target, applied);
		if (r)
			return r;
	}
	synchronize_srcu_expedited(&e->readers);
	spin_lock(&e->lock);
	e->tail = target;
	for (i = 0; log_dead && i < e->nslots; i++)
		if (e->slots[i].state == DCD_SLOT_SEALED && e->slots[i].segment < target)
			e->slots[i].state = DCD_SLOT_FREE;
	if (log_dead) {
		e->committed = target;
		e->committed_entry = applied;
	}
	spin_unlock(&e->lock);
	wake_up_all(&e->room);
	return 0;
}

static void failing(struct dcd_engine *e, int error)
{
	bool news;

	spin_lock(&e->lock);
	news = !e->data_failing && error;
	e->data_failing = error;
	spin_unlock(&e->lock);
	if (news) {
		atomic64_inc(&e->stats.data_errors);
		pr_err("dcd: %s: can't destage to %pg: error %d; the data stay in the log, trying again\n",
		       e->name, e->data.bdev, error);
	}
	wake_up_all(&e->room);
}

void dcd_destage_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine,
					    destage_work);
	u64 target, tail, applied;
	bool log_dead;
	int r;

	mutex_lock(&e->intake);
	log_dead = e->log_dead;
	if (log_dead)
		dcd_seal_open(e);
	spin_lock(&e->lock);
	target = log_dead ? e->head : e->committed;
	applied = log_dead ? e->next_entry - 1 : e->committed_entry;
	tail = e->tail;
	spin_unlock(&e->lock);
	mutex_unlock(&e->intake);

	if (target == tail || (log_dead && !e->keeps) || READ_ONCE(e->closing))
		return;
	if (!urgent(e) && !idle(e)) {
		queue_delayed_work(e->destage_wq, &e->destage_work, IDLE);
		return;
	}
	r = walk(e, target);
	if (!r)
		r = advance(e, target, applied, log_dead);
	failing(e, r == -EAGAIN ? 0 : r);
	if (r)
		queue_delayed_work(e->destage_wq, &e->destage_work, r == -EAGAIN ? IDLE : RETRY);
	else
		dcd_destage_kick(e);
}
