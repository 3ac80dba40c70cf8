/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Search: the superblock that was at the end of a device when that was smaller.
 * A device that has grown shows none at its end, and looks like a blank one.
 *
 * Both return 0, or -1 after saying on stderr what was wrong with which device.
 * found->kind is SUPER_VALID if one was found; @sectors is then the size that
 * the device had.
 */
#ifndef LOCKSTEP_SEARCH_H
#define LOCKSTEP_SEARCH_H

#include "device.h"

/* Everywhere, from the end on: as long as reading the device takes. */
int search_all(const struct device *d, struct super_found *found, u64 *sectors);

/*
 * Where it probably is, in seconds: anywhere in what the device has grown by if
 * that is little; the ends that volumes and LUNs have (multiples of 4 MiB for
 * 16 GiB, of 1 GiB before); and from @data_sectors on, the size of a mirror that
 * the device may be a leg of, or 0.
 */
int search_likely(const struct device *d, u64 data_sectors, struct super_found *found,
		  u64 *sectors);

#endif
