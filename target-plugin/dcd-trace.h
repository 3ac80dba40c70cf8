/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints of the DCD (events/dcd): the way of what is written, and every
 * change of what a disk is good for. A DCD is told by its data disk's number.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dcd

#if !defined(DCD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DCD_TRACE_H

#include <linux/tracepoint.h>

#include "batch.h"

#define dcd_op_names							\
	{ DCD_READ, "read" }, { DCD_WRITE, "write" },			\
	{ DCD_DISCARD, "discard" }, { DCD_WRITE_ZEROES, "zeroes" },	\
	{ DCD_FLUSH, "flush" }

/* A piece of a read. */
TRACE_EVENT(dcd_piece,
	TP_PROTO(struct dcd_engine *e, const struct dcd_place *p, const void *mem, bool cached),
	TP_ARGS(e, p, mem, cached),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(u64, sectors)
		__field(u8, from)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->sector = p->sector;
		__entry->sectors = p->last - p->sector + 1;
		__entry->from = cached ? 4 : !p->value ? 0 : p->zero ? 1 : mem ? 2 : 3;
	),
	TP_printk("%d,%d %llu+%llu from %s", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->sector, __entry->sectors,
		  __print_symbolic(__entry->from, { 0, "data" }, { 1, "zeroes" }, { 2, "nvram" },
				   { 3, "log" }, { 4, "cache" }))
);

/* A block leaves the read cache, isn't taken into it, or has another origin now. */
TRACE_EVENT(dcd_cache,
	TP_PROTO(struct dcd_engine *e, const struct dcd_block *b, enum dcd_counter why),
	TP_ARGS(e, b, why),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(bool, log)
		__field(int, why)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->sector = b->number * PAGE_SECTORS;
		__entry->log = b->origin;
		__entry->why = why;
	),
	TP_printk("%d,%d %llu of the %s: %s", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->sector, __entry->log ? "log" : "data disk",
		  __print_symbolic(__entry->why,
				   { DCD_N_CACHE_EVICTED, "evicted" },
				   { DCD_N_CACHE_SHRUNK, "given back" },
				   { DCD_N_CACHE_STALE, "stale" },
				   { DCD_N_CACHE_DESTAGED, "destaged" },
				   { DCD_N_CACHE_LATE, "came late" }))
);

/* A request is answered; a write that is acknowledged from NVRAM too. */
TRACE_EVENT(dcd_done,
	TP_PROTO(struct dcd_engine *e, struct dcd_request *rq, int error),
	TP_ARGS(e, rq, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, op)
		__field(bool, fua)
		__field(u64, sector)
		__field(u64, sectors)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->op = rq->op;
		__entry->fua = rq->fua;
		__entry->sector = rq->sector;
		__entry->sectors = rq->sectors;
		__entry->error = error;
	),
	TP_printk("%d,%d %s%s %llu + %llu error %d", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __print_symbolic(__entry->op, dcd_op_names), __entry->fua ? " fua" : "",
		  __entry->sector, __entry->sectors, __entry->error)
);

/* An entry is persistent in NVRAM. */
TRACE_EVENT(dcd_entry,
	TP_PROTO(struct dcd_engine *e, u64 number, u64 segment, sector_t sector, u32 sectors),
	TP_ARGS(e, number, segment, sector, sectors),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, number)
		__field(u64, segment)
		__field(u64, sector)
		__field(u32, sectors)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->number = number;
		__entry->segment = segment;
		__entry->sector = sector;
		__entry->sectors = sectors;
	),
	TP_printk("%d,%d entry %llu segment %llu %llu + %u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->number, __entry->segment, __entry->sector,
		  __entry->sectors)
);

/* A segment is durable in the log, or could not be written. */
TRACE_EVENT(dcd_commit,
	TP_PROTO(struct dcd_engine *e, u64 segment, u32 entries, u32 bytes, int error),
	TP_ARGS(e, segment, entries, bytes, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, segment)
		__field(u32, entries)
		__field(u32, bytes)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->segment = segment;
		__entry->entries = entries;
		__entry->bytes = bytes;
		__entry->error = error;
	),
	TP_printk("%d,%d segment %llu entries %u bytes %u error %d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->segment, __entry->entries, __entry->bytes,
		  __entry->error)
);

