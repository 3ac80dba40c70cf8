/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Service times of a spindle: pure arithmetic over a clock that the caller
 * gives, so that it can be tested without a kernel. All times in nanoseconds,
 * all places in 512-byte sectors.
 *
 * The spindle is the papers' disk, a Seagate ST318452LW (Cheetah X15 36LP,
 * 18.4 GB). From the family's published data: 15,000 rpm (4 ms a turn, 2 ms
 * mean latency), average seek 3.6 ms for reads and 4.2 ms for writes, 18,479
 * cylinders, 51 to 69 MB/s from the inner to the outer zone, 8 MB of cache,
 * Ultra160. The rest is chosen to fit them: 4 surfaces; 16 zones of 557 to 413
 * sectors a track (which gives the capacity); 0.3 ms skew for a change of
 * track (sustained 49 to 66 MB/s); 0.4 ms to the next cylinder; 0.1 ms for a
 * command. The seek curve is a + b sqrt(d) over the first third of the stroke
 * and goes on as its tangent; a and b give the average of 3.6 ms.
 *
 * A sector's angle comes from its number, the platter's from the clock, so
 * rotational latency is not drawn but follows from when a request starts.
 */
#ifndef LOCKSTEP_MEDIA_MODEL_H
#define LOCKSTEP_MEDIA_MODEL_H

#include <linux/types.h>

#define SPINDLE_REVOLUTION	4000000ULL
#define SPINDLE_CYLINDERS	18479U
#define SPINDLE_SECTORS		35843670ULL
#define SPINDLE_COMMAND		100000ULL
#define SPINDLE_CACHE_BYTES	(8U << 20)

/**
 * struct spindle - where the head is and what was read ahead
 * @sectors: size of the device
 * @spread: stretch the device over the whole stroke; always so when the device
 *	is larger than the disk
 * @ahead_from, @ahead_to: sectors in the read-ahead buffer; reading went on
 *	from @ahead_to at @ahead_since, up to @ahead_limit
 */
struct spindle {
	u64 sectors;
	bool spread;
	u32 cylinder;
	u64 ahead_from;
	u64 ahead_to;
	u64 ahead_limit;
	u64 ahead_since;
	bool ahead_runs;
};

void spindle_init(struct spindle *s, u64 sectors, bool spread);

/* Time of a seek over @distance cylinders. */
u64 spindle_seek(u32 distance, bool write);

/* Cylinder of a sector: for elevators. */
u32 spindle_cylinder(const struct spindle *s, u64 sector);

/*
 * Moves the head: how long the request takes when the head starts at @now.
 * Ends the read-ahead that was going on, starts the next one after a read.
 */
u64 spindle_serve(struct spindle *s, u64 now, bool write, u64 sector, u32 count);

/*
 * Is the read served by the read-ahead? Then @wait gets the time until its
 * last sector is in the buffer, and reading goes on.
 */
bool spindle_read_ahead(struct spindle *s, u64 now, u64 sector, u32 count, u64 *wait);

/* Command overhead and transfer over the bus (160 MB/s). */
u64 spindle_bus(u32 count);

#endif
