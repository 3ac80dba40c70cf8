// SPDX-License-Identifier: GPL-2.0-only
#include "zero.h"

#include <linux/blkdev.h>

#include "mirror.h"

bool zero_supported(const struct mirror *m)
{
	enum leg_id leg;

	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		if (m->legs[leg].dev && !bdev_write_zeroes_sectors(leg_bdev(&m->legs[leg])))
			return false;
	return true;
}

/*
 * What the device zeroes in one request. If it has to be written: as much as a write has at most,
 * since all that one call sends is as old as the first of it.
 */
static sector_t most_at_once(const struct leg *l)
{
	return bdev_write_zeroes_sectors(leg_bdev(l)) ?: IO_MAX_SECTORS;
}

blk_status_t zero_leg(struct write *w, enum leg_id leg)
{
	struct leg *l = &w->m->legs[leg];
	sector_t sector = w->range.start, left, nr;
	int r = 0;

	for (left = write_sectors(w); left && !r; left -= nr, sector += nr) {
		nr = min(left, most_at_once(l));
		sender_anew(&l->sender, &w->part[leg].item);
		r = blkdev_issue_zeroout(leg_bdev(l), sector, nr, GFP_NOIO, 0);
	}
	/* There is no FUA for this, so: what FUA would have done, afterwards. */
	if (!r && ((w->opf & REQ_FUA) || leg_write_flags(l))) {
		sender_anew(&l->sender, &w->part[leg].item);
		r = blkdev_issue_flush(leg_bdev(l));
	}
	return errno_to_blk_status(r);
}
