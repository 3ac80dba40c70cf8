// SPDX-License-Identifier: GPL-2.0-only
/*
 * A batch is read in the order of the log, and written in the order of the data
 * disk, each with several I/Os at a time: a spindle wants a sorted queue, an SSD
 * wants depth. Neighbours on the data disk are one write.
 */
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/vmalloc.h>

#include "batch.h"
#include "dcd-trace.h"

#define OF_RING	32			/* a batch is no larger than such a part of it, */
#define LEAST	(256U << 10)		/* nor smaller than that */
#define LOG_SHARED 2
#define ZEROES ((4ULL << 20) >> SECTOR_SHIFT)	/* sectors of a load of zeroes, at most */

struct dcd_batch *dcd_batch_new(struct dcd_engine *e)
{
	struct dcd_batch *b = kzalloc(sizeof(*b), GFP_KERNEL);
	u64 some = e->segments * e->segment_bytes / OF_RING;

	if (!b)
		return NULL;
	b->room = min_t(u64, (u64)e->destage.batch_kib << 9, max_t(u64, some, LEAST));
	b->room = round_down(b->room, DCD_BLOCK);	/* a load is whole blocks */
	b->most = b->room / DCD_BLOCK;
	b->loads = kvcalloc(b->most, sizeof(*b->loads), GFP_KERNEL);
	b->order = kvcalloc(b->most, sizeof(*b->order), GFP_KERNEL);
	b->buf = vzalloc(b->room);
	dcd_ios_init(&b->reading, &e->log, &e->moved);
	if (!b->loads || !b->order || !b->buf) {
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
	kvfree(b->order);
	kvfree(b->loads);
	kfree(b);
}

static sector_t sectors_of(const struct dcd_load *l)
{
	return l->place.last - l->place.sector + 1;
}

static int by_place(const void *a, const void *b)
{
	const struct dcd_load *x = *(const struct dcd_load *const *)a;
	const struct dcd_load *y = *(const struct dcd_load *const *)b;

	return x->place.at < y->place.at ? -1 : x->place.at > y->place.at;
}

bool dcd_batch_collect(struct dcd_engine *e, struct dcd_batch *b, sector_t end, u64 target)
{
	size_t bytes = 0;

	b->n = 0;
	b->to_read = 0;
	b->begun = 0;
	b->next = b->from;
	while (b->n < b->most) {
		struct dcd_load *l = b->loads + b->n;
		struct dcd_place *p = &l->place;

		if (b->next >= end || !dcd_index_next(e, b->next, p) || p->sector >= end)
			break;
		p->last = min(p->last, end - 1);
		if (dcd_segment_of(e, p) >= target) {
			b->next = p->last + 1;
			continue;
		}
		l->buf = b->buf + bytes;
		l->error = 0;
		l->unread = false;
		l->there = false;
		if (p->zero) {
			p->last = min_t(sector_t, p->last, p->sector + ZEROES - 1);
		} else {
			sector_t most = min_t(size_t, DCD_IO_MAX, b->room - bytes) >> SECTOR_SHIFT;

			if (!most)
				break;
			p->last = min(p->last, p->sector + most - 1);
			bytes += sectors_of(l) << SECTOR_SHIFT;
			b->order[b->to_read++] = l;
		}
		b->next = p->last + 1;
		b->n++;
	}
	sort(b->order, b->to_read, sizeof(*b->order), by_place, NULL);
	return b->n;
}

/*
 * How many reads of the log at a time: few while NVRAM waits for the log disk, as each
 * costs that as much time as a segment, and a full NVRAM stops all writes.
 */
static unsigned int log_width(struct dcd_engine *e, dcd_width *width)
{
	return dcd_log_pressed(e) ? min(width(e), LOG_SHARED) : width(e);
}

/* The log's places are the destager's own: only it gives them away. */
static void begin_reads(struct dcd_engine *e, struct dcd_batch *b, unsigned int most)
{
	unsigned int room = most - min_t(unsigned int, most, atomic_read(&b->reading.in_flight));
	struct blk_plug plug;

	blk_start_plug(&plug);
	for (; b->begun < b->to_read && room; b->begun++) {
		struct dcd_load *l = b->order[b->begun];
		u64 at = dcd_place_copy(e, &l->place, l->buf);

		l->io.status = BLK_STS_OK;
		if (!at)
			continue;
		dcd_io_begin(&b->reading, &l->io, REQ_OP_READ, at, l->buf,
			     sectors_of(l) << SECTOR_SHIFT);
		room--;
	}
	blk_finish_plug(&plug);
}

static bool has_room(const struct dcd_batch *b, unsigned int most)
{
	return b && b->begun < b->to_read && atomic_read(&b->reading.in_flight) <= most / 2;
}

/* Until no more than @left of @ios are in flight; reads @ahead meanwhile. */
static void wait_reading(struct dcd_engine *e, struct dcd_ios *ios, unsigned int left,
			 struct dcd_batch *ahead, dcd_width *width)
{
	while (atomic_read(&ios->in_flight) > left) {
		unsigned int most = ahead ? log_width(e, width) : 0;

		if (most && has_room(ahead, most))
			begin_reads(e, ahead, most);
		io_wait_event(*ios->wait, atomic_read(&ios->in_flight) <= left ||
			      (most && has_room(ahead, most)));
	}
	dcd_ios_wait(ios, left);
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
		begin_reads(e, b, most);
		dcd_ios_wait(&b->reading, most / 2);
	}
	dcd_ios_wait(&b->reading, 0);
	for (i = 0; i < b->begun; i++) {
		struct dcd_load *l = b->order[i];

		l->error = blk_status_to_errno(l->io.status);
		l->unread = l->error;
	}
	return r;
}

