/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Dirty map: the regions in which the legs may differ, kept on stable storage.
 *
 * A dirty region is one to which a write is or was in flight, or in which one leg
 * misses writes. It is durably so on the home leg (the one that is to be
 * believed: the local one, unless that is dead or the target of a resync)
 * before a write is sent to any leg. So after a crash of the primary, and after
 * going on with one leg, exactly these regions have to be copied.
 *
 * There are two places for it. While both legs are there, a region is named by
 * the activity log (activity.h), which has room for so many and no more: if it
 * is full, those that nobody has written for the longest time make room. That is what a
 * crash costs at most, whatever the application writes (dirty_limit). While one leg is
 * away, the region's bit in the map is set: that has no bound, and needs none, as
 * these regions must be copied anyway. Both are written in pages of 4 KiB; all
 * writes that wait while a page is on its way share the next ones.
 *
 * A region is clean again when no write to it is in flight, it isn't stale, both legs
 * are there, and what the legs hold of it in volatile caches has been
 * flushed. That is found out by the cleaner, beside the marking:
 *  - at each DIRTY_TICK, of what hasn't been written since the one before; then
 *    it is written out, too, so that a mirror at rest is clean;
 *  - when less than a quarter of the log is free, or less than who waits for room needs, of what
 *    has been written longest ago: until half of the log is free, or as much as he needs. The log
 *    still names it until the room is used.
 *
 * With the flush both superblocks are updated, so that an older copy of a leg, which lacks what
 * no map names any more, is told from the leg (lockstep-format.h); for room in the log no more than
 * once in DIRTY_STAMP, and not while a leg's metadata are moved: a copy from between that and the
 * next tick may be taken for it.
 *
 * No step of a mark looks at more than the pages that it is about.
 *
 * Without metadata (core mode) regions are bits, and nothing is written.
 *
 * Invariants:
 *  - a region whose bit is set in bits[] is named by the activity log, or its bit is
 *    set in the map, on the home leg's stable storage;
 *  - every region that is stale (region-map.h) and every region of a write that
 *    was sent and hasn't been acknowledged has its bit set there;
 *  - mapped[] has no bit that the home leg's map hasn't;
 *  - no more than the limit's regions are named by the log, unless it was lowered just now.
 * One exception keeps writes from waiting for each other for ever: one that has waited
 * for room in the log for DIRTY_PATIENCE gets its bits in the map.
 *
 * Locking: bits[] and touched[] are read and marked without a lock. A writer
 * puts its range into the range lock first and looks at the bit afterwards; the
 * cleaner clears the bit first and looks for ranges afterwards; the range lock's
 * own lock orders the two. `table` (a mutex, held while a page is on its way, but not while
 * legs are flushed) guards the log and mapped[]; in core mode, whose marks
 * don't sleep, `lock` guards mapped[]. `lock` guards the list of waiters and the flags.
 */
#ifndef LOCKSTEP_DIRTY_MAP_H
#define LOCKSTEP_DIRTY_MAP_H

#include <linux/blk_types.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "activity.h"
#include "leg.h"

struct mirror;

#define DIRTY_TICK	(30 * HZ)
#define DIRTY_PATIENCE	HZ
#define DIRTY_STAMP	(10 * HZ)

/* MiB that a crash leaves to resync at most; the bounds of what may be set. */
#define DIRTY_LIMIT_DEFAULT	4096u
#define DIRTY_LIMIT_LEAST	1u
#define DIRTY_LIMIT_MOST	(1024u * 1024 * 1024)

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
	unsigned long *touched;		/* marked since the cleaner looked */

	struct mutex table;		/* what follows */
	struct activity activity;
	unsigned long *mapped;		/* what the home leg's map has */
	unsigned long *used;		/* its pages that have, or had lately, any bit */
	unsigned long *changed;		/* its pages that are to be written */
	void *pages;			/* what is being written */
	unsigned long *had, *stale;	/* while some pages are changed */
	unsigned int wanted;		/* room in the log, by the first who waits for some */

	struct mutex change;		/* dirty_map_hold(), _pin() */
	bool pinned;			/* it is held, perhaps with a leg's superblock */
	atomic_t waits;			/* for change: so many */
	unsigned long stamped;		/* superblocks, by the cleaner (jiffies); 0: never */
	bool parked;			/* the device is suspended; under change */
	spinlock_t lock;		/* what follows */
	struct list_head waiting;
	bool stopped;			/* the home leg is being changed, or I/O is */
	bool tick;
	bool starved;			/* there is no room in the log for the first of them... */
	unsigned long since;		/* ...since then (jiffies) */
	struct work_struct work;
	struct delayed_work cleaner;
	struct delayed_work ticker;
	struct workqueue_struct *wq;
};

/* Is any region dirty that isn't stale? Nobody marks or cleans it. Sleeps. */
bool dirty_map_unclean(const struct dirty_map *dm);

