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

u32 dcd_zeroes_crc(u32 sectors)
{
	static const u8 zeroes[DCD_BLOCK];

	return dcd_crc(zeroes, sectors << SECTOR_SHIFT);
}

static bool is_zero(const struct dcd_witnessed *w)
{
	return w->crc == dcd_zeroes_crc(w->sectors);
}

static void insert(struct dcd_pool_half *h, const struct dcd_witnessed *w, u64 batch)
{
	unsigned int i = h->n++;

	for (; i && h->all[i - 1].batch > batch; i--)
		h->all[i] = h->all[i - 1];
	h->all[i] = (struct dcd_pooled){ .w = *w, .batch = batch };
}

void dcd_pool_empty(struct dcd_pool *p)
{
	p->halves[0].n = 0;
	p->halves[1].n = 0;
}

void dcd_pool_fill(struct dcd_pool *p, const struct dcd_super *s)
{
	u32 seed = (u32)le64_to_cpu(s->generation) * 2654435761U;
	struct dcd_witnessed w;
	unsigned int i;

	dcd_pool_empty(p);
	p->batch = FIRST_BATCH;
	for (i = 0; i < DCD_WITNESSES; i++) {
		u64 first;

		if (!dcd_witness_of(s, i, &w))
			continue;
		first = youngest(w.octave);
		/* A checksum, and what differs from one opening to the next: any number. */
		insert(&p->halves[is_zero(&w)], &w,
		       FIRST_BATCH - first - ((u32)(w.crc + seed) * first >> 32));
	}
}

static void drop(struct dcd_pool_half *h, dcd_pool_test *is_over, const void *what)
{
	unsigned int i, n = 0;

	for (i = 0; i < h->n; i++) {
		if (is_over(&h->all[i].w, what))
			continue;
		if (n != i)
			h->all[n] = h->all[i];
		n++;
	}
	h->n = n;
}

void dcd_pool_drop(struct dcd_pool *p, dcd_pool_test *is_over, const void *what)
{
	drop(&p->halves[0], is_over, what);
	drop(&p->halves[1], is_over, what);
}

struct span {
	u64 sector, last;
};

static bool is_in(const struct dcd_witnessed *w, const void *what)
{
	const struct span *s = what;

	return w->sector <= s->last && w->sector + w->sectors > s->sector;
}

void dcd_pool_over(struct dcd_pool *p, u64 sector, u64 last)
{
	struct span s = { sector, last };

	dcd_pool_drop(p, is_in, &s);
}

/* So many of each octave that there are @most of them, and evenly in each. */
static void spread(const struct dcd_pool *p, struct dcd_pool_half *h, unsigned int most)
{
	unsigned int has[DCD_WITNESS_OCTAVES] = { 0 }, gets[DCD_WITNESS_OCTAVES] = { 0 };
	unsigned int octave, i, j, before;

	for (i = 0; i < h->n; i++)
		has[octave_of(p, h->all + i)]++;
	do {
		before = most;
		for (octave = 0; octave < DCD_WITNESS_OCTAVES && most; octave++) {
			if (gets[octave] == has[octave])
				continue;
			gets[octave]++;
			most--;
		}
	} while (most && most != before);
	i = h->n;
	for (octave = 0; octave < DCD_WITNESS_OCTAVES; octave++)
		for (j = 0; j < has[octave]; j++)
			h->all[--i].chosen = j * gets[octave] % has[octave] < gets[octave];
}

void dcd_pool_batch(struct dcd_pool *p)
{
	p->batch++;
}

void dcd_pool_add(struct dcd_pool *p, const struct dcd_witnessed *w)
{
	struct dcd_pool_half *h = &p->halves[is_zero(w)];
	unsigned int i, n = 0;

	if (h->n == DCD_POOL) {
		spread(p, h, DCD_POOL / 8 * 7);
		for (i = 0; i < h->n; i++)
			if (h->all[i].chosen)
				h->all[n++] = h->all[i];
		h->n = n;
	}
	insert(h, w, p->batch);
}

static unsigned int choose(const struct dcd_pool *p, struct dcd_pool_half *h,
			   struct dcd_witnessed *w, unsigned int most)
{
	unsigned int i, n = 0;

	spread(p, h, most);
	for (i = h->n; i--;) {
		if (!h->all[i].chosen)
			continue;
		w[n] = h->all[i].w;
		w[n++].octave = octave_of(p, h->all + i);
	}
	return n;
}

unsigned int dcd_pool_choose(struct dcd_pool *p, struct dcd_witnessed *w, unsigned int most)
{
	unsigned int n = choose(p, &p->halves[0], w, most - min(most / 4, p->halves[1].n));

	return n + choose(p, &p->halves[1], w + n, most - n);
}
