// SPDX-License-Identifier: GPL-2.0-only
#include "write.h"

#include <linux/mm.h>

#include "lockstep-trace.h"
#include "mirror.h"

/* What of the caller's flags a leg is to see. */
#define LEG_FLAGS	(REQ_SYNC | REQ_META | REQ_PRIO | REQ_IDLE | REQ_FUA | \
			 REQ_PREFLUSH | REQ_BACKGROUND)

int write_pool_create(struct mirror *m)
{
	mutex_init(&m->pages_wait);
	return mempool_init_page_pool(&m->pages, IO_MAX_PAGES, 0);
}

void write_pool_destroy(struct mirror *m)
{
	mempool_exit(&m->pages);
}

static void free_pages_of(struct mirror_io *io, unsigned int nr)
{
	while (nr--)
		mempool_free(io->vecs[nr].bv_page, &io->m->pages);
}

static unsigned int pages_of(const struct mirror_io *io)
{
	return DIV_ROUND_UP(io->bio->bi_iter.bi_size, PAGE_SIZE);
}

static bool alloc_pages_of(struct mirror_io *io, gfp_t gfp)
{
	unsigned int left = io->bio->bi_iter.bi_size;
	unsigned int nr = pages_of(io);
	unsigned int i;

	for (i = 0; i < nr; i++) {
		struct page *page = mempool_alloc(&io->m->pages, gfp);

		if (!page) {
			free_pages_of(io, i);
			return false;
		}
		bvec_set_page(&io->vecs[i], page, min_t(unsigned int, left, PAGE_SIZE), 0);
		left -= io->vecs[i].bv_len;
	}
	return true;
}

static void write_finish(struct mirror_io *io, blk_status_t status)
{
	struct bio *bio = io->bio;

	trace_lockstep_write_done(io->m, io->range.start, bio_sectors(bio), status);
	range_unlock(&io->m->ranges, &io->range);
	bio->bi_status = status;
	bio_endio(bio);		/* io is gone with it */
}

static void write_leg_done(struct bio *leg_bio)
{
	struct mirror_io *io = leg_bio->bi_private;

	io->status[leg_of_bio(io, leg_bio)] = leg_bio->bi_status;
	bio_uninit(leg_bio);
	if (!atomic_dec_and_test(&io->pending))
		return;

	free_pages_of(io, pages_of(io));
	write_finish(io, mirror_settle(io));
}

/* Send leg_bio, prepared with bio_init(), to every leg in io->sent. */
static void send(struct mirror_io *io)
{
	unsigned int sent = io->sent;
	enum leg_id leg;

	/* The last completion may free io before the loop ends. */
	atomic_set(&io->pending, hweight32(sent));
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (sent & BIT(leg))
			submit_bio_noacct(io_bio(io, leg));
}

static void write_send(struct mirror_io *io)
{
	struct bio *bio = io->bio;
	enum leg_id leg;
	bool copied = false;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct bio *leg_bio = io_bio(io, leg);
		struct leg *l = &io->m->legs[leg];

		if (!(io->sent & BIT(leg)))
			continue;
		bio_init(leg_bio, leg_bdev(l), io->vecs, pages_of(io),
			 REQ_OP_WRITE | (bio->bi_opf & LEG_FLAGS) | leg_write_flags(l));
		leg_bio->bi_vcnt = pages_of(io);
		leg_bio->bi_iter.bi_sector = io->range.start;
		leg_bio->bi_iter.bi_size = bio->bi_iter.bi_size;
		leg_bio->bi_ioprio = bio->bi_ioprio;
		leg_bio->bi_private = io;
		leg_bio->bi_end_io = write_leg_done;
		if (!copied)
			bio_copy_data(leg_bio, bio);
		copied = true;
	}
	count_add(&io->m->counters, COUNT_COPIED, bio->bi_iter.bi_size);
	send(io);
}

