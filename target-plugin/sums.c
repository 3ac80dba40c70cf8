// SPDX-License-Identifier: GPL-2.0-only
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, trust_log, "what is read from the log is taken as it is");

TEST_KNOB(bool, forget_sums, "there is never memory for the checksums of a segment");

/* What one sum is of at most: longer entries, which nobody writes any more, have several. */
#define MOST	128U

/* Of @sectors from @offset on, in the segment. */
struct sum {
	u16 offset;
	u16 sectors;
	u32 crc;
};

/*
 * @first: the number of the segment's first entry. @holes: some entries couldn't be believed, by
 * what was read of them then.
 */
struct sums {
	struct rcu_head rcu;
	u64 first;
	u32 n;
	bool holes;
	struct sum sum[];	/* in the order of @offset, as entries are */
};

void dcd_sums_init(struct dcd_engine *e)
{
	xa_init(&e->sums);
}

void dcd_sums_free(struct dcd_engine *e)
{
	unsigned long segment;
	struct sums *s;

	xa_for_each(&e->sums, segment, s)
		kvfree(s);
	xa_destroy(&e->sums);
}

void dcd_sums_drop(struct dcd_engine *e, u64 first, u64 end)
{
	for (; first < end; first++) {
		struct sums *s = xa_erase(&e->sums, first);

		if (s)
			kvfree_rcu(s, rcu);
	}
}

/* Those of one entry, to @to if that isn't NULL. How many. */
static u32 of_entry(const void *seg, const struct dcd_entry *n, struct sum *to)
{
	u32 at = le32_to_cpu(n->offset), end = at + le32_to_cpu(n->stored), i;
	bool one = end - at <= MOST;

	for (i = 0; at < end; i++, at += MOST) {
		u32 sectors = min(end - at, MOST);

		if (to)
			to[i] = (struct sum){
				.offset = at,
				.sectors = sectors,
				.crc = one ? le32_to_cpu(n->payload_crc) :
				       dcd_crc(seg + ((size_t)at << SECTOR_SHIFT),
					       (size_t)sectors << SECTOR_SHIFT),
			};
	}
	return i;
}

/*
 * By itself, and in its turn: where a write was lost the disk has entries that are as right, of
 * what was in this place of the ring before.
 */
static bool believed(const struct dcd_geometry *g, const void *seg, u32 number, u64 first)
{
	return le64_to_cpu(dcd_entry_at(seg, number)->sequence) == first + number &&
	       dcd_entry_valid(g, seg, number);
}

/* @first: the number of the first entry. @g: only of entries that can be believed; NULL: of all. */
static int keep(struct dcd_engine *e, u64 segment, const void *seg, u32 entries,
		const struct dcd_geometry *g, u64 first)
{
	struct sums *s, *old;
	bool holes = !entries;
	u32 i, n = 0;

	for (i = 0; i < entries; i++) {
		if (!g || believed(g, seg, i, first))
			n += of_entry(seg, dcd_entry_at(seg, i), NULL);
		else
			holes = true;
	}
	s = kvmalloc(struct_size(s, sum, n), GFP_NOIO | __GFP_NOWARN);
	if (!s)
		return -ENOMEM;
	s->n = 0;
	s->first = first;
	s->holes = holes;
	for (i = 0; i < entries && s->n < n; i++)
		if (!g || believed(g, seg, i, first))
			s->n += of_entry(seg, dcd_entry_at(seg, i), s->sum + s->n);
	old = xa_store(&e->sums, segment, s, GFP_NOIO | __GFP_NOWARN);
	if (xa_is_err(old)) {
		kvfree(s);
		return xa_err(old);
	}
	if (old)
		kvfree_rcu(old, rcu);
	return 0;
}

void dcd_sums_keep(struct dcd_engine *e, u64 segment, const void *seg, u32 entries)
{
	/* At recovery it may be of a slot, which has no segment's header. */
	u64 first = entries ? le64_to_cpu(dcd_entry_at(seg, 0)->sequence) : 0;

	if (test_knob(forget_sums) || keep(e, segment, seg, entries, NULL, first))
		dcd_count(e, DCD_N_NOMEM, 1);
}

void dcd_sums_keep_right(struct dcd_engine *e, u64 segment, const void *seg, u32 entries)
{
	const struct dcd_segment *h = seg;
	struct dcd_geometry g;

	dcd_geometry_of(e, &g);
	if (test_knob(forget_sums) ||
	    keep(e, segment, seg, entries, &g, le64_to_cpu(h->first_entry)))
		dcd_count(e, DCD_N_NOMEM, 1);
}

bool dcd_sums_first(struct dcd_engine *e, u64 segment, u64 *first)
{
	const struct sums *s;

	rcu_read_lock();
	s = xa_load(&e->sums, segment);
	*first = s ? s->first : 0;
	rcu_read_unlock();
	return *first;
}

