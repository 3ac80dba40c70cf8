// SPDX-License-Identifier: GPL-2.0-only
#include "zero.h"

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/ktime.h>

#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, zero_then_flush, "zeroes of a leg that is written through are flushed afterwards");
#define ZEROES_FIRST	((1U << 20) >> SECTOR_SHIFT)

TEST_KNOB(bool, zeroes_whole, "as much is zeroed at once as the device does in one request, however long");
TEST_KNOB(bool, kept_large, "zeroes that keep what is allocated are as many at once as others");
TEST_KNOB(bool, kept_small, "zeroes that keep what is allocated are as small as writes");
TEST_KNOB(bool, zeroes_grow, "what is zeroed at once grows up to a device's limit");
TEST_KNOB(bool, zero_odd_pieces, "a leg is asked to zero as much as its limit is, whole blocks or not");

/*
 * What the device zeroes in one request. Its limit needn't be whole blocks: a device that is made
 * of others has the largest block of them and the smallest limit, and a SCSI disk's is 65535
 * blocks. The block layer would refuse a piece that isn't.
 */
static sector_t device_limit(const struct leg *l)
{
	sector_t most = bdev_write_zeroes_sectors(leg_bdev(l));

	if (test_knob(zero_odd_pieces))
		return most;
	return round_down(most, bdev_logical_block_size(leg_bdev(l)) >> SECTOR_SHIFT);
}

void zero_init(struct leg *l)
{
	l->zeroes_most[false] = ZEROES_FIRST;
	l->zeroes_most[true] = IO_MAX_SECTORS;
}

bool zero_supported(const struct mirror *m)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		const struct leg *l = &m->legs[leg];

		if (l->dev && (!device_limit(l) ||
			       (leg_write_flags(l) && !test_knob(zero_then_flush))))
			return false;
	}
	return true;
}

static unsigned int timeout_of(const struct mirror *m, const struct leg *l)
{
	return READ_ONCE(m->options.timeout[l->id]) ?: REMOTE_TIMEOUT_DEFAULT;
}

/*
 * As many pieces as have a worker (sender.h) are under way. Sixteen of 8 MiB are in time even if
 * the device has to write what it is asked for next, at 13 MB/s, though it had nothing to write
 * until then (what was never allocated, a cache that had room); or of 1 MiB, of zeroes that keep
 * what is allocated, as those may well have to be written. With less time they are as much smaller.
 */
static unsigned int limit_of(bool keep, unsigned int ms)
{
	u64 limit = test_knob(zeroes_grow) ? ZERO_MAX_SECTORS : ZERO_AT_ONCE_SECTORS;

	if (keep && !test_knob(kept_large))
		limit /= 8;
	if (ms < REMOTE_TIMEOUT_DEFAULT && !test_knob(zeroes_grow))
		limit = div_u64(limit * ms, REMOTE_TIMEOUT_DEFAULT);
	return max_t(u64, round_down(limit, IO_MAX_SECTORS), IO_MAX_SECTORS);
}

/*
 * How much is done at once: what the device zeroes in one request, and in a part of the leg's
 * timeout, where it may unmap, or where it has to @keep what is allocated. If the zeroes have to be
 * written: as much as a write has at most, since all that one call sends is as old as the first of
 * it.
 */
static sector_t most_at_once(const struct leg *l, unsigned int timeout, bool written, bool keep)
{
	sector_t most = device_limit(l);

	if (written || !most || (keep && test_knob(kept_small)))
		return IO_MAX_SECTORS;
	if (test_knob(zeroes_whole))
		return most;
	return min3(most, (sector_t)READ_ONCE(l->zeroes_most[keep]),
		    (sector_t)limit_of(keep, timeout));
}

/*
 * So many sectors have taken so long. What one request zeroes the device, or the target, may have
 * to write: sixteen times 32 MiB would be older than a leg that hangs. So pieces begin small, are
 * twice as long after one that was in time, and half as long after one that wasn't, as window.h has
 * it.
 */
static void learn(struct mirror *m, struct leg *l, bool keep, sector_t nr, u64 ns)
{
	unsigned int ms = timeout_of(m, l), most = READ_ONCE(l->zeroes_most[keep]);

	if (ns > (u64)ms * NSEC_PER_MSEC / WINDOW_PART)
		WRITE_ONCE(l->zeroes_most[keep], max(most / 2, IO_MAX_SECTORS));
	else if (nr == most)
		WRITE_ONCE(l->zeroes_most[keep], min(2 * most, limit_of(keep, ms)));
}

/* Sleeps until the device is done. */
static int write_zeroes(struct leg *l, sector_t sector, sector_t nr)
{
	int r = 0;

	while (nr && !r) {
		struct bio *bio = bio_alloc(leg_bdev(l), BIO_MAX_VECS,
					    REQ_OP_WRITE | REQ_SYNC | REQ_FUA, GFP_NOIO);
		unsigned int bytes;

		bio->bi_iter.bi_sector = sector;
		do {
			bytes = min_t(sector_t, nr << SECTOR_SHIFT, PAGE_SIZE);
			if (bio_add_page(bio, ZERO_PAGE(0), bytes, 0) != bytes)
				break;
			nr -= bytes >> SECTOR_SHIFT;
			sector += bytes >> SECTOR_SHIFT;
		} while (nr);
		r = submit_bio_wait(bio);
		bio_put(bio);
	}
	return r;
}

blk_status_t zero_leg(struct write *w, enum leg_id leg)
{
	struct leg *l = &w->m->legs[leg];
	/* Asked once: that cache may be switched on meanwhile. */
	bool through = leg_write_flags(l), written = through && !test_knob(zero_then_flush);
	/* What is allocated stays so: it was asked for, as space that is reserved. */
	bool keep = w->opf & REQ_NOUNMAP;
	sector_t sector = w->range.start, left, nr;
	u64 began;
	int r = 0;

	for (left = write_sectors(w); left && !r; left -= nr, sector += nr) {
		nr = min(left, most_at_once(l, timeout_of(w->m, l), written, keep));
		sender_anew(&l->sender, &w->part[leg].item);
		began = ktime_get_ns();
		r = written ? write_zeroes(l, sector, nr) :
			      blkdev_issue_zeroout(leg_bdev(l), sector, nr, GFP_NOIO,
						   keep ? BLKDEV_ZERO_NOUNMAP : 0);
		if (!r && !written)
			learn(w->m, l, keep, nr, ktime_get_ns() - began);
	}
	/* There is no FUA for zeroing, so: what FUA would have done, afterwards. */
	if (!r && !written && (through || (w->opf & REQ_FUA))) {
		sender_anew(&l->sender, &w->part[leg].item);
		r = blkdev_issue_flush(leg_bdev(l));
	}
	return errno_to_blk_status(r);
}
