// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bug.h>
#include <linux/errno.h>
#include <linux/hash.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "activity.h"

#define HEADS_SHIFT	11

static struct hlist_head *head_of(const struct activity *a, u32 region)
{
	return &a->heads[hash_32(region, HEADS_SHIFT)];
}

static unsigned int page_of(const struct activity *a, const struct activity_slot *slot)
{
	return (slot - a->slots) / LOCKSTEP_PAGE_ENTRIES;
}

static bool is_free(enum slot_state state)
{
	return state == SLOT_EMPTY || state == SLOT_CLEAN;
}

static void change(struct activity *a, struct activity_slot *slot, enum slot_state state)
{
	if (!activity_beyond(a, slot))
		a->free[page_of(a, slot)] += is_free(state) - is_free(slot->state);
	WRITE_ONCE(a->nr[slot->state], a->nr[slot->state] - 1);
	WRITE_ONCE(a->nr[state], a->nr[state] + 1);
	slot->state = state;
}

unsigned int activity_free(const struct activity *a)
{
	unsigned int page, nr = 0;

	for (page = 0; page < LOCKSTEP_ACTIVITY_PAGES; page++)
		nr += a->free[page];
	return nr;
}

struct activity_slot *activity_find(const struct activity *a, u32 region)
{
	struct activity_slot *slot;

	if (!a->slots)
		return NULL;
	hlist_for_each_entry(slot, head_of(a, region), link)
		if (slot->region == region)
			return slot;
	return NULL;
}

bool activity_needs_room(const struct activity *a, u32 region)
{
	const struct activity_slot *slot = activity_find(a, region);

	return !slot || is_free(slot->state);
}

void activity_set(struct activity *a, struct activity_slot *slot, enum slot_state state)
{
	if (state == SLOT_EMPTY && slot->state != SLOT_EMPTY) {
		hlist_del_init(&slot->link);
		a->changed |= BIT(page_of(a, slot));
	}
	change(a, slot, state);
}

/* The page with the most free ones: so that many marks are one write. */
static unsigned int roomy_page(const struct activity *a)
{
	unsigned int page, best = 0;

	for (page = 1; page < LOCKSTEP_ACTIVITY_PAGES; page++)
		if (a->free[page] > a->free[best])
			best = page;
	return best;
}

void activity_add(struct activity *a, u32 region)
{
	struct activity_slot *slot;
	unsigned int i;

	if (!a->free[a->page])
		a->page = roomy_page(a);
	if (WARN_ON_ONCE(!a->free[a->page]))
		return;
	/* Below the limit, and in turn: what was CLEAN the longest time goes first. */
	do {
		i = a->at[a->page];
		a->at[a->page] = (i + 1) % LOCKSTEP_PAGE_ENTRIES;
		slot = &a->slots[a->page * LOCKSTEP_PAGE_ENTRIES + i];
	} while (activity_beyond(a, slot) || !is_free(slot->state));

	if (slot->state == SLOT_CLEAN)
		hlist_del(&slot->link);
	slot->region = region;
	hlist_add_head(&slot->link, head_of(a, region));
	change(a, slot, SLOT_NEW);
	a->changed |= BIT(a->page);
	a->fresh[a->nr_fresh++] = slot - a->slots;
}

void activity_written(struct activity *a, bool good)
{
	while (a->nr_fresh) {
		struct activity_slot *slot = &a->slots[a->fresh[--a->nr_fresh]];

		if (good) {
			change(a, slot, SLOT_ACTIVE);
		} else {
			hlist_del_init(&slot->link);
			change(a, slot, SLOT_EMPTY);
		}
	}
	/* The next write of a page that failed writes all of it anyway. */
	a->changed = 0;
	a->page = roomy_page(a);
}

struct activity_slot *activity_next(struct activity *a)
{
	struct activity_slot *slot = &a->slots[a->hand];

	a->hand = (a->hand + 1) % LOCKSTEP_ENTRIES;
	return slot;
}

void activity_put_page(const struct activity *a, unsigned int page, u32 index, u64 epoch,
		       struct lockstep_map_sector *to)
{
	const struct activity_slot *slot = &a->slots[page * LOCKSTEP_PAGE_ENTRIES];
	unsigned int i, e;

	for (i = 0; i < LOCKSTEP_MAP_PAGE; i++, to++) {
		map_sector_init(to, index + i, epoch);
		for (e = 0; e < LOCKSTEP_SECTOR_ENTRIES; e++, slot++)
			if (slot->state != SLOT_EMPTY)
				to->entries[e] = cpu_to_le32(slot->region + 1);
		map_sector_seal(to);
	}
}

unsigned int activity_slots(u64 sectors, unsigned int shift, unsigned int least)
{
	return clamp_t(u64, sectors >> shift, max(least, ACTIVITY_LEAST), LOCKSTEP_ENTRIES);
}

void activity_set_limit(struct activity *a, unsigned int limit)
{
	unsigned int i;

	a->limit = limit;
	memset(a->free, 0, sizeof(a->free));
	for (i = 0; i < limit; i++)
		a->free[i / LOCKSTEP_PAGE_ENTRIES] += is_free(a->slots[i].state);
}

int activity_create(struct activity *a, unsigned int limit)
{
	a->slots = kvcalloc(LOCKSTEP_ENTRIES, sizeof(*a->slots), GFP_KERNEL);
	a->heads = kvcalloc(1 << HEADS_SHIFT, sizeof(*a->heads), GFP_KERNEL);
	a->fresh = kvcalloc(LOCKSTEP_ENTRIES, sizeof(*a->fresh), GFP_KERNEL);
	if (!a->slots || !a->heads || !a->fresh)
		return -ENOMEM;
	a->nr[SLOT_EMPTY] = LOCKSTEP_ENTRIES;
	activity_set_limit(a, limit);
	return 0;
}

void activity_destroy(struct activity *a)
{
	kvfree(a->slots);
	kvfree(a->heads);
	kvfree(a->fresh);
}
