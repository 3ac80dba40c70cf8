// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slots of the NVRAM. A segment is in whichever is idle for longest when it is opened; @where
 * knows which one. After its commit a slot stays readable until it is needed again: the papers'
 * DRAM copy of recent segments. Some of the idle ones are made free in time, so that no write
 * waits for the readers of an old one; and those only copy (@copiers): who reads a disk is none
 * of them.
 *
 * A slot that is bad (bad-slots.c) leaves for good as soon as nothing that counts is in it, and
 * the others go on without it. An NVRAM that keeps its content keeps its last idle slot for what
 * is logged again: with all slots full of writes, and the log dead, nothing could say in NVRAM what
 * is found lost, so no slot would ever be free again.
 *
 * One whose segment can't be read back from the log (proof.h) is pinned: it isn't idle before
 * the tail is above that segment.
 *
 * Which slot has which segment is in memory only. Recovery doesn't ask where a slot lies, but for
 * the numbers of the entries that are in it.
 */
#include <linux/delay.h>
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(uint, copy_us, "readers stop for so many microseconds before they copy from a slot");

/* But for those that are pinned, segments that are in slots are the newest ones. */
static struct dcd_slot **where(struct dcd_engine *e, u64 segment)
{
	u32 at;

	div_u64_rem(segment, e->slots_there, &at);
	return &e->where[at];
}

/* NULL: it is in none any more. Needs @lock. */
static struct dcd_slot *slot_of(struct dcd_engine *e, u64 segment)
{
	struct dcd_slot *s = *where(e, segment);

	if (s && s->segment == segment)
		return s;
	list_for_each_entry(s, &e->pinned, idle)
		if (s->segment == segment)
			return s;
	return NULL;
}

static struct dcd_slot *first_idle(struct dcd_engine *e)
{
	return list_first_entry_or_null(&e->idle, struct dcd_slot, idle);
}

/* For what is logged again. Needs @lock. */
static bool last_is_kept(const struct dcd_engine *e)
{
	return e->keeps && e->nslots > DCD_SLOTS_LEAST && e->nidle == 1;
}

/* Nothing that counts is in @s any more. Needs @lock. */
static void goes_idle(struct dcd_engine *e, struct dcd_slot *s, enum dcd_slot_state state)
{
	s->state = state;
	if (state == DCD_SLOT_FREE)
		s->segment = U64_MAX;
	if (s->bad) {
		dcd_slot_retire(e, s);
		return;
	}
	if (state == DCD_SLOT_FREE)	/* as the first ones are */
		list_add(&s->idle, &e->idle);
	else
		list_add_tail(&s->idle, &e->idle);
	e->nidle++;
}

static const u8 *slot_bytes(struct dcd_engine *e, u64 segment, u32 offset)
{
	struct dcd_slot *s;
	u8 *base = NULL;

	spin_lock(&e->lock);
	s = slot_of(e, segment);
	if (s && (s->state == DCD_SLOT_OPEN || s->state == DCD_SLOT_SEALED ||
		  s->state == DCD_SLOT_CLEAN))
		base = s->base;
	spin_unlock(&e->lock);
	return base ? base + offset : NULL;
}

const u8 *dcd_place_in_slot(struct dcd_engine *e, const struct dcd_place *p)
{
	u32 offset;
	u64 segment = div_u64_rem(p->at, e->segment_bytes >> SECTOR_SHIFT, &offset);
	const u8 *mem = slot_bytes(e, segment, offset << SECTOR_SHIFT);

	if (mem && test_knob(copy_us))
		fsleep(test_knob(copy_us));
	return mem;
}

bool dcd_slot_read(struct dcd_engine *e, const u8 *mem, void *buf, size_t bytes)
{
	unsigned int n = dcd_nvram_read(e->nv, mem, buf, bytes, NULL);

	if (n)
		dcd_slot_unreadable(e, mem, n);
	return !n;
}

