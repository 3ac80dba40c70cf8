/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads of the log for those who mustn't wait for them: the destager, the committer and the scrub.
 * A disk may try a bad block for seconds, or not answer at all.
 *
 * Each is into memory of its own, by a worker. Who asks waits for a moment at most; what hasn't
 * come by then is left: it goes on by itself, and its memory stays until it has returned. There
 * may be DCD_ASIDE_MOST of those: while there are as many nothing more is asked of the log.
 *
 * Process context.
 */
#ifndef DCD_ASIDE_H
#define DCD_ASIDE_H

#include <linux/types.h>

struct dcd_engine;

#define DCD_ASIDE_MOST 16U

/*
 * @bytes of the log from @sector on, to @buf, within @patience (jiffies; 0 doesn't wait). -ETIME:
 * not by then; -ENOMEM; or the disk's error.
 */
int __must_check dcd_aside_read(struct dcd_engine *e, u64 sector, void *buf, size_t bytes,
				unsigned long patience);
/* So many have been left, and have not returned. Who frees the engine waits until there is none. */
unsigned int dcd_asides(struct dcd_engine *e);

#endif /* DCD_ASIDE_H */
