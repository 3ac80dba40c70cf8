// SPDX-License-Identifier: GPL-2.0-only
#include "plan.h"

#define LOOKS	1024U	/* places of a large log that are looked at: as many as can be quickly */

static void refuse(struct dcd_plan *p, enum dcd_refusal refusal, u64 a, u64 b)
{
	p->want = DCD_REFUSED;
	p->refusal = refusal;
	p->a = a;
	p->b = b;
}

void dcd_plan_begin(struct dcd_plan *p, const struct dcd_geometry *g,
		    const struct dcd_super *super, const struct dcd_nvram_header *header,
		    u64 newest)
{
	memset(p, 0, sizeof(*p));
	p->g = g;
	p->applied = le64_to_cpu(super->applied);
	if (header)
		p->applied = max_t(u64, p->applied, le64_to_cpu(header->applied));
	p->known = max_t(u64, newest, le64_to_cpu(super->newest));
	p->ends = newest;
	p->tail = le64_to_cpu(super->tail);
	p->next = p->tail;
	p->place = p->tail;
	p->want = DCD_WANT_SEGMENT;
	if (header && g->nvram && dcd_header_is_old(super, header))
		refuse(p, DCD_REFUSE_OLD, le64_to_cpu(header->generation),
		       le64_to_cpu(super->generation));
}

static void go_on_at(struct dcd_plan *p, u64 sequence)
{
	p->next = sequence;
	p->place = sequence;
	p->named = false;
	p->from = 0;
	p->until = 0;
	p->want = DCD_WANT_SEGMENT;
}

static void tell(struct dcd_plan *p, enum dcd_note note, u64 a, u64 b)
{
	p->note = note;
	p->a = a;
	p->b = b;
}

/*
 * No power cut made what is at @next, but it is known what should be there: it is read once more,
 * and taken.
 */
static bool take_wounded(struct dcd_plan *p)
{
	if (!p->named || p->strict)
		return false;
	p->take = true;
	go_on_at(p, p->next);
	return true;
}

/* Nothing is known of it, but that the one behind it, @found, begins at entry @until. */
static bool take_copy(struct dcd_plan *p, u64 found, u64 until)
{
	if (p->named || p->strict || !p->g->nvram || found != p->next + 1)
		return false;
	p->take = true;
	go_on_at(p, p->next);
	p->from = max(p->newest, p->applied) + 1;
	p->until = until;
	p->found = found;
	return true;
}

static bool is_damage(enum dcd_segment_kind kind)
{
	return kind == DCD_SEGMENT_FLIPPED || kind == DCD_SEGMENT_DAMAGED;
}

/* Nothing is behind @next in the log. */
static void log_ends(struct dcd_plan *p)
{
	bool damaged = is_damage(p->kind);

	/* An NVRAM shows whether it counts: it has all of it, or something behind it. */
	if ((damaged || p->error) && !p->g->nvram) {
		if (!take_wounded(p))
			refuse(p, DCD_REFUSE_END, p->next, 0);
		return;
	}
	if (damaged || p->error)
		tell(p, DCD_NOTE_END, p->next, 0);
	p->newest = max(p->newest, p->applied);
	if (p->newest == p->applied)
		p->tail = p->next;
	p->want = DCD_WANT_SLOTS;
}

static void look_on(struct dcd_plan *p)
{
	if (p->asked == min_t(u64, p->g->segments, LOOKS)) {
		log_ends(p);
		return;
	}
	p->place = p->next + p->asked++;
	p->want = DCD_WANT_HEADER;
}

/* Of what would be live. */
static u32 damaged_payloads(const struct dcd_plan *p, const void *seg)
{
	u32 i, n = 0, entries = le32_to_cpu(((const struct dcd_segment *)seg)->entries);

	for (i = 0; i < entries; i++)
		n += le64_to_cpu(dcd_entry_at(seg, i)->sequence) > p->applied &&
		     !dcd_entry_valid(p->g, seg, i);
	return n;
}

