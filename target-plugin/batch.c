// SPDX-License-Identifier: GPL-2.0-only
/*
 * A batch is read in the order of the log, and written in the order of the data
 * disk, each with several I/Os at a time: a spindle wants a sorted queue, an SSD
 * wants depth. Neighbours on the data disk are one write.
 */
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/vmalloc.h>

#include "batch.h"
#include "dcd-trace.h"
#include "lockstep-test.h"

TEST_KNOB(bool, late_stale, "what comes late of the log is written, whatever is newer");

#define OF_RING	32			/* a batch is no larger than such a part of it, */
#define LEAST	(256U << 10)		/* nor smaller than that */
#define LOG_SHARED 2

TEST_KNOB(bool, closed_together, "a close past a dead log writes together what one bad place is in");
TEST_KNOB(bool, dead_shared, "a dead log has as few reads at a time as one that NVRAM waits for");
#define JOINED 256			/* ranges of zeroes */

struct dcd_batch *dcd_batch_new(struct dcd_engine *e)
{
	struct dcd_batch *b = kzalloc(sizeof(*b), GFP_KERNEL);
	u64 some = e->segments * e->segment_bytes / OF_RING;

	if (!b)
		return NULL;
	b->room = max_t(u64, min_t(u64, (u64)e->destage.batch_kib << 9, some), LEAST);
	b->room = round_down(b->room, DCD_BLOCK);	/* a load is whole blocks */
	b->most = b->room / DCD_BLOCK;
	b->loads = kvcalloc(b->most, sizeof(*b->loads), GFP_KERNEL);
	b->order = kvcalloc(b->most, sizeof(*b->order), GFP_KERNEL);
	b->parts = kvcalloc(b->most, sizeof(*b->parts), GFP_KERNEL);
	b->buf = vzalloc(b->room);
	dcd_ios_init(&b->reading, &e->log, &e->moved);
	dcd_ios_init(&b->doubtful, &e->log, &e->moved);
	dcd_ios_init(&b->writing, &e->data, &e->moved);
	if (!b->loads || !b->order || !b->parts || !b->buf) {
		dcd_batch_free(b);
		return NULL;
	}
	return b;
}

void dcd_batch_free(struct dcd_batch *b)
{
	if (!b)
		return;
	vfree(b->buf);
	kvfree(b->parts);
	kvfree(b->order);
	kvfree(b->loads);
	kfree(b);
}

static sector_t sectors_of(const struct dcd_load *l)
{
	return l->place.last - l->place.sector + 1;
}

/* Is it written, with the others, in the order of the data disk? */
static bool is_written(const struct dcd_load *l)
{
	return l->kind == DCD_LOAD_DATA || l->kind == DCD_LOAD_FILL;
}

static int by_place(const void *a, const void *b)
{
	const struct dcd_load *x = *(const struct dcd_load *const *)a;
	const struct dcd_load *y = *(const struct dcd_load *const *)b;

	return x->whole.at < y->whole.at ? -1 : x->whole.at > y->whole.at;
}

/* Without bytes, and with the same way, they are one range, whenever they were written. */
static void join_bare(struct dcd_engine *e, struct dcd_load *l, sector_t end, u64 target)
{
	struct dcd_place n, *p = &l->place;
	unsigned int i;

	for (i = 0; i < JOINED && p->last + 1 < end && dcd_index_next(e, p->last + 1, &n); i++) {
		if (n.sector != p->last + 1 || n.zero != p->zero || n.lost != p->lost ||
		    n.discard != p->discard || dcd_segment_of(e, &n) >= target)
			return;
		p->last = min(n.last, end - 1);
		l->oldest = min(l->oldest, dcd_segment_of(e, &n));
	}
}

/*
 * What is to be done with what is stuck; false: as with anything else, but alone. @past_again: past
 * the log it can be logged again.
 */
static bool keep_stuck(struct dcd_engine *e, struct dcd_load *l, bool past_log, bool past_again)
{
	bool held = dcd_stuck_held(e, &l->place);

	if (!held && (past_log || dcd_stuck_try(e, &l->place))) {
		l->alone = true;
		return false;
	}
	l->kind = (past_log ? past_again : dcd_stuck_again(e, l->oldest)) ? DCD_LOAD_AGAIN :
								       DCD_LOAD_LEFT;
	return true;
}

static void begin_collecting(struct dcd_batch *b)
{
	b->n = 0;
	b->to_read = 0;
	b->begun = 0;
	b->late = 0;
	b->unanswered = 0;
}

