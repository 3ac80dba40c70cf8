// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slots of the NVRAM, a ring as the log is one: segment s is in slot
 * s % nslots. After its commit a slot stays readable until it is needed again:
 * the papers' DRAM copy of recent segments. Some slots ahead of the head are
 * made free in time, so that no write waits for the readers of an old one; and
 * those only copy (@copiers): who reads a disk is none of them.
 */
#include "engine.h"

static struct dcd_slot *slot_of(struct dcd_engine *e, u64 segment)
{
	u32 at;

	div_u64_rem(segment, e->nslots, &at);
	return &e->slots[at];
}

const u8 *dcd_slot_bytes(struct dcd_engine *e, u64 segment, u32 offset)
{
	struct dcd_slot *s = slot_of(e, segment);
	bool there;

	spin_lock(&e->lock);
	there = s->segment == segment && (s->state == DCD_SLOT_OPEN ||
					  s->state == DCD_SLOT_SEALED ||
					  s->state == DCD_SLOT_CLEAN);
	spin_unlock(&e->lock);
	return there ? s->base + offset : NULL;
}

const u8 *dcd_slot_whole(struct dcd_engine *e, u64 segment, u64 *first, u32 *entries)
{
	struct dcd_slot *s = slot_of(e, segment);
	bool there;

	spin_lock(&e->lock);
	there = s->segment == segment && (s->state == DCD_SLOT_SEALED ||
					  s->state == DCD_SLOT_CLEAN) &&
		e->published >= s->first_entry + s->entries;
	*first = s->first_entry;
	*entries = s->entries;
	spin_unlock(&e->lock);
	return there ? s->base : NULL;
}

struct dcd_slot *dcd_slot_free(struct dcd_engine *e, bool again)
{
	struct dcd_slot *s = slot_of(e, e->head);

	lockdep_assert_held(&e->lock);
	if (s->state != DCD_SLOT_FREE)
		return NULL;
	return (again ? dcd_ring_left(e) : dcd_ring_free(e)) ? s : NULL;
}

bool dcd_slot_coming(struct dcd_engine *e)
{
	enum dcd_slot_state state = slot_of(e, e->head)->state;

	lockdep_assert_held(&e->lock);
	return dcd_ring_free(e) && (state == DCD_SLOT_CLEAN || state == DCD_SLOT_LEAVING);
}

struct dcd_slot *dcd_slot_next_sealed(struct dcd_engine *e, bool dead)
{
	struct dcd_slot *s;

	spin_lock(&e->lock);
	s = slot_of(e, e->committed);
	if (e->log_dead != dead || s->state != DCD_SLOT_SEALED || s->segment != e->committed ||
	    e->published < s->first_entry + s->entries)
		s = NULL;
	spin_unlock(&e->lock);
	return s;
}

static unsigned int ahead(const struct dcd_engine *e)
{
	return clamp(e->nslots / 4, 2U, 16U);
}

void dcd_slots_kick(struct dcd_engine *e)
{
	unsigned int n = 0;

	spin_lock(&e->lock);
	while (n < ahead(e) && slot_of(e, e->head + n)->state == DCD_SLOT_FREE)
		n++;
	spin_unlock(&e->lock);
	if (n <= ahead(e) / 2)
		queue_work(e->quick_wq, &e->reuse_work);
}

/* The clean ones of those ahead, from the head on, go from one state to the next. */
static bool step(struct dcd_engine *e, enum dcd_slot_state from, enum dcd_slot_state to)
{
	unsigned int n;
	bool any = false;

	spin_lock(&e->lock);
	for (n = 0; n < ahead(e); n++) {
		struct dcd_slot *s = slot_of(e, e->head + n);

		if (s->state != from)
			continue;
		s->state = to;
		any = true;
	}
	spin_unlock(&e->lock);
	return any;
}

void dcd_reuse_worker(struct work_struct *work)
{
	struct dcd_engine *e = container_of(work, struct dcd_engine, reuse_work);

	if (!step(e, DCD_SLOT_CLEAN, DCD_SLOT_LEAVING))
		return;
	synchronize_srcu_expedited(&e->copiers);
	step(e, DCD_SLOT_LEAVING, DCD_SLOT_FREE);
	wake_up_all(&e->room);
}

void dcd_slot_committed(struct dcd_engine *e, struct dcd_slot *s)
{
	spin_lock(&e->lock);
	s->state = DCD_SLOT_CLEAN;
	e->committed = s->segment + 1;
	e->committed_entry = s->first_entry + s->entries - 1;
	spin_unlock(&e->lock);
	dcd_slots_kick(e);
	wake_up_all(&e->room);
}

void dcd_slots_bypassed(struct dcd_engine *e, u64 target, u64 applied)
{
	u64 n;

	lockdep_assert_held(&e->lock);
	for (n = e->committed; n < target; n++)
		slot_of(e, n)->state = DCD_SLOT_CLEAN;	/* somebody may copy from it */
	e->committed = target;
	e->committed_entry = applied;
}

void dcd_slot_recovered(struct dcd_engine *e, struct dcd_slot *s, u64 segment, bool in_log)
{
	struct dcd_slot *place = slot_of(e, segment);

	swap(*s, *place);
	place->segment = segment;
	place->state = in_log ? DCD_SLOT_CLEAN : DCD_SLOT_SEALED;
}
