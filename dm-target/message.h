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
 */
#ifndef LOCKSTEP_MESSAGE_H
#define LOCKSTEP_MESSAGE_H

#include <linux/list.h>
#include <linux/types.h>

struct mirror;
struct task_struct;

/* One that is under way. There may be several. */
struct message {
	struct list_head link;		/* in mirror.messages; state lock */
	struct task_struct *task;
};

/* Does the current task bring one? Under the state lock. */
bool message_brought(const struct mirror *m);

/* For .message: process context. 0, or an errno with a DMWARN that says why. */
int __must_check message_handle(struct mirror *m, unsigned int argc, char **argv);

#endif
