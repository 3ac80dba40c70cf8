// SPDX-License-Identifier: GPL-2.0-only
#include "summary.h"

#include <inttypes.h>
#include <stdlib.h>

int times_add(struct times *times, uint64_t ns)
{
	if (times->count == times->room) {
		size_t room = times->room ? 2 * times->room : 1024;
		uint64_t *more = realloc(times->ns, room * sizeof(*more));

		if (!more)
			return -1;
		times->ns = more;
		times->room = room;
	}
	times->ns[times->count++] = ns;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t rank(const struct times *times, size_t permille)
{
	size_t nth = (times->count * permille + 999) / 1000;

	return times->count ? times->ns[nth ? nth - 1 : 0] : 0;
}

void times_print(struct times *times, FILE *out)
{
	size_t quick = 0;
	double sum = 0;

	if (times->count)
		qsort(times->ns, times->count, sizeof(*times->ns), by_value);
	for (size_t i = 0; i < times->count; i++)
		sum += (double)times->ns[i];
	while (quick < times->count && times->ns[quick] <= HALF_A_SECOND_NS)
		quick++;
	fprintf(out,
		"{\"count\": %zu, \"mean_ns\": %.1f, \"min_ns\": %" PRIu64 ", \"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64
		", \"p999_ns\": %" PRIu64 ", \"max_ns\": %" PRIu64
		", \"within_half_second\": %zu}",
		times->count, times->count ? sum / (double)times->count : 0.0, rank(times, 0),
		rank(times, 500), rank(times, 990), rank(times, 999), rank(times, 1000), quick);
}

void times_free(struct times *times)
{
	free(times->ns);
	times->ns = NULL;
	times->count = times->room = 0;
}
