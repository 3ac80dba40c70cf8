// SPDX-License-Identifier: GPL-2.0-only
#include "budget.h"

#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"
#include "zero.h"

TEST_KNOB(bool, no_budget, "the memory of writes has no bound");
TEST_KNOB(bool, no_background, "background writes are like all others");
TEST_KNOB(bool, front_unbound, "small and large writes are let in if there is memory");
TEST_KNOB(bool, front_stays, "what small and large writes may have is learnt once, whatever leg comes back");
TEST_KNOB(bool, keeps_unserved, "a noflush suspend waits for what waits for memory");
TEST_KNOB(bool, no_least, "the live part is promised nothing");
TEST_KNOB(bool, closed_floods, "nobody sleeps while the device is being suspended");
TEST_KNOB(bool, zeroes_small, "of zeroings their sectors count, and not how many they are");
TEST_KNOB(bool, worker_sleeps, "dm's worker sleeps for memory, or until a zeroing is let in");
TEST_KNOB(bool, zeroes_unbound, "zeroings are let in whatever they zero");
TEST_KNOB(bool, left_first, "who sleeps waits behind all bios for which nobody does");
TEST_KNOB(bool, sleeps_on, "whoever waits for memory sleeps until it is there");

/* A suspend waits for whoever sleeps in .map, and can't be interrupted there. */
#define CLOSED_PATIENCE	(5 * HZ)

/* Answers that end a probe: the first may have waited for what was there before. */
#define PROBE_ANSWERS	4

static unsigned int host_memory_kib;
module_param(host_memory_kib, uint, 0644);
MODULE_PARM_DESC(host_memory_kib, "KiB for writes in flight of all mirrors together, 0 = 4 % of memory");

/* All mirrors of the host. */
static atomic_long_t host_used;
static bool host_short;			/* somebody waits for the host's */
static DEFINE_SPINLOCK(host_lock);	/* the list; outside of a budget's lock */
static LIST_HEAD(host_budgets);
static struct workqueue_struct *host_wq;

/* A percentage of the machine's memory. */
static size_t share_of_memory(unsigned int percent)
{
	return (size_t)(totalram_pages() / 100 * percent) << PAGE_SHIFT;
}

static size_t limit_of(unsigned int kib)
{
	if (kib)
		return max_t(size_t, (size_t)kib << 10, BUDGET_LEAST);
	return clamp_t(size_t, share_of_memory(BUDGET_PERCENT), BUDGET_MIN, BUDGET_MAX);
}

static size_t host_limit(void)
{
	unsigned int kib = READ_ONCE(host_memory_kib);

	return kib ? (size_t)kib << 10 : max_t(size_t, share_of_memory(HOST_PERCENT), HOST_MIN);
}

static size_t cost(unsigned int sectors)
{
	return sizeof(struct write) + round_up((size_t)sectors << SECTOR_SHIFT, PAGE_SIZE);
}

static bool host_try(size_t bytes)
{
	long used = atomic_long_read(&host_used), limit = host_limit();

	do {
		if (used + (long)bytes > limit)
			return false;
	} while (!atomic_long_try_cmpxchg(&host_used, &used, used + bytes));
	return true;
}

static bool host_take(size_t bytes)
{
	if (host_try(bytes))
		return true;
	/* Who gives back after our next look sees that somebody waits. */
	WRITE_ONCE(host_short, true);
	smp_mb();	/* pairs with host_give(), and host_serve() */
	return host_try(bytes);
}

static size_t live(const struct budget *b)
{
	return b->used - b->stuck;
}

static size_t background_limit(const struct budget *b)
{
	return test_knob(no_background) ? b->limit : min(b->window, b->limit / 2);
}

/* What those of a class may have at once, if there is memory. */
static size_t most(const struct budget *b, enum budget_class class)
{
	switch (class) {
	case BUDGET_SMALL:
	case BUDGET_LARGE:
		return test_knob(front_unbound) ? SIZE_MAX : b->fronts[class].window;
	case BUDGET_BACKGROUND:
		return test_knob(no_budget) ? SIZE_MAX : background_limit(b);
	case BUDGET_ZEROINGS:
		return test_knob(zeroes_unbound) ? SIZE_MAX : BUDGET_ZEROES;
	default:
		return SIZE_MAX;
	}
}

