// SPDX-License-Identifier: GPL-2.0-only
/*
 * Entries, from a place to an answer. Several writers work at a time:
 *
 *  reserve   sequence and place, under @lock
 *  fill      payload, its crc, persistent; with no lock
 *  publish   entry persistent, index, answer; in their sequence
 *
 * Whoever is next in the sequence publishes, for all behind it that are filled;
 * nobody sleeps for another's copy. Why that loses nothing:
 *
 * - Recovery takes the entries of a slot up to the first that isn't valid, and of
 *   the next slot nothing if one is missing before it. Entries become persistent
 *   one by one in their sequence, so what a cut leaves has no hole; and nothing
 *   behind what it leaves was acknowledged, as answers come later in the same
 *   sequence. One at a time, not a batch with one fence: of a batch a cut may
 *   leave the second without the first, and when the next session fills the
 *   first's place, that old second would count behind it; and recovery takes what
 *   lacks one before it for what it is then, damage, and not for what a cut left.
 *   Then an end record says which is the newest. It is persistent before any of them
 *   is answered, so no acknowledged write can be damaged and look torn.
 * - Of writes over each other the later sequence wins in the index, in NVRAM and
 *   in the log alike.
 * - The index has only what is filled and persistent, so no reader sees less, and
 *   what the index has over a segment that the destager lets go of is as safe as
 *   the NVRAM is (invariant 4). Without one that keeps its content the destager
 *   waits for the log (dcd_commit_all(), which waits for what is reserved too); with
 *   the log dead as well, for all that is reserved (dcd_publish_all()), and nothing
 *   more comes.
 * - A segment is written, or counts as bypassed, only when all of it is published.
 * - A batch gets into the index only when all of it is persistent: a part of one doesn't
 *   count at recovery, so in the index it would let the destager take away what is
 *   below it and counts.
 *
 * When the index gets no memory the entry, and all behind it, wait and are tried again; what
 * is persistent already stays so, and the end record that names it.
 *
 * What is void (entries.h) is known before it is persistent: who fills a place reads it again,
 * and so does who persists an entry. Then nobody gets a place any more (@void_from), what is
 * before it is published as ever, and when all that is behind it is filled too, whoever
 * publishes takes it all back. A cut before that finds nothing of it in NVRAM, as no table has
 * an entry of it; but where it was the table that failed, perhaps that entry and what is before
 * it of its batch. No end record names those, so they are what any cut before an answer may
 * leave. They are wiped before their numbers are given to others, the last one first, so that
 * it stays like that.
 *
 * A request may have several entries, and only the last one knows it: with the others pending
 * it may be answered with an error, and be gone. So it knows itself how often entries had been
 * taken back when it got its first place. If they have been since, when its last one is
 * published, some of its own may be among them, and all of it is entered again.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/scatterlist.h>

#include "dcd-trace.h"
#include "engine.h"
#include "lockstep-test.h"

#define AT_A_TIME	DCD_ENDS_APART	/* published together, but for one long batch */
#define ROUNDS		4	/* of a writer that publishes for others; then the worker does */
#define RETRY_NOMEM	(HZ / 50)

TEST_KNOB(bool, ack_early, "acknowledge a write before it is persistent; set it at load time");
TEST_KNOB(bool, keep_void, "what NVRAM can't keep is taken for kept");
TEST_KNOB(uint, fill_us,
	  "writers stop for up to so many microseconds when they fill a place or have published");

bool dcd_acks_early(void)
{
	return test_knob(ack_early);
}

static void dawdle(u64 number)
{
	unsigned int most = test_knob(fill_us);

	if (most)
		fsleep(number * 7919 % most);
}

u32 dcd_payload_start(const struct dcd_engine *e)
{
	return DCD_BLOCK + e->table_bytes;
}

static void persist(struct dcd_engine *e, void *p, size_t len)
{
	e->nv->type->persist(e->nv, (u8 *)p - (u8 *)e->nv->base, len);
}