/* The loads from @i on that are one write: neighbours here, and so in memory. */
static unsigned int neighbours(const struct dcd_batch *b, unsigned int i, size_t *bytes)
{
	unsigned int n = i + 1;

	*bytes = sectors_of(b->loads + i) << SECTOR_SHIFT;
	while (n < b->n) {
		const struct dcd_load *l = b->loads + n;
		size_t more = sectors_of(l) << SECTOR_SHIFT;

		if (l->place.zero || l->error || *bytes + more > DCD_IO_MAX ||
		    l->place.sector != l[-1].place.last + 1)
			break;
		*bytes += more;
		n++;
	}
	return n;
}

static int write_all(struct dcd_engine *e, struct dcd_batch *b, struct dcd_batch *ahead,
		     dcd_width *width)
{
	unsigned int i = 0, k, n, end;
	struct blk_plug plug;
	struct dcd_ios ios;
	size_t bytes;
	int r = 0;

	dcd_ios_init(&ios, &e->data, &e->moved);
	while (i < b->n) {
		unsigned int most = width(e), room = most - most / 2;

		if (!most) {
			r = -EAGAIN;
			break;
		}
		wait_reading(e, &ios, most / 2, ahead, width);
		blk_start_plug(&plug);
		for (; i < b->n && room; i = n) {
			struct dcd_load *l = b->loads + i;

			n = i + 1;
			if (l->error || l->place.zero)
				continue;
			n = neighbours(b, i, &bytes);
			dcd_io_begin(&ios, &l->io, REQ_OP_WRITE, l->place.sector, l->buf, bytes);
			room--;
		}
		blk_finish_plug(&plug);
	}
	wait_reading(e, &ios, 0, ahead, width);
	end = i;
	for (i = 0; i < end; i = n) {
		struct dcd_load *l = b->loads + i;

		n = i + 1;
		if (l->error)
			continue;
		if (l->place.zero && (r || !width(e))) {
			r = -EAGAIN;
			continue;
		}
		if (l->place.zero) {
			ktime_t began = ktime_get();

			l->error = blkdev_issue_zeroout(e->data.bdev, l->place.sector,
							sectors_of(l), GFP_NOIO, 0);
			b->zeroing = ktime_add(b->zeroing, ktime_sub(ktime_get(), began));
		} else {
			n = neighbours(b, i, &bytes);
			l->error = blk_status_to_errno(l->io.status);
			if (!l->error)
				b->written += bytes >> SECTOR_SHIFT;
		}
		trace_dcd_destage(e, l->place.sector, b->loads[n - 1].place.last + 1 -
				  l->place.sector, l->error);
		for (k = i; k < n; k++) {
			b->loads[k].there = !l->error;
			b->loads[k].error = l->error;
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
	b->zeroing = 0;
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
	wait_reading(e, &ios, 0, ahead, width);
	return blk_status_to_errno(io.status);
}

void dcd_batch_drop(struct dcd_batch *b)
{
	dcd_ios_wait(&b->reading, 0);
	b->n = 0;
	b->to_read = 0;
	b->begun = 0;
}
