// SPDX-License-Identifier: GPL-2.0-only
#include "claim.h"

#include <linux/delay.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "engine.h"
#include "lockstep-test.h"
#include "opening.h"

TEST_KNOB(bool, any_claim, "a log may be in several DCDs, by other names of its disk");
TEST_KNOB(bool, claims_late, "three seconds pass from when the superblock is read to the claim");
TEST_KNOB(bool, any_data_disk, "a data disk may be a log, by another name");

struct claim {
	struct list_head list;
	const struct dcd_engine *e;
	u8 uuid[16];		/* the log's; that of @e may be written just now */
};

static LIST_HEAD(claims);
static DEFINE_MUTEX(claims_lock);

static const struct claim *find(const u8 uuid[16])
{
	const struct claim *c;

	lockdep_assert_held(&claims_lock);
	list_for_each_entry(c, &claims, list)
		if (!memcmp(c->uuid, uuid, sizeof(c->uuid)))
			return c;
	return NULL;
}

static const char *state_of(const struct claim *c)
{
	return READ_ONCE(c->e->ending) ? ", which was closed but still waits for its disks" : "";
}

static int check_log(const struct dcd_engine *e)
{
	const struct claim *c = test_knob(any_claim) ? NULL : find(e->super.uuid);

	if (!c)
		return 0;
	pr_err("dcd: %s: the log %pg (uuid %pU) is in use by the DCD %s%s: it is the same disk by another name, %pg, or a copy of it\n",
	       e->name, e->log.bdev, e->super.uuid, c->e->name, state_of(c), c->e->log.bdev);
	return -EBUSY;
}

/*
 * Is the data disk a log? @s: what it has where a log has a superblock. A copy of this engine's own
 * log, which somebody may have put there, is older as soon as the log has been used again.
 */
static int check_data(const struct dcd_engine *e, const struct dcd_super *s)
{
	const struct claim *c;

	if (le64_to_cpu(s->magic) != DCD_SUPER_MAGIC || test_knob(any_data_disk))
		return 0;
	if (!memcmp(s, &e->super, sizeof(*s))) {
		pr_err("dcd: %s: %pg, which is to be the data disk, is the log disk %pg by another name, or it has a copy of that log\n",
		       e->name, e->data.bdev, e->log.bdev);
		return -EINVAL;
	}
	c = find(s->uuid);
	/* Its own, as it was once. */
	if (!c || c->e == e)
		return 0;
	pr_err("dcd: %s: %pg, which is to be the data disk, is the log (uuid %pU) of the DCD %s%s: it is the same disk by another name, %pg, or it has a copy of it\n",
	       e->name, e->data.bdev, s->uuid, c->e->name, state_of(c), c->e->log.bdev);
	return -EBUSY;
}

int dcd_claim(struct dcd_engine *e)
{
	struct claim *c = kzalloc(sizeof(*c), GFP_KERNEL);
	int r;

	if (!c)
		return -ENOMEM;
	c->e = e;
	memcpy(c->uuid, e->super.uuid, sizeof(c->uuid));
	if (test_knob(claims_late))
		msleep(3000);
	mutex_lock(&claims_lock);
	r = check_log(e);
	if (!r)
		list_add(&c->list, &claims);
	mutex_unlock(&claims_lock);
	if (r)
		kfree(c);
	return r;
}

static bool is_claimed(const struct dcd_engine *e)
{
	const struct claim *c;

	lockdep_assert_held(&claims_lock);
	list_for_each_entry(c, &claims, list)
		if (c->e == e)
			return !memcmp(c->uuid, e->super.uuid, sizeof(c->uuid));
	return false;
}

int dcd_claim_check(struct dcd_engine *e)
{
	u8 *blocks = kmalloc(2 * DCD_BLOCK, GFP_KERNEL);
	int r = 0;

	if (!blocks)
		return -ENOMEM;
	/* What can't be read is blank: a DCD serves what it can of a data disk with bad places. */
	(void)dcd_opening_parts(e, 0, blocks, DCD_BLOCK);
	mutex_lock(&claims_lock);
	if (!is_claimed(e)) {
		pr_err("dcd: %s: the log %pg was formatted while it was opened: try again\n",
		       e->name, e->log.bdev);
		r = -EBUSY;
	}
	if (!r)
		r = check_data(e, (const struct dcd_super *)blocks);
	if (!r)
		r = check_data(e, (const struct dcd_super *)(blocks + DCD_BLOCK));
	mutex_unlock(&claims_lock);
	kfree(blocks);
	return r;
}

void dcd_unclaim(const struct dcd_engine *e)
{
	struct claim *c, *gone = NULL;

	mutex_lock(&claims_lock);
	list_for_each_entry(c, &claims, list)
		if (c->e == e)
			gone = c;
	if (gone)
		list_del(&gone->list);
	mutex_unlock(&claims_lock);
	kfree(gone);
}
