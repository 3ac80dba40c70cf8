// SPDX-License-Identifier: GPL-2.0-only
/* A disk is asked whether it rotates; before, whether it doesn't. */
#include <linux/blkdev.h>

bool probe(struct block_device *bdev);
bool probe(struct block_device *bdev)
{
	return bdev_rot(bdev);
}
