/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Entries: a place in NVRAM for each, in three steps. dcd_reserve() needs @lock and sleeps
 * never; -EAGAIN: no room now; -EREMCHG: the log was left (leave.h). Then, with no lock,
 * dcd_reserved() in any case, and if it was had dcd_fill(), after which a request whose @last
 * entry it is belongs to whoever publishes it. The places of a batch are reserved all at once and
 * filled one by one, the first at @number and @offset.
 *
 * An entry is void if NVRAM can't keep it: its payload, or its line of the table, can't be read
 * and the driver can't mend that. A void one, its batch, and all that was reserved behind it are
 * taken back: nothing of that is acknowledged, nothing of it counts after a cut, their requests
 * are entered once more from their beginning, and their numbers are given to others. So numbers
 * and segments (@next_entry, @head) can go back; but never below what is published. Whoever
 * waits for a number or a segment asks for the lesser of it and those.
 */
#ifndef DCD_ENTRIES_H
#define DCD_ENTRIES_H

#include <linux/types.h>

#include "dcd.h"

struct dcd_slot;

struct dcd_place_in_slot {
	struct dcd_request *rq;
	sector_t sector;
	u32 sectors;
	size_t skip;		/* bytes of the request's data before it */
	bool last;
	bool again;		/* from the tail: it has room that others don't */
	bool lost;		/* an entry that says so: lost.h */
	const void *from;	/* its data, if it is one of those; else they are in the request */
	unsigned int entries;	/* to reserve, in one segment */
	u32 bytes;		/* of their payloads */
	/* dcd_reserve()'s */
	struct dcd_slot *slot;
	u64 number;
	u64 batch;		/* as the format has it */
	u32 offset;
	bool sealed, opened;
};

/*
 * What an entry takes of the log, as sectors of payload: one without any takes a place
 * in a table, of which there is one for each two sectors.
 */
#define DCD_ZEROES_COUNT 2U
static inline u32 dcd_counts(enum dcd_op op, u32 sectors)
{
	return op == DCD_WRITE ? sectors : DCD_ZEROES_COUNT;
}

u32 dcd_payload_start(const struct dcd_engine *e);
u32 dcd_chunk(const struct dcd_engine *e);	/* sectors of a write in one entry, at most */
/* So many more entries? Needs @lock; false: too many are pending, or some are to be taken back. */
bool dcd_may_reserve(struct dcd_engine *e, unsigned int entries);
int __must_check dcd_reserve(struct dcd_engine *e, struct dcd_place_in_slot *p);
void dcd_reserved(struct dcd_engine *e, const struct dcd_place_in_slot *p);
void dcd_fill(struct dcd_engine *e, const struct dcd_place_in_slot *p);
/*
 * ranges.c: batches. Is it one that fits? How many entries does it take? Fills them,
 * whose places are reserved; then it belongs to whoever publishes the last one.
 */
bool dcd_batch_fits(struct dcd_engine *e, const struct dcd_request *rq);
unsigned int dcd_batch_entries(struct dcd_engine *e, const struct dcd_request *rq);
void dcd_batch_fill(struct dcd_engine *e, struct dcd_place_in_slot *p);
/*
 * Publish what is filled and next, or take it back, unless somebody is at it. May sleep for
 * memory only.
 */
void dcd_publish(struct dcd_engine *e);
void dcd_publish_worker(struct work_struct *work);
/* Seals, and waits for all that is reserved; nothing more may be, or it may last. */
void dcd_publish_all(struct dcd_engine *e);
/* Of segments below @below all entries are published, up to @newest. Needs @lock. */
void dcd_published_segments(struct dcd_engine *e, u64 *below, u64 *newest);
void dcd_seal_open(struct dcd_engine *e);	/* needs @lock; the caller tells the committer */
/* Is the open slot not for writes, as there is no room for them? Needs @lock. */
bool dcd_open_is_kept(const struct dcd_engine *e);
bool dcd_acks_early(void);	/* the test knob ack_early: never in a shipped build */

#endif /* DCD_ENTRIES_H */
