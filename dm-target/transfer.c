// SPDX-License-Identifier: GPL-2.0-only
#include "transfer.h"

#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "lockstep-format.h"
#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "message.h"
#include "mirror.h"

TEST_KNOB(bool, one_at_a_time, "pages of the map are written one after the other");
TEST_KNOB(bool, each_waits, "each of several writes that hang is waited for by itself");
TEST_KNOB(bool, looks_on, "a join reads the leg that is alive, however long that hangs");
TEST_KNOB(bool, resume_waits, "a resume waits for a leg that nobody stands in for");
TEST_KNOB(bool, unwatched_waits, "what goes to a leg that nobody watches, the table being suspended, waits");
TEST_KNOB(bool, one_start, "a start waits for an answer as long as the first time");
TEST_KNOB(bool, errors_differ, "what a device answers is told from other errors of it");
TEST_KNOB(int, answers, "a write that fails has this status (blk_types.h)");
TEST_KNOB(bool, silence_holds, "a suspend waits for a leg that doesn't answer, whatever for");

/* One with pages of its own. */
struct owned {
	struct transfer t;
	struct list_head link;		/* in a transfer_run's */
	unsigned int bytes;		/* likewise */
	unsigned int nr_pages;
	struct page *pages[];
};

static void free_owned(void *element, void *data)
{
	struct owned *o = element;

	while (o->nr_pages)
		__free_page(o->pages[--o->nr_pages]);
	kfree(o);
}

static void *alloc_owned(gfp_t gfp, void *data)
{
	unsigned long nr = (unsigned long)data;
	struct owned *o = kzalloc(struct_size(o, pages, nr), gfp);

	if (!o)
		return NULL;
	while (o->nr_pages < nr) {
		o->pages[o->nr_pages] = alloc_page(gfp);
		if (!o->pages[o->nr_pages]) {
			free_owned(o, data);
			return NULL;
		}
		o->nr_pages++;
	}
	return o;
}

/*
 * A chunk that was to be read by a resync or a verify that has ended, or what a message needs that
 * a suspend waits for.
 */
static bool is_needless(const struct transfer *t)
{
	bool over = t->m->closed || (t->wanted && !READ_ONCE(*t->wanted));
	bool chunk = !t->pool && !op_is_write(bio_op(&t->bio));

	return ((over && chunk) || (t->m->closed && t->told) ||
		(t->looks && (t->m->join_off || t->m->closed))) && !test_knob(silence_holds);
}

/*
 * May it use its leg? A dead one only for a join that is to go on. One that doesn't answer and
 * can't be given up not for what nobody needs, and for nothing once only a suspend needs it.
 */
static bool usable(const struct transfer *t)
{
	const struct mirror *m = t->m;
	const struct leg *l = &m->legs[t->leg];

	lockdep_assert_held(&m->lock);
	if (l->dead)
		return t->joins && l->joiner && !m->join_off && !m->closed;
	return !(l->silent && (is_needless(t) || (m->quiet && !test_knob(silence_holds))));
}

/* Under the state lock. */
static void put(struct transfer *t)
{
	if (!--t->users && t->pool)
		mempool_free(container_of(t, struct owned, t), t->pool);
}

static void abandon(struct transfer *t)
{
	lockdep_assert_held(&t->m->lock);
	list_del(&t->link);
	t->abandoned = true;
	t->status = BLK_STS_TIMEOUT;
	t->ended = jiffies;
	if (sender_take_back(&t->m->legs[t->leg].sender, &t->item)) {
		/* It has never been sent: there is nothing to return. */
		bio_uninit(&t->bio);
		t->out = false;
		put(t);
	} else {
		writes_other_abandoned(t->m, t->leg);
		t->late = bio_has_data(&t->bio) && op_is_write(bio_op(&t->bio)) &&
			  !t->m->legs[t->leg].dead;
		t->m->transfers.late[t->leg] += t->late;
	}
	complete(&t->done);
}

