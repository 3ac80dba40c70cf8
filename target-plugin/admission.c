// SPDX-License-Identifier: GPL-2.0-only
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, past_unshared, "past a dead log NVRAM is given away until it is full");
TEST_KNOB(bool, zeroes_stay, "zeroes that fill the log are logged again and again");

#define INDEX_LOW	75		/* percent of its memory */
#define INDEX_HIGH	90
#define NVRAM_LOW	50		/* percent of the slots */
#define NVRAM_HIGH	90
#define RING_LAST	95		/* percent of the ring: it waits for the tail */
#define RING_FULL	98
#define FORESEEN_MOST	(3600ULL * USEC_PER_SEC)
#define DENSER_MOST	64ULL
#define PAST_MOST_US	(200ULL * USEC_PER_MSEC)	/* the longest delay past a dead log, */
#define PAST_WAIT_US	(5ULL * USEC_PER_SEC)		/* and of all that wait together */
#define UNREAD_US	(10ULL * USEC_PER_SEC)	/* the room has to last for so long, always */
#define UNREAD		(5 * HZ)

static u64 most_segments(const struct dcd_engine *e)
{
	return e->segments - 1;
}

/*
 * Kept for zeroes that are logged again, so that a full ring can go on: again.c. The tables
 * of segments that writes fill have room for most of them. What is lost has to have its own.
 */
static u64 kept_for_zeroes(const struct dcd_engine *e)
{
	u64 zeroes = READ_ONCE(e->zeroes) + 4ULL * READ_ONCE(e->lost.n);

	if (!zeroes)
		return 0;
	return min(e->segments / 8, 2 + div_u64(zeroes, 4 * dcd_table_places(e)));
}

/* For everything else. */
static u64 for_writes(const struct dcd_engine *e)
{
	return most_segments(e) - kept_for_zeroes(e) - dcd_stuck_room(e);
}

/* What is written into the middle of what is lost makes more ranges of it, so there is one more. */
static u64 slots_for_lost(const struct dcd_engine *e)
{
	u64 lost = READ_ONCE(e->lost.n);

	return lost ? div_u64(lost, dcd_table_places(e)) + 2 : 0;
}

/* Past a dead log: free when this round is over, as it is for what there was when it began. */
static u64 slots_to_come(const struct dcd_engine *e)
{
	const struct dcd_sweep *s = &e->sweep;
	u64 target = READ_ONCE(s->n) ? READ_ONCE(s->marks[0].target) : 0;

	return READ_ONCE(s->past_log) && target > e->committed ? target - e->committed : 0;
}

/*
 * Past a dead log NVRAM is all that says what is lost, and each round takes it along to newer
 * slots: with all slots full of writes it couldn't, and no slot would ever be free again. So it
 * does with zeroes, but those can be wiped (zeroes.h). A log that is away (blip.h) may be dead in a
 * moment: they are kept from then on.
 */
static u64 slots_kept(const struct dcd_engine *e)
{
	u64 zeroes = min(READ_ONCE(e->zeroes), dcd_zeroes_past_most(e)), kept;
	u64 all = DIV_ROUND_UP(zeroes, dcd_table_places(e)), frees = slots_to_come(e);

	if (!e->keeps || (!e->log_dead && time_after_eq(jiffies, READ_ONCE(e->log_away))))
		return 0;
	/* For the rest of this round, and for the next one what this one doesn't free. */
	zeroes -= min(zeroes, READ_ONCE(e->wipes.logged));
	/* The open one may be a write's. */
	kept = slots_for_lost(e) + DIV_ROUND_UP(zeroes, dcd_table_places(e)) + !!zeroes +
	       all - min(all, frees);
	/* Writes need some, too. */
	return min_t(u64, kept, max(e->nslots, DCD_SLOTS_LEAST) - DCD_SLOTS_LEAST);
}

static bool slots_are_kept(const struct dcd_engine *e)
{
	u64 kept = slots_kept(e);

	return kept && e->nidle <= kept;
}

bool dcd_slots_for_lost(const struct dcd_engine *e)
{
	u64 kept = slots_for_lost(e);

	lockdep_assert_held(&e->lock);
	return kept && e->log_dead && e->nidle <= kept;
}

u64 dcd_ring_left(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return most_segments(e) - min(most_segments(e), e->head - dcd_kept_from(e));
}

/* With the ring in use from segment @from on. */
static u64 free_with(const struct dcd_engine *e, u64 from)
{
	u64 most = for_writes(e), used = e->head - from;

	lockdep_assert_held(&e->lock);
	if (slots_are_kept(e))
		return 0;
	used = max(used, mul_u64_u32_div(most, dcd_index_fill(e), DCD_FULL));
	return most - min(most, used);
}

u64 dcd_ring_free(const struct dcd_engine *e)
{
	return free_with(e, dcd_kept_from(e));
}

