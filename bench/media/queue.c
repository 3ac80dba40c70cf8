// SPDX-License-Identifier: GPL-2.0-only
/* See queue.h. */
#include <linux/blkdev.h>
#include <linux/ktime.h>
#include <linux/lockdep.h>
#include <linux/slab.h>

#include "media-compat.h"
#include "queue.h"

static u64 bytes_of(const struct media_write *w)
{
	return (u64)w->count << SECTOR_SHIFT;
}

static bool caches(const struct media_queue *q)
{
	return q->opt.kind == MEDIA_SPINDLE && q->opt.write_cache;
}

/* Does this write go to the medium before it is answered? */
static bool writes_through(const struct media_queue *q, const struct media_io *io)
{
	return !q->opt.write_cache || ((io->bio->bi_opf & REQ_FUA) && !q->opt.lie);
}

static bool is_flush(const struct media_io *io)
{
	return bio_op(io->bio) == REQ_OP_FLUSH ||
	       ((io->bio->bi_opf & REQ_PREFLUSH) && !io->count);
}

/* --- lines; what is done for each request mustn't depend on how many wait --- */

static bool earlier(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct media_io, node)->place <
	       rb_entry(b, struct media_io, node)->place;
}

static void line_up(struct media_line *line, struct media_io *io)
{
	io->place = line->is_elevator ? io->sector : 0;
	rb_add_cached(&io->node, &line->root, earlier);
	line->count++;
}

static void leave(struct media_line *line, struct media_io *io)
{
	rb_erase_cached(&io->node, &line->root);
	line->count--;
}

static struct media_io *first_in(struct media_line *line)
{
	return rb_entry_safe(rb_first_cached(&line->root), struct media_io, node);
}

/* One-way elevator: the next one upwards; those below come after all above. */
static struct media_io *next_up(struct media_queue *q, struct media_line *line)
{
	struct rb_node *at = line->root.rb_root.rb_node;
	struct media_io *found = NULL;

	while (at) {
		struct media_io *io = rb_entry(at, struct media_io, node);

		if (spindle_cylinder(&q->spindle, io->sector) >= q->spindle.cylinder) {
			found = io;
			at = at->rb_left;
		} else {
			at = at->rb_right;
		}
	}
	return found ?: first_in(line);
}

/* --- answering; @done collects what is ended when the lock is dropped --- */

static void answer(struct media_queue *q, struct media_io *io, struct list_head *done)
{
	list_add_tail(&io->list, q->dev ? &q->ended : done);
}

/* Ends requests, or sends them on to the backing device. Without the lock. */
static void end_list(struct media_queue *q, struct list_head *done)
{
	struct media_io *io, *next;

	list_for_each_entry_safe(io, next, done, list) {
		struct media_write *w = io->write;
		struct bio *bio = io->bio;

		list_del(&io->list);
		if (w)
			media_write_put(w);
		if (q->dev)
			submit_bio_noacct(bio);
		else
			bio_endio(bio);	/* frees io */
	}
}

static void send_on(struct work_struct *work)
{
	struct media_queue *q = container_of(work, struct media_queue, work);
	unsigned long flags;
	LIST_HEAD(done);

	spin_lock_irqsave(&site_instant, flags);
	list_splice_init(&q->ended, &done);
	spin_unlock_irqrestore(&site_instant, flags);
	end_list(q, &done);
}

/* --- the content --- */

static void do_read(struct media_queue *q, struct media_io *io)
{
	if (q->gen && !media_read(q->gen, io->bio, io->sector))
		io->bio->bi_status = BLK_STS_IOERR;
}

static void do_write(struct media_queue *q, struct media_io *io)
{
	media_write_ack(io->write, writes_through(q, io));
	if (q->gen && q->opt.write_cache && !caches(q) && q->opt.cache_bytes)
		media_cache_bound(q->gen, q->opt.cache_bytes);
}

static void do_flush(struct media_queue *q, struct media_io *io)
{
	if (q->gen && !q->opt.lie)
		media_flush(q->gen, io->mark);
}

