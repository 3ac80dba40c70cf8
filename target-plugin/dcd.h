/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The DCD engine: NVRAM and a log disk in front of a data disk. It knows
 * neither dm nor LIO.
 *
 * dcd_open() opens the devices exclusively, recovers what the last power cut
 * left, and formats nothing. dcd_close() leaves what isn't destaged in the log
 * (and, if it keeps its content, the NVRAM).
 */
#ifndef DCD_H
#define DCD_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct dcd_engine;
struct dcd_log_reads;
struct scatterlist;

enum dcd_op {
	DCD_READ,
	DCD_WRITE,
	DCD_DISCARD,		/* reads as zeroes, for good if dcd_topology() says so */
	DCD_WRITE_ZEROES,
	DCD_FLUSH,
};

/* Inside of a read; the engine's. */
struct dcd_gather {
	struct scatterlist *sg;		/* where the next piece goes, */
	size_t sg_done;			/* behind so many bytes of it */
	u32 done;			/* sectors */
	u32 bad;
	int error;
	atomic_t pending;
	bool own;			/* the engine's memory: read.h */
	/* Of an own: a hash of what the index had of it so far, 0 of nothing; of the last place. */
	u64 seen;
	void *seen_value;
	/* read.h: places of the log, 0 if they are few; jiffies, when it was first in the line */
	unsigned int places;
	unsigned long first_try;
	struct dcd_log_reads *log_reads;	/* NULL: it isn't in a worker */
	/* cache.h: look there; keep there what isn't found, if the clocks say @time then */
	bool look, keep;
	u64 time;
};

struct dcd_range {
	sector_t sector;
	u32 sectors;
};

/*
 * The caller owns it until @done, which is called exactly once, perhaps before
 * dcd_submit() returns; for a read perhaps in interrupt context, else in process
 * context. @error is 0 or negative:
 * -ENOMEM: try again; -EAGAIN: the same, it has waited for busy_after_ms or is @unwanted;
 * -EOPNOTSUPP: a batch, when the log has been left; -ERANGE: not on the disk; -EINVAL: @sgl is
 * too short, or not whole blocks (struct dcd_topology); -EIO: the DCD can't do it now;
 * -ENODATA, of reads only: a disk can't read @bad_sector (or one close behind
 * it); all sectors before it were read. Others can be read as before: to a SCSI
 * initiator that is MEDIUM ERROR, UNRECOVERED READ ERROR.
 * After an error a part of a write, from its beginning, may have been done, and without
 * NVRAM all of it; nothing more of it ever will be.
 * @sector and @sectors in 512 bytes. @fua: durable even if the write cache is
 * volatile. @skip: bytes at the beginning of @sgl that aren't written.
 *
 * A batch is a write with @ranges, which belong to the caller too: their data are one
 * behind the other in @sgl, @sectors is the sum, @sector isn't looked at. Where ranges
 * overlap the later one wins. After a power cut all of it is there or nothing, after
 * an error too. dcd_batch_limits() says how large it may be; -EINVAL: it
 * is larger, a range is empty, or the sum is wrong.
 *
 * A wait for time, room or a disk is counted from @since on. While it lasts the engine asks
 * @unwanted (NULL: it is always wanted) each DCD_LOOK whether the answer doesn't matter any
 * more; that is called with a spinlock held, and perhaps with interrupts off. A write that is
 * @once, whose second time would be another thing than its first, waits for longer than
 * busy_after_ms where it may be done yet: -EAGAIN, while it is wanted, is that it never will be.
 */
#define DCD_LOOK (HZ / 10)
struct dcd_request {
	enum dcd_op op;
	bool fua, once;
	sector_t sector;
	sector_t sectors;
	struct scatterlist *sgl;
	unsigned int nents;
	size_t skip;
	const struct dcd_range *ranges;
	unsigned int nranges;
	void (*done)(struct dcd_request *rq, int error);
	bool (*unwanted)(const struct dcd_request *rq);
	unsigned long since;	/* jiffies; 0: dcd_submit() */
	sector_t bad_sector;
	/* the engine's */
	struct dcd_engine *engine;
	struct work_struct work;
	struct dcd_gather gather;
	struct list_head waiting;
	sector_t entered;	/* so far */
	u64 segment;		/* where its last entry is */
	u64 asked;		/* for room: dcd_sweep.called then; 0: it hasn't */
	u64 began;		/* how often entries had been taken back at its first one */
	bool again;		/* its own may have been since: all of it once more */
};

/*
 * Not looked at any more when the call it is given to has ended. A LUN's `control`
 * sets it, by a row for each member (lun-settings.c).
 */
/*
 * Level 2, the way from the log to the data disk. May change while it is open.
 * With the log fuller than @low percent it goes on although there is I/O, and
 * writes are slowed in proportion; from @high on so that its room lasts (pace.h). A
 * @high that isn't above @low counts as the next percent.
 */
struct dcd_destage_config {
	unsigned int idle_ms;	/* so long without a write, and it begins */
	unsigned int low, high;
	unsigned int depth;	/* I/Os at a time, without reads by others */
	unsigned int batch_kib;	/* memory of two batches between; looked at by dcd_open() only */
};

#define DCD_READ_CACHE_BYTES	(32U << 20)
#define DCD_DESTAGE_IDLE_MS	500
#define DCD_DESTAGE_LOW		50
#define DCD_DESTAGE_HIGH	60
#define DCD_DESTAGE_DEPTH	16
#define DCD_DESTAGE_BATCH_KIB	4096
#define DCD_BUSY_AFTER_MS	10000
#define DCD_SCRUB_KIB		512

