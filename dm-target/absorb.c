// SPDX-License-Identifier: GPL-2.0-only
#include "absorb.h"

#include <linux/bio.h>

#include "lockstep-trace.h"
#include "mirror.h"

struct offer {
	struct bio *bio;
	bool seals;		/* the open batch, which it has become part of */
};

void absorb_take(struct locked_range *range, void *what, bool waits)
{
	struct write *w = container_of(range, struct write, range);
	const struct counters *counters = &w->m->counters;
	struct offer *offer = what;
	struct bio *bio = offer->bio;

	bio_list_add(&w->absorbed, bio);
	w->opf |= bio->bi_opf & BATCH_SEALING;
	offer->seals = !waits && (bio->bi_opf & BATCH_SEALING);
	trace_lockstep_absorbed(w->m, dm_target_offset(w->m->ti, bio->bi_iter.bi_sector),
				bio_sectors(bio), range->start, waits);
	count(counters, COUNT_ABSORBED);
	if (waits)
		count(counters, COUNT_ABSORBED_WAITING);
	count_add(counters, COUNT_SAVED, bio->bi_iter.bi_size);
}

bool absorb(struct mirror *m, struct bio *bio)
{
	struct offer offer = { .bio = bio };
	sector_t start;

	if (likely(!range_lock_open(&m->ranges)) || READ_ONCE(m->writes.batches.limit) == 1)
		return false;
	start = dm_target_offset(m->ti, bio->bi_iter.bi_sector);
	if (!range_lock_offer(&m->ranges, start, start + bio_sectors(bio) - 1, &offer))
		return false;
	if (offer.seals)
		batch_seal(m);
	return true;
}

void absorb_end(struct write *w)
{
	struct bio *bio;

	range_close(&w->m->ranges, &w->range);
	bio_list_for_each(bio, &w->absorbed)
		write_copy(w, bio, (dm_target_offset(w->m->ti, bio->bi_iter.bi_sector) -
				    w->range.start) << SECTOR_SHIFT);
}
