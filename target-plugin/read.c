// SPDX-License-Identifier: GPL-2.0-only
/*
 * A read is gathered of pieces, all of them at the same time: what is in NVRAM,
 * in the cache or zero is copied, what a disk has is read into memory of
 * the engine's, so that the request can be given up (read.h): what is on the data disk right
 * there, or into the cache's. What is only in the log: log-read.c.
 *
 * A place in an NVRAM slot or in the log is used again for something else. A slot knows its
 * segment, and isn't while somebody copies from it. In the log it may be at any time: so who has
 * read it looks behind that whether its segment is live yet (dcd_is_live()), and if it isn't asks
 * the index anew. So a log that takes long to answer a read holds nothing. The data disk (a hole of
 * the index) needs none of that. A sector's place there is its own for ever; the destager takes a
 * range out of the index only when the data disk has it, and whatever it brings there later is of a
 * write that is newer than the index was when it was asked: one that is under way at the same time
 * as the read, which may see it or not.
 */
#include <linux/bio.h>
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"
#include "read.h"

TEST_KNOB(bool, read_holds, "the log's tail waits for reads of the log, and what they have asked the data disk for");
TEST_KNOB(bool, read_waits, "who asks for a read waits for the data disk's queue");

/*
 * A bio of a read of the data disk. @from: sector of the request where it begins. It reads right
 * into the request's memory, or into blocks of the cache; then @to says where in
 * the request they go.
 */
struct piece {
	struct dcd_request *rq;
	u32 from, sectors;
	struct list_head blocks;
	struct dcd_gather to;
	struct work_struct work;	/* to submit it: of what, and how much */
	struct bvec_iter iter;
	unsigned short vecs;
	struct bio bio;
};

const unsigned int dcd_piece_pad = offsetof(struct piece, bio);

static size_t place_bytes(const struct dcd_place *p)
{
	return (p->last - p->sector + 1) << SECTOR_SHIFT;
}

int dcd_read_now(struct dcd_engine *e, sector_t sector, sector_t sectors, void *buf)
{
	sector_t last = sector + sectors - 1;
	int r = 0;

	while (sector <= last && !r) {
		struct dcd_place p;

		dcd_index_find(e, sector, last, &p);
		if (p.zero)
			memset(buf, 0, place_bytes(&p));
		else if (p.lost)
			r = -ENODATA;
		else if (p.value)
			r = dcd_place_copy(e, &p, buf) ? dcd_place_read(e, &p, buf, 0) : 0;
		else
			r = dcd_disk_io(&e->data, REQ_OP_READ, sector, buf, place_bytes(&p));
		if (r == -ESTALE) {	/* it is somewhere else by now */
			r = 0;
			continue;
		}
		buf += place_bytes(&p);
		sector = p.last + 1;
	}
	return r;
}

/* --- a request's memory --- */

/* The next bytes of it, @most at most, that are in one page; 0: it has no more. */
static size_t take(struct dcd_gather *g, size_t most, struct page **page, unsigned int *offset)
{
	size_t at, n;

	while (g->sg && g->sg_done == g->sg->length) {
		g->sg = sg_next(g->sg);
		g->sg_done = 0;
	}
	if (!g->sg)
		return 0;
	at = g->sg->offset + g->sg_done;
	*page = pfn_to_page(page_to_pfn(sg_page(g->sg)) + (at >> PAGE_SHIFT));
	*offset = offset_in_page(at);
	n = min3(most, (size_t)g->sg->length - g->sg_done, (size_t)PAGE_SIZE - *offset);
	g->sg_done += n;
	return n;
}

int dcd_gather_skip(struct dcd_gather *g, size_t bytes)
{
	while (bytes) {
		unsigned int offset;
		struct page *page;
		size_t n = take(g, bytes, &page, &offset);

		if (!n)
			return -EINVAL;
		bytes -= n;
	}
	return 0;
}

int dcd_gather_fill(struct dcd_gather *g, const u8 *from, size_t bytes)
{
	while (bytes) {
		unsigned int offset;
		struct page *page;
		size_t n = take(g, bytes, &page, &offset);

		if (!n)
			return -EINVAL;
		if (from) {
			memcpy_to_page(page, offset, from, n);
			from += n;
		} else {
			memzero_page(page, offset, n);
		}
		bytes -= n;
	}
	return 0;
}

/* The same from a slot; if that can't be read, @g is as it was, and *@mem NULL. */
static int fill_from_slot(struct dcd_engine *e, struct dcd_gather *g, const u8 **mem, size_t bytes)
{
	struct scatterlist *sg = g->sg;
	size_t sg_done = g->sg_done;
	const u8 *from = *mem;

	while (bytes) {
		unsigned int offset;
		struct page *page;
		size_t n = take(g, bytes, &page, &offset);
		u8 *to;
		bool good;

		if (!n)
			return -EINVAL;
		to = kmap_local_page(page);
		good = dcd_slot_read(e, from, to + offset, n);
		flush_dcache_page(page);
		kunmap_local(to);
		if (!good) {
			g->sg = sg;
			g->sg_done = sg_done;
			*mem = NULL;
			return 0;
		}
		from += n;
		bytes -= n;
	}
	return 0;
}

