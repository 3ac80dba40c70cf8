/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Watch: gives the remote leg up when it hangs.
 *
 * The leg hangs if I/O of ours is in flight there and none has come back for
 * the timeout (remote_timeout, milliseconds, 0 = never). It is then given up,
 * and writes stop waiting for it (write_abandon()): so under policy degrade a
 * write is acknowledged by the local leg one timeout after the last sign of life
 * (the kernel's timers round such times up, by an eighth at the most).
 * A leg that is already dead, but still has writes in flight that hang, is
 * abandoned in the same way. Whose I/O it is doesn't matter: the callers' writes and
 * reads, or the mirror's own. That a burst on a slow wire doesn't look like a hang is
 * window.h's work.
 *
 * If the local leg can't stand in everywhere the remote leg is not given up: a
 * write that may still arrive must not be overtaken by a later one, so nobody
 * stops waiting for a leg that stays in use. Then the time-outs below it decide
 * (SCSI, iSCSI's replacement_timeout), as for any disk without a mirror; the log
 * tells.
 *
 * One timer for each mirror; on an idle leg it ticks once in a timeout, else
 * when the timeout would be over. It runs from the first resume on, to the last of a
 * suspend (activate.h), and from the first I/O of the next resume. In a first start,
 * when nothing can be given up yet, transfer.h has a timeout of its own.
 */
#ifndef LOCKSTEP_WATCH_H
#define LOCKSTEP_WATCH_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct mirror;

#define REMOTE_TIMEOUT_DEFAULT	10000u
#define REMOTE_TIMEOUT_MAX	(24u * 3600 * 1000)

struct watch {
	struct delayed_work work;
	unsigned long timeout;		/* jiffies, 0 = never */
	bool told;			/* of the hang that can't be helped */
};

/* The workqueue of all watches. Module init and exit. */
int __must_check watch_module_init(void);
void watch_module_exit(void);

void watch_init(struct mirror *m, unsigned int ms);

/* Sleep. Stop waits for a tick that is under way. */
void watch_start(struct mirror *m);
void watch_stop(struct mirror *m);

/* A new timeout; counts from now on at the latest. Process context. */
void watch_set(struct mirror *m, unsigned int ms);

#endif
