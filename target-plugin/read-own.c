// SPDX-License-Identifier: GPL-2.0-only
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "lockstep-test.h"
#include "read-own.h"

TEST_KNOB(bool, read_stays, "a read that the data disk was asked for waits until it has answered");
TEST_KNOB(bool, never_park, "reads are asked of the disk, whatever was given up there");
TEST_KNOB(bool, few_given_up, "what reads that were given up have of memory is bounded whatever there is");
TEST_KNOB(bool, log_holds, "who reads the log waits in its worker until that has answered");

void dcd_own_free(struct dcd_own *o)
{
	unsigned int i;

	for (i = 0; i < o->rq.nents; i++)
		__free_page(sg_page(o->sgl + i));
	kfree(o);
}

/* An initiator has no more of them than it has commands, but there may be many initiators. */
size_t dcd_most_given_up(void)
{
	size_t part = totalram_pages() / DCD_GIVEN_UP_PART * PAGE_SIZE;

	return max(test_knob(few_given_up) ? 0 : part, DCD_GIVEN_UP_LEAST);
}

/* NULL: no memory. */
static struct dcd_own *new_own(struct dcd_engine *e, struct dcd_request *of)
{
	const struct dcd_gather *g = &of->gather;
	sector_t left = of->sectors - g->done;
	unsigned int nents = DIV_ROUND_UP_ULL(left, PAGE_SECTORS);
	struct dcd_own *o = kzalloc(struct_size(o, sgl, nents), GFP_NOIO | __GFP_NOWARN);

	if (!o)
		return NULL;
	o->of = of;
	o->rq.engine = e;
	o->rq.op = DCD_READ;
	o->rq.sector = of->sector + g->done;
	o->rq.sectors = left;
	o->rq.sgl = o->sgl;
	o->rq.since = jiffies;
	o->counts = max((size_t)left << SECTOR_SHIFT, dcd_most_given_up() / DCD_GIVEN_UP_OWNS);
	o->rq.gather = (struct dcd_gather) {
		.sg = o->sgl, .bad = DCD_NONE_BAD, .pending = ATOMIC_INIT(1), .own = true,
		.places = g->places, .look = g->look, .keep = g->keep, .time = g->time,
	};
	sg_init_table(o->sgl, nents);
	for (; left; left -= min_t(sector_t, left, PAGE_SECTORS)) {
		struct page *page = alloc_page(GFP_NOIO | __GFP_NOWARN);

		if (!page) {
			dcd_own_free(o);
			return NULL;
		}
		sg_set_page(o->sgl + o->rq.nents++, page,
			    min_t(sector_t, left, PAGE_SECTORS) << SECTOR_SHIFT, 0);
	}
	return o;
}

void dcd_own_hand_to(struct dcd_request *of, struct dcd_own *o)
{
	struct dcd_gather *g = &o->rq.gather;
	sector_t good = g->error ? 0 : min_t(sector_t, g->bad, o->rq.sectors);
	unsigned int i;

	for (i = 0; good; i++) {
		u32 n = min_t(sector_t, good, PAGE_SECTORS);

		if (dcd_gather_fill(&of->gather, page_address(sg_page(o->sgl + i)),
				    n << SECTOR_SHIFT)) {
			dcd_gather_failed(&of->gather, of->gather.done, -EINVAL);
			return;
		}
		good -= n;
	}
	if (g->error)
		dcd_gather_failed(&of->gather, of->gather.done, g->error);
	else if (g->bad != DCD_NONE_BAD)
		dcd_gather_failed(&of->gather, of->gather.done + g->bad, -EIO);
}

bool dcd_own_has_to_wait(const struct dcd_reads *r, const struct dcd_request *rq)
{
	sector_t first = rq->sector + rq->gather.done, end = rq->sector + rq->sectors;
	const struct dcd_own *o;

	lockdep_assert_held(&r->lock);
	if (test_knob(never_park))
		return false;
	if (r->given_up >= dcd_most_given_up())
		return true;
	list_for_each_entry(o, &r->left, list)
		if (o->rq.sector < end && first < o->rq.sector + o->rq.sectors)
			return true;
	return false;
}

