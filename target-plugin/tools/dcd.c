// SPDX-License-Identifier: GPL-2.0-only
/*
 * dcd format --data DEV --log DEV --nvram DEV|FILE|none [--segment-bytes N] [--nvram-bytes N]
 *            [--force]
 * dcd examine DEV|FILE
 *
 * What isn't blank in its first and last MiB is formatted only with --force: it
 * may be a DCD's log or NVRAM, with data that are nowhere else, or anybody's.
 *
 * Exit codes: 0 done, 1 failed, 2 usage.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/fs.h>

#include "../dcd-format.h"

struct dev {
	const char *path;
	int fd;
	uint64_t bytes;
};

static uint32_t crc32c(const void *p, size_t n)
{
	const uint8_t *b = p;
	uint32_t crc = ~0U;

	while (n--) {
		crc ^= *b++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
	}
	return crc;
}

static int open_dev(struct dev *d, const char *what, const char *path, int flags)
{
	struct stat st;

	d->path = path;
	d->fd = open(path, flags | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st)) {
		fprintf(stderr, "dcd: %s %s: %s%s\n", what, path, strerror(errno),
			errno == EBUSY ? " (mounted, or open in a DCD?)" : "");
		return -1;
	}
	d->bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(d->fd, BLKGETSIZE64, &d->bytes)) {
		fprintf(stderr, "dcd: %s %s: can't get its size: %s\n", what, path, strerror(errno));
		return -1;
	}
	return 0;
}

static int put(const struct dev *d, const void *p, size_t n, off_t at)
{
	if (pwrite(d->fd, p, n, at) == (ssize_t)n)
		return 0;
	fprintf(stderr, "dcd: can't write %s at %lld: %s\n", d->path, (long long)at, strerror(errno));
	return -1;
}

static int sync_dev(const struct dev *d)
{
	if (!fsync(d->fd))
		return 0;
	fprintf(stderr, "dcd: can't flush %s: %s\n", d->path, strerror(errno));
	return -1;
}

static int write_super(const struct dev *log, struct dcd_super *s)
{
	static uint8_t block[DCD_BLOCK];

	s->crc = 0;
	s->crc = htole32(crc32c(s, sizeof(*s)));
	memset(block, 0, sizeof(block));
	memcpy(block, s, sizeof(*s));
	/* Nothing of the old format counts from here on; the epoch is another. */
	return put(log, block, sizeof(block), 0) || put(log, block, sizeof(block), DCD_BLOCK) ||
	       sync_dev(log) ? -1 : 0;
}

static int write_header(const struct dev *nv, const struct dcd_super *s, uint64_t bytes)
{
	static uint8_t block[DCD_BLOCK];
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
	h.crc = htole32(crc32c(&h, sizeof(h)));
	memcpy(block, &h, sizeof(h));
	memcpy(block + DCD_NVRAM_COPY, &h, sizeof(h));
	return put(nv, block, sizeof(block), 0) || sync_dev(nv) ? -1 : 0;
}

static int same(const char *a, const char *a_is, const char *b, const char *b_is)
{
	struct stat x, y;

	if (stat(a, &x) || stat(b, &y))
		return 0;	/* opening it says why */
	if (S_ISBLK(x.st_mode) ? !S_ISBLK(y.st_mode) || x.st_rdev != y.st_rdev :
				 x.st_dev != y.st_dev || x.st_ino != y.st_ino)
		return 0;
	fprintf(stderr, "dcd: %s is to be both %s and %s\n", b, a_is, b_is);
	return 1;
}