bool dcd_ring_is_behind(const struct dcd_engine *e, u64 tail)
{
	u64 from = dcd_kept_from(e), most = for_writes(e);

	lockdep_assert_held(&e->lock);
	return from < tail && e->head - from > most - most / 4;
}

static struct dcd_level ring_level(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return (struct dcd_level){
		.used = e->head - e->tail,
		.size = for_writes(e),
		.low = e->destage.low,
		.high = max(e->destage.high, e->destage.low + 1),
	};
}

static struct dcd_level index_level(const struct dcd_engine *e)
{
	return (struct dcd_level){
		.used = dcd_index_fill(e),
		.size = DCD_FULL,
		.low = INDEX_LOW,
		.high = INDEX_HIGH,
	};
}

/* Slots that are waiting for the log: not the open one. */
static struct dcd_level nvram_level(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return (struct dcd_level){
		.used = max(e->head - e->committed, 1ULL) - 1,
		.size = e->nslots,
		.low = NVRAM_LOW,
		.high = NVRAM_HIGH,
	};
}

/* What may be written until the segments below @target are free, in segments. */
static u64 room_until(const struct dcd_engine *e, u64 target)
{
	lockdep_assert_held(&e->lock);
	return dcd_pace_room(e->head - target, for_writes(e));
}

static u64 until(const struct dcd_forecast *f, ktime_t now)
{
	s64 us = ktime_us_delta(f->when, now);

	return us > 0 ? us : 0;
}

/*
 * Something of the log can't be read for now (late.h, lost.h), and the tail goes no further. How
 * long that takes nobody knows: so the less room is left the slower it goes, and never to its end.
 */
static bool is_unread(const struct dcd_engine *e)
{
	return time_before(jiffies, READ_ONCE(e->unread_at) + UNREAD);
}

/*
 * While a log is left there has to be less and less: half as much comes in as goes out, so that
 * each turn has half as much as the one before, and is shorter. In the last ones no slot gets
 * free, and nobody gets a place before what has come by then is on the data disk.
 */
static u64 leave_us(const struct dcd_engine *e, u64 per, sector_t sectors)
{
	struct dcd_level high = { .used = 1, .size = 2, .low = 0, .high = 50 };

	lockdep_assert_held(&e->lock);
	if (!dcd_leave_paces(e))
		return 0;
	if (!e->foreseen)
		return 2 * dcd_pace_delay(&high, &e->data_speed, sectors);
	return dcd_pace_share(&high, until(&e->turn_end, ktime_get()),
			      dcd_leave_left(e) * per / 2, sectors);
}

static u64 ring_us(const struct dcd_engine *e, sector_t sectors)
{
	/* Without NVRAM a segment is a commit: of its place in the ring little may be used. */
	u64 per = max(e->usual / 16, 1ULL);
	struct dcd_level ring = ring_level(e), last = ring;
	ktime_t now;

	lockdep_assert_held(&e->lock);
	if (!dcd_level_above(&ring, ring.low))
		return 0;
	if (is_unread(e))
		return dcd_pace_share(&ring, UNREAD_US, room_until(e, e->tail) * per, sectors);
	if (!e->foreseen)
		return dcd_pace_delay(&ring, &e->data_speed, sectors);
	now = ktime_get();
	last.low = RING_LAST;
	last.high = RING_FULL;
	return max3(dcd_pace_share(&ring, until(&e->next_room, now),
				   room_until(e, e->next_room.target) * per, sectors),
		    dcd_pace_share(&ring, until(&e->turn_end, now),
				   room_until(e, e->turn_end.target) * per, sectors),
		    dcd_pace_delay(&last, &e->data_speed, sectors));
}

/*
 * Past a dead log no slot of an NVRAM that keeps its content is free before the round is over,
 * which takes as long as what the log has: so those that are free are shared out until then.
 */
static u64 past_log_us(const struct dcd_engine *e, sector_t sectors)
{
	u64 kept = slots_kept(e), per = max(e->usual / 16, 1ULL);
	u64 most = div_u64(PAST_WAIT_US, READ_ONCE(e->nwaiting) + 1);
	struct dcd_level slots = {
		.used = e->nslots - (e->nidle - min_t(u64, kept, e->nidle)),
		.size = e->nslots,
		.low = NVRAM_LOW,
		.high = NVRAM_HIGH,
	};

	lockdep_assert_held(&e->lock);
	if (!e->log_dead || !e->keeps || !e->foreseen || test_knob(past_unshared))
		return 0;
	return dcd_pace_share_most(&slots, until(&e->next_room, ktime_get()),
				   dcd_pace_room(slots.used, slots.size) * per, sectors,
				   clamp(most, DCD_PACE_MAX_US, PAST_MOST_US));
}