static struct dcd_pending *pending(struct dcd_engine *e, u64 number)
{
	return &e->pending[number % DCD_PENDING];
}

static struct dcd_entry *in_table(const struct dcd_slot *s, u64 number)
{
	return (struct dcd_entry *)(s->base + DCD_BLOCK) + (number - s->first_entry);
}

#define CHUNK	128U

u32 dcd_chunk(const struct dcd_engine *e)
{
	return min(CHUNK, (e->segment_bytes - dcd_payload_start(e)) >> SECTOR_SHIFT);
}

bool dcd_may_reserve(struct dcd_engine *e, unsigned int entries)
{
	lockdep_assert_held(&e->lock);
	return e->void_from == DCD_NO_VOID &&
	       e->next_entry - e->published + entries <= DCD_PENDING;
}

void dcd_seal_open(struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	if (!e->open)
		return;
	dcd_pace_sealed(e, e->open->counts);
	e->open->state = DCD_SLOT_SEALED;
	e->open = NULL;
}

bool dcd_open_is_kept(const struct dcd_engine *e)
{
	lockdep_assert_held(&e->lock);
	return e->open && e->open->kept && !dcd_ring_free(e);
}

static bool has_room(const struct dcd_engine *e, const struct dcd_slot *s,
		     const struct dcd_place_in_slot *p)
{
	return s->used + p->bytes <= e->segment_bytes &&
	       s->entries + p->entries <= e->table_bytes / sizeof(struct dcd_entry);
}

static u32 payload_bytes(const struct dcd_place_in_slot *p)
{
	return p->rq->op == DCD_WRITE ? p->sectors << SECTOR_SHIFT : 0;
}

int dcd_reserve(struct dcd_engine *e, struct dcd_place_in_slot *p)
{
	struct dcd_slot *s = e->open;
	unsigned int i;

	lockdep_assert_held(&e->lock);
	if (e->leaving == DCD_LEAVE_LEFT)
		return -EREMCHG;
	if (dcd_leave_holds(e) && !p->again)
		return -EAGAIN;
	if (e->worn || (e->log_dead && !e->keeps))
		return -EIO;
	if (!dcd_may_reserve(e, p->entries) || (e->held && !p->again))
		return -EAGAIN;
	if (!p->again && dcd_open_is_kept(e))
		return -EAGAIN;
	if (s && !has_room(e, s, p)) {
		dcd_seal_open(e);
		p->sealed = true;
		s = NULL;
	}
	if (!s) {
		s = dcd_slot_free(e, p->again);
		if (!s)
			return -EAGAIN;
		s->kept = (dcd_has_stuck(e) || e->log_dead) && !dcd_ring_free(e);
		dcd_slot_opened(e, s);
		s->first_entry = e->next_entry;
		s->entries = 0;
		s->used = dcd_payload_start(e);
		s->counts = 0;
		s->opened = jiffies;
		e->open = s;
		p->opened = true;
	}
	if (!p->again)
		s->kept = false;
	p->slot = s;
	p->number = e->next_entry;
	p->batch = p->entries > 1 ? p->number + p->entries - 1 : 0;
	p->offset = s->used;
	s->entries += p->entries;
	s->used += p->bytes;
	s->counts += dcd_counts(p->rq->op, p->bytes >> SECTOR_SHIFT);
	if (p->last)
		p->rq->segment = s->segment;
	if (!p->rq->entered)
		p->rq->began = e->taken_back;
	for (i = 0; i < p->entries; i++)
		*pending(e, e->next_entry++) = (struct dcd_pending){ .slot = s };
	return 0;
}

void dcd_reserved(struct dcd_engine *e, const struct dcd_place_in_slot *p)
{
	if (p->sealed)
		mod_delayed_work(e->commit_wq, &e->commit_work, 0);
	if (!p->opened)
		return;
	queue_delayed_work(e->commit_wq, &e->commit_work, dcd_seal_after(e));
	dcd_slots_kick(e);
}