/* How many entries it has that may be right; 0: nothing is. */
static int from_log(struct dcd_engine *e, const struct dcd_geometry *g, u64 segment, void *buf,
		    u64 *first, unsigned long patience)
{
	const struct dcd_segment *h = buf;
	u64 found;
	int r;

	r = dcd_log_read(e, dcd_segment_sector(e, segment), buf, e->segment_bytes, patience);
	if (r)
		return r;
	if (dcd_segment_header(g, buf, segment, &found) != DCD_SEGMENT_VALID)
		return 0;
	*first = le64_to_cpu(h->first_entry);
	return min(le32_to_cpu(h->entries), dcd_table_entries(g));
}

static int read_again(struct dcd_engine *e, u64 segment, unsigned long patience)
{
	void *buf = kvmalloc(e->segment_bytes, GFP_NOIO | __GFP_NOWARN);
	struct dcd_geometry g;
	u64 first = 0;
	int r;

	if (!buf)
		return -ENOMEM;
	dcd_geometry_of(e, &g);
	/* A slot that was never in the log, because that is dead, or can't be read all over. */
	r = dcd_slot_whole(e, segment, buf, &first);
	if (r == -ENOENT)
		r = from_log(e, &g, segment, buf, &first, patience);
	if (r >= 0)
		r = keep(e, segment, buf, r, &g, first);
	kvfree(buf);
	if (!dcd_is_live(e, segment)) {	/* its place may have had something else by then */
		dcd_sums_drop(e, segment, segment + 1);
		return -ESTALE;
	}
	return r;
}

/* The sum that @offset of the segment is in. -ENOENT: it isn't known. */
static int find(struct dcd_engine *e, u64 segment, u32 offset, struct sum *sum)
{
	const struct sums *s;
	u32 from = 0, end;
	int r = -ENOENT;

	rcu_read_lock();
	s = xa_load(&e->sums, segment);
	if (!s)
		goto out;
	end = s->n;
	while (end - from > 1) {
		u32 middle = (from + end) / 2;

		if (s->sum[middle].offset <= offset)
			from = middle;
		else
			end = middle;
	}
	if (!s->holes)
		r = -EBADMSG;
	if (from < end && offset - s->sum[from].offset < s->sum[from].sectors) {
		*sum = s->sum[from];
		r = 0;
	}
out:
	rcu_read_unlock();
	return r;
}

static int bad(struct dcd_engine *e, const struct dcd_place *p)
{
	u64 segment = dcd_segment_of(e, p);

	if (!dcd_is_live(e, segment))
		return -ESTALE;
	dcd_count(e, DCD_N_BAD_SUMS, 1);
	trace_dcd_bad_sum(e, p, segment);
	dcd_log_damaged(e, segment);
	pr_err_ratelimited("dcd: %s: what segment %llu of the log %pg has of the %u sectors from %llu on doesn't have its checksum: it is damaged; the data disk has older data there and keeps them, reads are errors until it is written again\n",
			   e->name, segment, e->log.bdev, dcd_place_sectors(p), (u64)p->sector);
	return -EBADMSG;
}

int dcd_sums_whole(struct dcd_engine *e, const struct dcd_place *p, struct dcd_place *whole,
		   unsigned long patience)
{
	u32 offset, end, before;
	u64 segment = div_u64_rem(p->at, e->segment_bytes >> SECTOR_SHIFT, &offset);
	struct sum sum;
	int r;

	*whole = *p;
	if (test_knob(trust_log))
		return 0;
	r = find(e, segment, offset, &sum);
	if (r == -ENOENT)
		r = read_again(e, segment, patience) ?: find(e, segment, offset, &sum);
	if (r == -EBADMSG || r == -ENOENT)
		return bad(e, p);
	if (r)
		return r;
	before = offset - sum.offset;
	whole->sector -= before;
	whole->at -= before;
	for (end = offset + dcd_place_sectors(p); sum.offset + sum.sectors < end; ) {
		r = find(e, segment, sum.offset + sum.sectors, &sum);
		if (r)
			return bad(e, p);
	}
	whole->last += sum.offset + sum.sectors - end;
	return 0;
}

static bool right(struct dcd_engine *e, const struct dcd_place *whole, const void *bytes)
{
	u32 offset, left = dcd_place_sectors(whole);
	u64 segment = div_u64_rem(whole->at, e->segment_bytes >> SECTOR_SHIFT, &offset);
	struct sum sum;

	while (left) {
		if (find(e, segment, offset, &sum) || sum.offset != offset || sum.sectors > left ||
		    dcd_crc(bytes, sum.sectors << SECTOR_SHIFT) != sum.crc)
			return false;
		bytes += sum.sectors << SECTOR_SHIFT;
		offset += sum.sectors;
		left -= sum.sectors;
	}
	return true;
}

int dcd_sums_check(struct dcd_engine *e, const struct dcd_place *whole, void *bytes,
		   unsigned long patience)
{
	int r = -ENODATA;

	if (test_knob(trust_log) || right(e, whole, bytes))
		return 0;
	if (dcd_segment_of(e, whole) < READ_ONCE(e->committed))
		r = dcd_log_read(e, dcd_place_in_log(e, whole), bytes,
				 dcd_place_sectors(whole) << SECTOR_SHIFT, patience);
	if (r == -ETIME)
		return r;
	if (r || !right(e, whole, bytes))
		return bad(e, whole);
	dcd_count(e, DCD_N_READ_BETTER, 1);
	return 0;
}
