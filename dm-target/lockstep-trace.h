/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints of dm-lockstep (events/lockstep): the life of a write, and every
 * change of what a leg is good for. A mirror is told by its device number.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lockstep

#if !defined(LOCKSTEP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define LOCKSTEP_TRACE_H

#include <linux/device-mapper.h>
#include <linux/tracepoint.h>

#include "mirror.h"

/* Not by its target: what comes late is told, too. */
#define lockstep_dev(m)	((m)->devt)

TRACE_EVENT(lockstep_write,
	TP_PROTO(struct mirror *m, sector_t sector, unsigned int sectors),
	TP_ARGS(m, sector, sectors),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(unsigned int, sectors)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->sector = sector;
		__entry->sectors = sectors;
	),
	TP_printk("%d,%d %llu + %u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->sector, __entry->sectors)
);

TRACE_EVENT(lockstep_write_done,
	TP_PROTO(struct mirror *m, sector_t sector, unsigned int sectors, blk_status_t status),
	TP_ARGS(m, sector, sectors, status),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(unsigned int, sectors)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->sector = sector;
		__entry->sectors = sectors;
		__entry->error = blk_status_to_errno(status);
	),
	TP_printk("%d,%d %llu + %u error %d", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->sector, __entry->sectors, __entry->error)
);

TRACE_EVENT(lockstep_absorbed,
	TP_PROTO(struct mirror *m, sector_t sector, unsigned int sectors, sector_t by, bool waits),
	TP_ARGS(m, sector, sectors, by, waits),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, sector)
		__field(unsigned int, sectors)
		__field(u64, by)
		__field(bool, waits)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->sector = sector;
		__entry->sectors = sectors;
		__entry->by = by;
		__entry->waits = waits;
	),
	TP_printk("%d,%d %llu + %u by that at %llu, which waits %s", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->sector, __entry->sectors, __entry->by,
		  __entry->waits ? "for its range" : "in a batch")
);

TRACE_EVENT(lockstep_leg_error,
	TP_PROTO(struct mirror *m, enum leg_id leg, sector_t sector, blk_status_t status),
	TP_ARGS(m, leg, sector, status),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(u64, sector)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->sector = sector;
		__entry->error = blk_status_to_errno(status);
	),
	TP_printk("%d,%d leg %d %llu error %d", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->leg, __entry->sector, __entry->error)
);

TRACE_EVENT(lockstep_leg,
	TP_PROTO(struct mirror *m, enum leg_id leg, char health),
	TP_ARGS(m, leg, health),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(char, health)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->health = health;
	),
	TP_printk("%d,%d leg %d is %c", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->leg, __entry->health)
);

TRACE_EVENT(lockstep_stale,
	TP_PROTO(struct mirror *m, enum leg_id leg, sector_t start, sector_t last),
	TP_ARGS(m, leg, start, last),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(u64, start)
		__field(u64, last)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->start = start;
		__entry->last = last;
	),
	TP_printk("%d,%d leg %d stale by %llu..%llu", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->leg, __entry->start, __entry->last)
);

TRACE_EVENT(lockstep_in_sync,
	TP_PROTO(struct mirror *m, enum leg_id leg, unsigned long region),
	TP_ARGS(m, leg, region),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(unsigned long, region)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->region = region;
	),
	TP_printk("%d,%d leg %d region %lu in sync", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->leg, __entry->region)
);

TRACE_EVENT(lockstep_super,
	TP_PROTO(struct mirror *m, enum leg_id leg, u32 state, u64 seq),
	TP_ARGS(m, leg, state, seq),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(u32, state)
		__field(u64, seq)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->state = state;
		__entry->seq = seq;
	),
	TP_printk("%d,%d leg %d superblock %llu: state %u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->leg, __entry->seq, __entry->state)
);

TRACE_EVENT(lockstep_map,
	TP_PROTO(struct mirror *m, enum leg_id leg, unsigned long page, unsigned int pages),
	TP_ARGS(m, leg, page, pages),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(unsigned long, page)
		__field(unsigned int, pages)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->page = page;
		__entry->pages = pages;
	),
	TP_printk("%d,%d leg %d map page %lu + %u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->leg, __entry->page, __entry->pages)
);

