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
}

bool range_lock(struct range_lock *rl, struct locked_range *range,
		void (*granted)(struct locked_range *range))
{
	unsigned int earlier = 0;
	struct locked_range *other;
	unsigned long flags;

	range->granted = granted;

	spin_lock_irqsave(&rl->lock, flags);
	for (other = ranges_iter_first(&rl->tree, range->start, range->last); other;
	     other = ranges_iter_next(other, range->start, range->last))
		earlier++;
	range->earlier = earlier;
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
	WARN_ON_ONCE(range->earlier);
	ranges_remove(range, &rl->tree);
	for (other = ranges_iter_first(&rl->tree, range->start, range->last); other;
	     other = ranges_iter_next(other, range->start, range->last))
		if (!--other->earlier)
			list_add_tail(&other->link, &granted);
	spin_unlock_irqrestore(&rl->lock, flags);

	/* A range may be released, and its memory go, within granted(). */
	list_for_each_entry_safe(other, next, &granted, link)
		other->granted(other);
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
