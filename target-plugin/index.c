// SPDX-License-Identifier: GPL-2.0-only
/*
 * The value of a range is (place - sector), so it holds for every part of the
 * range: splitting needs no new value. Of what has no bytes it is the segment of its entry,
 * and its kind. See engine.h.
 */
#include <linux/mm.h>
#include <linux/sizes.h>

#include "engine.h"

#define BIAS BIT_ULL(60)	/* keeps the difference positive */
#define AT_A_TIME 4096		/* ranges, before somebody else has a turn */
#define REACH 32	/* ranges; 7.3 crashed with 256, not with 94 */
#define INDEX_LEAST SZ_4M
/*
 * An entry that is always there, behind all sectors, so the tree never gets empty: of a reader
 * whose node a writer has just replaced by nothing at all mas_next_slot() dereferences NULL
 * (7.3: mas_rewalk() comes back without a node).
 */
#define END ULONG_MAX

/* Bits of the value: the first is set where there are no bytes, then two say what there is. */
enum { BARE = 1, KIND = 2 | 4, ZEROES = 0, DISCARD = 2, LOST = 4 };
#define AT 3

static void *encode(sector_t sector, enum dcd_entry_type type, u64 at)
{
	if (type == DCD_ENTRY_WRITE)
		return xa_mk_value((at + BIAS - sector) << 1);
	return xa_mk_value(at << AT | BARE | (type == DCD_ENTRY_LOST ? LOST :
					      type == DCD_ENTRY_DISCARD ? DISCARD : ZEROES));
}

static bool is_bare(void *value)
{
	return xa_to_value(value) & BARE;
}

static bool is_lost(void *value)
{
	return is_bare(value) && (xa_to_value(value) & KIND) == LOST;
}

static bool is_zero(void *value)
{
	return is_bare(value) && !is_lost(value);
}

static void decode(struct dcd_place *p)
{
	u64 v = xa_to_value(p->value);

	p->zero = is_zero(p->value);
	p->lost = is_lost(p->value);
	p->discard = p->zero && (v & KIND) == DISCARD;
	p->at = v & BARE ? v >> AT : (v >> 1) - BIAS + p->sector;
}

int dcd_index_init(struct dcd_engine *e)
{
	mt_init(&e->index);
	return mtree_store(&e->index, END, xa_mk_value(0), GFP_KERNEL);
}

sector_t dcd_index_reach(struct dcd_engine *e, sector_t sector, sector_t last)
{
	MA_STATE(mas, &e->index, sector, sector);
	unsigned int seen = 0;
	void *value;

	rcu_read_lock();
	mas_for_each(&mas, value, last) {
		if (++seen < REACH)
			continue;
		last = min_t(sector_t, last, mas.last);
		break;
	}
	rcu_read_unlock();
	return last;
}

/* A range with data comes, or goes. */
static void count(struct dcd_engine *e, void *value, sector_t sector, sector_t last, bool comes)
{
	if (value && !is_bare(value))
		dcd_turn_count(&e->turn, sector, last, comes);
}

/* Ranges, and how many of those are zeroes; of these, and of what is lost, in sectors too. */
struct growth {
	long ranges, zeroes, lost;
	s64 zero_sectors, lost_sectors;
};

/* That many @more of a range with @value. */
static void count_bare(struct growth *g, void *value, s64 more)
{
	if (value && is_zero(value))
		g->zero_sectors += more;
	if (value && is_lost(value))
		g->lost_sectors += more;
}

/* Of the range that @mas is at, how many are left when what is in [@sector, @last] goes. */
static long parts_beside(const struct ma_state *mas, sector_t sector, sector_t last)
{
	return (mas->index < sector) + (mas->last > last);
}

bool dcd_index_more_zeroes(struct dcd_engine *e, sector_t sector, sector_t *last)
{
	MA_STATE(mas, &e->index, sector, sector);
	unsigned int seen = 0;
	long more = 1;
	void *value;

	rcu_read_lock();
	mas_for_each(&mas, value, *last) {
		if (++seen == REACH)
			*last = min_t(sector_t, *last, mas.last);
		if (is_zero(value))
			more += parts_beside(&mas, sector, *last) - 1;
	}
	rcu_read_unlock();
	return more > 0;
}

