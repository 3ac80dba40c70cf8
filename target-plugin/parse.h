/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Parse: what is on a log disk and in NVRAM (dcd-format.h): which copy of the
 * superblock and of the NVRAM header counts, what a place of the ring holds,
 * which entries of a slot are whole.
 *
 * Pure functions on the caller's memory: any context, no locks, they don't
 * sleep. The module and the command `dcd` use the same code.
 *
 * Nothing that is read is trusted: what is accepted has a right checksum, belongs
 * to this format (uuid and epoch), and fits the devices. Whatever else the bytes
 * are, no function reads outside of what it was given.
 */
#ifndef DCD_PARSE_H
#define DCD_PARSE_H

#include "dcd-port.h"
#include "dcd-format.h"

/* What doesn't change during the life of a format. */
struct dcd_geometry {
	u8 uuid[16];
	u64 epoch;
	u64 data_sectors;
	u64 segments;
	u32 segment_bytes;
	u32 table_bytes;
	bool nvram;		/* belongs to an NVRAM with a header */
};

/* Sector in the log where segment @sequence begins. */
static inline u64 dcd_place_of(const struct dcd_geometry *g, u64 sequence)
{
	u64 at;

	div64_u64_rem(sequence, g->segments, &at);
	return (DCD_RING_START + at * g->segment_bytes) >> SECTOR_SHIFT;
}

static inline u32 dcd_table_entries(const struct dcd_geometry *g)
{
	return g->table_bytes / sizeof(struct dcd_entry);
}

/* Generations and sequences go up one by one: what is above has not been counted. */
#define DCD_COUNTER_MAX	(U64_MAX / 2)

/* crc32c as dcd-format.h says. */
u32 dcd_crc(const void *p, size_t bytes);

/* Why a superblock, a header, or what they lead to can't be used. */
enum dcd_reason {
	DCD_OK,
	DCD_BLANK,		/* zeroes in both copies */
	DCD_NO_MAGIC,		/* something else's */
	DCD_BAD_CRC,		/* ours, both copies are damaged */
	DCD_BAD_VERSION,	/* @a: version */
	DCD_BAD_FEATURES,	/* @a: unknown bits */
	DCD_BAD_GEOMETRY,	/* the numbers contradict each other */
	DCD_BAD_COUNTER,	/* @a: what no generation or sequence comes to */
	DCD_OTHER_DATA,		/* @a: sectors of the data disk it belongs to, @b: of this one */
	DCD_TRUNCATED,		/* @a: bytes it was formatted with, @b: there are */
	DCD_OTHER_UUID,		/* NVRAM of another log */
	DCD_OTHER_EPOCH,	/* of the same log before it was formatted anew */
	DCD_OTHER_SLOTS,	/* slots of another size than the log's segments */
	DCD_RETIRED,		/* all else is right: geometry is set */
	DCD_REASONS,
};

enum dcd_copy {
	DCD_COPY_VALID,
	DCD_COPY_BLANK,
	DCD_COPY_FOREIGN,	/* no magic of ours */
	DCD_COPY_DAMAGED,	/* magic, wrong checksum: a copy is one sector, it can't be torn */
	DCD_COPY_UNREAD,	/* a media error */
};

struct dcd_super_found {
	enum dcd_reason reason;
	u64 a, b;			/* what @reason is about */
	enum dcd_copy copies[2];
	unsigned int counts;		/* the copy that counts */
	bool differ;			/* the other one is damaged, or knows another size */
	u64 other_tail, other_applied;	/* the other one's; 0: it isn't valid */
	struct dcd_super super;		/* of the valid copy that counts, else zeroes */
	struct dcd_geometry geometry;	/* if @reason is DCD_OK or DCD_RETIRED */
};

struct dcd_header_found {
	enum dcd_reason reason;
	u64 a, b;
	enum dcd_copy copies[2];
	unsigned int counts;
	struct dcd_nvram_header header;
	u64 other_applied;		/* the other copy's; 0: it isn't valid */
	u64 newest;			/* by the end records; 0: they say nothing */
	enum dcd_copy ends[2];		/* the end records: VALID, BLANK, DAMAGED or UNREAD */
	unsigned int end_older;		/* the one to be written next */
	bool end_bad;			/* there may have been a newer one */
};

/**
 * dcd_super_find - the superblock of a log disk
 * @blocks: 2 * DCD_BLOCK, the log disk's first
 * @data_sectors: 0: there is no data disk to compare with
 *
 * Of two valid copies the one with the higher generation counts.
 */
void dcd_super_find(const void *blocks, u64 data_sectors, u64 log_sectors,
		    struct dcd_super_found *f);

