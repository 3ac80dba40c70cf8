// SPDX-License-Identifier: GPL-2.0-only
#include "ask.h"

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"

TEST_KNOB(bool, ask_once, "a leg with one place that can't be read doesn't answer");
TEST_KNOB(bool, answers_missed, "an answer that comes just after a look is too old at the next one");

struct ask *ask_create(const struct leg *leg)
{
	struct ask *a = kzalloc(sizeof(*a), GFP_KERNEL);

	if (!a)
		return NULL;
	a->bytes = bdev_logical_block_size(leg_bdev(leg));
	a->block = (void *)__get_free_pages(GFP_KERNEL, get_order(a->bytes));
	if (a->block)
		return a;
	kfree(a);
	return NULL;
}

void ask_destroy(struct ask *a)
{
	if (!a)
		return;
	free_pages((unsigned long)a->block, get_order(a->bytes));
	kfree(a);
}

/* In core mode the first block, else the superblock; the middle; the other end of the data. */
static sector_t place(struct mirror *m, enum leg_id leg, const struct ask *a)
{
	unsigned int block = a->bytes >> SECTOR_SHIFT;

	switch (a->place) {
	case 0:
		return metadata_place(m, leg);
	case 1:
		return round_down(m->ti->len / 2, block);
	default:
		return m->meta ? 0 : round_down(m->ti->len, block) - block;
	}
}

static int ask_anew(struct mirror *m, enum leg_id leg, struct ask *a)
{
	/* The last one was abandoned, and is still out. */
	if (!transfer_init(&a->t, m, leg, REQ_OP_READ | REQ_SYNC, place(m, leg, a)))
		return -ETIMEDOUT;
	__bio_add_page(&a->t.bio, virt_to_page(a->block), a->bytes, 0);
	a->since = jiffies;
	a->asked = true;
	transfer_submit(&a->t);
	return -EINPROGRESS;
}

int ask_leg(struct mirror *m, enum leg_id leg)
{
	unsigned long patience = msecs_to_jiffies(ASK_MS);
	struct ask *a = m->watch.ask[leg];
	bool awaited = a->awaited && !test_knob(answers_missed);
	unsigned long ended;
	int r;

	a->awaited = true;
	if (!a->asked)
		return ask_anew(m, leg, a);
	r = transfer_ended(&a->t, &ended);
	if (r == -EINPROGRESS)
		return time_after(jiffies, a->since + patience) ? -ETIMEDOUT : r;
	a->asked = false;
	/*
	 * One that is awaited has come since the last look: nobody could have taken it earlier, and
	 * a leg that always answers just behind one would be asked for ever.
	 */
	if (!awaited && time_after(jiffies, ended + patience))
		return ask_anew(m, leg, a);
	/* One place that can't be read says nothing of the leg. */
	if (r && ++a->place < ASK_PLACES && !test_knob(ask_once))
		return ask_anew(m, leg, a);
	a->place = 0;
	return r;
}

void ask_rest(struct ask *a)
{
	if (a)
		a->awaited = false;
}

void ask_stop(struct ask *a)
{
	if (!a)
		return;
	if (a->asked)
		transfer_give_up(&a->t);
	a->asked = false;
	a->awaited = false;
}
