// SPDX-License-Identifier: GPL-2.0-only
#include "ask.h"

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "metadata.h"
#include "mirror.h"

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

static int ask_anew(struct mirror *m, enum leg_id leg, struct ask *a)
{
	/* The last one was abandoned, and is still out. */
	if (!transfer_init(&a->t, m, leg, REQ_OP_READ | REQ_SYNC, metadata_place(m, leg)))
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
	unsigned long ended;
	int r;

	if (!a->asked)
		return ask_anew(m, leg, a);
	r = transfer_ended(&a->t, &ended);
	if (r == -EINPROGRESS)
		return time_after(jiffies, a->since + patience) ? -ETIMEDOUT : r;
	a->asked = false;
	return time_after(jiffies, ended + patience) ? ask_anew(m, leg, a) : r;
}

void ask_stop(struct ask *a)
{
	if (!a)
		return;
	if (a->asked)
		transfer_give_up(&a->t);
	a->asked = false;
}
