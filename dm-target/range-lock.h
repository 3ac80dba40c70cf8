/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Range lock: sector ranges of which no two that overlap are held at once.
 *
 * A range is a closed interval [start, last]. All ranges, held and waiting,
 * sit in one interval tree. A new range counts the ranges already there that
 * it overlaps (all of them came earlier); it is granted when that count is
 * zero. Releasing a range takes it out of the tree and lowers the count of
 * each range that overlaps it (all of them came later: every earlier one had
 * to be gone before this one could be granted).
 *
 * An open range takes in what lies wholly within it and comes later: that is
 * done with it, and never becomes a range of its own. A range with a take
 * function is open while it waits, and from range_open() to range_close() while
 * it is held.
 *
 * Invariants:
 *  - two held ranges never overlap;
 *  - among overlapping ranges the order of grants is the order of arrival, so
 *    nobody starves, and a wide range (a resync chunk) isn't overtaken for ever;
 *  - waits only ever point from a later arrival to an earlier one, so they
 *    can't form a cycle;
 *  - what is taken in may overtake ranges that came before it and overlap it. It
 *    costs them nothing: they came after the range that takes it in, for which
 *    they wait anyway, and which is as large, and held for as long, as before.
 *    And it would have waited for that one itself.
 *
 * Nothing here allocates or sleeps. The struct locked_range belongs to the caller and
 * must stay in place from range_lock() to range_unlock().
 */
#ifndef LOCKSTEP_RANGE_LOCK_H
#define LOCKSTEP_RANGE_LOCK_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>

struct locked_range {
	sector_t start;
	sector_t last;			/* inclusive */
	/*
	 * Take in what range_lock_offer() was called with. Under the lock, so any
	 * context; @waits: the range isn't held yet. NULL: it never takes anything in.
	 */
	void (*take)(struct locked_range *range, void *what, bool waits);

	/* private to range-lock.c */
	struct rb_node rb;
	sector_t subtree_last;
	unsigned int earlier;		/* overlapping ranges that came before */
	bool open;
	struct list_head link;
	void (*granted)(struct locked_range *range);
};

struct range_lock {
	spinlock_t lock;		/* the tree, every range's earlier and open */
	struct rb_root_cached tree;
	unsigned int nr_open;
};

void range_lock_init(struct range_lock *rl);

/**
 * range_lock - ask for a range
 * @rl: the lock
 * @range: start, last and take are set by the caller
 * @granted: called once, without locks held, if the range has to wait first
 *
 * Any context. Returns true if the range is held on return; @granted is then
 * never called. Returns false if it waits: @granted is called from the
 * range_unlock() that ends the wait, maybe in interrupt context, maybe before
 * this function has returned.
 */
bool __must_check range_lock(struct range_lock *rl, struct locked_range *range,
			     void (*granted)(struct locked_range *range));

/**
 * range_unlock - give a held range back
 *
 * Any context. @range isn't touched after the return; the granted() functions
 * of ranges that waited for it are called before.
 */
void range_unlock(struct range_lock *rl, struct locked_range *range);

/**
 * range_lock_offer - have something taken in instead of locking [start, last]
 *
 * Any context. Returns true if an open range has taken it in.
 */
bool __must_check range_lock_offer(struct range_lock *rl, sector_t start, sector_t last,
				   void *what);

/* Is there an open range? Without the lock: one may be missed that has just opened. */
static inline bool range_lock_open(const struct range_lock *rl)
{
	return READ_ONCE(rl->nr_open);
}

/*
 * For the owner of a held range with a take function, which has to be closed
 * when it is unlocked. After close take() isn't called any more. Any context.
 */
void range_open(struct range_lock *rl, struct locked_range *range);
void range_close(struct range_lock *rl, struct locked_range *range);

/* Is any range that overlaps [start, last] held or waiting? Any context. */
bool range_lock_busy(struct range_lock *rl, sector_t start, sector_t last);

/* True when no range is held or waits; for assertions at quiet moments. */
bool range_lock_idle(struct range_lock *rl);

#endif