/*
 * What the tree has more of when [@sector, @last] is one range of @new, or none at all. The turn
 * counts it at once, or (@undo) takes that back.
 */
static struct growth growth(struct dcd_engine *e, sector_t sector, sector_t last, void *new,
			    bool undo)
{
	MA_STATE(mas, &e->index, sector, sector);
	struct growth g = {
		.ranges = !!new,
		.zeroes = new && is_zero(new),
		.lost = new && is_lost(new),
	};
	unsigned int seen = 0;
	void *value;

	count(e, new, sector, last, !undo);
	count_bare(&g, new, last - sector + 1);
	rcu_read_lock();
	mas_for_each(&mas, value, last) {
		long more = parts_beside(&mas, sector, last) - 1;

		g.ranges += more;
		g.zeroes += is_zero(value) ? more : 0;
		g.lost += is_lost(value) ? more : 0;
		count_bare(&g, value, (s64)max_t(sector_t, mas.index, sector) -
				      (s64)min_t(sector_t, mas.last, last) - 1);
		count(e, value, mas.index, mas.last, undo);
		if (mas.index < sector)
			count(e, value, mas.index, sector - 1, !undo);
		if (mas.last > last)
			count(e, value, last + 1, mas.last, !undo);
		if (++seen % AT_A_TIME)
			continue;
		mas_pause(&mas);	/* nobody changes it: @intake */
		rcu_read_unlock();
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
	return g;
}

static int store(struct dcd_engine *e, sector_t sector, sector_t last, void *value)
{
	struct growth g = growth(e, sector, last, value, false);
	int r = mtree_store_range(&e->index, sector, last, value, GFP_NOIO | __GFP_NOWARN);

	lockdep_assert_held(&e->intake);
	if (r) {
		growth(e, sector, last, value, true);
		return r;
	}
	WRITE_ONCE(e->ranges, e->ranges + g.ranges);
	WRITE_ONCE(e->zeroes, e->zeroes + g.zeroes);
	WRITE_ONCE(e->zero_sectors, e->zero_sectors + g.zero_sectors);
	WRITE_ONCE(e->lost.n, e->lost.n + g.lost);
	WRITE_ONCE(e->lost.sectors, e->lost.sectors + g.lost_sectors);
	return 0;
}

int dcd_index_insert(struct dcd_engine *e, sector_t sector, u32 sectors,
		     enum dcd_entry_type type, u64 at)
{
	sector_t last = sector + sectors - 1, end = last;
	int r = 0;

	/* An entry reached as far as was good when it was made; others came before it since. */
	for (; !r && sector <= last; sector = end + 1) {
		if (type != DCD_ENTRY_WRITE)
			end = dcd_index_reach(e, sector, last);
		r = store(e, sector, end, encode(sector, type, at));
	}
	return r;
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
	return find(e, sector, END - 1, p);
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
	p->discard = false;
	p->lost = false;
}

int dcd_index_erase(struct dcd_engine *e, sector_t sector, sector_t last)
{
	return store(e, sector, last, NULL);
}

u64 dcd_index_used(const struct dcd_engine *e)
{
	return (u64)READ_ONCE(e->ranges) * DCD_RANGE_BYTES;
}

u32 dcd_index_fill(const struct dcd_engine *e)
{
	u64 most = READ_ONCE(e->index_bytes);

	return div64_u64(min(dcd_index_used(e), most) * DCD_FULL, most);
}

void dcd_index_bound(struct dcd_engine *e, size_t bytes)
{
	u64 log = e->segments * e->segment_bytes, ram = (u64)totalram_pages() << PAGE_SHIFT;

	WRITE_ONCE(e->index_bytes, bytes ?: max_t(u64, INDEX_LEAST, min(log / 64, ram / 8)));
}
