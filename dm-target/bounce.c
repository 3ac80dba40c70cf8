// SPDX-License-Identifier: GPL-2.0-only
#include "bounce.h"

#include <linux/bio.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "abandon.h"
#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, no_bounce, "a read has its caller's pages, whatever the leg's timeout is");

#define BOUNCE_GFP	(GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN)
/* Of the caller's flags, what the leg is to see. */
#define READ_FLAGS	(REQ_SYNC | REQ_META | REQ_PRIO | REQ_RAHEAD)

struct bounce {
	struct list_head link;		/* in bounces.flying, unless it was abandoned */
	struct mirror *m;
	enum leg_id leg;
	struct mirror_io *io;		/* the caller's; gone once it was abandoned */
	bool abandoned;			/* bounces.lock */
	struct read_item sent;
	sector_t sector;
	blk_opf_t opf;
	unsigned short ioprio;
	unsigned int nr_pages;
	struct bio bio;
	struct bio_vec vecs[IO_MAX_PAGES];
};

static void free_bounce(struct bounce *b)
{
	while (b->nr_pages)
		__free_page(b->vecs[--b->nr_pages].bv_page);
	kfree(b);
}

static struct bounce *alloc_bounce(unsigned int bytes)
{
	struct bounce *b = kmalloc(sizeof(*b), BOUNCE_GFP);

	if (!b)
		return NULL;
	for (b->nr_pages = 0; bytes; b->nr_pages++) {
		unsigned int len = min_t(unsigned int, bytes, PAGE_SIZE);
		struct page *page = alloc_page(BOUNCE_GFP);

		if (!page) {
			free_bounce(b);
			return NULL;
		}
		bvec_set_page(&b->vecs[b->nr_pages], page, len, 0);
		bytes -= len;
	}
	return b;
}

static bool is_dead(const struct mirror *m, enum leg_id leg)
{
	return READ_ONCE(m->legs[leg].dead);
}

/* Whatever its size: so a large one isn't overtaken by small ones for ever. */
static bool reserve(struct mirror *m, unsigned int bytes)
{
	struct bounces *bs = &m->bounces;
	bool room;

	spin_lock_irq(&bs->lock);
	room = bs->bytes < READ_ONCE(m->writes.budget.limit);
	if (room)
		bs->bytes += bytes;
	spin_unlock_irq(&bs->lock);
	return room;
}

/* Under the lock. */
static void give_room(struct bounces *bs, unsigned int bytes)
{
	lockdep_assert_held(&bs->lock);
	bs->bytes -= bytes;
	if (unlikely(wq_has_sleeper(&bs->room)))
		wake_up_all(&bs->room);
}

static void give_room_back(struct bounces *bs, unsigned int bytes)
{
	spin_lock_irq(&bs->lock);
	give_room(bs, bytes);
	spin_unlock_irq(&bs->lock);
}

/*
 * It has returned from the leg, whole or with an error; or it wasn't sent whole, as the leg is
 * dead, and that is nobody's error.
 */
static void bounce_over(struct bounce *b, blk_status_t status, bool sent)
{
	struct mirror *m = b->m;
	struct bounces *bs = &m->bounces;
	enum leg_id leg = b->leg;
	struct bio *bio = NULL;
	unsigned long flags;

	spin_lock_irqsave(&bs->lock, flags);
	if (!b->abandoned) {
		list_del(&b->link);
		bio = b->io->bio;
		b->io->unanswered = !sent;
		give_room(bs, b->sent.bytes);
	}
	spin_unlock_irqrestore(&bs->lock, flags);

	if (bio && !status) {
		b->bio.bi_iter = (struct bvec_iter){ .bi_size = b->sent.bytes };
		bio_copy_data(bio, &b->bio);
	}
	bio_uninit(&b->bio);
	free_bounce(b);
	/* Last: the mirror may be gone after either. */
	if (bio) {
		bio->bi_status = status;
		bio_endio(bio);		/* to read_end_io() */
	} else {
		writes_other_returned(m, leg);
	}
}

static void bounce_done(struct bio *bio)
{
	struct bounce *b = bio->bi_private;
	blk_status_t status = bio->bi_status;

	sender_returned(&b->m->legs[b->leg].sender, &b->sent.item);
	if (!read_window_returned(b->m, &b->sent, !status))
		bounce_over(b, status, true);
}

static struct bounce *of_item(struct sender_item *item)
{
	return container_of(item, struct bounce, sent.item);
}

