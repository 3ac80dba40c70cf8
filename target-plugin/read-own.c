// SPDX-License-Identifier: GPL-2.0-only
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "engine.h"
#include "lockstep-test.h"
#include "read.h"

TEST_KNOB(bool, read_stays, "a read that the data disk was asked for waits until it has answered");
TEST_KNOB(bool, never_park, "reads are asked of the disk, whatever was given up there");
TEST_KNOB(bool, few_given_up, "what reads that were given up have of memory is bounded whatever there is");
TEST_KNOB(bool, begins_anew, "a read that is tried again is asked of the disks anew");
TEST_KNOB(bool, none_kept, "what was read for one who was given up isn't kept for him");
TEST_KNOB(bool, log_holds, "who reads the log waits in its worker until that has answered");
TEST_KNOB(bool, takes_stale, "a read takes over what was given up, whatever was written meanwhile");
TEST_KNOB(bool, no_turns, "the log is asked for all that is read at once");
TEST_KNOB(bool, few_wait, "a read of few places of the log waits for those of many");
TEST_KNOB(bool, begins_last, "a read that is tried again waits behind all that have come since");
TEST_KNOB(bool, turns_last, "a read of the log has its turn until it has ended");

/*
 * All but @rq is under the lock. @of is NULL when it has been answered. @begun: all of it is asked
 * for; @ended: all has come; @moved: some of it was destaged meanwhile. @wants: it was taken over,
 * by who has seen that in the index; 0: it wasn't. @kept: jiffies, since when it is.
 */
struct dcd_own {
	struct dcd_request rq;		/* @since: its beginning */
	struct dcd_request *of;
	bool begun, ended, moved;
	u64 wants;
	unsigned long kept;
	struct dcd_log_reads log_reads;
	struct work_struct end_work;	/* when the log has answered */
	int in_flight;			/* of @log_reads, */
	unsigned long went_on;		/* since then: jiffies */
	struct list_head list;
	struct scatterlist sgl[];
};

static size_t bytes_of(const struct dcd_own *o)
{
	return (size_t)o->rq.sectors << SECTOR_SHIFT;
}

static void free_own(struct dcd_own *o)
{
	unsigned int i;

	for (i = 0; i < o->rq.nents; i++)
		__free_page(sg_page(o->sgl + i));
	kfree(o);
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
	o->rq.gather = (struct dcd_gather) {
		.sg = o->sgl, .bad = DCD_NONE_BAD, .pending = ATOMIC_INIT(1), .own = true,
		.places = g->places, .look = g->look, .keep = g->keep, .time = g->time,
	};
	sg_init_table(o->sgl, nents);
	for (; left; left -= min_t(sector_t, left, PAGE_SECTORS)) {
		struct page *page = alloc_page(GFP_NOIO | __GFP_NOWARN);

		if (!page) {
			free_own(o);
			return NULL;
		}
		sg_set_page(o->sgl + o->rq.nents++, page,
			    min_t(sector_t, left, PAGE_SECTORS) << SECTOR_SHIFT, 0);
	}
	return o;
}

/* What was read of @o->rq, to its owner: all that is before what can't be. */
static void hand_to(struct dcd_request *of, struct dcd_own *o)
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

/* An initiator has no more of them than it has commands, but there may be many initiators. */
static size_t most_given_up(void)
{
	size_t part = totalram_pages() / DCD_GIVEN_UP_PART * PAGE_SIZE;

	return max(test_knob(few_given_up) ? 0 : part, DCD_GIVEN_UP_LEAST);
}

/* Needs the lock. */
static bool has_to_wait(const struct dcd_reads *r, const struct dcd_request *rq)
{
	sector_t first = rq->sector + rq->gather.done, end = rq->sector + rq->sectors;
	const struct dcd_own *o;

	lockdep_assert_held(&r->lock);
	if (test_knob(never_park))
		return false;
	if (r->given_up >= most_given_up())
		return true;
	list_for_each_entry(o, &r->left, list)
		if (o->rq.sector < end && first < o->rq.sector + o->rq.sectors)
			return true;
	return false;
}

/* --- taken over --- */

