/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inside of a read, between read.c, which gathers it, and read-own.h, by which it can be given up.
 *
 * What no disk has to be asked for is copied into the request's own memory at once. The rest is
 * read by an "own": a request of the engine's for the same sectors, with pages of its own, so
 * that the request can be answered while disks still write there. When the last piece of an own
 * has come its bytes are copied to the request, if that is still waiting.
 *
 * A request that is given up leaves its own behind, until the disks have answered it. A read of the
 * same sectors, as an initiator's that tries again, takes that own over: else what a disk takes
 * longer for than busy_after_ms would never end, as each try began anew, behind all others. The
 * initiator may try again a little late: so what was read without an error is kept for DCD_KEPT.
 *
 * Since that own began, writes may have been acknowledged. So what it has seen in the index, place
 * by place (a hash of that), has to be what is there when it is taken over, and nothing of it may
 * have been destaged meanwhile: then it has read what a read that begins now would. The hash is
 * whole when the own ends; who has taken over one that has seen other places begins anew then.
 *
 * Any other read that needs a disk for what one of those is at isn't asked of it: it waits (parked)
 * until that has come back, or its own time is over. So does any while the bytes of what was given
 * up are a DCD_GIVEN_UP_PART-th of the host's memory, and at least DCD_GIVEN_UP_LEAST; or there are
 * DCD_GIVEN_UP_OWNS of them, as they are looked through with interrupts off.
 *
 * Nobody waits for the log: a worker asks it for what is there, and another one comes when all of
 * that has been answered. So what hangs there holds no worker from others.
 *
 * Turns: a read of what was written at random, and is only in the log yet, is of hundreds of places
 * there, which a disk takes half a second for. If the log were asked for those of many reads at
 * once they would all end together, or, if that takes longer than busy_after_ms, never: each is
 * given up, and tried again. So a read of more than DCD_SCATTERED places waits for its turn, in the
 * order in which they came, until the log is asked for no more than DCD_AT_LOG places in all, or
 * none; no disk is asked for any of it before. One that is given up, and tried again, has the place
 * in that order which it had: the last DCD_TRIED of them are known by their sectors. What the log
 * has not gone on with for DCD_TURN_STALL, or takes more than DCD_TURN_PATIENCE for, holds no turn
 * any longer, nor does what was given up. Those of up to DCD_FEW places have turns of their own,
 * and don't wait for larger ones; other reads wait for no turn.
 *
 * Without memory for an own a worker reads into the request's memory, and it can't be given up.
 */
#ifndef DCD_READ_H
#define DCD_READ_H

#include <linux/list.h>
#include <linux/siphash.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct dcd_engine;
struct dcd_gather;
struct dcd_log_reads;
struct dcd_place;
struct dcd_request;

#define DCD_NONE_BAD U32_MAX
#define DCD_GIVEN_UP_PART 16
#define DCD_GIVEN_UP_LEAST (64UL << 20)
#define DCD_GIVEN_UP_OWNS 4096U
#define DCD_KEPT (30 * HZ)
#define DCD_SCATTERED 8U
#define DCD_FEW 32U
#define DCD_AT_LOG 256U
#define DCD_TRIED 256U
#define DCD_TURN_STALL (HZ / 4)
#define DCD_TURN_PATIENCE (2 * HZ)

/*
 * @waiting: requests, by their first try. @at_log: places that the log is asked for by those whose
 * turn it is.
 */
struct dcd_turns {
	struct list_head waiting;
	unsigned int at_log;
};

/* Was given up; no @sectors: none. */
struct dcd_tried {
	sector_t sector;
	sector_t sectors;
	unsigned long first_try;
};

/*
 * The engine's. @lock: interrupts off, nothing else is taken within it but a wait queue's. The
 * owns that aren't answered by the disks: @owns that somebody waits for, and @left, of @given_up
 * bytes; @kept: such as were @left, and are answered, of @kept_bytes, the oldest one first.
 * @parked: requests. @turns: of reads of few places, and of more. @key: of hashes.
 */
struct dcd_reads {
	spinlock_t lock;	/* see above */
	struct list_head owns, left, kept, parked;
	struct dcd_turns turns[2];
	struct dcd_tried tried[DCD_TRIED];
	unsigned int next_tried;
	size_t given_up, kept_bytes;
	siphash_key_t key;
	struct work_struct unpark_work;
	struct delayed_work drop_work;	/* what was kept for long enough */
};

/* Why a walk has ended where it is. */
enum dcd_walk {
	DCD_WALK_END,
	DCD_WALK_OWN,	/* the next piece is for an own */
	DCD_WALK_LOG,	/* of an own: for a worker */
};

/* read.c. Pieces from where it is on: copied, or asked for. Sleeps for memory only. */
enum dcd_walk dcd_read_walk(struct dcd_engine *e, struct dcd_request *rq);
/*
 * The same to its end, in a worker: both disks are asked for all of it. _end(): until the log has
 * answered, the data disk may not have.
 */
void dcd_read_in_worker(struct dcd_engine *e, struct dcd_request *rq,
			struct dcd_log_reads *log_reads);
void dcd_read_in_worker_end(struct dcd_engine *e, struct dcd_request *rq);
/* A piece has come, or no more begin: the last one ends the request. Any context. */
void dcd_read_put(struct dcd_engine *e, struct dcd_request *rq);
/* May disks read right into its memory? */
bool dcd_read_takes_dma(const struct dcd_engine *e, const struct dcd_request *rq);

/* read-own.c. The rest of a request; process context. */
void dcd_read_to_own(struct dcd_engine *e, struct dcd_request *rq);
/* The index has that place next: into the hash. */
void dcd_read_saw(struct dcd_engine *e, struct dcd_gather *g, const struct dcd_place *p);
/* The data disk has what @p says, and the index forgets it next; process context. */
void dcd_read_destaged(struct dcd_engine *e, const struct dcd_place *p);
/* All pieces of an own have come; any context. */
void dcd_own_ended(struct dcd_engine *e, struct dcd_request *rq);
void dcd_reads_init(struct dcd_engine *e);
/* At the end of the engine: all of its requests have been answered. Is no own left? Any context. */
bool dcd_reads_quiet(struct dcd_engine *e);
/* Then: lets go what is kept; process context. */
void dcd_reads_end(struct dcd_engine *e);

#endif /* DCD_READ_H */
