// SPDX-License-Identifier: GPL-2.0-only
/*
 * The slots of the NVRAM, a ring as the log is one: segment s is in slot
 * s % nslots. After its commit a slot stays readable until it is needed again:
 * the papers' DRAM copy of recent segments. Some slots ahead of the head are
 * made free in time, so that no write waits for the readers of an old one; and
 * those only copy (@copiers): who reads a disk is none of them.
 */
#include <linux/delay.h>
#include <linux/module.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(uint, copy_us, "readers stop for so many microseconds before they copy from a slot");

static struct dcd_slot *slot_of(struct dcd_engine *e, u64 segment)
{
	u32 at;

	div_u64_rem(segment, e->nslots, &at);
	return &e->slots[at];
}

static const u8 *slot_bytes(struct dcd_engine *e, u64 segment, u32 offset)
{
	struct dcd_slot *s;
	u8 *base;
	bool there;

	spin_lock(&e->lock);
	s = slot_of(e, segment);
	there = s->segment == segment && (s->state == DCD_SLOT_OPEN ||
					  s->state == DCD_SLOT_SEALED ||
					  (s->state == DCD_SLOT_CLEAN && !s->bad));
	base = s->base;
	spin_unlock(&e->lock);
	return there ? base + offset : NULL;
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
	struct dcd_slot s;
	bool there;

	spin_lock(&e->lock);
	s = *slot_of(e, segment);
	there = s.segment == segment && (s.state == DCD_SLOT_SEALED ||
					 s.state == DCD_SLOT_CLEAN) &&
		e->published >= s.first_entry + s.entries;
	spin_unlock(&e->lock);
	*first = s.first_entry;
	if (there)
		dcd_slot_copy(e, &s, buf);
	srcu_read_unlock(&e->copiers, id);
	return there ? s.entries : -ENOENT;
}

struct dcd_slot *dcd_slot_free(struct dcd_engine *e, bool again)
{
	struct dcd_slot *s = slot_of(e, e->head);

	lockdep_assert_held(&e->lock);
	if (s->state != DCD_SLOT_FREE || e->retiring)
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
	bool retiring;

	spin_lock(&e->lock);
	while (n < ahead(e) && slot_of(e, e->head + n)->state == DCD_SLOT_FREE)
		n++;
	retiring = e->retiring;
	spin_unlock(&e->lock);
	if (n <= ahead(e) / 2 || retiring)
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

	dcd_slots_retire(e);
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

static void set_free(struct dcd_slot *s)
{
	s->state = DCD_SLOT_FREE;
	s->segment = U64_MAX;
}

void dcd_slots_take_back(struct dcd_engine *e, struct dcd_slot *s, u32 entries, u32 used,
			 u32 counts)
{
	lockdep_assert_held(&e->lock);
	for (; e->head > s->segment + 1; e->head--)
		set_free(slot_of(e, e->head - 1));
	if (e->open != s || !entries)
		e->open = NULL;
	s->entries = entries;
	s->used = used;
	s->counts -= counts;
	dcd_seal_open(e);
	if (!entries) {
		set_free(s);
		e->head--;
	}
}

void dcd_slot_recovered(struct dcd_engine *e, struct dcd_slot *s, u64 segment, bool in_log)
{
	struct dcd_slot *place = slot_of(e, segment);

	swap(*s, *place);
	place->segment = segment;
	place->state = in_log ? DCD_SLOT_CLEAN : DCD_SLOT_SEALED;
}
