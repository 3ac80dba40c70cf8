// SPDX-License-Identifier: GPL-2.0-only
#include "trace-file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

static int check(struct trace *trace, const char *path, char *why, size_t why_bytes)
{
	struct trace_record r;
	uint64_t before = 0;

	while (trace_next(trace, &r)) {
		const char *wrong = NULL;

		if (r.op > TRACE_WRITE)
			wrong = "unknown operation";
		else if (!r.bytes || r.bytes % 512 || r.bytes > TRACE_MAX_BYTES)
			wrong = "size isn't 512 bytes to 32 MiB in whole sectors";
		else if (r.sector > trace->span_sectors ||
			 r.bytes / 512 > trace->span_sectors - r.sector)
			wrong = "ends behind the trace's span";
		else if (r.time_ns < before)
			wrong = "earlier than the record before it";
		if (wrong) {
			snprintf(why, why_bytes, "%s: record %" PRIu64 ": %s", path,
				 trace->taken - 1, wrong);
			return -1;
		}
		before = r.time_ns;
		if (r.bytes > trace->max_bytes)
			trace->max_bytes = r.bytes;
	}
	if (trace->taken != trace->count) {
		snprintf(why, why_bytes, "%s: can't read record %" PRIu64, path, trace->taken);
		return -1;
	}
	return 0;
}

int trace_open(const char *path, struct trace *out, char *why, size_t why_bytes)
{
	struct trace trace = { .file = fopen(path, "rb") };
	struct trace_header head;
	struct stat st;

	if (!trace.file || fstat(fileno(trace.file), &st)) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		goto fail;
	}
	if (fread(&head, sizeof(head), 1, trace.file) != 1 ||
	    memcmp(head.magic, TRACE_MAGIC, sizeof(head.magic))) {
		snprintf(why, why_bytes, "%s: not a replay file (make one with bench/traces/convert.py)",
			 path);
		goto fail;
	}
	if (!head.records || head.records > (uint64_t)st.st_size / sizeof(struct trace_record) ||
	    (uint64_t)st.st_size != sizeof(head) + head.records * sizeof(struct trace_record)) {
		snprintf(why, why_bytes, "%s: %lld bytes don't hold the %" PRIu64 " records it promises",
			 path, (long long)st.st_size, head.records);
		goto fail;
	}
	trace.count = head.records;
	trace.span_sectors = head.span_sectors;
	if (check(&trace, path, why, why_bytes))
		goto fail;
	if (fseek(trace.file, sizeof(head), SEEK_SET)) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		goto fail;
	}
	trace.taken = 0;
	*out = trace;
	return 0;
fail:
	if (trace.file)
		fclose(trace.file);
	return -1;
}

bool trace_next(struct trace *trace, struct trace_record *record)
{
	if (trace->taken == trace->count || fread(record, sizeof(*record), 1, trace->file) != 1)
		return false;
	trace->taken++;
	return true;
}

void trace_close(struct trace *trace)
{
	fclose(trace->file);
	memset(trace, 0, sizeof(*trace));
}