/* Of what a slot has, by a copy of each sector. False: there is a media error. */
static bool payload_crc(struct dcd_engine *e, const u8 *payload, u32 bytes, u32 *crc)
{
	u8 sector[SECTOR_SIZE];
	u32 at;

	*crc = ~0U;
	for (at = 0; at < bytes; at += SECTOR_SIZE) {
		if (dcd_nvram_read(e->nv, payload + at, sector, SECTOR_SIZE, NULL)) {
			dcd_slot_unreadable(e, payload + at, 1);
			return false;
		}
		*crc = crc32c(*crc, sector, SECTOR_SIZE);
	}
	return true;
}

static void copy_in(const struct dcd_place_in_slot *p, u8 *to, u32 bytes)
{
	if (p->from)
		memcpy(to, p->from, bytes);
	else
		sg_pcopy_to_buffer(p->rq->sgl, p->rq->nents, to, bytes, p->skip);
}

/* Once more, by the driver's way. */
static bool mend_payload(struct dcd_engine *e, const struct dcd_place_in_slot *p, u8 *payload,
			 u32 bytes, u32 *crc)
{
	u8 *copy = kvmalloc(bytes, GFP_NOIO);
	int r = copy ? 0 : -ENOMEM;

	if (!r) {
		copy_in(p, copy, bytes);
		*crc = dcd_crc(copy, bytes);
		r = dcd_nvram_mend(e->nv, payload - (u8 *)e->nv->base, copy, bytes);
	}
	kvfree(copy);
	dcd_count(e, r ? DCD_N_NVRAM_UNMENDED : DCD_N_NVRAM_MENDED, 1);
	return !r;
}

/*
 * Copies and reads it again before it leaves the CPU's caches, for its checksum: the lines
 * may have a media error that nobody has met yet. False: that is so, and the driver can't
 * help it.
 */
static bool fill(struct dcd_engine *e, const struct dcd_place_in_slot *p, u8 *payload, u32 bytes,
		 u32 *crc)
{
	bool good = true;

	copy_in(p, payload, bytes);
	if (!e->keeps)
		*crc = dcd_crc(payload, bytes);
	else if (!payload_crc(e, payload, bytes, crc))
		good = mend_payload(e, p, payload, bytes, crc) || test_knob(keep_void);
	persist(e, payload, bytes);
	return good;
}

/* Entry @number, the first of its batch, and all behind it won't count. Needs @lock. */
static void is_void(struct dcd_engine *e, u64 number)
{
	lockdep_assert_held(&e->lock);
	e->void_from = min(e->void_from, number);
}

/* Of the place of an entry, as the index has it. */
static u64 place_of(const struct dcd_engine *e, const struct dcd_slot *s,
		    const struct dcd_entry *entry)
{
	if (le16_to_cpu(entry->type) != DCD_ENTRY_WRITE)
		return s->segment;
	return s->segment * (e->segment_bytes >> SECTOR_SHIFT) + le32_to_cpu(entry->offset);
}

