/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plan: recovery's decision what is live, as a state machine that does no I/O. The
 * module's recovery and `dcd check|dump|recover` feed the same one, so they can't
 * disagree.
 *
 * The caller does what @want says, until it is DONE or REFUSED:
 *
 *   SEGMENT  read segment_bytes at dcd_place_of(@place), dcd_plan_segment(); if
 *            that says so, its entries above @applied are live, in their order; if it
 *            is @wounded, those that aren't dcd_entry_valid() are lost
 *   HEADER   read the first sector there, dcd_plan_header()
 *   SLOTS    the log is known. Scan all slots of the NVRAM (none if there is no
 *            header) with dcd_slot_scan(, @newest), dcd_plan_slots()
 *   NVRAM    nothing more can be refused. dcd_plan_slot() tells slot for slot whose
 *            entries are live behind those before
 *
 * Live, in this order: entries above @applied in the segments [@tail, @next) that
 * were fed, then those of the slots. Each slot becomes the segment @next of its turn.
 *
 * What can be missing without loss: a segment that never became durable, with
 * nothing behind it in the log, and either nothing behind it in NVRAM or all of it
 * there; segments whose entries are all on the data disk. And what of a batch is in NVRAM
 * behind everything else. Everything else is refused: what has something behind it, or was
 * there once by the NVRAM's end record or the superblock, is no end that a power cut made.
 *
 * One damage makes no end, but that of an end record and one of the newest entries can: where one
 * of the records is damaged (@end_bad) it is noted how many writes may be @missing.
 *
 * What NVRAM can't read (dcd_slot_scan()) is no end either. Entries of which only the payload
 * can't be read are taken: their blocks are lost, and known, unless the data disk has them.
 *
 * A segment that would be refused is wanted once more (@take). Whoever has another copy of it, or
 * of some of it, hands that in: where header or table are gone, but the segment behind it is there,
 * a slot that has entries from @from or before to just before @until has all of it
 * (dcd_segment_of_slot()). Else it is known what was written there if
 * its header and table are right: then it is taken @wounded, and what is damaged of its
 * payloads is as if it were DCD_ENTRY_LOST. When all is known, the caller asks the data disk for
 * what is left of those in the end (dcd_entry_from_data()): what it has isn't lost.
 *
 * Any context, no locks, doesn't sleep. The caller's own: a plan, its geometry and scans.
 */
#ifndef DCD_PLAN_H
#define DCD_PLAN_H

#include "parse.h"

enum dcd_want {
	DCD_WANT_SEGMENT,
	DCD_WANT_HEADER,
	DCD_WANT_SLOTS,
	DCD_WANT_NVRAM,
	DCD_DONE,
	DCD_REFUSED,
};

enum dcd_refusal {
	DCD_REFUSE_NOTHING,
	DCD_REFUSE_UNREADABLE,	/* a segment that may count */
	DCD_REFUSE_NEWER,	/* its format isn't known */
	DCD_REFUSE_RING,	/* more live segments than the ring has places */
	DCD_REFUSE_JOIN,	/* entries are missing between it and what is before */
	DCD_REFUSE_MIDDLE,	/* it isn't there, a later one is */
	DCD_REFUSE_END,		/* the last one is damaged, and no NVRAM can have it */
	DCD_REFUSE_GAP,		/* NVRAM has later entries than the ones behind the log */
	DCD_REFUSE_SLOT,	/* an entry in NVRAM is damaged */
	DCD_REFUSE_TWICE,	/* two slots have the same entries */
	DCD_REFUSE_LOST,	/* nothing is behind the end, but there was */
	DCD_REFUSE_OLD,		/* the NVRAM is of an earlier time than the log */
	DCD_REFUSE_UNREAD,	/* the newest entry can't be known, and more can't be read */
	DCD_REFUSALS,
};