void transfers_abandon(struct mirror *m)
{
	struct transfer *t, *next;

	lockdep_assert_held(&m->lock);
	list_for_each_entry_safe(t, next, &m->transfers.waited, link)
		if (!usable(t))
			abandon(t);
}

bool transfers_late(struct mirror *m)
{
	unsigned long flags;
	enum leg_id leg;
	bool late = false;

	spin_lock_irqsave(&m->lock, flags);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		late |= !m->legs[leg].dead && m->transfers.late[leg];
	spin_unlock_irqrestore(&m->lock, flags);
	return late;
}

static void transfer_done(struct bio *bio)
{
	struct transfer *t = bio->bi_private;
	struct mirror *m = t->m;
	enum leg_id leg = t->leg;
	unsigned long flags;
	bool abandoned;

	sender_returned(&m->legs[leg].sender, &t->item);
	bio_uninit(bio);

	/* Whoever waits takes this lock before it lets anything go. */
	spin_lock_irqsave(&m->lock, flags);
	abandoned = t->abandoned;
	t->out = false;
	m->transfers.late[leg] -= t->late;
	if (!abandoned) {
		list_del(&t->link);
		t->ns = ktime_to_ns(ktime_sub(ktime_get(), t->began));
		t->ended = jiffies;
		t->status = bio->bi_status;
		if (t->status && op_is_write(bio_op(bio)) && test_knob(answers))
			t->status = (__force blk_status_t)test_knob(answers);
		complete(&t->done);
	}
	put(t);
	spin_unlock_irqrestore(&m->lock, flags);
	if (abandoned)
		writes_other_returned(m, leg);
}

bool transfer_init(struct transfer *t, struct mirror *m, enum leg_id leg, blk_opf_t opf,
		   sector_t sector)
{
	bool out;

	spin_lock_irq(&m->lock);
	out = t->out;
	spin_unlock_irq(&m->lock);
	if (out)
		return false;

	t->m = m;
	t->leg = leg;
	t->sector = sector;
	t->wanted = NULL;
	t->ns = 0;
	t->users = 2;
	t->abandoned = false;
	t->late = false;
	init_completion(&t->done);
	/* The sender's plug mustn't make one request of several chunks: their size is chosen. */
	bio_init(&t->bio, leg_bdev(&m->legs[leg]), t->vecs, IO_MAX_PAGES, opf | REQ_NOMERGE);
	t->bio.bi_iter.bi_sector = sector;
	t->bio.bi_private = t;
	t->bio.bi_end_io = transfer_done;
	return true;
}

static void send_transfer(struct sender_item **items, unsigned int nr)
{
	submit_bio(&container_of(items[0], struct transfer, item)->bio);
}

/* Nothing to drop: transfers_abandon() takes them back. */
static const struct sender_ops transfer_ops = { .send = send_transfer };

void transfer_submit(struct transfer *t)
{
	struct mirror *m = t->m;
	struct leg *l = &m->legs[t->leg];

	t->began = ktime_get();
	sender_item_init(&t->item, &transfer_ops);
	spin_lock_irq(&m->lock);
	t->joins = l->joiner == current;
	t->looks = m->legs[other_leg(t->leg)].joiner == current &&
		   !op_is_write(bio_op(&t->bio)) && !test_knob(looks_on);
	t->told = message_brought(m);
	t->out = usable(t);
	if (t->out) {
		list_add(&t->link, &m->transfers.waited);
	} else {
		t->abandoned = true;	/* before it began */
		t->status = BLK_STS_TIMEOUT;
		t->ended = jiffies;
		complete(&t->done);
		put(t);
	}
	/* Under the lock: who abandons it either finds it in its lane, or out. */
	if (t->out)
		sender_give_one(&l->sender, op_is_sync(t->bio.bi_opf) ? LANE_URGENT : LANE_LATER,
				&t->item);
	spin_unlock_irq(&m->lock);
}

