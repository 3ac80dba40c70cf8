// SPDX-License-Identifier: GPL-2.0-only
/*
 * Replays a trace on a device at the trace's own times, as the remote-mirroring
 * paper does: a fixed number of slots (16), each of which waits for its answer.
 * A request that is due while every slot is busy is skipped and counted.
 * In batch mode a slot takes N consecutive writes, issues all of them when it
 * has the last one, and is busy until all are done.
 * The trace is read as it is replayed, and a request has memory only while it
 * is under way: a trace may be far larger than memory.
 *
 * Asynchronous I/O by the kernel's own calls, O_DIRECT, no library. It never
 * polls the clock: it must run where only waiting passes time (tests/sim).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bins.h"
#include "summary.h"
#include "trace-file.h"

#define NS_A_SECOND 1000000000ull
#define MAX_SLOTS 1024
#define MAX_BATCH 64

struct request {
	struct iocb iocb;	/* aio_data leads back here */
	struct trace_record record;
	uint64_t index;		/* of the record */
	uint64_t issued_ns;
	void *buffer;		/* from take() to finish() */
	struct slot *slot;
};

struct slot {
	struct request *requests;	/* one, or as many as a batch has */
	unsigned int taken;		/* collected, not yet issued (batch mode) */
	unsigned int busy;		/* issued, not yet done */
	uint64_t issued_ns;
};

struct replay {
	struct trace trace;
	int fd;
	FILE *log, *series;
	aio_context_t aio;
	struct slot *slots;
	struct slot *open;		/* collects a batch */
	unsigned int nr_slots, batch;
	unsigned int in_flight;		/* requests */
	uint64_t seed, until_ns, grace_ns;
	uint64_t start_ns;		/* of the monotonic clock */
	struct { uint64_t issued, skipped, errors, beyond; } ops[2];
	uint64_t late_ns;		/* largest delay of an issue behind its trace time */
	struct times times[2], batches;
	struct bins bins;		/* of writes, or batches, with --series */
};

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list list;

	fputs("replay: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

static uint64_t now_ns(const struct replay *r)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_A_SECOND + (uint64_t)ts.tv_nsec - r->start_ns;
}

/* Content by seed, record and sector: what is read back tells who wrote it. */
static void fill(void *buffer, uint32_t bytes, uint64_t seed, uint64_t index, uint64_t sector)
{
	uint64_t *words = buffer;

	for (uint32_t i = 0; i < bytes / 8; i++) {
		uint64_t x = seed * 0x9e3779b97f4a7c15ull + index * 0xbf58476d1ce4e5b9ull +
			     (sector + i / 64) * 0x94d049bb133111ebull + i;

		x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
		words[i] = x ^ (x >> 31);
	}
}

static void issue(struct replay *r, struct slot *slot)
{
	struct iocb *list[MAX_BATCH];
	unsigned int count = slot->taken, done = 0;

	slot->taken = 0;
	slot->busy = count;
	slot->issued_ns = now_ns(r);
	for (unsigned int i = 0; i < count; i++) {
		slot->requests[i].issued_ns = slot->issued_ns;
		list[i] = &slot->requests[i].iocb;
	}
	while (done < count) {
		long n = syscall(SYS_io_submit, r->aio, (long)(count - done), list + done);

		if (n < 0 && errno != EINTR)
			die("io_submit: %s", strerror(errno));
		if (n > 0)
			done += (unsigned int)n;
	}
	r->in_flight += count;
}

static void in_series(struct replay *r, uint64_t at_ns, uint64_t ns)
{
	if (r->series && bins_add(&r->bins, at_ns, ns))
		die("no memory for the series");
}

static void answered(struct replay *r, const struct trace_record *record, uint64_t ns)
{
	if (times_add(&r->times[record->op], ns))
		die("no memory for response times");
	if (record->op == TRACE_WRITE && r->batch == 1)
		in_series(r, record->time_ns, ns);
}