TRACE_EVENT(lockstep_differs,
	TP_PROTO(struct mirror *m, enum leg_id leg, sector_t first, sector_t last,
		 unsigned int sectors),
	TP_ARGS(m, leg, first, last, sectors),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(u64, first)
		__field(u64, last)
		__field(unsigned int, sectors)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->first = first;
		__entry->last = last;
		__entry->sectors = sectors;
	),
	TP_printk("%d,%d %u sectors differ in %llu..%llu, leg %d is to be mended",
		  MAJOR(__entry->dev), MINOR(__entry->dev), __entry->sectors, __entry->first,
		  __entry->last, __entry->leg)
);

TRACE_EVENT(lockstep_digested,
	TP_PROTO(struct mirror *m, sector_t start, unsigned int sectors, unsigned int differing),
	TP_ARGS(m, start, sectors, differing),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, start)
		__field(unsigned int, sectors)
		__field(unsigned int, differing)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->start = start;
		__entry->sectors = sectors;
		__entry->differing = differing;
	),
	TP_printk("%d,%d %llu+%u %u in doubt", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->start, __entry->sectors, __entry->differing)
);

TRACE_EVENT(lockstep_repair,
	TP_PROTO(struct mirror *m, enum leg_id leg, sector_t sector, bool good),
	TP_ARGS(m, leg, sector, good),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, leg)
		__field(u64, sector)
		__field(bool, good)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->leg = leg;
		__entry->sector = sector;
		__entry->good = good;
	),
	TP_printk("%d,%d leg %d %llu %s", MAJOR(__entry->dev), MINOR(__entry->dev), __entry->leg,
		  __entry->sector, __entry->good ? "repaired" : "stays bad")
);

/* One command for several runs of a batch has returned, or couldn't be sent. */
TRACE_EVENT(lockstep_scattered,
	TP_PROTO(struct mirror *m, unsigned int runs, unsigned int bytes, bool sent, bool good,
		 u8 key),
	TP_ARGS(m, runs, bytes, sent, good, key),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(unsigned int, runs)
		__field(unsigned int, bytes)
		__field(bool, sent)
		__field(bool, good)
		__field(u8, key)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->runs = runs;
		__entry->bytes = bytes;
		__entry->sent = sent;
		__entry->good = good;
		__entry->key = key;
	),
	TP_printk("%d,%d %u runs, %u bytes: %s, sense key %u", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->runs, __entry->bytes,
		  !__entry->sent ? "no room" : __entry->good ? "good" : "failed", __entry->key)
);

/* A write or a read has returned, and its class' limit has changed (window.h). */
TRACE_EVENT(lockstep_window,
	TP_PROTO(struct mirror *m, size_t limit, size_t bytes, u64 ns),
	TP_ARGS(m, limit, bytes, ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(size_t, limit)
		__field(size_t, bytes)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->limit = limit;
		__entry->bytes = bytes;
		__entry->ns = ns;
	),
	TP_printk("%d,%d limit %zu, %zu bytes on the way, answered in %llu ns", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->limit, __entry->bytes, __entry->ns)
);

/* A write has returned, and what those of its kind may have at once has changed (budget.h). */
DECLARE_EVENT_CLASS(lockstep_budget,
	TP_PROTO(struct mirror *m, size_t limit, size_t bytes, u64 ns),
	TP_ARGS(m, limit, bytes, ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(size_t, limit)
		__field(size_t, bytes)
		__field(u64, ns)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->limit = limit;
		__entry->bytes = bytes;
		__entry->ns = ns;
	),
	TP_printk("%d,%d limit %zu, %zu bytes held, answered in %llu ns", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->limit, __entry->bytes, __entry->ns)
);

DEFINE_EVENT(lockstep_budget, lockstep_background,
	TP_PROTO(struct mirror *m, size_t limit, size_t bytes, u64 ns),
	TP_ARGS(m, limit, bytes, ns)
);

DEFINE_EVENT(lockstep_budget, lockstep_front,
	TP_PROTO(struct mirror *m, size_t limit, size_t bytes, u64 ns),
	TP_ARGS(m, limit, bytes, ns)
);

/* What is known of the remote leg. */
TRACE_EVENT(lockstep_scatter_state,
	TP_PROTO(struct mirror *m, int state, unsigned int ranges, unsigned int sectors),
	TP_ARGS(m, state, ranges, sectors),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(int, state)
		__field(unsigned int, ranges)
		__field(unsigned int, sectors)
	),
	TP_fast_assign(
		__entry->dev = lockstep_dev(m);
		__entry->state = state;
		__entry->ranges = ranges;
		__entry->sectors = sectors;
	),
	TP_printk("%d,%d state %d, %u ranges, %u sectors", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->state, __entry->ranges, __entry->sectors)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE lockstep-trace
#include <trace/define_trace.h>