/* Is there a DCD's magic in one of the copies? Damaged ones count too. */
static int is_ours(const struct dev *d, uint64_t magic, size_t copy, const char *what)
{
	uint8_t buf[2 * DCD_BLOCK] = { 0 };

	if (pread(d->fd, buf, sizeof(buf), 0) < 0) {
		fprintf(stderr, "dcd: can't read %s: %s\n", d->path, strerror(errno));
		return 1;
	}
	for (int i = 0; i < 2; i++) {
		uint64_t m;

		memcpy(&m, buf + i * copy, sizeof(m));
		if (le64toh(m) == magic) {
			fprintf(stderr, "dcd: %s already is %s of a DCD, perhaps with data that are nowhere else: --force forgets them\n",
				d->path, what);
			return 1;
		}
	}
	return 0;
}

/* Is there anything in its first or last MiB? */
static int is_used(const struct dev *d, const char *what)
{
	static uint8_t buf[1 << 20];
	uint64_t end = d->bytes > sizeof(buf) ? d->bytes - sizeof(buf) : 0;

	for (uint64_t at = 0; ; at = end) {
		ssize_t n = pread(d->fd, buf, sizeof(buf), (off_t)at);

		if (n < 0) {
			fprintf(stderr, "dcd: can't read %s: %s\n", d->path, strerror(errno));
			return 1;
		}
		for (ssize_t i = 0; i < n; i++) {
			if (!buf[i])
				continue;
			fprintf(stderr, "dcd: %s %s isn't blank, there is something at byte %" PRIu64
				": if nobody needs it, --force overwrites it\n",
				what, d->path, at + (uint64_t)i);
			return 1;
		}
		if (at == end)
			return 0;
	}
}