struct dcd_config {
	const char *name;	/* for messages */
	const char *data;	/* paths */
	const char *log;
	const char *nvram;	/* TYPE[:SPEC] */
	size_t nvram_bytes;	/* 0: what the type or its header says */
	size_t index_bytes;	/* memory of the index, may change; 0: the default */
	size_t read_cache_bytes;	/* may change; 0: no read cache */
	struct dcd_destage_config destage;
	unsigned int busy_after_ms;	/* a request waits no longer, may change; 0: no end */
	unsigned int scrub_kib;	/* so much of the log is checked in a second, may change; 0: none */
	unsigned int battery;	/* 0: that of dram:battery fails; may change */
	unsigned int leave_log;	/* 1: a dead log is to be left for good (leave.h); may change */
	bool grow;		/* dcd_open(): the data disk may have grown while it was closed */
};

/* Messages name what is wrong, where, and what to do. May sleep long: recovery. */
struct dcd_engine * __must_check dcd_open(const struct dcd_config *config);
/* Takes over what may change while it is open, but leave_log; the others may be anything. */
void dcd_reconfigure(struct dcd_engine *e, const struct dcd_config *config);
/*
 * Asks to leave the log (leave.h). -EBUSY, told: it works; -ENOMEM. Process context, sleeps for its
 * answer. _not: takes that back, if it can be.
 */
int __must_check dcd_leave(struct dcd_engine *e);
void dcd_leave_not(struct dcd_engine *e);
/*
 * The data disk has become larger: takes over its size. 0 also if it hasn't. -EINVAL: it is
 * smaller; -EIO: the log can't be told. Then the size stays as it was. Sleeps; not
 * together with dcd_close() or another dcd_grow().
 */
int __must_check dcd_grow(struct dcd_engine *e);
/*
 * Nobody may submit any more, and all requests have been answered. It waits for calls
 * of dcd_submit() that haven't returned yet; so not from a request's @done. While a read that
 * was given up, or a discard, hasn't returned from its disk, the engine's disks stay in its
 * exclusive use after that, and the module can't be unloaded.
 */
void dcd_close(struct dcd_engine *e);

/*
 * Process context; may sleep, but never for room, nor for a disk's queue: copies a write
 * inline if there is room and none waits, else it waits in a queue and a worker goes on with
 * it. A read is done here too: what is in memory is copied, what is on the data disk is asked
 * for; but if something is only in the log, a worker goes on with it, as with a flush.
 */
void dcd_submit(struct dcd_engine *e, struct dcd_request *rq);
/* Requests may have become unwanted: looks now. May be called while any wait. */
void dcd_look(struct dcd_engine *e);
/* Has a request that came at @since waited for busy_after_ms? Any context. */
bool dcd_waited_enough(struct dcd_engine *e, unsigned long since);

sector_t dcd_sectors(const struct dcd_engine *e);
/* Of a batch that is within both it is certain that one segment has room for it. */
void dcd_batch_limits(const struct dcd_engine *e, unsigned int *ranges, sector_t *sectors);

/* What the data disk is like, where everything comes to in the end. All in bytes. */
struct dcd_topology {
	unsigned int logical_block;	/* the log's, if that is larger; 512 to 4096 */
	unsigned int physical_block;
	unsigned int io_min, io_opt;	/* best sizes of requests; @io_opt 0: no preference */
	int misaligned;			/* sector 0 in its physical block; < 0: unknown */
	bool rotates;
	bool discards;			/* it does, so it is worth while to tell it */
	bool discards_to_zeroes;	/* what was discarded reads as zeroes until it is written */
	unsigned int discard_granularity, discard_misaligned;
};

void dcd_topology(const struct dcd_engine *e, struct dcd_topology *t);
/* True if what is acknowledged may be lost without a flush. */
/* The log's, while the engine is open. */
const u8 *dcd_log_uuid(const struct dcd_engine *e);
bool dcd_volatile_cache(const struct dcd_engine *e);
/* The log has been left: writes go through to the data disk, and there are no batches. */
bool dcd_left(const struct dcd_engine *e);
/* It is being left, or has been: what was asked for hasn't been refused or taken back. */
bool dcd_leaves(const struct dcd_engine *e);

enum dcd_counter {
#define DCD_COUNTER(id, name) DCD_N_##id,
#include "dcd-counters.h"
#undef DCD_COUNTER
	DCD_COUNTERS,
};

/* Since it was opened. */
u64 dcd_counter(const struct dcd_engine *e, enum dcd_counter what);

/* At one moment. Segments of the log, and slots of the NVRAM, that hold what isn't below. */
struct dcd_state {
	u64 log_segments, log_live, log_free;
	u64 slots, slots_used;
	u64 slots_retired;		/* with media errors; @slots are the others */
	u64 index_used, index_bytes;	/* its memory, and how much it may have */
	u64 cache_used, cache_bytes;	/* the read cache's */
	u64 stuck_ranges, stuck_sectors;	/* bad places of the data disk: stuck.h */
	u64 lost_ranges, lost_sectors;	/* medium errors, until written over: lost.h */
	bool log_failing, data_failing;
	bool log_left;		/* for good: leave.h */
	bool log_damaged;	/* live bytes of it were wrong, or are lost */
};

void dcd_state(struct dcd_engine *e, struct dcd_state *state);
/* State and counters as text, for people. Returns its length. */
ssize_t dcd_to_text(struct dcd_engine *e, char *buf, size_t size);

#endif /* DCD_H */
