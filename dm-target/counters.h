/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters: one for each distinct path of the target, counted on each CPU.
 * Counting is allowed in any context and costs no lock; a sum is exact when
 * nothing is in flight. Errors of a leg are counted in the leg.
 */
#ifndef LOCKSTEP_COUNTERS_H
#define LOCKSTEP_COUNTERS_H

#include <linux/percpu.h>
#include <linux/types.h>

/* The order is that of the status line: append only. */
enum counter {
	COUNT_WRITES,		/* write bios accepted, data only */
	COUNT_READS,
	COUNT_FLUSHES,
	COUNT_FUA,		/* of the writes: those with FUA */
	COUNT_ZEROES,		/* discards and write-zeroes */
	COUNT_WAITED,		/* of writes and zeroes: waited for an overlapping one */
	COUNT_COPIED,		/* bytes copied into own pages */
	COUNT_PUNTED,		/* of the writes: had to wait for memory */
	COUNT_FAILOVERS,	/* reads served by the second leg after the first failed */
	COUNT_ALONE,		/* writes acknowledged by one leg only */
	COUNT_REFUSED,		/* writes failed by policy, or for want of a current leg */
	COUNT_LATE,		/* errors of writes abandoned or sent before the leg's last death */
	COUNT_RESYNCED,		/* sectors copied by the resync */
	COUNT_ABANDONED,	/* writes, zeroes, flushes that gave up waiting for a dead leg */
	COUNT_HELD,		/* writes and flushes held by the standing */
	COUNT_MARKED,		/* writes and zeroes that had to wait for the dirty map */
	COUNT_MAP_WRITES,	/* pages of the dirty map written */
	COUNT_SUPER_WRITES,	/* superblocks written, both slots */
	COUNT_CLEANED,		/* times that idle regions were written out as clean */
	COUNT_COMPARED,		/* sectors that it compared before (resync_compare) */
	COUNT_EQUAL,		/* of them: didn't have to be copied */
	COUNT_BATCHES,		/* batches of writes that have waited (batch.h) */
	COUNT_BATCHED,		/* writes in them */
	COUNT_MERGED,		/* of these: sent in the bio of an adjacent one */
	COUNT_ABSORBED,		/* writes that became part of one that waited (absorb.h) */
	COUNT_SAVED,		/* their bytes, which were never sent by themselves */
	COUNT_VERIFIED,		/* sectors that verify has compared */
	COUNT_REPAIRED,		/* bad places written anew, read back and found good */
	COUNT_REPAIRS_FAILED,	/* bad places that are bad still */
	COUNT_REPAIRS_DROPPED,	/* read errors not followed: too many, or known */
	COUNT_ABSORBED_WAITING,	/* of the absorbed: by one that waited for its range */
	COUNT_DIGESTED,		/* sectors compared by their digests (digest.h) */
	COUNT_DIGESTS_EQUAL,	/* of them: neither read from the remote leg nor copied */
	COUNT_DIGESTS_FAILED,	/* times that digests couldn't be used */
	COUNT_SCATTERED,	/* commands with several runs of a batch (scatter.h) */
	COUNT_SCATTERED_RUNS,	/* runs in them */
	COUNT_SCATTERED_AGAIN,	/* of these: sent once more, as the command failed */
	COUNT_SCATTERED_PUNTED,	/* runs sent singly for want of memory, or of room in the queue */
	COUNT_PARKED,		/* runs and reads that waited for others on the wire (window.h) */
	COUNT_WINDOW_HALVED,	/* times that the wire was found to be slower than believed */
	COUNT_BUDGET_WAITED,	/* writes that waited for the budget (budget.h)... */
	COUNT_BUDGET_BACKGROUND, /* ...and background writes and zeroings that did */
	COUNT_BUDGET_LEFT,	/* of both: nobody slept for them, only the bio waited */
	COUNT_READS_ABANDONED,	/* reads that gave up waiting for a dead leg (bounce.h) */
	COUNTERS,
};

struct counters {
	u64 __percpu *cpu;
};

int __must_check counters_create(struct counters *c);
void counters_destroy(struct counters *c);
void counters_reset(struct counters *c);
u64 counters_sum(const struct counters *c, enum counter which);

static inline void count_add(const struct counters *c, enum counter which, u64 n)
{
	this_cpu_add(c->cpu[which], n);
}

static inline void count(const struct counters *c, enum counter which)
{
	count_add(c, which, 1);
}

#endif