/* Its answer is its last request's. */
static void batch_answered(struct replay *r, const struct slot *slot, uint64_t now)
{
	if (times_add(&r->batches, now - slot->issued_ns))
		die("no memory for response times");
	in_series(r, slot->issued_ns, now - slot->issued_ns);
}

static void finish(struct replay *r, struct request *request, int64_t result)
{
	const struct trace_record *record = &request->record;
	struct slot *slot = request->slot;
	uint64_t now = now_ns(r);

	r->in_flight--;
	free(request->buffer);
	request->buffer = NULL;
	if (result != record->bytes)
		r->ops[record->op].errors++;
	else
		answered(r, record, now - request->issued_ns);
	if (r->log)
		fprintf(r->log, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%c,%" PRIu64 ",%u,%" PRId64 "\n",
			request->index, record->time_ns, request->issued_ns, now,
			record->op == TRACE_WRITE ? 'w' : 'r', record->sector, record->bytes,
			result);
	if (!--slot->busy && r->batch > 1 && record->op == TRACE_WRITE)
		batch_answered(r, slot, now);
}

/* Takes what has completed; waits for one at most `wait_ns`, if anything is in flight. */
static void reap(struct replay *r, uint64_t wait_ns)
{
	struct timespec timeout = {
		.tv_sec = (time_t)(wait_ns / NS_A_SECOND), .tv_nsec = (long)(wait_ns % NS_A_SECOND),
	};
	struct io_event events[64];
	long n = syscall(SYS_io_getevents, r->aio, wait_ns ? 1l : 0l, 64l, events, &timeout);

	if (n < 0 && errno != EINTR)
		die("io_getevents: %s", strerror(errno));
	for (long i = 0; i < n; i++)
		finish(r, (struct request *)(uintptr_t)events[i].data, events[i].res);
}

static void wait_until(struct replay *r, uint64_t due_ns)
{
	for (uint64_t now = now_ns(r); now < due_ns; now = now_ns(r)) {
		uint64_t at = r->start_ns + due_ns;
		struct timespec ts = {
			.tv_sec = (time_t)(at / NS_A_SECOND), .tv_nsec = (long)(at % NS_A_SECOND),
		};

		if (r->in_flight)
			reap(r, due_ns - now);
		else
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
	}
	if (r->in_flight)
		reap(r, 0);
}

static struct slot *free_slot(struct replay *r)
{
	for (unsigned int i = 0; i < r->nr_slots; i++)
		if (!r->slots[i].busy && !r->slots[i].taken)
			return &r->slots[i];
	return NULL;
}

static void take(struct replay *r, const struct trace_record *record, uint64_t index)
{
	bool write = record->op == TRACE_WRITE;
	struct slot *slot = write && r->open ? r->open : free_slot(r);
	struct request *request;
	uint64_t now = now_ns(r);

	if (!slot) {
		r->ops[record->op].skipped++;
		if (r->series && write) {
			struct bin *bin = bins_at(&r->bins, record->time_ns);

			if (!bin)
				die("no memory for the series");
			bin->skipped++;
		}
		return;
	}
	if (now - record->time_ns > r->late_ns)
		r->late_ns = now - record->time_ns;
	r->ops[record->op].issued++;
	request = &slot->requests[slot->taken++];
	request->slot = slot;
	request->record = *record;
	request->index = index;
	if (posix_memalign(&request->buffer, 4096, (record->bytes + 4095u) & ~4095u))
		die("no memory for a request of %u bytes", record->bytes);
	if (write)
		fill(request->buffer, record->bytes, r->seed, index, record->sector);
	request->iocb = (struct iocb){
		.aio_data = (uintptr_t)request,
		.aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
		.aio_fildes = (uint32_t)r->fd,
		.aio_buf = (uintptr_t)request->buffer,
		.aio_nbytes = record->bytes,
		.aio_offset = (int64_t)(record->sector * 512),
	};
	if (!write || slot->taken == r->batch) {
		if (slot == r->open)
			r->open = NULL;
		issue(r, slot);
	} else {
		r->open = slot;
	}
}