void dcd_read_saw(struct dcd_engine *e, struct dcd_gather *g, const struct dcd_place *p)
{
	if (g->seen && p->value == g->seen_value)
		return;
	g->seen = siphash_3u64(g->seen, p->sector, (uintptr_t)p->value, &e->reads.key) ?: 1;
	g->seen_value = p->value;
}

/* What the index has of the rest of a request now. */
static u64 sees(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t sector = rq->sector + rq->gather.done, last = rq->sector + rq->sectors - 1;
	struct dcd_gather g = {};

	while (sector <= last) {
		struct dcd_place p;

		dcd_index_find(e, sector, last, &p);
		dcd_read_saw(e, &g, &p);
		sector = p.last + 1;
	}
	return g.seen;
}

static bool is_same(const struct dcd_own *o, const struct dcd_request *rq)
{
	return o->rq.sector == rq->sector + rq->gather.done &&
	       o->rq.sector + o->rq.sectors == rq->sector + rq->sectors &&
	       (!o->moved || test_knob(takes_stale));
}

/* One that was given up, and is at just that, or was. Needs the lock. */
static struct dcd_own *left_at(const struct dcd_reads *r, const struct dcd_request *rq)
{
	struct dcd_own *o;

	lockdep_assert_held(&r->lock);
	list_for_each_entry(o, &r->left, list)
		if (o->begun && !o->ended && is_same(o, rq))
			return o;
	list_for_each_entry(o, &r->kept, list)
		if (is_same(o, rq))
			return o;
	return NULL;
}

static bool is_as_wanted(const struct dcd_own *o)
{
	return o->wants == o->rq.gather.seen || test_knob(takes_stale);
}

/* Needs the lock. */
static void take_out(struct dcd_reads *r, struct dcd_own *o)
{
	lockdep_assert_held(&r->lock);
	list_del(&o->list);
	r->kept_bytes -= bytes_of(o);
}

/* For who tries again; needs the lock. */
static bool keep(struct dcd_engine *e, struct dcd_own *o)
{
	struct dcd_reads *r = &e->reads;

	lockdep_assert_held(&r->lock);
	if (READ_ONCE(e->closing) || !o->begun || o->moved || o->rq.gather.error ||
	    o->rq.gather.bad != DCD_NONE_BAD || r->kept_bytes + bytes_of(o) > most_given_up() ||
	    test_knob(none_kept))
		return false;
	o->kept = jiffies;
	r->kept_bytes += bytes_of(o);
	list_move_tail(&o->list, &r->kept);
	queue_delayed_work(e->quick_wq, &r->drop_work, DCD_KEPT);
	return true;
}

/* What is to be kept no longer, or NULL: when it is the next one's time is set. */
static struct dcd_own *next_drop(struct dcd_engine *e)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_own *o;

	spin_lock_irq(&r->lock);
	o = list_first_entry_or_null(&r->kept, struct dcd_own, list);
	if (o && !READ_ONCE(e->closing) && time_before(jiffies, o->kept + DCD_KEPT)) {
		queue_delayed_work(e->quick_wq, &r->drop_work, o->kept + DCD_KEPT - jiffies);
		o = NULL;
	}
	if (o)
		take_out(r, o);
	spin_unlock_irq(&r->lock);
	return o;
}

static void drop_work(struct work_struct *work)
{
	struct dcd_engine *e = container_of(to_delayed_work(work), struct dcd_engine,
					    reads.drop_work);
	struct dcd_own *o;

	while ((o = next_drop(e)))
		free_own(o);
}

void dcd_reads_end(struct dcd_engine *e)
{
	cancel_delayed_work_sync(&e->reads.drop_work);
	drop_work(&e->reads.drop_work.work);
}

/* Behind the data disk of a log that was left the index doesn't know what is written. */
static bool take_over(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_own *o;
	unsigned long irq;
	bool ended;
	u64 wants;

	spin_lock_irqsave(&r->lock, irq);
	o = left_at(r, rq);
	spin_unlock_irqrestore(&r->lock, irq);
	if (!o || dcd_left(e) || test_knob(begins_anew))
		return false;
	wants = sees(e, rq);
	spin_lock_irqsave(&r->lock, irq);
	/* What was forgotten before the index was asked is @moved by now. */
	o = left_at(r, rq);
	if (o)
		o->wants = wants;
	ended = o && o->ended;
	if (ended && is_as_wanted(o)) {
		take_out(r, o);
	} else if (ended) {
		o = NULL;
	} else if (o) {
		o->of = rq;
		list_move_tail(&o->list, &r->owns);
		r->given_up -= bytes_of(o);
	}
	spin_unlock_irqrestore(&r->lock, irq);
	if (!o)
		return false;
	dcd_count(e, DCD_N_READS_TAKEN_OVER, 1);
	if (ended) {
		hand_to(rq, o);
		dcd_read_put(e, rq);
		free_own(o);
	} else {
		dcd_wait_begins(e);
	}
	return true;
}