/* The last entry that what is there speaks of, as much of it as a cut has left. */
static u64 begun(const struct dcd_plan *p, const void *seg)
{
	const struct dcd_segment *h = seg;
	u64 last = 0;
	u32 i;

	if (p->kind == DCD_SEGMENT_TORN)
		last = le64_to_cpu(h->first_entry) + le32_to_cpu(h->entries) - 1;
	for (i = 0; i < dcd_table_entries(p->g); i++)
		if (dcd_entry_named(p->g, seg, i))
			last = max_t(u64, last, le64_to_cpu(dcd_entry_at(seg, i)->sequence));
	return last;
}

/* What is at @next, and can it be taken at all? */
static bool look_at(struct dcd_plan *p, const void *seg)
{
	bool take = p->take, copy = p->until;

	p->take = false;
	p->from = 0;
	p->until = 0;
	p->kind = dcd_segment_parse(p->g, seg, p->next);
	p->wounded = false;
	p->named = false;
	if (p->kind == DCD_SEGMENT_VALID)
		return true;
	p->begun = p->g->nvram ? begun(p, seg) : 0;
	p->begun_at = p->next;
	p->named = p->kind != DCD_SEGMENT_NEWER && dcd_segment_named(p->g, seg, p->next);
	if (p->kind == DCD_SEGMENT_NEWER)
		refuse(p, DCD_REFUSE_NEWER, p->next, 0);
	else if (p->named && take)
		p->wounded = true;
	else if (copy)
		refuse(p, DCD_REFUSE_MIDDLE, p->next, p->found);
	else if (p->error && !p->g->nvram && (!p->named || p->strict))
		refuse(p, DCD_REFUSE_UNREADABLE, p->next, 0);
	else
		look_on(p);
	return p->wounded;
}

bool dcd_plan_segment(struct dcd_plan *p, const void *seg, int error)
{
	const struct dcd_segment *h = seg;
	u64 first;

	p->note = DCD_NOTE_NONE;
	p->error = error;
	p->asked = 0;
	if (!look_at(p, seg))
		return false;
	if (p->next - p->tail >= p->g->segments) {
		refuse(p, DCD_REFUSE_RING, p->next, 0);
		return false;
	}
	/* Retired entries and those of the log must join. */
	first = le64_to_cpu(h->first_entry);
	if (first > max(p->newest, p->applied) + 1) {
		refuse(p, DCD_REFUSE_JOIN, first, max(p->newest, p->applied) + 1);
		return false;
	}
	if (h->entries)
		p->newest = max_t(u64, p->newest, first + le32_to_cpu(h->entries) - 1);
	if (p->wounded)
		tell(p, DCD_NOTE_WOUNDED, p->next, damaged_payloads(p, seg));
	go_on_at(p, p->next + 1);
	return true;
}

/*
 * Segments become durable in their order, and none is used again before a
 * superblock says so: a later one means damage, or what NVRAM took past a log
 * that failed.
 */
void dcd_plan_header(struct dcd_plan *p, const void *sector, int error)
{
	const struct dcd_segment *h = sector;
	enum dcd_segment_kind kind = DCD_SEGMENT_BLANK;
	u64 found = 0;

	p->note = DCD_NOTE_NONE;
	if (!error)
		kind = dcd_segment_header(p->g, sector, p->place, &found);
	if (p->kind == DCD_SEGMENT_TORN && p->place == p->next + 1 && !p->g->nvram &&
	    (error || is_damage(kind))) {
		/* No cut does that to the one behind: which of them was torn nobody knows. */
		p->kind = kind;
		p->error = error;
		refuse(p, error ? DCD_REFUSE_UNREADABLE : DCD_REFUSE_END, p->place, 0);
		return;
	}
	if (found <= p->next) {
		look_on(p);
		return;
	}
	if (le64_to_cpu(h->first_entry) > p->applied + 1) {
		if (!take_wounded(p) && !take_copy(p, found, le64_to_cpu(h->first_entry)))
			refuse(p, DCD_REFUSE_MIDDLE, p->next, found);
		return;
	}
	tell(p, DCD_NOTE_PASSED_OVER, p->next, found);
	p->tail = found;
	go_on_at(p, found);
}