void dcd_own_ended(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_own *o = container_of(rq, struct dcd_own, rq);
	struct dcd_reads *r = &e->reads;
	struct dcd_request *of;
	unsigned long irq;
	bool was_left, kept;

	spin_lock_irqsave(&r->lock, irq);
	of = o->of;
	o->of = NULL;	/* nobody gives it up any more, */
	o->ended = true;	/* or takes it over */
	was_left = !of;
	if (of && o->wants && !dcd_own_is_wanted(o)) {
		list_add_tail(&of->waiting, &r->parked);
		of = NULL;
	}
	spin_unlock_irqrestore(&r->lock, irq);
	if (of) {
		dcd_own_hand_to(of, o);
		dcd_read_put(e, of);
	}
	spin_lock_irqsave(&r->lock, irq);
	kept = was_left && dcd_own_keep(e, o);
	if (!kept)
		list_del(&o->list);
	if (was_left)
		r->given_up -= o->counts;
	if (!list_empty(&r->parked))
		queue_work(e->quick_wq, &r->unpark_work);
	dcd_line_end_turn(e, &o->rq.gather);
	if (list_empty(&r->owns) && list_empty(&r->left))
		wake_up_all(&e->quiet);
	spin_unlock_irqrestore(&r->lock, irq);	/* the engine may be gone from here on */
	if (!kept)
		dcd_own_free(o);
}

static void own_work(struct work_struct *work)
{
	struct dcd_own *o = container_of(work, struct dcd_own, rq.work);
	struct dcd_engine *e = o->rq.engine;
	bool wanted;

	spin_lock_irq(&e->reads.lock);
	wanted = o->of;
	o->begun = wanted;
	spin_unlock_irq(&e->reads.lock);
	if (!wanted) {
		dcd_read_put(e, &o->rq);
		return;
	}
	dcd_read_in_worker(e, &o->rq, &o->log_reads);
	if (test_knob(log_holds))
		dcd_ios_wait(&o->log_reads.ios, 0);
	dcd_log_reads_call(e, &o->log_reads, &o->end_work);
}

static void end_work(struct work_struct *work)
{
	struct dcd_own *o = container_of(work, struct dcd_own, end_work);
	struct dcd_engine *e = o->rq.engine;

	dcd_read_in_worker_end(e, &o->rq);
	spin_lock_irq(&e->reads.lock);
	dcd_line_end_turn(e, &o->rq.gather);
	spin_unlock_irq(&e->reads.lock);
	dcd_read_put(e, &o->rq);
}

/* Is it to wait? Else it has its turn, if it needs one. */
static bool park(struct dcd_engine *e, struct dcd_request *rq)
{
	unsigned int places = dcd_line_places(e, rq);
	struct dcd_reads *r = &e->reads;
	bool parked, waits = false;
	unsigned long irq;

	rq->gather.places = places;
	spin_lock_irqsave(&r->lock, irq);
	parked = dcd_own_has_to_wait(r, rq);
	if (parked)
		list_add_tail(&rq->waiting, &r->parked);
	else if (places)
		waits = dcd_line_join(r, rq);
	spin_unlock_irqrestore(&r->lock, irq);
	if (!parked && !waits)
		return false;
	dcd_count(e, parked ? DCD_N_READS_PARKED : DCD_N_READ_TURNS, 1);
	dcd_wait_begins(e);
	return true;
}

/* Its turn has begun, if it needs one. */
static void begin_own(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_reads *r = &e->reads;
	struct blk_plug plug;
	struct dcd_own *o;
	unsigned long irq;
	bool log;

	o = new_own(e, rq);
	if (!o) {
		spin_lock_irqsave(&r->lock, irq);
		dcd_line_end_turn(e, &rq->gather);
		spin_unlock_irqrestore(&r->lock, irq);
		dcd_later(e, rq);
		return;
	}
	if (!dcd_read_takes_dma(e, rq))
		dcd_count(e, DCD_N_READ_BOUNCES, 1);
	spin_lock_irqsave(&r->lock, irq);
	list_add_tail(&o->list, &r->owns);
	spin_unlock_irqrestore(&r->lock, irq);
	dcd_wait_begins(e);
	dcd_cache_go_on(e->cache, &o->rq);
	/* From here on the request may be answered, and be gone. */
	blk_start_plug(&plug);
	log = dcd_read_walk(e, &o->rq) == DCD_WALK_LOG;
	blk_finish_plug(&plug);
	if (!log) {
		spin_lock_irqsave(&r->lock, irq);
		o->begun = true;
		spin_unlock_irqrestore(&r->lock, irq);
		dcd_read_put(e, &o->rq);
		return;
	}
	dcd_count(e, DCD_N_READ_HOPS, 1);
	INIT_WORK(&o->rq.work, own_work);
	INIT_WORK(&o->end_work, end_work);
	queue_work(e->io_wq, &o->rq.work);
}

