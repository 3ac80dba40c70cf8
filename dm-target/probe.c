// SPDX-License-Identifier: GPL-2.0-only
#include "probe.h"

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "lockstep-trace.h"
#include "metadata.h"
#include "mirror.h"

struct probe {
	struct mirror *m;
	enum leg_id leg;
	void *data;
	size_t bytes;
	struct bio bio;
	struct bio_vec vec;
	/* state lock: */
	bool done;
	bool abandoned;
};

static void probe_free(struct probe *p)
{
	free_pages((unsigned long)p->data, get_order(p->bytes));
	kfree(p);
}

static struct probe *probe_create(struct mirror *m, enum leg_id leg)
{
	struct probe *p = kzalloc(sizeof(*p), GFP_NOIO);

	if (!p)
		return NULL;
	p->m = m;
	p->leg = leg;
	p->bytes = m->meta ? LOCKSTEP_SLOTS_BYTES :
			     bdev_logical_block_size(leg_bdev(&m->legs[leg]));
	p->data = (void *)__get_free_pages(GFP_NOIO, get_order(p->bytes));
	if (!p->data) {
		kfree(p);
		return NULL;
	}
	return p;
}

static void probe_done(struct bio *bio)
{
	struct probe *p = bio->bi_private;
	struct mirror *m = p->m;
	enum leg_id leg = p->leg;
	unsigned long flags;
	bool abandoned;

	leg_io_end(&m->legs[leg]);
	/* Whoever waits takes this lock before it lets anything go. */
	spin_lock_irqsave(&m->lock, flags);
	p->done = true;
	abandoned = p->abandoned;
	wake_up_all(&m->join_wake);
	spin_unlock_irqrestore(&m->lock, flags);
	if (!abandoned)
		return;
	bio_uninit(bio);
	probe_free(p);
	writes_other_returned(m, leg);
}

static bool probe_is_done(struct probe *p)
{
	bool done;

	spin_lock_irq(&p->m->lock);
	done = p->done;
	spin_unlock_irq(&p->m->lock);
	return done;
}

/* One step. If it comes back too late, -ETIMEDOUT, and the probe is gone. */
static int probe_step(struct probe *p, blk_opf_t opf, sector_t sector)
{
	struct mirror *m = p->m;
	struct leg *l = &m->legs[p->leg];
	bool late;
	int r;

	bio_init(&p->bio, leg_bdev(l), &p->vec, 1, opf);
	p->bio.bi_iter.bi_sector = sector;
	if (!op_is_write(opf))
		__bio_add_page(&p->bio, virt_to_page(p->data), p->bytes, 0);
	p->bio.bi_private = p;
	p->bio.bi_end_io = probe_done;
	p->done = false;
	leg_io_start(l);
	submit_bio(&p->bio);

	wait_event_timeout(m->join_wake, probe_is_done(p) || READ_ONCE(m->join_off),
			   PROBE_SECONDS * HZ);
	spin_lock_irq(&m->lock);
	late = !p->done;
	if (late) {
		p->abandoned = true;
		writes_other_abandoned(m, p->leg);
	}
	spin_unlock_irq(&m->lock);
	if (late)
		return -ETIMEDOUT;

	r = blk_status_to_errno(p->bio.bi_status);
	if (r)
		trace_lockstep_leg_error(m, p->leg, sector, p->bio.bi_status);
	bio_uninit(&p->bio);
	return r;
}

int probe_leg(struct mirror *m, enum leg_id leg, struct super_found *found)
{
	struct probe *p = probe_create(m, leg);
	int r;

	if (!p)
		return -ENOMEM;
	r = probe_step(p, REQ_OP_READ | REQ_SYNC | REQ_META, metadata_place(m, leg));
	if (!r && m->meta)
		metadata_parse(m, leg, p->data, found);
	if (!r)
		r = probe_step(p, REQ_OP_WRITE | REQ_PREFLUSH | REQ_SYNC, 0);
	if (r != -ETIMEDOUT)
		probe_free(p);
	return r;
}
