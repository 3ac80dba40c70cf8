// SPDX-License-Identifier: GPL-2.0-only
/*
 * What can't or needn't get to the data disk now is logged again, from the tail at the head:
 * zeroes, 64 bytes each, however long they are; what bad places of the data disk are to have; and
 * that something is lost, which is no longer than zeroes are.
 *
 * Between asking the index for a range and its new entry a write may get into it; if that
 * has the lower sequence the new entry would be over it at recovery. So this asks when
 * all that has a sequence is in the index: nobody may reserve a place (@held) until what
 * is reserved is published, which takes as long as copies do. The new entries get theirs
 * then, with @intake held; whoever writes after that comes behind them.
 *
 * A full ring is emptied by this, so it needs room in it: some segments are kept for it
 * (admission.c). When they don't suffice, the zeroes have to be wiped. For data they suffice, as
 * those are bounded: stuck.h.
 *
 * Past a dead log it goes to the newest slots of an NVRAM that keeps its content, from the oldest:
 * what is lost, and zeroes, as all else gets to the data disk. Some slots are kept for that
 * likewise; what is lost has some that zeroes don't get.
 */
#include <linux/slab.h>

#include "again.h"
#include "engine.h"

#define AT_A_TIME	64	/* while others wait */
#define LOOKED_AT	1024	/* ranges, likewise */
#define MOST		BIT_ULL(31)	/* sectors of an entry of zeroes */

enum { ZEROES, DISCARDS, DATA, KINDS };

/*
 * What is to be logged again: of @place, which is @bytes or zeroes or @lost, what is below
 * @target.
 */
struct what {
	const struct dcd_place *place;
	const u8 *bytes;
	bool lost;
	u64 target;
};

struct dcd_again {
	struct dcd_request rq;
	struct dcd_place_in_slot place[AT_A_TIME];
};

struct dcd_again *dcd_again_new(void)
{
	return kvzalloc(KINDS * sizeof(struct dcd_again), GFP_KERNEL);
}

/* Past the log there is NVRAM; if the log dies meanwhile there will be another round. */
static bool given_up(const struct dcd_engine *e)
{
	return READ_ONCE(e->closing) || (READ_ONCE(e->log_dead) && !e->sweep.past_log);
}

/* Past the log a slot that counts is free when this round has ended, and not before. */
static bool all_slots_count(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->log_dead && dcd_slots_used_up(e);
}

static bool published(struct dcd_engine *e, u64 below)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->published >= min(below, e->next_entry);
	spin_unlock(&e->lock);
	return yes;
}

static bool was_taken_back(struct dcd_engine *e, u64 since)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->taken_back != since;
	spin_unlock(&e->lock);
	return yes;
}

static void hold(struct dcd_engine *e, bool yes)
{
	spin_lock(&e->lock);
	WRITE_ONCE(e->held, yes);
	spin_unlock(&e->lock);
	if (!yes)
		wake_up_all(&e->room);
}

/* -EAGAIN: a slot will be free; -ENOSPC: not before the tail has moved. */
static int reserve(struct dcd_engine *e, const struct what *w, const struct dcd_place *p,
		   struct dcd_place_in_slot *place)
{
	struct dcd_again *kind = e->again + (w->bytes ? DATA : p->discard ? DISCARDS : ZEROES);
	int r;

	*place = (struct dcd_place_in_slot){
		.rq = &kind->rq,
		.sector = p->sector,
		.sectors = p->last - p->sector + 1,
		.again = true,
		.lost = w->lost,
		.entries = 1,
	};
	kind->rq.op = w->bytes ? DCD_WRITE : p->discard ? DCD_DISCARD : DCD_WRITE_ZEROES;
	if (w->bytes) {
		place->from = w->bytes + ((p->sector - w->place->sector) << SECTOR_SHIFT);
		place->bytes = dcd_place_sectors(p) << SECTOR_SHIFT;
	}
	spin_lock(&e->lock);
	r = p->zero && !w->lost && dcd_slots_for_lost(e) ? -ENOSPC : dcd_reserve(e, place);
	if (r == -EAGAIN && (!dcd_ring_left(e) || all_slots_count(e)))
		r = -ENOSPC;
	spin_unlock(&e->lock);
	return r;
}

