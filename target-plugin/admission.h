/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Admission: how fast writes may come in. Of the levels of ring, index and NVRAM the one that
 * needs most time counts. Index and NVRAM are emptied all the time: by how full they
 * are a write has to wait (pace.h). The ring isn't: what was written in a moment
 * comes back in a moment, once round the data disk later. But when that will be can
 * be foreseen by the marks and by what waits on the way to them (turn.h), so the room
 * that is left is shared out evenly until then; and when it is overdue, by how full the
 * last part is.
 */
#ifndef DCD_ADMISSION_H
#define DCD_ADMISSION_H

#include <linux/ktime.h>
#include <linux/types.h>

struct dcd_engine;
struct dcd_speed;

/*
 * Segments that may be opened: room in ring and index, without what is kept
 * for zeroes that are logged again; _left: the ring's, with that. Need @lock.
 */
u64 dcd_ring_free(const struct dcd_engine *e);
u64 dcd_ring_left(const struct dcd_engine *e);
/* Past a dead log, is no more left than what is lost needs? Needs @lock. */
bool dcd_slots_for_lost(const struct dcd_engine *e);
/* Is room soon wanted that is there as soon as both copies of the superblock have @tail? */
bool dcd_ring_is_behind(const struct dcd_engine *e, u64 tail);
bool dcd_pressed(struct dcd_engine *e);	/* is that above the low watermark? */
bool dcd_ring_pressed(struct dcd_engine *e);	/* the ring alone */
bool dcd_ring_tight(struct dcd_engine *e);	/* above the high one? */
bool dcd_ring_of_zeroes(struct dcd_engine *e);	/* half of it, by zeroes alone? */
bool dcd_log_pressed(struct dcd_engine *e);	/* the log disk is behind, so NVRAM fills up? */
/*
 * After how many microseconds the write behind one of @sectors may be admitted, by
 * how full ring, index and NVRAM are, how fast they are emptied, and what is foreseen.
 * Any context.
 */
u64 dcd_pace_us(struct dcd_engine *e, sector_t sectors);
/* A segment gets no more than @sectors, as dcd_counts() has it. Needs @lock. */
void dcd_pace_sealed(struct dcd_engine *e, u64 sectors);
/* So many sectors were written in the time since @began; @speed is one of the engine's. */
void dcd_pace_learn(struct dcd_engine *e, struct dcd_speed *speed, sector_t sectors,
		    ktime_t began);
/* The destager's: it goes on from here; or it doesn't, for now. */
void dcd_foresee(struct dcd_engine *e);
void dcd_foresee_nothing(struct dcd_engine *e);

#endif /* DCD_ADMISSION_H */