void dcd_read_destaged(struct dcd_engine *e, const struct dcd_place *p)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_own *o;
	struct list_head *const lists[] = { &r->owns, &r->left, &r->kept };
	unsigned int i;

	spin_lock_irq(&r->lock);
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_entry(o, lists[i], list)
			o->moved |= o->rq.sector <= p->last &&
				    p->sector < o->rq.sector + o->rq.sectors;
	spin_unlock_irq(&r->lock);
}

/* --- turns --- */

/* How many places of the log is the rest of it in? 0: few enough for no turn. */
static unsigned int scattered(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t sector = rq->sector + rq->gather.done, last = rq->sector + rq->sectors - 1;
	unsigned int n = 0;

	while (sector <= last && n < DCD_AT_LOG && !test_knob(no_turns)) {
		struct dcd_place p;

		dcd_index_find(e, sector, last, &p);
		n += p.value && !p.zero && !p.lost;
		sector = p.last + 1;
	}
	return n > DCD_SCATTERED ? n : 0;
}

static struct dcd_turns *turns_of(struct dcd_reads *r, unsigned int places)
{
	return &r->turns[places > DCD_FEW && !test_knob(few_wait)];
}

/* Needs the lock. */
static void end_turn(struct dcd_engine *e, struct dcd_gather *g)
{
	struct dcd_turns *t = turns_of(&e->reads, g->places);

	lockdep_assert_held(&e->reads.lock);
	t->at_log -= g->places;
	g->places = 0;
	if (!list_empty(&t->waiting))
		queue_work(e->quick_wq, &e->reads.unpark_work);
}

/* Its places come no more, or it has taken long enough. Needs the lock; asked each DCD_LOOK. */
static bool turn_is_over(struct dcd_own *o)
{
	int n = atomic_read(&o->log_reads.ios.in_flight);

	if (n != o->in_flight)
		o->went_on = jiffies;
	o->in_flight = n;
	return !test_knob(turns_last) &&
	       (time_after(jiffies, o->rq.since + DCD_TURN_PATIENCE) ||
		(n && time_after(jiffies, o->went_on + DCD_TURN_STALL)));
}

/* It has stood in the line, and will be tried again. Needs the lock. */
static void keep_place(struct dcd_reads *r, const struct dcd_request *rq)
{
	const struct dcd_gather *g = &rq->gather;

	if (g->first_try && !test_knob(begins_last))
		r->tried[r->next_tried++ % DCD_TRIED] =
			(struct dcd_tried) { rq->sector, rq->sectors, g->first_try };
}

/* When was the first try of it? Needs the lock. */
static unsigned long first_try(struct dcd_reads *r, const struct dcd_request *rq)
{
	struct dcd_tried *t;

	for (t = r->tried; t < r->tried + DCD_TRIED; t++) {
		if (t->sectors == rq->sectors && t->sector == rq->sector) {
			t->sectors = 0;
			return t->first_try;
		}
	}
	return jiffies ?: 1;
}

/* Its place in the line. Needs the lock. */
static void line_up(struct dcd_reads *r, struct dcd_turns *t, struct dcd_request *rq)
{
	struct list_head *at = t->waiting.prev;

	if (!rq->gather.first_try)
		rq->gather.first_try = first_try(r, rq);
	while (at != &t->waiting &&
	       time_after(list_entry(at, struct dcd_request, waiting)->gather.first_try,
			  rq->gather.first_try))
		at = at->prev;
	list_add(&rq->waiting, at);
}

