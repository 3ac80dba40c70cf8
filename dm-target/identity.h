/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Identity: when two mirrors of this host have one leg, by whatever device.
 *
 * A leg may be reached by two block devices: a LUN by two sessions or portals, through an LV,
 * after a logout and a login. Two legs are one if
 *  - they are the same block device; or
 *  - their superblocks have the same uuid; or
 *  - one of the mirrors has no metadata, and both are the same leg at one place of one mapped
 *    device (by its uuid, or by its name if it has none, as it was when anybody last looked
 *    at its status or a leg was given up): all that can be known then.
 *
 * All are called under the registry's lock, as what struct registered says changes there. They
 * don't sleep.
 */
#ifndef LOCKSTEP_IDENTITY_H
#define LOCKSTEP_IDENTITY_H

#include <linux/types.h>

#include "leg.h"

struct mirror;

bool leg_same_device(const struct leg *a, const struct leg *b);

/* See above, at two legs that are one. */
bool identity_same_leg(const struct mirror *a, enum leg_id i,
		       const struct mirror *b, enum leg_id j);
/* By that alone: both have metadata, and both uuids are known. */
bool identity_same_uuid(const struct mirror *a, enum leg_id i,
			const struct mirror *b, enum leg_id j);
/* Each leg is on the same block device as that of the other mirror. */
bool identity_same_legs(const struct mirror *a, const struct mirror *b);
/* Is any leg of one a leg of the other, by its block device? */
bool identity_share_device(const struct mirror *a, const struct mirror *b);

#endif