u64 dcd_pace_us(struct dcd_engine *e, sector_t sectors)
{
	struct dcd_level index, nvram, zeroes = dcd_zeroes_level(e);
	u64 us;

	spin_lock(&e->lock);
	index = index_level(e);
	nvram = nvram_level(e);
	us = max3(ring_us(e, sectors), past_log_us(e, sectors),
		  leave_us(e, max(e->usual / 16, 1ULL), sectors));
	us = max3(us, dcd_pace_delay(&index, &e->data_speed, sectors),
		  dcd_pace_delay(&nvram, &e->log_speed, sectors));
	us = max(us, dcd_pace_delay(&zeroes, &e->wipes.speed, 1));
	spin_unlock(&e->lock);
	return us;
}

void dcd_pace_sealed(struct dcd_engine *e, u64 sectors)
{
	lockdep_assert_held(&e->lock);
	e->usual += sectors - e->usual / 16;
}

void dcd_pace_learn(struct dcd_engine *e, struct dcd_speed *speed, sector_t sectors,
		    ktime_t began)
{
	s64 us = ktime_us_delta(ktime_get(), began);

	if (us <= 0)
		return;
	spin_lock(&e->lock);
	dcd_speed_add(speed, sectors, us);
	spin_unlock(&e->lock);
}

bool dcd_pressed(struct dcd_engine *e)
{
	struct dcd_level ring;

	spin_lock(&e->lock);
	ring = ring_level(e);
	/* What only waits for the superblock's other copy is no work for the destager. */
	ring.used = ring.size - free_with(e, e->tail);
	spin_unlock(&e->lock);
	return dcd_level_above(&ring, ring.low);
}

static struct dcd_level ring_now(struct dcd_engine *e)
{
	struct dcd_level ring;

	spin_lock(&e->lock);
	ring = ring_level(e);
	spin_unlock(&e->lock);
	return ring;
}

bool dcd_ring_pressed(struct dcd_engine *e)
{
	struct dcd_level ring = ring_now(e);

	return dcd_level_above(&ring, ring.low);
}

bool dcd_ring_tight(struct dcd_engine *e)
{
	struct dcd_level ring = ring_now(e);

	return dcd_level_above(&ring, ring.high);
}

/* However tightly they are packed. */
bool dcd_ring_of_zeroes(struct dcd_engine *e)
{
	struct dcd_level ring = ring_now(e);

	ring.used = DIV_ROUND_UP(READ_ONCE(e->zeroes), dcd_table_places(e));
	return dcd_level_above(&ring, ring.low / 2) && !test_knob(zeroes_stay);
}

bool dcd_log_pressed(struct dcd_engine *e)
{
	struct dcd_level nvram;

	spin_lock(&e->lock);
	nvram = nvram_level(e);
	spin_unlock(&e->lock);
	return dcd_level_above(&nvram, nvram.low);
}

/*
 * How long a part of the turn will take, with what comes in until the sweep is there: at its
 * end as much more as the room allows, half of it on the average, and less of it before.
 */
static u64 with_what_comes(u64 us, u64 whole, u64 used, u64 room)
{
	u64 more = min(div64_u64(room * 128, max(used, 1ULL)), 256 * DENSER_MOST);

	us = min(us, FORESEEN_MOST);
	return us + div64_u64(us * us, max3(us, whole, 1ULL)) * more / 256;
}

/*
 * Of the marks, the one until which least room is left for each moment; and the end
 * of a whole turn from now on, when all that is committed now is free.
 */
void dcd_foresee(struct dcd_engine *e)
{
	const struct dcd_sweep *s = &e->sweep;
	u64 size = dcd_sectors(e), way = s->turn + s->at, worst = 0, free, used, room, us, whole;
	bool known = dcd_turn_foresee(&e->turn, size);
	ktime_t now = ktime_get();
	unsigned int i;

	whole = dcd_with_zeroes(e, dcd_turn_us(&e->turn, s->at, size));
	spin_lock(&e->lock);
	e->foreseen = known && s->n && (!s->past_log || (e->keeps && !dcd_is_leaving(e)));
	free = e->tail;
	used = e->head - free;
	room = room_until(e, free);
	for (i = 0; i < s->n && e->foreseen; i++) {
		u64 end = s->marks[i].way + size, each;

		us = end > way ? dcd_with_zeroes(e, dcd_turn_us(&e->turn, s->at, end - way)) : 0;
		if (!s->past_log)	/* there it is for what was there when it began */
			us = with_what_comes(us, whole, used, room);
		each = div64_u64(us, max(room_until(e, free), 1ULL));
		if (!i || each > worst) {
			worst = each;
			e->next_room.when = ktime_add_us(now, us);
			e->next_room.target = free;
		}
		free = s->marks[i].target;
	}
	us = with_what_comes(whole, whole, used, room);
	e->turn_end.when = ktime_add_us(now, us);
	e->turn_end.target = free;
	spin_unlock(&e->lock);
}

void dcd_foresee_nothing(struct dcd_engine *e)
{
	spin_lock(&e->lock);
	e->foreseen = false;
	spin_unlock(&e->lock);
}
