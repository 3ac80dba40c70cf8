// SPDX-License-Identifier: GPL-2.0-only
#include "write.h"

#include <linux/mm.h>
#include <linux/slab.h>

#include "lockstep-trace.h"
#include "mirror.h"
#include "zero.h"

/* What of the caller's flags a leg is to see. */
#define LEG_FLAGS	(REQ_SYNC | REQ_META | REQ_PRIO | REQ_IDLE | REQ_FUA | \
			 REQ_PREFLUSH | REQ_BACKGROUND)

/*
 * write.state. Legs that a write wasn't sent to count as answered and returned.
 * Who sets the last ANSWERED settles; who sets the last of RETURNED and
 * FINISHED frees. After setting another bit a write isn't touched any more.
 */
#define ANSWERED(leg)	BIT(leg)
#define RETURNED(leg)	BIT(LEGS + (leg))
#define FINISHED	BIT(2 * LEGS)
#define ALL_ANSWERED	(ANSWERED(LEG_LOCAL) | ANSWERED(LEG_REMOTE))
#define ALL_RETURNED	(RETURNED(LEG_LOCAL) | RETURNED(LEG_REMOTE))

static struct kmem_cache *write_cache;

int write_module_init(void)
{
	write_cache = kmem_cache_create("lockstep_write", sizeof(struct write), 0, 0, NULL);
	return write_cache ? 0 : -ENOMEM;
}

void write_module_exit(void)
{
	kmem_cache_destroy(write_cache);
}

static void free_pages_of(struct write *w)
{
	while (w->nr_pages)
		mempool_free(w->vecs[--w->nr_pages].bv_page, &w->m->writes.pages);
}

static bool alloc_pages_of(struct write *w, gfp_t gfp)
{
	unsigned int left = write_sectors(w) << SECTOR_SHIFT;

	while (left) {
		unsigned int len = min_t(unsigned int, left, PAGE_SIZE);
		struct page *page = mempool_alloc(&w->m->writes.pages, gfp);

		if (!page) {
			free_pages_of(w);
			return false;
		}
		bvec_set_page(&w->vecs[w->nr_pages++], page, len, 0);
		left -= len;
	}
	return true;
}

static void write_free(struct write *w)
{
	free_pages_of(w);
	mempool_free(w, &w->m->writes.objects);
}

void write_finish(struct write *w, blk_status_t status)
{
	struct bio *bio = w->bio;

	if (w->kind != WRITE_FLUSH) {
		trace_lockstep_write_done(w->m, w->range.start, write_sectors(w), status);
		range_unlock(&w->m->ranges, &w->range);
	}
	if ((atomic_fetch_or(FINISHED, &w->state) & ALL_RETURNED) == ALL_RETURNED)
		write_free(w);

	/* Last: the mirror may be gone after it. */
	bio->bi_status = status;
	bio_endio(bio);
}

/* Every leg has answered; nobody else touches the write any more. */
static void write_answered(struct write *w)
{
	struct writes *ws = &w->m->writes;
	unsigned long flags;
	enum leg_id leg;

	spin_lock_irqsave(&ws->lock, flags);
	list_del(&w->flying);
	spin_unlock_irqrestore(&ws->lock, flags);

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		w->status[leg] = w->sent & BIT(leg) ? w->part[leg].status : BLK_STS_OK;
	mirror_settle(w);
}

void write_leg_done(struct write *w, enum leg_id leg, blk_status_t status)
{
	int bits = ANSWERED(leg) | RETURNED(leg);

	w->part[leg].status = status;
	leg_io_end(&w->m->legs[leg]);
	if (((atomic_fetch_or(bits, &w->state) | bits) & ALL_ANSWERED) == ALL_ANSWERED)
		write_answered(w);
}

static void leg_bio_done(struct bio *leg_bio)
{
	struct leg_part *part = container_of(leg_bio, struct leg_part, bio);
	struct write *w = leg_bio->bi_private;
	blk_status_t status = leg_bio->bi_status;

	bio_uninit(leg_bio);
	write_leg_done(w, leg_of_part(w, part), status);
}