static void begin_load(struct dcd_load *l)
{
	l->buf = NULL;
	l->error = 0;
	l->unread = false;
	l->asked = false;
	l->rests = false;
	l->there = false;
	l->again = false;
	l->alone = false;
	l->together = 0;
	l->late = false;
	l->unanswered = false;
	l->kind = DCD_LOAD_DATA;
	l->lost = false;
}

/* Isn't it read now? It stays, or it can't be read. */
static bool rests(struct dcd_engine *e, struct dcd_load *l)
{
	unsigned long since;

	if (l->error == -ETIME) {
		dcd_lost_wait(l);
		return true;
	}
	if (l->error)
		return false;
	if (dcd_late_reads(e, l->whole.at, &since)) {
		if (dcd_is_leaving(e) && time_after(jiffies, since + DCD_LATE_LEAVES))
			l->error = -EIO;
	} else if (!dcd_lost_rests(e, l->whole.at)) {
		return false;
	} else if (e->sweep.past_log) {
		l->error = -EIO;
		l->rests = true;
	}
	l->unread = true;
	if (!l->error)
		dcd_lost_wait(l);
	return true;
}

/* What the index has of this load's range from @at on. */
static bool next_of(struct dcd_engine *e, const struct dcd_load *l, sector_t at,
		    struct dcd_place *p)
{
	if (test_knob(late_stale)) {
		*p = l->place;
		return at <= p->last;
	}
	return dcd_index_next(e, at, p) && p->sector <= l->place.last;
}

bool dcd_batch_came(struct dcd_engine *e, struct dcd_batch *b, struct dcd_batch *late)
{
	size_t bytes = 0, size;
	unsigned int i;

	begin_collecting(b);
	for (i = 0; i < late->n; i++) {
		struct dcd_load *from = late->loads + i, *l;
		sector_t at = from->place.sector;
		struct dcd_place p;

		if (!from->unanswered || !dcd_io_done(&from->io))
			continue;
		from->unanswered = false;
		late->unanswered--;
		size = (size_t)dcd_place_sectors(&from->whole) << SECTOR_SHIFT;
		for (; next_of(e, from, at, &p); at = p.last + 1) {
			p.last = min(p.last, from->place.last);
			if (p.value != from->place.value || dcd_segment_of(e, &p) < e->sweep.from)
				continue;
			if (b->n == b->most || size > b->room - bytes)
				break;	/* what isn't taken is read once more */
			l = b->loads + b->n++;
			begin_load(l);
			l->place = p;
			l->whole = from->whole;
			l->oldest = dcd_segment_of(e, &p);
			l->raw = b->buf + bytes;
			bytes += size;
			if (dcd_stuck_part(e, &l->place))
				keep_stuck(e, l, e->sweep.past_log, false);
			p.last = l->place.last;
			l->buf = l->raw + ((p.at - l->whole.at) << SECTOR_SHIFT);
			l->error = blk_status_to_errno(from->io.status);
			if (!l->error) {
				memcpy(l->raw, from->raw, size);
				l->error = dcd_sums_check(e, &l->whole, l->raw, DCD_LATE);
			}
			l->unread = l->error;
			if (!l->error)
				dcd_lost_gave(e);
			if (l->error == -ETIME)
				dcd_lost_wait(l);
		}
	}
	return b->n;
}

bool dcd_batch_zeroes(struct dcd_engine *e, struct dcd_batch *b, sector_t *from, sector_t end,
		      u64 target, bool only_discards)
{
	struct dcd_place p;

	begin_collecting(b);
	for (; b->n < b->most && *from < end; *from = p.last + 1) {
		struct dcd_load *l = b->loads + b->n;

		if (!dcd_index_next(e, *from, &p) || p.sector >= end)
			break;
		p.last = min(p.last, end - 1);
		if (!p.zero || (only_discards && !p.discard) || dcd_segment_of(e, &p) >= target)
			continue;
		begin_load(l);
		l->kind = only_discards ? DCD_LOAD_DISCARD : DCD_LOAD_WIPE;
		l->place = p;
		l->oldest = dcd_segment_of(e, &p);
		l->there = true;
		b->n++;
	}
	return b->n;
}

bool dcd_batch_collect(struct dcd_engine *e, struct dcd_batch *b, sector_t end, u64 target,
		       enum dcd_wiping wiping)
{
	struct dcd_moment m = dcd_zeroes_moment(e, wiping);
	size_t bytes = 0;