/* May sleep. @nr regions of 1 << @shift sectors. All clear, stopped. 0 or -ENOMEM. */
int __must_check dirty_map_create(struct dirty_map *dm, struct mirror *m, unsigned long nr,
				  unsigned int shift, unsigned int limit_mib);
void dirty_map_destroy(struct dirty_map *dm);

/* Another limit. What the log names beyond a lower one goes within two DIRTY_TICKs. Sleeps. */
void dirty_map_set_limit(struct dirty_map *dm, unsigned int mib);

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
 * Read a leg's map and log, as of its superblock, and set its bits here too. Stopped.
 * Sleeps. 0 or an errno of the read; a sector that is damaged counts as set.
 */
int __must_check dirty_map_load(struct dirty_map *dm, enum leg_id leg);

/*
 * What a leg's map and log say, into @bits. The map needn't be stopped: the leg may take
 * its time. 0, -ENOMEM, or an errno of the read.
 */
int __must_check dirty_map_read(struct dirty_map *dm, enum leg_id leg, unsigned long *bits);

/*
 * Set more bits, durably in the home leg's map; NULL: all. Held. Sleeps. 0, or an errno and
 * then some may have been set; -EBUSY if it is parked.
 */
int __must_check dirty_map_widen(struct dirty_map *dm, const unsigned long *bits);

/* Instead of loading it: what @from has is dirty here. Its table is suspended, and as long. */
void dirty_map_inherit(struct dirty_map *dm, const struct dirty_map *from);

/* Set the bits of all that is stale: core mode has no map to load. Before the first resume. */
void dirty_map_add_stale(struct dirty_map *dm);

/* Set every bit from @first on; dirty_map_write() makes it durable. Before the first resume. */
void dirty_map_fill(struct dirty_map *dm, unsigned long first);

/*
 * Write every page that has a set bit, and the log, to @leg under that leg's map epoch.
 * Stopped. Sleeps. 0 or an errno.
 */
int __must_check dirty_map_write(struct dirty_map *dm, enum leg_id leg);

/*
 * Write all of the leg's map, also what is beyond the mirror's length, where its superblock in
 * core says; @empty: without any bit. Pinned if it is, else held. Sleeps. -EAGAIN: the map is
 * wanted (dirty_map_is_wanted()).
 */
int __must_check dirty_map_write_whole(struct dirty_map *dm, enum leg_id leg, bool empty);

/*
 * Nothing is in flight: flush the legs, clear all but what is stale, write that
 * to the home leg. Stopped. Sleeps. 0 or an errno; then the leg may have bits too many, and
 * what it hasn't for certain isn't dirty here. -EAGAIN: a leg has died meanwhile, or isn't parted
 * from yet, and nothing is cleaned.
 */
int __must_check dirty_map_clean(struct dirty_map *dm);

/*
 * All that is dirty becomes stale on @leg: it may have forgotten what it said it had.
 * In pieces: @leg mustn't be taken for what it is before this is done. LEGS: for each piece
 * the leg that misses anything then (lesser_leg()). Sleeps.
 */
void dirty_map_to_stale(struct dirty_map *dm, enum leg_id leg);

/*
 * Waiters go on waiting until dirty_map_run(); the workers are idle on return. Sleeps. For who
 * starts a mirror or ends one; anybody else holds it.
 */
void dirty_map_stop(struct dirty_map *dm);
void dirty_map_run(struct dirty_map *dm);

/*
 * Stop and run again, for who changes the map or its home while the mirror runs:
 * one at a time. _pin(): the home stays what it is until the release, and marks go on. Sleep.
 */
void dirty_map_hold(struct dirty_map *dm);
void dirty_map_pin(struct dirty_map *dm);
void dirty_map_release(struct dirty_map *dm);
/*
 * For who has pinned or held it: does somebody wait for the release? Or is there a parting, or a
 * suspend, which all writes may wait for? Process context.
 */
bool dirty_map_is_wanted(struct dirty_map *dm);
/*
 * Instead of release, at the end: only unpark makes it run again, when nobody else holds it. So it
 * waits for a parting that is under way. Sleep.
 */
void dirty_map_park(struct dirty_map *dm);
void dirty_map_unpark(struct dirty_map *dm);

/* Held: whoever waits gets this error. */
void dirty_map_fail(struct dirty_map *dm, blk_status_t status);

/* Is no bit set? Stopped. */
bool dirty_map_empty(const struct dirty_map *dm);

/* For status: regions that the home leg says are dirty, of all and of the log alone. */
struct dirty_told {
	unsigned long dirty;
	unsigned int named;
	unsigned int limit;		/* of the log: 0: there is none */
	bool starved;			/* a write waits for room in the log */
};

/* Process context. Exact when the workers are idle. */
void dirty_map_tell(const struct dirty_map *dm, struct dirty_told *told);

#endif