/* Is it one place of the log, which the load has the bytes of, or which is lost only now? */
static bool is_data(const struct what *w)
{
	return w->bytes || (w->lost && !w->place->lost);
}

/* Of data nothing else is in segments so old. */
static bool is_of(struct dcd_engine *e, const struct what *w, const struct dcd_place *p)
{
	return dcd_segment_of(e, p) < w->target &&
	       (is_data(w) ? p->value == w->place->value : w->lost ? p->lost : p->zero);
}

/*
 * The next range from @*from on that has to be logged again, with its neighbours of the
 * kind; *@from: behind what needn't. False: there is none, or enough was @looked at.
 */
static bool next_range(struct dcd_engine *e, const struct what *w, sector_t *from,
		       struct dcd_place *p, unsigned int *looked)
{
	sector_t last = w->place->last;
	struct dcd_place n;

	for (;; *from = p->last + 1) {
		if (*from > last || !dcd_index_next(e, *from, p) || p->sector > last) {
			*from = last + 1;
			return false;
		}
		if (is_of(e, w, p))
			break;
		if (++*looked >= LOOKED_AT)
			return false;
	}
	if (is_data(w)) {
		p->last = min3(p->last, last, p->sector + dcd_chunk(e) - 1);
		return true;
	}
	while (p->last < last && ++*looked < LOOKED_AT && dcd_index_next(e, p->last + 1, &n)) {
		if (n.sector != p->last + 1 || !is_of(e, w, &n) || n.discard != p->discard)
			break;
		p->last = n.last;
	}
	p->last = min3(p->last, last, p->sector + (sector_t)MOST - 1);
	return true;
}

/* Some of them; *@from: where it goes on. Nobody else has a place that isn't published. */
static int some(struct dcd_engine *e, const struct what *w, sector_t *from, unsigned int *n)
{
	unsigned int looked = 0;
	struct dcd_place p;

	lockdep_assert_held(&e->intake);
	for (*n = 0; *n < AT_A_TIME && looked < LOOKED_AT; ++*n) {
		int r;

		if (!next_range(e, w, from, &p, &looked))
			break;
		r = reserve(e, w, &p, e->again->place + *n);
		if (r) {
			dcd_reserved(e, e->again->place + *n);
			return r;
		}
		*from = p.last + 1;
	}
	return 0;
}

static bool may_have_room(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = dcd_may_reserve(e, 1) &&
	      (dcd_slot_free(e, true) || !dcd_ring_left(e) || all_slots_count(e));
	spin_unlock(&e->lock);
	return yes || given_up(e);
}

int dcd_log_again(struct dcd_engine *e, const struct dcd_place *what, const void *bytes,
		  bool lost, u64 target)
{
	const struct what w = { what, bytes, lost, target };
	struct dcd_place_in_slot *place = e->again->place;
	sector_t sector = what->sector;
	u64 end = 0, taken_back;
	int r = 0;

	spin_lock(&e->lock);
	taken_back = e->taken_back;
	spin_unlock(&e->lock);
	while (sector <= what->last && !r) {
		unsigned int n = 0, i;

		hold(e, true);
		wait_event(e->room, published(e, U64_MAX) || given_up(e));
		if (given_up(e)) {
			hold(e, false);
			return -EAGAIN;
		}
		mutex_lock(&e->intake);
		r = some(e, &w, &sector, &n);
		mutex_unlock(&e->intake);
		hold(e, false);
		for (i = 0; i < n; i++) {
			end = place[i].number + 1;
			dcd_reserved(e, place + i);
			dcd_fill(e, place + i);
		}
		dcd_count(e, DCD_N_LOGGED_AGAIN, n);
		if (r != -EAGAIN)
			continue;
		dcd_slots_kick(e);
		wait_event(e->room, may_have_room(e));
		r = given_up(e) ? -EAGAIN : 0;
	}
	wait_event(e->room, published(e, end) || given_up(e));
	/* If it may have been taken back (entries.c), the index has the old one yet. */
	if (!published(e, end) || was_taken_back(e, taken_back))
		return -EAGAIN;
	return r;
}
