// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bio.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "engine.h"
#include "lockstep-compat.h"

#define AWAKE (30 * HZ)	/* which is less than a hung task's time */

int dcd_disk_open(struct dcd_disk *disk, const char *what, const char *path, void *holder)
{
	void *handle = lockstep_bdev_open(path, holder, &disk->bdev);

	if (IS_ERR(handle)) {
		int r = PTR_ERR(handle);

		pr_err("dcd: can't open the %s disk %s: error %d%s\n", what, path, r,
		       r == -EBUSY ? ": it is in use" : "");
		return r;
	}
	disk->handle = handle;
	disk->sectors = bdev_nr_sectors(disk->bdev);
	disk->block = bdev_logical_block_size(disk->bdev);
	if (disk->block > DCD_BLOCK) {
		pr_err("dcd: %s disk %s has blocks of %u bytes: 4096 at most are supported\n", what,
		       path, disk->block);
		dcd_disk_close(disk);
		return -EINVAL;
	}
	return 0;
}

void dcd_disk_close(struct dcd_disk *disk)
{
	if (disk->handle)
		lockstep_bdev_close(disk->handle);
	disk->handle = NULL;
}

void dcd_ios_init(struct dcd_ios *ios, struct dcd_disk *disk, wait_queue_head_t *wait)
{
	ios->disk = disk;
	atomic_set(&ios->in_flight, 0);
	ios->wait = wait;
}

static void io_put(struct dcd_io *io)
{
	wait_queue_head_t *wait = io->ios->wait;
	unsigned long flags;

	if (!atomic_dec_and_test(&io->bios))
		return;
	spin_lock_irqsave(&wait->lock, flags);
	atomic_dec(&io->ios->in_flight);
	wake_up_locked(wait);
	spin_unlock_irqrestore(&wait->lock, flags);
}

static void io_end(struct bio *bio)
{
	struct dcd_io *io = bio->bi_private;

	if (bio->bi_status)
		WRITE_ONCE(io->status, bio->bi_status);
	bio_put(bio);
	io_put(io);
}

static void io_init(struct dcd_ios *ios, struct dcd_io *io)
{
	io->ios = ios;
	io->status = BLK_STS_OK;
	atomic_set(&io->bios, 1);
	atomic_inc(&ios->in_flight);
}

static struct page *page_of(const void *p)
{
	return is_vmalloc_addr(p) ? vmalloc_to_page(p) : virt_to_page(p);
}

/* What goes into @bio, which takes @most, of the rest of @part, which becomes less. */
static void add(struct bio *bio, size_t most, struct dcd_part *part)
{
	while (part->bytes && bio->bi_iter.bi_size < most) {
		unsigned int off = part->buf ? offset_in_page(part->buf) : 0;
		unsigned int n = min3(part->bytes, (size_t)PAGE_SIZE - off,
				      most - bio->bi_iter.bi_size);
		struct page *page = part->buf ? page_of(part->buf) : ZERO_PAGE(0);

		if (bio->bi_vcnt >= bio->bi_max_vecs || bio_add_page(bio, page, n, off) != n)
			break;
		if (part->buf)
			part->buf += n;
		part->bytes -= n;
	}
}

/* How much from @sector on is in one piece, from *@where on. */
static size_t piece_of(struct dcd_disk *disk, u64 sector, size_t bytes, u64 *where)
{
	rcu_read_lock();
	bytes = dcd_moves_part(rcu_dereference(disk->moves), sector << SECTOR_SHIFT, bytes, where);
	rcu_read_unlock();
	*where >>= SECTOR_SHIFT;
	return bytes;
}

void dcd_io_begin_parts(struct dcd_ios *ios, struct dcd_io *io, blk_opf_t opf, u64 sector,
			struct dcd_part *parts, unsigned int n)
{
	size_t bytes = 0;
	unsigned int i;

	for (i = 0; i < n; i++)
		bytes += parts[i].bytes;
	io_init(ios, io);
	while (bytes) {
		u64 where;
		size_t piece = piece_of(ios->disk, sector, bytes, &where);
		unsigned int pages = min_t(size_t, BIO_MAX_VECS, (piece >> PAGE_SHIFT) + 2 * n);
		struct bio *bio = bio_alloc(ios->disk->bdev, pages, opf, GFP_NOIO);

		bio->bi_iter.bi_sector = where;
		bio->bi_end_io = io_end;
		bio->bi_private = io;
		for (; n; n--, parts++) {
			add(bio, piece, parts);
			if (parts->bytes)
				break;
		}
		bytes -= bio->bi_iter.bi_size;
		sector += bio_sectors(bio);
		atomic_inc(&io->bios);
		submit_bio(bio);
	}
	io_put(io);
}

void dcd_io_begin(struct dcd_ios *ios, struct dcd_io *io, blk_opf_t opf, u64 sector, void *buf,
		  size_t bytes)
{
	struct dcd_part part = { .buf = buf, .bytes = bytes };

	dcd_io_begin_parts(ios, io, opf, sector, &part, 1);
}

void dcd_io_begin_flush(struct dcd_ios *ios, struct dcd_io *io)
{
	struct bio *bio = bio_alloc(ios->disk->bdev, 0, REQ_OP_WRITE | REQ_PREFLUSH, GFP_NOIO);

	io_init(ios, io);
	bio->bi_end_io = io_end;
	bio->bi_private = io;
	submit_bio(bio);
}

void dcd_ios_wait(struct dcd_ios *ios, unsigned int most)
{
	/* As blk_wait_io(): who is held tells of a disk that hangs, it is no task that does. */
	while (!___wait_event(*ios->wait,
			      ___wait_cond_timeout(atomic_read(&ios->in_flight) <= most),
			      TASK_UNINTERRUPTIBLE, 0, AWAKE, __ret = io_schedule_timeout(__ret)))
		;
	/* Who woke us has let go of @ios. */
	spin_lock_irq(&ios->wait->lock);
	spin_unlock_irq(&ios->wait->lock);
}

int dcd_disk_io(struct dcd_disk *disk, blk_opf_t opf, u64 sector, void *buf, size_t bytes)
{
	DECLARE_WAIT_QUEUE_HEAD_ONSTACK(wait);
	struct blk_plug plug;
	struct dcd_ios ios;
	struct dcd_io io;

	dcd_ios_init(&ios, disk, &wait);
	blk_start_plug(&plug);
	dcd_io_begin(&ios, &io, opf, sector, buf, bytes);
	blk_finish_plug(&plug);
	dcd_ios_wait(&ios, 0);
	return blk_status_to_errno(io.status);
}

int dcd_disk_flush(struct dcd_disk *disk)
{
	return blkdev_issue_flush(disk->bdev);
}