/* If the first one may it does: its places are the log's, and it is in no line. Needs the lock. */
static bool begin_first(struct dcd_turns *t)
{
	struct dcd_request *rq = list_first_entry_or_null(&t->waiting, struct dcd_request, waiting);

	if (!rq || (t->at_log && t->at_log + rq->gather.places > DCD_AT_LOG))
		return false;
	list_del(&rq->waiting);
	t->at_log += rq->gather.places;
	return true;
}

/* Whose turn it is, or NULL. */
static struct dcd_request *next_turn(struct dcd_engine *e, struct dcd_turns *t)
{
	struct dcd_reads *r = &e->reads;
	struct dcd_request *rq;

	spin_lock_irq(&r->lock);
	while ((rq = list_first_entry_or_null(&t->waiting, struct dcd_request, waiting))) {
		if (has_to_wait(r, rq)) {	/* somebody has given the same up meanwhile */
			list_move_tail(&rq->waiting, &r->parked);
			continue;
		}
		if (!begin_first(t))
			rq = NULL;
		break;
	}
	spin_unlock_irq(&r->lock);
	return rq;
}

/* --- an own --- */

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
	if (of && o->wants && !is_as_wanted(o)) {
		list_add_tail(&of->waiting, &r->parked);
		of = NULL;
	}
	spin_unlock_irqrestore(&r->lock, irq);
	if (of) {
		hand_to(of, o);
		dcd_read_put(e, of);
	}
	spin_lock_irqsave(&r->lock, irq);
	kept = was_left && keep(e, o);
	if (!kept)
		list_del(&o->list);
	if (was_left)
		r->given_up -= bytes_of(o);
	if (!of && !list_empty(&r->parked))
		queue_work(e->quick_wq, &r->unpark_work);
	end_turn(e, &o->rq.gather);
	if (list_empty(&r->owns) && list_empty(&r->left))
		wake_up_all(&e->quiet);
	spin_unlock_irqrestore(&r->lock, irq);	/* the engine may be gone from here on */
	if (!kept)
		free_own(o);
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
	end_turn(e, &o->rq.gather);
	spin_unlock_irq(&e->reads.lock);
	dcd_read_put(e, &o->rq);
}

/* Is it to wait? Else it has its turn, if it needs one. */
static bool park(struct dcd_engine *e, struct dcd_request *rq)
{
	unsigned int places = scattered(e, rq);
	struct dcd_reads *r = &e->reads;
	struct dcd_turns *t = turns_of(r, places);
	bool parked, waits = false;
	unsigned long irq;

	rq->gather.places = places;
	spin_lock_irqsave(&r->lock, irq);
	parked = has_to_wait(r, rq);
	if (parked) {
		list_add_tail(&rq->waiting, &r->parked);
	} else if (places) {
		line_up(r, t, rq);
		waits = t->waiting.next != &rq->waiting || !begin_first(t);
	}
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
		end_turn(e, &rq->gather);
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
	if (!take_over(e, rq) && !park(e, rq))
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
		while ((rq = next_turn(e, &e->reads.turns[i])))
			begin_own(e, rq);
}

/* Does anyone wait on? */
static bool move_over(struct dcd_engine *e, struct list_head *from, struct list_head *over)
{
	struct dcd_request *rq, *next;

	list_for_each_entry_safe(rq, next, from, waiting) {
		if (!dcd_wait_over(e, rq))
			continue;
		keep_place(&e->reads, rq);
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
		if (o->rq.gather.places && turn_is_over(o))
			end_turn(e, &o->rq.gather);
		if (!dcd_wait_over(e, o->of) || test_knob(read_stays)) {
			more = true;
			continue;
		}
		list_add_tail(&o->of->waiting, over);
		keep_place(r, o->of);
		o->of = NULL;
		list_move_tail(&o->list, &r->left);
		r->given_up += bytes_of(o);
		end_turn(e, &o->rq.gather);
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
	INIT_LIST_HEAD(&e->reads.kept);
	INIT_LIST_HEAD(&e->reads.parked);
	INIT_LIST_HEAD(&e->reads.turns[0].waiting);
	INIT_LIST_HEAD(&e->reads.turns[1].waiting);
	INIT_WORK(&e->reads.unpark_work, unpark);
	INIT_DELAYED_WORK(&e->reads.drop_work, drop_work);
	get_random_bytes(&e->reads.key, sizeof(e->reads.key));
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
