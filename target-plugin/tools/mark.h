/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mark: what the superblock of a mirror's leg says of the log in front of its disk
 * (dm-target/lockstep-format.h), written on the disk itself while no DCD uses it. A disk
 * that carries no leg stays as it is.
 */
#ifndef DCD_MARK_H
#define DCD_MARK_H

#include "../dcd-format.h"
#include "device.h"

/*
 * The disk lacks, from now on, what the log may have. With another log's mark on it, or with two
 * that may be the leg: refused, unless @force (then it is the one at the newest end). @before: the log that the disk had before, or NULL: that one knows where
 * the leg lies if the disk has grown and the mirror hasn't. *end: the size of the disk at the end of
 * which it lies; 0: it carries none. Returns 0, or -1 after saying on stderr what is wrong.
 */
int mark_behind(const struct device *data, const u8 log_uuid[16], const struct dcd_super *before,
		bool force, u64 *end);

/*
 * The disk has all of the log with this superblock. @marked: whether it is a leg that was behind
 * this log, or has been told before that it has all of it.
 */
int mark_left(const struct device *data, const struct dcd_super *log, bool *marked);

#endif
