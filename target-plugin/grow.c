// SPDX-License-Identifier: GPL-2.0-only
/*
 * The data disk has become larger. The superblock says its size, and what is behind
 * the end that it says is no part of a DCD: an entry there is damage. So first both
 * copies of it say the new one, durably, and only then anybody may write there.
 * With one alone, the other would count if that is damaged some day, and deny what
 * was written behind its end.
 *
 * A crash between the two leaves one, and the next opening writes the other. A crash
 * before the first copy leaves a disk that is larger than the superblock
 * says. That is refused at the next opening, as any disk of another size is (it
 * may be another disk), unless the admin says there that it has grown.
 */
#include <linux/export.h>
#include <linux/module.h>

#include "beyond.h"
#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, end_unread, "where a leg lies is forgotten by a growth when it can't be read");

struct growth {
	struct work_struct work;
	struct dcd_engine *e;
	int error;
};

static int record(struct dcd_engine *e, sector_t sectors)
{
	u64 leg;
	int r = dcd_beyond_may_end(e, sectors);

	if (r)
		return r;
	r = dcd_beyond_leg(e, &leg);
	/* The oldest end is forgotten, and a mirror's leg may lie there. */
	if (r && dcd_data_end(&e->super, e->data.sectors, DCD_ENDS - 1) && !test_knob(end_unread)) {
		pr_err("dcd: %s: where the data disk %pg ended before can't be read, and the superblock of a mirror's leg may be there: error %d; the size stays as it was, try again\n",
		       e->name, e->data.bdev, r);
		return r;
	}
	r = dcd_super_grow(e, sectors, leg);
	if (!r)
		return 0;
	pr_err("dcd: %s: the data disk %pg has grown, but the superblock of the log %pg can't be written: error %d; the size stays as it was, try again\n",
	       e->name, e->data.bdev, e->log.bdev, r);
	dcd_log_failed(e, DCD_SUPERBLOCK, r);
	return r;
}

int dcd_take_size(struct dcd_engine *e)
{
	sector_t now = bdev_nr_sectors(e->data.bdev), old = e->data.sectors;
	int r;

	if (now < old) {
		pr_err("dcd: %s: the data disk %pg has %llu sectors, it had %llu: a DCD can't be made smaller; give the disk its size back\n",
		       e->name, e->data.bdev, (u64)now, (u64)old);
		return -EINVAL;
	}
	if (now == old) {
		pr_info("dcd: %s: the data disk %pg has %llu sectors as before: nothing to grow\n",
			e->name, e->data.bdev, (u64)now);
		return 0;
	}
	/* All that is told would wait for it, and nothing be destaged meanwhile. */
	if (!dcd_left(e) && dcd_log_answers(e) <= 0) {
		pr_err("dcd: %s: can't grow while the log %pg fails\n", e->name, e->log.bdev);
		return -EIO;
	}
	r = dcd_left(e) ? 0 : record(e, now);	/* no log has to know it */
	if (r)
		return r;
	WRITE_ONCE(e->data.sectors, now);
	pr_info("dcd: %s: the data disk %pg has grown from %llu to %llu sectors\n", e->name,
		e->data.bdev, (u64)old, (u64)now);
	return 0;
}

static void grow_work(struct work_struct *work)
{
	struct growth *g = container_of(work, struct growth, work);

	g->error = dcd_take_size(g->e);
}

int dcd_grow(struct dcd_engine *e)
{
	struct growth g = { .e = e };

	WRITE_ONCE(e->growing, true);
	INIT_WORK_ONSTACK(&g.work, grow_work);
	queue_work(e->destage_wq, &g.work);
	flush_work(&g.work);
	destroy_work_on_stack(&g.work);
	WRITE_ONCE(e->growing, false);
	dcd_destage_ask(e);
	return g.error;
}
EXPORT_SYMBOL_GPL(dcd_grow);
