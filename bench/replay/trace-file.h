/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The binary replay file that bench/traces/convert.py writes: a header, then
 * records in order of time. All little-endian, as every machine that runs this.
 * Times are nanoseconds since the trace's start, sectors have 512 bytes.
 */
#ifndef TRACE_FILE_H
#define TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_MAGIC "LSREPLY1"

enum trace_op { TRACE_READ = 0, TRACE_WRITE = 1 };

struct trace_header {
	char magic[8];
	uint64_t records;
	uint64_t span_sectors;	/* every request ends at or before this sector */
};

struct trace_record {
	uint64_t time_ns;
	uint64_t sector;
	uint32_t bytes;		/* a multiple of 512, not 0, at most TRACE_MAX_BYTES */
	uint32_t op;		/* enum trace_op */
};

#define TRACE_MAX_BYTES (32u << 20)

struct trace {
	FILE *file;
	uint64_t count, taken;
	uint64_t span_sectors;
	uint32_t max_bytes;	/* of the largest request */
};

/*
 * Opens a file and checks all of it, a piece at a time: a trace may be larger
 * than memory. Returns 0, or -1 with the reason in `why`: nothing is in `out`
 * then. trace_close() ends it.
 */
__attribute__((warn_unused_result))
int trace_open(const char *path, struct trace *out, char *why, size_t why_bytes);

/* The next record; false after the last, or when the file can't be read any more (`taken` tells). */
__attribute__((warn_unused_result))
bool trace_next(struct trace *trace, struct trace_record *record);
void trace_close(struct trace *trace);

#endif