u64 dcd_place_copy(struct dcd_engine *e, const struct dcd_place *p, void *buf)
{
	int id = srcu_read_lock(&e->copiers);
	const u8 *mem = dcd_place_in_slot(e, p);

	if (mem && !dcd_slot_read(e, mem, buf, (size_t)dcd_place_sectors(p) << SECTOR_SHIFT))
		mem = NULL;
	srcu_read_unlock(&e->copiers, id);
	if (!mem)
		return dcd_place_in_log(e, p);
	dcd_count(e, DCD_N_MEMORY_READS, 1);
	return 0;
}

bool dcd_slot_copy(struct dcd_engine *e, const struct dcd_slot *s, void *buf)
{
	const u8 *payloads = s->base + dcd_payload_start(e);
	unsigned int n = 0;

	if (s->used > dcd_payload_start(e))
		n = dcd_nvram_read(e->nv, payloads, buf + dcd_payload_start(e),
				   s->used - dcd_payload_start(e), NULL);
	memcpy(buf + DCD_BLOCK, s->table, e->table_bytes);
	if (n)
		dcd_slot_unreadable(e, payloads, n);
	return !n;
}

int dcd_slot_whole(struct dcd_engine *e, u64 segment, void *buf, u64 *first)
{
	int id = srcu_read_lock(&e->copiers);
	struct dcd_slot s = { .state = DCD_SLOT_FREE }, *found;
	bool there;

	spin_lock(&e->lock);
	found = slot_of(e, segment);
	if (found)
		s = *found;
	there = (s.state == DCD_SLOT_SEALED || s.state == DCD_SLOT_CLEAN) &&
		e->published >= s.first_entry + s.entries;
	spin_unlock(&e->lock);
	*first = s.first_entry;
	if (there)
		dcd_slot_copy(e, &s, buf);
	srcu_read_unlock(&e->copiers, id);
	return there ? s.entries : -ENOENT;
}

bool dcd_slots_used_up(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return !e->nidle || dcd_slots_drain(e);
}

struct dcd_slot *dcd_slot_free(struct dcd_engine *e, bool again)
{
	struct dcd_slot *s = first_idle(e);

	lockdep_assert_held(&e->lock);
	if (dcd_slots_used_up(e) || s->state != DCD_SLOT_FREE || (!again && last_is_kept(e)))
		return NULL;
	return (again ? dcd_ring_left(e) : dcd_ring_free(e)) ? s : NULL;
}

void dcd_slot_opened(struct dcd_engine *e, struct dcd_slot *s)
{
	lockdep_assert_held(&e->lock);
	list_del(&s->idle);
	e->nidle--;
	s->state = DCD_SLOT_OPEN;
	s->segment = e->head++;
	*where(e, s->segment) = s;
}

bool dcd_slot_coming(struct dcd_engine *e)
{
	struct dcd_slot *s = first_idle(e);

	lockdep_assert_held(&e->lock);
	return s && s->state != DCD_SLOT_FREE && !last_is_kept(e) && dcd_ring_free(e);
}

struct dcd_slot *dcd_slot_next_sealed(struct dcd_engine *e, bool dead)
{
	struct dcd_slot *s;

	spin_lock(&e->lock);
	s = slot_of(e, e->committed);
	if (s && (e->log_dead != dead || s->state != DCD_SLOT_SEALED ||
		  e->published < s->first_entry + s->entries))
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
	const struct dcd_slot *s;
	unsigned int n = 0, most;

	spin_lock(&e->lock);
	most = ahead(e);
	list_for_each_entry(s, &e->idle, idle) {
		if (n == most || s->state != DCD_SLOT_FREE)
			break;
		n++;
	}
	spin_unlock(&e->lock);
	if (n <= most / 2)
		queue_work(e->quick_wq, &e->reuse_work);
}

/* Of the first @most idle ones those that are in one state go to the next. */
static bool step(struct dcd_engine *e, unsigned int most, enum dcd_slot_state from,
		 enum dcd_slot_state to)
{
	struct dcd_slot *s;
	bool any = false;

