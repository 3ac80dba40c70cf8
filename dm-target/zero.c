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

void zero_leg(struct write *w, enum leg_id leg)
{
	struct leg *l = &w->m->legs[leg];
	int r;

	r = blkdev_issue_zeroout(leg_bdev(l), w->range.start, write_sectors(w), GFP_NOIO, 0);
	/* There is no FUA for this, so: what FUA would have done, afterwards. */
	if (!r && ((w->opf & REQ_FUA) || leg_write_flags(l)))
		r = blkdev_issue_flush(leg_bdev(l));
	leg_io_end(l);
	write_leg_done(w, leg, errno_to_blk_status(r));
}
