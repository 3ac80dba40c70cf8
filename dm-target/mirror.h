/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mirror: two legs, the map of what each holds, and the rules by which a leg
 * is used, given up and taken back.
 *
 * Rules:
 *  - Who is written: every leg that is alive, and nobody while the standing
 *    (standing.h) is parting or blocked. Before a write is sent its regions are
 *    durably dirty (dirty-map.h).
 *  - When it is acknowledged: when every leg that is alive has it, and a leg
 *    that hasn't is known, on stable storage, not to have everything: it is
 *    dead and the standing is alone, or it is the target of a resync and its
 *    superblock says so. Then its miss is marked stale first.
 *  - Who is read: the local leg where it is current, else the remote leg where
 *    that is current, else nobody (the read fails; stale data is never given).
 *  - At most one leg misses anything: the target. The other is the source.
 *  - A leg is given up ("dead") when a write or flush fails on it, unless the
 *    other leg couldn't stand in everywhere (dead, or the target): then it
 *    stays, its errors are the caller's, and the other leg, if alive, is marked
 *    stale there. So the last leg with current data is never thrown away over a
 *    bad sector.
 *  - Under policy "block" or "error" no write is acknowledged that isn't on both
 *    legs, unless the administrator says "unblock".
 *
 * Locking: the state lock (mirror.lock, taken with interrupts off) guards the
 * region map, legs' dead, deaths, why and silent, degraded, standing and what goes with
 * it. It is innermost but for the dirty map's and the workqueues' own locks.
 * degraded may be read without it, after deaths: when it is false and becomes true
 * meanwhile, the I/O goes to a leg that has just died and knows it by the deaths that
 * it remembers, and its completion settles that; the other way round costs only time.
 *
 * Marks and range locks: a bit of the region map is set by an I/O that holds a
 * range in the region, or for a leg that is dead; it is cleared by a resync that
 * held every range of the region in turn and saw no marks meanwhile. So a bit
 * can't be cleared over a write that failed.
 */
#ifndef LOCKSTEP_MIRROR_H
#define LOCKSTEP_MIRROR_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "again.h"
#include "bounce.h"
#include "budget.h"
#include "counters.h"
#include "dirty-map.h"
#include "leg.h"
#include "lesser.h"
#include "range-lock.h"
#include "read.h"
#include "read-window.h"
#include "registry.h"
#include "region-map.h"
#include "scatter.h"
#include "standing.h"
#include "table.h"
#include "throttle.h"
#include "transfer.h"
#include "watch.h"
#include "write.h"

#define DM_MSG_PREFIX "lockstep"

struct digests;
struct metadata;
struct repair;
struct resync;
struct verify;

struct mirror {
	struct dm_target *ti;		/* NULL: it lingers (registry.h) */
	char name[16];			/* the mapped device's number, for people... */
	dev_t devt;			/* ...and that number */
	struct leg legs[LEGS];
	struct table_options options;	/* as in the table, and changed by messages */
	struct metadata *meta;		/* NULL: core mode */
	bool read_only;			/* the table is: nothing is written to a leg */
	bool grows;			/* the table is longer than what it takes over from */

	spinlock_t lock;		/* the state lock: see above */
	struct region_map map;
	unsigned int region_shift;
	bool degraded;			/* not together, a region is stale, or to be made so */
	/*
	 * map.target is the target of a resync, durably so on its superblock.
	 * Never in core mode.
	 */
	bool target_ready;
	bool target_whole;		/* it isn't, and has all that was acknowledged: lesser.h */
	bool both_whole;		/* stale is only what was under way at a crash: repair.h */
	/* It is just being made SYNC: its superblock may say either. */
	bool target_leaving;
	/*
	 * The leg that has just died may forget what it has acknowledged: the parting makes
	 * stale all that is dirty, before anything is acknowledged without that leg.
	 */
	bool forgets;
	/*
	 * A flush or a write has failed on a leg that stays in use, so what it had only in its
	 * cache may be gone: what is dirty has to become stale on one leg, the lesser one. Until
	 * that is done nothing is written out as clean, and no leg joins or becomes in sync.
	 */
	u8 forgot;			/* such legs, as bits */
	u8 recalled;			/* likewise, while it is being done... */
	unsigned int recalls;		/* ...by so many: lesser_take_forgotten() */