static void send_bounce(struct sender_item **items, unsigned int nr)
{
	struct bounce *b = of_item(items[0]);
	struct bio *bio = &b->bio;

	bio_reset(bio, leg_bdev(&b->m->legs[b->leg]), b->opf);
	bio->bi_vcnt = b->nr_pages;
	bio->bi_iter.bi_sector = b->sector;
	bio->bi_iter.bi_size = b->sent.bytes;
	bio_trim(bio, b->sent.done >> SECTOR_SHIFT, b->sent.part >> SECTOR_SHIFT);
	bio->bi_ioprio = b->ioprio;
	bio->bi_private = b;
	bio->bi_end_io = bounce_done;
	submit_bio_noacct(bio);
}

static void drop_bounce(struct sender_item *item)
{
	struct bounce *b = of_item(item);

	read_window_dropped(b->m, &b->sent);
	bounce_over(b, BLK_STS_TIMEOUT, false);
}

bool bounce_wanted(const struct mirror *m, enum leg_id leg)
{
	return READ_ONCE(m->options.timeout[leg]) && m->legs[other_leg(leg)].bdev &&
	       !test_knob(no_bounce);
}

/* From now on bounces_abandon() finds it. False: the leg has died. */
static bool take_off(struct bounce *b)
{
	struct bounces *bs = &b->m->bounces;
	bool alive;

	spin_lock_irq(&bs->lock);
	/* Who abandons the leg's reads has found it dead before he takes this lock. */
	alive = !is_dead(b->m, b->leg);
	if (alive)
		list_add_tail(&b->link, &bs->flying[b->leg]);
	spin_unlock_irq(&bs->lock);
	return alive;
}

enum bounced bounce_read(struct mirror_io *io)
{
	static const struct sender_ops ops = { .send = send_bounce, .drop = drop_bounce };
	struct mirror *m = io->m;
	struct bounces *bs = &m->bounces;
	unsigned int bytes = io->bio->bi_iter.bi_size;
	struct leg *l = &m->legs[io->leg];
	enum leg_id leg = io->leg;
	bool room = false;
	struct bounce *b;

	wait_event(bs->room, is_dead(m, leg) || (room = reserve(m, bytes)));
	if (!room)
		return BOUNCE_DIED;
	b = alloc_bounce(bytes);
	if (!b) {
		give_room_back(bs, bytes);
		return BOUNCE_DIRECT;
	}
	b->m = m;
	b->leg = leg;
	b->io = io;
	b->abandoned = false;
	b->sector = io->bio->bi_iter.bi_sector;
	b->opf = REQ_OP_READ | (io->bio->bi_opf & READ_FLAGS);
	b->ioprio = io->bio->bi_ioprio;
	bio_init(&b->bio, NULL, b->vecs, b->nr_pages, REQ_OP_READ);
	read_item_init(&b->sent, &ops, bytes);
	if (!take_off(b)) {
		bio_uninit(&b->bio);
		free_bounce(b);
		give_room_back(bs, bytes);
		return BOUNCE_DIED;
	}
	if (leg == LEG_REMOTE)
		read_window_give(m, &b->sent);
	else
		sender_give_one(&l->sender, LANE_URGENT, &b->sent.item);
	return BOUNCED;
}

/* Some of them; the callers' bios, which are nobody else's any more, go to @bios. */
static unsigned int abandon_some(struct mirror *m, enum leg_id leg, struct bio_list *bios)
{
	struct bounces *bs = &m->bounces;
	unsigned int nr = 0;
	struct bounce *b;

	spin_lock_irq(&bs->lock);
	while (nr < ABANDON_BATCH && !list_empty(&bs->flying[leg])) {
		b = list_first_entry(&bs->flying[leg], struct bounce, link);
		list_del(&b->link);
		b->abandoned = true;
		b->io->unanswered = true;
		bs->bytes -= b->sent.bytes;
		bio_list_add(bios, b->io->bio);
		nr++;
	}
	/* Under the lock: who has found it abandoned counts it back. */
	spin_lock(&m->writes.lock);
	m->writes.abandoned[leg] += nr;
	spin_unlock(&m->writes.lock);
	wake_up_all(&bs->room);
	spin_unlock_irq(&bs->lock);
	return nr;
}

void bounces_abandon(struct mirror *m, enum leg_id leg)
{
	unsigned int nr;
	struct bio_list bios;
	struct bio *bio;

	do {
		bio_list_init(&bios);
		nr = abandon_some(m, leg, &bios);
		count_add(&m->counters, COUNT_READS_ABANDONED, nr);
		while ((bio = bio_list_pop(&bios))) {
			bio->bi_status = BLK_STS_TIMEOUT;
			bio_endio(bio);		/* to read_end_io() */
		}
	} while (nr);
}

void bounces_init(struct mirror *m)
{
	struct bounces *bs = &m->bounces;
	enum leg_id leg;

	spin_lock_init(&bs->lock);
	init_waitqueue_head(&bs->room);
	for (leg = LEG_LOCAL; leg < LEGS; leg++)
		INIT_LIST_HEAD(&bs->flying[leg]);
}
