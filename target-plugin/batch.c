// SPDX-License-Identifier: GPL-2.0-only
/*
 * A batch is read in the order of the log, and written in the order of the data
 * disk, each with several I/Os at a time: a spindle wants a sorted queue, an SSD
 * wants depth. Neighbours on the data disk are one write.
 */
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/vmalloc.h>

#include "dcd-trace.h"
#include "engine.h"

#define ZEROES ((4ULL << 20) >> SECTOR_SHIFT)	/* sectors of a load of zeroes, at most */

struct dcd_batch *dcd_batch_new(size_t room)
{
	struct dcd_batch *b = kvzalloc(sizeof(*b), GFP_KERNEL);

	if (!b)
		return NULL;
	b->room = room;
	b->buf = vzalloc(room);
	if (!b->buf) {
		kvfree(b);
		return NULL;
	}
	return b;
}

void dcd_batch_free(struct dcd_batch *b)
{
	if (b)
		vfree(b->buf);
	kvfree(b);
}

static sector_t sectors_of(const struct dcd_load *l)
{
	return l->place.last - l->place.sector + 1;
}

bool dcd_batch_collect(struct dcd_engine *e, struct dcd_batch *b, u64 target)
{
	size_t bytes = 0;

	b->n = 0;
	while (b->n < DCD_LOADS) {
		struct dcd_load *l = b->loads + b->n;
		struct dcd_place *p = &l->place;

		if (!dcd_index_next(e, b->next, p))
			break;
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
		}
		b->next = p->last + 1;
		b->n++;
	}
	return b->n;
}

static int by_place(const void *a, const void *b)
{
	const struct dcd_load *x = *(const struct dcd_load *const *)a;
	const struct dcd_load *y = *(const struct dcd_load *const *)b;

	return x->place.at < y->place.at ? -1 : x->place.at > y->place.at;
}

/* Within @readers, so that no slot is used again under a copy; the log is the destager's. */
static unsigned int read_some(struct dcd_engine *e, struct dcd_batch *b, struct dcd_ios *ios,
			      unsigned int from, unsigned int to, unsigned int room)
{
	int id = srcu_read_lock(&e->readers);
	struct blk_plug plug;
	unsigned int i;

	blk_start_plug(&plug);
	for (i = from; i < to && room; i++) {
		struct dcd_load *l = b->order[i];
		u64 at = dcd_place_copy(e, &l->place, l->buf);

		l->io.status = BLK_STS_OK;
		if (!at)
			continue;
		dcd_io_begin(ios, &l->io, REQ_OP_READ, at, l->buf, sectors_of(l) << SECTOR_SHIFT);
		room--;
	}
	blk_finish_plug(&plug);
	srcu_read_unlock(&e->readers, id);
	return i;
}

static int read_all(struct dcd_engine *e, struct dcd_batch *b,
		    unsigned int (*width)(struct dcd_engine *e))
{
	unsigned int i, n = 0, done = 0;
	struct dcd_ios ios;
	int r = 0;

	dcd_ios_init(&ios, &e->log);
	for (i = 0; i < b->n; i++)
		if (!b->loads[i].place.zero)
			b->order[n++] = b->loads + i;
	sort(b->order, n, sizeof(*b->order), by_place, NULL);
	while (done < n) {
		unsigned int most = width(e);

		if (!most) {
			r = -EAGAIN;
			break;
		}
		dcd_ios_wait(&ios, most / 2);
		done = read_some(e, b, &ios, done, n, most - most / 2);
	}
	dcd_ios_wait(&ios, 0);
	for (i = 0; i < done; i++) {
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

static int write_all(struct dcd_engine *e, struct dcd_batch *b,
		     unsigned int (*width)(struct dcd_engine *e))
{
	unsigned int i = 0, k, n, end;
	struct blk_plug plug;
	struct dcd_ios ios;
	size_t bytes;
	int r = 0;

	dcd_ios_init(&ios, &e->data);
	while (i < b->n) {
		unsigned int most = width(e), room = most - most / 2;

		if (!most) {
			r = -EAGAIN;
			break;
		}
		dcd_ios_wait(&ios, most / 2);
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
	dcd_ios_wait(&ios, 0);
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
			l->error = blkdev_issue_zeroout(e->data.bdev, l->place.sector,
							sectors_of(l), GFP_NOIO, 0);
			bytes = 0;
		} else {
			n = neighbours(b, i, &bytes);
			l->error = blk_status_to_errno(l->io.status);
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

int dcd_batch_move(struct dcd_engine *e, struct dcd_batch *b,
		   unsigned int (*width)(struct dcd_engine *e))
{
	int r = read_all(e, b, width);

	return r ?: write_all(e, b, width);
}