static void send_bio(struct write *w, enum leg_id leg)
{
	struct bio *leg_bio = &w->part[leg].bio;
	struct leg *l = &w->m->legs[leg];

	bio_init(leg_bio, leg_bdev(l), w->vecs, w->nr_pages, REQ_OP_WRITE | w->opf);
	if (w->kind == WRITE_DATA) {
		leg_bio->bi_opf |= leg_write_flags(l);
		leg_bio->bi_vcnt = w->nr_pages;
		leg_bio->bi_iter.bi_sector = w->range.start;
		leg_bio->bi_iter.bi_size = write_sectors(w) << SECTOR_SHIFT;
	}
	leg_bio->bi_ioprio = w->bio->bi_ioprio;
	leg_bio->bi_private = w;
	leg_bio->bi_end_io = leg_bio_done;
	submit_bio_noacct(leg_bio);
}

/*
 * From now on write_abandon() finds the write. False if a leg that it was
 * routed to has died since: that one may have been abandoned already.
 */
static bool take_off(struct write *w)
{
	struct writes *ws = &w->m->writes;
	unsigned int clear = 0;
	unsigned long flags;
	bool ok = true;
	enum leg_id leg;

	spin_lock_irqsave(&ws->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (!(w->sent & BIT(leg)))
			continue;
		clear |= ANSWERED(leg) | RETURNED(leg);
		if (unlikely(w->deaths[leg] != READ_ONCE(w->m->legs[leg].deaths)))
			ok = false;
	}
	if (likely(ok)) {
		atomic_andnot(clear, &w->state);
		list_add_tail(&w->flying, &ws->flying);
	}
	spin_unlock_irqrestore(&ws->lock, flags);
	return ok;
}

static void write_send(struct write *w)
{
	struct mirror *m = w->m;
	blk_status_t status;
	unsigned int sent;
	enum leg_id leg;

	do {
		status = mirror_route(w);
		if (unlikely(status)) {
			if (status != BLK_STS_AGAIN)
				write_finish(w, status);
			return;
		}
	} while (!take_off(w));

	/* The last answer may free w before the loop ends. */
	sent = w->sent;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		if (!(sent & BIT(leg)))
			continue;
		leg_io_start(&m->legs[leg]);
		if (w->kind == WRITE_ZERO)
			zero_send(w, leg);
		else
			send_bio(w, leg);
	}
}

void write_restart(struct write *w)
{
	write_send(w);
}

static void copy_and_send(struct write *w)
{
	struct bvec_iter iter = { .bi_size = write_sectors(w) << SECTOR_SHIFT };
	struct bio copy;

	/* A bio only to name the pages. */
	bio_init(&copy, NULL, w->vecs, w->nr_pages, REQ_OP_WRITE);
	copy.bi_vcnt = w->nr_pages;
	copy.bi_iter = iter;
	bio_copy_data(&copy, w->bio);
	bio_uninit(&copy);
	count_add(&w->m->counters, COUNT_COPIED, iter.bi_size);
	write_send(w);
}

static void pages_work(struct work_struct *work)
{
	struct write *w = container_of(work, struct write, work);
	struct mirror *m = w->m;
	bool got;

	if (!alloc_pages_of(w, GFP_NOWAIT | __GFP_NOWARN)) {
		count(&m->counters, COUNT_PUNTED);
		mutex_lock(&m->writes.pages_wait);
		got = alloc_pages_of(w, GFP_NOIO);
		mutex_unlock(&m->writes.pages_wait);
		/* A mempool that may wait doesn't fail. */
		if (WARN_ON_ONCE(!got)) {
			write_finish(w, BLK_STS_RESOURCE);
			return;
		}
	}
	copy_and_send(w);
}

/* The range is held. In .map, or in a worker after a wait. */
static void write_start(struct write *w, bool may_wait)
{
	if (w->kind != WRITE_DATA) {
		write_send(w);
		return;
	}
	if (may_wait) {
		pages_work(&w->work);
		return;
	}
	if (likely(alloc_pages_of(w, GFP_NOWAIT | __GFP_NOWARN))) {
		copy_and_send(w);
		return;
	}
	/*
	 * Waiting for pages here could be waiting for writes that this very task
	 * has submitted before and that sit in its bio_list.
	 */
	INIT_WORK(&w->work, pages_work);
	queue_work(w->m->wq, &w->work);
}

/*
 * The range is held. Whatever must be durable before a leg may get the write
 * (the dirty map's mark) comes here, and goes on to write_start().
 */
static void write_granted(struct write *w, bool may_wait)
{
	write_start(w, may_wait);
}

static void granted_work(struct work_struct *work)
{
	write_granted(container_of(work, struct write, work), true);
}

