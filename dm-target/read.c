// SPDX-License-Identifier: GPL-2.0-only
#include "read.h"

#include "lockstep-test.h"
#include "lockstep-trace.h"
#include "mirror.h"
#include "repair.h"

TEST_KNOB(bool, again_whole, "a read that is tried again has to come from one leg");
TEST_KNOB(bool, unmended_fails, "what the repair from a target couldn't write to the source is an error");

static sector_t last_of(const struct bvec_iter *iter)
{
	return iter->bi_sector + (iter->bi_size >> SECTOR_SHIFT) - 1;
}

static struct mirror_io *io_of(struct sender_item *item)
{
	return container_of(item, struct mirror_io, sent.item);
}

/* A part of a read of the remote leg has returned, and the bio that it had is no more. */
static void part_over(struct mirror_io *io, blk_status_t status)
{
	sender_returned(&io->m->legs[LEG_REMOTE].sender, &io->sent.item);
	if (read_window_returned(io->m, &io->sent, !status))
		return;
	io->bio->bi_status = status;
	bio_endio(io->bio);	/* to read_end_io() */
}

static void part_done(struct bio *part)
{
	struct mirror_io *io = part->bi_private;
	blk_status_t status = part->bi_status;

	bio_uninit(part);
	part_over(io, status);
}

static void send_part(struct sender_item **items, unsigned int nr)
{
	struct mirror_io *io = io_of(items[0]);
	struct bio *part = &io->part;
	int r;

	r = bio_init_clone(leg_bdev(&io->m->legs[LEG_REMOTE]), part, io->bio, GFP_NOIO);
	if (r) {
		io->unanswered = true;	/* nobody was asked */
		part_over(io, errno_to_blk_status(r));
		return;
	}
	bio_clear_polled(part);		/* nobody asks for it */
	bio_trim(part, io->sent.done >> SECTOR_SHIFT, io->sent.part >> SECTOR_SHIFT);
	part->bi_private = io;
	part->bi_end_io = part_done;
	submit_bio_noacct(part);
}

static void drop_read(struct sender_item *item)
{
	struct mirror_io *io = io_of(item);

	read_window_dropped(io->m, &io->sent);
	io->unanswered = true;
	io->bio->bi_status = BLK_STS_IOERR;
	bio_endio(io->bio);	/* to read_end_io() */
}

static int hand_over(struct mirror_io *io)
{
	static const struct sender_ops ops = { .send = send_part, .drop = drop_read };

	io->watched = io->leg == LEG_LOCAL && READ_ONCE(io->m->options.timeout[LEG_LOCAL]);
	if (likely(io->leg == LEG_LOCAL && !io->watched))
		return DM_MAPIO_REMAPPED;
	read_item_init(&io->sent, &ops, io->bio->bi_iter.bi_size);
	if (io->leg == LEG_LOCAL) {
		sender_began(&io->m->legs[LEG_LOCAL].sender, &io->sent.item);
		return DM_MAPIO_REMAPPED;
	}
	read_window_give(io->m, &io->sent);
	return DM_MAPIO_SUBMITTED;
}

int read_map(struct mirror *m, struct bio *bio)
{
	struct mirror_io *io = mirror_io(bio);
	enum bounced bounced;
	bool wanted;

	bio->bi_iter.bi_sector = dm_target_offset(m->ti, bio->bi_iter.bi_sector);

	io->m = m;
	io->bio = bio;
	io->watched = false;
	io->unanswered = false;
	io->retried = false;
	count(&m->counters, COUNT_READS);
	do {
		io->leg = mirror_read_leg(m, bio->bi_iter.bi_sector, last_of(&bio->bi_iter), 0);
		if (io->leg == LEGS)
			return DM_MAPIO_KILL;
		bounced = BOUNCE_DIRECT;
		wanted = bounce_wanted(m, io->leg);
		if (unlikely(wanted || io->leg == LEG_REMOTE) && bio_sectors(bio) > IO_MAX_SECTORS)
			dm_accept_partial_bio(bio, IO_MAX_SECTORS);
		if (unlikely(wanted)) {
			io->iter = bio->bi_iter;
			bounced = bounce_read(io);
		}
	} while (unlikely(bounced == BOUNCE_DIED));
	/* Then it may be over. */
	if (bounced == BOUNCED)
		return DM_MAPIO_SUBMITTED;

	io->iter = bio->bi_iter;
	bio_set_dev(bio, leg_bdev(&m->legs[io->leg]));
	return hand_over(io);
}

