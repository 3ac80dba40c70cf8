/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Wounded: segments of the log of which only payloads are damaged (plan.h). What was destaged
 * before a crash counts as long as no superblock says more, so the data disk may have what the
 * log can't give any more: then it isn't lost, and making it a medium error would throw an
 * acknowledged write away.
 *
 * When all that is live is in the index, the data disk is asked for what is left of each such
 * write. Whether it has that, the write's checksum says (dcd_entry_from_data()). Nothing else can:
 * the same bytes there and in the log may be those from before; and of a write that was partly
 * written over later, there too, what is left can't be told from an older one if the log's bytes of
 * the rest are damaged. That stays lost, as it isn't known. What the data disk has is flushed
 * first: a crash of this host alone leaves it in the disk's cache.
 *
 * Then the log gets the payload again, in its place, and the write is live as if it had never been
 * damaged. Leaving it out of the index instead wouldn't last: when something is written over a part
 * of it and destaged, and another crash comes, nobody can tell any more. Only if the log doesn't
 * take it, or doesn't give it within a moment then, it is left out: the data disk is right then, as
 * what is older is out of the index too.
 *
 * The time is that of a read of the data disk for each damaged write; a data disk that fails, too,
 * or takes long to, isn't asked on and on.
 */
#ifndef DCD_WOUNDED_H
#define DCD_WOUNDED_H

#include <linux/xarray.h>

struct dcd_engine;
struct dcd_entry;
struct dcd_opening;

/*
 * At recovery, by who has @intake. @segments: those that were taken wounded. @left: a byte for
 * each sector of a segment. Uses @commit_buf and @scrub.buf. -ENOMEM, or opening.h's end.
 */
int __must_check dcd_wounded_ask(struct dcd_engine *e, struct dcd_opening *o,
				 struct xarray *segments, u64 applied, u8 *left);
/*
 * A write in NVRAM whose payload can't be read there: does the data disk have all of it? 1: then it
 * is in @scrub.buf; 0: no, or nobody knows; -ENOMEM. What was brought there past a dead log is live
 * until the NVRAM's header says more. (Of a part of one nothing can be known here.)
 */
int __must_check dcd_wounded_data_has(struct dcd_engine *e, struct dcd_opening *o,
				      const struct dcd_entry *n);

/*
 * The payload of an entry of this segment, which is right in @commit_buf, becomes so in the log. 0
 * if it can be read there then; @refused: it takes no writes. Process context; uses @scrub.buf, and
 * @commit_buf may be another one afterwards.
 */
int __must_check dcd_wounded_to_log(struct dcd_engine *e, u64 sequence, const struct dcd_entry *n,
				    bool *refused);

/* At recovery: what is there of this segment is nobody's (plan.h, leftover). The log may fail. */
void dcd_wounded_wipe(struct dcd_engine *e, u64 sequence);

#endif /* DCD_WOUNDED_H */
