/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Activity: the regions that are dirty because they are or were lately written,
 * and their entries in the activity log (lockstep-format.h).
 *
 * The table has as many slots as the log has entries, and slot n is entry n, always.
 * No more than `limit` of them are used: so a crash of the primary leaves no more
 * regions than that to resync, wherever the writes go. Besides there is what the
 * dirty map's bits say, of a leg that was away (dirty-map.h).
 *
 * A slot's life:
 *   EMPTY    the log's entry names no region
 *   NEW      it is given to a region; its page hasn't been written yet
 *   ACTIVE   the log names the region, which may be written
 *   LEAVING  nobody writes the region any more; it waits for the legs' caches to be flushed
 *   CLEAN    the legs agree in the region; the log still names it. It is ACTIVE again
 *            without a write to the log, or is given to another region: so clearing
 *            many costs no write, either
 * After a failed write of its page a NEW slot is EMPTY again for the table, and for the log
 * it is one of the two: a region too many at worst.
 *
 * Pure: no I/O, no locks, no sleeping but in create and destroy. The dirty map's mutex
 * guards all of it; the counts may be read without it.
 */
#ifndef LOCKSTEP_ACTIVITY_H
#define LOCKSTEP_ACTIVITY_H

#include <linux/types.h>

#include "super.h"

/* So many slots there are at least, whatever the limit. */
#define ACTIVITY_LEAST		16u

enum slot_state {
	SLOT_EMPTY,
	SLOT_NEW,
	SLOT_ACTIVE,
	SLOT_LEAVING,
	SLOT_CLEAN,
	SLOT_STATES,
};

struct activity_slot {
	struct hlist_node link;		/* unless it is EMPTY */
	u32 region;
	enum slot_state state;
};

struct activity {
	struct activity_slot *slots;	/* LOCKSTEP_ENTRIES; NULL: there is no log */
	struct hlist_head *heads;
	unsigned int limit;
	unsigned int nr[SLOT_STATES];
	unsigned int free[LOCKSTEP_ACTIVITY_PAGES];	/* below the limit, EMPTY or CLEAN */
	unsigned int at[LOCKSTEP_ACTIVITY_PAGES];	/* where the search for one goes on */
	unsigned int page;		/* which gets the next ones */
	unsigned int hand;		/* where the search for idle ones goes on */
	unsigned int changed;		/* pages that are to be written, a bit for each */
	/* Slots that have become NEW since the last activity_written(). */
	u16 *fresh;
	unsigned int nr_fresh;
};

/* 0 or -ENOMEM; then destroy has to be called, too. */
int __must_check activity_create(struct activity *a, unsigned int limit);
void activity_destroy(struct activity *a);

/* Slots of at least @least for @sectors that may be dirty, in regions of 1 << @shift. */
unsigned int activity_slots(u64 sectors, unsigned int shift, unsigned int least);

/* Slots beyond a lower limit stay as they are until they are EMPTY. */
void activity_set_limit(struct activity *a, unsigned int limit);

/* How many NEW ones there can be. */
unsigned int activity_free(const struct activity *a);

/*
 * Does naming the region take one of these? It does also if its slot is CLEAN: that one is free
 * until it is ACTIVE again.
 */
bool activity_needs_room(const struct activity *a, u32 region);

/* How many the log names, or may name. Any context. */
static inline unsigned int activity_named(const struct activity *a)
{
	return LOCKSTEP_ENTRIES - READ_ONCE(a->nr[SLOT_EMPTY]);
}

struct activity_slot *activity_find(const struct activity *a, u32 region);

/* A NEW one; there is a free one, and none of the region. Its page is changed. */
void activity_add(struct activity *a, u32 region);

/* From NEW to another state: by activity_written() only. To EMPTY: its page is changed. */
void activity_set(struct activity *a, struct activity_slot *slot, enum slot_state state);

/* The changed pages have been written, or that has failed: what is NEW is ACTIVE, or EMPTY. */
void activity_written(struct activity *a, bool good);

/*
 * The next slot in the order in which they are looked at for idle regions, round and
 * round over all that there are.
 */
struct activity_slot *activity_next(struct activity *a);

static inline bool activity_beyond(const struct activity *a, const struct activity_slot *slot)
{
	return slot - a->slots >= a->limit;
}

/* A page of the log, sealed. @index: of its first sector in the map. */
void activity_put_page(const struct activity *a, unsigned int page, u32 index, u64 epoch,
		       struct lockstep_map_sector *to);

#endif