/* Takes it if it fits. */
static bool take(struct budget *b, struct budget_share *share)
{
	size_t bytes = share->bytes, counts = share->zeroes ?: bytes;
	size_t *has = &b->live[share->class];
	bool least = live(b) + bytes <= BUDGET_LEAST || !*has;

	lockdep_assert_held(&b->lock);

	if (*has && *has + counts > most(b, share->class))
		return false;
	if (test_knob(no_budget) || (least && !test_knob(no_least)))
		atomic_long_add(bytes, &host_used);
	else if (b->used + bytes > b->limit || !host_take(bytes))
		return false;

	b->used += bytes;
	*has += counts;
	share->granted = true;
	return true;
}

static bool is_empty(const struct budget_queue *queue)
{
	return list_empty(&queue->sleepers) && list_empty(&queue->left);
}

/* Whose turn is it? NULL: nobody waits. */
static struct budget_share *next_of(struct budget_queue *queue)
{
	bool left = !list_empty(&queue->left) &&
		    (queue->lefts_turn || test_knob(left_first) || list_empty(&queue->sleepers));

	return list_first_entry_or_null(left ? &queue->left : &queue->sleepers,
					struct budget_share, list);
}

/* Serves one queue. True if there is a bio for the worker. */
static bool serve(struct budget *b, enum budget_class class)
{
	struct budget_queue *queue = &b->queues[class];
	struct budget_share *share;
	bool ready = false;

	while ((share = next_of(queue))) {
		if (!take(b, share))
			break;
		queue->lefts_turn = share->task;
		list_del(&share->list);
		b->waiting--;
		if (share->task) {
			/* It takes the lock before it leaves, so it is there still. */
			wake_up_process(share->task);
		} else {
			bio_list_add(&b->ready, share->bio);
			ready = true;
		}
	}
	return ready;
}

static struct mirror *mirror_of(struct budget *b)
{
	return container_of(b, struct mirror, writes.budget);
}

/*
 * Those of which nothing is live come first, so that they get on, too: what others have given back
 * is not to be taken by new ones for ever.
 */
static void serve_all(struct budget *b)
{
	bool ready = false, front = false;
	enum budget_class class;

	lockdep_assert_held(&b->lock);
	if (likely(!b->waiting))
		return;
	for (class = 0; class < BUDGET_CLASSES; class++)
		if (!b->live[class])
			ready |= serve(b, class);
	for (class = 0; class < BUDGET_CLASSES; class++) {
		if (class < BUDGET_BACKGROUND || !front)
			ready |= serve(b, class);
		if (class < BUDGET_BACKGROUND)
			front |= !is_empty(&b->queues[class]);
	}
	if (ready)
		writes_kick_starved(mirror_of(b));
}

static void host_serve(struct work_struct *work)
{
	struct budget *b;

	WRITE_ONCE(host_short, false);
	smp_mb();	/* pairs with host_take() */
	spin_lock(&host_lock);
	list_for_each_entry(b, &host_budgets, host) {
		spin_lock_irq(&b->lock);
		serve_all(b);
		spin_unlock_irq(&b->lock);
	}
	spin_unlock(&host_lock);
}

static DECLARE_WORK(host_work, host_serve);

static void host_give(size_t bytes)
{
	atomic_long_sub_return(bytes, &host_used);	/* a full barrier: see host_take() */
	if (unlikely(READ_ONCE(host_short)))
		queue_work(host_wq, &host_work);
}

static unsigned int zeroes_of(const struct bio *bio)
{
	unsigned int least = test_knob(zeroes_small) ? 1 : ZEROES_LEAST;

	return bio_op(bio) == REQ_OP_DISCARD || bio_op(bio) == REQ_OP_WRITE_ZEROES ?
	       max(bio_sectors(bio), least) : 0;
}

static enum budget_class class_of(const struct bio *bio, unsigned int sectors)
{
	if (zeroes_of(bio))
		return BUDGET_ZEROINGS;
	if (!sectors)
		return BUDGET_FLUSHES;
	if (!(bio->bi_opf & (REQ_SYNC | REQ_FUA | REQ_PREFLUSH | REQ_META | REQ_PRIO | REQ_SWAP)))
		return BUDGET_BACKGROUND;
	return sectors <= WINDOW_SMALL >> SECTOR_SHIFT ? BUDGET_SMALL : BUDGET_LARGE;
}