static const struct dcd_slot_scan *beginning_at(u64 entry, const struct dcd_slot_scan *scans,
						u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (scans[i].entries && scans[i].first == entry)
			return &scans[i];
	return NULL;
}

/* A slot that can't be used whatever the others have, or that there is twice. */
static bool bad_slot(struct dcd_plan *p, const struct dcd_slot_scan *scans, u32 n)
{
	u32 i, j;

	for (i = 0; i < n; i++) {
		const struct dcd_slot_scan *s = scans + i;

		if (s->damaged) {
			refuse(p, DCD_REFUSE_SLOT, i, s->first + s->entries + s->left);
			return true;
		}
		for (j = 0; s->first && j < i; j++) {
			if (scans[j].first != s->first)
				continue;
			refuse(p, DCD_REFUSE_TWICE, i, s->first);
			return true;
		}
	}
	return false;
}

/*
 * An end record is damaged, and the other one may be the older one. Then so many were
 * published after it, and of these some are there.
 */
void dcd_plan_missing(struct dcd_plan *p, u64 newest)
{
	u64 there = newest - min(p->ends, newest);

	if (!p->end_bad)
		return;
	if (!p->ends)
		p->missing = U64_MAX;
	else if (there < DCD_ENDS_APART)
		p->missing = DCD_ENDS_APART - there;
	if (p->missing)
		tell(p, DCD_NOTE_MISSING, newest, 0);
}

/*
 * The end is before entry @next. Nothing may be behind it but the beginning of a batch,
 * and it may not be before what is known to have been there.
 */
static void slots_end(struct dcd_plan *p, u64 next, const struct dcd_slot_scan *scans, u32 n)
{
	u64 end = next, goes_on = U64_MAX, most = 0;
	bool unread = false;
	u32 i;

	for (i = 0; i < n; i++)
		if (scans[i].first && scans[i].first + scans[i].entries == next)
			end = next + scans[i].left;
	for (i = 0; i < n; i++) {
		const struct dcd_slot_scan *s = scans + i;

		most = max(most, s->highest);
		unread = unread || s->unread;
		if (s->first > next)
			goes_on = min(goes_on, s->first);
		else if (s->resumes > next)
			goes_on = min(goes_on, s->resumes);
	}
	p->most = max(most, p->known);
	p->last = next - 1;
	/*
	 * Nothing gets to the log, or to the data disk, before an end record names it. So blank
	 * records (@ends is 0) are those of an NVRAM of before the first write.
	 */
	if (p->g->nvram && !p->end_bad && p->ends < max(p->newest, p->begun)) {
		refuse(p, DCD_REFUSE_OLD, p->ends, max(p->newest, p->begun));
		return;
	}
	if ((most >= end || p->known >= next) && take_wounded(p))
		return;
	if (most >= end)
		refuse(p, DCD_REFUSE_GAP, next, min(goes_on, most));
	else if (p->known >= next)
		refuse(p, DCD_REFUSE_LOST, next, p->known);
	else if (p->end_bad && unread)
		refuse(p, DCD_REFUSE_UNREAD, next, 0);
	else
		p->want = DCD_WANT_NVRAM;
	if (p->want == DCD_WANT_NVRAM)
		dcd_plan_missing(p, next - 1);
}

void dcd_plan_slots(struct dcd_plan *p, const struct dcd_slot_scan *scans, u32 n)
{
	u64 next = p->newest + 1;
	const struct dcd_slot_scan *s;
	u32 turns = n;

	p->note = DCD_NOTE_NONE;
	if (bad_slot(p, scans, n))
		return;
	while (turns-- && (s = beginning_at(next, scans, n)))
		next += s->entries;
	slots_end(p, next, scans, n);
}