static void finish(struct media_queue *q, struct media_io *io, struct list_head *done)
{
	if (is_flush(io))
		do_flush(q, io);
	else if (io->write)
		do_write(q, io);
	else
		do_read(q, io);
	answer(q, io, done);
}

/* --- the spindle's cache --- */

static bool room_for(const struct media_queue *q, const struct media_io *io)
{
	return !q->dirty_bytes ||
	       q->dirty_bytes + ((u64)io->count << SECTOR_SHIFT) <= q->opt.cache_bytes;
}

/* Lets writes into the cache that waited for room: they have it from now on. */
static void admit(struct media_queue *q)
{
	struct media_io *io;

	while ((io = list_first_entry_or_null(&q->full, struct media_io, list))) {
		if (!room_for(q, io))
			return;
		q->dirty_bytes += bytes_of(io->write);
		list_del(&io->list);
		line_up(&q->bus, io);
	}
}

/* A cached write covers older ones altogether: they needn't be destaged. */
static void absorb(struct media_queue *q, struct media_write *w)
{
	struct media_write *older, *next;

	if (!list_empty(&q->flushes))	/* it may have promised the older one */
		return;
	list_for_each_entry_safe(older, next, &q->dirty, dirty) {
		if (older->serving || older->sector < w->sector ||
		    older->sector + older->count > w->sector + w->count)
			continue;
		list_del_init(&older->dirty);
		q->dirty_bytes -= bytes_of(older);
		media_write_absorb(older);
		media_write_put(older);
	}
}

/* The write's data are in the cache: it is answered, and destaged later. */
static void into_cache(struct media_queue *q, struct media_io *io, struct list_head *done)
{
	struct media_write *w = io->write;

	absorb(q, w);
	finish(q, io, done);
	if (!q->gen)
		w->acked = ++q->dirty_clock;
	kref_get(&w->ref);
	list_add_tail(&w->dirty, &q->dirty);
	admit(q);	/* what was absorbed left room */
}

static u64 current_mark(struct media_queue *q)
{
	return q->gen ? media_mark(q->gen) : q->dirty_clock;
}

/* Flushes whose writes have all been destaged are answered. */
static void check_flushes(struct media_queue *q, struct list_head *done)
{
	struct media_write *oldest = list_first_entry_or_null(&q->dirty, struct media_write,
							      dirty);
	struct media_io *io, *next;

	list_for_each_entry_safe(io, next, &q->flushes, list) {
		if (oldest && oldest->acked <= io->mark)
			break;
		list_del(&io->list);
		finish(q, io, done);
	}
}

static void destaged(struct media_queue *q, struct media_write *w, struct list_head *done)
{
	list_del_init(&w->dirty);
	q->dirty_bytes -= bytes_of(w);
	media_write_destage(w);
	media_write_put(w);
	check_flushes(q, done);
	admit(q);
}

/* A read that the cache answers: all of it in one cached write. */
static bool cached(const struct media_queue *q, const struct media_io *io)
{
	struct media_write *w;

	list_for_each_entry(w, &q->dirty, dirty)
		if (io->sector >= w->sector && io->sector + io->count <= w->sector + w->count)
			return true;
	return false;
}

/* --- serving --- */

/* The distance upwards, places below come after all above. */
static u64 upwards(const struct media_queue *q, sector_t sector)
{
	u32 c = spindle_cylinder(&q->spindle, sector);
	u64 lap = c < q->spindle.cylinder ? 1ULL << 62 : 0;

	return lap + sector;
}

static void pick_request(struct media_queue *q, struct media_server *s, u64 *best)
{
	s->io = s->from->is_elevator ? next_up(q, s->from) : first_in(s->from);
	if (s->io)
		*best = upwards(q, s->io->sector);
}