/**
 * dcd_header_find - the NVRAM header
 * @base: DCD_BLOCK bytes
 * @unread: a byte for each sector of them: it can't be read, and is zeroes; NULL: all can
 * @bytes: the NVRAM's
 * @g: of the log it has to belong to; NULL: not asked
 */
void dcd_header_find(const void *base, const u8 *unread, u64 bytes,
		     const struct dcd_geometry *g, struct dcd_header_found *f);
/* The end records alone, of a format with f->header.epoch; likewise. */
void dcd_ends_find(struct dcd_header_found *f, const void *base, const u8 *unread);

/* @sectors of the data disk from @sector on, and how long ago they came there: dcd-format.h. */
struct dcd_witnessed {
	u64 sector;
	u32 sectors;
	u32 crc;
	unsigned int octave;	/* below DCD_WITNESS_OCTAVES */
};

/* Number @i; false: there is none. */
bool dcd_witness_of(const struct dcd_super *s, u32 i, struct dcd_witnessed *w);
/* These @n, and no others. dcd_super_next() comes before it is written. */
void dcd_witness_name(struct dcd_super *s, const struct dcd_witnessed *w, u32 n);
/* The header gets these, before it says @applied; DCD_PASSED at most. */
void dcd_witness_pass(struct dcd_nvram_header *h, const struct dcd_witnessed *w, u32 n,
		      u64 applied);
/* The header says more than the superblock: its witnesses count, if it has any. */
void dcd_witness_passed(struct dcd_super *s, const struct dcd_nvram_header *h);
/*
 * Where the end of the data disk may be for a mirror's leg: of the disk that has @sectors now, or
 * that it had before it grew (dcd-format.h, grown; the superblock of a log that was left doesn't
 * grow). @i is below DCD_ENDS, the newest has 0. In sectors, or 0: none.
 */
#define DCD_ENDS	(DCD_GROWN + 2)
u64 dcd_data_end(const struct dcd_super *s, u64 sectors, u32 i);
/* The disk had @sectors. That at the end of which the @leg lies stays in any case; 0: none does. */
void dcd_grown_add(struct dcd_super *s, u64 sectors, u64 leg);

/* The next generation of it, ready to be written to copy number (generation & 1), its result. */
unsigned int dcd_super_next(struct dcd_super *s, u64 tail, u64 applied);
unsigned int dcd_header_next(struct dcd_nvram_header *h, u64 applied);
/*
 * Before a superblock is written: two dcd_header_next(), both written, and then dcd_super_next().
 * The superblock is then newer than any header of before (DCD_SUPER_JOINED), and both go on with
 * the copies whose turn it is.
 */
void dcd_generations_join(struct dcd_super *s, struct dcd_nvram_header *h);
/* It is of a time before the log's superblock. */
bool dcd_header_is_old(const struct dcd_super *s, const struct dcd_nvram_header *h);
/* An end record, ready to be written. @end is read, too, so it isn't NVRAM itself. */
void dcd_end_make(struct dcd_nvram_end *end, u64 epoch, u64 newest);

/* As the above, and retired: all copies have to be written with this. */
void dcd_super_retire(struct dcd_super *s);
void dcd_header_retire(struct dcd_nvram_header *h);

/* The reason in words, and what to do; begins with what it speaks of. Returns the length. */
int dcd_super_text(const struct dcd_super_found *f, char *buf, size_t size);
int dcd_header_text(const struct dcd_header_found *f, char *buf, size_t size);
/* A word for it, for programs. */
const char *dcd_reason_name(enum dcd_reason reason);
/* As a negative errno. */
int dcd_reason_errno(enum dcd_reason reason);

/* What a place of the ring holds, when segment @sequence is expected there. */
enum dcd_segment_kind {
	DCD_SEGMENT_VALID,	/* that one, whole */
	DCD_SEGMENT_BLANK,	/* zeroes in the header's sector: never written */
	DCD_SEGMENT_FOREIGN,	/* another format's (of this disk, before), or no segment at all */
	DCD_SEGMENT_STALE,	/* an earlier one of ours: this one never got here */
	DCD_SEGMENT_LATER,	/* a later one of ours: this one was overwritten */
	DCD_SEGMENT_TORN,	/* its header, but not all of what belongs to it */
	DCD_SEGMENT_FLIPPED,	/* this one but for a single bit: nothing but damage does that */
	DCD_SEGMENT_DAMAGED,	/* our header with a wrong checksum, or it is nonsense */
	DCD_SEGMENT_NEWER,	/* a format that this code doesn't know */
	DCD_SEGMENT_KINDS,
};

const char *dcd_segment_kind_name(enum dcd_segment_kind kind);