int dcd_plan_slot(struct dcd_plan *p, const struct dcd_slot_scan *scans, u32 n)
{
	const struct dcd_slot_scan *s = beginning_at(p->newest + 1, scans, n);

	if (s)
		return s - scans;
	p->want = DCD_DONE;
	return -1;
}

void dcd_plan_took(struct dcd_plan *p, const struct dcd_slot_scan *scan)
{
	p->newest += scan->entries;
	p->next++;
}

bool dcd_plan_leftover(const struct dcd_plan *p)
{
	return p->begun > p->newest;
}

static int refusal_text(const struct dcd_plan *p, char *buf, size_t size)
{
	unsigned long long a = p->a, b = p->b;

	switch (p->refusal) {
	case DCD_REFUSE_UNREADABLE:
		return scnprintf(buf, size, "can't read segment %llu: error %d; it may hold acknowledged writes: mend that disk. A copy of it with holes opens as if nothing had been there: `dcd recover --salvage` tells what is lost.",
				 a, p->error);
	case DCD_REFUSE_NEWER:
		return scnprintf(buf, size, "segment %llu is of a newer format: use a newer program",
				 a);
	case DCD_REFUSE_RING:
		return scnprintf(buf, size, "segment %llu is one more than the ring has places: the log is damaged.",
				 a);
	case DCD_REFUSE_JOIN:
		return scnprintf(buf, size, "segment %llu begins at entry %llu, %llu is expected: the log is damaged.",
				 (unsigned long long)p->next, a, b);
	case DCD_REFUSE_MIDDLE:
		return scnprintf(buf, size, "segment %llu (or the newest copy of the superblock) is damaged%s%s, but segment %llu is there: acknowledged writes from entry %llu on may be lost; restore the log from a copy.",
				 a, p->error ? "" : ", it is ",
				 p->error ? "" : dcd_segment_kind_name(p->kind), b,
				 (unsigned long long)max(p->newest, p->applied) + 1);
	case DCD_REFUSE_END:
		return scnprintf(buf, size, "segment %llu is %s, not torn by a power cut: it may hold acknowledged writes; restore the log from a copy.",
				 a, dcd_segment_kind_name(p->kind));
	case DCD_REFUSE_GAP:
		return scnprintf(buf, size, "entries %llu to %llu are neither in the log nor in NVRAM, later ones up to %llu are there: log or NVRAM are damaged, or of another time. Up to %llu acknowledged writes may be lost: restore log and NVRAM from a copy.",
				 a, b - 1, (unsigned long long)p->most, p->most - a + 1);
	case DCD_REFUSE_SLOT:
		return scnprintf(buf, size, "entry %llu in slot %llu of the NVRAM is damaged, not torn by a power cut: it may be an acknowledged write; restore the NVRAM from a copy.",
				 b, a);
	case DCD_REFUSE_TWICE:
		return scnprintf(buf, size, "slot %llu of the NVRAM has entries from %llu on, and another slot has them too: what was in one of them is overwritten; restore the NVRAM from a copy.",
				 a, b);
	case DCD_REFUSE_LOST:
		return scnprintf(buf, size, "the newest entries, %llu to %llu, are %sin the log%s, but they were acknowledged: damaged, or of another time. Up to %llu acknowledged writes may be lost: restore %s from a copy.",
				 a, b, p->g->nvram ? "neither " : "not ",
				 p->g->nvram ? " nor in NVRAM" : "", b - a + 1,
				 p->g->nvram ? "log and NVRAM" : "the log");
	case DCD_REFUSE_OLD:
		return scnprintf(buf, size, "the NVRAM is of an earlier time than the log (%llu there, %llu in the log): what it had acknowledged since may be lost; restore the NVRAM as it was last, not an earlier copy.",
				 a, b);
	case DCD_REFUSE_UNREAD:
		return scnprintf(buf, size, "the NVRAM has media errors where entry %llu may have been, and in the record that would tell: it may be an acknowledged write; restore the NVRAM from a copy.",
				 a);
	default:
		return 0;
	}
}

