// SPDX-License-Identifier: GPL-2.0-only
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "engine.h"

int dcd_place_read(struct dcd_engine *e, const struct dcd_place *p, void *buf)
{
	size_t bytes = (p->last - p->sector + 1) << SECTOR_SHIFT;
	u32 per = e->segment_bytes >> SECTOR_SHIFT;
	u32 offset;
	u64 segment = div_u64_rem(p->at, per, &offset);
	const u8 *mem = dcd_slot_bytes(e, segment, offset << SECTOR_SHIFT);

	if (mem) {
		dcd_count(e, DCD_N_MEMORY_READS, 1);
		memcpy(buf, mem, bytes);
		return 0;
	}
	return dcd_disk_io(&e->log, REQ_OP_READ, dcd_segment_sector(e, segment) + offset, buf,
			   bytes);
}

static int read_part(struct dcd_engine *e, sector_t sector, sector_t last, u8 *buf)
{
	sector_t from = sector;
	int r = 0;

	while (sector <= last && !r) {
		struct dcd_place p;
		u8 *to = buf + ((sector - from) << SECTOR_SHIFT);
		size_t bytes;

		dcd_index_find(e, sector, last, &p);
		bytes = (p.last - p.sector + 1) << SECTOR_SHIFT;
		if (p.zero)
			memset(to, 0, bytes);
		else if (p.value)
			r = dcd_place_read(e, &p, to);
		else
			r = dcd_disk_io(&e->data, REQ_OP_READ, sector, to, bytes);
		sector = p.last + 1;
	}
	return r;
}

int dcd_read_now(struct dcd_engine *e, sector_t sector, sector_t sectors, void *buf)
{
	int id = srcu_read_lock(&e->readers);
	int r = read_part(e, sector, sector + sectors - 1, buf);

	srcu_read_unlock(&e->readers, id);
	return r;
}

int dcd_read(struct dcd_engine *e, struct dcd_request *rq)
{
	size_t bytes = rq->sectors << SECTOR_SHIFT, done = 0;
	size_t part = min_t(size_t, bytes, DCD_IO_MAX);
	void *buf = kvmalloc(part, GFP_NOIO);
	int r = 0;

	if (!buf)
		return -ENOMEM;
	while (done < bytes && !r) {
		size_t n = min(part, bytes - done);

		r = dcd_read_now(e, rq->sector + (done >> SECTOR_SHIFT), n >> SECTOR_SHIFT, buf);
		if (!r)
			sg_pcopy_from_buffer(rq->sgl, rq->nents, buf, n, done);
		done += n;
	}
	kvfree(buf);
	return r;
}
