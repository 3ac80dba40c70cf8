// SPDX-License-Identifier: GPL-2.0-only
/* Live segments and slots with their entries; --all: what each place of the ring holds. */
#include <inttypes.h>
#include <stdlib.h>

#include "../../dm-target/tools/json.h"
#include "set-text.h"

static const char *type_name(const struct set *s, const struct group *g, u32 number)
{
	u16 type = le16_to_cpu(dcd_entry_at(g->bytes, number)->type);

	return set_is_lost(s, g, number) ? "lost" : type == DCD_ENTRY_WRITE ? "write" :
	       type == DCD_ENTRY_DISCARD ? "discard" : "write_zeroes";
}

static int text_group(struct set *s, const struct group *g, void *context)
{
	(void)context;
	if (g->slot < 0)
		printf("segment %" PRIu64, g->sequence);
	else
		printf("slot %d, to be segment %" PRIu64, g->slot, g->sequence);
	printf(": entries %" PRIu64 " to %" PRIu64 ", %u bytes\n", g->first,
	       g->first + g->entries - 1, g->used);
	for (u32 i = 0; i < g->entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(g->bytes, i);

		printf("  entry %" PRIu64 ": %s %" PRIu64 " + %u%s\n",
		       (uint64_t)le64_to_cpu(n->sequence), type_name(s, g, i),
		       (uint64_t)le64_to_cpu(n->sector), le32_to_cpu(n->sectors),
		       le64_to_cpu(n->sequence) <= s->plan.applied ? ", on the data disk" : "");
	}
	return 0;
}

static int json_group(struct set *s, const struct group *g, void *context)
{
	(void)context;
	json_open(NULL, '{');
	json_number("segment", g->sequence);
	if (g->slot >= 0)
		json_number("slot", (uint64_t)g->slot);
	json_number("used_bytes", g->used);
	json_open("entries", '[');
	for (u32 i = 0; i < g->entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(g->bytes, i);

		json_open(NULL, '{');
		json_number("entry", le64_to_cpu(n->sequence));
		json_text("type", type_name(s, g, i));
		json_number("sector", le64_to_cpu(n->sector));
		json_number("sectors", le32_to_cpu(n->sectors));
		json_bool("live", le64_to_cpu(n->sequence) > s->plan.applied);
		json_close('}');
	}
	json_close(']');
	json_close('}');
	return 0;
}

/* What is at a place, against the newest sequence that can be there. */
static enum dcd_segment_kind place_kind(struct set *s, u64 place, u64 *sequence)
{
	const struct dcd_geometry *g = &s->super.geometry;
	u64 at = DCD_RING_START + place * g->segment_bytes;

	*sequence = 0;
	if (device_read(&s->log, s->buf, g->segment_bytes, at))
		return DCD_SEGMENT_DAMAGED;
	/* Whatever it is, ask whether it is whole as that. */
	if (dcd_segment_header(g, s->buf, 0, sequence) == DCD_SEGMENT_LATER &&
	    *sequence % g->segments != place)
		return DCD_SEGMENT_FOREIGN;
	return dcd_segment_parse(g, s->buf, *sequence);
}

static void ring(struct set *s, bool json)
{
	if (json)
		json_open("ring", '[');
	for (u64 i = 0; i < s->super.geometry.segments; i++) {
		u64 sequence;
		const char *kind = dcd_segment_kind_name(place_kind(s, i, &sequence));

		if (!json) {
			printf("place %" PRIu64 ": %s, segment %" PRIu64 "\n", i, kind, sequence);
			continue;
		}
		json_open(NULL, '{');
		json_number("place", i);
		json_text("kind", kind);
		json_number("segment", sequence);
		json_close('}');
	}
	if (json)
		json_close(']');
}

int command_dump(const struct options *o)
{
	struct set s;
	int r = set_open(&s, o, false);

	if (o->json) {
		json_open(NULL, '{');
		set_json(&s);
		json_open("groups", '[');
	} else {
		set_text(&s);
	}
	if (!r)
		r = set_walk(&s, o->json ? json_group : text_group, NULL, true);
	if (o->json)
		json_close(']');
	if (o->all && s.buf)
		ring(&s, o->json);
	if (o->json) {
		json_text("reason", *s.reason ? s.reason : NULL);
		json_close('}');
	}
	if (*s.reason)
		fprintf(stderr, "dcd: %s\n", s.message);
	set_close(&s);
	return r ? 1 : 0;
}
