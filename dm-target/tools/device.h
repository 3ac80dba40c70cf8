/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Device: a block device or a plain file that is, or is to be, a leg; reading
 * and writing its metadata. All I/O is direct where the device can it: the
 * module writes below the page cache, which would show something older.
 *
 * Functions return 0, or -1 after saying on stderr what was wrong with which
 * device.
 */
#ifndef LOCKSTEP_DEVICE_H
#define LOCKSTEP_DEVICE_H

#include <sys/types.h>

#include "../super.h"

struct device {
	const char *path;
	int fd;
	u64 sectors;
	dev_t node;	/* of a block device, else 0 */
	dev_t on;	/* of a file */
	ino_t inode;
};

/*
 * For writing it is opened exclusively: one that is mounted, or in a mirror, is
 * refused. For reading it may be in use.
 */
int device_open(struct device *d, const char *path, bool for_writing);
void device_close(struct device *d);
bool device_same(const struct device *a, const struct device *b);

/*
 * How much is read of a device at once, or written to it. Other mirrors' legs may be reached by
 * the same wire, and what fills that for seconds makes their writes late, until their legs are
 * given up. So it begins with DEVICE_LEAST, which 256 kbit/s carry in half a second. It is doubled
 * when so much has come within DEVICE_SOON_MS, a 16th of the default of remote_timeout, and halved
 * when anything took longer; both beside the least that anything has taken, for the way may be
 * far. So the wire is full for twice that at most. What the functions here are asked for goes in
 * such parts, one after the other. It is known of the device that was used last; of another one it
 * begins anew.
 */
#define DEVICE_LEAST	(16U << 10)
#define DEVICE_MOST	(1U << 20)
#define DEVICE_SOON_MS	625U

/* So many bytes are read at once now: who looks at the clock between reads asks for no more. */
size_t device_at_once(const struct device *d);

int device_read(const struct device *d, void *buf, size_t bytes, u64 sector);

/* The same without a word; patient: for a second. Returns whether it was read. */
bool device_try_read(const struct device *d, void *buf, size_t bytes, u64 sector);
bool device_patient_read(const struct device *d, void *buf, size_t bytes, u64 sector);

/*
 * @n places, DEVICE_MANY at most, at the same time where the device can that;
 * one after another into @buf, @bytes of each. @good: which of them were read.
 * Together they are no more than device_at_once().
 */
#define DEVICE_MANY	32
void device_read_many(const struct device *d, u8 *buf, size_t bytes, const u64 *sector, u32 n,
		      bool *good);

int device_write(const struct device *d, const void *buf, size_t bytes, u64 sector);
int device_flush(const struct device *d);

/*
 * Is it the LUN of a DCD, and with which log? Asks the device (SCSI INQUIRY, VPD page
 * C0h); a partition, a linear mapping or a multipath passes that on. @uuid: zeroes if
 * it is none, or can't be asked.
 */
void device_log(const struct device *d, u8 uuid[16]);

/*
 * How many sectors the LUN of a DCD has of which @d is only a part (a partition, a linear mapping),
 * or which @d is made of (a logical volume of several segments, dm-crypt, md); 0 if it is the LUN
 * itself, also by a multipath, or none. A DCD looks for a leg's superblock at the end of its data
 * disk, and nowhere else: a leg in a part of it couldn't say that the log was given up.
 */
u64 device_part_of(const struct device *d);

/* Of a good superblock: is @d the disk itself, while the log of its DCD may have more? */
bool device_bypasses(const struct device *d, const struct super *s);
/* Is it the LUN of a DCD, and the superblock doesn't name that DCD's log? @uuid: the log's. */
bool device_unmarked(const struct device *d, const struct super *s, u8 uuid[16]);

/*
 * What super_find() says, and super_moved_back() of what it finds. Whether it is
 * bypassed is told, too. Fails only if the device can't be read.
 */
int device_find(const struct device *d, struct super_found *found);

/*
 * May writes that a mirror of this host has given up still reach it? Known by its node, and by
 * the uuid of its superblock (../registry.h): so one that drains mustn't lose that.
 */
bool device_drains(const struct device *d, const struct super_found *found);

/*
 * Both slots, one after the other, each durable. After super_touch(). At the end, or
 * where that was when the device had @sectors.
 */
int device_put_super(const struct device *d, const struct super *s);
int device_put_super_at(const struct device *d, u64 sectors, const struct super *s);

/* No superblock at the end any more, or at @start: both slots zeroed, durable. */
int device_clear_super(const struct device *d);
int device_clear_slots(const struct device *d, u64 start);

/*
 * The map whole, of the superblock's epoch; durable. @bits: the regions that are
 * set, as device_get_map() has them; NULL: none.
 */
int device_put_map(const struct device *d, const struct super *s, const u8 *bits);

/*
 * The map's pages zeroed, as far as they are such: where a superblock of before the device had
 * grown says that they are there may be somebody's data by now.
 */
int device_clear_map(const struct device *d, const struct super *s);

/*
 * Add the regions that are set in the map to @bits (a bit for each region, as
 * on the disk). @bad: map sectors that can't be read or aren't valid, and count as all set.
 */
void device_get_map(const struct device *d, const struct super *s, u8 *bits, u32 *bad);

#endif