/* A write of several ranges has its places in a segment. */
TRACE_EVENT(dcd_ranges,
	TP_PROTO(struct dcd_engine *e, const struct dcd_place_in_slot *p),
	TP_ARGS(e, p),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, first)
		__field(u64, segment)
		__field(unsigned int, entries)
		__field(unsigned int, ranges)
		__field(u64, sectors)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->first = p->number;
		__entry->segment = p->slot->segment;
		__entry->entries = p->entries;
		__entry->ranges = p->rq->nranges;
		__entry->sectors = p->rq->sectors;
	),
	TP_printk("%d,%d entry %llu and %u in all, in segment %llu: %u ranges of %llu sectors",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->first, __entry->entries,
		  __entry->segment, __entry->ranges, __entry->sectors)
);

/*
 * A batch, and what it had to wait for: its own reads that weren't done yet, and its
 * writes. The flush comes after it.
 */
TRACE_EVENT(dcd_batch,
	TP_PROTO(struct dcd_engine *e, const struct dcd_batch *b, u64 reading, u64 writing,
		 int error),
	TP_ARGS(e, b, reading, writing, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, way)
		__field(unsigned int, loads)
		__field(u64, reading)
		__field(u64, writing)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->way = b->mark.way;
		__entry->loads = b->n;
		__entry->reading = reading;
		__entry->writing = writing;
		__entry->error = error;
	),
	TP_printk("%d,%d way %llu loads %u reading %llu us writing %llu us error %d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->way, __entry->loads,
		  __entry->reading, __entry->writing, __entry->error)
);

/* A range was copied to the data disk, or could not be. */
TRACE_EVENT(dcd_destage,
	TP_PROTO(struct dcd_engine *e, sector_t sector, sector_t sectors, int error),
	TP_ARGS(e, sector, sectors, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(u64, sectors)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->sector = sector;
		__entry->sectors = sectors;
		__entry->error = error;
	),
	TP_printk("%d,%d %llu + %llu error %d", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->sector, __entry->sectors, __entry->error)
);

/* So many writes of the data disk haven't returned, the first of them at @sector: late.h. */
TRACE_EVENT(dcd_late,
	TP_PROTO(struct dcd_engine *e, sector_t sector, unsigned int writes),
	TP_ARGS(e, sector, writes),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(unsigned int, writes)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->sector = sector;
		__entry->writes = writes;
	),
	TP_printk("%d,%d %llu writes %u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->sector, __entry->writes)
);

/* So many reads of the log haven't returned, the first of them at its @sector: aside.h, late.h. */
TRACE_EVENT(dcd_log_late,
	TP_PROTO(struct dcd_engine *e, u64 sector, unsigned int reads),
	TP_ARGS(e, sector, reads),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(unsigned int, reads)
	),
	TP_fast_assign(
		__entry->dev = e->log.bdev->bd_dev;
		__entry->sector = sector;
		__entry->reads = reads;
	),
	TP_printk("%d,%d %llu reads %u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->sector, __entry->reads)
);

/* A block of the log's ring was bad, and is in this spare now. */
TRACE_EVENT(dcd_moved,
	TP_PROTO(struct dcd_engine *e, u64 block, u32 spare),
	TP_ARGS(e, block, spare),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, block)
		__field(u32, spare)
	),
	TP_fast_assign(
		__entry->dev = e->log.bdev->bd_dev;
		__entry->block = block;
		__entry->spare = spare;
	),
	TP_printk("%d,%d block %llu spare %u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->block, __entry->spare)
);

/* A round of destaging has ended; without error the segments below @target are free. */
TRACE_EVENT(dcd_round,
	TP_PROTO(struct dcd_engine *e, u64 target, u64 applied, bool bypass, int error),
	TP_ARGS(e, target, applied, bypass, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, target)
		__field(u64, applied)
		__field(bool, bypass)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->target = target;
		__entry->applied = applied;
		__entry->bypass = bypass;
		__entry->error = error;
	),
	TP_printk("%d,%d segments below %llu, entries up to %llu%s error %d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->target, __entry->applied,
		  __entry->bypass ? ", past the log," : "", __entry->error)
);