	spin_lock(&e->lock);
	list_for_each_entry(s, &e->idle, idle) {
		if (!most--)
			break;
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

	if (!step(e, ahead(e), DCD_SLOT_CLEAN, DCD_SLOT_LEAVING))
		return;
	synchronize_srcu_expedited(&e->copiers);
	step(e, UINT_MAX, DCD_SLOT_LEAVING, DCD_SLOT_FREE);
	wake_up_all(&e->room);
}

bool dcd_slots_may_pin(struct dcd_engine *e, bool most)
{
	bool may;

	spin_lock(&e->lock);
	may = (most || e->npinned < max(e->nslots / 2, 1U)) &&
	      e->nslots > e->npinned + e->nbad + DCD_SLOTS_LEAST + 1;
	spin_unlock(&e->lock);
	return may;
}

/* Needs @lock. */
static void pin(struct dcd_engine *e, struct dcd_slot *s)
{
	s->state = DCD_SLOT_CLEAN;
	s->pinned = true;
	list_add_tail(&s->idle, &e->pinned);
	e->npinned++;
	dcd_count(e, DCD_N_SLOTS_PINNED, 1);
}

void dcd_slot_pin(struct dcd_engine *e, struct dcd_slot *s, u64 segment)
{
	spin_lock(&e->lock);
	s->segment = segment;
	pin(e, s);
	spin_unlock(&e->lock);
}

void dcd_slots_unpin(struct dcd_engine *e)
{
	struct dcd_slot *s, *next;

	lockdep_assert_held(&e->lock);
	list_for_each_entry_safe(s, next, &e->pinned, idle) {
		if (s->segment >= e->tail)
			continue;
		list_del(&s->idle);
		e->npinned--;
		s->pinned = false;
		goes_idle(e, s, DCD_SLOT_CLEAN);
	}
	WARN_ON_ONCE(list_empty(&e->pinned) != !e->npinned);
}

void dcd_slot_committed(struct dcd_engine *e, struct dcd_slot *s, bool pinned)
{
	spin_lock(&e->lock);
	e->committed = s->segment + 1;
	e->committed_entry = s->first_entry + s->entries - 1;
	if (pinned)
		pin(e, s);
	else
		goes_idle(e, s, DCD_SLOT_CLEAN);
	spin_unlock(&e->lock);
	dcd_slots_kick(e);
	wake_up_all(&e->room);
}

void dcd_slots_bypassed(struct dcd_engine *e, u64 target, u64 applied)
{
	struct dcd_slot *s;
	u64 n;

	lockdep_assert_held(&e->lock);
	for (n = e->committed; n < target; n++) {
		s = slot_of(e, n);
		if (!WARN_ON_ONCE(!s))
			goes_idle(e, s, DCD_SLOT_CLEAN);	/* somebody may copy from it */
	}
	e->committed = target;
	e->committed_entry = applied;
}

void dcd_slots_take_back(struct dcd_engine *e, struct dcd_slot *s, u32 entries, u32 used,
			 u32 counts)
{
	struct dcd_slot *behind;

	lockdep_assert_held(&e->lock);
	for (; e->head > s->segment + 1; e->head--) {
		behind = slot_of(e, e->head - 1);
		if (!WARN_ON_ONCE(!behind))
			goes_idle(e, behind, DCD_SLOT_FREE);
	}
	if (e->open != s || !entries)
		e->open = NULL;
	s->entries = entries;
	s->used = used;
	s->counts -= counts;
	dcd_seal_open(e);
	if (!entries) {
		goes_idle(e, s, DCD_SLOT_FREE);
		e->head--;
	}
}

void dcd_slot_recovered(struct dcd_engine *e, struct dcd_slot *s, u64 segment, bool in_log)
{
	s->segment = segment;
	*where(e, segment) = s;
	s->state = in_log ? DCD_SLOT_CLEAN : DCD_SLOT_SEALED;
}

void dcd_slots_begin(struct dcd_engine *e)
{
	u64 segment = max_t(u64, e->head, e->slots_there) - e->slots_there;
	unsigned int i;

	spin_lock(&e->lock);
	for (; segment < e->head; segment++) {
		struct dcd_slot *s = slot_of(e, segment);

		if (s && s->state == DCD_SLOT_CLEAN && !s->pinned)
			goes_idle(e, s, DCD_SLOT_CLEAN);
	}
	for (i = e->slots_there; i--; )
		if (e->slots[i].state == DCD_SLOT_FREE)
			goes_idle(e, e->slots + i, DCD_SLOT_FREE);
	spin_unlock(&e->lock);
}