/* What waits goes back to dm, and so does whatever comes yet. */
static bool may_not_sleep(const struct budget *b)
{
	return b->gives_back || (b->closed && test_knob(closed_floods));
}

/* True if the share is ours; else the bio waits without us. */
static bool sleep_for(struct budget *b, struct budget_share *share)
{
	bool granted, closed, left = false, late = false;

	for (;;) {
		set_current_state(test_knob(sleeps_on) ? TASK_UNINTERRUPTIBLE : TASK_KILLABLE);
		spin_lock_irq(&b->lock);
		granted = share->granted;
		closed = b->closed;
		if (!granted && !test_knob(sleeps_on) &&
		    (late || may_not_sleep(b) || fatal_signal_pending(current))) {
			share->task = NULL;
			list_move_tail(&share->list, &b->queues[share->class].left);
			left = true;
		}
		spin_unlock_irq(&b->lock);
		if (granted || left)
			break;
		if (closed)
			late = !io_schedule_timeout(CLOSED_PATIENCE);
		else
			io_schedule();
	}
	__set_current_state(TASK_RUNNING);
	return granted;
}

/*
 * What came while a mapped device was suspended, this one or one above it, is mapped by dm's worker
 * afterwards. Any other one may sleep: the kernel's flusher is one, with all dirty pages. There is
 * nothing but the name to know dm's by; where that has changed it sleeps.
 */
static bool is_dms_worker(void)
{
	static const char name[] = "dm_wq_work";
	struct work_struct *work = current_work();
	char func[sizeof(name)];

	if (!work || test_knob(worker_sleeps))
		return false;
	snprintf(func, sizeof(func), "%ps", work->func);
	return !strcmp(func, name);
}

static const struct front_rule {
	unsigned int slow;		/* ms */
	size_t first, least, most;
} front_rules[] = {
	[BUDGET_SMALL] = { 2000, 256 << 10, 128 << 10, 16 << 20 },
	[BUDGET_LARGE] = { 8000, 4 << 20, 1 << 20, SIZE_MAX },
};

static bool is_windowed(enum budget_class class)
{
	return class == BUDGET_SMALL || class == BUDGET_LARGE;
}

static void forget(struct budget *b, enum budget_class class)
{
	b->fronts[class].window = front_rules[class].first;
	b->fronts[class].fastest = 0;
	b->fronts[class].since = ktime_get_ns();
}

static void forget_idle(struct budget *b, enum budget_class class)
{
	if (!b->live[class] && ktime_get_ns() - b->fronts[class].idle > FRONT_IDLE)
		forget(b, class);
}

bool budget_enter(struct mirror *m, struct bio *bio, unsigned int sectors)
{
	struct budget_share *share = &mirror_io(bio)->share;
	struct budget *b = &m->writes.budget;
	struct budget_queue *queue;
	bool sleeps = false, front;

	*share = (struct budget_share) {
		.bio = bio,
		.bytes = cost(sectors),
		.class = class_of(bio, sectors),
		.zeroes = zeroes_of(bio),
	};
	queue = &b->queues[share->class];
	front = share->class < BUDGET_BACKGROUND;

	spin_lock_irq(&b->lock);
	if (is_windowed(share->class))
		forget_idle(b, share->class);
	if (likely(is_empty(queue) && take(b, share))) {
		spin_unlock_irq(&b->lock);
		return true;
	}
	if (!may_not_sleep(b) && !(current->flags & PF_MEMALLOC) && !is_dms_worker()) {
		share->task = current;
		sleeps = true;
	}
	list_add_tail(&share->list, sleeps ? &queue->sleepers : &queue->left);
	b->waiting++;
	spin_unlock_irq(&b->lock);

	count(&m->counters, front ? COUNT_BUDGET_WAITED : COUNT_BUDGET_BACKGROUND);
	if (sleeps && sleep_for(b, share))
		return true;
	count(&m->counters, COUNT_BUDGET_LEFT);
	if (READ_ONCE(b->gives_back))
		writes_kick_starved(m);
	return false;
}

