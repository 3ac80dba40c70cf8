// SPDX-License-Identifier: GPL-2.0-only
#include "repair.h"

#include <linux/ktime.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "chunk.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"

TEST_KNOB(bool, repairs_beside, "what a target has is written over what can be read beside a bad place");
TEST_KNOB(bool, mute_is_bad, "what a leg that hangs doesn't say in a suspend is an error of it");
TEST_KNOB(bool, crash_forgets, "what is stale since a crash isn't taken from the target of the resync");

#define PIECE_MIN	8u		/* sectors */

struct request {
	enum leg_id leg;
	sector_t start;
	sector_t last;
};

/* A place that couldn't be repaired. */
struct bad_place {
	sector_t start;
	bool written;			/* and it still can't be read */
	time64_t when;			/* 0: none */
};

struct repair {
	struct mirror *m;
	struct workqueue_struct *wq;
	struct work_struct work;
	unsigned int piece, block[LEGS];	/* sectors; what goes bad of a leg at a time */

	struct mutex one;		/* request at a time: what follows */
	struct chunk *chunk;
	bool waited_for;		/* by a caller's read */
	wait_queue_head_t free;		/* @one may be */

	spinlock_t lock;		/* what follows; innermost */
	bool running;
	unsigned int first, waiting;
	struct request queue[REPAIR_QUEUE];
	struct bad_place bad[LEGS][REPAIR_BAD_MAX];
};

static bool is_young(const struct bad_place *p, time64_t now)
{
	return p->when && now - p->when < REPAIR_BAD_SECONDS;
}

static bool find_bad(struct repair *rp, enum leg_id leg, sector_t start, bool written)
{
	time64_t now = ktime_get_boottime_seconds();
	unsigned long flags;
	bool known = false;
	unsigned int i;

	spin_lock_irqsave(&rp->lock, flags);
	for (i = 0; i < REPAIR_BAD_MAX; i++)
		if (is_young(&rp->bad[leg][i], now) && rp->bad[leg][i].start == start &&
		    (rp->bad[leg][i].written || !written))
			known = true;
	spin_unlock_irqrestore(&rp->lock, flags);
	return known;
}

/* Returns true if it was one too many; then the count begins anew. */
static bool note_bad(struct repair *rp, enum leg_id leg, sector_t start, bool written)
{
	time64_t now = ktime_get_boottime_seconds();
	struct bad_place *place = NULL;
	unsigned int i, young = 0;

	spin_lock_irq(&rp->lock);
	for (i = 0; i < REPAIR_BAD_MAX; i++) {
		if (is_young(&rp->bad[leg][i], now))
			young++;
		else
			place = &rp->bad[leg][i];
	}
	/* There is a free one: with the last taken all are forgotten. */
	if (!WARN_ON_ONCE(!place))
		*place = (struct bad_place){
			.start = start,
			.written = written,
			.when = max_t(time64_t, now, 1),
		};
	young++;
	if (young >= REPAIR_BAD_MAX)
		memset(rp->bad[leg], 0, sizeof(rp->bad[leg]));
	spin_unlock_irq(&rp->lock);
	return young >= REPAIR_BAD_MAX;
}

void repair_request(struct repair *rp, enum leg_id leg, sector_t start, sector_t last)
{
	const struct request *r;
	unsigned long flags;
	bool taken = false;
	unsigned int i;

	spin_lock_irqsave(&rp->lock, flags);
	for (i = 0; i < rp->waiting && !taken; i++) {
		r = &rp->queue[(rp->first + i) % REPAIR_QUEUE];
		taken = r->leg == leg && r->start <= start && r->last >= last;
	}
	if (!taken && rp->running && rp->waiting < REPAIR_QUEUE) {
		rp->queue[(rp->first + rp->waiting++) % REPAIR_QUEUE] =
			(struct request){ leg, start, last };
		queue_work(rp->wq, &rp->work);
		taken = true;
	}
	spin_unlock_irqrestore(&rp->lock, flags);
	if (!taken)
		count(&rp->m->counters, COUNT_REPAIRS_DROPPED);
}

static bool next_request(struct repair *rp, struct request *r)
{
	bool got = false;

	spin_lock_irq(&rp->lock);
	if (rp->running && rp->waiting) {
		*r = rp->queue[rp->first];
		rp->first = (rp->first + 1) % REPAIR_QUEUE;
		rp->waiting--;
		got = true;
	}
	spin_unlock_irq(&rp->lock);
	return got;
}

static bool from_target(const struct mirror *m, enum leg_id leg)
{
	lockdep_assert_held(&m->lock);
	return m->standing == TOGETHER && m->both_whole && leg != m->map.target &&
	       !test_knob(crash_forgets);
}

