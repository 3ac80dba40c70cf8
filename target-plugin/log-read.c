// SPDX-License-Identifier: GPL-2.0-only
/*
 * A range is read with the rest of its entries, into memory of its own, and what is wanted of
 * it is copied from there when its checksum was right. Of recent writes and of what was read
 * lately nothing comes this way: they are in slots, and in the cache.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "engine.h"
#include "lockstep-test.h"
#include "read.h"

TEST_KNOB(bool, read_stale, "what was read from the log is taken, whatever was written there meanwhile");

/* @from: sectors of the request before it; @to: where in its memory that is. */
struct log_read {
	struct list_head list;
	struct dcd_place place, whole;
	u32 from;
	struct dcd_gather to;
	struct dcd_io io;
	u8 *buf;
};

static size_t bytes_of(const struct dcd_place *p)
{
	return (size_t)dcd_place_sectors(p) << SECTOR_SHIFT;
}

static size_t before(const struct dcd_place *whole, const struct dcd_place *p)
{
	return (size_t)(p->at - whole->at) << SECTOR_SHIFT;
}

bool dcd_is_live(struct dcd_engine *e, u64 segment)
{
	bool yes;

	spin_lock(&e->lock);
	yes = segment >= e->tail || test_knob(read_stale);
	spin_unlock(&e->lock);
	return yes;
}

int dcd_log_read(struct dcd_engine *e, u64 sector, void *buf, size_t bytes,
		 unsigned long patience)
{
	return patience ? dcd_aside_read(e, sector, buf, bytes, patience) :
			  dcd_disk_io(&e->log, REQ_OP_READ, sector, buf, bytes);
}

int dcd_place_read(struct dcd_engine *e, const struct dcd_place *p, void *buf,
		   unsigned long patience)
{
	struct dcd_place whole;
	int r = dcd_sums_whole(e, p, &whole, patience);
	u8 *raw;

	if (r)
		return r;
	raw = kvmalloc(bytes_of(&whole), GFP_NOIO);
	if (!raw)
		return -ENOMEM;
	r = dcd_log_read(e, dcd_place_in_log(e, &whole), raw, bytes_of(&whole), patience);
	if (!dcd_is_live(e, dcd_segment_of(e, p)))
		r = -ESTALE;
	if (!r)
		r = dcd_sums_check(e, &whole, raw, patience);
	if (!r)
		memcpy(buf, raw + before(&whole, p), bytes_of(p));
	kvfree(raw);
	return r;
}

void dcd_log_reads_init(struct dcd_engine *e, struct dcd_log_reads *l)
{
	INIT_LIST_HEAD(&l->list);
	init_waitqueue_head(&l->wait);
	dcd_ios_init(&l->ios, &e->log, &l->wait);
}

int dcd_log_read_begin(struct dcd_engine *e, struct dcd_request *rq, const struct dcd_place *p)
{
	struct dcd_gather *g = &rq->gather;
	struct log_read *l = kmalloc(sizeof(*l), GFP_NOIO);
	int r = -ENOMEM;

	if (!l)
		return r;
	l->place = *p;
	l->from = g->done;
	l->to = (struct dcd_gather){ .sg = g->sg, .sg_done = g->sg_done };
	l->buf = NULL;
	r = dcd_sums_whole(e, p, &l->whole, 0);
	if (!r) {
		l->buf = kvmalloc(bytes_of(&l->whole), GFP_NOIO);
		r = l->buf ? dcd_gather_skip(g, bytes_of(p)) : -ENOMEM;
	}
	if (r) {
		kvfree(l->buf);
		kfree(l);
		return r;
	}
	list_add_tail(&l->list, &g->log_reads->list);
	dcd_io_begin(&g->log_reads->ios, &l->io, REQ_OP_READ, dcd_place_in_log(e, &l->whole),
		     l->buf, bytes_of(&l->whole));
	return 0;
}

