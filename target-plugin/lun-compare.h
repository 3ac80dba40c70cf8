/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * COMPARE AND WRITE of a LUN that is a disk, one at a time in the order they came.
 *
 * The core does that by a semaphore (caw_sem), which is down from before the command's read
 * until after its write; who asks for it sleeps, wherever that is, and can't be woken. So a
 * worker asks, only when it is free, and nobody else does. Meanwhile the others wait here,
 * as the engine's requests wait: until it has been long enough, or they are unwanted.
 *
 * What the core calls at such a command's end gives the semaphore back, also if the core ends
 * it before it was executed (a unit attention, a reservation). So until its turn it has none.
 */
#ifndef LUN_COMPARE_H
#define LUN_COMPARE_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <target/target_core_base.h>

struct lun_compare {
	spinlock_t lock;	/* of @waiting */
	struct list_head waiting;
	struct work_struct work;
};

void lun_compare_init(struct lun_compare *c);
/* No command is there any more, or will come. Sleeps. */
void lun_compare_exit(struct lun_compare *c);
/* At its parsing: what the core has found for its end is put away. */
void lun_compare_parsed(struct se_cmd *cmd);
/* The command's own @execute is called later, in a worker; or an error. */
sense_reason_t lun_compare(struct lun_compare *c, struct se_cmd *cmd,
			   sense_reason_t (*execute)(struct se_cmd *cmd));

/* Some may be unwanted: they are ended now. */
void lun_compare_look(struct lun_compare *c);

int __must_check lun_compare_module_init(void);
void lun_compare_module_exit(void);

#endif