/*
 * Is it the transfer's own business to end, as its leg isn't watched, or the watch only gives up a
 * leg that somebody stands in for? One that only a join uses isn't, nor what a join reads of the
 * other one, nor any before the first start, nor while the table is suspended or being resumed.
 * Under the state lock.
 */
static bool is_unwatched(const struct transfer *t)
{
	const struct mirror *m = t->m;

	return m->legs[t->leg].dead || !m->ran || t->looks ||
	       (m->resuming && !test_knob(resume_waits)) ||
	       (!m->watch.runs && !test_knob(unwatched_waits));
}

/*
 * What others have given the link to carry comes before our answer, each time: so a start that was
 * too late waits longer the next time, as a join does. In ms.
 */
static unsigned int start_patience(const struct mirror *m, unsigned int ms)
{
	if (ms >= START_MS_MOST || test_knob(one_start))
		return ms;
	return min(ms << min(READ_ONCE(m->start_late), 3U), START_MS_MOST);
}

/* How long it may take, if nobody gives the leg up; jiffies. */
static unsigned long patience(const struct transfer *t)
{
	const struct mirror *m = t->m;
	unsigned int ms = READ_ONCE(m->options.timeout[t->leg]);

	if (t->looks && !m->join_needs)
		return LOOK_SECONDS * HZ;
	if (READ_ONCE(m->legs[t->leg].dead) || t->looks)
		return JOIN_SECONDS * HZ;
	if (!m->ran)
		return ms ? msecs_to_jiffies(start_patience(m, ms)) : MAX_SCHEDULE_TIMEOUT;
	/* The watch comes first, should somebody stand in for that leg (watch.h). */
	if (ms && READ_ONCE(m->resuming))
		ms = start_patience(m, ms) + ms / 8 + 2 * ASK_MS;
	return msecs_to_jiffies(ms ?: WATCH_TELLS_MS);
}

/* A join's, which has waited for @passed jiffies: is that no longer than it may, this time? */
static bool is_early(const struct transfer *t, unsigned long passed)
{
	const struct mirror *m = t->m;
	bool joins = READ_ONCE(m->legs[t->leg].dead) || (t->looks && m->join_needs);

	return joins && !atomic_read(&m->join_wanted) &&
	       passed < READ_ONCE(m->join_seconds) * HZ;
}

static bool give_up(struct transfer *t, bool unwatched)
{
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&t->m->lock, flags);
	late = t->out && !t->abandoned && (!unwatched || is_unwatched(t));
	if (late)
		abandon(t);
	spin_unlock_irqrestore(&t->m->lock, flags);
	return late;
}

static void too_late(struct transfer *t, unsigned long passed)
{
	struct mirror *m = t->m;
	const struct leg *l = &m->legs[t->leg];

	if (!give_up(t, true))
		return;
	if (!m->ran || READ_ONCE(m->resuming))
		WRITE_ONCE(m->start_late, m->start_late + 1);
	if (!l->dead)
		DMWARN("%s: the %s leg (%s) has not answered for %u ms",
		       dm_table_device_name(m->ti->table), leg_name(l->id), leg_path(l),
		       jiffies_to_msecs(passed));
}

/* Of whatever a device says only that: else one of them would be what this code means by it. */
static int error_of(const struct transfer *t)
{
	lockdep_assert_held(&t->m->lock);
	if (test_knob(errors_differ))
		return blk_status_to_errno(t->status);
	return !t->status ? 0 : t->abandoned ? -ETIMEDOUT : -EIO;
}

int transfer_wait(struct transfer *t)
{
	struct mirror *m = t->m;
	struct leg *l = &m->legs[t->leg];
	unsigned long most = patience(t), began = jiffies, slice = most;
	blk_status_t status;
	bool tell;
	int r;

	/* Once it is watched, the watch ends it, or nobody. */
	while (!wait_for_completion_io_timeout(&t->done, slice)) {
		if (is_early(t, jiffies - began))
			slice = HZ / 2;
		else
			too_late(t, jiffies - began);
	}
	/* Who has woken us is still in there. */
	spin_lock_irq(&m->lock);
	status = t->status;
	r = error_of(t);
	tell = status && !t->abandoned && !l->dead;
	spin_unlock_irq(&m->lock);
	if (tell) {
		atomic64_inc(op_is_write(bio_op(&t->bio)) ? &l->write_errors : &l->read_errors);
		trace_lockstep_leg_error(m, t->leg, t->sector, status);
	}
	return r;
}

