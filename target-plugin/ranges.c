// SPDX-License-Identifier: GPL-2.0-only
/* Writes of several ranges: entries of one segment that count only together. */
#include <linux/export.h>

#include "dcd-trace.h"
#include "engine.h"

void dcd_batch_limits(const struct dcd_engine *e, unsigned int *ranges, sector_t *sectors)
{
	unsigned int entries = min_t(unsigned int, e->table_bytes / sizeof(struct dcd_entry),
				     DCD_PENDING);

	*sectors = (e->segment_bytes - dcd_payload_start(e)) >> SECTOR_SHIFT;
	/* A range of more than a chunk takes one entry more for each whole chunk, at most. */
	*ranges = entries - (unsigned int)*sectors / dcd_chunk(e);
}
EXPORT_SYMBOL_GPL(dcd_batch_limits);

bool dcd_batch_fits(struct dcd_engine *e, const struct dcd_request *rq)
{
	sector_t most, sum = 0;
	unsigned int ranges, i;

	dcd_batch_limits(e, &ranges, &most);
	if (rq->op != DCD_WRITE || !rq->nranges || rq->nranges > ranges || rq->sectors > most)
		return false;
	for (i = 0; i < rq->nranges; i++) {
		if (!rq->ranges[i].sectors)
			return false;
		sum += rq->ranges[i].sectors;
	}
	return sum == rq->sectors;
}

unsigned int dcd_batch_entries(struct dcd_engine *e, const struct dcd_request *rq)
{
	u32 chunk = dcd_chunk(e);
	unsigned int i, n = 0;

	for (i = 0; i < rq->nranges; i++)
		n += DIV_ROUND_UP(rq->ranges[i].sectors, chunk);
	return n;
}

void dcd_batch_fill(struct dcd_engine *e, struct dcd_place_in_slot *p)
{
	const struct dcd_range *r = p->rq->ranges;
	unsigned int left = p->entries;
	u32 chunk = dcd_chunk(e), at = 0, bytes;

	dcd_count(e, DCD_N_BATCHES, 1);
	dcd_count(e, DCD_N_BATCH_RANGES, p->rq->nranges);
	trace_dcd_ranges(e, p);
	while (left--) {
		p->sector = r->sector + at;
		p->sectors = min(chunk, r->sectors - at);
		p->last = !left;
		at += p->sectors;
		if (at == r->sectors) {
			at = 0;
			r++;
		}
		bytes = p->sectors << SECTOR_SHIFT;
		dcd_fill(e, p);
		p->number++;
		p->offset += bytes;
		p->skip += bytes;
	}
}
