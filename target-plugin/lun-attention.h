/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unit attentions that the core has no way to establish: it exports none, and
 * takes its own out of a cache of its own. So here is who still has to be told:
 * for each kind the I_T nexuses (session, LUN number) that were there when it
 * happened. Who logs in later finds the new state and needn't be told.
 *
 * A nexus is told once, by the first of its commands that is executed: CHECK
 * CONDITION instead of the command. As SAM says, INQUIRY and REPORT LUNS are
 * executed and leave it, and REQUEST SENSE gets it as its data. The core's own
 * unit attentions come first, and so do its refusals (a reservation, ALUA):
 * they leave it. So does a command that can't be parsed.
 *
 * A session that has gone stays in the list until the kind comes again or the
 * device goes. If a new one gets the same memory it is told once too often, which
 * costs it a look at what it knows already.
 */
#ifndef LUN_ATTENTION_H
#define LUN_ATTENTION_H

#include <linux/compiler.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct se_cmd;
struct se_device;
struct lun_nexuses;

/* In the order in which they are told. */
enum lun_attention_kind {
	LUN_CAPACITY_CHANGED,	/* CAPACITY DATA HAS CHANGED */
	LUN_MODE_CHANGED,	/* MODE PARAMETERS CHANGED */
	LUN_ATTENTION_KINDS,
};

struct lun_attention {
	spinlock_t lock;	/* of @waiting */
	struct lun_nexuses *waiting[LUN_ATTENTION_KINDS];	/* NULL: nobody */
};

void lun_attention_init(struct lun_attention *a);
void lun_attention_exit(struct lun_attention *a);
/*
 * Every nexus that @dev has is to be told. Sleeps. The caller serializes calls for
 * one @a. -ENOMEM: nobody of now is.
 */
int __must_check lun_attention_raise(struct lun_attention *a, struct se_device *dev,
				     enum lun_attention_kind kind);
/* Somebody is still to be told; for every command, so it is cheap. */
static inline bool lun_attention_waits(const struct lun_attention *a)
{
	return READ_ONCE(a->waiting[LUN_CAPACITY_CHANGED]) ||
	       READ_ONCE(a->waiting[LUN_MODE_CHANGED]);
}

/* At its execution, process context. True: @cmd has told it, and is answered. */
bool lun_attention_told(struct lun_attention *a, struct se_cmd *cmd);

#endif /* LUN_ATTENTION_H */
