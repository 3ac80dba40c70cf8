/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages (dmsetup message m 0 ...):
 *
 *   fail local|remote        give a leg up
 *   recover [local|remote]   a dead leg is back (default: whichever is dead):
 *                            it is probed, then used, and what it missed is
 *                            copied to it
 *   resync                   take all of the remote leg for stale
 *   resync_rate <KiB/s>      0 = no bound
 *   resync_least <KiB/s>     under any load, 0 = nothing
 *   remote_timeout <ms>      0 = never
 *   local_timeout <ms>       0 = never
 *   coalesce <writes>        in a batch at most
 *   scatter auto|on|off      batches as WRITE SCATTERED
 *   memory_kib <KiB>         bound of the memory of writes in flight, 0 = the default
 *   dirty_limit <MiB>        that a crash leaves to resync at most
 *   policy degrade|block|error
 *   unblock                  policy block: go on with one leg until both are back
 *   fail_held                fail the writes that are held now
 *   verify start|check|stop  compare both legs everywhere (verify.h); check: and
 *                            only tell what differs
 *   resync_pace polite|full  the application first, or the resync
 *   resync_compare on|off    copy only what differs
 *   grow                     the legs' devices have grown: their metadata move to
 *                            the new ends; then a longer table may come (grow.h)
 *   counters_reset
 *
 * What these set shows in the table line (dmsetup table), so that it can be given
 * again; a reload goes by its own table line.
 *
 * A message is done by a worker, and who brings it waits for that. dm waits for him before it
 * suspends or removes anything, and he can't be killed: so he goes, with -EBUSY, when a leg is
 * silent (leg.h) and either a suspend has begun or MESSAGE_SECONDS have passed, whether the message
 * needs that leg itself or waits for somebody who does. So does who brings a verify's message while
 * policy block holds writes: the verify may wait for their ranges. The message goes on, and has
 * ended when the table is suspended, for then nothing of ours waits for a silent leg (transfer.h),
 * and no write is held.
 */
#ifndef LOCKSTEP_MESSAGE_H
#define LOCKSTEP_MESSAGE_H

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct mirror;
struct task_struct;

#define MESSAGE_SECONDS	3
#define MESSAGE_ARGS	1
#define MESSAGE_WORD	16	/* longer than any that is one */

/* One that is under way. There may be several. */
struct message {
	struct mirror *m;
	struct work_struct work;
	unsigned int which;
	unsigned int argc;
	char *argv[MESSAGE_ARGS];
	char words[MESSAGE_ARGS][MESSAGE_WORD];
	struct completion done;
	/* state lock */
	struct list_head link;		/* in mirror.messages */
	struct task_struct *task;	/* who does it; NULL: nobody yet */
	unsigned int users;
	int result;			/* once it has ended */
};

/* -ENOMEM, or 0. Destroy waits for those under way; takes what hasn't been created, too. */
int __must_check messages_create(struct mirror *m);
void messages_destroy(struct mirror *m);

/* Is one under way? And wait for those, when the table is quiet (standing.h). Sleep. */
bool messages_busy(struct mirror *m);
void messages_drain(struct mirror *m);

/* Is the current task doing one? Under the state lock. */
bool message_brought(const struct mirror *m);

/* For .message: process context. 0, or an errno with a DMWARN that says why. */
int __must_check message_handle(struct mirror *m, unsigned int argc, char **argv);

#endif
