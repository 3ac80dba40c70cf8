/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Search: the superblock that was at the end of a device when that was smaller.
 * A device that has grown shows none at its end, and looks like a blank one.
 *
 * found->kind is SUPER_VALID if one was found, else SUPER_BLANK; @sectors is then
 * the size that the device had. Of several, as an earlier mirror or a crash may have
 * left them, it is the newest: of one leg that with the highest number, else that
 * at the highest end. Places that can't be read are passed over. But one that a
 * superblock points to, of a move that had begun (growth.h), is looked at, wherever
 * it is; if that can't be done, or lies behind the device's end, found->kind is
 * SUPER_BAD, with the reason.
 */
#ifndef LOCKSTEP_SEARCH_H
#define LOCKSTEP_SEARCH_H

#include "device.h"

#define SEARCH_SECONDS		30
#define SEARCH_ENDED		1
#define SEARCH_ENDED_TEXT \
	"the device is too slow to look everywhere where the end of a smaller one may have been; if it was a leg and has grown since, it isn't blank"

/*
 * Everywhere where it probably is, then everywhere until one is found: as long as
 * reading the device takes. Says on stderr that it reads all of it.
 */
void search_all(const struct device *d, struct super_found *found, u64 *sectors);

/*
 * Where it probably is: the ends that volumes and LUNs have (multiples of 1 GiB,
 * and of 4 MiB for the last 16 GiB); from @data_sectors on, the size of a mirror
 * that the device may be a leg of, or 0; and anywhere in what the device has grown
 * by if that is little. Many places at a time if they are answered soon (device.h), as a
 * link with a delay and a disk want it, and no longer than SEARCH_SECONDS. 0, or
 * SEARCH_ENDED: the time was over before all of it was looked at.
 */
int search_likely(const struct device *d, u64 data_sectors, struct super_found *found,
		  u64 *sectors);

/*
 * Zero, durably, what is found for the old size @sectors: each of the two slots
 * that still is one. 0, or -1 after saying on stderr what was wrong.
 */
int search_clear(const struct device *d, u64 sectors);
/* Likewise written anew; but where the device's end was before only if neither is anything else. */
int search_put(const struct device *d, u64 sectors, const struct super *s);

#endif
