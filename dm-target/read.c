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

	bio_set_dev(bio, leg_bdev(&m->legs[io->leg]));
	return DM_MAPIO_REMAPPED;
}

static void retry_done(struct bio *leg_bio)
{
	struct mirror_io *io = leg_bio->bi_private;
	struct bio *bio = io->bio;

	bio->bi_status = leg_bio->bi_status;
	bio_uninit(leg_bio);
	bio_endio(bio);		/* to read_end_io() a second time */
}

/*
 * The caller's bio stays as the leg's driver left it; a fresh clone of what it
 * was goes to the other leg. Its iter is put back first: the clone copies it,
 * and whoever gets the bio back may look at it.
 */
static void retry_work(struct work_struct *work)
{
	struct mirror_io *io = container_of(work, struct mirror_io, work);
	struct bio *leg_bio = &io->leg_bio;
	struct bio *bio = io->bio;

	bio->bi_iter = io->iter;
	bio->bi_status = BLK_STS_OK;
	if (bio_init_clone(leg_bdev(&io->m->legs[io->leg]), leg_bio, bio, GFP_NOIO)) {
		io->leg = LEGS;		/* nor is one to blame for our want of memory */
		bio->bi_status = BLK_STS_RESOURCE;
		bio_endio(bio);
		return;
	}
	leg_bio->bi_opf &= ~(REQ_RAHEAD | REQ_POLLED | REQ_NOWAIT);
	leg_bio->bi_private = io;
	leg_bio->bi_end_io = retry_done;
	submit_bio_noacct(leg_bio);
}

int read_end_io(struct mirror *m, struct bio *bio, blk_status_t *error)
{
	struct mirror_io *io = mirror_io(bio);
	enum leg_id leg;

	if (likely(!*error)) {
		if (unlikely(io->retried)) {
			count(&m->counters, COUNT_FAILOVERS);
			repair_request(m->repair, other_leg(io->leg), io->iter.bi_sector,
				       last_of(&io->iter));
		}
		return DM_ENDIO_DONE;
	}
	/* .map found no leg, so no leg is to blame */
	if (io->leg == LEGS)
		return DM_ENDIO_DONE;

	atomic64_inc(&m->legs[io->leg].read_errors);
	trace_lockstep_leg_error(m, io->leg, io->iter.bi_sector, *error);
	if (io->retried)
		return DM_ENDIO_DONE;

	leg = mirror_read_leg(m, io->iter.bi_sector, last_of(&io->iter), BIT(io->leg));
	if (leg == LEGS)
		return DM_ENDIO_DONE;

	io->retried = true;
	io->leg = leg;
	INIT_WORK(&io->work, retry_work);
	queue_work(m->wq, &io->work);
	return DM_ENDIO_INCOMPLETE;
}
