/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What dm-writeboost (2.2.17) expects of the kernel, made of what the kernel has today: dm_io()
 * tells by a word of its own what a device can't do, and limits are set by hand. Included before
 * each of its files. Its callbacks, which dm_io() gives both words, are changed by the script.
 */
#ifndef DM_WRITEBOOST_COMPAT_H
#define DM_WRITEBOOST_COMPAT_H

#include <linux/blkdev.h>
#include <linux/dm-io.h>

/* Both words mean that a region has failed. @failed may be NULL. */
static inline int writeboost_dm_io(struct dm_io_request *request, unsigned int nr,
				   struct dm_io_region *regions, unsigned long *failed,
				   unsigned short ioprio)
{
	unsigned long error = 0, unsupported = 0;
	int r = dm_io(request, nr, regions, &error, &unsupported, ioprio);

	if (failed)
		*failed = error | unsupported;
	return r;
}
#define dm_io writeboost_dm_io

static inline void blk_limits_io_opt(struct queue_limits *limits, unsigned int bytes)
{
	limits->io_opt = bytes;
}

#endif
