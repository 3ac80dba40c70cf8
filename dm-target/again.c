// SPDX-License-Identifier: GPL-2.0-only
#include "again.h"

#include <linux/jiffies.h>
#include <linux/ktime.h>

#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, again_at_once, "as many reads are tried again at once as there is memory for");
TEST_KNOB(bool, again_apart, "what other mirrors try again isn't counted");
TEST_KNOB(bool, again_stuck, "what is tried again is counted for as long as a leg hangs");

/* Of all remote legs. */
static struct {
	struct again_bound bound;
	struct list_head turns;		/* with bound.lock; the oldest first */
} host = {
	.bound = {
		.room = __WAIT_QUEUE_HEAD_INITIALIZER(host.bound.room),
		.lock = __SPIN_LOCK_UNLOCKED(host.bound.lock),
		.waiting = LIST_HEAD_INIT(host.bound.waiting),
		.limit = AGAIN_FIRST,
	},
	.turns = LIST_HEAD_INIT(host.turns),
};

void again_init(struct mirror *m)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		init_waitqueue_head(&m->again[leg].room);
		spin_lock_init(&m->again[leg].lock);
		INIT_LIST_HEAD(&m->again[leg].waiting);
		m->again[leg].limit = AGAIN_FIRST;
	}
}

static bool room(const struct again_bound *b, const struct again_turn *turn)
{
	if (test_knob(again_at_once))
		return true;
	return list_first_entry(&b->waiting, struct again_turn, link) == turn &&
	       (!b->bytes || b->bytes + turn->bytes <= b->limit);
}

static bool host_room(const struct again_turn *turn)
{
	struct again_turn *oldest;

	while (!list_empty(&host.turns) && !test_knob(again_stuck)) {
		oldest = list_first_entry(&host.turns, struct again_turn, link);
		if (ktime_get_ns() - oldest->began < AGAIN_STUCK)
			break;
		list_del_init(&oldest->link);
		host.bound.bytes -= oldest->bytes;
	}
	return room(&host.bound, turn);
}

static void enter_host(const struct leg *leg, struct again_turn *turn)
{
	spin_lock_irq(&host.bound.lock);
	list_add_tail(&turn->link, &host.bound.waiting);
	/* Nobody wakes for one that has become stuck, or for a leg that has died. */
	while (!wait_event_lock_irq_timeout(host.bound.room,
					    host_room(turn) || READ_ONCE(leg->dead),
					    host.bound.lock, HZ))
		;
	host.bound.bytes += turn->bytes;
	turn->began = ktime_get_ns();
	list_move_tail(&turn->link, &host.turns);
	spin_unlock_irq(&host.bound.lock);
	wake_up_all(&host.bound.room);	/* there may be room for the next one */
}

void again_enter(struct mirror *m, enum leg_id leg, struct again_turn *turn, unsigned int bytes)
{
	struct again_bound *own = &m->again[leg];

	turn->bytes = bytes;
	spin_lock_irq(&own->lock);
	list_add_tail(&turn->link, &own->waiting);
	/* A queue of minutes is no hung task. */
	while (!wait_event_lock_irq_timeout(own->room, room(own, turn), own->lock, HZ))
		;
	own->bytes += bytes;
	list_del_init(&turn->link);
	spin_unlock_irq(&own->lock);
	wake_up_all(&own->room);
	turn->began = ktime_get_ns();
	if (leg == LEG_REMOTE && !test_knob(again_apart))
		enter_host(&m->legs[leg], turn);
}

static void follow(struct again_bound *b, unsigned int bytes, bool late)
{
	bool others = !list_empty(&b->waiting);

	if (!b->bytes && !others)
		b->limit = AGAIN_FIRST;
	else if (late)
		b->limit = max(b->limit / 2, AGAIN_FIRST);
	else if (others)
		b->limit = min(b->limit + bytes, AGAIN_MOST);
}

void again_leave(struct mirror *m, enum leg_id leg, struct again_turn *turn)
{
	unsigned int ms = READ_ONCE(m->options.timeout[leg]) ?: REMOTE_TIMEOUT_DEFAULT;
	bool late = ktime_get_ns() - turn->began > (u64)ms * NSEC_PER_MSEC / WINDOW_PART;
	struct again_bound *own = &m->again[leg];

	spin_lock_irq(&host.bound.lock);
	if (!list_empty(&turn->link)) {
		list_del(&turn->link);
		host.bound.bytes -= turn->bytes;
		follow(&host.bound, turn->bytes, late);
	}
	spin_unlock_irq(&host.bound.lock);
	wake_up_all(&host.bound.room);

	spin_lock_irq(&own->lock);
	own->bytes -= turn->bytes;
	follow(own, turn->bytes, late);
	spin_unlock_irq(&own->lock);
	wake_up_all(&own->room);
}