/*
 * May both disks read right into it? The fabrics' own pages may; memory of a
 * program that a fabric passes on may begin or be split anywhere. Whole blocks in each
 * part of it, so that a bio that has no room for more ends with a whole one.
 */
bool dcd_read_takes_dma(const struct dcd_engine *e, const struct dcd_request *rq)
{
	unsigned int mask = (e->block - 1) | bdev_dma_alignment(e->data.bdev) |
			    bdev_dma_alignment(e->log.bdev);
	struct scatterlist *sg;
	unsigned int i;

	for_each_sg(rq->sgl, sg, rq->nents, i)
		if ((sg->offset | sg->length) & mask)
			return false;
	return true;
}

/* --- a read --- */

static void finish(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_gather *g = &rq->gather;

	rq->bad_sector = rq->sector + g->bad;
	dcd_answer(e, rq, g->error ?: g->bad == DCD_NONE_BAD ? 0 : -ENODATA);
}

void dcd_read_put(struct dcd_engine *e, struct dcd_request *rq)
{
	if (!atomic_dec_and_test(&rq->gather.pending))
		return;
	if (rq->gather.own)
		dcd_own_ended(e, rq);
	else
		finish(e, rq);
}

void dcd_gather_failed(struct dcd_gather *g, u32 from, int error)
{
	u32 old = READ_ONCE(g->bad), was;

	if (error == -ENOMEM || error == -EAGAIN || error == -EINVAL) {
		WRITE_ONCE(g->error, error);
		return;
	}
	for (; from < old; old = was) {
		was = cmpxchg(&g->bad, old, from);
		if (was == old)
			break;
	}
}

/* The disk has answered; what it has read into blocks goes to the request and the cache. */
static void hand_over(struct dcd_engine *e, struct piece *piece, bool good)
{
	sector_t sector = piece->rq->sector + piece->from, last = sector + piece->sectors - 1;
	struct dcd_block *b, *next;

	list_for_each_entry_safe(b, next, &piece->blocks, list) {
		u32 n = dcd_block_part(sector, last);
		const u8 *bytes = page_address(b->page) + dcd_block_offset(sector);

		/* There is room for it: submit_by_cache() has been there. */
		good = good && !dcd_gather_fill(&piece->to, bytes, n << SECTOR_SHIFT);
		if (good)
			dcd_cache_put(e->cache, piece->rq, b, sector, n);
		else
			dcd_cache_drop(e->cache, b);
		sector += n;
	}
}

static void piece_end(struct bio *bio);

static void submit_work(struct work_struct *work)
{
	struct piece *piece = container_of(work, struct piece, work);
	struct bio *bio = &piece->bio;

	bio_reset(bio, piece->rq->engine->data.bdev, REQ_OP_READ);
	bio->bi_iter = piece->iter;
	bio->bi_vcnt = piece->vecs;
	bio->bi_end_io = piece_end;
	submit_bio(bio);
}

static void submit_later(struct dcd_engine *e, struct piece *piece)
{
	dcd_count(e, DCD_N_READ_QUEUED, 1);
	INIT_WORK(&piece->work, submit_work);
	queue_work(e->submit_wq, &piece->work);
}

/*
 * A disk's queue may be full, and then who submits sleeps. That is never a caller: its thread
 * may be a whole session's, with writes that need no disk behind this read.
 */
static void submit(struct dcd_engine *e, struct piece *piece)
{
	struct dcd_gather *g = &piece->rq->gather;

	atomic_inc(&g->pending);
	piece->iter = piece->bio.bi_iter;
	piece->vecs = piece->bio.bi_vcnt;
	if (!test_knob(read_waits)) {
		if (!bdev_nowait(e->data.bdev)) {
			submit_later(e, piece);
			return;
		}
		piece->bio.bi_opf |= REQ_NOWAIT;
	}
	submit_bio(&piece->bio);
}

