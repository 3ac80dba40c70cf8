// SPDX-License-Identifier: GPL-2.0-only
#include "lun-compare.h"

#include <linux/semaphore.h>
#include <linux/slab.h>
#include <scsi/scsi_proto.h>

#include "lun.h"

struct turn {
	struct list_head list;
	struct se_cmd *cmd;
	sense_reason_t (*execute)(struct se_cmd *cmd);
};

/* Not that of commands that wait in it themselves. */
static struct workqueue_struct *compare_wq;

/* The core's, the same for each of them. */
static typeof(((struct se_cmd *)NULL)->transport_complete_callback) at_its_end;

static bool over(const struct turn *t)
{
	struct dcd_engine *e = to_dcd(t->cmd->se_dev)->engine;

	return lun_unwanted(t->cmd) || dcd_waited_enough(e, lun_since(t->cmd));
}

/* Those that have waited long enough, and if there is one with @next the first of the others. */
static struct turn *take(struct lun_compare *c, bool next, struct list_head *ended, bool *more)
{
	struct turn *t, *n, *found = NULL;

	spin_lock(&c->lock);
	list_for_each_entry_safe(t, n, &c->waiting, list) {
		if (next && !found && !lun_unwanted(t->cmd)) {
			found = t;
			list_del(&t->list);
		} else if (over(t)) {
			list_move_tail(&t->list, ended);
		}
	}
	*more = !list_empty(&c->waiting);
	spin_unlock(&c->lock);
	return found;
}

static void end(struct turn *t)
{
	struct se_cmd *cmd = t->cmd;

	kfree(t);
	lun_complete(cmd, -EAGAIN);
}

static void execute(struct turn *t)
{
	struct se_cmd *cmd = t->cmd;
	sense_reason_t r;

	cmd->transport_complete_callback = READ_ONCE(at_its_end);
	r = t->execute(cmd);
	kfree(t);
	if (r)
		target_complete_cmd_with_sense(cmd, SAM_STAT_CHECK_CONDITION, r);
}

static bool is_free(struct semaphore *sem)
{
	if (down_timeout(sem, DCD_LOOK))
		return false;
	up(sem);
	return true;
}

/* False: none waits any more. */
static bool look(struct lun_compare *c, bool next)
{
	struct turn *t, *n, *found;
	LIST_HEAD(ended);
	bool more;

	found = take(c, next, &ended, &more);
	list_for_each_entry_safe(t, n, &ended, list)
		end(t);
	if (found)
		execute(found);
	return more;
}

static void work_on(struct work_struct *work)
{
	struct lun_compare *c = container_of(work, struct lun_compare, work);
	struct dcd_dev *d = container_of(c, struct dcd_dev, compare);

	while (look(c, is_free(&d->dev.caw_sem)))
		;
}

void lun_compare_look(struct lun_compare *c)
{
	look(c, false);
}

sense_reason_t lun_compare(struct lun_compare *c, struct se_cmd *cmd,
			   sense_reason_t (*execute)(struct se_cmd *cmd))
{
	struct turn *t = kmalloc(sizeof(*t), GFP_KERNEL);

	if (!t)
		return TCM_OUT_OF_RESOURCES;
	t->cmd = cmd;
	t->execute = execute;
	spin_lock(&c->lock);
	list_add_tail(&t->list, &c->waiting);
	spin_unlock(&c->lock);
	queue_work(compare_wq, &c->work);
	return 0;
}

void lun_compare_parsed(struct se_cmd *cmd)
{
	WRITE_ONCE(at_its_end, cmd->transport_complete_callback);
	cmd->transport_complete_callback = NULL;
}

void lun_compare_init(struct lun_compare *c)
{
	spin_lock_init(&c->lock);
	INIT_LIST_HEAD(&c->waiting);
	INIT_WORK(&c->work, work_on);
}

void lun_compare_exit(struct lun_compare *c)
{
	flush_work(&c->work);
}

int lun_compare_module_init(void)
{
	compare_wq = alloc_workqueue("dcd-compare", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	return compare_wq ? 0 : -ENOMEM;
}

void lun_compare_module_exit(void)
{
	destroy_workqueue(compare_wq);
}
