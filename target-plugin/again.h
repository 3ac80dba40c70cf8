/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Again: from the tail of the log to its head, what can't or needn't get to the data disk now.
 * The destager's, and only its; it sleeps for room.
 */
#ifndef DCD_AGAIN_H
#define DCD_AGAIN_H

#include <linux/types.h>

struct dcd_again;
struct dcd_engine;
struct dcd_place;

/*
 * What is of @place in segments below @target, zeroes or the data at @bytes (NULL:
 * zeroes), is logged again, at the head; or (@lost) it is logged that it is lost. When it ends
 * it is published. The destager's, who holds nothing. -ENOSPC: there is no room; -EAGAIN: it
 * can't now. A part may have been.
 */
struct dcd_again * __must_check dcd_again_new(void);
int __must_check dcd_log_again(struct dcd_engine *e, const struct dcd_place *place,
			       const void *bytes, bool lost, u64 target);

#endif /* DCD_AGAIN_H */
