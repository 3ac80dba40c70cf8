// SPDX-License-Identifier: GPL-2.0-only
#include <linux/delay.h>
#include <linux/module.h>

#include "again.h"
#include "dcd-trace.h"
#include "lockstep-test.h"
#include "outcome.h"

#define AT_A_TIME	64		/* loads that the index forgets before writes have a turn */

TEST_KNOB(bool, rests_anew, "what isn't read for a while isn't from then on for as long again");
TEST_KNOB(bool, unread_unbound, "past a dead log a round goes on however much isn't read");
TEST_KNOB(bool, left_hides, "a batch that something stays in doesn't tell that something wasn't read");
TEST_KNOB(uint, forget_us, "the index takes so many microseconds to forget a load of zeroes");

int dcd_data_failed(struct dcd_engine *e, int error)
{
	bool news;

	if (error == -ENOMEM)
		return error;
	dcd_count(e, DCD_N_DATA_ERRORS, 1);
	spin_lock(&e->lock);
	news = !e->data_failing;
	e->data_failing = true;
	spin_unlock(&e->lock);
	if (!news)
		return error;
	trace_dcd_disk(e, false, error);
	pr_err("dcd: %s: can't destage to %pg: error %d; the data stay in the log, trying again\n",
	       e->name, e->data.bdev, error);
	return error;
}

static void log_failed_to_read(struct dcd_engine *e, const struct dcd_load *l)
{
	if (l->error == -ENOMEM || l->lost || (l->rests && !test_knob(rests_anew)))
		return;
	dcd_lost_failed(e, l->whole.at);
	if (l->error == -EBADMSG) {	/* sums.c has told it */
		e->log_unreadable = true;
		return;
	}
	dcd_count(e, DCD_N_LOG_READ_ERRORS, 1);
	dcd_proof_unread(e, dcd_segment_of(e, &l->place));
	if (!e->log_unreadable)
		pr_err("dcd: %s: can't read %llu sectors from %llu on from the log %pg: error %d; the data disk has older data there, trying again\n",
		       e->name, (u64)(l->place.last - l->place.sector + 1), (u64)l->place.sector,
		       e->log.bdev, l->error);
	e->log_unreadable = true;
}

/*
 * What became of the loads: how many sectors were copied, and how many loads the data disk
 * didn't take. One that was tried, as it is a bad place, waits for its next time.
 */
static sector_t look_at(struct dcd_engine *e, struct dcd_batch *b, unsigned int *refused)
{
	sector_t moved = 0;
	unsigned int i;

	*refused = 0;
	dcd_lost_begin(e);
	for (i = 0; i < b->n; i++) {
		struct dcd_load *l = b->loads + i;

		if (l->there)
			moved += l->place.last - l->place.sector + 1;
		if (!l->error)
			continue;
		if (l->unread) {
			log_failed_to_read(e, l);
			if (!l->lost && !dcd_leave_unread(e, l))
				dcd_lost_judge(e, l);
			continue;
		}
		++*refused;
		if (!l->alone || e->sweep.past_log || l->error == -ENOMEM)
			continue;
		dcd_count(e, DCD_N_DATA_ERRORS, 1);
		dcd_stuck_refused(e, &l->place);
		l->error = 0;
		l->kind = dcd_stuck_again(e, l->oldest) ? DCD_LOAD_AGAIN : DCD_LOAD_LEFT;
	}
	dcd_count(e, DCD_N_DESTAGED_SECTORS, moved);
	return moved;
}

/*
 * What was copied has been flushed. What of the rest is it that the data disk can't take? True:
 * something that wasn't known; from the first load on it is worth another try.
 */
static bool find_stuck(struct dcd_engine *e, const struct dcd_batch *b)
{
	unsigned long until = b->slow ? jiffies : jiffies + DCD_LATE;
	unsigned int i, some = 0;

	for (i = 0; i < b->n; i++)
		if (b->loads[i].there && b->loads[i].alone)
			dcd_stuck_mended(e, &b->loads[i].place);
	for (i = 0; i < b->n && some < DCD_FAILURES; i++) {
		const struct dcd_load *l = b->loads + i;

		if (!l->error || l->unread || l->error == -ENOMEM || e->sweep.past_log)
			continue;
		if (!some && !dcd_stuck_others(e, l->place.sector))
			break;
		some += (dcd_load_is_wipe(l) ? dcd_wipe_bad(e) : dcd_stuck_look(e, l, until)) > 0;
	}
	return some;
}

/* The first error that is left. */
static int errors_of(struct dcd_engine *e, const struct dcd_batch *b, unsigned int *failures)
{
	unsigned int i;
	int r = 0;

	for (i = 0; i < b->n; i++) {
		const struct dcd_load *l = b->loads + i;
		bool left = l->kind == DCD_LOAD_LEFT && !(l->lost && dcd_is_leaving(e));

		if (!l->error && !left)
			continue;
		if (l->error && !l->unread)
			dcd_data_failed(e, l->error);
		/* Past the log what needs none of its reads goes on (dcd_sweep_blind()). */
		if (l->unread && e->sweep.past_log)
			e->sweep.missed += !test_knob(unread_unbound);
		else if (l->error)
			++*failures;
		if (!r || (r == DCD_LEFT && l->unread && !test_knob(left_hides)))
			r = l->error ?: l->unread ? DCD_UNREAD : DCD_LEFT;
	}
	return r;
}

/*
 * The first of the segments that those are in which stay where they are, if that is all that is
 * wrong; 0: nobody knows.
 */
static u64 held_by(struct dcd_engine *e, const struct dcd_batch *b)
{
	u64 first = U64_MAX;
	unsigned int i;

	for (i = 0; i < b->n; i++) {
		const struct dcd_load *l = b->loads + i;

		if (l->error)
			return 0;
		if (l->kind == DCD_LOAD_LEFT)
			first = min(first, l->oldest);
	}
	return first == U64_MAX ? 0 : first;
}

