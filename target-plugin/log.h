/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Level 1: sealed slots of the NVRAM to segments of the log, in their order, one at a time, by the
 * committer; and what becomes of a log that fails.
 *
 * A log that doesn't answer writes holds nobody where NVRAM keeps its content: it is dead then, and
 * the commit that it was at is left (aside.h). What becomes of that doesn't count any more, as the
 * slot's content goes past the log like that of others; in its place of the ring it is what any
 * write that failed may have left there. Without such an NVRAM the log is waited for.
 *
 * Process context, where nothing else is said.
 */
#ifndef DCD_LOG_H
#define DCD_LOG_H

#include <linux/types.h>
#include <linux/workqueue.h>

struct dcd_engine;

#define DCD_SUPERBLOCK U64_MAX	/* instead of a segment */
#define DCD_MOVED_TABLE (U64_MAX - 1)
#define DCD_RETRY (5 * HZ)	/* what failed is tried again */

struct dcd_commit;
typedef int dcd_log_writer(struct dcd_engine *e, struct dcd_commit *c);

/*
 * What is written by @write from @buf, which is the engine's @commit_buf until it is @left: nobody
 * waits for it then. @error, and @proof if a segment was to be proved (proof.h), are right when it
 * is @done. @at: for who writes something else, bytes of @buf. @spent: jiffies, in all.
 */
struct dcd_commit {
	struct work_struct work;
	dcd_log_writer *write;
	void *buf;
	u64 segment, first_entry;
	u32 entries, used;
	u32 at, bytes;
	int error, proof;
	bool prove, done, left;
	unsigned long spent;
};

void dcd_commit_init(struct dcd_engine *e);
void dcd_commit_worker(struct work_struct *work);
/* Is one that was left under way, so that nothing else may be written to the log? Any context. */
bool dcd_commit_is_left(const struct dcd_engine *e);
/* How long a slot stays open; jiffies. Any context. */
unsigned long dcd_seal_after(struct dcd_engine *e);
/* Past a dead log; the destager's. */
void dcd_seal_for_round(struct dcd_engine *e);

/*
 * Something is written, from @commit_buf: by who commits, or opens. -ETIME: it was left, and
 * @commit_buf is another one with the same; or one that was left before is under way yet, and
 * nothing was begun; or an error.
 */
int __must_check dcd_log_write(struct dcd_engine *e, dcd_log_writer *write);
/* Likewise a segment, durable. */
int __must_check dcd_segment_write(struct dcd_engine *e, u64 sequence, u64 first, u32 entries,
				   u32 used, bool prove);
/* An opening has spent enough on that: what NVRAM or the data disk has needn't be there yet. */
bool dcd_opening_hurries(const struct dcd_engine *e);

/* A write of this segment failed, or of one of those above: the log is dead. It works again. */
void dcd_log_failed(struct dcd_engine *e, u64 segment, int error);
void dcd_log_works(struct dcd_engine *e);
/* What it has in this segment is wrong. */
void dcd_log_damaged(struct dcd_engine *e, u64 segment);
/*
 * Does it give its superblock? Nobody may have used it lately, and knows that it is dead. 1, 0, or
 * -ENOMEM. Sleeps for some seconds at most.
 */
int __must_check dcd_log_answers(struct dcd_engine *e);
/*
 * Of a dead log: does it work? The destager's; no commit is under way, but one that was left. If a
 * round failed: @stuck?
 */
void dcd_log_ask(struct dcd_engine *e);
void dcd_log_ask_failed(struct dcd_engine *e, bool stuck);

#endif /* DCD_LOG_H */
