/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Dirty map: the regions in which the legs may differ, kept on stable storage.
 *
 * A bit says that a write to the region is or was in flight, or that one leg
 * misses writes there. It is durable on the home leg (the one that is to be
 * believed: the local one, unless that is dead or the target of a resync)
 * before a write is sent to any leg. So after a crash of the primary, and after
 * going on with one leg, exactly these regions have to be copied.
 *
 * The map is written in pages of 4 KiB (lockstep-format.h); all writes that
 * wait while a page is on its way share the next one. Bits are cleared lazily:
 * a region is written out as clean when no write has come for one to two
 * DIRTY_TICKs, none is in flight, it isn't stale, both legs are there, and
 * what the legs hold of it in volatile caches has been flushed.
 *
 * Without metadata (core mode) the map works the same, less the writing.
 *
 * Invariants:
 *  - a bit that is set in bits[] is set on the home leg's stable storage;
 *  - every region that is stale (region-map.h) and every region of a write that
 *    was sent and hasn't been acknowledged has its bit set;
 *  - only the map's worker changes bits[], or whoever has stopped it.
 *
 * Locking: bits[] and touched[] are read and marked without a lock. A writer
 * puts its range into the range lock first and looks at the bit afterwards; the
 * worker clears the bit first and looks for ranges afterwards; the range lock's
 * own lock orders the two. `lock` guards the list of waiters and the flags.
 */
#ifndef LOCKSTEP_DIRTY_MAP_H
#define LOCKSTEP_DIRTY_MAP_H

#include <linux/blk_types.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "leg.h"

struct mirror;

#define DIRTY_TICK	(30 * HZ)

struct dirty_wait {
	struct list_head link;
	unsigned long first, last;	/* regions */
	/* Process context, no locks. BLK_STS_OK: the bits are durable. */
	void (*done)(struct dirty_wait *wait, blk_status_t status);
};

struct dirty_map {
	struct mirror *m;
	unsigned long nr;		/* regions */
	unsigned int shift;
	unsigned long *bits;
	unsigned long *touched;		/* marked since the last tick */
	unsigned long *disk;		/* worker: what the home leg has; covers bits[] */
	unsigned long *next;		/* worker: what it is to have */
	void *page;			/* worker: what is being written */

	struct mutex change;		/* dirty_map_hold() */
	bool parked;			/* the device is suspended; under change */
	spinlock_t lock;		/* what follows */
	struct list_head waiting;
	bool stopped;			/* the home leg is being changed, or I/O is */
	bool tick;
	struct work_struct work;
	struct delayed_work ticker;
	struct workqueue_struct *wq;
};

/* May sleep. @nr regions of 1 << @shift sectors. All clear, stopped. 0 or -ENOMEM. */
int __must_check dirty_map_create(struct dirty_map *dm, struct mirror *m, unsigned long nr,
				  unsigned int shift);
void dirty_map_destroy(struct dirty_map *dm);

/**
 * dirty_map_mark - make [start, last] durably dirty before it is written
 *
 * Any context; the caller holds the range in the range lock. Returns true if it
 * is so already. Else @wait->done is called later, exactly once: after the page
 * was written, or with an error when no leg could take it.
 */
bool __must_check dirty_map_mark(struct dirty_map *dm, struct dirty_wait *wait,
				 sector_t start, sector_t last);

/*
 * Read a leg's map, as of its superblock, and set its bits here too. Stopped.
 * Sleeps. 0 or an errno of the read; a sector that is damaged counts as set.
 */
int __must_check dirty_map_load(struct dirty_map *dm, enum leg_id leg);

/*
 * What a leg's map says, into @bits. The map needn't be stopped: the leg may take
 * its time. 0, -ENOMEM, or an errno of the read.
 */
int __must_check dirty_map_read(struct dirty_map *dm, enum leg_id leg, unsigned long *bits);

/*
 * Set more bits, durably on the home leg; NULL: all. Held. Sleeps. 0, or an errno and
 * then nothing has changed; -EBUSY if it is parked.
 */
int __must_check dirty_map_widen(struct dirty_map *dm, const unsigned long *bits);

/* Set every bit from @first on; dirty_map_write() makes it durable. Before the first resume. */
void dirty_map_fill(struct dirty_map *dm, unsigned long first);

/*
 * Write every page that has a set bit to @leg under that leg's map epoch. Stopped.
 * Sleeps. 0 or an errno.
 */
int __must_check dirty_map_write(struct dirty_map *dm, enum leg_id leg);

/*
 * Write all of the leg's map, also what is beyond the mirror's length, where its
 * superblock in core says; @empty: without any bit. If it isn't, held. Sleeps.
 */
int __must_check dirty_map_write_whole(struct dirty_map *dm, enum leg_id leg, bool empty);

/*
 * Nothing is in flight: flush the legs, clear all but what is stale, write that
 * to the home leg. Stopped. Sleeps. 0 or an errno; then bits are set too many.
 */
int __must_check dirty_map_clean(struct dirty_map *dm);

/* Waiters go on waiting until dirty_map_run(); the worker is idle on return. Sleeps. */
void dirty_map_stop(struct dirty_map *dm);
void dirty_map_run(struct dirty_map *dm);

/*
 * Stop and run again, for who changes the map or its home while the mirror runs:
 * one at a time. Sleep.
 */
void dirty_map_hold(struct dirty_map *dm);
void dirty_map_release(struct dirty_map *dm);
/* Instead of release, at the end: only dirty_map_run() makes it run again. */
void dirty_map_park(struct dirty_map *dm);

/* Held: whoever waits gets this error. */
void dirty_map_fail(struct dirty_map *dm, blk_status_t status);

/* Bits set. Any context; exact when the worker is idle. */
unsigned long dirty_map_weight(const struct dirty_map *dm);

#endif
