// SPDX-License-Identifier: GPL-2.0-only
#include "limits.h"

#include <linux/blkdev.h>
#include <linux/device-mapper.h>

#include "lockstep-compat.h"
#include "lockstep-test.h"
#include "metadata.h"
#include "mirror.h"
#include "registry.h"
#include "zero.h"

TEST_KNOB(bool, zeroes_long, "one request zeroes 32 MiB");
TEST_KNOB(bool, odd_zeroes, "the mirror takes zeroes up to the smaller limit, whole blocks or not");

/* Larger blocks than the device has had until now: what uses it would be refused. */
static bool blocks_grow(struct mirror *m, unsigned int block)
{
	struct gendisk *disk = dm_disk(dm_table_get_md(m->ti->table));

	return registry_reload(m) && block > queue_logical_block_size(disk->queue);
}

static int check_block(struct mirror *m, enum leg_id leg)
{
	unsigned int block = bdev_logical_block_size(leg_bdev(&m->legs[leg]));
	struct dm_target *ti = m->ti;

	if (block >> SECTOR_SHIFT > min(1u << m->region_shift, IO_MAX_SECTORS)) {
		DMERR("%s leg: logical blocks of %u bytes, regions of %u sectors",
		      leg_name(leg), block, 1u << m->region_shift);
		ti->error = "A leg's logical block doesn't fit into a region";
		return -EINVAL;
	}
	if (m->meta && block > LOCKSTEP_SLOT_BYTES) {
		DMERR("%s leg: logical blocks of %u bytes, metadata in blocks of %u",
		      leg_name(leg), block, LOCKSTEP_SLOT_BYTES);
		ti->error = "A leg's logical block is larger than those of the metadata";
		return -EINVAL;
	}
	if (ti->len & ((block >> SECTOR_SHIFT) - 1)) {
		DMERR("%s leg: length %llu isn't a multiple of its %u-byte logical block",
		      leg_name(leg), (unsigned long long)ti->len, block);
		ti->error = "The length isn't a multiple of a leg's logical block";
		return -EINVAL;
	}
	if (blocks_grow(m, block)) {
		DMERR("%s leg: logical blocks of %u bytes, larger than those of the running device; stop it first, and see that what is on it can use them",
		      leg_name(leg), block);
		ti->error = "A leg's logical block is larger than the running device's";
		return -EINVAL;
	}
	return 0;
}

int limits_check(struct mirror *m)
{
	enum leg_id leg;
	int r = 0;

	for (leg = LEG_LOCAL; leg < LEGS && !r; leg++)
		if (m->legs[leg].dev)
			r = check_block(m, leg);
	return r;
}

static unsigned int most_at_once(void)
{
	return test_knob(zeroes_long) ? ZERO_MAX_SECTORS : ZERO_AT_ONCE_SECTORS;
}

/*
 * One leg's limit may be no multiple of the other one's blocks, and the block layer splits at it
 * all the same: the piece would be refused by that other leg, which would be given up for it.
 */
static unsigned int most_zeroes(const struct queue_limits *limits)
{
	unsigned int most = min(limits->max_write_zeroes_sectors, most_at_once());

	if (test_knob(odd_zeroes))
		return most;
	return round_down(most, limits->logical_block_size >> SECTOR_SHIFT);
}

void limits_hints(struct dm_target *ti, struct queue_limits *limits)
{
	if (!ti->num_discard_bios)
		return;
	lockstep_limit_write_zeroes(limits, most_zeroes(limits));
	/* Smaller ones would be written, and free nothing; larger ones would not be split. */
	limits->discard_granularity = clamp(limits->discard_granularity,
					    limits->logical_block_size,
					    ZERO_MAX_SECTORS << SECTOR_SHIFT);
	/* Both: old kernels take the first as it is, new ones derive it from the second. */
	limits->max_discard_sectors = max(most_at_once(),
					  limits->discard_granularity >> SECTOR_SHIFT);
	limits->max_hw_discard_sectors = limits->max_discard_sectors;
}
