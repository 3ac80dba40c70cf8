/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Set: a log disk with its NVRAM and its data disk, opened together, and a walk over
 * what is live in them by the plan that the module's recovery follows (plan.h).
 */
#ifndef DCD_SET_H
#define DCD_SET_H

#include "../moves.h"
#include "../plan.h"
#include "../witness-pool.h"
#include "commands.h"
#include "device.h"

/* Entries that can't be saved. @sectors 0: where they wrote isn't known. */
struct lost {
	u64 first, last;
	u64 sector, sectors;
	bool by_log;			/* else the NVRAM can't give it; set_walk()'s */
};

struct set {
	struct device log, nvram, data;
	bool has_nvram, has_data;	/* were given */
	bool any;			/* retired ones too */
	struct dcd_super_found super;
	struct dcd_moves_found moves;	/* if the superblock says that there are some */
	bool moves_lost;		/* it does, and neither copy is right: for salvage */
	struct dcd_header_found header;	/* without NVRAM only its `applied`, by the data disk */
	struct dcd_plan plan;
	struct dcd_slot_scan *scans;
	u32 slots;
	struct dcd_pool pool;		/* of witnesses; no live entries are over them: set_tally() */
	u32 n_written;			/* set_written() */
	u8 *buf, *spare;		/* a segment each */
	u8 *unread;			/* of what is in @buf; as dcd_slot_scan()'s */
	u8 page[DCD_BLOCK];		/* with the NVRAM's headers */
	u32 page_unread;		/* sectors of it that can't be read: media errors */
	u64 nvram_unread;		/* of all of it */
	u64 *wounded;			/* segments that the walk took so: wounded.h */
	size_t n_wounded;
	struct closed **closed;		/* what of them the data disk has; its */
	size_t n_closed;
	/* why it can't be used; "" if it can */
	const char *reason;		/* a word */
	char message[640];
	bool failed;			/* I/O, memory: nothing is known */
	/* in NVRAM, and it can't be read there: set_walk()'s; or set_salvage()'s */
	struct lost *lost;
	size_t n_lost;
	bool salvaged;
	bool nvram_lost;		/* there was one, and it wasn't given */
	bool header_lost;		/* neither copy of its header is right: for salvage */
	bool log_lost;			/* "none": the NVRAM alone, for salvage */
};

/* What is live, in order: a segment of the log, or a slot that is to become one. */
struct group {
	const u8 *bytes;
	u64 sequence;		/* of the segment */
	u64 first;		/* of entry 0; those up to plan.applied aren't live */
	u32 entries;
	u32 used;
	int slot;		/* -1: in the log */
	const u8 *unread;	/* of a slot: as dcd_slot_scan()'s */
};

/*
 * Opens what the options name and finds superblock and header. 0; or -1: s->reason and
 * s->message say why it can't be used, or s->failed and stderr has been told. Close it
 * in either case.
 */
int set_open(struct set *s, const struct options *o, bool for_writing);
/* The same; one that was retired isn't refused. */
int set_open_any(struct set *s, const struct options *o, bool for_writing);
void set_close(struct set *s);

/* Is a part of it lost as a whole, so that only salvage can take the rest? */
bool set_part_lost(const struct set *s);

/*
 * Calls @visit for each live group (@visit may be NULL) until it returns nonzero, which
 * is returned. Else 0, or -1 as set_open(). After 0, s->plan says where log and entries end.
 * Groups are visited before it is known whether all is there: walk once without
 * consequences. Notes are told on stderr if @tell.
 */
typedef int (*set_visit)(struct set *s, const struct group *g, void *context);
int set_walk(struct set *s, set_visit visit, void *context, bool tell);

/* Of the live entries, so far: */
struct tally {
	u64 segments;
	u64 slots;
	u64 entries;
	u64 sectors;		/* written or zeroed */
};

/* A set_visit; the context is a struct tally. */
int set_tally(struct set *s, const struct group *g, void *context);

/* Does one of the two say so? A log that took no writes when it was left can't. */
bool set_retired(const struct set *s);

/*
 * After a walk with set_tally(): is the data disk the one it was (dcd-format.h, witnesses)? As
 * set_open(). @anyway: it is told on stderr and not refused. Those that don't count from here
 * on are taken out.
 */
int set_witnesses(struct set *s, bool anyway);
/* Is it lost, of the group that is visited? */
bool set_is_lost(const struct set *s, const struct group *g, u32 number);

/* A live entry is over these: what set_tally() does for each. */
void set_cover(struct set *s, u64 sector, u32 sectors);
/* These sectors were written to the data disk, with data or @zeroes. */
void set_written(struct set *s, u64 sector, u32 sectors, bool zeroes);
/*
 * When all that was written is durable on the data disk: what it has there now are witnesses, so
 * an older copy of the disk is told from then on. A block that can't be read is none.
 */
void set_witness_anew(struct set *s);

/*
 * After a walk: something is lost (s->n_lost). -1, as set_open(): the module opens it, with medium
 * errors there; a data disk can't have those.
 */
int set_refuse_lost(struct set *s);

/* Both copies of the table of moved blocks are as the one that counts: before the log is written. */
int set_mend_moves(struct set *s);
/* Is one of them damaged, or older? */
bool set_moves_differ(const struct set *s);

/* A segment of the log to @buf, with what of its damage NVRAM can mend. 0, or -EIO. */
int set_read_segment(struct set *s, u64 sequence);

/* The NVRAM header in its place, by a way that ends media errors of its page. */
int set_put_header(struct set *s, unsigned int copy);

/* What recovery does with end records that aren't right, before it writes the header. */
int set_mend_ends(struct set *s);
#endif