static void range_granted(struct locked_range *range)
{
	struct write *w = container_of(range, struct write, range);

	queue_work(w->m->wq, &w->work);
}

static enum write_kind kind_of(const struct bio *bio)
{
	switch (bio_op(bio)) {
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		return WRITE_ZERO;
	case REQ_OP_FLUSH:
		return WRITE_FLUSH;
	default:
		return bio_sectors(bio) ? WRITE_DATA : WRITE_FLUSH;
	}
}

static void write_begin(struct mirror *m, struct write *w, struct bio *bio, bool may_wait)
{
	w->m = m;
	w->kind = kind_of(bio);
	w->bio = bio;
	w->opf = bio->bi_opf & LEG_FLAGS;
	w->nr_pages = 0;
	atomic_set(&w->state, ALL_ANSWERED | ALL_RETURNED);

	if (w->kind == WRITE_FLUSH) {
		w->range.start = 0;
		w->range.last = 0;
		write_send(w);
		return;
	}

	w->range.start = dm_target_offset(m->ti, bio->bi_iter.bi_sector);
	w->range.last = w->range.start + bio_sectors(bio) - 1;
	INIT_WORK(&w->work, granted_work);
	trace_lockstep_write(m, w->range.start, bio_sectors(bio));

	if (range_lock(&m->ranges, &w->range, range_granted))
		write_granted(w, may_wait);
	else
		count(&m->counters, COUNT_WAITED);
}

static void starved_work(struct work_struct *work)
{
	struct writes *ws = container_of(work, struct writes, starved_work);
	struct mirror *m = container_of(ws, struct mirror, writes);
	struct write *w;
	struct bio *bio;

	for (;;) {
		spin_lock_irq(&ws->lock);
		bio = bio_list_pop(&ws->starved);
		spin_unlock_irq(&ws->lock);
		if (!bio)
			return;
		w = mempool_alloc(&ws->objects, GFP_NOIO);
		write_begin(m, w, bio, true);
	}
}

/* Not here, for the reason given in write_start(). */
static void write_starved(struct mirror *m, struct bio *bio)
{
	struct writes *ws = &m->writes;

	count(&m->counters, COUNT_PUNTED);
	spin_lock_irq(&ws->lock);
	bio_list_add(&ws->starved, bio);
	spin_unlock_irq(&ws->lock);
	queue_work(m->wq, &ws->starved_work);
}

void write_map(struct mirror *m, struct bio *bio)
{
	struct write *w;

	switch (kind_of(bio)) {
	case WRITE_DATA:
		if (bio_sectors(bio) > IO_MAX_SECTORS)
			dm_accept_partial_bio(bio, IO_MAX_SECTORS);
		count(&m->counters, COUNT_WRITES);
		if (bio->bi_opf & REQ_FUA)
			count(&m->counters, COUNT_FUA);
		break;
	case WRITE_ZERO:
		count(&m->counters, COUNT_ZEROES);
		break;
	case WRITE_FLUSH:
		count(&m->counters, COUNT_FLUSHES);
		break;
	}

	w = mempool_alloc(&m->writes.objects, GFP_NOWAIT | __GFP_NOWARN);
	if (likely(w))
		write_begin(m, w, bio, false);
	else
		write_starved(m, bio);
}

int writes_create(struct mirror *m)
{
	struct writes *ws = &m->writes;
	enum leg_id leg;
	int r;

	mutex_init(&ws->pages_wait);
	spin_lock_init(&ws->lock);
	INIT_LIST_HEAD(&ws->flying);
	bio_list_init(&ws->starved);
	INIT_WORK(&ws->starved_work, starved_work);

	r = mempool_init_slab_pool(&ws->objects, WRITE_RESERVE, write_cache);
	if (r)
		return r;
	r = mempool_init_page_pool(&ws->pages, IO_MAX_PAGES, 0);
	if (r)
		return r;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		ws->zero_wq[leg] = alloc_workqueue("lockstep-zero", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
		if (!ws->zero_wq[leg])
			return -ENOMEM;
	}
	return 0;
}

void writes_destroy(struct mirror *m)
{
	struct writes *ws = &m->writes;
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (ws->zero_wq[leg])
			destroy_workqueue(ws->zero_wq[leg]);
	mempool_exit(&ws->pages);
	mempool_exit(&ws->objects);
}
