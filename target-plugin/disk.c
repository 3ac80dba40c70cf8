// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bio.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "engine.h"
#include "lockstep-compat.h"

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
	if (bdev_logical_block_size(disk->bdev) != 512) {
		pr_err("dcd: %s disk %s has blocks of %u bytes: only 512 are supported\n", what,
		       path, bdev_logical_block_size(disk->bdev));
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

struct io_join {
	atomic_t pending;
	blk_status_t status;
	struct completion done;
};

static void join_put(struct io_join *j)
{
	if (atomic_dec_and_test(&j->pending))
		complete(&j->done);
}

static void io_end(struct bio *bio)
{
	struct io_join *j = bio->bi_private;

	if (bio->bi_status)
		WRITE_ONCE(j->status, bio->bi_status);
	bio_put(bio);
	join_put(j);
}

int dcd_disk_io(struct dcd_disk *disk, blk_opf_t opf, u64 sector, void *buf, size_t bytes)
{
	struct io_join j = { .pending = ATOMIC_INIT(1) };
	struct blk_plug plug;
	u8 *p = buf;

	init_completion(&j.done);
	blk_start_plug(&plug);
	while (bytes) {
		unsigned int pages = min_t(size_t, BIO_MAX_VECS, (bytes >> PAGE_SHIFT) + 2);
		struct bio *bio = bio_alloc(disk->bdev, pages, opf, GFP_NOIO);

		bio->bi_iter.bi_sector = sector;
		bio->bi_end_io = io_end;
		bio->bi_private = &j;
		while (bytes) {
			unsigned int off = offset_in_page(p);
			unsigned int n = min_t(size_t, bytes, PAGE_SIZE - off);
			struct page *page = is_vmalloc_addr(p) ? vmalloc_to_page(p) :
								virt_to_page(p);

			if (bio_add_page(bio, page, n, off) != n)
				break;
			p += n;
			bytes -= n;
			sector += n >> SECTOR_SHIFT;
		}
		atomic_inc(&j.pending);
		submit_bio(bio);
	}
	blk_finish_plug(&plug);
	join_put(&j);
	wait_for_completion_io(&j.done);
	return blk_status_to_errno(j.status);
}

int dcd_disk_flush(struct dcd_disk *disk)
{
	return blkdev_issue_flush(disk->bdev);
}
