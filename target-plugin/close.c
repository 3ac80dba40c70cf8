// SPDX-License-Identifier: GPL-2.0-only
/* The close of an engine, up to its end (linger.c). */
#include <linux/module.h>

#include "beyond.h"
#include "engine.h"
#include "lockstep-test.h"
#include "outcome.h"

TEST_KNOB(bool, close_once, "a close past a dead log tries once what NVRAM will have forgotten");

static int bypass_once(struct dcd_engine *e)
{
	bool log_dead;
	int r;

	dcd_destage_all(e);
	if (READ_ONCE(e->leaving) && !dcd_left(e)) {
		dcd_leave_not(e);
		dcd_destage_all(e);
	}
	spin_lock(&e->lock);
	r = e->committed == e->head ? 0 : -EIO;
	log_dead = e->log_dead;
	spin_unlock(&e->lock);
	return r && !log_dead ? dcd_commit_all(e) : r;
}

/*
 * The log fails: to the data disk, then, or to the log if it works again. If it is being left and
 * that doesn't come to its end, it isn't left: else nothing would say that it is behind (beyond.h).
 * What NVRAM forgets is lost after this: so it is tried again for as long as a disk may be away for
 * a moment, or keep what was sent to it before. For what the log doesn't give that has been done,
 * and where the data disk has all of it nothing is lost.
 */
static int bypass_log(struct dcd_engine *e)
{
	int r = bypass_once(e);
	unsigned long until = jiffies + DCD_CLOSE_WAITS;

	while (r && !e->keeps && !e->after_log && READ_ONCE(e->round_error) != DCD_UNREAD &&
	       !dcd_beyond_has_all(e) && time_before(jiffies, until) && !test_knob(close_once)) {
		schedule_timeout_uninterruptible(HZ / 10);
		r = bypass_once(e);
	}
	return r;
}

/*
 * Without NVRAM nothing but a superblock says that the last segment is whole, however long
 * the log lies there until it is opened again.
 */
static void tell_end(struct dcd_engine *e)
{
	int r;

	if (e->log_dead || e->committed_entry <= le64_to_cpu(e->super.newest))
		return;
	r = dcd_super_write(e, le64_to_cpu(e->super.tail), le64_to_cpu(e->super.applied));
	if (r)
		pr_warn("dcd: %s: closed, but the superblock of the log %pg can't be written: error %d; look after that disk\n",
			e->name, e->log.bdev, r);
}

static const char *what_fails(const struct dcd_engine *e)
{
	return e->data_failing ? "log and data disk fail" :
				 "the log fails, and doesn't give all that it has";
}

void dcd_close(struct dcd_engine *e)
{
	int r;

	WRITE_ONCE(e->ending, jiffies ?: 1);
	wake_up_all(&e->room);
	dcd_digest_engine_closing(e);	/* which ends those that submit reads of their own */
	synchronize_srcu(&e->submitters);
	flush_workqueue(e->intake_wq);
	flush_delayed_work(&e->publish_work);
	/* What NVRAM keeps is safe there; but a log that is whole is easier to carry away. */
	r = dcd_commit_all(e);
	if (r && r != -EAGAIN)
		r = bypass_log(e);
	if (!r) {
		if (dcd_left(e))
			pr_info("dcd: %s: closed; its log %pg was left: %pg is used without it, or with a new one\n",
				e->name, e->log.bdev, e->data.bdev);
		else if (e->log_dead && e->tail == e->head)
			pr_warn("dcd: %s: closed while the log %pg fails; all data are on %pg\n",
				e->name, e->log.bdev, e->data.bdev);
	} else if (e->keeps) {
		pr_warn("dcd: %s: closed with data in NVRAM only: keep it together with its disks\n",
			e->name);
	} else if (e->after_log) {
		pr_warn("dcd: %s: closed while the log %pg fails: writes that were refused may be there or not\n",
			e->name, e->log.bdev);
	} else if (e->log_behind && dcd_beyond_on_leg(e)) {
		pr_warn("dcd: %s: closed while the log %pg fails; all data are on %pg, and that says so\n",
			e->name, e->log.bdev, e->data.bdev);
	} else if (e->log_behind) {
		pr_err("dcd: %s: closed; all data are on %pg, but the log %pg can't be told. Only this kernel knows it, from now on: after a reboot that log would bring older data back: before that open the DCD with a log that works, or `dcd format` it\n",
		       e->name, e->data.bdev, e->log.bdev);
	} else if (e->bypassed > e->committed) {
		pr_err("dcd: %s: closed while %s: what was in NVRAM is lost but for a part on %pg, and the log %pg may bring older data back there\n",
		       e->name, what_fails(e), e->data.bdev, e->log.bdev);
	} else {
		pr_err("dcd: %s: closed while %s: what was in NVRAM is lost\n",
		       e->name, what_fails(e));
	}
	spin_lock(&e->lock);
	e->closing = true;
	spin_unlock(&e->lock);
	wake_up_all(&e->room);
	cancel_delayed_work_sync(&e->scrub_work);
	cancel_delayed_work_sync(&e->patience_work);
	cancel_work_sync(&e->reads.unpark_work);
	/* The committer kicks the destager, not the other way round once the log is quiet. */
	cancel_delayed_work_sync(&e->destage_work);
	/* Behind the destager, which may just have logged something again. */
	cancel_delayed_work_sync(&e->publish_work);
	cancel_delayed_work_sync(&e->commit_work);
	cancel_delayed_work_sync(&e->destage_work);
	cancel_delayed_work_sync(&e->commit_work);
	cancel_work_sync(&e->super_work);
	tell_end(e);
	dcd_beyond_close(e, e->log_behind && !e->after_log && !dcd_left(e));
	dcd_end(e);
}
EXPORT_SYMBOL_GPL(dcd_close);