void dcd_fill(struct dcd_engine *e, const struct dcd_place_in_slot *p)
{
	struct dcd_pending *pend = pending(e, p->number);
	struct dcd_entry *n = &pend->entry;
	u8 *payload = p->slot->base + p->offset;
	u32 bytes = payload_bytes(p);
	enum dcd_op op = p->rq->op;
	u32 crc = ~0U;
	bool kept;

	dawdle(p->number);
	kept = !bytes || fill(e, p, payload, bytes, &crc);
	n->sequence = cpu_to_le64(p->number);
	n->epoch = cpu_to_le64(e->epoch);
	n->sector = cpu_to_le64(p->sector);
	n->batch = cpu_to_le64(p->batch);
	n->sectors = cpu_to_le32(p->sectors);
	n->stored = cpu_to_le32(bytes >> SECTOR_SHIFT);
	n->offset = cpu_to_le32(p->offset >> SECTOR_SHIFT);
	n->type = cpu_to_le16(p->lost ? DCD_ENTRY_LOST :
			      op == DCD_WRITE ? DCD_ENTRY_WRITE :
			      op == DCD_DISCARD ? DCD_ENTRY_DISCARD : DCD_ENTRY_WRITE_ZEROES);
	n->zeroes = !p->lost && op == DCD_DISCARD && e->wipes.to_zeroes;
	n->payload_crc = cpu_to_le32(crc);
	n->crc = cpu_to_le32(dcd_crc(n, sizeof(*n)));
	spin_lock(&e->lock);
	pend->rq = p->last ? p->rq : NULL;
	pend->ready = true;
	if (!kept)
		is_void(e, p->batch ? p->batch - p->entries + 1 : p->number);
	spin_unlock(&e->lock);
	/* Of a batch all at once, as far as nobody else does. */
	if (!p->batch || p->last)
		dcd_publish(e);
}

/* For dcd_acks_early(): until the next slot, so that a cut finds something to lose. */
static void persist_late(struct dcd_engine *e, struct dcd_entry *entries, size_t len)
{
	u8 *p = (u8 *)entries;

	if (p != e->late + e->late_len) {
		if (e->late_len)
			persist(e, e->late, e->late_len);
		e->late = p;
		e->late_len = 0;
	}
	e->late_len += len;
}

/*
 * The same as for payloads: false. A sector of the table that fails is all written anew; what it
 * had before is in memory too, and goes to the log from there.
 */
static bool put_entry(struct dcd_engine *e, struct dcd_slot *s, u32 number,
		      const struct dcd_entry *entry)
{
	u32 at = round_down(number * sizeof(*entry), SECTOR_SIZE);
	u8 *to = s->base + DCD_BLOCK;
	struct dcd_entry copy;

	s->table[number] = *entry;
	if (!e->keeps)
		return true;
	memcpy(to + number * sizeof(*entry), entry, sizeof(*entry));
	if (!dcd_nvram_read(e->nv, to + number * sizeof(*entry), &copy, sizeof(copy), NULL))
		return true;
	dcd_slot_unreadable(e, to + at, 1);
	if (dcd_nvram_mend(e->nv, to + at - (u8 *)e->nv->base, (u8 *)s->table + at, SECTOR_SIZE)) {
		dcd_count(e, DCD_N_NVRAM_UNMENDED, 1);
		return test_knob(keep_void);
	}
	dcd_count(e, DCD_N_NVRAM_MENDED, 1);
	return true;
}

/* In their order, from @from on; up to which they are. Of a batch that is all or nothing. */
static u64 persist_until(struct dcd_engine *e, u64 from, u64 end)
{
	struct dcd_slot *s = pending(e, from)->slot;
	struct dcd_entry *to = in_table(s, from);
	const struct dcd_entry *entry;
	u64 number;

	for (number = from; number < end; number++, to++) {
		entry = &pending(e, number)->entry;
		if (!put_entry(e, s, number - s->first_entry, entry))
			break;
		if (entry->batch)
			dawdle(number);
		if (dcd_acks_early())
			persist_late(e, to, sizeof(*to));
		else
			persist(e, to, sizeof(*to));
		trace_dcd_entry(e, number, s->segment, le64_to_cpu(entry->sector),
				le32_to_cpu(entry->sectors));
	}
	while (number > from && number < end && entry->batch &&
	       pending(e, number - 1)->entry.batch == entry->batch)
		number--;
	return number;
}

/* How many of @n are. Those that only waited for memory are already. */
static unsigned int persist_some(struct dcd_engine *e, u64 first, unsigned int n)
{
	u64 from = clamp(e->persisted, first, first + n);

	if (from == first + n)
		return n;
	e->persisted = persist_until(e, from, first + n);
	/* Without it nobody could tell the newest entry that was damaged from one that is torn. */
	if (e->persisted > from && e->keeps && !dcd_acks_early())
		dcd_end_write(e, e->persisted - 1);
	if (e->persisted == first + n)
		return n;
	spin_lock(&e->lock);
	is_void(e, e->persisted);
	spin_unlock(&e->lock);
	return e->persisted - first;
}

