/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranges on their way from the log or NVRAM to the data disk, in sector order: as
 * many as there is memory for. The destager's, and only its; everything here may
 * sleep, for disks too.
 *
 * Two disks have to do with it, so two batches are under way: while one is being
 * written to the data disk, the next one is read from the log (@ahead). Where its
 * bytes are in the log doesn't change meanwhile, as only the destager lets the log
 * have its places back, and not those of what it has collected: see dcd_mark. What
 * is written to its ranges meanwhile is in newer segments, and comes to the data
 * disk after it.
 */
#ifndef DCD_BATCH_H
#define DCD_BATCH_H

#include "engine.h"

/*
 * It is being closed past a dead log, and NVRAM will have forgotten what the data disk hasn't got
 * then. So a round doesn't end when places fail, for a while; and after one that has failed each
 * place is written by itself.
 */
static inline bool dcd_last_chance(const struct dcd_engine *e)
{
	return READ_ONCE(e->ending) && READ_ONCE(e->log_dead) && !e->keeps && !e->after_log;
}

struct dcd_load {
	enum dcd_load_kind kind;
	struct dcd_place place;
	void *buf;		/* NULL: zeroes */
	struct dcd_place whole;	/* what is read for it, to @raw: sums.h */
	void *raw;
	int error;
	bool unread;		/* it is the log's error, else the data disk's */
	bool asked;		/* the log was asked for it */
	bool rests;		/* it isn't now: it couldn't be read just before */
	bool lost;		/* the log can't give it any more: lost.h */
	u64 oldest;		/* segment that some of it is in */
	bool there;		/* the data disk has it, in its cache maybe */
	bool again;		/* it was logged again */
	bool alone;		/* it is stuck (stuck.h): written by itself, to try it */
	unsigned int together;	/* loads that this write is for, it is the first; 0: it isn't */
	bool late;		/* it is under way yet: late.h */
	enum dcd_load_kind kind_then;	/* before it was late */
	bool unanswered;	/* the log is at it yet: late.h */
	struct dcd_io io;
};

static inline bool dcd_load_is_wipe(const struct dcd_load *l)
{
	return l->kind == DCD_LOAD_WIPE || l->kind == DCD_LOAD_DISCARD;
}

/*
 * @loads are in the order of their places, and none is over another one.
 * @from, @next: where it and the next one begin; @turn, @mark: the sweep's there, the mark with
 * what was committed when it was collected. @order: what is to be read, by its place; for @begun of
 * @to_read that has begun, @reading, or @doubtful where reads failed or were late before: nobody
 * waits for those. @unanswered of them are late. @buf has @room bytes. Of its last move: sectors
 * @written, without zeroes, and the time that wipes took, @wiping; @late of its writes haven't
 * returned, since @late_since, when @flushes_failed was what it is (late.h). @slow: it took long,
 * and was waited for.
 */
struct dcd_batch {
	struct dcd_load *loads, **order;
	unsigned int most, n;
	unsigned int to_read, begun;
	struct dcd_ios reading, doubtful, writing;
	unsigned int unanswered;
	struct dcd_mark mark;
	u64 turn;
	sector_t from, next;
	sector_t written;
	ktime_t wiping;
	unsigned int late;
	unsigned long late_since;	/* jiffies; of reads likewise */
	unsigned int flushes_failed;
	bool slow;
	struct dcd_part *parts;	/* of one write */
	size_t room;
	u8 *buf;
};

/* With half of the memory of the settings, less with a small log: a turn is many batches. */
struct dcd_batch * __must_check dcd_batch_new(struct dcd_engine *e);
void dcd_batch_free(struct dcd_batch *b);

/*
 * Ranges in [b->from, @end) of the segments below @target, as many as there is room
 * for, and what is to be done with zeroes; false: none. Nothing of it may be under way.
 */
bool dcd_batch_collect(struct dcd_engine *e, struct dcd_batch *b, sector_t end, u64 target,
		       enum dcd_wiping wiping);

/*
 * As many zeroes in [*@from, @end), of segments below @target, as there is room for, as if they had
 * been moved; *@from: behind those. False: none. Nothing of it may be under way.
 */
bool dcd_batch_zeroes(struct dcd_engine *e, struct dcd_batch *b, sector_t *from, sector_t end,
		      u64 target, bool only_discards);

/*
 * What has come of @late, which was late (late.h), and is wanted yet; as if it had been read for
 * @b. False: nothing.
 */
bool dcd_batch_came(struct dcd_engine *e, struct dcd_batch *b, struct dcd_batch *late);

/*
 * Reads what isn't read yet of it, and writes it; meanwhile reads @ahead, if that
 * isn't NULL. Each load tells what became of it. -EAGAIN: stopped, and some are
 * neither there nor have an error; so they may be where some of it is late.
 */
int __must_check dcd_batch_move(struct dcd_engine *e, struct dcd_batch *b,
				struct dcd_batch *ahead, dcd_width *width);

/* Flushes the data disk; meanwhile reads @ahead likewise. */
int __must_check dcd_batch_flush(struct dcd_engine *e, struct dcd_batch *ahead,
				 dcd_width *width);

/* It, or another one in its place, is empty, and nothing of it is under way. */
void dcd_batch_drop(struct dcd_engine *e, struct dcd_batch **b);
/* So many of its reads are under way. */
static inline unsigned int dcd_batch_reads(const struct dcd_batch *b)
{
	return atomic_read(&b->reading.in_flight) + atomic_read(&b->doubtful.in_flight);
}

/*
 * destage.c, for what was late. The data disk's flush; its error is counted and told, as any is by
 * _failed(). What is there of the batch is durable: the index forgets what is below @target.
 */
int __must_check dcd_destage_flush(struct dcd_engine *e);
int __must_check dcd_destage_forget(struct dcd_engine *e, const struct dcd_batch *b, u64 target);
int dcd_data_failed(struct dcd_engine *e, int error);

#endif /* DCD_BATCH_H */
