/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The format of a leg: the only file that knows the layout; kernel and
 * userspace share it. All integers are little endian. Sectors are 512 bytes.
 * crc32c is seeded with ~0 and not inverted at the end; it covers everything
 * of its structure that comes after the field "crc".
 *
 *  leg                                         map sector (512 bytes)
 * +---------------------------+ 0             +--------------------+ 0
 * | data: what the mirror     |               | crc, index, epoch  |
 * | shows, sector for sector  |               +--------------------+ 16
 * +---------------------------+ data_sectors  | 3968 bits, bit b:  |
 * | unused (the legs may have |               | byte b / 8, value  |
 * | different sizes)          |               | 1 << b % 8         |
 * +---------------------------+ map_start     +--------------------+ 512
 * | dirty map: map sectors    |
 * | 0, 1, 2, ...; the last    |               Region r is bit r % 3968 of
 * | 32 are the activity log   |               map sector r / 3968.
 * +---------------------------+ + map_sectors
 * | superblock, slot 0        |               A sector of the activity log has,
 * +---------------------------+ + 8           instead of the bits, 124 entries.
 * | superblock, slot 1        |               A slot is 4096 bytes: struct
 * +---------------------------+ end - end % 8 lockstep_slot.
 *
 * The data start at sector 0, so that a leg can be mounted as it is. `end` is
 * the device's size in sectors.
 *
 * Superblock. Every update is written to slot 0 and then, when that is durable,
 * to slot 1: the same bytes, with a `seq` one more than ever tried before. The
 * valid slot with the higher seq counts: while one is torn, the other is whole.
 * A slot knows where it was written to, so a device that was moved, cut or has
 * grown isn't misread. When a superblock moves to the end of a device that has
 * grown, the old one first says where to and the new one where from, until the
 * old one is zeroed (growth.h): whoever finds one of the two knows the other.
 *
 * Dirty map. A bit says: the other leg may differ in this region. A map sector
 * checks itself, so a page of eight may be torn. It counts if its epoch is the
 * superblock's map_epoch: one of another epoch is all clear (a new map costs
 * no writes for what is clear), one that isn't valid is all set.
 *
 * Activity log. Each entry names one region that is as dirty as if its bit were
 * set: its number plus one, or 0 for none. So what is dirty only because it was
 * written lately takes four bytes wherever it lies, and one page is written for
 * hundreds of regions; and as there are so many entries and no more, a crash leaves so
 * many regions to resync and no more (activity.h). An entry is kept in its place while it
 * counts: so a torn page costs nothing here either. A sector that isn't valid may
 * have named any region: then all are dirty.
 *
 * Generation: names a point in a mirror's life, at which the legs in sync with
 * it are equal but for what the maps say. `count` orders them for people only.
 *
 * Older copies. A leg may come back as it was once: a snapshot of its LUN, a backup of the
 * host that has it. Its superblock has the seq of that time. Each update of a leg's
 * superblock says which seq the other leg's is known to have had (`other_seq`): a leg
 * that has a lower one is older than that, whatever else it says. While the mirror runs both are
 * updated for that, before regions are clean again (mirror_stamp_legs()). A leg that goes on alone
 * says from which seq (`alone_seq`): an older copy that does is told by that, however much it
 * is used afterwards.
 *
 * Owner. Each table that is loaded draws a random number, and its superblocks have it (`owner`). A
 * mirror that finds another one than its own in a leg that it uses knows that somebody else has
 * used that leg meanwhile, whatever else that superblock says.
 *
 * Log. A leg may be written through a DCD, whose log then has writes that the
 * disk below it lacks. The superblock says which log that is, so that a host that
 * finds the disk itself knows that it isn't the leg (`log_state` BEHIND), until
 * that log is retired or given up for good (LEFT): then the DCD refuses to use it
 * over this disk. `dcd format` and `dcd retire` write this on the disk itself,
 * lockstep-meta writes it through the DCD. A DCD whose log fails may have to bring to the
 * disk what its NVRAM would lose: then it writes there itself how far that is (`log_applied`,
 * and a seq far above, as it doesn't know what the mirror is about to write), and entries of
 * that log up to it are older than the disk. That stays true for ever. Whoever else writes the
 * superblock zeroes it: he writes through the DCD, and that takes no write before its
 * log knows.
 *
 * Feature words: a reader that doesn't know a bit of `incompat` must refuse,
 * of `ro_compat` must not write, of `compat` may ignore it.
 */
#ifndef LOCKSTEP_FORMAT_H
#define LOCKSTEP_FORMAT_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/types.h>
#else
#include <assert.h>
#include <linux/types.h>
#include <stdbool.h>
#endif

#define LOCKSTEP_MAGIC		0x31474c504554534cULL	/* "LSTEPLG1" */
#define LOCKSTEP_VERSION	2	/* 1 had no activity log */

/* Known feature bits. */
#define LOCKSTEP_COMPAT		0U
#define LOCKSTEP_RO_LOG		1U	/* log_state isn't NONE: who writes must keep that */
#define LOCKSTEP_RO_COMPAT	LOCKSTEP_RO_LOG
#define LOCKSTEP_INCOMPAT	0U

#define LOCKSTEP_SLOTS		2U
#define LOCKSTEP_SLOT_BYTES	4096U
#define LOCKSTEP_SLOT_SECTORS	8U
#define LOCKSTEP_SLOTS_BYTES	(LOCKSTEP_SLOTS * LOCKSTEP_SLOT_BYTES)
#define LOCKSTEP_SLOTS_SECTORS	(LOCKSTEP_SLOTS * LOCKSTEP_SLOT_SECTORS)

#define LOCKSTEP_NAME_BYTES	64	/* with the NUL at its end */
#define LOCKSTEP_HISTORY	8

/* Sectors in a region, as a power of two. */
#define LOCKSTEP_SHIFT_MIN	6U	/* 32 KiB */
#define LOCKSTEP_SHIFT_DEFAULT	11U	/* 1 MiB, or larger: lockstep_default_shift() */
#define LOCKSTEP_SHIFT_MAX	40U
#define LOCKSTEP_REGIONS_DEFAULT 16384U	/* if the size isn't given: more only of 4 MiB each... */
#define LOCKSTEP_SHIFT_LARGE	13U
#define LOCKSTEP_REGIONS_LARGE	(1U << 26)	/* ...and of those no more than this: 256 TiB */
#define LOCKSTEP_REGIONS_MAX	(1U << 28)
#define LOCKSTEP_SECTORS_MAX	(1ULL << 54)

#define LOCKSTEP_MAP_BITS	3968U	/* in a map sector */
#define LOCKSTEP_MAP_PAGE	8U	/* the map is a multiple of so many sectors */
#define LOCKSTEP_ACTIVITY_SECTORS 32U	/* of the map: its last ones */
#define LOCKSTEP_ACTIVITY_PAGES	(LOCKSTEP_ACTIVITY_SECTORS / LOCKSTEP_MAP_PAGE)
#define LOCKSTEP_SECTOR_ENTRIES	124U
#define LOCKSTEP_PAGE_ENTRIES	(LOCKSTEP_SECTOR_ENTRIES * LOCKSTEP_MAP_PAGE)
#define LOCKSTEP_ENTRIES	(LOCKSTEP_SECTOR_ENTRIES * LOCKSTEP_ACTIVITY_SECTORS)

/* Which leg: an index in memory and on the disk. */
#define LOCKSTEP_LOCAL		0U
#define LOCKSTEP_REMOTE		1U

/* state of struct lockstep_slot */
#define LOCKSTEP_SYNC		1U	/* has all of generation cur; the other leg may, too */
#define LOCKSTEP_ALONE		2U	/* has all of cur; the other leg has not */
#define LOCKSTEP_TARGET		3U	/* has cur, but for what the other leg's map says */
#define LOCKSTEP_NEW		4U	/* has nothing, is to be filled by a leg that knows base */

/* flags of struct lockstep_slot */
#define LOCKSTEP_ACTIVE		1U	/* in use; found so at assembly: there was a crash */

/* log_state of struct lockstep_slot */
#define LOCKSTEP_LOG_NONE	0U	/* nothing is known of a log */
#define LOCKSTEP_LOG_BEHIND	1U	/* the disk lacks what the log may have */
#define LOCKSTEP_LOG_LEFT	2U	/* the disk counts, the log must not be used any more */

/* why a generation began; the leg that it began on had to do without the other */
#define LOCKSTEP_WHY_CREATED	1U	/* not so here: the mirror was created */
#define LOCKSTEP_WHY_FAILED	2U	/* I/O to the other leg failed */
#define LOCKSTEP_WHY_TIMEOUT	3U	/* the other leg stopped answering */
#define LOCKSTEP_WHY_TOLD	4U	/* the administrator failed it, or said go on alone */
#define LOCKSTEP_WHY_ABSENT	5U	/* assembled without the other leg */
#define LOCKSTEP_WHY_NEW_LEG	6U	/* another device takes the other leg's place */

struct lockstep_generation {
	__le64 id;		/* random, not 0; 0: none */
	__le32 count;
	__le32 reserved;
} __attribute__((packed));

struct lockstep_event {
	struct lockstep_generation generation;
	__le64 time;		/* seconds since 1970, UTC */
	__le32 why;		/* LOCKSTEP_WHY_* */
	__le32 leg;		/* the leg on which it began */
} __attribute__((packed));

struct lockstep_slot {
	__le32 crc;
	__le32 version;
	__le64 magic;
	__le32 compat;
	__le32 ro_compat;
	__le32 incompat;
	__le32 flags;		/* LOCKSTEP_ACTIVE */
	__le64 slots_start;	/* the sector where slot 0 lies */
	__le64 seq;
	__u8 set_uuid[16];	/* of the mirror */
	__u8 leg_uuid[16];
	__u8 name[LOCKSTEP_NAME_BYTES];
	__le64 created;		/* seconds since 1970, UTC */
	__le64 updated;
	__le64 data_sectors;
	__le64 map_start;
	__le32 map_sectors;
	__le32 region_shift;
	__le32 leg;		/* LOCKSTEP_LOCAL or LOCKSTEP_REMOTE */
	__le32 state;		/* LOCKSTEP_SYNC... */
	__le64 map_epoch;	/* of the map sectors that count; 0: none does, all clear */
	__le64 map_epochs;	/* the highest epoch ever used on this leg */
	struct lockstep_generation cur;
	struct lockstep_generation base;
	struct lockstep_event history[LOCKSTEP_HISTORY];	/* newest first; [0] is cur's */
	__u8 adopted[16];	/* the NEW leg for which cur began, while ALONE */
	__le64 moved_to;	/* slots_start of the superblock that counts instead; or 0 */
	__le64 moved_from;	/* slots_start of one that is to be zeroed yet; or 0 */
	__u8 log_uuid[16];	/* of the DCD's log; 0: none */
	__le32 log_state;	/* LOCKSTEP_LOG_* */
	__le64 log_epoch;	/* of that log, as struct dcd_super has it; BEHIND, else 0 */
	__le64 log_applied;	/* its entries up to this one are on the disk, by the DCD's word */
	__le64 other_seq;	/* the other leg's seq was that, or is higher; 0: not known */
	__le64 alone_seq;	/* ALONE: seq was that before it was; 0: not known */
	__le64 owner;		/* of the table that wrote this, random; 0: a tool did */
	__u8 reserved[3476];
	__u8 digest_key[32];	/* random, or 0; at the leg's end: see lockstep-digest.h */
} __attribute__((packed));

struct lockstep_map_sector {
	__le32 crc;
	__le32 index;		/* of this sector in the map */
	__le64 epoch;
	union {
		__u8 bits[LOCKSTEP_MAP_BITS / 8];
		__le32 entries[LOCKSTEP_SECTOR_ENTRIES];	/* of the activity log */
	};
} __attribute__((packed));

#ifdef __KERNEL__
#define LOCKSTEP_ASSERT(e) static_assert(e)
#else
#define LOCKSTEP_ASSERT(e) _Static_assert(e, #e)
#endif
LOCKSTEP_ASSERT(sizeof(struct lockstep_slot) == LOCKSTEP_SLOT_BYTES);
LOCKSTEP_ASSERT(sizeof(struct lockstep_map_sector) == 512);

/* Where slot 0 lies on a device of so many sectors; slot 1 follows. */
static inline __u64 lockstep_slots_start(__u64 dev_sectors)
{
	__u64 end = dev_sectors & ~(__u64)(LOCKSTEP_SLOT_SECTORS - 1);

	return end < LOCKSTEP_SLOTS_SECTORS ? 0 : end - LOCKSTEP_SLOTS_SECTORS;
}

/* Regions in so many sectors, the last one may be shorter. */
static inline __u64 lockstep_regions(__u64 sectors, unsigned int shift)
{
	return (sectors + (1ULL << shift) - 1) >> shift;
}

/* Map sectors for so many regions (LOCKSTEP_REGIONS_MAX at most), whole pages, and the log. */
static inline __u32 lockstep_map_sectors(__u32 regions)
{
	__u32 sectors = (regions + LOCKSTEP_MAP_BITS - 1) / LOCKSTEP_MAP_BITS;

	sectors = (sectors + LOCKSTEP_MAP_PAGE - 1) & ~(LOCKSTEP_MAP_PAGE - 1);
	return sectors + LOCKSTEP_ACTIVITY_SECTORS;
}

/*
 * The rule for the region size: the smallest power of two from 1 MiB on with at most
 * LOCKSTEP_REGIONS_DEFAULT regions, but no more than 4 MiB while there are no more than
 * LOCKSTEP_REGIONS_LARGE of those: each region that the activity log names is resynced
 * whole. For two legs: of the smaller device.
 */
static inline unsigned int lockstep_default_shift(__u64 dev_sectors)
{
	unsigned int shift = LOCKSTEP_SHIFT_DEFAULT;
	__u64 end = lockstep_slots_start(dev_sectors);

	while (lockstep_regions(end, shift) > (shift < LOCKSTEP_SHIFT_LARGE ?
					       LOCKSTEP_REGIONS_DEFAULT :
					       LOCKSTEP_REGIONS_LARGE))
		shift++;
	return shift;
}

struct lockstep_layout {
	__u64 slots_start;
	__u64 map_start;	/* also: how many sectors of data the leg can hold */
	__u32 map_sectors;
};

/*
 * Where everything lies on a device of so many sectors. False: the device is
 * too small or too large, or there would be too many regions of that size.
 * The map has room for all the device could hold, so that a mirror whose other
 * leg was smaller can grow. A mirror's data_sectors is the smaller map_start.
 */
static inline bool lockstep_layout(__u64 dev_sectors, unsigned int shift,
				   struct lockstep_layout *to)
{
	__u64 regions;

	to->slots_start = lockstep_slots_start(dev_sectors);
	if (shift < LOCKSTEP_SHIFT_MIN || shift > LOCKSTEP_SHIFT_MAX || !to->slots_start ||
	    dev_sectors > LOCKSTEP_SECTORS_MAX)
		return false;
	regions = lockstep_regions(to->slots_start, shift);
	if (regions > LOCKSTEP_REGIONS_MAX)
		return false;
	to->map_sectors = lockstep_map_sectors((__u32)regions);
	if (to->slots_start <= to->map_sectors)
		return false;
	to->map_start = to->slots_start - to->map_sectors;
	return true;
}

#endif /* LOCKSTEP_FORMAT_H */
