// SPDX-License-Identifier: GPL-2.0-only
#include "chunk.h"

#include <linux/completion.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "lockstep-trace.h"
#include "mirror.h"

struct chunk_leg {
	struct chunk *chunk;
	enum leg_id id;
	struct bio bio;
	struct bio_vec vecs[IO_MAX_PAGES];
	struct page *pages[IO_MAX_PAGES];
	struct completion done;
	blk_status_t status;
	struct list_head transfer;	/* in mirror.transfers; state lock */
	bool abandoned;			/* and hasn't returned; state lock */
	bool died;			/* the leg: so this tells nothing new of it */
	ktime_t began;
	u64 took;
};

struct chunk {
	struct mirror *m;
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

struct chunk *chunk_create(struct mirror *m, unsigned int sectors)
{
	struct chunk *c = kzalloc(sizeof(*c), GFP_KERNEL);
	enum leg_id leg;
	unsigned int i;

	if (!c)
		return NULL;
	c->m = m;
	init_completion(&c->granted);
	for (leg = LEG_LOCAL; leg < LEGS; leg++) {
		struct chunk_leg *l = leg_part(c, leg);

		l->chunk = c;
		l->id = leg;
		init_completion(&l->done);
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

void chunk_lock(struct chunk *c, sector_t start, unsigned int sectors)
{
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

static void transfer_done(struct bio *bio)
{
	struct chunk_leg *l = bio->bi_private;
	struct mirror *m = l->chunk->m;
	enum leg_id leg = l->id;
	unsigned long flags;
	bool abandoned;

	leg_io_end(&m->legs[leg]);
	l->took += ktime_to_ns(ktime_sub(ktime_get(), l->began));
	bio_uninit(bio);

	/* Whoever waits takes this lock before it lets anything go. */
	spin_lock_irqsave(&m->lock, flags);
	abandoned = l->abandoned;
	l->abandoned = false;
	if (!abandoned) {
		list_del(&l->transfer);
		l->status = bio->bi_status;
		complete(&l->done);
	}
	spin_unlock_irqrestore(&m->lock, flags);
	if (abandoned)
		writes_other_returned(m, leg);
}

void chunks_abandon(struct mirror *m)
{
	struct chunk_leg *l, *next;

	lockdep_assert_held(&m->lock);
	list_for_each_entry_safe(l, next, &m->transfers, transfer) {
		if (!m->legs[l->id].dead)
			continue;
		list_del(&l->transfer);
		l->abandoned = true;
		l->died = true;
		l->status = BLK_STS_TIMEOUT;
		writes_other_abandoned(m, l->id);
		complete(&l->done);
	}
}

/* Puts it into flight, unless the leg is dead. */
static bool take_off(struct chunk_leg *l)
{
	struct mirror *m = l->chunk->m;
	bool alive;

	reinit_completion(&l->done);
	l->died = false;
	spin_lock_irq(&m->lock);
	alive = !m->legs[l->id].dead && !WARN_ON_ONCE(l->abandoned);
	if (alive)
		list_add(&l->transfer, &m->transfers);
	spin_unlock_irq(&m->lock);
	if (!alive) {
		l->died = true;
		l->status = BLK_STS_TIMEOUT;
		complete(&l->done);
	}
	return alive;
}

static void submit(struct chunk *c, enum leg_id leg, enum leg_id buffer, blk_opf_t opf,
		   unsigned int first, unsigned int sectors)
{
	struct chunk_leg *l = leg_part(c, leg);
	unsigned int page = first / PAGE_SECTORS_HERE;
	unsigned int offset = (first % PAGE_SECTORS_HERE) << SECTOR_SHIFT;
	unsigned int left = sectors << SECTOR_SHIFT;

	if (!take_off(l))
		return;
	bio_init(&l->bio, leg_bdev(&c->m->legs[leg]), l->vecs, IO_MAX_PAGES, opf);
	l->bio.bi_iter.bi_sector = c->range.start + first;
	while (left) {
		unsigned int len = min_t(unsigned int, left, PAGE_SIZE - offset);

		__bio_add_page(&l->bio, leg_part(c, buffer)->pages[page++], len, offset);
		left -= len;
		offset = 0;
	}
	l->bio.bi_private = l;
	l->bio.bi_end_io = transfer_done;
	l->began = ktime_get();
	leg_io_start(&c->m->legs[leg]);
	submit_bio(&l->bio);
}

static int wait_for(struct chunk *c, enum leg_id leg, atomic64_t *errors)
{
	struct chunk_leg *l = leg_part(c, leg);

	wait_for_completion_io(&l->done);
	/* Who has woken us is still in there. */
	spin_lock_irq(&c->m->lock);
	spin_unlock_irq(&c->m->lock);
	if (l->status && !l->died) {
		atomic64_inc(errors);
		trace_lockstep_leg_error(c->m, leg, c->range.start, l->status);
	}
	return blk_status_to_errno(l->status);
}

static int wait_for_read(struct chunk *c, enum leg_id leg)
{
	return wait_for(c, leg, &c->m->legs[leg].read_errors);
}

int chunk_read(struct chunk *c, enum leg_id leg)
{
	submit(c, leg, leg, REQ_OP_READ, 0, chunk_sectors(c));
	return wait_for_read(c, leg);
}

int chunk_read_both(struct chunk *c, int error[LEGS])
{
	enum leg_id leg;

	/* The remote one first: it has the longer way. */
	submit(c, LEG_REMOTE, LEG_REMOTE, REQ_OP_READ, 0, chunk_sectors(c));
	submit(c, LEG_LOCAL, LEG_LOCAL, REQ_OP_READ, 0, chunk_sectors(c));
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		error[leg] = wait_for_read(c, leg);
	return error[LEG_LOCAL] ?: error[LEG_REMOTE];
}

int chunk_write(struct chunk *c, enum leg_id to, enum leg_id from,
		unsigned int first, unsigned int sectors)
{
	struct leg *l = &c->m->legs[to];

	submit(c, to, from, REQ_OP_WRITE | leg_write_flags(l), first, sectors);
	return wait_for(c, to, &l->write_errors);
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
