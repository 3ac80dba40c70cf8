// SPDX-License-Identifier: GPL-2.0-only
/* Block devices have open modes of their own (blk_mode_t) in the place of fmode_t. */
#include <linux/blkdev.h>

blk_mode_t probe(void);
blk_mode_t probe(void)
{
	return BLK_OPEN_WRITE;
}