/* What is right may stay in the cache. */
static void to_cache(struct dcd_engine *e, struct dcd_request *rq, const struct log_read *l,
		     const u8 *bytes)
{
	sector_t sector = l->place.sector, last = l->place.last;
	bool any = false;

	while (rq->gather.keep && sector <= last) {
		struct dcd_block *b = dcd_cache_take(e->cache, sector, l->place.value);
		u32 n = dcd_block_part(sector, last);

		if (!b)
			break;
		any = true;
		memcpy(page_address(b->page) + dcd_block_offset(sector), bytes, n << SECTOR_SHIFT);
		dcd_cache_put(e->cache, rq, b, sector, n);
		bytes += n << SECTOR_SHIFT;
		sector += n;
	}
	if (any)
		dcd_count(e, DCD_N_CACHE_MISSES, 1);
	else if (rq->gather.look && !rq->gather.keep)
		dcd_count(e, DCD_N_CACHE_BYPASSED, 1);
}

/* Its place was given to something else meanwhile, as it is somewhere else now. */
static void read_moved(struct dcd_engine *e, struct dcd_request *rq, struct log_read *l)
{
	int r = dcd_read_now(e, l->place.sector, dcd_place_sectors(&l->place), l->buf);

	dcd_count(e, DCD_N_LOG_MOVED, 1);
	if (!r)
		r = dcd_gather_fill(&l->to, l->buf, bytes_of(&l->place));
	if (r)
		dcd_gather_failed(&rq->gather, l->from, r);
}

static void end(struct dcd_engine *e, struct dcd_request *rq, struct log_read *l)
{
	int r = blk_status_to_errno(l->io.status);

	if (!dcd_is_live(e, dcd_segment_of(e, &l->place))) {
		r = -ESTALE;
	} else if (r) {
		dcd_count(e, DCD_N_LOG_READ_ERRORS, 1);
		dcd_proof_unread(e, dcd_segment_of(e, &l->place));
		pr_err_ratelimited("dcd: %s: can't read what is at sector %llu from the log disk %pg: error %d\n",
				   e->name, (u64)l->place.sector, e->log.bdev, r);
	} else {
		r = dcd_sums_check(e, &l->whole, l->buf, 0);
	}
	if (r == -ESTALE) {
		read_moved(e, rq, l);
		return;
	}
	if (!r)
		r = dcd_gather_fill(&l->to, l->buf + before(&l->whole, &l->place),
				    bytes_of(&l->place));
	if (!r)
		to_cache(e, rq, l, l->buf + before(&l->whole, &l->place));
	else
		dcd_gather_failed(&rq->gather, l->from, r);
	if (r == -EBADMSG)
		dcd_destage_kick(e);
}

/* One has been answered; with the lock of @wait. */
static int answered(wait_queue_entry_t *entry, unsigned int mode, int sync, void *key)
{
	struct dcd_log_reads *l = container_of(entry, struct dcd_log_reads, entry);

	if (atomic_read(&l->ios.in_flight))
		return 0;
	list_del_init(&entry->entry);
	queue_work(l->wq, l->call);	/* whose dcd_log_reads_end() waits until we let go */
	return 1;
}

void dcd_log_reads_call(struct dcd_engine *e, struct dcd_log_reads *l, struct work_struct *call)
{
	init_waitqueue_func_entry(&l->entry, answered);
	l->wq = e->io_wq;
	l->call = call;
	spin_lock_irq(&l->wait.lock);
	__add_wait_queue(&l->wait, &l->entry);
	answered(&l->entry, 0, 0, NULL);
	spin_unlock_irq(&l->wait.lock);
}

void dcd_log_reads_end(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_log_reads *all = rq->gather.log_reads;
	struct log_read *l, *next;

	dcd_ios_wait(&all->ios, 0);
	list_for_each_entry_safe(l, next, &all->list, list) {
		end(e, rq, l);
		kvfree(l->buf);
		kfree(l);
	}
}