/* Worth telling, but no harm. */
enum dcd_note {
	DCD_NOTE_NONE,
	DCD_NOTE_PASSED_OVER,	/* segments that can't be read are on the data disk */
	DCD_NOTE_END,		/* what ends the log can't be read; NVRAM has it or nothing */
	DCD_NOTE_WOUNDED,	/* of a segment that was taken some payloads are damaged: @b */
	DCD_NOTE_MISSING,	/* behind entry @a, @missing */
};

struct dcd_plan {
	const struct dcd_geometry *g;
	enum dcd_want want;
	u64 place;		/* sequence whose place is wanted */
	u64 applied;		/* newest entry on the data disk, by superblock and NVRAM header */
	u64 tail;		/* first segment that counts, at or behind the superblock's */
	u64 next;		/* segment behind the last */
	u64 newest;		/* entry */
	u64 known;		/* entries up to it were there once */
	bool end_bad;		/* the caller's, from the NVRAM's header: perhaps more were */
	u64 ends;		/* what the end records say */
	u64 last;		/* NVRAM: entry, the newest of all */
	u64 missing;		/* at most so many writes, behind @newest; U64_MAX: any number */
	u64 most;		/* GAP: the highest entry that is or was there */
	bool wounded;		/* of the segment that was taken last */
	bool take;		/* so is what is wanted; who has another copy hands that in */
	u64 from, until;	/* entries of that copy, if nothing is known of it; else 0 */
	bool strict;		/* the caller's: wounded ones are refused */
	enum dcd_note note;	/* of the last call */
	enum dcd_refusal refusal;
	u64 a, b;		/* what note or refusal is about */
	int error;		/* likewise */
	/* its own */
	enum dcd_segment_kind kind;	/* of what is at @next */
	u64 asked;		/* places looked at for a later segment */
	bool named;		/* what is at @next could be taken wounded */
	u64 begun;		/* with an NVRAM: the last entry that it speaks of, or 0 */
	u64 begun_at;		/* the segment */
	u64 found;		/* the later segment, while a copy is asked for */
};

/*
 * @header: of an NVRAM that keeps its content, or of another @applied alone, by what the data
 * disk or the kernel knows (beyond.h); NULL: nothing. @newest: what the NVRAM's end records say,
 * as struct dcd_header_found has it.
 */
void dcd_plan_begin(struct dcd_plan *p, const struct dcd_geometry *g,
		    const struct dcd_super *super, const struct dcd_nvram_header *header,
		    u64 newest);
/* @error: 0, or reading it failed: what can't be read is zeroes. True: take its entries. */
bool __must_check dcd_plan_segment(struct dcd_plan *p, const void *seg, int error);
void dcd_plan_header(struct dcd_plan *p, const void *sector, int error);
void dcd_plan_slots(struct dcd_plan *p, const struct dcd_slot_scan *scans, u32 n);
/*
 * The slot whose entries are to be taken next, as segment p->next; -1: no more (DCD_DONE).
 * Then dcd_plan_took().
 */
int dcd_plan_slot(struct dcd_plan *p, const struct dcd_slot_scan *scans, u32 n);
void dcd_plan_took(struct dcd_plan *p, const struct dcd_slot_scan *scan);

/*
 * All that counts ends with entry @newest: tells what may be @missing behind it. Of a set that is
 * refused, whose entries somebody finds by himself (tools/salvage.c).
 */
void dcd_plan_missing(struct dcd_plan *p, u64 newest);

/*
 * DCD_DONE: what a cut has left of segment @begun_at speaks of entries that nobody has any more, as
 * may be when the end records are damaged, too. An NVRAM that doesn't know them is an older one, so
 * this is to be wiped (header and table) before end records are written.
 */
bool dcd_plan_leftover(const struct dcd_plan *p);

/* The refusal, or the note, in words, and what to do. Returns the length. */
int dcd_plan_text(const struct dcd_plan *p, char *buf, size_t size);
/* Words for programs. */
const char *dcd_refusal_name(enum dcd_refusal refusal);
/* As a negative errno. */
int dcd_plan_errno(const struct dcd_plan *p);

#endif
