// SPDX-License-Identifier: GPL-2.0-only
/*
 * What isn't blank in its first and last MiB is formatted only with --force: it may be a
 * DCD's log or NVRAM, with data that are nowhere else, or anybody's. What `dcd retire`
 * has emptied needs no word.
 */
#include <inttypes.h>
#include <sys/random.h>
#include <unistd.h>

#include "../../dm-target/tools/json.h"
#include "mark.h"
#include "set-text.h"

static int write_super(const struct device *log, struct dcd_super *s)
{
	static u8 block[DCD_BLOCK];

	s->crc = 0;
	s->crc = htole32(dcd_crc(s, sizeof(*s)));
	memset(block, 0, sizeof(block));
	memcpy(block, s, sizeof(*s));
	/* Nothing of the old format counts from here on; the epoch is another. */
	return device_write(log, block, sizeof(block), 0) ||
	       device_write(log, block, sizeof(block), DCD_BLOCK) || device_flush(log) ? -1 : 0;
}

static int write_header(const struct device *nv, const struct dcd_super *s, u64 bytes)
{
	static u8 block[DCD_BLOCK];
	struct dcd_nvram_header h = {
		.magic = htole64(DCD_NVRAM_MAGIC),
		.version = htole32(DCD_VERSION),
		.epoch = s->epoch,
		.generation = htole64(1),
		.bytes = htole64(bytes),
		.segment_bytes = s->segment_bytes,
		.table_bytes = s->table_bytes,
	};

	memcpy(h.uuid, s->uuid, sizeof(h.uuid));
	h.crc = htole32(dcd_crc(&h, sizeof(h)));
	memcpy(block, &h, sizeof(h));
	memcpy(block + DCD_NVRAM_COPY, &h, sizeof(h));
	return device_write(nv, block, sizeof(block), 0) || device_flush(nv) ? -1 : 0;
}

/* What can't be read is written: that ends a media error, or moves it out of the way, if anything does. */
static int clear_errors(const struct device *nv, u64 bytes)
{
	static const u8 zeroes[DCD_BLOCK];
	static u8 part[1 << 20], unread[sizeof(part) >> SECTOR_SHIFT];
	u64 cleared = 0;

	for (u64 at = 0; at < bytes; at += sizeof(part)) {
		u64 size = min_t(u64, sizeof(part), bytes - at) & ~(u64)(DCD_BLOCK - 1);

		if (!device_read_around(nv, part, size, at, unread))
			continue;
		for (u64 from = 0; from < size; from += DCD_BLOCK) {
			if (!memchr(unread + (from >> SECTOR_SHIFT), 1, DCD_BLOCK >> SECTOR_SHIFT))
				continue;
			if (device_write(nv, zeroes, sizeof(zeroes), at + from))
				return -1;
			cleared++;
		}
		if (device_flush(nv) || device_read(nv, part, size, at))
			return -1;
	}
	if (cleared)
		fprintf(stderr, "dcd: NVRAM %s had media errors in %" PRIu64 " blocks of %u bytes; they are cleared. A memory that has some may get more\n",
			nv->path, cleared, DCD_BLOCK);
	return 0;
}

static bool same(const char *a, const char *a_is, const char *b, const char *b_is)
{
	if (!device_same(a, b))
		return false;
	fprintf(stderr, "dcd: %s is to be both %s and %s\n", b, a_is, b_is);
	return true;
}

/* The same by another name, which device_same() can't know. */
static int check_names(const struct device *log, const struct device *data)
{
	int r = device_is(log, data);

	if (r > 0)
		fprintf(stderr, "dcd: %s is to be the log disk and %s the data disk, but they are the same disk\n",
			log->path, data->path);
	return r;
}

