/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Device: a block device or a plain file (an image) that is a log disk, an NVRAM
 * or a data disk. Functions return 0, or -1 after saying on stderr what was wrong
 * with which device.
 */
#ifndef DCD_DEVICE_H
#define DCD_DEVICE_H

#include "../moves.h"

/* @moves: of a log: whatever is read or written goes the way that says; NULL: none is moved. */
struct device {
	const char *path;
	int fd;
	u64 bytes;
	const struct dcd_moves *moves;
};

/*
 * For writing it is opened exclusively: a device that is mounted, or open in a DCD, is
 * refused. What the page cache had of it is dropped: a DCD writes below it.
 */
int device_open(struct device *d, const char *what, const char *path, bool for_writing);
void device_close(struct device *d);
/* 0 or a negative errno, without a word; -EIO also if it ends there. */
int device_try_read(const struct device *d, void *buf, size_t bytes, u64 at);
/*
 * All but what can't be read: that is zeroes and set in @unread, a byte for each sector. Returns how
 * many sectors. @at and @bytes are whole ones. What took long to fail isn't asked for again before
 * it is written, nor by its sectors if the disk has none: as the module does (opening.h).
 */
u32 device_read_around(const struct device *d, void *buf, size_t bytes, u64 at, u8 *unread);
int device_read(const struct device *d, void *buf, size_t bytes, u64 at);
int device_write(const struct device *d, const void *buf, size_t bytes, u64 at);
/* Durable, with nothing that is beside it in a page, and it can be read there afterwards. */
int device_rewrite(const struct device *d, const void *buf, size_t bytes, u64 at);
int device_zero(const struct device *d, u64 bytes, u64 at);
int device_flush(const struct device *d);
/* Are these the same device or file? */
bool device_same(const char *a, const char *b);
/*
 * Is @other the same disk as @d by another name, so that both begin with the same block? 1 or 0;
 * -1 as above. Where both have the same bytes there, @d has others for a moment.
 */
int device_is(const struct device *d, const struct device *other);

#endif