int transfer_ended(struct transfer *t, unsigned long *ended)
{
	unsigned long flags;
	int r = -EINPROGRESS;

	spin_lock_irqsave(&t->m->lock, flags);
	if (!t->out || t->abandoned) {
		r = error_of(t);
		*ended = t->ended;
	}
	spin_unlock_irqrestore(&t->m->lock, flags);
	return r;
}

void transfer_give_up(struct transfer *t)
{
	(void)give_up(t, false);
}

/* Make it one of so many bytes. */
static void fill(struct owned *o, mempool_t *pool, struct mirror *m,
		 enum leg_id leg, blk_opf_t opf, sector_t sector, unsigned int bytes)
{
	unsigned int i, len;

	o->t.pool = pool;
	WARN_ON_ONCE(!transfer_init(&o->t, m, leg, opf, sector));	/* nobody else has it */
	for (i = 0; bytes; i++, bytes -= len) {
		len = min_t(unsigned int, bytes, PAGE_SIZE);
		o->pages[i] = sender_page(o->pages[i], GFP_NOWAIT | __GFP_NOWARN);
		__bio_add_page(&o->t.bio, o->pages[i], len, 0);
	}
}

static void put_owned(struct owned *o)
{
	struct mirror *m = o->t.m;

	spin_lock_irq(&m->lock);
	put(&o->t);
	spin_unlock_irq(&m->lock);
}

/* Between a buffer and the pages. */
static void copy(struct owned *o, void *buffer, unsigned int bytes, bool in)
{
	unsigned int i, len;

	for (i = 0; bytes; i++, bytes -= len, buffer += len) {
		len = min_t(unsigned int, bytes, PAGE_SIZE);
		if (in)
			memcpy(page_address(o->pages[i]), buffer, len);
		else
			memcpy(buffer, page_address(o->pages[i]), len);
	}
}

static mempool_t *pool_for(struct mirror *m, blk_opf_t opf, unsigned int bytes)
{
	struct transfers *ts = &m->transfers;

	return bytes <= LOCKSTEP_SLOTS_BYTES ? &ts->metadata :
	       op_is_write(opf) ? &ts->maps : &ts->reads;
}

int transfer_now(struct mirror *m, enum leg_id leg, blk_opf_t opf, sector_t sector,
		 void *buffer, unsigned int bytes)
{
	mempool_t *pool = pool_for(m, opf, bytes);
	struct owned *o = mempool_alloc(pool, GFP_NOIO);
	int r;

	fill(o, pool, m, leg, opf, sector, bytes);
	if (op_is_write(opf))
		copy(o, buffer, bytes, true);
	transfer_submit(&o->t);
	r = transfer_wait(&o->t);
	if (!r && buffer && !op_is_write(opf))
		copy(o, buffer, bytes, false);
	put_owned(o);
	return r;
}

void transfer_run_begin(struct transfer_run *run, struct mirror *m, enum leg_id leg)
{
	run->m = m;
	run->leg = leg;
	INIT_LIST_HEAD(&run->under_way);
	run->bytes = 0;
	run->most = mirror_must_yield(m) || !m->ran ? TRANSFER_RUN_MOST : TRANSFER_RUN_BYTES;
	if (test_knob(one_at_a_time))
		run->most = 0;
	run->error = 0;
}