/* Is there a DCD's magic in one of the copies? Damaged ones count too. */
static bool is_ours(const struct device *d, u64 magic, size_t copy, const char *what)
{
	u8 buf[2 * DCD_BLOCK] = { 0 };

	if (pread(d->fd, buf, sizeof(buf), 0) < 0) {
		fprintf(stderr, "dcd: can't read %s: %s\n", d->path, strerror(errno));
		return true;
	}
	for (int i = 0; i < 2; i++) {
		u64 m;

		memcpy(&m, buf + i * copy, sizeof(m));
		if (le64toh(m) == magic) {
			fprintf(stderr, "dcd: %s already is %s of a DCD, perhaps with data that are nowhere else: --force forgets them\n",
				d->path, what);
			return true;
		}
	}
	return false;
}

/* The log that is there, retired or not. */
static bool find_log(const struct device *log, struct dcd_super_found *super)
{
	u8 buf[2 * DCD_BLOCK] = { 0 };

	if (pread(log->fd, buf, sizeof(buf), 0) != sizeof(buf))
		return false;
	dcd_super_find(buf, 0, log->bytes / 512, super);
	return !super->reason || super->reason == DCD_RETIRED;
}

/* `dcd retire` has brought all that they had to the data disk. */
static bool both_retired(const struct device *log, const struct device *nv)
{
	u8 buf[2 * DCD_BLOCK] = { 0 };
	struct dcd_header_found header;
	struct dcd_super_found super;

	if (!find_log(log, &super) || super.reason != DCD_RETIRED ||
	    super.geometry.nvram != !!nv)
		return false;
	if (!nv)
		return true;
	if (pread(nv->fd, buf, DCD_BLOCK, 0) != DCD_BLOCK)
		return false;
	dcd_header_find(buf, NULL, nv->bytes, &super.geometry, &header);
	return header.reason == DCD_RETIRED;
}

/* The same of an NVRAM whose log was lost. */
static bool retired(const struct device *nv)
{
	struct dcd_header_found header;
	u8 buf[DCD_BLOCK];

	if (pread(nv->fd, buf, sizeof(buf), 0) != sizeof(buf))
		return false;
	dcd_header_find(buf, NULL, nv->bytes, NULL, &header);
	return header.reason == DCD_RETIRED;
}

/* Is there anything in its first or last MiB? */
static bool is_used(const struct device *d, const char *what)
{
	static u8 buf[1 << 20];
	u64 end = d->bytes > sizeof(buf) ? d->bytes - sizeof(buf) : 0;

	for (u64 at = 0; ; at = end) {
		ssize_t n = pread(d->fd, buf, sizeof(buf), (off_t)at);

		if (n < 0) {
			fprintf(stderr, "dcd: can't read %s: %s\n", d->path, strerror(errno));
			return true;
		}
		for (ssize_t i = 0; i < n; i++) {
			if (!buf[i])
				continue;
			fprintf(stderr, "dcd: %s %s isn't blank, there is something at byte %" PRIu64
				": if nobody needs it, --force overwrites it\n",
				what, d->path, at + (u64)i);
			return true;
		}
		if (at == end)
			return false;
	}
}

static void say(const struct options *o, const struct dcd_super *s, u64 data_sectors)
{
	bool nvram = le32toh(s->flags) & DCD_SUPER_NVRAM;
	char uuid[33];

	if (!o->json) {
		printf("log %s: %" PRIu64 " segments of %u bytes for a data disk of %" PRIu64
		       " sectors%s\n", o->log, (uint64_t)le64toh(s->segments),
		       le32toh(s->segment_bytes), data_sectors, nvram ? ", with NVRAM" : "");
		return;
	}
	uuid_text(s->uuid, uuid);
	json_open(NULL, '{');
	json_text("log", o->log);
	json_text("uuid", uuid);
	json_number("segments", le64toh(s->segments));
	json_number("segment_bytes", le32toh(s->segment_bytes));
	json_number("data_sectors", data_sectors);
	json_bool("nvram", nvram);
	json_close('}');
}