static void write_work(struct work_struct *work)
{
	struct mirror_io *io = container_of(work, struct mirror_io, work);
	struct mirror *m = io->m;

	if (!alloc_pages_of(io, GFP_NOWAIT | __GFP_NOWARN)) {
		count(&m->counters, COUNT_PUNTED);
		mutex_lock(&m->pages_wait);
		/* A mempool that may wait doesn't fail. */
		if (WARN_ON_ONCE(!alloc_pages_of(io, GFP_NOIO))) {
			mutex_unlock(&m->pages_wait);
			io->status[LEG_LOCAL] = BLK_STS_RESOURCE;
			io->status[LEG_REMOTE] = BLK_STS_RESOURCE;
			write_finish(io, mirror_settle(io));
			return;
		}
		mutex_unlock(&m->pages_wait);
	}
	write_send(io);
}

/* The range is held. In .map, or in a worker after a wait. */
static void write_start(struct mirror_io *io, bool may_wait)
{
	blk_status_t status = mirror_route(io);

	if (unlikely(status)) {
		write_finish(io, status);
		return;
	}
	if (may_wait) {
		write_work(&io->work);
		return;
	}
	if (likely(alloc_pages_of(io, GFP_NOWAIT | __GFP_NOWARN))) {
		write_send(io);
		return;
	}
	/*
	 * Waiting for pages here could be waiting for writes that this very task
	 * has submitted before and that sit in its bio_list.
	 */
	INIT_WORK(&io->work, write_work);
	queue_work(io->m->wq, &io->work);
}

static void write_waited(struct work_struct *work)
{
	write_start(container_of(work, struct mirror_io, work), true);
}

static void write_granted(struct locked_range *range)
{
	struct mirror_io *io = container_of(range, struct mirror_io, range);

	queue_work(io->m->wq, &io->work);
}

void write_map(struct mirror *m, struct bio *bio)
{
	struct mirror_io *io = mirror_io(bio);

	if (bio_sectors(bio) > IO_MAX_SECTORS)
		dm_accept_partial_bio(bio, IO_MAX_SECTORS);

	io->m = m;
	io->bio = bio;
	io->range.start = dm_target_offset(m->ti, bio->bi_iter.bi_sector);
	io->range.last = io->range.start + bio_sectors(bio) - 1;
	INIT_WORK(&io->work, write_waited);

	count(&m->counters, COUNT_WRITES);
	if (bio->bi_opf & REQ_FUA)
		count(&m->counters, COUNT_FUA);
	trace_lockstep_write(m, io->range.start, bio_sectors(bio));

	if (range_lock(&m->ranges, &io->range, write_granted))
		write_start(io, false);
	else
		count(&m->counters, COUNT_WAITED);
}

static void flush_leg_done(struct bio *leg_bio)
{
	struct mirror_io *io = leg_bio->bi_private;
	struct bio *bio = io->bio;

	io->status[leg_of_bio(io, leg_bio)] = leg_bio->bi_status;
	bio_uninit(leg_bio);
	if (!atomic_dec_and_test(&io->pending))
		return;

	bio->bi_status = mirror_settle_flush(io);
	bio_endio(bio);
}

void flush_map(struct mirror *m, struct bio *bio)
{
	struct mirror_io *io = mirror_io(bio);
	enum leg_id leg;

	io->m = m;
	io->bio = bio;
	io->range.start = 0;		/* for the trace of an error */
	count(&m->counters, COUNT_FLUSHES);

	/* Never nobody: the last leg isn't given up. */
	mirror_route_flush(io);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct bio *leg_bio = io_bio(io, leg);

		if (!(io->sent & BIT(leg)))
			continue;
		bio_init(leg_bio, leg_bdev(&m->legs[leg]), NULL, 0,
			 REQ_OP_WRITE | (bio->bi_opf & LEG_FLAGS));
		leg_bio->bi_private = io;
		leg_bio->bi_end_io = flush_leg_done;
	}
	send(io);
}
