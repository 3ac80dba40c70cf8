/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registry: all mirrors of this host, so that no leg serves two of them, and a
 * table reload finds the table before.
 *
 * A leg serves one mirror of this host at a time. A block device belongs to one mapped device,
 * whether that runs or not. But a leg may be reached by two devices: a LUN by two sessions or
 * portals. So a mirror with metadata takes a leg by its uuid, too, before it writes anything to
 * it: when it is started, and when the leg joins. It is refused while another mapped device's
 * mirror has the leg. That one has it from then on until the leg is dead, or the table has
 * gone: a suspended mirror still has its legs, since it goes on with
 * what it knows of them; a table that was never resumed has none. What is still out on a dead
 * leg is told by draining, see below. Without metadata a leg has no uuid, and its device is all
 * that is known.
 *
 * In a table reload the new table takes over what the old one has: handover.h.
 *
 * What the old one still writes then, for it was told to give a leg up while it was suspended, is
 * waited for, for a while.
 *
 * What was abandoned (write.h) belongs to the leg, not to the mirror that gave it up
 * nor to the block device by which it was sent: it may still reach the leg, and undo
 * newer writes there. So a leg that anybody's abandoned I/O may reach is dead, and
 * draining, in every mirror of this host, and joins when all of it has returned. When two
 * legs are one: identity.h. A leg of the core mode that drains is resynced as a whole when it has
 * returned, unless the table before has handed on what it misses.
 *
 * A mirror whose table goes while I/O is out lingers: a table swap or a remove doesn't
 * wait. It isn't dm's any more and has no target (mirror.ti is NULL); its memory, the
 * block devices and this module stay in use until the last of it has returned, then a
 * worker frees it. Until then the module can't be unloaded, so there is no later life
 * of it that doesn't know. What a host has forgotten by a crash, nobody here knows of:
 * whoever makes a table then has to have asked the other site to end it first (the
 * command does: lockstep(8), LATE WRITES).
 *
 * The parameter "draining" of the module tells all such legs, a line each: requests
 * that are out, local or remote, the block device (MAJOR:MINOR), the leg's uuid or -,
 * the mapped device's name.
 */
#ifndef LOCKSTEP_REGISTRY_H
#define LOCKSTEP_REGISTRY_H

#include <linux/dm-ioctl.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "leg.h"

struct mirror;
struct super_found;

/*
 * In core mode: a leg missed what the other one had, when a table of this device ran last. By its
 * device, for the next table may name it in another place.
 */
struct lack {
	enum leg_id leg;		/* its place then; LEGS: none did */
	dev_t dev, good;		/* the other one's */
};

/* What the registry has of a mirror. */
struct registered {
	struct list_head link;
	char name[DM_NAME_LEN];		/* of the mapped device */
	char uuid[DM_UUID_LEN];
	u8 leg_uuid[LEGS][16];
	bool known[LEGS];		/* that uuid */
	bool taken[LEGS];		/* by that uuid; counts unless the leg is dead */
	/* Of the last mirror that ran, to be handed on: which leg had everything, and its legs. */
	enum leg_id had;		/* LEGS: there was none */
	bool had_both;			/* the other one, too */
	dev_t was_dev[LEGS];
	u8 was_uuid[LEGS][16];
	bool was_known[LEGS];		/* that uuid */
	struct lack lack;		/* likewise; leg is LEGS: a map says it, or there is none */
	struct work_struct work;	/* of one that lingers */
	void (*free)(struct mirror *m);
};

int __must_check registry_module_init(void);
/* No mirror is left, not even one that lingers: each has a reference to the module. */
void registry_module_exit(void);

/*
 * May abandoned I/O of any mirror reach this leg? As far as its uuid is known, see below;
 * this mirror's own counts too. Sleeps.
 */
bool registry_draining(const struct mirror *m, enum leg_id leg);

/* The leg's superblock has been read: now its uuid is known, if there is one. Sleeps. */
void registry_know(struct mirror *m, enum leg_id leg, const struct super_found *found);
/* Is it, or was it handed on? */
bool registry_knows(const struct mirror *m, enum leg_id leg);

/*
 * This mirror is about to use the leg, whose uuid is known: nobody else is to have it. 0, or
 * -EBUSY with the name of the mapped device that has it. Then the leg isn't this mirror's.
 * Sleeps; the leg is alive and nothing has been started yet, or it is being joined.
 */
int __must_check registry_take(struct mirror *m, enum leg_id leg, char by[DM_NAME_LEN]);
/* Would it be refused now? Sleeps. */
bool registry_taken(const struct mirror *m, enum leg_id leg);

/*
 * dmsetup may have renamed the device, which nobody tells. When a leg is given up, and whenever
 * somebody looks at the status. Sleeps.
 */
void registry_learn(struct mirror *m);

/*
 * In the constructor, legs opened, and looked at unless it is a reload. -EBUSY, with ti->error, if
 * somebody else has a leg.
 */
int __must_check registry_add(struct mirror *m);
/*
 * Is there a mirror that runs, or has run, on one of the legs? Takes over from it
 * where the legs' metadata are. Sleeps.
 */
bool registry_reload(struct mirror *m);
/* That mirror's length in sectors, and the leg that it has lost; 0 and LEGS: none. Sleeps. */
void registry_before(struct mirror *m, sector_t *len, enum leg_id *missing);
/*
 * Its table is at its end: the mirror has no target any more, and takes no leg from others. It is
 * still registered, if it was, so that what drains is known. Sleeps.
 */
void registry_leave(struct mirror *m);
void registry_remove(struct mirror *m);
/*
 * Instead, of one with I/O out, registered or not: @free is called when all of it has
 * returned. From now on nothing of the mirror runs but what returns.
 */
void registry_linger(struct mirror *m, void (*free)(struct mirror *m));

/*
 * In .preresume, first. -EBUSY if another mirror still runs on the legs, or if the table before is
 * parting, after a message to it while it was suspended, and hasn't ended that within
 * HANDOVER_SECONDS: two mirrors never write one leg's superblock at a time. -EINTR: the caller was
 * killed meanwhile.
 */
#define HANDOVER_SECONDS 30
int __must_check registry_resume(struct mirror *m);
/* It could be: from now on others inherit from it. */
void registry_ran(struct mirror *m);
/* In .postsuspend: no I/O is in flight. Or the start has failed: then it has no legs. */
void registry_suspend(struct mirror *m);

#endif
