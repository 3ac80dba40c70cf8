// SPDX-License-Identifier: GPL-2.0-only
#include "chunk.h"

#include <linux/completion.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "mirror.h"
#include "sender.h"

struct chunk_leg {
	struct transfer transfer;
	struct page *pages[IO_MAX_PAGES];
	u64 took;
};

struct chunk {
	struct mirror *m;
	const bool *wanted;
	struct locked_range range;
	struct completion granted;
	struct chunk_leg local, remote;
};

static struct chunk_leg *leg_part(struct chunk *c, enum leg_id leg)
{
	return leg == LEG_LOCAL ? &c->local : &c->remote;
}

#define PAGE_SECTORS_HERE	(PAGE_SIZE >> SECTOR_SHIFT)

void chunk_destroy(struct chunk *c)
{
	enum leg_id leg;
	unsigned int i;

	if (!c)
		return;
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		for (i = 0; i < IO_MAX_PAGES; i++)
			if (leg_part(c, leg)->pages[i])
				__free_page(leg_part(c, leg)->pages[i]);
	kfree(c);
}

struct chunk *chunk_create(struct mirror *m, unsigned int sectors, const bool *wanted)
{
	struct chunk *c = kzalloc(sizeof(*c), GFP_KERNEL);
	enum leg_id leg;
	unsigned int i;

	if (!c)
		return NULL;
	c->m = m;
	c->wanted = wanted;
	init_completion(&c->granted);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct chunk_leg *l = leg_part(c, leg);

		for (i = 0; i < DIV_ROUND_UP(sectors, PAGE_SECTORS_HERE); i++) {
			l->pages[i] = alloc_page(GFP_KERNEL);
			if (!l->pages[i]) {
				chunk_destroy(c);
				return NULL;
			}
		}
	}
	return c;
}

static void chunk_granted(struct locked_range *range)
{
	complete(&container_of(range, struct chunk, range)->granted);
}

/* What was in it before may be on its way yet, by a path that was lost. */
static void own_pages(struct chunk_leg *l)
{
	unsigned int i;

	for (i = 0; i < IO_MAX_PAGES && l->pages[i]; i++)
		l->pages[i] = sender_page(l->pages[i], GFP_NOIO | __GFP_NOFAIL);
}

void chunk_lock(struct chunk *c, sector_t start, unsigned int sectors)
{
	own_pages(&c->local);
	own_pages(&c->remote);
	c->range.start = start;
	c->range.last = start + sectors - 1;
	leg_part(c, LEG_LOCAL)->took = 0;
	leg_part(c, LEG_REMOTE)->took = 0;
	reinit_completion(&c->granted);
	if (!range_lock(&c->m->ranges, &c->range, chunk_granted))
		wait_for_completion_io(&c->granted);
}

void chunk_unlock(struct chunk *c)
{
	range_unlock(&c->m->ranges, &c->range);
}

/* False: the leg has died, and what was abandoned there is still out. */
static bool submit(struct chunk *c, enum leg_id leg, enum leg_id buffer, blk_opf_t opf,
		   unsigned int first, unsigned int sectors)
{
	struct transfer *t = &leg_part(c, leg)->transfer;
	unsigned int page = first / PAGE_SECTORS_HERE;
	unsigned int offset = (first % PAGE_SECTORS_HERE) << SECTOR_SHIFT;
	unsigned int left = sectors << SECTOR_SHIFT;

	if (!transfer_init(t, c->m, leg, opf, c->range.start + first))
		return false;
	while (left) {
		unsigned int len = min_t(unsigned int, left, PAGE_SIZE - offset);

		__bio_add_page(&t->bio, leg_part(c, buffer)->pages[page++], len, offset);
		left -= len;
		offset = 0;
	}
	t->wanted = c->wanted;
	transfer_submit(t);
	return true;
}

static int wait_for(struct chunk *c, enum leg_id leg)
{
	struct chunk_leg *l = leg_part(c, leg);
	int r = transfer_wait(&l->transfer);

	l->took += l->transfer.ns;
	return r;
}

int chunk_read(struct chunk *c, enum leg_id leg)
{
	if (!submit(c, leg, leg, REQ_OP_READ, 0, chunk_sectors(c)))
		return -ETIMEDOUT;
	return wait_for(c, leg);
}

int chunk_read_both(struct chunk *c, int error[LEGS])
{
	bool sent[LEGS];
	enum leg_id leg;

	/* The remote one first: it has the longer way. */
	sent[LEG_REMOTE] = submit(c, LEG_REMOTE, LEG_REMOTE, REQ_OP_READ, 0, chunk_sectors(c));
	sent[LEG_LOCAL] = submit(c, LEG_LOCAL, LEG_LOCAL, REQ_OP_READ, 0, chunk_sectors(c));
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		error[leg] = sent[leg] ? wait_for(c, leg) : -ETIMEDOUT;
	return error[LEG_LOCAL] ?: error[LEG_REMOTE];
}

int chunk_write(struct chunk *c, enum leg_id to, enum leg_id from,
		unsigned int first, unsigned int sectors)
{
	if (!submit(c, to, from, REQ_OP_WRITE | leg_write_flags(&c->m->legs[to]), first, sectors))
		return -ETIMEDOUT;
	return wait_for(c, to);
}

unsigned int chunk_differs(struct chunk *c, unsigned int *first, unsigned int *last)
{
	unsigned int sector, differing = 0;

	for (sector = 0; sector < chunk_sectors(c); sector++) {
		unsigned int page = sector / PAGE_SECTORS_HERE;
		unsigned int offset = (sector % PAGE_SECTORS_HERE) << SECTOR_SHIFT;

		if (!memcmp(page_address(leg_part(c, LEG_LOCAL)->pages[page]) + offset,
			    page_address(leg_part(c, LEG_REMOTE)->pages[page]) + offset,
			    SECTOR_SIZE))
			continue;
		if (!differing++)
			*first = sector;
		*last = sector;
	}
	return differing;
}

const void *chunk_data(struct chunk *c, enum leg_id leg, unsigned int sector)
{
	return page_address(leg_part(c, leg)->pages[sector / PAGE_SECTORS_HERE]) +
	       ((sector % PAGE_SECTORS_HERE) << SECTOR_SHIFT);
}

const struct locked_range *chunk_range(const struct chunk *c)
{
	return &c->range;
}

unsigned int chunk_sectors(const struct chunk *c)
{
	return c->range.last - c->range.start + 1;
}

u64 chunk_took(struct chunk *c, enum leg_id leg)
{
	return leg_part(c, leg)->took;
}