static int format(const char *data_path, const char *log_path, const char *nvram_path,
		  uint64_t segment, uint64_t nvram_bytes, int force)
{
	int has_nvram = strcmp(nvram_path, "none") != 0;
	struct dev data, log, nv = { 0 };
	struct dcd_super s = { 0 };
	uint64_t epoch, segments;

	if (same(data_path, "data disk", log_path, "log disk") ||
	    (has_nvram && (same(log_path, "log disk", nvram_path, "NVRAM") ||
			   same(data_path, "data disk", nvram_path, "NVRAM"))))
		return 1;
	/* O_EXCL refuses block devices in use. The data disk is looked at, never written. */
	if (open_dev(&data, "data disk", data_path, O_RDONLY) ||
	    open_dev(&log, "log disk", log_path, O_RDWR | O_EXCL) ||
	    (has_nvram && open_dev(&nv, "NVRAM", nvram_path, O_RDWR | O_EXCL)))
		return 1;
	if (!force && (is_ours(&log, DCD_SUPER_MAGIC, DCD_BLOCK, "the log") ||
		       is_used(&log, "log disk") ||
		       (has_nvram && (is_ours(&nv, DCD_NVRAM_MAGIC, DCD_NVRAM_COPY, "the NVRAM") ||
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
	if (write_super(&log, &s) || (has_nvram && write_header(&nv, &s, nvram_bytes)))
		return 1;
	printf("log %s: %" PRIu64 " segments of %" PRIu64 " bytes for a data disk of %" PRIu64
	       " sectors%s\n", log_path, segments, segment, data.bytes / 512,
	       has_nvram ? ", with NVRAM" : "");
	return 0;
}

static void print_uuid(const uint8_t *u)
{
	for (int i = 0; i < 16; i++)
		printf("%02x", u[i]);
}

static int examine_super(struct dcd_super *s, int copy)
{
	uint32_t crc = le32toh(s->crc);

	if (le64toh(s->magic) != DCD_SUPER_MAGIC)
		return 0;
	s->crc = 0;
	printf("log superblock, copy %d: %s\n  uuid ", copy,
	       crc32c(s, sizeof(*s)) == crc ? "valid" : "BAD CHECKSUM");
	print_uuid(s->uuid);
	printf("\n  version %u generation %" PRIu64 "\n  data disk %" PRIu64 " sectors, log %" PRIu64
	       " sectors, %" PRIu64 " segments of %u bytes\n  tail segment %" PRIu64
	       ", applied entries up to %" PRIu64 "%s\n", le32toh(s->version), (uint64_t)le64toh(s->generation),
	       (uint64_t)le64toh(s->data_sectors), (uint64_t)le64toh(s->log_sectors),
	       (uint64_t)le64toh(s->segments), le32toh(s->segment_bytes), (uint64_t)le64toh(s->tail),
	       (uint64_t)le64toh(s->applied),
	       le32toh(s->flags) & DCD_SUPER_NVRAM ? ", with NVRAM" : "");
	return 1;
}

static int examine_header(struct dcd_nvram_header *h, int copy)
{
	uint32_t crc = le32toh(h->crc);

	if (le64toh(h->magic) != DCD_NVRAM_MAGIC)
		return 0;
	h->crc = 0;
	printf("NVRAM header, copy %d: %s\n  uuid ", copy,
	       crc32c(h, sizeof(*h)) == crc ? "valid" : "BAD CHECKSUM");
	print_uuid(h->uuid);
	printf("\n  generation %" PRIu64 ", %" PRIu64 " bytes, slots of %u\n",
	       (uint64_t)le64toh(h->generation), (uint64_t)le64toh(h->bytes), le32toh(h->segment_bytes));
	return 1;
}

static int examine(const char *path)
{
	static uint8_t buf[2 * DCD_BLOCK];
	struct dcd_nvram_header h;
	struct dcd_super s;
	struct dev d;
	int found = 0;

	if (open_dev(&d, "device", path, O_RDONLY))
		return 1;
	if (pread(d.fd, buf, sizeof(buf), 0) != (ssize_t)sizeof(buf)) {
		fprintf(stderr, "dcd: can't read %zu bytes of %s\n", sizeof(buf), path);
		return 1;
	}
	for (int i = 0; i < 2; i++) {
		memcpy(&s, buf + i * DCD_BLOCK, sizeof(s));
		found |= examine_super(&s, i);
		memcpy(&h, buf + i * DCD_NVRAM_COPY, sizeof(h));
		found |= examine_header(&h, i);
	}
	if (!found)
		fprintf(stderr, "dcd: %s: neither a DCD log nor a DCD NVRAM\n", path);
	return !found;
}

static int usage(void)
{
	fputs("usage: dcd format --data DEV --log DEV --nvram DEV|FILE|none\n"
	      "                  [--segment-bytes N] [--nvram-bytes N] [--force]\n"
	      "       dcd examine DEV|FILE\n", stderr);
	return 2;
}

static int number(const char *text, uint64_t *n)
{
	char *end;

	errno = 0;
	*n = strtoull(text, &end, 0);
	if (!errno && end != text && !*end && *text != '-')
		return 0;
	fprintf(stderr, "dcd: \"%s\" is not a number of bytes\n", text);
	return -1;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "data", 1, NULL, 'd' }, { "log", 1, NULL, 'l' }, { "nvram", 1, NULL, 'n' },
		{ "segment-bytes", 1, NULL, 's' }, { "nvram-bytes", 1, NULL, 'b' },
		{ "force", 0, NULL, 'f' }, { 0 },
	};
	const char *data = NULL, *log = NULL, *nvram = NULL;
	uint64_t segment = 0, bytes = 0;
	int c, force = 0;

	if (argc == 3 && !strcmp(argv[1], "examine"))
		return examine(argv[2]);
	if (argc < 2 || strcmp(argv[1], "format"))
		return usage();
	optind = 2;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'd': data = optarg; break;
		case 'l': log = optarg; break;
		case 'n': nvram = optarg; break;
		case 's':
			if (number(optarg, &segment))
				return 2;
			break;
		case 'b':
			if (number(optarg, &bytes))
				return 2;
			break;
		case 'f': force = 1; break;
		default: return usage();
		}
	}
	if (!data || !log || !nvram || optind != argc)
		return usage();
	return format(data, log, nvram, segment, bytes, force);
}