bool repair_from_target(struct repair *rp, enum leg_id leg)
{
	struct mirror *m = rp->m;
	unsigned long flags;
	bool may;

	spin_lock_irqsave(&m->lock, flags);
	may = from_target(m, leg);
	spin_unlock_irqrestore(&m->lock, flags);
	return may;
}

/* The chunk's range is held. @leg: that can't be read. */
static bool may_repair(struct repair *rp, enum leg_id leg)
{
	const struct locked_range *range = chunk_range(rp->chunk);
	struct mirror *m = rp->m;
	bool may;

	spin_lock_irq(&m->lock);
	may = (READ_ONCE(rp->running) || rp->waited_for) &&
	      m->standing == TOGETHER && !m->read_only &&
	      (region_map_current(&m->map, m->map.target, range->start, range->last) ||
	       from_target(m, leg));
	spin_unlock_irq(&m->lock);
	return may;
}

static void give_up(struct repair *rp, enum leg_id leg, unsigned int deaths)
{
	struct mirror *m = rp->m;

	spin_lock_irq(&m->lock);
	if (m->legs[leg].deaths == deaths)
		(void)mirror_give_up(m, leg, WHY_FAILED);	/* refusal: it stays */
	spin_unlock_irq(&m->lock);
}

enum outcome {
	WELL,			/* can be read now, or could all the time */
	STOP,			/* not the time for it */
	BAD,			/* the sector stays bad */
	BROKEN,			/* the write failed */
};

/*
 * -ETIMEDOUT is no word of the leg: it has died, or it hangs and a suspend doesn't wait for it.
 * What it has there may be newer than what the other one has.
 */
static enum outcome failed(struct repair *rp, enum leg_id leg, int error, enum outcome outcome)
{
	bool mute = error == -ETIMEDOUT && !test_knob(mute_is_bad);

	return mute || !may_repair(rp, leg) ? STOP : outcome;
}

/* Written anew: has the leg got it? */
static enum outcome read_back(struct repair *rp, enum leg_id leg)
{
	const struct locked_range *range = chunk_range(rp->chunk);
	struct mirror *m = rp->m;
	unsigned int first, last;
	int r;

	r = chunk_read(rp->chunk, leg);
	if (r)
		return failed(rp, leg, r, BAD);
	if (!chunk_differs(rp->chunk, &first, &last)) {
		count(&m->counters, COUNT_REPAIRED);
		DMINFO("%s: %s leg %s: sectors %llu to %llu couldn't be read; written anew from the other leg, and good",
		       dm_table_device_name(m->ti->table), leg_name(leg), m->legs[leg].dev->name,
		       (unsigned long long)range->start, (unsigned long long)range->last);
		return WELL;
	}
	DMERR_LIMIT("%s: %s leg %s reads back something else at sector %llu than was written",
		    dm_table_device_name(m->ti->table), leg_name(leg), m->legs[leg].dev->name,
		    (unsigned long long)range->start + first);
	if (mirror_mark_differs(m, leg, range))
		DMERR_LIMIT("%s: it can't be marked stale: it is the source of a resync, or the map can't be written",
			    dm_table_device_name(m->ti->table));
	return BAD;
}

/* The chunk's range is held. */
static enum outcome repair_piece(struct repair *rp, enum leg_id leg)
{
	struct chunk *c = rp->chunk;
	enum outcome outcome;
	int r;

	if (!may_repair(rp, leg))
		return STOP;
	r = chunk_read(c, leg);
	if (!r)
		return WELL;
	/* Without the other's data there's no way. */
	if (failed(rp, leg, r, BAD) == STOP || chunk_read(c, other_leg(leg)) ||
	    !may_repair(rp, leg))
		return STOP;

	r = chunk_write(c, leg, other_leg(leg), 0, chunk_sectors(c));
	outcome = r ? failed(rp, leg, r, BROKEN) : read_back(rp, leg);
	trace_lockstep_repair(rp->m, leg, chunk_range(c)->start, outcome == WELL);
	return outcome;
}

/* Returns false if the rest of the request isn't worth it. */
static bool one_piece(struct repair *rp, enum leg_id leg, sector_t start, unsigned int sectors)
{
	struct mirror *m = rp->m;
	unsigned int deaths = READ_ONCE(m->legs[leg].deaths);
	enum outcome outcome;

	if (find_bad(rp, leg, start, false)) {
		count(&m->counters, COUNT_REPAIRS_DROPPED);
		return true;
	}
	chunk_lock(rp->chunk, start, sectors);
	outcome = repair_piece(rp, leg);
	chunk_unlock(rp->chunk);

	if (outcome != BAD && outcome != BROKEN)
		return outcome == WELL;

	count(&m->counters, COUNT_REPAIRS_FAILED);
	DMWARN_LIMIT("%s: %s leg %s: sectors %llu to %llu can't be repaired: %s",
		     dm_table_device_name(m->ti->table), leg_name(leg), m->legs[leg].dev->name,
		     (unsigned long long)start, (unsigned long long)start + sectors - 1,
		     outcome == BROKEN ? "writing fails" : "written, and still not good");
	if (note_bad(rp, leg, start, outcome == BAD)) {
		DMERR("%s: %s leg %s: %u places that can't be repaired in an hour: it is failing",
		      dm_table_device_name(m->ti->table), leg_name(leg),
		      m->legs[leg].dev->name, REPAIR_BAD_MAX);
		outcome = BROKEN;
	}
	if (outcome == BROKEN)
		give_up(rp, leg, deaths);
	return outcome == BAD;
}