static void run(struct replay *r)
{
	struct trace_record record;
	uint64_t last;

	r->start_ns = 0;
	r->start_ns = now_ns(r);
	for (uint64_t i = 0; trace_next(&r->trace, &record); i++) {
		if (record.time_ns >= r->until_ns) {
			r->ops[record.op].beyond++;
			continue;
		}
		wait_until(r, record.time_ns);
		take(r, &record, i);
	}
	if (r->trace.taken != r->trace.count)
		die("the trace can't be read any more at record %" PRIu64, r->trace.taken);
	if (r->open)	/* the trace ended in the middle of a batch */
		issue(r, r->open);
	last = now_ns(r) + r->grace_ns;
	for (uint64_t now = now_ns(r); r->in_flight && now < last; now = now_ns(r))
		reap(r, last - now);
}

static void open_device(struct replay *r, const char *path)
{
	struct stat st;
	uint64_t bytes;

	if (stat(path, &st))
		die("%s: %s", path, strerror(errno));
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode))
		die("%s: neither a block device nor a regular file", path);
	/* O_EXCL on a block device fails when it is mounted or someone else's. */
	r->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC | (S_ISBLK(st.st_mode) ? O_EXCL : 0));
	if (r->fd < 0 && errno == EBUSY)
		die("%s: in use (mounted, or part of another device); nothing was written", path);
	if (r->fd < 0 && errno == EINVAL && S_ISREG(st.st_mode))
		r->fd = open(path, O_RDWR | O_CLOEXEC);
	if (r->fd < 0)
		die("%s: %s", path, strerror(errno));
	bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(r->fd, BLKGETSIZE64, &bytes))
		die("%s: can't get its size: %s", path, strerror(errno));
	if (bytes / 512 < r->trace.span_sectors)
		die("%s: has %" PRIu64 " sectors, the trace spans %" PRIu64
		    "; nothing was written", path, bytes / 512, r->trace.span_sectors);
}

static void set_up(struct replay *r)
{
	unsigned int all = r->nr_slots * r->batch;

	r->slots = calloc(r->nr_slots, sizeof(*r->slots));
	if (!r->slots)
		die("no memory for %u slots", r->nr_slots);
	for (unsigned int i = 0; i < r->nr_slots; i++) {
		r->slots[i].requests = calloc(r->batch, sizeof(struct request));
		if (!r->slots[i].requests)
			die("no memory for %u requests", all);
	}
	if (syscall(SYS_io_setup, (long)all, &r->aio))
		die("io_setup for %u requests: %s", all, strerror(errno));
	if (r->log)
		fputs("record,due_ns,issued_ns,done_ns,op,sector,bytes,result\n", r->log);
}

static void print(struct replay *r, FILE *out)
{
	static const char *const names[] = { "reads", "writes" };

	fprintf(out, "{\"slots\": %u, \"batch\": %u, \"seed\": %" PRIu64 ", \"records\": %" PRIu64
		", \"started_ns\": %" PRIu64 ", \"late_max_ns\": %" PRIu64 ", \"unfinished\": %u",
		r->nr_slots, r->batch, r->seed, r->trace.count, r->start_ns, r->late_ns,
		r->in_flight);
	for (int op = TRACE_READ; op <= TRACE_WRITE; op++) {
		fprintf(out, ", \"%s\": {\"issued\": %" PRIu64 ", \"skipped\": %" PRIu64
			", \"errors\": %" PRIu64 ", \"not_replayed\": %" PRIu64 ", \"response\": ",
			names[op], r->ops[op].issued, r->ops[op].skipped, r->ops[op].errors,
			r->ops[op].beyond);
		times_print(&r->times[op], out);
		fputc('}', out);
	}
	fputs(", \"batches\": ", out);
	times_print(&r->batches, out);
	fputs("}\n", out);
}