/* Perhaps in interrupt context. */
static void piece_end(struct bio *bio)
{
	struct piece *piece = container_of(bio, struct piece, bio);
	struct dcd_request *rq = piece->rq;
	struct dcd_engine *e = rq->engine;

	/* NOTSUPP: the device below is another one since it was asked. */
	if ((bio->bi_opf & REQ_NOWAIT) && (bio->bi_status == BLK_STS_AGAIN ||
					   bio->bi_status == BLK_STS_NOTSUPP)) {
		submit_later(e, piece);
		return;
	}
	if (bio->bi_status) {
		int error = blk_status_to_errno(bio->bi_status);

		pr_err_ratelimited("dcd: %s: can't read what is at sector %llu from the data disk %pg: error %d\n",
				   e->name, (u64)rq->sector + piece->from, e->data.bdev, error);
		dcd_gather_failed(&rq->gather, piece->from, error);
	}
	hand_over(e, piece, !bio->bi_status);
	bio_put(bio);	/* its memory is the engine's, which may go with the last put() */
	dcd_read_put(e, rq);
}

/* With so many pages at most; it begins where the request has come to. */
static struct piece *new_piece(struct dcd_engine *e, struct dcd_request *rq, u64 at, u32 from,
			       unsigned int pages)
{
	struct bio *bio = bio_alloc_bioset(e->data.bdev, min(pages, BIO_MAX_VECS), REQ_OP_READ,
					   GFP_NOIO, &e->bios);
	struct piece *piece = container_of(bio, struct piece, bio);

	piece->rq = rq;
	piece->from = from;
	piece->sectors = 0;
	INIT_LIST_HEAD(&piece->blocks);
	bio->bi_iter.bi_sector = at;
	bio->bi_end_io = piece_end;
	return piece;
}

static int submit_piece(struct dcd_engine *e, struct dcd_request *rq, u64 at, size_t bytes)
{
	struct dcd_gather *g = &rq->gather;
	u32 from = g->done;

	while (bytes) {
		struct piece *piece = new_piece(e, rq, at, from, (bytes >> PAGE_SHIFT) + 2);
		struct bio *bio = &piece->bio;
		size_t in = 0;

		while (in < bytes) {
			struct scatterlist *sg = g->sg;
			size_t sg_done = g->sg_done;
			unsigned int offset;
			struct page *page;
			size_t n = take(g, bytes - in, &page, &offset);

			if (n && bio_add_page(bio, page, n, offset) == n) {
				in += n;
				continue;
			}
			g->sg = sg;
			g->sg_done = sg_done;
			break;
		}
		if (!in) {
			bio_put(bio);
			return -EINVAL;
		}
		submit(e, piece);
		at += in >> SECTOR_SHIFT;
		from += in >> SECTOR_SHIFT;
		bytes -= in;
	}
	return 0;
}

/*
 * The same into blocks of the cache, which keeps them: as much of the place as goes
 * into one bio and as there is memory for. Clips it to that. False: nothing.
 */
static bool submit_by_cache(struct dcd_engine *e, struct dcd_request *rq, struct dcd_place *p)
{
	struct dcd_gather *g = &rq->gather;
	sector_t sector = p->sector;
	struct piece *piece = NULL;

	while (g->keep && sector <= p->last &&
	       !(piece && piece->bio.bi_vcnt == piece->bio.bi_max_vecs)) {
		struct dcd_block *b = dcd_cache_take(e->cache, sector, NULL);
		u32 n = dcd_block_part(sector, p->last);

		if (!b)
			break;
		if (!piece) {
			piece = new_piece(e, rq, sector, g->done,
					  (place_bytes(p) >> PAGE_SHIFT) + 2);
			piece->to.sg = g->sg;
			piece->to.sg_done = g->sg_done;
		}
		__bio_add_page(&piece->bio, b->page, n << SECTOR_SHIFT, dcd_block_offset(sector));
		list_add_tail(&b->list, &piece->blocks);
		piece->sectors += n;
		sector += n;
		/* hand_over() finds it too short, too. */
		if (dcd_gather_skip(g, n << SECTOR_SHIFT)) {
			dcd_gather_failed(g, g->done, -EINVAL);
			break;
		}
	}
	if (!piece)
		return false;
	p->last = sector - 1;
	submit(e, piece);
	return true;
}

/* What the cache has at a place's beginning: clips the place to that. */
static int from_cache(struct dcd_engine *e, struct dcd_request *rq, struct dcd_place *p)
{
	int n = dcd_cache_copy(e->cache, rq, p);

	if (n > 0)
		p->last = p->sector + n - 1;
	return n;
}

void dcd_reads_hold(struct dcd_engine *e)
{
	while (test_knob(read_holds) && atomic_read(&e->holders))
		msleep(20);
}

