// SPDX-License-Identifier: GPL-2.0-only
#include "read.h"

#include "lockstep-trace.h"
#include "mirror.h"
#include "repair.h"

static sector_t last_of(const struct bvec_iter *iter)
{
	return iter->bi_sector + (iter->bi_size >> SECTOR_SHIFT) - 1;
}

int read_map(struct mirror *m, struct bio *bio)
{
	struct mirror_io *io = mirror_io(bio);

	bio->bi_iter.bi_sector = dm_target_offset(m->ti, bio->bi_iter.bi_sector);

	io->m = m;
	io->bio = bio;
	io->iter = bio->bi_iter;
	io->retried = false;
	io->leg = mirror_read_leg(m, io->iter.bi_sector, last_of(&io->iter), 0);
	count(&m->counters, COUNT_READS);
	if (io->leg == LEGS)
		return DM_MAPIO_KILL;

	/* Of the local leg nobody asks whether it hangs. */
	if (unlikely(io->leg == LEG_REMOTE))
		leg_io_start(&m->legs[LEG_REMOTE]);
	bio_set_dev(bio, leg_bdev(&m->legs[io->leg]));
	return DM_MAPIO_REMAPPED;
}

/*
 * The caller's bio stays as the leg's driver left it. Its iter is put back: whoever
 * gets the bio back may look at it.
 */
static void retry_work(struct work_struct *work)
{
	struct mirror_io *io = container_of(work, struct mirror_io, work);
	struct bio *bio = io->bio;
	int r;

	bio->bi_iter = io->iter;
	r = transfer_read(io->m, io->leg, bio);
	bio->bi_iter = io->iter;
	/* The leg may have said nothing at all. */
	bio->bi_status = r == -ETIMEDOUT ? BLK_STS_IOERR : errno_to_blk_status(r);
	bio_endio(bio);		/* to read_end_io() a second time */
}

int read_end_io(struct mirror *m, struct bio *bio, blk_status_t *error)
{
	struct mirror_io *io = mirror_io(bio);
	enum leg_id leg;

	if (unlikely(io->leg == LEG_REMOTE && !io->retried))
		leg_io_end(&m->legs[LEG_REMOTE]);
	if (likely(!*error)) {
		if (unlikely(io->retried)) {
			count(&m->counters, COUNT_FAILOVERS);
			repair_request(m->repair, other_leg(io->leg), io->iter.bi_sector,
				       last_of(&io->iter));
		}
		return DM_ENDIO_DONE;
	}
	/* transfer.c has counted it. */
	if (io->retried)
		return DM_ENDIO_DONE;

	atomic64_inc(&m->legs[io->leg].read_errors);
	trace_lockstep_leg_error(m, io->leg, io->iter.bi_sector, *error);

	leg = mirror_read_leg(m, io->iter.bi_sector, last_of(&io->iter), BIT(io->leg));
	if (leg == LEGS)
		return DM_ENDIO_DONE;

	io->retried = true;
	io->leg = leg;
	INIT_WORK(&io->work, retry_work);
	queue_work(m->read_wq, &io->work);
	return DM_ENDIO_INCOMPLETE;
}
