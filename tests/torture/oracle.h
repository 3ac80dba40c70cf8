/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The oracle: what may a sector hold after a power cut?
 *
 * It is told what an application did to a device and what the device answered,
 * in the order in which the application saw it, and judges each sector that is
 * read back. It knows nothing of devices, files or time; events are numbered
 * in the order they are told.
 *
 * A write W is *promised* when the device has to keep it over a power cut:
 *   ORACLE_STABLE    W was acknowledged (no volatile cache: WCE=0);
 *   ORACLE_VOLATILE  W was acknowledged and carried FUA, or a flush that was
 *                    issued after W's acknowledgement has been acknowledged.
 * W comes *before* W' when W was acknowledged before W' was issued. Two writes
 * in flight together have no order: either may win, each sector by itself.
 *
 * The rule: what a sector shows is legal unless a promised write that covers
 * the sector comes after it. The sector's baseline (what it held when the
 * history began) comes before everything. A write that was issued and never
 * acknowledged may be there or not, each of its sectors by itself.
 *
 * A discard leaves a sector undefined: zeroes, or whatever it held; it is
 * therefore never promised. A write of zeroes is a write.
 *
 * A failed write (told by oracle_fail) is like one never answered.
 *
 * Not thread-safe. Functions that allocate abort the program when memory ends:
 * a checker without memory has nothing to say.
 */
#ifndef LOCKSTEP_TORTURE_ORACLE_H
#define LOCKSTEP_TORTURE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

enum oracle_promise {
	ORACLE_STABLE,
	ORACLE_VOLATILE,
};

enum oracle_kind {
	ORACLE_WRITE,		/* self-describing sectors */
	ORACLE_ZERO,		/* write zeroes */
	ORACLE_DISCARD,
	ORACLE_FLUSH,		/* covers no sectors */
};

/* One thing that was asked of the device; times are event numbers, 0 = never. */
struct oracle_op {
	uint64_t sector;
	uint32_t count;		/* sectors */
	uint8_t kind;		/* enum oracle_kind */
	uint8_t fua;
	uint8_t failed;
	uint8_t pad;
	uint64_t issued;
	uint64_t acked;
};

/* What a reader saw in one sector. Several may hold at once (zeroes). */
struct oracle_seen {
	bool baseline;		/* equal to what it held at the beginning */
	bool zero;
	bool described;		/* a valid self-description with a good checksum */
	bool foreign_run;	/* ... of another run */
	uint64_t at;		/* ... for this sector number */
	uint32_t op;		/* ... by this op (index + 1) */
};

enum oracle_verdict {
	ORACLE_OK,
	ORACLE_LOST,		/* baseline, though a promised write covers it */
	ORACLE_STALE,		/* an older write, though a promised one replaced it */
	ORACLE_MISPLACED,	/* a sector written for another place */
	ORACLE_PHANTOM,		/* a write never issued, or not for this sector */
	ORACLE_FOREIGN,		/* a sector of another run that wasn't there before */
	ORACLE_MIXED,		/* no whole sector of anybody: torn below 512 bytes */
	ORACLE_VERDICTS,
};

struct oracle;

/* @sectors: size of the device in 512-byte sectors. Free with oracle_free(). */
struct oracle *oracle_new(uint64_t sectors);
void oracle_free(struct oracle *o);

/*
 * Tells that an op was issued; returns its number (1, 2, ...), or 0 when the
 * range is empty or outside the device (a fault of the caller).
 */
uint32_t oracle_issue(struct oracle *o, enum oracle_kind kind, uint64_t sector,
		      uint32_t count, bool fua);

/* Tells the answer to op @id. A second answer is refused: false. */
bool oracle_ack(struct oracle *o, uint32_t id);
bool oracle_fail(struct oracle *o, uint32_t id);

/* The history, for saving; @n gets the number of ops. */
const struct oracle_op *oracle_ops(const struct oracle *o, uint32_t *n);

/* Rebuilds a saved history. NULL when it contradicts itself. */
struct oracle *oracle_load(uint64_t sectors, const struct oracle_op *ops, uint32_t n);

/*
 * Judges one sector. @culprit (may be NULL) gets the number of the promised op
 * that is missing, for ORACLE_LOST and ORACLE_STALE; else 0.
 * The first call after a change of the history indexes it (O(ops' sectors)).
 */
enum oracle_verdict oracle_judge(struct oracle *o, enum oracle_promise promise,
				 uint64_t sector, const struct oracle_seen *seen,
				 uint32_t *culprit);

const char *oracle_verdict_name(enum oracle_verdict v);

#endif
