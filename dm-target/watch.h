/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Watch: gives a leg up when it hangs.
 *
 * A leg hangs if one request of ours is out there (sender.h) for longer than the leg's
 * timeout (remote_timeout, local_timeout, milliseconds, 0 = never), whatever becomes of the
 * others: the oldest decides. The leg is then given up, and writes stop waiting for it
 * (write_abandon()): so under policy degrade no write waits for longer than that for a leg
 * that it was sent to (the kernel's timers round such times up, by an eighth at the most).
 * A leg that is already dead, but still has writes in flight that hang, is
 * abandoned in the same way. Whose I/O it is doesn't matter: the callers' writes and
 * reads, or the mirror's own. Requests of a leg that works become old if they queue behind
 * each other in the device: window.h bounds what the remote leg is handed at once.
 *
 * Nor is a leg given up while the other one doesn't answer, either (ask.h): what is given up
 * first can't come back before the other one says durably that it is alone, so the one that
 * returns first would be the wrong one. Both are silent, and the first that answers goes on.
 *
 * If the other leg can't stand in everywhere the leg is not given up: a
 * write that may still arrive must not be overtaken by a later one, so nobody
 * stops waiting for a leg that stays in use. Then the time-outs below it decide
 * (SCSI, iSCSI's replacement_timeout), as for any disk without a mirror. The leg is silent
 * then (leg.h): the log, the status line and an event tell it, and tell its end within a
 * second. Only a suspend doesn't wait for a silent leg, once all of the callers' I/O has ended
 * (transfer.h).
 *
 * local_timeout is off by default: a local disk that takes a minute for its retries is
 * mostly better company than a mirror without it. A leg whose timeout is off is never given
 * up, and is silent after WATCH_TELLS_MS: what waits for it waits all the same.
 *
 * One timer for each mirror; on idle legs it ticks once in a timeout, else
 * when the timeout would be over, in ASK_TICK_MS while a leg is asked, and once in a second while
 * one is silent. It runs
 * from the first resume on, to the last of a suspend (activate.h), and from the first I/O
 * of the next resume. In a first start, when nothing can be given up yet, transfer.h has a
 * timeout of its own.
 */
#ifndef LOCKSTEP_WATCH_H
#define LOCKSTEP_WATCH_H

#include <linux/types.h>
#include <linux/workqueue.h>

#include "ask.h"
#include "leg.h"

struct mirror;

#define REMOTE_TIMEOUT_DEFAULT	10000u
#define TIMEOUT_MAX		(24u * 3600 * 1000)
#define WATCH_TELLS_MS		10000u
#define ASK_TICK_MS		20u
#define WATCH_DOUBT_PART	4	/* of a timeout: window.h has none older */

struct watch {
	struct delayed_work work;
	bool runs;			/* state lock */
	unsigned long timeout[LEGS];	/* jiffies, 0 = never */
	struct ask *ask[LEGS];		/* NULL: no device */
};

/* The workqueue of all watches. Module init and exit. */
int __must_check watch_module_init(void);
void watch_module_exit(void);

/* -ENOMEM, or 0. Destroy takes one that is all zero; all that it asked has returned. */
int __must_check watch_create(struct mirror *m);
void watch_destroy(struct mirror *m);

/*
 * Sleep. Stop waits for a tick that is under way; from its begin on each transfer sees to its own
 * end (transfer.h), and from the end of start on the watch does again.
 */
void watch_start(struct mirror *m);
void watch_stop(struct mirror *m);

/* Has a leg that is silent answered since? Then it isn't any more. Process context. */
void watch_look(struct mirror *m);

/* Has it something out that is so old as nothing gets in a leg that works? Any context. */
bool watch_doubts(struct mirror *m, enum leg_id leg);

/* A new timeout of the leg; counts from now on at the latest. Process context. */
void watch_set(struct mirror *m, enum leg_id leg, unsigned int ms);

#endif
