// SPDX-License-Identifier: GPL-2.0-only
#include <inttypes.h>
#include <stdlib.h>

#include "../../dm-target/tools/json.h"
#include "lost.h"

void lost_add(struct set *s, u64 first, u64 last, u64 sector, u64 sectors)
{
	struct lost *more = realloc(s->lost, (s->n_lost + 1) * sizeof(*more));

	if (!more) {
		fputs("dcd: no memory\n", stderr);
		s->failed = true;
		return;
	}
	s->lost = more;
	more[s->n_lost++] = (struct lost){ first, last, sector, sectors };
}

void lost_cut(struct set *s, u64 sector, u64 sectors)
{
	u64 end = sector + sectors;
	size_t n = s->n_lost;

	for (size_t i = 0; i < n; i++) {
		struct lost l = s->lost[i];
		u64 l_end = l.sector + l.sectors;

		if (!l.sectors || l.sector >= end || l_end <= sector)
			continue;
		s->lost[i].sectors = l.sector < sector ? sector - l.sector : 0;
		if (l_end > end && !s->lost[i].sectors)
			s->lost[i] = (struct lost){ l.first, l.last, end, l_end - end };
		else if (l_end > end)
			lost_add(s, l.first, l.last, end, l_end - end);
		if (s->lost[i].sectors)
			continue;
		s->lost[i--] = s->lost[--n];
		s->lost[n] = s->lost[--s->n_lost];
	}
}

void lost_none(struct set *s)
{
	free(s->lost);
	s->lost = NULL;
	s->n_lost = 0;
}

void lost_text(const struct set *s)
{
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct lost *l = s->lost + i;

		if (l->sectors)
			printf("lost: entry %" PRIu64 ", sectors %" PRIu64 " + %" PRIu64 "\n",
			       l->first, l->sector, l->sectors);
		else
			printf("lost: entries %" PRIu64 " to %" PRIu64 ", where they wrote isn't known\n",
			       l->first, l->last);
	}
	if (s->log_lost)
		puts("lost: what only the log had; which sectors isn't known");
	if (s->nvram_lost)
		puts("lost: what only the NVRAM had");
}

void lost_json(const struct set *s)
{
	json_open("lost", '[');
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct lost *l = s->lost + i;

		json_open(NULL, '{');
		json_number("first_entry", l->first);
		json_number("last_entry", l->last);
		if (l->sectors) {
			json_number("sector", l->sector);
			json_number("sectors", l->sectors);
		}
		json_close('}');
	}
	json_close(']');
	json_bool("nvram_lost", s->nvram_lost);
	json_bool("log_lost", s->log_lost);
}