struct bio *budget_pop(struct budget *b)
{
	struct bio *bio;

	spin_lock_irq(&b->lock);
	bio = bio_list_pop(&b->ready);
	spin_unlock_irq(&b->lock);
	return bio;
}

struct bio *budget_unserved(struct budget *b)
{
	struct budget_share *share;
	enum budget_class class;
	struct bio *bio = NULL;

	spin_lock_irq(&b->lock);
	for (class = BUDGET_ZEROINGS; class >= BUDGET_SMALL && b->gives_back && !bio; class--) {
		if (list_empty(&b->queues[class].left))
			continue;
		share = list_last_entry(&b->queues[class].left, struct budget_share, list);
		list_del(&share->list);
		b->waiting--;
		bio = share->bio;
	}
	spin_unlock_irq(&b->lock);
	return bio;
}

void budget_move(struct write *w, struct bio *bio)
{
	const struct budget_share *share = &mirror_io(bio)->share;

	w->charged = share->bytes;
	w->class = share->class;
	w->stuck = false;
	w->zeroes = share->zeroes;
	w->admitted = ktime_get_ns();
}

static size_t one_largest(void)
{
	return cost(IO_MAX_SECTORS);
}

static u64 goal(const struct budget *b)
{
	return b->fastest + clamp_t(u64, b->fastest, BACKGROUND_SLACK_MIN, BACKGROUND_SLACK_MAX);
}

static void probe(struct budget *b, u64 now)
{
	b->probed = now;
	b->parked = b->window;
	b->heard = 0;
	b->fastest = 0;
	b->window = one_largest();
}

static void forget_all(struct budget *b)
{
	forget(b, BUDGET_SMALL);
	forget(b, BUDGET_LARGE);
	b->window = one_largest();
	probe(b, ktime_get_ns());
}

void budget_rejoins(struct budget *b, bool rejoins)
{
	unsigned long flags;

	if (test_knob(front_stays))
		return;
	spin_lock_irqsave(&b->lock, flags);
	if (rejoins || b->rejoins)
		forget_all(b);
	b->rejoins = rejoins;
	spin_unlock_irqrestore(&b->lock, flags);
}

/* A small or a large write is back. */
static void follow_front(struct budget *b, const struct write *w, u64 now)
{
	const struct front_rule *rule = &front_rules[w->class];
	u64 ms = div_u64(now - w->admitted, NSEC_PER_MSEC), slow;
	struct budget_front *front = &b->fronts[w->class];
	size_t old = front->window;

	front->idle = now;
	if (w->admitted < front->since)
		return;
	if (!front->fastest || ms < front->fastest || (ms > rule->slow && old <= rule->least))
		front->fastest = max(ms, 1ull);
	slow = max_t(u64, rule->slow, 4 * front->fastest);
	if (ms > slow) {
		front->window = max_t(size_t, div64_u64((u64)old * slow, ms), rule->least);
		front->since = now;
	} else if (ms < slow / 2 && !is_empty(&b->queues[w->class]) && !b->rejoins) {
		front->window = min3(old + w->charged, b->limit / 2, rule->most);
	}
	if (front->window != old)
		trace_lockstep_front(w->m, front->window, b->live[w->class], now - w->admitted);
}

/* A background write with data is back. */
static void follow(struct budget *b, const struct write *w, u64 now)
{
	u64 took = now - w->admitted;
	size_t old = b->window;

	if (!b->parked && now - b->probed > BACKGROUND_PROBE) {
		probe(b, now);
		return;
	}
	if (b->parked) {
		/* What was there before tells nothing of a leg without a queue. */
		if (w->admitted < b->probed)
			return;
		if (!b->fastest || took < b->fastest)
			b->fastest = took;
		if (++b->heard < PROBE_ANSWERS && !is_empty(&b->queues[BUDGET_BACKGROUND]))
			return;
		b->window = b->parked;
		b->parked = 0;
		b->shrunk = now;
		return;
	}
	if (took < b->fastest)
		b->fastest = took;
	if (took > goal(b)) {
		/* It has seen a longer queue than there is now. */
		if (w->admitted < b->shrunk)
			return;
		b->window = max(b->window - b->window / 4, one_largest());
		b->shrunk = now;
	} else if (!is_empty(&b->queues[BUDGET_BACKGROUND]) && !b->rejoins) {
		b->window = min(b->window + w->charged / 8, b->limit / 2);
	}
	if (b->window != old)
		trace_lockstep_background(w->m, b->window, b->live[BUDGET_BACKGROUND], took);
}

