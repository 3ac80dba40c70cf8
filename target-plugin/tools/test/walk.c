// SPDX-License-Identifier: GPL-2.0-only
#include <stdlib.h>

#include "walk.h"

/* What a device says behind its end. */
static const u8 *at(const struct images *m, u64 offset, u64 bytes)
{
	return offset <= m->log_bytes && bytes <= m->log_bytes - offset ? m->log + offset : NULL;
}

static void take(const struct images *m, const u8 *seg, u32 entries, u64 applied)
{
	for (u32 i = 0; i < entries && m->data; i++) {
		const struct dcd_entry *n = dcd_entry_at(seg, i);
		u8 *to = m->data + (le64_to_cpu(n->sector) << SECTOR_SHIFT);
		size_t bytes = (size_t)le32_to_cpu(n->sectors) << SECTOR_SHIFT;

		if (le64_to_cpu(n->sequence) <= applied)
			continue;
		if (le16_to_cpu(n->type) == DCD_ENTRY_WRITE)
			memcpy(to, seg + ((size_t)le32_to_cpu(n->offset) << SECTOR_SHIFT), bytes);
		else
			memset(to, 0, bytes);
	}
}

static void step(const struct images *m, const struct dcd_geometry *g, struct dcd_plan *p,
		 struct dcd_slot_scan *scans, u32 slots)
{
	u64 where = dcd_place_of(g, p->place) << SECTOR_SHIFT;
	const u8 *base = m->nvram ? m->nvram + DCD_BLOCK : NULL, *seg;
	char text[512];
	int i;

	switch (p->want) {
	case DCD_WANT_SEGMENT:
		seg = at(m, where, g->segment_bytes);
		if (dcd_plan_segment(p, seg, seg ? 0 : -EIO))
			take(m, seg, le32_to_cpu(((const struct dcd_segment *)seg)->entries),
			     p->applied);
		break;
	case DCD_WANT_HEADER:
		seg = at(m, where, SECTOR_SIZE);
		dcd_plan_header(p, seg, seg ? 0 : -EIO);
		break;
	case DCD_WANT_SLOTS:
		for (u32 s = 0; s < slots; s++)
			dcd_slot_scan(g, base + (size_t)s * g->segment_bytes, p->newest, scans + s);
		dcd_plan_slots(p, scans, slots);
		break;
	default:
		i = dcd_plan_slot(p, scans, slots);
		if (i < 0)
			break;
		take(m, base + (size_t)i * g->segment_bytes, scans[i].entries, p->applied);
		dcd_plan_took(p, scans + i);
	}
	dcd_plan_text(p, text, sizeof(text));
}

const char *walk(const struct images *m)
{
	struct dcd_header_found header = { 0 };
	struct dcd_super_found super;
	struct dcd_slot_scan *scans;
	struct dcd_plan plan;
	const u8 *blocks = at(m, 0, 2 * DCD_BLOCK);
	char text[512];
	u32 slots = 0;

	if (!blocks)
		return "truncated";
	dcd_super_find(blocks, m->data_bytes >> SECTOR_SHIFT, m->log_bytes >> SECTOR_SHIFT, &super);
	dcd_super_text(&super, text, sizeof(text));
	if (super.reason)
		return dcd_reason_name(super.reason);
	if (super.geometry.nvram != !!m->nvram)
		return "nvram_missing";
	if (m->nvram) {
		if (m->nvram_bytes < DCD_BLOCK)
			return "truncated";
		dcd_header_find(m->nvram, m->nvram_bytes, &super.geometry, &header);
		dcd_header_text(&header, text, sizeof(text));
		if (header.reason)
			return dcd_reason_name(header.reason);
		slots = dcd_slots(&super.geometry, le64_to_cpu(header.header.bytes));
	}
	scans = calloc(slots + 1, sizeof(*scans));
	if (!scans)
		abort();
	dcd_plan_begin(&plan, &super.geometry, &super.super, m->nvram ? &header.header : NULL);
	while (plan.want < DCD_DONE)
		step(m, &super.geometry, &plan, scans, slots);
	free(scans);
	return plan.want == DCD_DONE ? "ok" : dcd_refusal_name(plan.refusal);
}
