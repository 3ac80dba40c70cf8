/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Leg: one of the two devices of a mirror: the local one, which is read, and
 * the remote one, at the mirror site.
 *
 * A leg is alive or dead. A dead leg gets no I/O but a join's until it is alive again
 * (join.h). Which parts of an alive leg may be trusted is the region map's
 * knowledge, not the leg's. dead and deaths change under the mirror's state
 * lock; error counters may be raised from any context.
 */
#ifndef LOCKSTEP_LEG_H
#define LOCKSTEP_LEG_H

#include <linux/atomic.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/types.h>

#include "sender.h"

enum leg_id {
	LEG_LOCAL,
	LEG_REMOTE,
	LEGS,
};

static inline enum leg_id other_leg(enum leg_id leg)
{
	return leg == LEG_LOCAL ? LEG_REMOTE : LEG_LOCAL;
}

const char *leg_name(enum leg_id leg);

/* Why a dead leg is dead, or stays so. */
enum leg_why {
	WHY_NONE,
	WHY_ABSENT,	/* the table has no device for it */
	WHY_TOLD,	/* message "fail": "recover" or another device brings it back */
	WHY_FAILED,	/* a write or flush failed */
	WHY_TIMEOUT,	/* nothing came back for remote_timeout */
	WHY_DRAINING,	/* I/O that was abandoned hasn't come back */
	WHY_UNREADABLE,	/* it can't be read or flushed */
	WHY_FOREIGN,	/* its superblock is missing, damaged, or another mirror's */
	WHY_OUTDATED,	/* it is from before the other leg was replaced, or such */
	WHY_DIVERGED,	/* split brain: it has a history of its own */
	WHY_TAKEN,	/* another mirror of this host has it, by another device */
};

/* One word for the status line. */
const char *leg_why_word(enum leg_why why);

struct leg {
	struct dm_dev *dev;		/* NULL: there is none; or the table has gone (leg_put()) */
	/*
	 * Opened once more, by ourselves: what was abandoned on it may come back when the table
	 * that it came by is long gone (registry.h).
	 */
	void *held;
	struct block_device *bdev;
	char path[16];			/* the device's number */
	enum leg_id id;
	/*
	 * What this leg has acknowledged must be on stable storage, though its
	 * device has a volatile cache and nobody asked for a flush: a device
	 * at the other site may lose its power and come back, behind a session
	 * that reconnects, without our ever seeing an error.
	 */
	bool write_through;
	/* The administrator says that the device's cache survives a power loss. */
	bool cache_trusted;

	bool dead;
	bool said;			/* dead, and nobody can go on with it alone (handover.c) */
	enum leg_why why;
	/*
	 * It is alive, hasn't answered one request for its timeout, and isn't given up for that
	 * (watch.h): who needs it waits. Under the state lock.
	 */
	bool silent;
	unsigned int deaths;
	unsigned int zeroes_most[2];	/* sectors at once, [1]: that stay allocated (zero.c) */
	struct task_struct *joiner;	/* this one's join uses it, or asks for it (join.h) */
	atomic64_t read_errors;
	atomic64_t write_errors;
	struct sender sender;		/* of all our I/O to it */
};

/*
 * May sleep. On an error ti->error names it and nothing is held. The path "-":
 * there is no device; dev stays NULL, and the leg is dead.
 */
int __must_check leg_open(struct leg *leg, struct dm_target *ti, const char *path,
			  enum leg_id id);
/* Give dm its device back, while there is a table to do that with; the leg can still be used. */
void leg_put(struct leg *leg, struct dm_target *ti);
/* After leg_put(), and when all I/O to it has returned. */
void leg_close(struct leg *leg);

/* For people: the device's number, or "-". */
const char *leg_path(const struct leg *leg);

struct block_device *leg_bdev(const struct leg *leg);

/* REQ_FUA if a write to this leg needs it beyond what the caller asked. */
blk_opf_t leg_write_flags(const struct leg *leg);

/*
 * Could the leg, if its device lost its power now, forget writes that it has
 * acknowledged? Then a dead leg can't be believed anywhere.
 */
bool leg_may_forget(const struct leg *leg);

#endif