	begin_collecting(b);
	b->next = b->from;
	while (b->n < b->most) {
		struct dcd_load *l = b->loads + b->n;
		struct dcd_place *p = &l->place;
		bool stuck;

		if (b->next >= end || !dcd_index_next(e, b->next, p) || p->sector >= end ||
		    (m.ends && m.us <= 0))
			break;
		p->last = min(p->last, end - 1);
		if (dcd_segment_of(e, p) >= target || dcd_segment_of(e, p) < e->sweep.from) {
			b->next = p->last + 1;
			continue;
		}
		begin_load(l);
		l->oldest = dcd_segment_of(e, p);
		if (p->zero || p->lost)
			join_bare(e, l, end, target);
		else
			p->last = min(p->last, p->sector + DCD_LOAD_SECTORS - 1);
		stuck = !p->lost && dcd_stuck_part(e, p) &&
			keep_stuck(e, l, e->sweep.past_log, p->zero && !m.all);
		if (p->lost) {
			dcd_lost_keep(e, l, e->sweep.past_log);
		} else if (p->zero && !stuck) {
			if (l->alone) {
				dcd_stuck_cut(e, p);
				l->kind = DCD_LOAD_FILL;
			} else {
				l->kind = dcd_zeroes_part(e, p, l->oldest, &m);
			}
		} else if (!p->zero && l->kind != DCD_LOAD_LEFT && !dcd_leave_lost(e, l)) {
			size_t size;

			l->error = dcd_sums_whole(e, p, &l->whole, DCD_LATE);
			l->unread = l->error;
			if (rests(e, l)) {
				b->next = p->last + 1;
				b->n++;
				continue;
			}
			size = l->error ? 0 : dcd_place_sectors(&l->whole) << SECTOR_SHIFT;
			if (size > b->room - bytes)
				break;
			l->raw = b->buf + bytes;
			l->buf = l->raw + ((p->at - l->whole.at) << SECTOR_SHIFT);
			bytes += size;
			dcd_moment_data(&m);
			if (!l->error)
				b->order[b->to_read++] = l;
		}
		b->next = p->last + 1;
		b->n++;
	}
	dcd_moment_over(e, &m);
	sort(b->order, b->to_read, sizeof(*b->order), by_place, NULL);
	return b->n;
}

/*
 * How many reads of the log at a time: few while NVRAM waits for the log disk, as each
 * costs that as much time as a segment, and a full NVRAM stops all writes. It doesn't wait for one
 * that is dead.
 */
static unsigned int log_width(struct dcd_engine *e, dcd_width *width)
{
	bool shared = (!READ_ONCE(e->log_dead) || test_knob(dead_shared)) && dcd_log_pressed(e);

	return shared ? min(width(e), LOG_SHARED) : width(e);
}

/*
 * No more may be late. It waits; but who leaves the log, and has waited for others of it for long
 * enough, has to know whether it can be read at all.
 */
static void read_or_wait(struct dcd_engine *e, struct dcd_load *l, u64 at)
{
	int r;

	if (!dcd_late_too_long(e)) {
		dcd_lost_wait(l);
		return;
	}
	r = dcd_aside_read(e, at, l->raw, dcd_place_sectors(&l->whole) << SECTOR_SHIFT, DCD_LATE);
	l->io.status = r == -ETIME ? BLK_STS_IOERR : errno_to_blk_status(r);
}

/* The log's places are the destager's own: only it gives them away. */
static void begin_reads(struct dcd_engine *e, struct dcd_batch *b, unsigned int most)
{
	unsigned int room = most - min_t(unsigned int, most, atomic_read(&b->reading.in_flight));
	struct blk_plug plug;
	bool doubtful;

	blk_start_plug(&plug);
	for (; b->begun < b->to_read && room; b->begun++) {
		struct dcd_load *l = b->order[b->begun];
		u64 at = dcd_place_copy(e, &l->whole, l->raw);

		l->io.status = BLK_STS_OK;
		if (!at)
			continue;
		if (e->sweep.blind) {
			dcd_lost_wait(l);
			continue;
		}
		l->asked = true;
		doubtful = dcd_lost_doubtful(e, l->whole.at);
		if (!dcd_late_may_read(e, doubtful)) {
			read_or_wait(e, l, at);
			continue;
		}
		dcd_io_begin(doubtful ? &b->doubtful : &b->reading, &l->io, REQ_OP_READ, at,
			     l->raw, dcd_place_sectors(&l->whole) << SECTOR_SHIFT);
		room--;
	}
	blk_finish_plug(&plug);
}

static bool has_room(const struct dcd_batch *b, unsigned int most)
{
	return b && b->begun < b->to_read && atomic_read(&b->reading.in_flight) <= most / 2;
}

/*
 * Until no more than @left of @ios are in flight; reads @ahead meanwhile. False: nothing has
 * returned for @patience.
 */
static bool wait_reading(struct dcd_engine *e, struct dcd_ios *ios, unsigned int left,
			 struct dcd_batch *ahead, dcd_width *width, long patience)
{
	unsigned int now;

