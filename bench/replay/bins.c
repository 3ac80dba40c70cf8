// SPDX-License-Identifier: GPL-2.0-only
#include "bins.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct bin *bins_at(struct bins *bins, uint64_t time_ns)
{
	size_t at = time_ns / bins->width_ns;

	if (at >= bins->room) {
		size_t room = 2 * at + 64;
		struct bin *more = realloc(bins->all, room * sizeof(*more));

		if (!more)
			return NULL;
		memset(more + bins->room, 0, (room - bins->room) * sizeof(*more));
		bins->all = more;
		bins->room = room;
	}
	if (at >= bins->used)
		bins->used = at + 1;
	return &bins->all[at];
}

int bins_add(struct bins *bins, uint64_t at_ns, uint64_t time_ns)
{
	struct bin *bin = bins_at(bins, at_ns);

	if (!bin)
		return 1;
	bin->count++;
	bin->sum_ns += (double)time_ns;
	if (time_ns > bin->max_ns)
		bin->max_ns = time_ns;
	return 0;
}

void bins_print(const struct bins *bins, const char *what, FILE *out)
{
	fprintf(out, "start_s,%s,skipped,mean_ns,max_ns\n", what);
	for (size_t i = 0; i < bins->used; i++) {
		const struct bin *bin = &bins->all[i];

		fprintf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.1f,%" PRIu64 "\n",
			i * (bins->width_ns / 1000000000u), bin->count, bin->skipped,
			bin->count ? bin->sum_ns / (double)bin->count : 0.0, bin->max_ns);
	}
}

void bins_free(struct bins *bins)
{
	free(bins->all);
	memset(bins, 0, sizeof(*bins));
}
