/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How fast writes may come in, so that what is being emptied never gets full.
 *
 * Pure arithmetic without overflow for any arguments: no engine, no clock, no
 * locks; any context. Units are in the names; a sector has 512 bytes.
 *
 * Writes are admitted one after the other, each dcd_pace_delay() after the one
 * before it. Below the low watermark that is nothing: a burst isn't slowed. From
 * there on it grows in proportion, and at the high watermark it is as long as
 * emptying what the write brings takes. Above that it grows without a step, so
 * that the level stays below full. What a write brings may need more room than
 * its bytes, or less if it overwrites: then the level settles a little higher or
 * lower, where both are equal; nobody has to know by how much. What is emptied in
 * lumps, each long after it was filled, is no such thing: dcd_pace_share().
 */
#ifndef DCD_PACE_H
#define DCD_PACE_H

#include <linux/types.h>

/* The longest delay of a write: emptying may have stopped, and the write mustn't. */
#define DCD_PACE_MAX_US 50000ULL

/*
 * How fast it is emptied: 1/256 sectors a second, an average that forgets
 * exponentially (an hour ago counts nothing, the last seconds most). 0: nothing
 * was measured yet.
 */
struct dcd_speed {
	u64 rate;
};

/* So many sectors were emptied in so long. Nothing is learnt from no time or no sectors. */
void dcd_speed_add(struct dcd_speed *s, u64 sectors, u64 us);

/* @low < @high < 100, percent of @size. */
struct dcd_level {
	u64 used, size;
	unsigned int low, high;
};

/* Is it above that many percent? */
bool dcd_level_above(const struct dcd_level *l, unsigned int percent);

/*
 * After how many microseconds the write behind one of @sectors may be admitted.
 * While nothing was measured there is no delay up to the high watermark.
 */
u64 dcd_pace_delay(const struct dcd_level *l, const struct dcd_speed *s, u64 sectors);

/*
 * How much more may come in when @used of @size is in use. The last part isn't given
 * away as long as all goes as foreseen; of what it doesn't only ever half, so that a
 * forecast that was wrong ends no write's way. Any unit.
 */
u64 dcd_pace_room(u64 used, u64 size);

/*
 * Room for @room sectors has to last for @us: after how many microseconds the write
 * behind one of @sectors may be admitted. In full at the high watermark, nothing at
 * the low one.
 */
u64 dcd_pace_share(const struct dcd_level *l, u64 us, u64 room, u64 sectors);
/* The same, but no delay is longer than @most us. */
u64 dcd_pace_share_most(const struct dcd_level *l, u64 us, u64 room, u64 sectors, u64 most);

#endif /* DCD_PACE_H */