	while ((now = atomic_read(&ios->in_flight)) > left) {
		unsigned int most = ahead ? log_width(e, width) : 0;

		if (most && has_room(ahead, most))
			begin_reads(e, ahead, most);
		if (!wait_event_timeout(*ios->wait, atomic_read(&ios->in_flight) < now ||
					(most && has_room(ahead, most)), patience))
			return false;
	}
	dcd_ios_wait(ios, left);
	return true;
}

/* The same of the writes of @b. False: those that haven't returned are late. */
static bool wait_writes(struct dcd_engine *e, struct dcd_batch *b, unsigned int left,
			struct dcd_batch *ahead, dcd_width *width)
{
	if (wait_reading(e, &b->writing, left, ahead, width, DCD_LATE))
		return true;
	if (dcd_late_begin(e, b))
		return false;
	b->slow = true;
	return wait_reading(e, &b->writing, left, ahead, width, MAX_SCHEDULE_TIMEOUT);
}

/* Until no more than @left of what isn't late is being read. */
static void wait_reads(struct dcd_engine *e, struct dcd_batch *b, unsigned int left)
{
	unsigned int now;

	while ((now = atomic_read(&b->reading.in_flight)) > b->unanswered + left)
		if (!wait_event_timeout(*b->reading.wait,
					atomic_read(&b->reading.in_flight) < now, DCD_LATE) &&
		    dcd_late_may_be(e))
			b->unanswered = atomic_read(&b->reading.in_flight);
}

/*
 * All that isn't late has come. What is late needs another batch: there is one, or it is waited
 * for.
 */
static unsigned int end_reads(struct dcd_engine *e, struct dcd_batch *b)
{
	wait_reads(e, b, 0);
	while (dcd_batch_reads(b) && !dcd_late_may_be(e))
		wait_event_timeout(*b->reading.wait, !dcd_batch_reads(b), DCD_LATE);
	if (dcd_batch_reads(b))
		return dcd_late_unread(e, b);
	dcd_ios_wait(&b->reading, 0);
	dcd_ios_wait(&b->doubtful, 0);
	b->unanswered = 0;
	return 0;
}

static int read_rest(struct dcd_engine *e, struct dcd_batch *b, dcd_width *width)
{
	unsigned int i;
	int r = 0;

	while (b->begun < b->to_read) {
		unsigned int most = log_width(e, width);

		if (!most) {
			r = -EAGAIN;
			break;
		}
		begin_reads(e, b, b->unanswered + most);
		wait_reads(e, b, most / 2);
	}
	end_reads(e, b);
	for (i = 0; i < b->begun; i++) {
		struct dcd_load *l = b->order[i];

		/* It is late, or wasn't asked for. */
		if (l->unread && l->kind == DCD_LOAD_LEFT)
			continue;
		l->error = blk_status_to_errno(l->io.status);
		if (!l->error)
			l->error = dcd_sums_check(e, &l->whole, l->raw, DCD_LATE);
		l->unread = l->error;
		if (!l->error && l->asked)
			dcd_lost_gave(e);
		if (l->error == -ETIME)
			dcd_lost_wait(l);
	}
	return r;
}

/* The loads from @i on that are one write: neighbours. @fills: bytes of one with zeroes in it. */
static unsigned int neighbours(const struct dcd_batch *b, unsigned int i, size_t fills)
{
	size_t bytes = sectors_of(b->loads + i) << SECTOR_SHIFT, most = DCD_IO_MAX;
	unsigned int n = i + 1;

	for (; n < b->n; n++) {
		const struct dcd_load *l = b->loads + n;

		bytes += sectors_of(l) << SECTOR_SHIFT;
		if (l->kind == DCD_LOAD_FILL || l[-1].kind == DCD_LOAD_FILL)
			most = fills;
		if (!is_written(l) || l->error || l->alone || l[-1].alone || bytes > most ||
		    l->place.sector != l[-1].place.last + 1)
			break;
	}
	return n;
}

static void begin_write(struct dcd_batch *b, struct dcd_ios *ios, unsigned int i, unsigned int end)
{
	struct dcd_load *l = b->loads + i;
	unsigned int n = end - i, k;

	for (k = 0; k < n; k++)
		b->parts[k] = (struct dcd_part){ l[k].buf, sectors_of(l + k) << SECTOR_SHIFT };
	l->together = n;
	dcd_io_begin_parts(ios, &l->io, REQ_OP_WRITE, l->place.sector, b->parts, n);
}