static int missing_text(const struct dcd_plan *p, char *buf, size_t size)
{
	int n = scnprintf(buf, size, "of the two records of the NVRAM that name its newest entry %s: if one of the newest entries is damaged, too, ",
			  p->ends ? "one is damaged or can't be read" : "none is right");

	if (p->missing == U64_MAX)
		n += scnprintf(buf + n, size - n, "any number of");
	else
		n += scnprintf(buf + n, size - n, "up to %llu",
			       (unsigned long long)p->missing);
	return n + scnprintf(buf + n, size - n, " acknowledged writes may be missing behind entry %llu, and nothing else would tell",
			     (unsigned long long)p->a);
}

int dcd_plan_text(const struct dcd_plan *p, char *buf, size_t size)
{
	int n;

	if (p->want == DCD_REFUSED) {
		n = refusal_text(p, buf, size);
		if (p->refusal == DCD_REFUSE_NEWER)
			return n;
		return n + scnprintf(buf + n, size - n, " `dcd format` gives up what only log and NVRAM have: save them and the data disk before it, and copy the data anew after it");
	}
	if (p->note == DCD_NOTE_MISSING)
		return missing_text(p, buf, size);
	if (p->error)
		n = scnprintf(buf, size, "can't read segment %llu: error %d; ",
			      (unsigned long long)p->a, p->error);
	else
		n = scnprintf(buf, size, "segment %llu is %s; ", (unsigned long long)p->a,
			      dcd_segment_kind_name(p->kind));
	if (p->note == DCD_NOTE_WOUNDED)
		n += scnprintf(buf + n, size - n,
			       "what was written there is known, but %llu of its writes are damaged: unless the data disk has them they are lost, medium errors until something is written over them",
			       (unsigned long long)p->b);
	else if (p->note == DCD_NOTE_PASSED_OVER)
		n += scnprintf(buf + n, size - n,
			       "all before segment %llu is on the data disk, going on there",
			       (unsigned long long)p->b);
	else
		n += scnprintf(buf + n, size - n,
			       "nothing is behind it in the log, so it ends there; NVRAM knows if there is more");
	return n;
}

const char *dcd_refusal_name(enum dcd_refusal refusal)
{
	static const char *const names[] = {
		[DCD_REFUSE_NOTHING] = "none",
		[DCD_REFUSE_UNREADABLE] = "segment_unreadable",
		[DCD_REFUSE_NEWER] = "segment_of_newer_format",
		[DCD_REFUSE_RING] = "ring_overrun",
		[DCD_REFUSE_JOIN] = "entries_missing_in_log",
		[DCD_REFUSE_MIDDLE] = "segment_missing",
		[DCD_REFUSE_END] = "last_segment_damaged",
		[DCD_REFUSE_GAP] = "entries_missing_in_nvram",
		[DCD_REFUSE_SLOT] = "nvram_entry_damaged",
		[DCD_REFUSE_TWICE] = "nvram_slot_twice",
		[DCD_REFUSE_LOST] = "newest_entries_missing",
		[DCD_REFUSE_OLD] = "nvram_older",
		[DCD_REFUSE_UNREAD] = "nvram_unreadable",
	};

	return names[refusal];
}

int dcd_plan_errno(const struct dcd_plan *p)
{
	switch (p->refusal) {
	case DCD_REFUSE_NOTHING:
		return 0;
	case DCD_REFUSE_UNREADABLE:
		return p->error;
	case DCD_REFUSE_NEWER:
		return -EOPNOTSUPP;
	default:
		return -EUCLEAN;
	}
}