/* Needs @one. */
static void work_off(struct repair *rp, const struct request *r)
{
	sector_t len = rp->m->map.len, at;
	unsigned int sectors;

	/* What a target has may be older than what a caller has read beside the bad place. */
	sectors = repair_from_target(rp, r->leg) && !test_knob(repairs_beside) ?
		  rp->block[r->leg] : rp->piece;
	for (at = round_down(r->start, sectors); at <= r->last; at += sectors)
		if (!one_piece(rp, r->leg, at, min_t(sector_t, sectors, len - at)))
			break;
}

/* A queue of minutes is no hung task. */
static void lock_one(struct repair *rp)
{
	while (!wait_event_timeout(rp->free, mutex_trylock(&rp->one), HZ))
		;
}

static void unlock_one(struct repair *rp)
{
	mutex_unlock(&rp->one);
	wake_up(&rp->free);
}

static void repair_work(struct work_struct *work)
{
	struct repair *rp = container_of(work, struct repair, work);
	struct request r;

	while (next_request(rp, &r)) {
		lock_one(rp);
		work_off(rp, &r);
		unlock_one(rp);
	}
}

void repair_now(struct repair *rp, enum leg_id leg, sector_t start, sector_t last, bool read)
{
	const struct request r = { leg, start, last };

	lock_one(rp);
	rp->waited_for = read;
	work_off(rp, &r);
	rp->waited_for = false;
	unlock_one(rp);
}

unsigned int repair_block_sectors(const struct repair *rp, enum leg_id leg)
{
	return rp->block[leg];
}

bool repair_in_vain(struct repair *rp, enum leg_id leg, sector_t sector)
{
	return find_bad(rp, leg, round_down(sector, rp->block[leg]), true);
}

unsigned int repair_piece_sectors(const struct repair *rp)
{
	return rp->piece;
}

bool repair_busy(struct repair *rp)
{
	return work_busy(&rp->work);
}

void repair_run(struct repair *rp)
{
	unsigned long flags;

	spin_lock_irqsave(&rp->lock, flags);
	rp->running = true;
	spin_unlock_irqrestore(&rp->lock, flags);
}

void repair_pause(struct repair *rp)
{
	unsigned long flags;

	spin_lock_irqsave(&rp->lock, flags);
	WRITE_ONCE(rp->running, false);
	rp->waiting = 0;
	spin_unlock_irqrestore(&rp->lock, flags);
}

void repair_drain(struct repair *rp)
{
	flush_workqueue(rp->wq);
}

/* What goes bad of @leg at a time, in sectors; the other one can be read by it. */
static unsigned int block_of(const struct mirror *m, enum leg_id leg)
{
	const struct leg *bad = &m->legs[leg], *good = &m->legs[other_leg(leg)];
	unsigned int bytes = SECTOR_SIZE;

	if (bad->dev)
		bytes = max(bytes, bdev_physical_block_size(leg_bdev(bad)));
	if (good->dev)
		bytes = max(bytes, bdev_logical_block_size(leg_bdev(good)));
	return min(bytes >> SECTOR_SHIFT, IO_MAX_SECTORS);
}

struct repair *repair_create(struct mirror *m)
{
	struct repair *rp = kzalloc(sizeof(*rp), GFP_KERNEL);
	enum leg_id leg;

	if (!rp)
		return NULL;
	rp->m = m;
	spin_lock_init(&rp->lock);
	mutex_init(&rp->one);
	init_waitqueue_head(&rp->free);
	INIT_WORK(&rp->work, repair_work);
	rp->piece = PIECE_MIN;
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		rp->block[leg] = block_of(m, leg);
		rp->piece = max(rp->piece, rp->block[leg]);
	}
	rp->chunk = chunk_create(m, rp->piece, NULL);
	rp->wq = alloc_ordered_workqueue("lockstep-repair", WQ_MEM_RECLAIM);
	if (!rp->chunk || !rp->wq) {
		repair_destroy(rp);
		return NULL;
	}
	return rp;
}

void repair_destroy(struct repair *rp)
{
	if (rp->wq)
		destroy_workqueue(rp->wq);
	chunk_destroy(rp->chunk);
	kfree(rp);
}