/* These were written together. */
static void was_written(struct dcd_engine *e, struct dcd_batch *b, unsigned int i,
			unsigned int end)
{
	int error = blk_status_to_errno(b->loads[i].io.status);
	struct dcd_load *l;

	trace_dcd_destage(e, b->loads[i].place.sector, b->loads[end - 1].place.last + 1 -
			  b->loads[i].place.sector, error);
	for (l = b->loads + i; l < b->loads + end; l++) {
		l->there = !error;
		l->error = error;
		if (error)
			continue;
		if (l->kind == DCD_LOAD_DATA) {
			b->written += sectors_of(l);
			continue;
		}
		e->wipes.all += sectors_of(l);
		dcd_count(e, DCD_N_FILLED_SECTORS, sectors_of(l));
	}
}

static void wipe(struct dcd_engine *e, struct dcd_batch *b, struct dcd_load *l)
{
	ktime_t began = ktime_get();

	l->error = dcd_wipe(e, l->kind, &l->place);
	if (l->error == -EINPROGRESS) {
		l->error = 0;
		l->kind = DCD_LOAD_LEFT;
		b->wiping = ktime_add(b->wiping, ktime_sub(ktime_get(), began));
		return;
	}
	l->there = !l->error;
	b->wiping = ktime_add(b->wiping, ktime_sub(ktime_get(), began));
	trace_dcd_destage(e, l->place.sector, sectors_of(l), l->error);
	if (l->there) {
		e->wipes.all += sectors_of(l);
		dcd_count(e, DCD_N_WIPED_SECTORS, sectors_of(l));
	}
}

static int write_all(struct dcd_engine *e, struct dcd_batch *b, struct dcd_batch *ahead,
		     dcd_width *width)
{
	size_t fills = (size_t)dcd_fill_most(e) << SECTOR_SHIFT;
	unsigned int i = 0, n, end;
	bool failed = false;
	struct blk_plug plug;
	int r = 0;

	dcd_ios_init(&b->writing, &e->data, &e->moved);
	while (i < b->n) {
		unsigned int most = width(e), room = most - most / 2;

		if (!most) {
			r = -EAGAIN;
			break;
		}
		if (!wait_writes(e, b, most / 2, ahead, width))
			break;
		blk_start_plug(&plug);
		for (; i < b->n && room; i = n) {
			struct dcd_load *l = b->loads + i;

			n = i + 1;
			if (l->error || !is_written(l))
				continue;
			if (!(dcd_last_chance(e) && READ_ONCE(e->round_error)) ||
			    test_knob(closed_together))
				n = neighbours(b, i, fills);
			begin_write(b, &b->writing, i, n);
			room--;
		}
		blk_finish_plug(&plug);
	}
	/* Or they are late. */
	if (!b->late)
		(void)wait_writes(e, b, 0, ahead, width);
	end = i;
	for (i = 0; i < end; i = n) {
		struct dcd_load *l = b->loads + i;

		n = i + 1;
		if (l->error)
			continue;
		if (is_written(l)) {
			n = i + l->together;
			was_written(e, b, i, n);
		} else if (dcd_load_is_wipe(l) && (r || !width(e))) {
			r = -EAGAIN;
		} else if (dcd_load_is_wipe(l) && (e->wipes.hangs || failed)) {
			l->kind = DCD_LOAD_LEFT;
		} else if (dcd_load_is_wipe(l)) {
			wipe(e, b, l);
			failed = l->error;	/* what is bad of it is yet to be looked at */
		}
	}
	return r;
}

int dcd_batch_move(struct dcd_engine *e, struct dcd_batch *b, struct dcd_batch *ahead,
		   dcd_width *width)
{
	ktime_t began = ktime_get(), read;
	int r = read_rest(e, b, width);

	b->written = 0;
	b->wiping = 0;
	b->slow = false;
	read = ktime_get();
	if (!r)
		r = write_all(e, b, ahead, width);
	trace_dcd_batch(e, b, ktime_us_delta(read, began), ktime_us_delta(ktime_get(), read), r);
	return r;
}

int dcd_batch_flush(struct dcd_engine *e, struct dcd_batch *ahead, dcd_width *width)
{
	struct dcd_ios ios;
	struct dcd_io io;

	dcd_ios_init(&ios, &e->data, &e->moved);
	dcd_io_begin_flush(&ios, &io);
	(void)wait_reading(e, &ios, 0, ahead, width, MAX_SCHEDULE_TIMEOUT);
	return blk_status_to_errno(io.status);
}

void dcd_batch_drop(struct dcd_engine *e, struct dcd_batch **b)
{
	if (end_reads(e, *b))
		*b = dcd_late_keep(e, *b);
	begin_collecting(*b);
}
