/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Growth: the devices of a mirror have become larger. The rules, for the module
 * (grow.h) and lockstep-meta alike. Pure, any context, no locks; all sizes are in
 * sectors.
 *
 * Two steps, of which the first is right for a leg in any state by itself:
 *
 *  a leg moves. "->" is: durable, before the next begins:
 *    its map at the new end, whole, under a new epoch -> the old superblock says
 *    moved_to -> growth_move()'s superblock at the new end, which says moved_from
 *    -> the old superblock's slots zeroed -> the new one says no more moved_from.
 *    A crash before the third leaves a device that has nothing at its end, and
 *    the old superblock before it, which counts as nothing newer is where it points
 *    to; one after it an older superblock in what isn't data yet, that points to the
 *    newer one: so it is never taken for the newest, wherever the device ends by
 *    then. The length of the mirror isn't touched, and no superblock is written
 *    with a new one before moved_from has been cleared: data don't reach there.
 *  the mirror gets longer, to any length that both legs have room for:
 *    the source's map has every region set that reaches beyond the old length
 *    -> growth_extend() on the source -> the other leg super_join()s, and has the
 *    source's length by that.
 *    A crash between the two leaves legs of two lengths: the longer is the source
 *    (verdict.h), and nobody has used the new room yet.
 *
 * The region size stays what it is, and the map gets longer: so a device may grow
 * until it has LOCKSTEP_REGIONS_MAX regions. And it must grow by enough for the new
 * metadata to lie behind the old.
 */
#ifndef LOCKSTEP_GROWTH_H
#define LOCKSTEP_GROWTH_H

#include "super.h"

enum growth {
	GROWTH_NONE,		/* the device has the size that it had */
	GROWTH_OK,
	GROWTH_SHRUNK,
	GROWTH_TOO_LITTLE,	/* the new metadata would lie over the old */
	GROWTH_TOO_LARGE,	/* more regions of that size than there may be */
};

/**
 * growth_check - can the metadata of a leg move to the end of its device?
 * @had: the size of the device at whose end they are
 * @has: its size now
 * @to: set if the result is GROWTH_OK
 */
enum growth __must_check growth_check(const struct super *s, u64 had, u64 has,
				      struct lockstep_layout *to);

/* What is wrong and what to do, after "the device ". */
const char *growth_text(enum growth growth);

/* The superblock at the new end of a device that had @had sectors. Its map has a new epoch. */
void growth_move(struct super *s, u64 had, const struct lockstep_layout *to);

/* Has the leg room for a mirror of this length, without moving? */
bool __must_check growth_room(const struct super *s, u64 data_sectors);

/* The first region that reaches beyond the mirror's length: so it and all that follow are new. */
static inline u64 growth_first_region(const struct super *s)
{
	return s->data_sectors >> s->region_shift;
}

/* Both legs have room. */
void growth_extend(struct super *s, u64 data_sectors);

#endif