/*
 * What is there of the batch is durable on the data disk. What was written to its
 * ranges meanwhile is in segments from @target on. Zeroes are long, and the read cache
 * looks for each page of them: writes wait for one load of those at most.
 */
int dcd_destage_forget(struct dcd_engine *e, const struct dcd_batch *b, u64 target)
{
	unsigned int i, since = 0;
	int r = 0;

	dcd_witness_batch(e, b);
	mutex_lock(&e->intake);
	spin_lock(&e->lock);
	e->bypassed = max(e->bypassed, target);
	spin_unlock(&e->lock);
	for (i = 0; i < b->n && !r; i++) {
		const struct dcd_load *l = b->loads + i;
		sector_t from = l->place.sector;
		struct dcd_place p;

		while (l->there && !r && dcd_index_next(e, from, &p) && p.sector <= l->place.last) {
			p.last = min(p.last, l->place.last);
			if (dcd_segment_of(e, &p) < target) {
				dcd_cache_destaged(e->cache, &p);
				dcd_read_destaged(e, &p);
				r = dcd_index_erase(e, p.sector, p.last);
			}
			from = p.last + 1;
		}
		if (l->place.zero && test_knob(forget_us))
			fsleep(test_knob(forget_us));
		since += l->place.zero ? AT_A_TIME : 1;
		if (since >= AT_A_TIME) {
			since = 0;
			mutex_unlock(&e->intake);
			cond_resched();
			mutex_lock(&e->intake);
		}
	}
	mutex_unlock(&e->intake);
	return r;
}

/* Where the batch was interrupted. */
sector_t dcd_left_at(const struct dcd_batch *b)
{
	unsigned int i;

	for (i = 0; i < b->n; i++)
		if (!b->loads[i].there && !b->loads[i].again && !b->loads[i].error &&
		    b->loads[i].kind != DCD_LOAD_LEFT)
			return b->loads[i].place.sector;
	return b->next;
}

/* The first that isn't on the data disk; there is one. */
sector_t dcd_first_missing(const struct dcd_batch *b)
{
	unsigned int i = 0;

	while (b->loads[i].there)
		i++;
	return b->loads[i].place.sector;
}

/* Of a batch that was moved, what is to be; -EAGAIN: not all of it could be. */
static int log_again(struct dcd_engine *e, struct dcd_batch *b)
{
	unsigned int i;

	for (i = 0; i < b->n; i++) {
		struct dcd_load *l = b->loads + i;
		int r;

		if (l->kind != DCD_LOAD_AGAIN || l->error)
			continue;
		r = dcd_log_again(e, &l->place, l->buf, l->lost, b->mark.target);
		/* Past the log there is no other place for it, and no later. */
		if ((r == -ENOSPC || (r == -EIO && e->sweep.past_log)) && (l->buf || l->lost)) {
			dcd_lost_no_room(e, l, r);
			continue;
		}
		/* Nobody gets a place any more: what can't be anywhere else stays. */
		if (r == -EIO && (l->buf || l->lost)) {
			l->kind = DCD_LOAD_LEFT;
			continue;
		}
		if (r == -ENOSPC || r == -EIO)
			e->wipes.no_room = true;
		if (r)
			return -EAGAIN;
		l->again = true;
		if (l->place.zero)
			WRITE_ONCE(e->wipes.logged, e->wipes.logged + 1);
		if (e->sweep.past_log)
			dcd_sweep_bound(&e->sweep, &b->mark);
	}
	return 0;
}

static u64 us_since(ktime_t began)
{
	return max(ktime_us_delta(ktime_get(), began), 0LL);
}

static u32 zeroes_gone(const struct dcd_batch *b)
{
	unsigned int i;
	u32 n = 0;

	for (i = 0; i < b->n; i++)
		n += b->loads[i].place.zero && b->loads[i].there;
	return n;
}

/* Those that dcd_turn_count() has counted. */
u32 dcd_loads_of_data(const struct dcd_batch *b)
{
	unsigned int i;
	u32 n = 0;

	for (i = 0; i < b->n; i++)
		n += !b->loads[i].place.zero && !b->loads[i].place.lost;
	return n;
}

void dcd_outcome(struct dcd_engine *e, struct dcd_batch *b, int r, ktime_t began,
		 unsigned int *failures, struct dcd_outcome *o)
{
	unsigned int refused;

	*o = (struct dcd_outcome){ .moved = look_at(e, b, &refused) };
	if (o->moved) {
		o->flush = dcd_destage_flush(e);
		if (o->flush)
			*failures = DCD_FAILURES;
		else	/* zeroes are another speed, and take no time on many disks */
			dcd_pace_learn(e, &e->data_speed, b->written, ktime_add(began, b->wiping));
		dcd_zeroes_learn(e, dcd_loads_of_data(b), us_since(ktime_add(began, b->wiping)),
				 ktime_to_us(b->wiping));
		dcd_pace_learn(e, &e->wipes.speed, zeroes_gone(b), began);
	}
	if (o->moved && !o->flush)
		dcd_stuck_moved(e);
	if (o->moved && !o->flush)
		o->flush = dcd_destage_forget(e, b, b->mark.target);
	if (!o->flush && (o->moved || refused))
		o->found = find_stuck(e, b);
	if (!r && !o->found)
		o->again = log_again(e, b);
	o->bad = o->found ? 0 : errors_of(e, b, failures);
	o->held = o->bad == DCD_LEFT || o->bad == DCD_UNREAD ? held_by(e, b) : 0;
	wake_up_all(&e->room);	/* the index has some again */
}