void dcd_read_to_own(struct dcd_engine *e, struct dcd_request *rq)
{
	if (!dcd_own_take_over(e, rq) && !park(e, rq))
		begin_own(e, rq);
}

static void unpark(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, reads.unpark_work);
	struct dcd_request *rq, *next;
	LIST_HEAD(parked);
	unsigned int i;

	spin_lock_irq(&e->reads.lock);
	list_splice_init(&e->reads.parked, &parked);
	spin_unlock_irq(&e->reads.lock);
	list_for_each_entry_safe(rq, next, &parked, waiting)
		dcd_read_to_own(e, rq);
	for (i = 0; i < ARRAY_SIZE(e->reads.turns); i++)
		while ((rq = dcd_line_next(e, &e->reads.turns[i])))
			begin_own(e, rq);
}

/* Does anyone wait on? */
static bool move_over(struct dcd_engine *e, struct list_head *from, struct list_head *over)
{
	struct dcd_request *rq, *next;

	list_for_each_entry_safe(rq, next, from, waiting) {
		if (!dcd_wait_over(e, rq))
			continue;
		dcd_line_keep_place(&e->reads, rq);
		list_move_tail(&rq->waiting, over);
	}
	return !list_empty(from);
}

bool dcd_reads_over(struct dcd_engine *e, struct list_head *parked, struct list_head *over)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_own *o, *n;
	bool more = false;
	unsigned int i;

	spin_lock_irq(&r->lock);
	more |= move_over(e, &r->parked, parked);
	for (i = 0; i < ARRAY_SIZE(r->turns); i++)
		more |= move_over(e, &r->turns[i].waiting, parked);
	list_for_each_entry_safe(o, n, &r->owns, list) {
		if (!o->of)	/* it is ending */
			continue;
		if (o->rq.gather.places && dcd_line_turn_over(o))
			dcd_line_end_turn(e, &o->rq.gather);
		if (!dcd_wait_over(e, o->of) || test_knob(read_stays)) {
			more = true;
			continue;
		}
		list_add_tail(&o->of->waiting, over);
		dcd_line_keep_place(r, o->of);
		o->of = NULL;
		list_move_tail(&o->list, &r->left);
		r->given_up += o->counts;
		dcd_line_end_turn(e, &o->rq.gather);
		dcd_count(e, DCD_N_READS_GIVEN_UP, 1);
	}
	spin_unlock_irq(&r->lock);
	return more;
}

void dcd_read_over(struct dcd_engine *e, struct dcd_request *rq)
{
	dcd_gather_failed(&rq->gather, rq->gather.done, -EAGAIN);
	dcd_read_put(e, rq);
}

void dcd_reads_init(struct dcd_engine *e)
{
	spin_lock_init(&e->reads.lock);
	INIT_LIST_HEAD(&e->reads.owns);
	INIT_LIST_HEAD(&e->reads.left);
	INIT_LIST_HEAD(&e->reads.parked);
	INIT_LIST_HEAD(&e->reads.turns[0].waiting);
	INIT_LIST_HEAD(&e->reads.turns[1].waiting);
	INIT_WORK(&e->reads.unpark_work, unpark);
	dcd_kept_init(e);
}

bool dcd_reads_quiet(struct dcd_engine *e)
{
	unsigned long irq;
	bool yes;

	spin_lock_irqsave(&e->reads.lock, irq);
	yes = list_empty(&e->reads.owns) && list_empty(&e->reads.left);
	spin_unlock_irqrestore(&e->reads.lock, irq);
	return yes;
}