static void pick_destage(struct media_queue *q, struct media_server *s, u64 *best)
{
	bool urgent = !list_empty(&q->flushes) || q->dirty_bytes > q->opt.cache_bytes / 2;
	struct media_write *w;

	/* In order of arrival requests and destaging take turns. */
	if (s->io && (!urgent || (!q->opt.look && s->destaged)))
		return;
	list_for_each_entry(w, &q->dirty, dirty) {
		u64 d = q->opt.look ? upwards(q, w->sector) : 0;

		if (q->opt.look && (s->io || s->destage) && d >= *best)
			continue;
		s->io = NULL;
		s->destage = w;
		*best = d;
		if (!q->opt.look)
			break;
	}
}

static u64 head_time(struct media_queue *q, struct media_server *s, u64 now)
{
	u64 start = now;

	if (s->destage)
		return spindle_serve(&q->spindle, now, true, s->destage->sector,
				     s->destage->count);
	/* The drive decodes a command while it serves the one before. */
	start = max_t(u64, now, ktime_to_ns(s->io->arrived) + SPINDLE_COMMAND);
	return start - now + spindle_serve(&q->spindle, start, s->io->write, s->io->sector,
					   s->io->count);
}

static u64 bus_time(struct media_queue *q, struct media_server *s, u64 now)
{
	struct media_io *io = s->io;
	u64 t = spindle_bus(io->write && io->write->zero ? 0 : io->count), wait;

	if (!io->write && !is_flush(io) &&
	    spindle_read_ahead(&q->spindle, now, io->sector, io->count, &wait))
		t = max(t, wait);
	return t;
}

static u64 ssd_time(struct media_queue *q, struct media_io *io)
{
	unsigned int us = is_flush(io) ? q->opt.flush_us :
			  io->write ? q->opt.write_us : q->opt.read_us;

	return us * (u64)NSEC_PER_USEC;
}

/* Gives an idle server its next piece of work. False if there's none. */
static bool start(struct media_queue *q, struct media_server *s)
{
	u64 now = ktime_get_ns(), best = U64_MAX, t;

	pick_request(q, s, &best);
	if (s->is_head && caches(q))
		pick_destage(q, s, &best);
	s->destaged = s->destage;
	if (s->destage)
		s->destage->serving = true;
	else if (s->io)
		leave(s->from, s->io);
	else
		return false;

	if (s->is_head)
		t = head_time(q, s, now);
	else if (q->opt.kind == MEDIA_SPINDLE)
		t = bus_time(q, s, now);
	else
		t = ssd_time(q, s->io);
	hrtimer_start(&s->timer, ns_to_ktime(now + t), HRTIMER_MODE_ABS);
	return true;
}

static void kick(struct media_queue *q)
{
	unsigned int i;

	lockdep_assert_held(&site_instant);
	if (q->ending)
		return;
	for (i = 0; i < q->nr_servers; i++)
		if (!q->servers[i].io && !q->servers[i].destage)
			start(q, &q->servers[i]);
}

static enum hrtimer_restart served(struct hrtimer *timer)
{
	struct media_server *s = container_of(timer, struct media_server, timer);
	struct media_queue *q = s->q;
	unsigned long flags;
	LIST_HEAD(done);
	bool more;

	spin_lock_irqsave(&site_instant, flags);
	if (s->destage)
		destaged(q, s->destage, &done);
	else if (s->io->write && !s->is_head && caches(q))
		into_cache(q, s->io, &done);
	else
		finish(q, s->io, &done);
	s->io = NULL;
	s->destage = NULL;
	kick(q);
	more = !list_empty(&q->ended);
	spin_unlock_irqrestore(&site_instant, flags);
	if (more)
		queue_work(q->wq, &q->work);
	end_list(q, &done);
	return HRTIMER_NORESTART;
}

/* --- taking --- */

static void route_spindle(struct media_queue *q, struct media_io *io, struct list_head *done)
{
	u64 wait;

	if (is_flush(io)) {
		list_add_tail(&io->list, &q->flushes);
		if (q->opt.lie) {
			list_del(&io->list);
			finish(q, io, done);
			return;
		}
		check_flushes(q, done);
	} else if (io->write && writes_through(q, io)) {
		line_up(&q->waiting, io);
	} else if (io->write) {
		/* Writes keep their order: none overtakes one that waits for room. */
		list_add_tail(&io->list, &q->full);
		admit(q);
	} else if (cached(q, io) ||
		   spindle_read_ahead(&q->spindle, ktime_get_ns(), io->sector, io->count,
				      &wait)) {
		line_up(&q->bus, io);
	} else {
		line_up(&q->waiting, io);
	}
}

