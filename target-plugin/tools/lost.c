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
	more[s->n_lost++] = (struct lost){ first, last, sector, sectors, false };
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
		if (l_end > end && s->lost[i].sectors) {
			lost_add(s, l.first, l.last, end, l_end - end);
			if (!s->failed)
				s->lost[s->n_lost - 1].by_log = l.by_log;
		} else if (l_end > end) {
			s->lost[i].sector = end;
			s->lost[i].sectors = l_end - end;
		}
		if (s->lost[i].sectors)
			continue;
		s->lost[i--] = s->lost[--n];
		s->lost[n] = s->lost[--s->n_lost];
	}
}

void lost_found(struct set *s, u64 sequence)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_lost; i++)
		if (s->lost[i].first != sequence || s->lost[i].last != sequence)
			s->lost[n++] = s->lost[i];
	s->n_lost = n;
}

bool lost_sectors(const struct set *s, u64 sequence, u64 sector, u32 sectors, u8 *which)
{
	bool any = false;

	memset(which, 0, sectors);
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct lost *l = s->lost + i;

		if (l->first != sequence || l->last != sequence || l->sector < sector ||
		    l->sector - sector + l->sectors > sectors)
			continue;
		memset(which + (l->sector - sector), 1, l->sectors);
		any = true;
	}
	return any;
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
	if (s->header_lost)
		puts("lost: the NVRAM's header, which knew what had got past a log that failed");
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
	json_bool("nvram_header_lost", s->header_lost);
}
