/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wounded: writes whose payload is damaged in the log (or can't be read in NVRAM), and which the data disk may have, as a crash
 * came between its flush and the superblock that says so. By the write's checksum, and nothing
 * else (dcd_entry_from_data()); the module does the same (../wounded.h).
 *
 * Before anything is written to such a data disk the log has to have those payloads again: the
 * older versions that the log has, too, come to the data disk before the newer ones, and whoever is
 * interrupted then would have overwritten the last good copy.
 */
#ifndef DCD_TOOL_WOUNDED_H
#define DCD_TOOL_WOUNDED_H

#include "set.h"

/* A segment was taken wounded: set_walk()'s. Without memory s->failed. */
void wounded_add(struct set *s, u64 sequence);
/*
 * After a walk: what the data disk has (none: nothing) isn't lost any more. 0, or -1: s->failed.
 */
int wounded_ask(struct set *s);

/*
 * Of slot @number, in s->buf, writes whose payload can't be read, and all of which the data disk
 * has: they get it, and s->unread knows. 0, or -1: s->failed.
 */
int wounded_slot(struct set *s, u32 number, u32 entries);
/*
 * The log gets what they have found, and the NVRAM, durable: another walk finds it whole. 0, or -1:
 * refused.
 */
int wounded_to_log(struct set *s);
void wounded_none(struct set *s);

#endif
