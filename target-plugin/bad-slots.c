// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots of the NVRAM with media errors. Whoever finds that bytes of one can't be read tells it
 * here; what had them is in the log too, or is lost (log-read.c finds no checksum for it
 * there). The slot isn't used any more as long as the engine is open: it is given to nobody, and
 * what is in it goes to the log, or past it, in its turn, as what is in any other; all others go on
 * meanwhile (slots.c). What was on its way into such a slot, and couldn't be kept there, goes to
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

TEST_KNOB(bool, keep_bad_slots, "a slot with a media error is used again");
TEST_KNOB(bool, drain_slots, "when a slot turns bad nobody gets another until NVRAM is empty");

u32 dcd_slot_number(const struct dcd_engine *e, const void *at)
{
	return div_u64((const u8 *)at - (u8 *)e->nv->base - DCD_BLOCK, e->segment_bytes);
}

bool dcd_slots_drain(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return test_knob(drain_slots) && e->committed < min(e->bad_at, e->head);
}

void dcd_slot_retire(struct dcd_engine *e, struct dcd_slot *s)
{
	lockdep_assert_held(&e->lock);
	s->state = DCD_SLOT_RETIRED;
	e->nbad--;
	WRITE_ONCE(e->nslots, e->nslots - 1);
}

/* It won't be used any more. Needs @lock; how many that are good are left. */
static unsigned int is_bad(struct dcd_engine *e, struct dcd_slot *s)
{
	unsigned int left;

	lockdep_assert_held(&e->lock);
	s->bad = true;
	e->bad_at = e->head;
	e->nbad++;
	left = e->nslots - e->nbad;
	if (left < DCD_SLOTS_LEAST)
		e->worn = true;
	if (e->open == s)
		dcd_seal_open(e);
	if (s->state == DCD_SLOT_OPEN || s->state == DCD_SLOT_SEALED || s->pinned)
		return left;
	/* Whoever copies from it yet gets what it had: nobody writes there again. */
	list_del(&s->idle);
	e->nidle--;
	dcd_slot_retire(e, s);
	return left;
}

void dcd_slot_unreadable(struct dcd_engine *e, const void *at, unsigned int sectors)
{
	u32 number = dcd_slot_number(e, at);
	struct dcd_slot *s = e->slots + number;
	unsigned int left = 0;
	bool news = false;

	dcd_count(e, DCD_N_NVRAM_ERRORS, 1);
	trace_dcd_nvram_bad(e, (const u8 *)at - (u8 *)e->nv->base, sectors);
	spin_lock(&e->lock);
	if (!s->bad && !test_knob(keep_bad_slots)) {
		left = is_bad(e, s);
		news = true;
	}
	spin_unlock(&e->lock);
	if (!news)
		return;
	pr_err("dcd: %s: bytes %zu and behind of the NVRAM %s can't be read, a media error: slot %u isn't used any more, %u are left%s; look after that memory\n",
	       e->name, (const u8 *)at - (u8 *)e->nv->base, e->nv->type->name, number, left,
	       left < DCD_SLOTS_LEAST ? ", too few: writes are refused" : "");
	mod_delayed_work(e->commit_wq, &e->commit_work, 0);
	wake_up_all(&e->room);
}

/* At the opening, when nobody else is there: what recovery has found. */
int dcd_slots_check(struct dcd_engine *e)
{
	unsigned int i, bad = 0;

	for (i = 0; i < e->slots_there; i++) {
		struct dcd_slot *s = e->slots + i;

		s->bad = s->bad && !test_knob(keep_bad_slots);
		bad += s->bad;
	}
	if (e->slots_there - bad < DCD_SLOTS_LEAST) {
		pr_err("dcd: %s: %u of %u slots of the NVRAM %s have media errors, two good ones are needed: `dcd recover` (with --salvage if it says so) brings what can be read to the data disk; then replace that memory\n",
		       e->name, bad, e->slots_there, e->nv->type->name);
		return -EIO;
	}
	e->nbad = bad;
	return 0;
}
