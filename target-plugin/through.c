// SPDX-License-Identifier: GPL-2.0-only
/*
 * The way of a write when the log has been left (leave.h): to the data disk, durable there, then
 * the answer. What was LOST isn't when it has been written over. A batch can't be all or nothing
 * here, so it is refused: the LUN takes single writes only.
 *
 * A copy is written, as what the request has may be changed meanwhile, and so that it doesn't
 * matter what memory that is. It sleeps for the data disk, as long as that takes.
 */
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, through_cached, "what goes through is left in the data disk's cache");

static blk_opf_t durable(void)
{
	return test_knob(through_cached) ? 0 : REQ_FUA;
}

static int write_data(struct dcd_engine *e, const struct dcd_request *rq)
{
	size_t bytes = (size_t)rq->sectors << SECTOR_SHIFT, done = 0;
	size_t most = min_t(size_t, bytes, DCD_IO_MAX);
	void *buf = kvmalloc(most, GFP_NOIO);
	int r = buf ? 0 : -ENOMEM;

	while (!r && done < bytes) {
		size_t n = min(most, bytes - done);

		sg_pcopy_to_buffer(rq->sgl, rq->nents, buf, n, rq->skip + done);
		r = dcd_disk_io(&e->data, REQ_OP_WRITE | REQ_SYNC | durable(),
				rq->sector + (done >> SECTOR_SHIFT), buf, n);
		done += n;
	}
	kvfree(buf);
	return r;
}

static int zero_data(struct dcd_engine *e, const struct dcd_request *rq)
{
	return blkdev_issue_zeroout(e->data.bdev, rq->sector, rq->sectors, GFP_NOIO, 0) ?:
	       dcd_disk_flush(&e->data);
}

/* Some of it was LOST, perhaps. */
static int is_found(struct dcd_engine *e, sector_t sector, sector_t last)
{
	sector_t end;
	int r = 0;

	if (!READ_ONCE(e->lost.n))
		return 0;
	mutex_lock(&e->intake);
	for (; !r && sector <= last; sector = end + 1) {
		end = dcd_index_reach(e, sector, last);
		r = dcd_index_erase(e, sector, end);
	}
	mutex_unlock(&e->intake);
	return r;
}

static void tell(struct dcd_engine *e, int error)
{
	bool failing = error && error != -ENOMEM, news;

	if (failing)
		dcd_count(e, DCD_N_DATA_ERRORS, 1);
	spin_lock(&e->lock);
	news = e->data_failing != failing;
	e->data_failing = failing;
	spin_unlock(&e->lock);
	if (news && failing)
		pr_err("dcd: %s: the data disk %pg doesn't take a write: error %d\n", e->name,
		       e->data.bdev, error);
}

static void go_through(struct dcd_engine *e, struct dcd_request *rq)
{
	int r;

	dcd_count(e, DCD_N_THROUGH, 1);
	switch (rq->op) {
	case DCD_FLUSH:
		r = dcd_disk_flush(&e->data);
		break;
	case DCD_WRITE:
		r = write_data(e, rq);
		break;
	default:
		r = zero_data(e, rq);
		break;
	}
	tell(e, r);
	if (!r && rq->op != DCD_FLUSH)
		r = is_found(e, rq->sector, rq->sector + rq->sectors - 1);
	dcd_answer(e, rq, r && r != -ENOMEM ? -EIO : r);
}

/* Its own memory: a request may be on its owner's stack, and is gone when it is answered. */
struct through {
	struct work_struct work;
	struct dcd_engine *e;
	struct dcd_request *rq;
};

static void work_on(struct work_struct *work)
{
	struct through *t = container_of(work, struct through, work);

	go_through(t->e, t->rq);
	kfree(t);
}

void dcd_through(struct dcd_engine *e, struct dcd_request *rq)
{
	struct through *t = rq->ranges ? NULL : kmalloc(sizeof(*t), GFP_NOIO);

	if (!t) {
		dcd_answer(e, rq, rq->ranges ? -EOPNOTSUPP : -ENOMEM);
		return;
	}
	t->e = e;
	t->rq = rq;
	INIT_WORK(&t->work, work_on);
	queue_work(e->io_wq, &t->work);
}