void budget_stuck(struct write *w)
{
	struct budget *b = &w->m->writes.budget;
	unsigned long flags;

	spin_lock_irqsave(&b->lock, flags);
	w->stuck = true;
	b->stuck += w->charged;
	b->live[w->class] -= w->zeroes ?: w->charged;
	serve_all(b);
	spin_unlock_irqrestore(&b->lock, flags);
}

void budget_leave(struct write *w)
{
	struct budget *b = &w->m->writes.budget;
	size_t bytes = w->charged;
	u64 now = ktime_get_ns();
	unsigned long flags;

	spin_lock_irqsave(&b->lock, flags);
	b->used -= bytes;
	if (unlikely(w->stuck)) {
		b->stuck -= bytes;
	} else {
		b->live[w->class] -= w->zeroes ?: bytes;
		if (is_windowed(w->class))
			follow_front(b, w, now);
		else if (w->class == BUDGET_BACKGROUND && w->kind == WRITE_DATA)
			follow(b, w, now);
	}
	host_give(bytes);
	serve_all(b);
	spin_unlock_irqrestore(&b->lock, flags);
}

void budget_set(struct mirror *m, unsigned int kib)
{
	struct budget *b = &m->writes.budget;

	spin_lock_irq(&b->lock);
	b->limit = limit_of(kib);
	serve_all(b);
	spin_unlock_irq(&b->lock);
}

/* Who sleeps leaves; the bios stay in the queue. */
static void wake_all(struct budget_queue *queue)
{
	struct budget_share *share;

	list_for_each_entry(share, &queue->sleepers, list)
		wake_up_process(share->task);
}

void budget_close(struct mirror *m, bool noflush)
{
	struct budget *b = &m->writes.budget;
	enum budget_class class;

	spin_lock_irq(&b->lock);
	b->closed = true;
	b->gives_back = noflush && !test_knob(keeps_unserved);
	for (class = 0; class < BUDGET_CLASSES; class++)
		wake_all(&b->queues[class]);
	spin_unlock_irq(&b->lock);
	writes_kick_starved(m);
}

void budget_open(struct budget *b)
{
	spin_lock_irq(&b->lock);
	b->closed = false;
	b->gives_back = false;
	if (!test_knob(front_stays))
		forget_all(b);
	spin_unlock_irq(&b->lock);
}

void budget_tell(struct budget *b, struct budget_told *told)
{
	unsigned long flags;

	spin_lock_irqsave(&b->lock, flags);
	*told = (struct budget_told) {
		.used = b->used,
		.limit = b->limit,
		.waiting = b->waiting,
	};
	spin_unlock_irqrestore(&b->lock, flags);
}

void budget_init(struct budget *b, unsigned int kib)
{
	enum budget_class class;

	spin_lock_init(&b->lock);
	for (class = 0; class < BUDGET_CLASSES; class++)
		b->queues[class] = (struct budget_queue) {
			.sleepers = LIST_HEAD_INIT(b->queues[class].sleepers),
			.left = LIST_HEAD_INIT(b->queues[class].left),
		};
	bio_list_init(&b->ready);
	b->limit = limit_of(kib);
	b->window = one_largest();
	forget(b, BUDGET_SMALL);
	forget(b, BUDGET_LARGE);
	spin_lock(&host_lock);
	list_add(&b->host, &host_budgets);
	spin_unlock(&host_lock);
}

void budget_end(struct budget *b)
{
	WARN_ON_ONCE(b->used || b->waiting);
	spin_lock(&host_lock);
	list_del(&b->host);
	spin_unlock(&host_lock);
}

int budget_module_init(void)
{
	host_wq = alloc_workqueue("lockstep-budget", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return host_wq ? 0 : -ENOMEM;
}

void budget_module_exit(void)
{
	destroy_workqueue(host_wq);
}
