// SPDX-License-Identifier: GPL-2.0-only
#include <linux/bitops.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, late_believed, "what takes long to be read back is believed, though it has failed there");
TEST_KNOB(bool, unproven, "what is written to a bad place of the log is believed to be there");

int dcd_proof_init(struct dcd_engine *e)
{
	e->proof.places = kvcalloc(BITS_TO_LONGS(e->segments), sizeof(long), GFP_KERNEL);
	e->proof.slow = kvcalloc(BITS_TO_LONGS(e->segments), sizeof(long), GFP_KERNEL);
	e->proof.failed = kvcalloc(BITS_TO_LONGS(e->segments), sizeof(long), GFP_KERNEL);
	e->proof.buf = vzalloc(e->segment_bytes);
	return e->proof.places && e->proof.slow && e->proof.failed && e->proof.buf ? 0 : -ENOMEM;
}

void dcd_proof_free(struct dcd_engine *e)
{
	kvfree(e->proof.places);
	kvfree(e->proof.slow);
	kvfree(e->proof.failed);
	vfree(e->proof.buf);
}

static unsigned long place_of(const struct dcd_engine *e, u64 segment)
{
	u64 at;

	div64_u64_rem(segment, e->segments, &at);
	return at;
}

/* Of a sector of the ring. */
static unsigned long place_at(const struct dcd_engine *e, u64 sector)
{
	return div_u64((sector << SECTOR_SHIFT) - DCD_RING_START, e->segment_bytes);
}

void dcd_proof_doubt(struct dcd_engine *e, u64 segment)
{
	unsigned long place = place_of(e, segment);

	if (!test_bit(place, e->proof.places) && !test_and_set_bit(place, e->proof.places))
		dcd_count(e, DCD_N_DOUBTED, 1);
}

void dcd_proof_unread(struct dcd_engine *e, u64 segment)
{
	dcd_proof_doubt(e, segment);
	set_bit(place_of(e, segment), e->proof.failed);
}

void dcd_proof_read(struct dcd_engine *e, u64 sector, int error, unsigned long began)
{
	if (sector << SECTOR_SHIFT < DCD_RING_START)
		return;
	if (error)
		set_bit(place_at(e, sector), e->proof.failed);
	else if (time_before(jiffies, began + DCD_LATE))
		clear_bit(place_at(e, sector), e->proof.slow);
}

/* One that took long isn't waited for: what it takes then tells whether the next one is. */
unsigned long dcd_proof_patience(const struct dcd_engine *e, u64 sector)
{
	unsigned long place = place_at(e, sector);

	if (e->proof.only ||
	    (!e->keeps && test_bit(place, e->proof.failed) && !test_knob(late_believed)))
		return DCD_PROOF_WAITS;
	return test_bit(place, e->proof.slow) ? 0 : DCD_LATE;
}

static int compare(struct dcd_engine *e, u64 segment, const void *buf, u32 bytes)
{
	unsigned long place = place_of(e, segment);
	int r = dcd_aside_read(e, dcd_segment_sector(e, segment), e->proof.buf, bytes,
			       dcd_proof_patience(e, dcd_segment_sector(e, segment)));

	if (r == -ETIME)
		set_bit(place, e->proof.slow);
	if (!r || r == -ETIME)
		clear_bit(place, e->proof.failed);
	if (r)	/* without memory nobody knows either */
		return r == -ENOMEM ? -ETIME : r;
	return memcmp(e->proof.buf, buf, bytes) ? -EBADMSG : 0;
}

int dcd_proof(struct dcd_engine *e, u64 segment, void *buf, u32 bytes)
{
	u64 sector = dcd_segment_sector(e, segment);
	unsigned int moves = 0;
	struct dcd_blip blip;
	int r;

	if (!test_bit(place_of(e, segment), e->proof.places) || test_knob(unproven))
		return 0;
	dcd_blip_begin(&blip);
	do {
		dcd_count(e, DCD_N_READ_BACK, 1);
		r = compare(e, segment, buf, bytes);
		if (r)
			dcd_count(e, r == -ETIME ? DCD_N_READ_BACK_LATE : DCD_N_READ_BACK_BAD, 1);
	} while (r && r != -ETIME && dcd_spares_left(e) &&
		 ((r != -EBADMSG && dcd_blip_again(e, &blip, r)) ||
		  (moves++ < DCD_SPARES_TIMES && dcd_spares_unread(e, sector, buf, bytes))));
	if (!r || (!e->keeps && r == -ETIME))
		return 0;
	pr_err_ratelimited("dcd: %s: segment %llu was written to the log %pg, whose place was bad before, and %s: error %d\n",
			   e->name, segment, e->log.bdev,
			   r == -ETIME ? "isn't read back within a moment" : "isn't there", r);
	return r;
}
