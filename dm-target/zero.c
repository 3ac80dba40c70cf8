// SPDX-License-Identifier: GPL-2.0-only
#include "zero.h"

#include <linux/blkdev.h>

#include "lockstep-trace.h"
#include "mirror.h"

bool zero_supported(const struct mirror *m)
{
	return bdev_write_zeroes_sectors(leg_bdev(&m->legs[LEG_LOCAL])) &&
	       bdev_write_zeroes_sectors(leg_bdev(&m->legs[LEG_REMOTE]));
}

static blk_status_t zero_leg(struct mirror_io *io, enum leg_id leg)
{
	struct leg *l = &io->m->legs[leg];
	int r;

	r = blkdev_issue_zeroout(leg_bdev(l), io->range.start, bio_sectors(io->bio),
				 GFP_NOIO, 0);
	/* There is no FUA for this, so: what FUA would have done, afterwards. */
	if (!r && ((io->bio->bi_opf & REQ_FUA) || leg_write_flags(l)))
		r = blkdev_issue_flush(leg_bdev(l));
	return errno_to_blk_status(r);
}

static void zero_work(struct work_struct *work)
{
	struct mirror_io *io = container_of(work, struct mirror_io, work);
	struct bio *bio = io->bio;
	blk_status_t status;
	enum leg_id leg;

	status = mirror_route(io);
	if (!status) {
		for (leg = LEG_LOCAL; leg < LEGS; leg++)
			if (io->sent & BIT(leg))
				io->status[leg] = zero_leg(io, leg);
		status = mirror_settle(io);
	}

	trace_lockstep_write_done(io->m, io->range.start, bio_sectors(bio), status);
	range_unlock(&io->m->ranges, &io->range);
	bio->bi_status = status;
	bio_endio(bio);
}

static void zero_granted(struct locked_range *range)
{
	struct mirror_io *io = container_of(range, struct mirror_io, range);

	queue_work(io->m->zero_wq, &io->work);
}

void zero_map(struct mirror *m, struct bio *bio)
{
	struct mirror_io *io = mirror_io(bio);

	io->m = m;
	io->bio = bio;
	io->range.start = dm_target_offset(m->ti, bio->bi_iter.bi_sector);
	io->range.last = io->range.start + bio_sectors(bio) - 1;
	INIT_WORK(&io->work, zero_work);

	count(&m->counters, COUNT_ZEROES);
	trace_lockstep_write(m, io->range.start, bio_sectors(bio));

	if (range_lock(&m->ranges, &io->range, zero_granted))
		queue_work(m->zero_wq, &io->work);
	else
		count(&m->counters, COUNT_WAITED);
}