/* What the log has of a range doesn't have its checksum. */
TRACE_EVENT(dcd_bad_sum,
	TP_PROTO(struct dcd_engine *e, const struct dcd_place *p, u64 segment),
	TP_ARGS(e, p, segment),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(u64, sectors)
		__field(u64, segment)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->sector = p->sector;
		__entry->sectors = p->last - p->sector + 1;
		__entry->segment = segment;
	),
	TP_printk("%d,%d %llu + %llu in segment %llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->sector, __entry->sectors, __entry->segment)
);

/* A place of the log was given up. */
TRACE_EVENT(dcd_lost,
	TP_PROTO(struct dcd_engine *e, const struct dcd_place *p, u64 segment, int error),
	TP_ARGS(e, p, segment, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(u64, sectors)
		__field(u64, segment)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->sector = p->sector;
		__entry->sectors = p->last - p->sector + 1;
		__entry->segment = segment;
		__entry->error = error;
	),
	TP_printk("%d,%d %llu + %llu in segment %llu error %d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->sector, __entry->sectors, __entry->segment,
		  __entry->error)
);

/* The log is being left, or is no more: enum dcd_leaving. */
TRACE_EVENT(dcd_leave,
	TP_PROTO(struct dcd_engine *e, int state),
	TP_ARGS(e, state),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, state)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->state = state;
	),
	TP_printk("%d,%d state %d", MAJOR(__entry->dev), MINOR(__entry->dev), __entry->state)
);

/* A segment was checked: enum dcd_segment_kind, 0 is good. */
TRACE_EVENT(dcd_scrub,
	TP_PROTO(struct dcd_engine *e, u64 segment, int kind, int error),
	TP_ARGS(e, segment, kind, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, segment)
		__field(int, kind)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->segment = segment;
		__entry->kind = kind;
		__entry->error = error;
	),
	TP_printk("%d,%d segment %llu kind %d error %d", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->segment, __entry->kind, __entry->error)
);

/* A disk fails, or works again (@error 0). */
TRACE_EVENT(dcd_disk,
	TP_PROTO(struct dcd_engine *e, bool log, int error),
	TP_ARGS(e, log, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(bool, log)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->log = log;
		__entry->error = error;
	),
	TP_printk("%d,%d %s disk error %d", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->log ? "log" : "data", __entry->error)
);

/* Bytes of NVRAM, from this offset on, that can't be read. */
TRACE_EVENT(dcd_nvram_bad,
	TP_PROTO(struct dcd_engine *e, u64 offset, unsigned int sectors),
	TP_ARGS(e, offset, sectors),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, offset)
		__field(unsigned int, sectors)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->offset = offset;
		__entry->sectors = sectors;
	),
	TP_printk("%d,%d %u sectors at or behind byte %llu", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->sectors, __entry->offset)
);

/* At open: what was found. */
TRACE_EVENT(dcd_recovery,
	TP_PROTO(struct dcd_engine *e, u64 next_segment, u64 newest_entry, u64 entries, u64 slots,
		 u64 bytes, u64 us, int error),
	TP_ARGS(e, next_segment, newest_entry, entries, slots, bytes, us, error),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, next_segment)
		__field(u64, newest_entry)
		__field(u64, entries)
		__field(u64, slots)
		__field(u64, bytes)
		__field(u64, us)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = e->data.bdev->bd_dev;
		__entry->next_segment = next_segment;
		__entry->newest_entry = newest_entry;
		__entry->entries = entries;
		__entry->slots = slots;
		__entry->bytes = bytes;
		__entry->us = us;
		__entry->error = error;
	),
	TP_printk("%d,%d next segment %llu newest entry %llu live entries %llu slots %llu: %llu bytes in %llu us error %d",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->next_segment,
		  __entry->newest_entry, __entry->entries, __entry->slots,
		  __entry->bytes, __entry->us, __entry->error)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE dcd-trace
#include <trace/define_trace.h>