enum dcd_walk dcd_read_walk(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_gather *g = &rq->gather;
	int r = 0;

	while (g->done < rq->sectors) {
		const u8 *mem = NULL;
		struct dcd_place p;
		int id, cached = 0;

		dcd_index_find(e, rq->sector + g->done, rq->sector + rq->sectors - 1, &p);
		id = srcu_read_lock(&e->copiers);
		if (p.value && !p.zero && !p.lost)
			mem = dcd_place_in_slot(e, &p);
		if (p.zero)
			r = dcd_gather_fill(g, NULL, place_bytes(&p));
		else if (mem)
			r = fill_from_slot(e, g, &mem, place_bytes(&p));
		srcu_read_unlock(&e->copiers, id);
		if (!p.zero && !mem && !p.lost)
			cached = from_cache(e, rq, &p);
		trace_dcd_piece(e, &p, mem, cached);
		if (p.zero || mem) {
			dcd_count(e, mem ? DCD_N_MEMORY_READS : DCD_N_ZERO_PIECES, 1);
		} else if (cached) {
			dcd_count(e, DCD_N_CACHE_HITS, 1);
			r = min(cached, 0);
		} else if (p.lost) {
			dcd_count(e, DCD_N_LOST_READS, 1);
			r = -ENODATA;
		} else if (!g->own && !g->log_reads) {
			return DCD_WALK_OWN;
		} else if (p.value && !g->log_reads) {
			return DCD_WALK_LOG;
		} else if (p.value) {
			dcd_count(e, DCD_N_LOG_PIECES, 1);
			r = dcd_log_read_begin(e, rq, &p);
		} else if (submit_by_cache(e, rq, &p)) {
			dcd_count(e, DCD_N_CACHE_MISSES, 1);
			dcd_count(e, DCD_N_DATA_PIECES, 1);
		} else {
			if (g->look && !g->keep)
				dcd_count(e, DCD_N_CACHE_BYPASSED, 1);
			dcd_count(e, DCD_N_DATA_PIECES, 1);
			r = submit_piece(e, rq, p.sector, place_bytes(&p));
		}
		if (r == -ESTALE) {	/* not in the log any more */
			r = 0;
			continue;
		}
		if (r) {
			dcd_gather_failed(g, g->done, r);
			break;
		}
		if (g->own)
			dcd_read_saw(e, g, &p);
		g->done += p.last - p.sector + 1;
	}
	return DCD_WALK_END;
}

/* By way of a buffer, as memory that disks can't read into needs it. */
static void bounce(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_gather *g = &rq->gather;
	sector_t most = min_t(sector_t, rq->sectors - g->done, DCD_IO_MAX >> SECTOR_SHIFT);
	void *buf = kvmalloc(most << SECTOR_SHIFT, GFP_NOIO);
	int r = buf ? 0 : -ENOMEM;

	while (!r && g->done < rq->sectors) {
		sector_t n = min(most, rq->sectors - g->done);

		r = dcd_read_now(e, rq->sector + g->done, n, buf);
		if (!r)
			r = dcd_gather_fill(g, buf, n << SECTOR_SHIFT);
		if (!r)
			g->done += n;
	}
	if (r)
		dcd_gather_failed(g, g->done, r);
	kvfree(buf);
}

/* What is behind is read from the log, and the data disk is asked for what it has. */
void dcd_read_in_worker(struct dcd_engine *e, struct dcd_request *rq,
			struct dcd_log_reads *log_reads)
{
	struct blk_plug plug;

	dcd_log_reads_init(e, log_reads);
	rq->gather.log_reads = log_reads;
	if (test_knob(read_holds))
		atomic_inc(&e->holders);
	blk_start_plug(&plug);
	dcd_read_walk(e, rq);
	blk_finish_plug(&plug);
}

void dcd_read_in_worker_end(struct dcd_engine *e, struct dcd_request *rq)
{
	dcd_log_reads_end(e, rq);
	while (test_knob(read_holds) && atomic_read(&rq->gather.pending) > 1)
		msleep(20);
	if (test_knob(read_holds))
		atomic_dec(&e->holders);
	rq->gather.log_reads = NULL;
}

void dcd_read_rest(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_log_reads log_reads;

	if (dcd_read_takes_dma(e, rq)) {
		dcd_count(e, DCD_N_READ_HOPS, 1);
		dcd_read_in_worker(e, rq, &log_reads);
		dcd_read_in_worker_end(e, rq);
	} else {
		dcd_count(e, DCD_N_READ_BOUNCES, 1);
		bounce(e, rq);
	}
	dcd_read_put(e, rq);
}

void dcd_read(struct dcd_engine *e, struct dcd_request *rq)
{
	struct dcd_gather *g = &rq->gather;

	*g = (struct dcd_gather) {
		.sg = rq->sgl, .bad = DCD_NONE_BAD, .pending = ATOMIC_INIT(1),
	};
	rq->engine = e;
	dcd_cache_begin(e->cache, rq);
	if (dcd_left(e)) {	/* what is written then doesn't pass the cache */
		g->look = false;
		g->keep = false;
	}
	if (dcd_read_walk(e, rq) == DCD_WALK_END)
		dcd_read_put(e, rq);
	else
		dcd_read_to_own(e, rq);
}
