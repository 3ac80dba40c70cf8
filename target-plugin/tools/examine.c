// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>

#include "../../dm-target/tools/json.h"
#include "set-text.h"

static void super_text(const struct dcd_super *s, int copy, bool valid)
{
	char uuid[33];

	uuid_text(s->uuid, uuid);
	printf("log superblock, copy %d: %s\n  uuid %s\n", copy,
	       valid ? "valid" : "BAD CHECKSUM", uuid);
	printf("  version %u generation %" PRIu64 "\n  data disk %" PRIu64 " sectors, log %" PRIu64
	       " sectors, %" PRIu64 " segments of %u bytes\n  tail segment %" PRIu64
	       ", applied entries up to %" PRIu64 "%s\n", le32toh(s->version),
	       (uint64_t)le64toh(s->generation), (uint64_t)le64toh(s->data_sectors),
	       (uint64_t)le64toh(s->log_sectors), (uint64_t)le64toh(s->segments),
	       le32toh(s->segment_bytes), (uint64_t)le64toh(s->tail),
	       (uint64_t)le64toh(s->applied),
	       le32toh(s->flags) & DCD_SUPER_NVRAM ? ", with NVRAM" : "");
}

static void header_text(const struct dcd_nvram_header *h, int copy, bool valid)
{
	char uuid[33];

	uuid_text(h->uuid, uuid);
	printf("NVRAM header, copy %d: %s\n  uuid %s\n", copy,
	       valid ? "valid" : "BAD CHECKSUM", uuid);
	printf("  generation %" PRIu64 ", %" PRIu64 " bytes, slots of %u, applied entries up to %"
	       PRIu64 "\n", (uint64_t)le64toh(h->generation), (uint64_t)le64toh(h->bytes),
	       le32toh(h->segment_bytes), (uint64_t)le64toh(h->applied));
}

static void copy_json(const char *what, int copy, bool valid, const u8 *raw, u64 generation,
		      u64 epoch, u64 applied)
{
	char uuid[33];

	uuid_text(raw, uuid);
	json_open(NULL, '{');
	json_text("what", what);
	json_number("copy", (u64)copy);
	json_bool("valid", valid);
	json_text("uuid", uuid);
	json_number("generation", generation);
	json_number("epoch", epoch);
	json_number("applied", applied);
}

static bool super(const u8 *at, int copy, bool json)
{
	struct dcd_super s, c;
	bool valid;

	memcpy(&s, at, sizeof(s));
	if (le64toh(s.magic) != DCD_SUPER_MAGIC)
		return false;
	c = s;
	c.crc = 0;
	valid = dcd_crc(&c, sizeof(c)) == le32toh(s.crc);
	if (!json) {
		super_text(&s, copy, valid);
		return true;
	}
	copy_json("superblock", copy, valid, s.uuid, le64toh(s.generation), le64toh(s.epoch),
		  le64toh(s.applied));
	json_number("version", le32toh(s.version));
	json_number("data_sectors", le64toh(s.data_sectors));
	json_number("log_sectors", le64toh(s.log_sectors));
	json_number("segments", le64toh(s.segments));
	json_number("segment_bytes", le32toh(s.segment_bytes));
	json_number("tail", le64toh(s.tail));
	json_bool("nvram", le32toh(s.flags) & DCD_SUPER_NVRAM);
	json_close('}');
	return true;
}

static bool header(const u8 *at, int copy, bool json)
{
	struct dcd_nvram_header h, c;
	bool valid;

	memcpy(&h, at, sizeof(h));
	if (le64toh(h.magic) != DCD_NVRAM_MAGIC)
		return false;
	c = h;
	c.crc = 0;
	valid = dcd_crc(&c, sizeof(c)) == le32toh(h.crc);
	if (!json) {
		header_text(&h, copy, valid);
		return true;
	}
	copy_json("nvram_header", copy, valid, h.uuid, le64toh(h.generation), le64toh(h.epoch),
		  le64toh(h.applied));
	json_number("version", le32toh(h.version));
	json_number("bytes", le64toh(h.bytes));
	json_number("segment_bytes", le32toh(h.segment_bytes));
	json_close('}');
	return true;
}

static bool moved(const u8 *at, int copy, bool json)
{
	struct dcd_moved m, c;
	u32 used = 0, bad = 0;
	bool valid;

	memcpy(&m, at, sizeof(m));
	if (le64toh(m.magic) != DCD_MOVED_MAGIC)
		return false;
	c = m;
	c.crc = 0;
	valid = dcd_crc(&c, sizeof(c)) == le32toh(m.crc);
	for (u32 i = 0; i < DCD_SPARES; i++) {
		u64 what = le64toh(m.spares[i]);

		bad += what == DCD_SPARE_BAD;
		used += what != DCD_SPARE_BAD && what != DCD_SPARE_FREE;
	}
	if (!json) {
		printf("table of moved blocks, copy %d: %s\n  generation %" PRIu64 ", %u blocks moved, %u spares bad\n",
		       copy, valid ? "valid" : "BAD CHECKSUM", (uint64_t)le64toh(m.generation), used, bad);
		return true;
	}
	json_open(NULL, '{');
	json_text("what", "moved");
	json_number("copy", (u64)copy);
	json_bool("valid", valid);
	json_number("generation", le64toh(m.generation));
	json_number("blocks", used);
	json_number("bad_spares", bad);
	json_close('}');
	return true;
}

int command_examine(const struct options *o, const char *path)
{
	static u8 buf[2 * DCD_BLOCK], tables[2 * DCD_BLOCK];
	bool found = false;
	struct device d;

	if (device_open(&d, "device", path, false) || device_read(&d, buf, sizeof(buf), 0))
		return 1;
	if (o->json)
		json_open(NULL, '[');
	for (int i = 0; i < 2; i++) {
		found |= super(buf + i * DCD_BLOCK, i, o->json);
		found |= header(buf + i * DCD_NVRAM_COPY, i, o->json);
	}
	/* Of a log; it counts if the superblock says so. */
	for (int i = 0; i < 2 && !device_try_read(&d, tables, sizeof(tables), DCD_MOVED_START); i++)
		moved(tables + i * DCD_BLOCK, i, o->json);
	if (o->json)
		json_close(']');
	if (!found)
		fprintf(stderr, "dcd: %s: neither a DCD log nor a DCD NVRAM\n", path);
	device_close(&d);
	return !found;
}
