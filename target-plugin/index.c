// SPDX-License-Identifier: GPL-2.0-only
/*
 * The value of a range is (place - sector), so it holds for every part of the
 * range: splitting needs no new value. See engine.h.
 */
#include "engine.h"

#define BIAS BIT_ULL(60)	/* keeps the difference positive */

static void *encode(sector_t sector, bool zero, u64 at)
{
	u64 x = zero ? at : at + BIAS - sector;

	return xa_mk_value(x << 1 | zero);
}

static void decode(struct dcd_place *p)
{
	u64 v = xa_to_value(p->value);

	p->zero = v & 1;
	p->at = p->zero ? v >> 1 : (v >> 1) - BIAS + p->sector;
}

int dcd_index_insert(struct dcd_engine *e, sector_t sector, u32 sectors, bool zero, u64 at)
{
	lockdep_assert_held(&e->intake);
	return mtree_store_range(&e->index, sector, sector + sectors - 1,
				 encode(sector, zero, at), GFP_NOIO | __GFP_NOWARN);
}

/* First range at or behind @sector that begins at or before @last; false: none. */
static bool find(struct dcd_engine *e, sector_t sector, sector_t last, struct dcd_place *p)
{
	MA_STATE(mas, &e->index, sector, sector);

	rcu_read_lock();
	p->value = mas_find(&mas, last);
	p->sector = max_t(sector_t, mas.index, sector);
	p->last = mas.last;
	rcu_read_unlock();
	if (!p->value)
		return false;
	decode(p);
	return true;
}

bool dcd_index_next(struct dcd_engine *e, sector_t sector, struct dcd_place *p)
{
	return find(e, sector, ULONG_MAX, p);
}

void dcd_index_find(struct dcd_engine *e, sector_t sector, sector_t last, struct dcd_place *p)
{
	bool found = find(e, sector, last, p);

	if (found && p->sector == sector) {
		p->last = min(p->last, last);
		return;
	}
	p->last = found ? p->sector - 1 : last;
	p->sector = sector;
	p->value = NULL;
	p->zero = false;
}

int dcd_index_erase(struct dcd_engine *e, sector_t sector, sector_t last)
{
	lockdep_assert_held(&e->intake);
	return mtree_store_range(&e->index, sector, last, NULL, GFP_NOIO | __GFP_NOWARN);
}