/*
 * Of the header's sector alone (SECTOR_SIZE bytes): VALID says no more than that
 * the header is the expected one's. @found: the sequence it has, 0 if it has none.
 */
enum dcd_segment_kind dcd_segment_header(const struct dcd_geometry *g, const void *sector,
					 u64 sequence, u64 *found);
/* @seg: segment_bytes. If VALID, all of its entries are, and in their order. */
enum dcd_segment_kind dcd_segment_parse(const struct dcd_geometry *g, const void *seg,
					u64 sequence);

/*
 * Of one that isn't VALID: are header and table right, so that it is known what every entry was
 * to write? Then those are wrong that aren't dcd_entry_valid(). A torn one may be like that too.
 */
bool dcd_segment_named(const struct dcd_geometry *g, const void *seg, u64 sequence);

/*
 * @seg is one that could be taken wounded, or nothing that is known. Those of its payloads that
 * are wrong, and right in @slot, are copied from there. Returns whether there was any.
 */
bool dcd_segment_from_slot(const struct dcd_geometry *g, void *seg, const void *slot,
			   u64 sequence);

/*
 * @seg becomes segment @sequence if @slot has all of its entries: from one at or before @from on
 * (never 0), up to just before @until, whole, without a gap. False: it is as it was.
 */
bool dcd_segment_of_slot(const struct dcd_geometry *g, void *seg, const void *slot, u64 sequence,
			 u64 from, u64 until);

/*
 * Of a segment that is named, a write whose payload is wrong. @data: what the data disk has in its
 * sectors; @left: a byte for each, nonzero where nothing later was written. Is what is @left
 * there this write? Its checksum is of all of it. So either the data disk has all of it; or
 * it has what is left, as the log has the right bytes of the rest. Then the payload in @seg becomes
 * right. That data disk and log have the same in a sector says nothing: both may be from before.
 */
bool dcd_entry_from_data(void *seg, u32 number, const void *data, const u8 *left);

/* @seg: a segment or a slot; @number below dcd_table_entries(). */
static inline const struct dcd_entry *dcd_entry_at(const void *seg, u32 number)
{
	return (const struct dcd_entry *)((const u8 *)seg + DCD_BLOCK) + number;
}

/* Of this epoch, whole but for its payload, and within segment and data disk. */
bool dcd_entry_named(const struct dcd_geometry *g, const void *seg, u32 number);
/* And its payload is right. */
bool dcd_entry_valid(const struct dcd_geometry *g, const void *seg, u32 number);

/* NVRAM of @bytes has so many slots; more aren't used. */
#define DCD_SLOTS_MAX	1024U
static inline u32 dcd_slots(const struct dcd_geometry *g, u64 bytes)
{
	u64 rest;

	return bytes < DCD_BLOCK ? 0 : min_t(u64, div64_u64_rem(bytes - DCD_BLOCK,
								g->segment_bytes, &rest),
					     DCD_SLOTS_MAX);
}

/* Entries of a slot that are above what the log has. */
struct dcd_slot_scan {
	u64 first;		/* sequence of the first; 0: there is none */
	u32 entries;		/* whole, without a gap, in no batch or a whole one */
	u32 left;		/* behind them without a gap: the beginning of a batch */
	u32 used;		/* bytes, end of the last payload of @entries */
	u64 highest;		/* sequence of the last one, with a gap or without */
	u64 resumes;		/* sequence of the first one behind a gap; 0: there is none */
	u32 lost;		/* of @entries: their payloads can't be read */
	bool damaged;		/* entry @first + @entries + @left was whole once, and isn't now */
	bool unread;		/* entries of it can't be read */
};

/*
 * @slot: segment_bytes. Its entries above @newest. An entry is written when its
 * payload and the entry before it are persistent. So one that is right with a payload that
 * isn't, or that lacks a single bit to be right, isn't what a cut left, but damage;
 * and so is a gap, which the plan finds, as it may be one between slots.
 *
 * @unread: as dcd_header_find()'s. An entry of which only the payload is there counts: it is
 * known what is lost. What can't be read of the table are gaps.
 */
void dcd_slot_scan(const struct dcd_geometry *g, const void *slot, const u8 *unread, u64 newest,
		   struct dcd_slot_scan *s);
/* Its payload can't be read. */
bool dcd_entry_unread(const struct dcd_entry *n, const u8 *unread);

/*
 * Of a slot, behind what counts in it; @newest: the newest entry of all. Left by a cut:
 * it lacks one before it, or the rest of its batch. Has to be wiped before another
 * entry gets its sequence.
 */
bool dcd_entry_left(const struct dcd_geometry *g, const void *slot, u32 number, u64 newest);

#endif
