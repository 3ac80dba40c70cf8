// SPDX-License-Identifier: GPL-2.0-only
/* An open block device is a file. */
#include <linux/blkdev.h>

struct file *probe(void);
struct file *probe(void)
{
	return bdev_file_open_by_path("", BLK_OPEN_READ, NULL, NULL);
}
