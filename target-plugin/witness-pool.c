// SPDX-License-Identifier: GPL-2.0-only
#include "witness-pool.h"

#define FIRST_BATCH	65536ULL	/* none has an age from before it */

static u64 youngest(unsigned int octave)
{
	return octave ? 1ULL << (octave - 1) : 0;
}

static unsigned int octave_of(const struct dcd_pool *p, const struct dcd_pooled *c)
{
	unsigned int octave = 0;

	while (octave + 1 < DCD_WITNESS_OCTAVES && p->batch - c->batch >= youngest(octave + 1))
		octave++;
	return octave;
}

static void insert(struct dcd_pool *p, const struct dcd_witnessed *w, u64 batch)
{
	unsigned int i = p->n++;

	for (; i && p->all[i - 1].batch > batch; i--)
		p->all[i] = p->all[i - 1];
	p->all[i] = (struct dcd_pooled){ .w = *w, .batch = batch };
}

void dcd_pool_fill(struct dcd_pool *p, const struct dcd_super *s)
{
	u32 seed = (u32)le64_to_cpu(s->generation) * 2654435761U;
	unsigned int i;
	struct dcd_witnessed w;

	p->n = 0;
	p->batch = FIRST_BATCH;
	for (i = DCD_WITNESSES; i--;) {
		u64 first;

		if (!dcd_witness_of(s, i, &w))
			continue;
		first = youngest(w.octave);
		/* A checksum, and what differs from one opening to the next: any number. */
		insert(p, &w, FIRST_BATCH - first - ((u32)(w.crc + seed) * first >> 32));
	}
}

void dcd_pool_over(struct dcd_pool *p, u64 sector, u64 last)
{
	unsigned int i, n = 0;

	for (i = 0; i < p->n; i++) {
		const struct dcd_witnessed *w = &p->all[i].w;

		if (w->sector > last || w->sector + w->sectors <= sector)
			p->all[n++] = p->all[i];
	}
	p->n = n;
}

/* So many of each octave that there are @most of them, and evenly in each, the youngest first. */
static void spread(struct dcd_pool *p, unsigned int most)
{
	unsigned int has[DCD_WITNESS_OCTAVES] = { 0 }, gets[DCD_WITNESS_OCTAVES] = { 0 };
	unsigned int octave, i, j, before;

	for (i = 0; i < p->n; i++)
		has[octave_of(p, p->all + i)]++;
	do {
		before = most;
		for (octave = 0; octave < DCD_WITNESS_OCTAVES && most; octave++) {
			if (gets[octave] == has[octave])
				continue;
			gets[octave]++;
			most--;
		}
	} while (most && most != before);
	i = p->n;
	for (octave = 0; octave < DCD_WITNESS_OCTAVES; octave++)
		for (j = 0; j < has[octave]; j++)
			p->all[--i].chosen = j * gets[octave] % has[octave] < gets[octave];
}

void dcd_pool_batch(struct dcd_pool *p)
{
	p->batch++;
}

void dcd_pool_add(struct dcd_pool *p, const struct dcd_witnessed *w)
{
	unsigned int i, n = 0;

	if (p->n == DCD_POOL) {
		spread(p, DCD_POOL / 8 * 7);
		for (i = 0; i < p->n; i++)
			if (p->all[i].chosen)
				p->all[n++] = p->all[i];
		p->n = n;
	}
	insert(p, w, p->batch);
}

unsigned int dcd_pool_choose(struct dcd_pool *p, struct dcd_witnessed *w, unsigned int most)
{
	unsigned int i, n = 0;

	spread(p, most);
	for (i = p->n; i--;) {
		if (!p->all[i].chosen)
			continue;
		w[n] = p->all[i].w;
		w[n++].octave = octave_of(p, p->all + i);
	}
	return n;
}
