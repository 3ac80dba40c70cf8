// SPDX-License-Identifier: GPL-2.0-only
#include "lun-attention.h"

#include <linux/overflow.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>

#include "lun.h"

/* @session is never looked into: it may be gone. */
struct nexus {
	const struct se_session *session;
	u64 lun;
};

struct lun_nexuses {
	unsigned int n;
	struct nexus nexus[];
};

static const struct {
	u8 asc, ascq;
} codes[] = {
	[LUN_CAPACITY_CHANGED] = { 0x2a, 0x09 },
	[LUN_MODE_CHANGED] = { 0x2a, 0x01 },
};

void lun_attention_init(struct lun_attention *a)
{
	spin_lock_init(&a->lock);
}

void lun_attention_exit(struct lun_attention *a)
{
	unsigned int i;

	for (i = 0; i < LUN_ATTENTION_KINDS; i++) {
		kfree(a->waiting[i]);
		a->waiting[i] = NULL;
	}
}

/* By which numbers the session has @lun. How many; the first @room are put to @to. */
static unsigned int of_session(const struct se_session *session, const struct se_lun *lun,
			       struct nexus *to, unsigned int room)
{
	struct se_node_acl *acl = session->se_node_acl;
	struct se_dev_entry *entry;
	unsigned int n = 0;

	if (!acl)
		return 0;
	rcu_read_lock();
	hlist_for_each_entry_rcu(entry, &acl->lun_entry_hlist, link) {
		if (entry->se_lun != lun)
			continue;
		if (n < room)
			to[n] = (struct nexus){ session, entry->mapped_lun };
		n++;
	}
	rcu_read_unlock();
	return n;
}

static unsigned int of_device(struct se_device *dev, struct nexus *to, unsigned int room)
{
	struct se_session *session;
	unsigned int n = 0;
	struct se_lun *lun;

	spin_lock(&dev->se_port_lock);
	list_for_each_entry(lun, &dev->dev_sep_list, lun_dev_link) {
		struct se_portal_group *tpg = lun->lun_tpg;

		spin_lock_irq(&tpg->session_lock);
		list_for_each_entry(session, &tpg->tpg_sess_list, sess_list)
			n += of_session(session, lun, to + min(n, room), room - min(n, room));
		spin_unlock_irq(&tpg->session_lock);
	}
	spin_unlock(&dev->se_port_lock);
	return n;
}

int lun_attention_raise(struct lun_attention *a, struct se_device *dev,
			enum lun_attention_kind kind)
{
	unsigned int n = of_device(dev, NULL, 0), room;
	struct lun_nexuses *new = NULL, *old;

	do {
		room = n;
		kfree(new);
		new = kmalloc(struct_size(new, nexus, room), GFP_KERNEL);
		if (!new)
			return -ENOMEM;
		n = of_device(dev, new->nexus, room);
	} while (n > room);
	new->n = n;
	if (!n) {
		kfree(new);
		new = NULL;
	}
	spin_lock(&a->lock);
	old = a->waiting[kind];
	WRITE_ONCE(a->waiting[kind], new);
	spin_unlock(&a->lock);
	kfree(old);
	return 0;
}

/* False: the nexus needn't be told that. Else it needn't from now on. */
static bool take(struct lun_attention *a, enum lun_attention_kind kind, const struct se_cmd *cmd)
{
	struct lun_nexuses *all = a->waiting[kind];
	unsigned int i;

	lockdep_assert_held(&a->lock);
	for (i = 0; all && i < all->n; i++) {
		if (all->nexus[i].session != cmd->se_sess ||
		    all->nexus[i].lun != cmd->orig_fe_lun)
			continue;
		all->nexus[i] = all->nexus[--all->n];
		if (!all->n) {
			WRITE_ONCE(a->waiting[kind], NULL);
			kfree(all);
		}
		return true;
	}
	return false;
}

/* LUN_ATTENTION_KINDS: none. */
static enum lun_attention_kind take_next(struct lun_attention *a, const struct se_cmd *cmd)
{
	enum lun_attention_kind kind = 0;

	spin_lock(&a->lock);
	while (kind < LUN_ATTENTION_KINDS && !take(a, kind, cmd))
		kind++;
	spin_unlock(&a->lock);
	return kind;
}

/* Of the other commands the core has asked that before. */
static bool core_has_one(const struct se_cmd *cmd)
{
	struct se_node_acl *acl = cmd->se_sess ? cmd->se_sess->se_node_acl : NULL;
	struct se_dev_entry *entry;
	bool yes = false;

	if (!acl)
		return false;
	rcu_read_lock();
	hlist_for_each_entry_rcu(entry, &acl->lun_entry_hlist, link)
		if (entry->mapped_lun == cmd->orig_fe_lun)
			yes = !list_empty_careful(&entry->ua_list);
	rcu_read_unlock();
	return yes;
}

/* Its data are the sense. False: that is for the core. */
static bool request_sense(struct lun_attention *a, struct se_cmd *cmd)
{
	u8 sense[TRANSPORT_SENSE_BUFFER];
	enum lun_attention_kind kind;
	void *to;

	if ((cmd->t_task_cdb[1] & 1) || core_has_one(cmd))
		return false;
	to = transport_kmap_data_sg(cmd);
	if (!to)
		return false;
	kind = take_next(a, cmd);
	if (kind < LUN_ATTENTION_KINDS) {
		lun_sense(cmd->se_dev, UNIT_ATTENTION, codes[kind].asc, codes[kind].ascq, sense);
		memcpy(to, sense, min_t(u32, sizeof(sense), cmd->data_length));
	}
	transport_kunmap_data_sg(cmd);
	if (kind == LUN_ATTENTION_KINDS)
		return false;
	target_complete_cmd(cmd, SAM_STAT_GOOD);
	return true;
}

bool lun_attention_told(struct lun_attention *a, struct se_cmd *cmd)
{
	u8 sense[TRANSPORT_SENSE_BUFFER];
	enum lun_attention_kind kind;

	switch (cmd->t_task_cdb[0]) {
	case INQUIRY:
	case REPORT_LUNS:
		return false;
	case REQUEST_SENSE:
		return request_sense(a, cmd);
	default:
		break;
	}
	kind = take_next(a, cmd);
	if (kind == LUN_ATTENTION_KINDS)
		return false;
	lun_sense(cmd->se_dev, UNIT_ATTENTION, codes[kind].asc, codes[kind].ascq, sense);
	lun_complete_with(cmd, sense);
	return true;
}