void media_queue_add(struct media_queue *q, struct media_io *io, struct bio *bio,
		     sector_t sector)
{
	bool zeroes = bio_op(bio) == REQ_OP_DISCARD || bio_op(bio) == REQ_OP_WRITE_ZEROES;
	unsigned long flags;
	LIST_HEAD(done);
	bool more;

	INIT_LIST_HEAD(&io->list);
	io->bio = bio;
	io->sector = sector;
	io->count = bio_sectors(bio);
	io->arrived = ktime_get();
	io->write = NULL;
	if (io->count && op_is_write(bio_op(bio))) {
		io->write = media_write_new(q->gen, sector, io->count, zeroes ? NULL : bio);
		if (!io->write) {
			bio->bi_status = BLK_STS_RESOURCE;
			bio_endio(bio);
			return;
		}
	}

	spin_lock_irqsave(&site_instant, flags);
	io->mark = current_mark(q);
	if (io->write)
		media_write_submit(io->write);
	switch (q->opt.kind) {
	case MEDIA_NULL:
		finish(q, io, &done);
		break;
	case MEDIA_SSD:
		line_up(&q->waiting, io);
		break;
	case MEDIA_SPINDLE:
		route_spindle(q, io, &done);
		break;
	}
	kick(q);
	more = !list_empty(&q->ended);
	spin_unlock_irqrestore(&site_instant, flags);
	if (more)
		queue_work(q->wq, &q->work);
	end_list(q, &done);
}

/* --- making and ending --- */

static void add_server(struct media_queue *q, struct media_line *from, bool is_head)
{
	struct media_server *s = &q->servers[q->nr_servers++];

	s->q = q;
	s->from = from;
	s->is_head = is_head;
	media_hrtimer_setup(&s->timer, served, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

struct media_queue *media_queue_new(const struct media_options *opt, u64 sectors,
				    struct media_gen *gen, struct dm_dev *dev)
{
	unsigned int i, n = opt->kind == MEDIA_SSD ? opt->channels : 2;
	struct media_queue *q = kzalloc(struct_size(q, servers, n), GFP_KERNEL);

	if (!q)
		return NULL;
	q->wq = alloc_workqueue("lockstep-media", WQ_MEM_RECLAIM | WQ_UNBOUND, 1);
	if (!q->wq) {
		kfree(q);
		return NULL;
	}
	q->opt = *opt;
	q->gen = gen;
	q->dev = dev;
	q->waiting.root = RB_ROOT_CACHED;
	q->waiting.is_elevator = opt->kind == MEDIA_SPINDLE && opt->look;
	q->bus.root = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&q->full);
	INIT_LIST_HEAD(&q->flushes);
	INIT_LIST_HEAD(&q->dirty);
	INIT_LIST_HEAD(&q->ended);
	INIT_WORK(&q->work, send_on);
	spindle_init(&q->spindle, sectors, opt->spread);
	if (opt->kind == MEDIA_SPINDLE) {
		add_server(q, &q->waiting, true);
		add_server(q, &q->bus, false);
	}
	if (opt->kind == MEDIA_SSD)
		for (i = 0; i < opt->channels; i++)
			add_server(q, &q->waiting, false);
	return q;
}

void media_queue_free(struct media_queue *q)
{
	struct media_write *w, *next;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&site_instant, flags);
	q->ending = true;
	spin_unlock_irqrestore(&site_instant, flags);
	for (i = 0; i < q->nr_servers; i++)
		hrtimer_cancel(&q->servers[i].timer);
	destroy_workqueue(q->wq);
	list_for_each_entry_safe(w, next, &q->dirty, dirty) {
		list_del_init(&w->dirty);
		media_write_put(w);
	}
	kfree(q);
}