static uint64_t number(const char *name, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value < least || value > most)
		die("--%s %s: want a number from %" PRIu64 " to %" PRIu64, name, text, least, most);
	return value;
}

static FILE *opened(const char *path)
{
	FILE *file = path ? fopen(path, "w") : NULL;

	if (path && !file)
		die("%s: %s", path, strerror(errno));
	return file;
}

static const char usage[] =
	"usage: replay [--slots 16] [--batch 1] [--seed 1] [--seconds S] [--grace 120] [--log CSV]\n"
	"              [--series CSV] [--series-seconds 10] TRACE DEVICE\n"
	"Replays TRACE (made by bench/traces/convert.py) on DEVICE at its own times. OVERWRITES DEVICE.\n"
	"A summary goes to stdout as one JSON object, each request to the --log file,\n"
	"writes by the seconds in which they were due to the --series file, or batches by those\n"
	"in which they were issued.\n"
	"Exit code: 0; 1 for a usage or set-up error; 2 if a request failed or didn't finish in\n"
	"--grace seconds after the last one was issued.\n";

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "slots", required_argument, NULL, 's' }, { "batch", required_argument, NULL, 'b' },
		{ "seed", required_argument, NULL, 'x' },  { "seconds", required_argument, NULL, 'u' },
		{ "grace", required_argument, NULL, 'g' }, { "log", required_argument, NULL, 'l' },
		{ "series", required_argument, NULL, 't' },
		{ "series-seconds", required_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },	   { 0 },
	};
	struct replay r = {
		.nr_slots = 16, .batch = 1, .seed = 1, .until_ns = UINT64_MAX,
		.grace_ns = 120 * NS_A_SECOND, .bins.width_ns = 10 * NS_A_SECOND,
	};
	const char *log = NULL, *series = NULL;
	char why[512];
	bool bad;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 's')
			r.nr_slots = (unsigned int)number("slots", optarg, 1, MAX_SLOTS);
		else if (c == 'b')
			r.batch = (unsigned int)number("batch", optarg, 1, MAX_BATCH);
		else if (c == 'x')
			r.seed = number("seed", optarg, 0, UINT64_MAX);
		else if (c == 'u')
			r.until_ns = number("seconds", optarg, 1, 1u << 30) * NS_A_SECOND;
		else if (c == 'g')
			r.grace_ns = number("grace", optarg, 1, 1u << 30) * NS_A_SECOND;
		else if (c == 'l')
			log = optarg;
		else if (c == 't')
			series = optarg;
		else if (c == 'w')
			r.bins.width_ns = number("series-seconds", optarg, 1, 1u << 30) * NS_A_SECOND;
		else {
			fputs(usage, c == 'h' ? stdout : stderr);
			return c == 'h' ? 0 : 1;
		}
	}
	if (argc - optind != 2) {
		fputs(usage, stderr);
		return 1;
	}
	if (trace_open(argv[optind], &r.trace, why, sizeof(why)))
		die("%s", why);
	open_device(&r, argv[optind + 1]);
	r.log = opened(log);
	r.series = opened(series);
	set_up(&r);
	run(&r);
	print(&r, stdout);
	bad = r.ops[TRACE_READ].errors || r.ops[TRACE_WRITE].errors || r.in_flight;
	if (r.log && fclose(r.log))
		die("%s: %s", log, strerror(errno));
	if (r.series) {
		bins_print(&r.bins, r.batch > 1 ? "batches" : "writes", r.series);
		if (fclose(r.series))
			die("%s: %s", series, strerror(errno));
	}
	if (fflush(stdout))
		die("stdout: %s", strerror(errno));
	if (!r.in_flight) {	/* else the kernel still has their buffers */
		for (unsigned int i = 0; i < r.nr_slots; i++)
			free(r.slots[i].requests);
		free(r.slots);
		trace_close(&r.trace);
		times_free(&r.times[0]);
		times_free(&r.times[1]);
		times_free(&r.batches);
		bins_free(&r.bins);
	}
	return bad ? 2 : 0;
}
