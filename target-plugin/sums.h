/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The checksums of what is in the log, in memory: whatever is read from there is compared
 * with them before anybody gets it, and before the log gives its copy up.
 *
 * An entry has one checksum, so what is left of an entry that was partly written over can only be
 * checked together with all of it: who reads a range reads its whole entries (dcd_sums_whole()).
 * Eight bytes for each write in a segment, which has a few more, from its commit until the tail has
 * passed it. Where there was no memory for them they are read from the log again, with what else is
 * in the segment.
 *
 * Process context; may sleep for memory and disks, but for dcd_sums_drop(), which doesn't.
 */
#ifndef DCD_SUMS_H
#define DCD_SUMS_H

#include <linux/types.h>

struct dcd_engine;
struct dcd_place;

void dcd_sums_init(struct dcd_engine *e);
void dcd_sums_free(struct dcd_engine *e);

/*
 * Of a segment that is whole. @seg: all of its bytes, of which the entries' checksums are
 * believed. Without memory nothing is kept.
 */
void dcd_sums_keep(struct dcd_engine *e, u64 segment, const void *seg, u32 entries);
/* Of one that isn't: those of the entries that are right. */
void dcd_sums_keep_right(struct dcd_engine *e, u64 segment, const void *seg, u32 entries);
/* The number of a segment's first entry; false: nobody knows it. */
bool __must_check dcd_sums_first(struct dcd_engine *e, u64 segment, u64 *first);
/* Nobody reads these segments, @end not among them, from the log any more. */
void dcd_sums_drop(struct dcd_engine *e, u64 first, u64 end);

/*
 * The range of whole entries that @p, which isn't zeroes, is a part of. -ENOMEM; -EBADMSG: the log
 * can't tell any more what it was, which is counted and told; -ESTALE: it isn't there any more, ask
 * the index anew (never the destager, who alone lets go of places); or why it can't be read. If the
 * log has to be asked for it: @patience as of dcd_log_read().
 */
int __must_check dcd_sums_whole(struct dcd_engine *e, const struct dcd_place *p,
				struct dcd_place *whole, unsigned long patience);
/*
 * @bytes are what was read of @whole, from memory or the log. If they are wrong they are read
 * from the log once more, as a disk may read well what its cable has spoiled; @patience likewise.
 * -EBADMSG: they are wrong; that is counted and told. -ESTALE likewise.
 */
int __must_check dcd_sums_check(struct dcd_engine *e, const struct dcd_place *whole, void *bytes,
				unsigned long patience);

#endif /* DCD_SUMS_H */