	/* standing.h */
	enum standing standing;
	bool unblocked;			/* by the administrator, until together again */
	bool closed;			/* being suspended: nothing may be held */
	bool quiet;			/* suspended, or just about to be: no caller's I/O is out */
	bool resuming;			/* the same table, and not yet: likewise */
	unsigned int start_late;	/* tries to start or resume with no answer in time */
	unsigned int changes;		/* of the standing, and of forgot */
	enum leg_id home;		/* whose map counts; LEGS before the first resume */
	struct list_head held;
	struct work_struct parting;
	bool parts;			/* that is at it */
	struct workqueue_struct *state_wq;	/* ordered */

	/* join.h */
	struct mutex join_lock;		/* for messages: join_enter(), join_now() */
	atomic_t join_wanted;		/* who waits for the end of a try, by those */
	unsigned int join_seconds;	/* that an answer is waited for, if nobody does */
	unsigned int join_changes;	/* changes as of the step under way */
	bool join_needs;		/* what the other leg has; the joiner's */
	bool join_off;
	bool join_ends;			/* a leg is about to come back: see standing.h */
	struct delayed_work joining;
	struct workqueue_struct *join_wq;

	struct dirty_map dirty;

	/* message.h */
	struct list_head messages;
	struct workqueue_struct *message_wq;

	/* as of the last event */
	char shown[LEGS];
	bool shown_silent[LEGS];
	enum standing shown_standing;

	struct range_lock ranges;
	struct counters counters;
	struct throttle *throttle;	/* of all that works beside the application */
	struct transfers transfers;
	struct resync *resync;
	struct verify *verify;
	struct digests *digests;	/* NULL: there are none */
	struct repair *repair;

	struct writes writes;
	struct bounces bounces;
	struct read_window read_window;
	struct scatter scatter;
	struct watch watch;
	struct workqueue_struct *wq;	/* events */
	struct workqueue_struct *read_wq;	/* reads that are tried again */
	struct again_bound again[LEGS];	/* of reads on this leg */
	struct work_struct event;

	/* registry.c */
	struct registered registered;
	bool ran;			/* has been resumed once */
	bool heir;			/* it has taken over from one that ran */
	enum leg_id keep;		/* after a reload: the leg to go on with; else LEGS */
	bool keep_only;			/* the other one has forgotten what was acknowledged */
	bool keep_either;		/* the other one has all of it, too */
	bool keep_whole;		/* ... but for what was under way at a crash: both_whole */
	bool kept_read;			/* the last table that ran only read: heir.h */
	bool suspended;			/* or not resumed yet: no I/O */
};

/* How a read is tried again that has failed. */
enum read_again {
	READ_ONLY_ONCE,			/* it isn't */
	READ_OTHER,			/* by the other leg, which is current in all of it */
	READ_PARTS,			/* by the same one; the other one may have a part of it */
	READ_MENDED,			/* by the same one, behind a repair from the target */
};

/* What a bio carries with it (dm's per-bio data); nothing is initialised by dm. */
struct mirror_io {
	struct mirror *m;
	struct bio *bio;		/* the caller's (dm's clone of it) */
	struct work_struct work;
	struct bvec_iter iter;		/* as it came, to try again */
	enum leg_id leg;		/* where it was sent */
	struct read_item sent;
	bool watched;			/* it is out, without a part or a bounce */
	bool unanswered;		/* the leg was given up before it said anything */
	enum read_again again;
	struct throttle_io app;
	struct budget_share share;	/* a write's, until it has a struct write */
	struct bio part;		/* what is sent now of a read in its caller's pages */
};

/* A logical block of the mirror, in bytes: of each leg whole blocks, too. Any context. */
static inline unsigned int mirror_block(const struct mirror *m)
{
	return queue_logical_block_size(dm_disk(dm_table_get_md(m->ti->table))->queue);
}

static inline struct mirror_io *mirror_io(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct mirror_io));
}

/**
 * mirror_route - decide which legs a write is sent to
 *
 * Any context; the caller holds w->range, if the write has one. Sets sent and
 * deaths; marks the range stale on a dead leg. Returns BLK_STS_OK;
 * BLK_STS_AGAIN if the write is held, and write_restart() or write_finish() is
 * called later; or why the write must not be tried.
 */
