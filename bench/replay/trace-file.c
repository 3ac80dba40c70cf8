// SPDX-License-Identifier: GPL-2.0-only
#include "trace-file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int check(struct trace *trace, const char *path, char *why, size_t why_bytes)
{
	uint64_t before = 0;

	for (uint64_t i = 0; i < trace->count; i++) {
		const struct trace_record *r = &trace->records[i];
		const char *wrong = NULL;

		if (r->op > TRACE_WRITE)
			wrong = "unknown operation";
		else if (!r->bytes || r->bytes % 512 || r->bytes > TRACE_MAX_BYTES)
			wrong = "size isn't 512 bytes to 32 MiB in whole sectors";
		else if (r->sector > trace->span_sectors ||
			 r->bytes / 512 > trace->span_sectors - r->sector)
			wrong = "ends behind the trace's span";
		else if (r->time_ns < before)
			wrong = "earlier than the record before it";
		if (wrong) {
			snprintf(why, why_bytes, "%s: record %" PRIu64 ": %s", path, i, wrong);
			return -1;
		}
		before = r->time_ns;
		if (r->bytes > trace->max_bytes)
			trace->max_bytes = r->bytes;
	}
	return 0;
}

int trace_read(const char *path, struct trace *out, char *why, size_t why_bytes)
{
	struct trace trace = { 0 };
	struct trace_header head;
	struct stat st;
	FILE *file = fopen(path, "rb");

	if (!file || fstat(fileno(file), &st)) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		goto fail;
	}
	if (fread(&head, sizeof(head), 1, file) != 1 ||
	    memcmp(head.magic, TRACE_MAGIC, sizeof(head.magic))) {
		snprintf(why, why_bytes, "%s: not a replay file (make one with bench/traces/convert.py)",
			 path);
		goto fail;
	}
	if (!head.records || head.records > (uint64_t)st.st_size / sizeof(*trace.records) ||
	    (uint64_t)st.st_size != sizeof(head) + head.records * sizeof(*trace.records)) {
		snprintf(why, why_bytes, "%s: %lld bytes don't hold the %" PRIu64 " records it promises",
			 path, (long long)st.st_size, head.records);
		goto fail;
	}
	trace.count = head.records;
	trace.span_sectors = head.span_sectors;
	trace.records = malloc(head.records * sizeof(*trace.records));
	if (!trace.records ||
	    fread(trace.records, sizeof(*trace.records), head.records, file) != head.records) {
		snprintf(why, why_bytes, "%s: can't read the records", path);
		goto fail;
	}
	if (check(&trace, path, why, why_bytes))
		goto fail;
	fclose(file);
	*out = trace;
	return 0;
fail:
	free(trace.records);
	if (file)
		fclose(file);
	return -1;
}

void trace_free(struct trace *trace)
{
	free(trace->records);
	memset(trace, 0, sizeof(*trace));
}
