// SPDX-License-Identifier: GPL-2.0-only
/*
 * mirror-load: O_DIRECT load for a mirror, deterministic for a seed.
 *
 *   mirror-load scribble DEV SPAN DEPTH COUNT SEED
 *     COUNT writes of 1 to 64 sectors within the first SPAN sectors, DEPTH in
 *     flight, overlapping at will, some with FUA, some flushes between; while a
 *     write is in flight its buffer is rewritten again and again. Nothing is
 *     read: afterwards the legs are compared.
 *
 *   mirror-load verify DEV SPAN DEPTH COUNT SEED [STOP_FILE]
 *     COUNT reads and writes (until STOP_FILE exists, if COUNT is 0) that don't
 *     overlap one another; each sector read must hold what was last acknowledged
 *     there. A write that fails leaves its sectors unknown until the next
 *     successful one. A read may fail; it must never be wrong.
 *
 *   mirror-load stream DEV SPAN DEPTH COUNT SEED
 *     COUNT writes of 8 sectors at random places, nothing else: for the bench.
 *
 *   mirror-load fetch DEV SPAN DEPTH COUNT SEED
 *     The same with reads.
 *
 * Prints one line: writes reads flushes failed-writes failed-reads. Exit code:
 * 0 well, 1 wrong data (told on stderr), 2 can't run.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "load.h"

#define MAX_SECTORS	64u
#define MAX_DEPTH	256u
#define UNKNOWN		UINT64_MAX
#define IN_FLIGHT	(UINT64_MAX - 1)

enum kind { WRITE, READ };

struct slot {
	uint64_t *buf;
	uint64_t start, version;
	uint32_t sectors;
	enum kind kind;
	bool busy;
};

static struct slot slots[MAX_DEPTH];
static uint64_t span, writes, reads, flushes, failed_writes, failed_reads;
static uint64_t *content;		/* verify: the version that each sector holds */
static struct device dev;
static struct aio aio;

static void fill(struct slot *s, uint64_t version)
{
	for (uint32_t i = 0; i < s->sectors; i++) {
		uint64_t *p = s->buf + i * SECTOR / 8;

		for (uint32_t j = 0; j < SECTOR / 8; j += 2) {
			p[j] = s->start + i;
			p[j + 1] = version;
		}
	}
}

static void submit(struct slot *s, bool fua)
{
	uintptr_t tag = (uintptr_t)s;
	int r;

	s->busy = true;
	r = s->kind == WRITE ? aio_write(&aio, &dev, s->buf, s->start, s->sectors, fua, tag) :
			       aio_read(&aio, &dev, s->buf, s->start, s->sectors, tag);
	if (r) {
		errno = -r;
		die("io_submit");
	}
}

static void wrong(const struct slot *s, uint32_t i, const uint64_t *p, uint64_t want)
{
	fprintf(stderr,
		"mirror-load: WRONG: sector %llu holds sector %llu version %llu, acknowledged was version %llu\n",
		(unsigned long long)(s->start + i), (unsigned long long)p[0],
		(unsigned long long)p[1], (unsigned long long)want);
	exit(1);
}

static void check_read(const struct slot *s)
{
	for (uint32_t i = 0; i < s->sectors; i++) {
		uint64_t want = content[s->start + i];
		const uint64_t *p = s->buf + i * SECTOR / 8;

		if (want == UNKNOWN)
			continue;
		for (uint32_t j = 0; j < SECTOR / 8; j += 2)
			if (p[j + 1] != want || (want && p[j] != s->start + i))
				wrong(s, i, p + j, want);
	}
}

static void finish(struct slot *s, int64_t res)
{
	bool ok = res == (int64_t)(s->sectors * SECTOR);

	s->busy = false;
	if (s->kind == READ) {
		if (!ok)
			failed_reads++;
		else if (content)
			check_read(s);
		return;
	}
	if (!ok)
		failed_writes++;
	for (uint32_t i = 0; content && i < s->sectors; i++)
		content[s->start + i] = ok ? s->version : UNKNOWN;
}

static void reap(void)
{
	uint64_t failed = failed_writes + failed_reads;
	struct io_event events[MAX_DEPTH];
	int n = aio_reap(&aio, events, 1, MAX_DEPTH, -1);

	for (int i = 0; i < n; i++)
		finish((struct slot *)(uintptr_t)events[i].data, events[i].res);
	/* What fails at once would fail a million times before anything changes. */
	if (failed != failed_writes + failed_reads)
		usleep(500);
}

