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
	io->again = READ_ONLY_ONCE;
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

/* A block that io->leg can't give: by the other one, if that has it. @error: why. */
static int read_by_other(struct mirror_io *io, int error)
{
	struct mirror *m = io->m;
	struct bio *bio = io->bio;
	sector_t first = bio->bi_iter.bi_sector, last = last_of(&bio->bi_iter);
	enum leg_id leg = mirror_read_leg(m, first, last, BIT(io->leg));
	int r;

	if (leg < LEGS) {
		r = transfer_read(m, leg, bio);
		if (!r)
			repair_request(m->repair, io->leg, first, last);
		return r;
	}
	/* What the target has is all that there is. */
	if (io->again != READ_MENDED || error == -ETIMEDOUT || test_knob(unmended_fails) ||
	    !repair_in_vain(m->repair, io->leg, first) ||
	    !repair_from_target(m->repair, io->leg))
		return error;
	return transfer_read(m, other_leg(io->leg), bio);
}

/* Beside what is bad of a source there may be what is newer than the target's: bytes. */
static unsigned int least_block(const struct mirror_io *io)
{
	if (io->again == READ_MENDED)
		return repair_block_sectors(io->m->repair, io->leg) << SECTOR_SHIFT;
	return max(mirror_block(io->m), 4096U);
}

/*
 * Each leg has bad places of its own: what this one can't give is asked for by blocks, and by
 * smaller ones where those fail. @block: bytes, a power of two.
 */
static int read_by_blocks(struct mirror_io *io, struct bvec_iter at, unsigned int block)
{
	unsigned int left = at.bi_size, n;
	struct bio *bio = io->bio;
	int r = 0;

	for (; left && !r; left -= n) {
		n = min(left, block - ((at.bi_sector << SECTOR_SHIFT) & (block - 1)));
		bio->bi_iter = at;
		bio->bi_iter.bi_size = n;
		r = transfer_read(io->m, io->leg, bio);
		if (r && r != -ETIMEDOUT && block > least_block(io))
			r = read_by_blocks(io, bio->bi_iter, least_block(io));
		else if (r)
			r = read_by_other(io, r);
		bio_advance_iter(bio, &at, n);
	}
	return r;
}

/* Part by part, each in its turn. */
static int read_again(struct mirror_io *io)
{
	unsigned int part = max(AGAIN_FIRST, mirror_block(io->m));
	unsigned int block = max(least_block(io), 4096U);
	/* Of one block both have said that they can't. */
	bool blocks = (io->iter.bi_size > block || io->again != READ_OTHER) &&
		      !test_knob(again_whole);
	struct bvec_iter at = io->iter;
	struct bio *bio = io->bio;
	struct again_turn turn;
	int r = 0;

	while (at.bi_size && !r) {
		bio->bi_iter = at;
		bio->bi_iter.bi_size = min(at.bi_size, part);
		again_enter(io->m, io->leg, &turn, bio->bi_iter.bi_size);
		r = transfer_read(io->m, io->leg, bio);
		if (unlikely(r && r != -ETIMEDOUT && blocks))
			r = read_by_blocks(io, bio->bi_iter, block);
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

	if (io->again == READ_MENDED)
		repair_now(io->m->repair, io->leg, io->iter.bi_sector, last_of(&io->iter), true);
	r = read_again(io);
	bio->bi_iter = io->iter;
	/* The leg may have said nothing at all. */
	bio->bi_status = r == -ETIMEDOUT ? BLK_STS_IOERR : errno_to_blk_status(r);
	bio_endio(bio);		/* to read_end_io() a second time */
}

static enum read_again how_again(const struct mirror_io *io)
{
	sector_t first = io->iter.bi_sector, last = last_of(&io->iter);
	struct mirror *m = io->m;

	if (mirror_read_leg(m, first, last, BIT(io->leg)) < LEGS)
		return READ_OTHER;
	if (repair_from_target(m->repair, io->leg))
		return READ_MENDED;
	/* There may be a region in it that the other one has. */
	if (!io->unanswered && region_of(&m->map, first) != region_of(&m->map, last) &&
	    !READ_ONCE(m->legs[other_leg(io->leg)].dead))
		return READ_PARTS;
	return READ_ONLY_ONCE;
}

int read_end_io(struct mirror *m, struct bio *bio, blk_status_t *error)
{
	struct mirror_io *io = mirror_io(bio);

	if (unlikely(io->watched)) {
		io->watched = false;
		sender_returned(&m->legs[LEG_LOCAL].sender, &io->sent.item);
	}
	if (likely(!*error)) {
		if (unlikely(io->again == READ_OTHER))
			count(&m->counters, COUNT_FAILOVERS);
		if (unlikely(io->again == READ_OTHER && !io->unanswered))
			repair_request(m->repair, other_leg(io->leg), io->iter.bi_sector,
				       last_of(&io->iter));
		return DM_ENDIO_DONE;
	}
	/* transfer.c has counted it. */
	if (io->again)
		return DM_ENDIO_DONE;

	/* A leg that was given up has said nothing. */
	if (!io->unanswered) {
		atomic64_inc(&m->legs[io->leg].read_errors);
		trace_lockstep_leg_error(m, io->leg, io->iter.bi_sector, *error);
	}

	io->again = how_again(io);
	if (!io->again)
		return DM_ENDIO_DONE;
	if (io->again == READ_OTHER)
		io->leg = other_leg(io->leg);
	INIT_WORK(&io->work, retry_work);
	queue_work(m->read_wq, &io->work);
	return DM_ENDIO_INCOMPLETE;
}