/* Who gives a block that io->leg can't? */
static enum leg_id other_giver(const struct mirror_io *io, const struct bvec_iter *at)
{
	struct mirror *m = io->m;
	enum leg_id leg = mirror_read_leg(m, at->bi_sector, last_of(at), BIT(io->leg));

	/* That it couldn't be repaired: then what the target has is all that there is. */
	if (leg == LEGS && io->mends && repair_from_target(m->repair, io->leg) &&
	    !test_knob(unmended_fails))
		leg = other_leg(io->leg);
	return leg;
}

/* Each leg has bad places of its own: what this one can't give either is asked for by blocks. */
static int read_by_blocks(struct mirror_io *io, struct bvec_iter at)
{
	unsigned int left = at.bi_size, n, block;
	struct mirror *m = io->m;
	struct bio *bio = io->bio;
	enum leg_id leg;
	int r = -EIO;

	block = io->mends ? repair_block_sectors(m->repair, io->leg) << SECTOR_SHIFT :
			    max(mirror_block(m), 4096U);
	if ((left <= block && !io->mends) || test_knob(again_whole))
		return r;
	for (; left; left -= n) {
		n = min(left, block - ((at.bi_sector << SECTOR_SHIFT) & (block - 1)));
		bio->bi_iter = at;
		bio->bi_iter.bi_size = n;
		r = transfer_read(m, io->leg, bio);
		leg = r && !(io->mends && r == -ETIMEDOUT) ? other_giver(io, &bio->bi_iter) : LEGS;
		if (leg < LEGS) {
			r = transfer_read(m, leg, bio);
			if (!r && !io->mends)
				repair_request(m->repair, io->leg, at.bi_sector,
					       at.bi_sector + (n >> SECTOR_SHIFT) - 1);
		}
		if (r)
			return r;
		bio_advance_iter(bio, &at, n);
	}
	return 0;
}

/* Part by part, each in its turn. */
static int read_again(struct mirror_io *io)
{
	unsigned int part = max(AGAIN_FIRST, mirror_block(io->m));
	struct bvec_iter at = io->iter;
	struct bio *bio = io->bio;
	struct again_turn turn;
	int r = 0;

	while (at.bi_size && !r) {
		bio->bi_iter = at;
		bio->bi_iter.bi_size = min(at.bi_size, part);
		again_enter(io->m, io->leg, &turn, bio->bi_iter.bi_size);
		r = transfer_read(io->m, io->leg, bio);
		if (unlikely(r && r != -ETIMEDOUT))
			r = read_by_blocks(io, bio->bi_iter);
		again_leave(io->m, io->leg, &turn);
		bio_advance_iter(bio, &at, turn.bytes);
	}
	return r;
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

	if (io->mends)
		repair_now(io->m->repair, io->leg, io->iter.bi_sector, last_of(&io->iter), true);
	r = read_again(io);
	bio->bi_iter = io->iter;
	/* The leg may have said nothing at all. */
	bio->bi_status = r == -ETIMEDOUT ? BLK_STS_IOERR : errno_to_blk_status(r);
	bio_endio(bio);		/* to read_end_io() a second time */
}

int read_end_io(struct mirror *m, struct bio *bio, blk_status_t *error)
{
	struct mirror_io *io = mirror_io(bio);
	enum leg_id leg;

	if (unlikely(io->watched)) {
		io->watched = false;
		sender_returned(&m->legs[LEG_LOCAL].sender, &io->sent.item);
	}
	if (likely(!*error)) {
		if (unlikely(io->retried && !io->mends))
			count(&m->counters, COUNT_FAILOVERS);
		if (unlikely(io->retried && !io->mends && !io->unanswered))
			repair_request(m->repair, other_leg(io->leg), io->iter.bi_sector,
				       last_of(&io->iter));
		return DM_ENDIO_DONE;
	}
	/* transfer.c has counted it. */
	if (io->retried)
		return DM_ENDIO_DONE;

	/* A leg that was given up has said nothing. */
	if (!io->unanswered) {
		atomic64_inc(&m->legs[io->leg].read_errors);
		trace_lockstep_leg_error(m, io->leg, io->iter.bi_sector, *error);
	}

	leg = mirror_read_leg(m, io->iter.bi_sector, last_of(&io->iter), BIT(io->leg));
	io->mends = leg == LEGS && repair_from_target(m->repair, io->leg);
	if (leg == LEGS && !io->mends)
		return DM_ENDIO_DONE;

	io->retried = true;
	if (!io->mends)
		io->leg = leg;
	INIT_WORK(&io->work, retry_work);
	queue_work(m->read_wq, &io->work);
	return DM_ENDIO_INCOMPLETE;
}
