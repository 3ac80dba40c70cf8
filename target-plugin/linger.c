// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk may still be at a read or a write that was given up, at a wipe, or at a write that is
 * late, when its engine is closed. Nobody waits for that but the engine itself: its disks stay in
 * its exclusive use, so that nothing comes late over what somebody else has written, and its
 * memory stays, and the module, until they have answered.
 */
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, close_waits, "closing waits for what the disks are still at");

static struct workqueue_struct *linger_wq;

static bool is_quiet(struct dcd_engine *e)
{
	return dcd_reads_quiet(e) && !dcd_wipes_under_way(e) && !dcd_late_under_way(e) &&
	       !dcd_asides(e) && !READ_ONCE(e->commit.left) && dcd_throughs_quiet(e);
}

/* Nobody but what a disk has answered last may have begun one of them since they were ended. */
static void end(struct dcd_engine *e)
{
	cancel_delayed_work_sync(&e->destage_work);
	cancel_delayed_work_sync(&e->commit_work);
	dcd_reads_end(e);
	dcd_engine_free(e);
}

static void linger(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, linger_work);

	wait_event_idle(e->moved, !dcd_late_under_way(e));
	wait_event_idle(e->quiet, is_quiet(e));
	pr_info("dcd: %s: closed before: its disks have answered all, and are free\n", e->name);
	end(e);
	module_put(THIS_MODULE);	/* whose end waits for this worker's */
}

void dcd_linger_init(struct dcd_engine *e)
{
	init_waitqueue_head(&e->quiet);
	INIT_WORK(&e->linger_work, linger);
}

void dcd_end(struct dcd_engine *e)
{
	if (test_knob(close_waits))
		wait_event_idle(e->moved, !dcd_late_under_way(e));
	if (test_knob(close_waits))
		wait_event_idle(e->quiet, is_quiet(e));
	if (wait_event_timeout(e->quiet, is_quiet(e), HZ)) {
		end(e);
		return;
	}
	pr_warn("dcd: %s: closed, but the data disk %pg or the log %pg hasn't answered all yet: they stay in use until it has\n",
		e->name, e->data.bdev, e->log.bdev);
	__module_get(THIS_MODULE);
	queue_work(linger_wq, &e->linger_work);
}

int dcd_linger_module_init(void)
{
	linger_wq = alloc_workqueue("dcd-linger", WQ_UNBOUND, 0);
	return linger_wq ? 0 : -ENOMEM;
}

void dcd_linger_module_exit(void)
{
	destroy_workqueue(linger_wq);
}