static void place(struct slot *s, uint32_t max)
{
	s->sectors = 1 + (uint32_t)rnd(max);
	s->start = rnd(span - s->sectors + 1);
}

static bool overlaps_busy(const struct slot *s, uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		const struct slot *o = &slots[i];

		if (o->busy && o->start < s->start + s->sectors &&
		    s->start < o->start + o->sectors)
			return true;
	}
	return false;
}

static void scribble_next(struct slot *s, uint64_t version)
{
	s->kind = WRITE;
	/* Half of all writes crowd into a few places. */
	place(s, rnd(4) ? MAX_SECTORS : 8);
	if (rnd(2))
		s->start %= 128;
	fill(s, version);
	submit(s, !rnd(8));
	writes++;
}

static void verify_next(struct slot *s, uint64_t version, uint32_t depth)
{
	do
		place(s, MAX_SECTORS);
	while (overlaps_busy(s, depth));
	s->kind = rnd(3) ? WRITE : READ;
	if (s->kind == READ) {
		reads++;
	} else {
		s->version = version;
		fill(s, version);
		for (uint32_t i = 0; i < s->sectors; i++)
			content[s->start + i] = IN_FLIGHT;
		writes++;
	}
	submit(s, s->kind == WRITE && !rnd(8));
}

static void stream_next(struct slot *s, uint64_t version)
{
	s->kind = WRITE;
	s->sectors = 8;
	s->start = rnd(span / 8) * 8;
	s->buf[0] = version;
	submit(s, false);
	writes++;
}

static void fetch_next(struct slot *s)
{
	s->kind = READ;
	s->sectors = 8;
	s->start = rnd(span / 8) * 8;
	submit(s, false);
	reads++;
}

static void scribble(uint32_t depth, uint64_t version)
{
	for (uint32_t i = 0; i < depth; i++)
		if (slots[i].busy)
			fill(&slots[i], version << 32 | rnd(1u << 30));
}

int main(int argc, char **argv)
{
	bool scribbles = argc > 1 && !strcmp(argv[1], "scribble");
	bool verifies = argc > 1 && !strcmp(argv[1], "verify");
	bool streams = argc > 1 && !strcmp(argv[1], "stream");
	bool fetches = argc > 1 && !strcmp(argv[1], "fetch");
	const char *stop;
	uint64_t count, version = 0;
	uint32_t depth;

	if (argc < 7 || !(scribbles || verifies || streams || fetches)) {
		fprintf(stderr, "usage: mirror-load scribble|verify|stream|fetch DEV SPAN DEPTH COUNT\n"
				"                   SEED [STOP_FILE]\n");
		return 2;
	}
	span = strtoull(argv[3], NULL, 10);
	depth = (uint32_t)strtoul(argv[4], NULL, 10);
	count = strtoull(argv[5], NULL, 10);
	rnd_seed(argv[6]);
	stop = argc > 7 ? argv[7] : NULL;
	if (!depth || depth > MAX_DEPTH || span < 256) {
		fprintf(stderr, "mirror-load: DEPTH is 1 to %u, SPAN at least 256\n", MAX_DEPTH);
		return 2;
	}

	if (device_open(&dev, argv[2], true) || aio_open(&aio, MAX_DEPTH))
		return 2;
	for (uint32_t i = 0; i < depth; i++)
		slots[i].buf = buffer(MAX_SECTORS * SECTOR);
	if (verifies) {
		content = malloc(span * sizeof(*content));
		if (!content)
			die("memory");
		for (uint64_t i = 0; i < span; i++)
			content[i] = UNKNOWN;
	}

	while (count ? version < count : access(stop ? stop : "/", F_OK)) {
		for (uint32_t i = 0; i < depth; i++) {
			struct slot *s = &slots[i];

			if (s->busy || (count && version >= count))
				continue;
			version++;
			if (scribbles)
				scribble_next(s, version);
			else if (verifies)
				verify_next(s, version, depth);
			else if (streams)
				stream_next(s, version);
			else
				fetch_next(s);
		}
		if (scribbles)
			scribble(depth, version);
		if (!streams && !fetches && !rnd(64)) {
			flushes++;
			if (fdatasync(dev.fd) && errno != EIO)
				die("fdatasync");
		}
		reap();
		if (scribbles)
			scribble(depth, version);
	}
	while (aio.in_flight)
		reap();

	printf("%llu %llu %llu %llu %llu\n", (unsigned long long)writes,
	       (unsigned long long)reads, (unsigned long long)flushes,
	       (unsigned long long)failed_writes, (unsigned long long)failed_reads);
	return 0;
}