/* Into the index, in their order; how many of @n could be. */
static unsigned int index_some(struct dcd_engine *e, u64 first, unsigned int n)
{
	unsigned int i;

	mutex_lock(&e->intake);
	for (i = 0; i < n; i++) {
		const struct dcd_pending *pend = pending(e, first + i);
		const struct dcd_entry *entry = &pend->entry;

		if (dcd_index_insert(e, le64_to_cpu(entry->sector), le32_to_cpu(entry->sectors),
				     le16_to_cpu(entry->type), place_of(e, pend->slot, entry)))
			break;
	}
	mutex_unlock(&e->intake);
	return i;
}

/* Filled entries of one slot from the next to publish on, batches whole. Needs @lock. */
static unsigned int ready(struct dcd_engine *e)
{
	const struct dcd_slot *s = pending(e, e->published)->slot;
	u64 end = min(e->next_entry, e->void_from);
	unsigned int n = 0, whole = 0;

	lockdep_assert_held(&e->lock);
	while (whole < AT_A_TIME && e->published + n < end) {
		const struct dcd_pending *pend = pending(e, e->published + n);

		if (!pend->ready || pend->slot != s)
			break;
		n++;
		/* One that is longer than what is taken at a time goes alone. */
		if (whole && n > AT_A_TIME)
			break;
		if (le64_to_cpu(pend->entry.batch) <= le64_to_cpu(pend->entry.sequence))
			whole = n;
	}
	return whole;
}

/* These are published. Takes @lock, lets it go and answers. */
static void published(struct dcd_engine *e, unsigned int n)
{
	struct dcd_request *done[AT_A_TIME];
	unsigned int i, ndone = 0;
	struct dcd_slot *s;
	bool whole = false;

	spin_lock(&e->lock);
	for (i = 0; i < n; i++) {
		struct dcd_pending *pend = pending(e, e->published);

		s = pend->slot;
		if (pend->rq) {
			pend->rq->again = pend->rq->began != e->taken_back;
			done[ndone++] = pend->rq;
		}
		e->published++;
		whole = s->state == DCD_SLOT_SEALED &&
			e->published == s->first_entry + s->entries;
	}
	e->publishing = false;
	spin_unlock(&e->lock);
	if (whole)
		mod_delayed_work(e->commit_wq, &e->commit_work, 0);
	if (wq_has_sleeper(&e->room))
		wake_up_all(&e->room);
	for (i = 0; i < ndone; i++)
		dcd_entered(e, done[i]);
}

/*
 * Is the next one void, and all that is behind it filled? Nobody gets a place meanwhile. Needs
 * @lock.
 */
static bool may_take_back(struct dcd_engine *e)
{
	u64 n = e->published;

	lockdep_assert_held(&e->lock);
	if (n != e->void_from)
		return false;
	while (n < e->next_entry && pending(e, n)->ready)
		n++;
	return n == e->next_entry;
}

/*
 * What the table may have of entries from @from on; the last one first: a cut must not leave one
 * that lacks another before it.
 */
static void wipe(struct dcd_engine *e, struct dcd_slot *s, u64 from)
{
	u32 n = e->keeps ? s->entries : 0, keep = from - s->first_entry;

	while (n-- > keep) {
		struct dcd_entry *there = (struct dcd_entry *)(s->base + DCD_BLOCK) + n;

		if (le64_to_cpu(s->table[n].sequence) < from)
			continue;	/* of an earlier lap: this one was never put there */
		memset(s->table + n, 0, sizeof(*s->table));
		memset(there, 0, sizeof(*there));
		persist(e, there, sizeof(*there));
	}
}

