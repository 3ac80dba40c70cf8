// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots of the NVRAM with media errors. Whoever finds that bytes of one can't be read tells it
 * here; what had them is in the log too, or is lost (log-read.c finds no checksum for it
 * there). The slot isn't used any more as long as the engine is open: what is in NVRAM goes to
 * the log, or past it, as at any time, and when nothing is there that counts, the ring of
 * slots closes over the gap. Until then nobody gets a slot (@retiring); the wait is that of a
 * few segments' way. What was on its way into such a slot, and couldn't be kept there, goes to
 * another one (entries.h): each of these has one slot less, so that ends.
 *
 * A media error stays when something is stored there: only the driver can clear it. Whether a
 * place that has failed once is to be trusted is the admin's decision, who formats the
 * NVRAM anew, or replaces it; so that is the end of it here too, but for the headers
 * (super.c), without which the NVRAM is nothing.
 */
#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"

#define SLOTS_LEAST 2U

TEST_KNOB(bool, keep_bad_slots, "a slot with a media error is used again");

u32 dcd_slot_number(const struct dcd_engine *e, const void *at)
{
	return div_u64((const u8 *)at - (u8 *)e->nv->base - DCD_BLOCK, e->segment_bytes);
}

void dcd_slot_unreadable(struct dcd_engine *e, const void *at, unsigned int sectors)
{
	u32 number = dcd_slot_number(e, at), i;
	bool news = false;

	dcd_count(e, DCD_N_NVRAM_ERRORS, 1);
	trace_dcd_nvram_bad(e, (const u8 *)at - (u8 *)e->nv->base, sectors);
	spin_lock(&e->lock);
	for (i = 0; i < e->nslots; i++) {
		struct dcd_slot *s = e->slots + i;

		if (dcd_slot_number(e, s->base) != number || s->bad || test_knob(keep_bad_slots))
			continue;
		s->bad = true;
		e->retiring = true;
		dcd_seal_open(e);
		news = true;
	}
	spin_unlock(&e->lock);
	if (!news)
		return;
	pr_err("dcd: %s: bytes %zu and behind of the NVRAM %s can't be read, a media error: slot %u isn't used any more; look after that memory\n",
	       e->name, (const u8 *)at - (u8 *)e->nv->base, e->nv->type->name, number);
	mod_delayed_work(e->commit_wq, &e->commit_work, 0);
	queue_work(e->quick_wq, &e->reuse_work);
}

/* What is left of the ring of slots. Needs @lock; nobody reads any of them. */
static unsigned int close_gaps(struct dcd_engine *e, unsigned int *left)
{
	unsigned int i, n = 0, gone;

	lockdep_assert_held(&e->lock);
	for (i = 0; i < e->nslots; i++) {
		e->slots[i].state = DCD_SLOT_FREE;
		e->slots[i].segment = U64_MAX;
		if (e->slots[i].bad)
			continue;
		swap(e->slots[n], e->slots[i]);
		n++;
	}
	gone = e->nslots - n;
	WRITE_ONCE(e->nslots, max(n, 1U));	/* of which nobody gets any */
	e->slots_retired += gone;
	e->worn = n < SLOTS_LEAST;
	e->retiring = false;
	*left = n;
	return gone;
}

void dcd_slots_retire(struct dcd_engine *e)
{
	unsigned int i, gone, left;
	bool ready;

	spin_lock(&e->lock);
	ready = e->retiring && e->committed == e->head && e->published == e->next_entry;
	for (i = 0; ready && i < e->nslots; i++)
		if (e->slots[i].state == DCD_SLOT_CLEAN)
			e->slots[i].state = DCD_SLOT_LEAVING;
	spin_unlock(&e->lock);
	if (!ready)
		return;
	synchronize_srcu_expedited(&e->copiers);
	spin_lock(&e->lock);
	gone = close_gaps(e, &left);
	spin_unlock(&e->lock);
	pr_warn("dcd: %s: %u slots of the NVRAM %s are retired, %u are left%s\n", e->name, gone,
		e->nv->type->name, left, e->worn ? ", too few: writes are refused" : "");
	wake_up_all(&e->room);
}

/* At the opening, when nobody else is there: what recovery has found. */
int dcd_slots_opened(struct dcd_engine *e)
{
	unsigned int i, bad = 0;

	for (i = 0; i < e->nslots; i++)
		bad += e->slots[i].bad;
	if (e->nslots - bad < SLOTS_LEAST) {
		pr_err("dcd: %s: %u of %u slots of the NVRAM %s have media errors, two good ones are needed: `dcd recover` (with --salvage if it says so) brings what can be read to the data disk; then replace that memory\n",
		       e->name, bad, e->nslots, e->nv->type->name);
		return -EIO;
	}
	e->retiring = bad && !test_knob(keep_bad_slots);
	return 0;
}
