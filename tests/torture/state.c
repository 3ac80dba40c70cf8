// SPDX-License-Identifier: GPL-2.0-only
/* See state.h. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x3153544154455254ULL

struct header {
	uint64_t magic;
	uint64_t run;
	uint64_t sectors;
	uint64_t ops;
};

int state_save(const struct state *s, const char *path)
{
	const struct oracle_op *ops;
	struct header h = { .magic = MAGIC, .run = s->run, .sectors = s->sectors };
	char tmp[4096];
	uint32_t n;
	FILE *f;
	bool ok;

	ops = oracle_ops(s->oracle, &n);
	h.ops = n;
	snprintf(tmp, sizeof(tmp), "%s.tmp", path);
	f = fopen(tmp, "wb");
	if (!f) {
		fprintf(stderr, "torture: %s: %s\n", tmp, strerror(errno));
		return -1;
	}
	ok = fwrite(&h, sizeof(h), 1, f) == 1 &&
	     fwrite(ops, sizeof(*ops), n, f) == n &&
	     fwrite(s->baseline, sizeof(*s->baseline), s->sectors, f) == s->sectors;
	ok = !fclose(f) && ok;
	if (!ok || rename(tmp, path)) {
		fprintf(stderr, "torture: can't write %s: %s\n", path, strerror(errno));
		return -1;
	}
	return 0;
}

int state_load(struct state *s, const char *path)
{
	struct oracle_op *ops = NULL;
	struct header h;
	FILE *f;

	memset(s, 0, sizeof(*s));
	f = fopen(path, "rb");
	if (!f) {
		fprintf(stderr, "torture: %s: %s\n", path, strerror(errno));
		return -1;
	}
	if (fread(&h, sizeof(h), 1, f) != 1 || h.magic != MAGIC ||
	    h.ops > UINT32_MAX || h.sectors > (1ULL << 40))
		goto bad;
	s->run = h.run;
	s->sectors = h.sectors;
	s->baseline = calloc(h.sectors ? h.sectors : 1, sizeof(*s->baseline));
	ops = calloc(h.ops ? h.ops : 1, sizeof(*ops));
	if (!s->baseline || !ops)
		goto bad;
	if (fread(ops, sizeof(*ops), h.ops, f) != h.ops ||
	    fread(s->baseline, sizeof(*s->baseline), h.sectors, f) != h.sectors)
		goto bad;
	s->oracle = oracle_load(h.sectors, ops, (uint32_t)h.ops);
	if (!s->oracle)
		goto bad;
	free(ops);
	fclose(f);
	return 0;
bad:
	fprintf(stderr, "torture: %s is no state file, is cut short or contradicts itself\n", path);
	free(ops);
	state_free(s);
	fclose(f);
	return -1;
}

void state_free(struct state *s)
{
	free(s->baseline);
	oracle_free(s->oracle);
	memset(s, 0, sizeof(*s));
}