int command_format(const struct options *o)
{
	const char *data_path = o->data, *log_path = o->log, *nvram_path = o->nvram;
	uint64_t segment = o->segment_bytes, nvram_bytes = o->nvram_bytes;
	bool has_nvram = strcmp(nvram_path, "none") != 0;
	struct device data, log, nv = { 0 };
	struct dcd_super s = { 0 };
	struct dcd_super_found before;
	uint64_t epoch, segments;
	u64 end;

	if (same(data_path, "data disk", log_path, "log disk") ||
	    (has_nvram && (same(log_path, "log disk", nvram_path, "NVRAM") ||
			   same(data_path, "data disk", nvram_path, "NVRAM"))))
		return 1;
	/*
	 * The data disk keeps its content. If that is a mirror's leg, its superblock is told
	 * of the log: whoever finds the disk without the DCD has to know.
	 */
	if (device_open(&data, "data disk", data_path, true) ||
	    device_open(&log, "log disk", log_path, true) ||
	    (has_nvram && device_open(&nv, "NVRAM", nvram_path, true)))
		return 1;
	if (!o->force && !both_retired(&log, has_nvram ? &nv : NULL) &&
	    (is_ours(&log, DCD_SUPER_MAGIC, DCD_BLOCK, "the log") || is_used(&log, "log disk") ||
	     (has_nvram && !retired(&nv) &&
	      (is_ours(&nv, DCD_NVRAM_MAGIC, DCD_NVRAM_COPY, "the NVRAM") ||
	       is_used(&nv, "NVRAM")))))
		return 1;
	if (!segment)
		segment = log.bytes < (64U << 20) ? DCD_SEGMENT_MIN : DCD_SEGMENT_DEFAULT;
	if (segment < DCD_SEGMENT_MIN || segment > DCD_SEGMENT_MAX || segment % (16 * DCD_BLOCK)) {
		fprintf(stderr, "dcd: --segment-bytes %" PRIu64 ": a multiple of %u from %u to %u, please\n",
			segment, 16 * DCD_BLOCK, DCD_SEGMENT_MIN, DCD_SEGMENT_MAX);
		return 2;
	}
	segments = log.bytes > DCD_RING_START ? (log.bytes - DCD_RING_START) / segment : 0;
	if (segments < DCD_SEGMENTS_MIN) {
		fprintf(stderr, "dcd: log disk %s has %" PRIu64 " bytes, at least %" PRIu64 " are needed\n",
			log_path, log.bytes, DCD_RING_START + DCD_SEGMENTS_MIN * segment);
		return 1;
	}
	if (has_nvram && !nvram_bytes)
		nvram_bytes = nv.bytes;
	if (has_nvram && (nvram_bytes > nv.bytes || nvram_bytes < DCD_BLOCK + 2 * segment)) {
		fprintf(stderr, "dcd: NVRAM %s has %" PRIu64 " bytes, to use: %" PRIu64
			", at least %" PRIu64 " are needed\n", nvram_path, nv.bytes, nvram_bytes,
			DCD_BLOCK + 2 * segment);
		return 1;
	}
	if (getrandom(s.uuid, sizeof(s.uuid), 0) != sizeof(s.uuid) ||
	    getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch)) {
		perror("dcd: getrandom");
		return 1;
	}
	s.magic = htole64(DCD_SUPER_MAGIC);
	s.version = htole32(DCD_VERSION);
	s.epoch = htole64(epoch);
	s.generation = htole64(1);
	s.data_sectors = htole64(data.bytes / 512);
	s.log_sectors = htole64(log.bytes / 512);
	s.segments = htole64(segments);
	s.segment_bytes = htole32((uint32_t)segment);
	s.table_bytes = htole32((uint32_t)(segment / 16));
	s.tail = htole64(1);
	s.flags = htole32(has_nvram ? DCD_SUPER_NVRAM : 0);
	if (check_names(&log, &data))
		return 1;
	/* First, so that there is no log of which the leg doesn't know. */
	if (mark_behind(&data, s.uuid, find_log(&log, &before) ? &before.super : NULL, o->force,
			&end))
		return 1;
	if (end && end != data.bytes / 512)
		dcd_grown_add(&s, end, 0);
	if (has_nvram && clear_errors(&nv, nvram_bytes))
		return 1;
	if (write_super(&log, &s) || (has_nvram && write_header(&nv, &s, nvram_bytes)))
		return 1;
	say(o, &s, data.bytes / 512);
	return 0;
}
