/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is asked of the log, or written there, by those who mustn't wait for it: the destager, the
 * committer and the scrub. A disk may try a bad block for seconds, or not answer at all.
 *
 * Each read is into memory of its own, by a worker. Who asks waits for a moment at most; what
 * hasn't come by then is left: it goes on by itself, and its memory stays until it has returned.
 * There may be DCD_ASIDE_MOST of those: while there are as many nothing more is asked of the log.
 *
 * A write is left when it hasn't returned for DCD_ASIDE_WRITES, but only where it isn't needed: an
 * NVRAM keeps its content, or it is asked whether the log takes one, before it is left. It may get
 * to the disk at any time later, so until it has returned nothing else is written to the log. The
 * committer's write of a segment is left likewise (log.c).
 *
 * Process context.
 */
#ifndef DCD_ASIDE_H
#define DCD_ASIDE_H

#include <linux/types.h>

struct dcd_engine;

#define DCD_ASIDE_MOST 16U
#define DCD_ASIDE_WRITES (4 * HZ)

/*
 * @bytes of the log from @sector on, to @buf, within @patience (jiffies; 0 doesn't wait). -ETIME:
 * not by then; -ENOMEM; or the disk's error.
 */
int __must_check dcd_aside_read(struct dcd_engine *e, u64 sector, void *buf, size_t bytes,
				unsigned long patience);
/* @bytes of @buf to @sector, durable. -ETIME: not yet, or another write is late; or an error. */
int __must_check dcd_aside_write(struct dcd_engine *e, u64 sector, void *buf, size_t bytes);
/*
 * Until a write that began at @since (jiffies) has returned, and has set *@done and woken @quiet,
 * or is to be left.
 */
void dcd_aside_wait(struct dcd_engine *e, const bool *done, unsigned long since);
/* So many have been left, and have not returned. Who frees the engine waits until there is none. */
unsigned int dcd_asides(struct dcd_engine *e);

#endif /* DCD_ASIDE_H */