static void wait_for_oldest(struct transfer_run *run)
{
	struct owned *o = list_first_entry(&run->under_way, struct owned, link);
	int r;

	/* Each would be waited for as long as the one that hasn't been answered. */
	if (run->error == -ETIMEDOUT && !test_knob(each_waits))
		transfer_give_up(&o->t);
	r = transfer_wait(&o->t);
	list_del(&o->link);
	run->bytes -= o->bytes;
	run->error = run->error ?: r;
	put_owned(o);
}

/* One of the reserve at most: who waits for another one may be who is to give that back. */
static struct owned *get_owned(struct transfer_run *run, mempool_t *pool)
{
	struct owned *o = NULL;

	while (!o && !list_empty(&run->under_way)) {
		o = alloc_owned(GFP_NOWAIT | __GFP_NOWARN, pool->pool_data);
		if (!o)
			wait_for_oldest(run);
	}
	return o ?: mempool_alloc(pool, GFP_NOIO);
}

void transfer_run_write(struct transfer_run *run, blk_opf_t opf, sector_t sector, void *buffer,
			unsigned int bytes)
{
	mempool_t *pool = pool_for(run->m, opf, bytes);
	struct owned *o;

	while (run->bytes && run->bytes + bytes > run->most)
		wait_for_oldest(run);
	if (run->error)
		return;
	o = get_owned(run, pool);
	fill(o, pool, run->m, run->leg, opf, sector, bytes);
	copy(o, buffer, bytes, true);
	list_add_tail(&o->link, &run->under_way);
	o->bytes = bytes;
	run->bytes += bytes;
	transfer_submit(&o->t);
}

int transfer_run_end(struct transfer_run *run)
{
	int r;

	while (!list_empty(&run->under_way))
		wait_for_oldest(run);
	r = run->error;
	run->error = 0;
	return r;
}

int transfer_flush(struct mirror *m, enum leg_id leg)
{
	return transfer_now(m, leg, REQ_OP_WRITE | REQ_PREFLUSH | REQ_SYNC, 0, NULL, 0);
}

/* NULL: there is no memory, and the leg has died. */
static struct owned *wait_for_memory(struct mirror *m, enum leg_id leg)
{
	struct owned *o;

	for (;;) {
		o = mempool_alloc(&m->transfers.reads, GFP_NOWAIT | __GFP_NOWARN);
		if (o || READ_ONCE(m->legs[leg].dead))
			return o;
		msleep(20);
	}
}

int transfer_read(struct mirror *m, enum leg_id leg, struct bio *bio)
{
	struct owned *o = wait_for_memory(m, leg);
	int r;

	if (!o)
		return -ETIMEDOUT;
	fill(o, &m->transfers.reads, m, leg, REQ_OP_READ | REQ_SYNC, bio->bi_iter.bi_sector,
	     bio->bi_iter.bi_size);
	transfer_submit(&o->t);
	r = transfer_wait(&o->t);
	if (!r) {
		o->t.bio.bi_iter = (struct bvec_iter){ .bi_size = bio->bi_iter.bi_size };
		bio_copy_data(bio, &o->t.bio);
	}
	put_owned(o);
	return r;
}

int transfers_create(struct mirror *m)
{
	struct transfers *ts = &m->transfers;
	int r;

	INIT_LIST_HEAD(&ts->waited);
	r = mempool_init(&ts->metadata, TRANSFER_RESERVE, alloc_owned, free_owned,
			 (void *)DIV_ROUND_UP(LOCKSTEP_SLOTS_BYTES, PAGE_SIZE));
	r = r ?: mempool_init(&ts->maps, TRANSFER_MAP_RESERVE, alloc_owned, free_owned,
			      (void *)DIV_ROUND_UP(TRANSFER_MAP_BYTES, PAGE_SIZE));
	return r ?: mempool_init(&ts->reads, 1, alloc_owned, free_owned, (void *)IO_MAX_PAGES);
}

void transfers_destroy(struct mirror *m)
{
	mempool_exit(&m->transfers.metadata);
	mempool_exit(&m->transfers.maps);
	mempool_exit(&m->transfers.reads);
}
