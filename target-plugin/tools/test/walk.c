// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>

#include "walk.h"

static struct dcd_slot_scan scans[DCD_SLOTS_MAX];
static const u8 nothing[DCD_SEGMENT_MAX];	/* what can't be read */

/* What a device says behind its end. */
static const u8 *at(const struct images *m, u64 offset, u64 bytes)
{
	return offset <= m->log_bytes && bytes <= m->log_bytes - offset ? m->log(offset, bytes) :
									  NULL;
}

/* The same, by the moves. */
static const u8 *ring(const struct images *m, const struct walked *w, u64 offset, u64 bytes)
{
	static u8 copy[DCD_SEGMENT_MAX];
	const struct dcd_moves *moves = &w->moves.moves;
	u64 where, done, part = dcd_moves_part(moves, offset, bytes, &where);

	if (part == bytes)
		return at(m, where, bytes);
	for (done = 0; done < bytes; done += part) {
		const u8 *p;

		part = dcd_moves_part(moves, offset + done, bytes - done, &where);
		p = at(m, where, part);
		if (!p)
			return NULL;
		memcpy(copy + done, p, part);
	}
	return copy;
}

static const u8 *slot(const struct images *m, const struct dcd_geometry *g, u32 i)
{
	return m->nvram(DCD_BLOCK + (u64)i * g->segment_bytes, g->segment_bytes);
}

static void take(const struct images *m, struct walked *w, const u8 *seg, u32 entries,
		 bool wounded)
{
	for (u32 i = 0; i < entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(seg, i);
		u64 offset = le64_to_cpu(n->sector) << SECTOR_SHIFT;
		size_t bytes = (size_t)le32_to_cpu(n->sectors) << SECTOR_SHIFT;

		if (le64_to_cpu(n->sequence) <= w->plan.applied)
			continue;
		w->entries++;
		if (le16_to_cpu(n->type) == DCD_ENTRY_LOST ||
		    (wounded && !dcd_entry_valid(&w->super.geometry, seg, i))) {
			w->lost++;
			continue;
		}
		if (!m->data)
			continue;
		if (le16_to_cpu(n->type) == DCD_ENTRY_WRITE)
			memcpy(m->data + offset,
			       seg + ((size_t)le32_to_cpu(n->offset) << SECTOR_SHIFT), bytes);
		else
			memset(m->data + offset, 0, bytes);
	}
}

/* Of a segment of which nothing is known a slot may have all. */
static const u8 *from_slots(const struct images *m, struct walked *w, u32 slots, const u8 *seg)
{
	static u8 copy[DCD_SEGMENT_MAX];
	const struct dcd_geometry *g = &w->super.geometry;

	for (u32 i = 0; w->plan.take && i < slots; i++)
		if (dcd_segment_of_slot(g, copy, slot(m, g, i), w->plan.place, w->plan.from,
					w->plan.until))
			return copy;
	return seg;
}

static void step(const struct images *m, struct walked *w, u32 slots)
{
	const struct dcd_geometry *g = &w->super.geometry;
	struct dcd_plan *p = &w->plan;
	u64 where = dcd_place_of(g, p->place) << SECTOR_SHIFT;
	const u8 *seg;
	int i;

	switch (p->want) {
	case DCD_WANT_SEGMENT:
		seg = from_slots(m, w, slots, ring(m, w, where, g->segment_bytes));
		if (dcd_plan_segment(p, seg ?: nothing, seg ? 0 : -EIO))
			take(m, w, seg, le32_to_cpu(((const struct dcd_segment *)seg)->entries),
			     p->wounded);
		break;
	case DCD_WANT_HEADER:
		seg = ring(m, w, where, SECTOR_SIZE);
		dcd_plan_header(p, seg, seg ? 0 : -EIO);
		break;
	case DCD_WANT_SLOTS:
		for (u32 s = 0; s < slots; s++)
			dcd_slot_scan(g, slot(m, g, s), NULL, p->newest, scans + s);
		dcd_plan_slots(p, scans, slots);
		break;
	default:
		i = dcd_plan_slot(p, scans, slots);
		if (i < 0)
			break;
		take(m, w, slot(m, g, (u32)i), scans[i].entries, false);
		dcd_plan_took(p, scans + i);
	}
}

/* NULL, or why it is refused. */
static const char *find_header(const struct images *m, struct walked *w)
{
	char text[512];

	if (m->nvram_bytes < DCD_BLOCK)
		return "truncated";
	dcd_header_find(m->nvram(0, DCD_BLOCK), NULL, m->nvram_bytes, &w->super.geometry,
			&w->header);
	dcd_header_text(&w->header, text, sizeof(text));
	(void)dcd_reason_errno(w->header.reason);
	return w->header.reason ? dcd_reason_name(w->header.reason) : NULL;
}

const char *walk(const struct images *m, struct walked *w)
{
	const u8 *blocks = at(m, 0, 2 * DCD_BLOCK);
	const char *refused;
	char text[512];
	u32 slots = 0;

	memset(w, 0, sizeof(*w));
	if (!blocks)
		return "truncated";
	dcd_super_find(blocks, m->data_bytes >> SECTOR_SHIFT, m->log_bytes >> SECTOR_SHIFT,
		       &w->super);
	dcd_super_text(&w->super, text, sizeof(text));
	if (w->super.reason)
		return dcd_reason_name(w->super.reason);
	blocks = at(m, DCD_MOVED_START, 2 * DCD_BLOCK);
	if (dcd_moves_count(&w->super.super) &&
	    (!blocks || !dcd_moves_find(blocks, &w->super.geometry, &w->moves)))
		return "moves_damaged";
	if (w->super.geometry.nvram != !!m->nvram)
		return "nvram_missing";
	if (m->nvram) {
		refused = find_header(m, w);
		if (refused)
			return refused;
		slots = dcd_slots(&w->super.geometry, le64_to_cpu(w->header.header.bytes));
	}
	dcd_plan_begin(&w->plan, &w->super.geometry, &w->super.super,
		       m->nvram ? &w->header.header : NULL, w->header.newest);
	w->plan.end_bad = w->header.end_bad;
	while (w->plan.want < DCD_DONE) {
		step(m, w, slots);
		if (w->plan.note || w->plan.want == DCD_REFUSED)
			dcd_plan_text(&w->plan, text, sizeof(text));
	}
	(void)dcd_plan_errno(&w->plan);
	if (w->plan.want == DCD_DONE)
		return w->lost ? "lost" : "ok";
	return dcd_refusal_name(w->plan.refusal);
}