blk_status_t __must_check mirror_route(struct write *w);

/**
 * mirror_settle - what a write that has come back means
 *
 * Any context; the caller holds w->range, if the write has one; sent and status
 * are final. Marks what a leg has missed and gives legs up. After this, and
 * only after this, the write may be acknowledged: calls write_finish() with
 * what its caller is told, once, now or later.
 */
void mirror_settle(struct write *w);

/*
 * The leg to read [start, last] from: current there, alive, not in @tried (a
 * mask). Returns LEGS if there is none. Any context.
 */
enum leg_id mirror_read_leg(struct mirror *m, sector_t start, sector_t last,
			    unsigned int tried);

/* Is the leg alive, and has it all that the other one has? Under the state lock. */
bool mirror_stands_in(const struct mirror *m, enum leg_id leg);

/**
 * mirror_give_up - stop using a leg
 *
 * Under the state lock. Returns 0, or -EBUSY if the other leg couldn't stand
 * in for it everywhere; then nothing is changed. The event is raised later.
 */
int mirror_give_up(struct mirror *m, enum leg_id leg, enum leg_why why);

/* Likewise, not under the state lock: a write or a flush of the mirror's own has failed there. */
int mirror_leg_failed(struct mirror *m, enum leg_id leg);

/*
 * All of the leg is stale: nobody knows what it misses, or somebody wants it copied anew. -EBUSY:
 * the other one can't stand in for it, being dead or the target. Process context, sleeps.
 */
int __must_check mirror_mark_all(struct mirror *m, enum leg_id leg);

/**
 * mirror_mark_differs - it was found that a leg hasn't got what the other has
 *
 * The caller holds the range; process context, sleeps. From then on the resync
 * copies it, durably so. 0; -EBUSY if a leg is dead, or the other one is the
 * target; or the errno of writing the map.
 */
int __must_check mirror_mark_differs(struct mirror *m, enum leg_id leg,
				     const struct locked_range *range);

/* For standing.c: a held write is to fail. Process context, no locks. */
void mirror_fail_write(struct write *w, blk_status_t status);

/* Is map.target a target? Under the state lock. */
bool mirror_has_target(const struct mirror *m);

/* May the target get resync writes: does its superblock say what it is? Likewise. */
bool mirror_may_resync(const struct mirror *m);

/* The character for the status line. Likewise. */
char mirror_health(const struct mirror *m, enum leg_id leg);

/* For the dirty map. Process context, no locks. */
enum leg_id mirror_home(struct mirror *m);
bool mirror_may_clean(struct mirror *m);
unsigned int mirror_changes(struct mirror *m);
/* Is a leg that has died not parted from yet? And as _changes(). */
bool mirror_parts(struct mirror *m, unsigned int *changes);
/* Likewise, or is the table being suspended? All writes may wait for either. */
bool mirror_must_yield(struct mirror *m);
bool mirror_region_busy(struct mirror *m, unsigned long region);
bool mirror_region_stale(struct mirror *m, unsigned long region);
/* Is there any? As it was a moment ago. */
bool mirror_any_stale(const struct mirror *m);
/* Of BITS_PER_LONG regions, those that were stale a moment ago. Any context. */
static inline unsigned long mirror_stale_word(const struct mirror *m, unsigned long word)
{
	return READ_ONCE(m->map.stale[word]);
}

/*
 * What was acknowledged is durable on the legs that live. Stamp: and if both do, an older copy of
 * either isn't taken for it later, as each superblock knows a newer one of the other leg
 * (super_know()). Sleep. 0, or an errno and a leg has failed.
 */
int __must_check mirror_flush_legs(struct mirror *m);
int __must_check mirror_stamp_legs(struct mirror *m);

/* Messages: sleeping context, no locks. Return 0 or an errno, with a DMWARN. */
int __must_check mirror_fail(struct mirror *m, enum leg_id leg);
int __must_check mirror_recover(struct mirror *m, enum leg_id leg);
int __must_check mirror_resync_all(struct mirror *m);

/* Under the state lock, after any change to the map, the standing, leg.dead or leg.silent. */
void mirror_changed(struct mirror *m);

#endif
