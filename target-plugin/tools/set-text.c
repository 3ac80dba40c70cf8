// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>

#include "../../dm-target/tools/json.h"
#include "set-text.h"

void set_missing_json(const struct set *s)
{
	if (s->plan.missing == U64_MAX)
		json_text("may_be_missing", NULL);
	else
		json_number("may_be_missing", s->plan.missing);
}

void uuid_text(const u8 *uuid, char text[33])
{
	for (int i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", uuid[i]);
}

const char *copy_name(enum dcd_copy copy)
{
	static const char *const names[] = {
		[DCD_COPY_VALID] = "valid",
		[DCD_COPY_BLANK] = "blank",
		[DCD_COPY_FOREIGN] = "foreign",
		[DCD_COPY_DAMAGED] = "damaged",
		[DCD_COPY_UNREAD] = "unreadable",
	};

	return names[copy];
}

static void copies_json(const enum dcd_copy *copies)
{
	json_open("copies", '[');
	json_text(NULL, copy_name(copies[0]));
	json_text(NULL, copy_name(copies[1]));
	json_close(']');
}

void set_json(const struct set *s)
{
	const struct dcd_geometry *g = &s->super.geometry;
	char uuid[33];

	if (s->super.super.magic) {
		uuid_text(s->super.super.uuid, uuid);
		json_open("log", '{');
		json_text("uuid", uuid);
		copies_json(s->super.copies);
		json_number("generation", le64_to_cpu(s->super.super.generation));
		json_number("data_sectors", le64_to_cpu(s->super.super.data_sectors));
		json_number("segments", g->segments);
		json_number("segment_bytes", g->segment_bytes);
		json_number("tail", le64_to_cpu(s->super.super.tail));
		json_number("applied", le64_to_cpu(s->super.super.applied));
		json_close('}');
	}
	if (s->log.moves) {
		json_open("moved", '{');
		copies_json(s->moves.copies);
		json_number("blocks", s->moves.moves.used);
		json_number("bad_spares", s->moves.moves.bad);
		json_close('}');
	}
	if (s->header.header.magic) {
		uuid_text(s->header.header.uuid, uuid);
		json_open("nvram", '{');
		json_text("uuid", uuid);
		copies_json(s->header.copies);
		json_number("generation", le64_to_cpu(s->header.header.generation));
		json_number("slots", s->slots);
		json_number("unreadable_sectors", s->nvram_unread);
		json_number("applied", le64_to_cpu(s->header.header.applied));
		json_close('}');
	}
}

void set_text(const struct set *s)
{
	const struct dcd_geometry *g = &s->super.geometry;
	char uuid[33];

	if (s->super.super.magic) {
		uuid_text(s->super.super.uuid, uuid);
		printf("log %s: uuid %s, superblock copies %s and %s, generation %" PRIu64
		       ", %" PRIu64 " segments of %u bytes for a data disk of %" PRIu64 " sectors\n",
		       s->log.path, uuid, copy_name(s->super.copies[0]),
		       copy_name(s->super.copies[1]),
		       (uint64_t)le64_to_cpu(s->super.super.generation), g->segments,
		       g->segment_bytes, (uint64_t)le64_to_cpu(s->super.super.data_sectors));
	}
	if (s->log.moves)
		printf("log %s: %u bad blocks are moved, %u of %u spares are left, table copies %s and %s\n",
		       s->log.path, s->moves.moves.used,
		       DCD_SPARES - s->moves.moves.used - s->moves.moves.bad, DCD_SPARES,
		       copy_name(s->moves.copies[0]), copy_name(s->moves.copies[1]));
	if (s->header.header.magic)
		printf("NVRAM %s: header copies %s and %s, generation %" PRIu64 ", %u slots\n",
		       s->nvram.path, copy_name(s->header.copies[0]),
		       copy_name(s->header.copies[1]),
		       (uint64_t)le64_to_cpu(s->header.header.generation), s->slots);
	if (s->nvram_unread)
		printf("NVRAM %s: %" PRIu64 " sectors can't be read, media errors\n",
		       s->nvram.path, s->nvram_unread);
}