static u32 counts_of(const struct dcd_entry *entry)
{
	return dcd_counts(le16_to_cpu(entry->type) == DCD_ENTRY_WRITE ? DCD_WRITE : DCD_DISCARD,
			  le32_to_cpu(entry->stored));
}

/* Entries from @void_from on. The caller is @publishing. */
static void take_back(struct dcd_engine *e)
{
	u64 from = e->void_from, end = e->next_entry, n;	/* nobody changes them now */
	struct dcd_slot *s = pending(e, from)->slot;
	struct dcd_request *rq, *next;
	LIST_HEAD(back);
	u32 counts = 0;

	wipe(e, s, from);
	spin_lock(&e->lock);
	for (n = from; n < end; n++) {
		const struct dcd_pending *pend = pending(e, n);

		if (pend->slot == s)
			counts += counts_of(&pend->entry);
		if (pend->rq)
			list_add_tail(&pend->rq->waiting, &back);
	}
	dcd_slots_take_back(e, s, from - s->first_entry,
			    le32_to_cpu(pending(e, from)->entry.offset) << SECTOR_SHIFT, counts);
	e->next_entry = from;
	e->void_from = DCD_NO_VOID;
	e->taken_back++;
	e->publishing = false;
	spin_unlock(&e->lock);
	dcd_count(e, DCD_N_TAKEN_BACK, end - from);
	mod_delayed_work(e->commit_wq, &e->commit_work, 0);
	queue_work(e->quick_wq, &e->reuse_work);
	wake_up_all(&e->room);
	list_for_each_entry_safe(rq, next, &back, waiting) {
		list_del(&rq->waiting);
		dcd_intake_again(e, rq);
	}
}

/* False: there is nothing to publish now, or somebody else does, or will. */
static bool publish_some(struct dcd_engine *e)
{
	unsigned int n = 0, indexed;
	bool back = false;
	u64 first;

	spin_lock(&e->lock);
	first = e->published;
	if (!e->publishing) {
		n = ready(e);
		back = !n && may_take_back(e);
		e->publishing = n || back;
	}
	spin_unlock(&e->lock);
	if (back)
		take_back(e);
	if (!n)
		return back;
	n = persist_some(e, first, n);
	indexed = index_some(e, first, n);
	if (indexed > 1)
		dcd_count(e, DCD_N_TOGETHER, indexed);
	published(e, indexed);
	if (indexed == n)
		return true;
	dcd_count(e, DCD_N_NOMEM, 1);
	queue_delayed_work(e->quick_wq, &e->publish_work, RETRY_NOMEM);
	return false;
}

void dcd_publish(struct dcd_engine *e)
{
	unsigned int round;

	for (round = 0; publish_some(e); round++) {
		dawdle(READ_ONCE(e->published));
		if (round < ROUNDS)
			continue;
		queue_delayed_work(e->quick_wq, &e->publish_work, 0);
		break;
	}
}

void dcd_publish_worker(struct work_struct *work)
{
	dcd_publish(container_of(to_delayed_work(work), struct dcd_engine, publish_work));
}

static bool all_published(struct dcd_engine *e)
{
	bool yes;

	spin_lock(&e->lock);
	yes = e->published == e->next_entry;
	spin_unlock(&e->lock);
	return yes;
}

void dcd_publish_all(struct dcd_engine *e)
{
	spin_lock(&e->lock);
	dcd_seal_open(e);
	spin_unlock(&e->lock);
	wait_event(e->room, all_published(e));
}

void dcd_published_segments(struct dcd_engine *e, u64 *below, u64 *newest)
{
	const struct dcd_slot *s = e->open;

	lockdep_assert_held(&e->lock);
	if (e->published < e->next_entry)
		s = pending(e, e->published)->slot;
	*below = s ? s->segment : e->head;
	*newest = (s ? s->first_entry : e->next_entry) - 1;
}
