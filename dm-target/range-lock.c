// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bug.h>
#include <linux/interval_tree_generic.h>

#include "range-lock.h"

#define RANGE_START(range)	((range)->start)
#define RANGE_LAST(range)	((range)->last)

INTERVAL_TREE_DEFINE(struct locked_range, rb, sector_t, subtree_last,
		     RANGE_START, RANGE_LAST, static __maybe_unused, ranges)

void range_lock_init(struct range_lock *rl)
{
	spin_lock_init(&rl->lock);
	rl->tree = RB_ROOT_CACHED;
	rl->nr_open = 0;
}

/* Under the lock. */
static void set_open(struct range_lock *rl, struct locked_range *range, bool open)
{
	if (range->open == open)
		return;
	range->open = open;
	WRITE_ONCE(rl->nr_open, open ? rl->nr_open + 1 : rl->nr_open - 1);
}

bool range_lock(struct range_lock *rl, struct locked_range *range,
		void (*granted)(struct locked_range *range))
{
	unsigned int earlier = 0;
	struct locked_range *other;
	unsigned long flags;

	range->granted = granted;
	range->open = false;

	spin_lock_irqsave(&rl->lock, flags);
	for (other = ranges_iter_first(&rl->tree, range->start, range->last); other;
	     other = ranges_iter_next(other, range->start, range->last))
		earlier++;
	range->earlier = earlier;
	if (earlier && range->take)
		set_open(rl, range, true);
	ranges_insert(range, &rl->tree);
	spin_unlock_irqrestore(&rl->lock, flags);

	/* Not range->earlier: once the lock is dropped, granted() may have run. */
	return !earlier;
}

void range_unlock(struct range_lock *rl, struct locked_range *range)
{
	struct locked_range *other, *next;
	unsigned long flags;
	LIST_HEAD(granted);

	spin_lock_irqsave(&rl->lock, flags);
	WARN_ON_ONCE(range->earlier || range->open);
	ranges_remove(range, &rl->tree);
	for (other = ranges_iter_first(&rl->tree, range->start, range->last); other;
	     other = ranges_iter_next(other, range->start, range->last))
		if (!--other->earlier) {
			set_open(rl, other, false);
			list_add_tail(&other->link, &granted);
		}
	spin_unlock_irqrestore(&rl->lock, flags);

	/* A range may be released, and its memory go, within granted(). */
	list_for_each_entry_safe(other, next, &granted, link)
		other->granted(other);
}

bool range_lock_offer(struct range_lock *rl, sector_t start, sector_t last, void *what)
{
	struct locked_range *range;
	unsigned long flags;

	spin_lock_irqsave(&rl->lock, flags);
	for (range = ranges_iter_first(&rl->tree, start, last); range;
	     range = ranges_iter_next(range, start, last))
		if (range->open && range->start <= start && last <= range->last) {
			range->take(range, what, range->earlier);
			break;
		}
	spin_unlock_irqrestore(&rl->lock, flags);
	return range;
}

void range_open(struct range_lock *rl, struct locked_range *range)
{
	unsigned long flags;

	spin_lock_irqsave(&rl->lock, flags);
	set_open(rl, range, true);
	spin_unlock_irqrestore(&rl->lock, flags);
}

void range_close(struct range_lock *rl, struct locked_range *range)
{
	unsigned long flags;

	/* It is held: only its owner opens and closes it now. */
	if (!range->open)
		return;
	spin_lock_irqsave(&rl->lock, flags);
	set_open(rl, range, false);
	spin_unlock_irqrestore(&rl->lock, flags);
}

bool range_lock_busy(struct range_lock *rl, sector_t start, sector_t last)
{
	unsigned long flags;
	bool busy;

	spin_lock_irqsave(&rl->lock, flags);
	busy = ranges_iter_first(&rl->tree, start, last);
	spin_unlock_irqrestore(&rl->lock, flags);
	return busy;
}

bool range_lock_idle(struct range_lock *rl)
{
	unsigned long flags;
	bool idle;

	spin_lock_irqsave(&rl->lock, flags);
	idle = RB_EMPTY_ROOT(&rl->tree.rb_root);
	spin_unlock_irqrestore(&rl->lock, flags);
	return idle;
}
