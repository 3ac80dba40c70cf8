// SPDX-License-Identifier: GPL-2.0-only
#include "leg.h"

#include "lockstep-compat.h"
#include "zero.h"

#define DM_MSG_PREFIX "lockstep"

const char *leg_name(enum leg_id leg)
{
	return leg == LEG_LOCAL ? "local" : "remote";
}

static void give_back(struct leg *leg, struct dm_target *ti)
{
	leg_put(leg, ti);
	leg_close(leg);
}

int leg_open(struct leg *leg, struct dm_target *ti, const char *path, enum leg_id id)
{
	sector_t have;
	int r;

	leg->id = id;
	sender_init(&leg->sender);
	zero_init(leg);
	if (!strcmp(path, "-")) {
		leg->dead = true;
		leg->why = WHY_ABSENT;
		return 0;
	}
	r = dm_get_device(ti, path, dm_table_get_mode(ti->table), &leg->dev);
	if (r) {
		leg->dev = NULL;
		DMERR("%s leg: can't open %s: error %d", leg_name(id), path, r);
		ti->error = id == LEG_LOCAL ? "Can't open the local leg" :
					      "Can't open the remote leg";
		return r;
	}
	strscpy(leg->path, leg->dev->name, sizeof(leg->path));
	leg->held = lockstep_bdev_hold(leg->dev->bdev->bd_dev, &leg->bdev);
	if (IS_ERR(leg->held)) {
		r = PTR_ERR(leg->held);
		leg->held = NULL;
		ti->error = "Can't open a leg once more";
		give_back(leg, ti);
		return r;
	}

	if ((dm_table_get_mode(ti->table) & BLK_OPEN_WRITE) && bdev_read_only(leg->bdev)) {
		DMERR("%s leg: %s is read-only, the table isn't", leg_name(id), path);
		ti->error = id == LEG_LOCAL ? "Local leg is read-only" : "Remote leg is read-only";
		give_back(leg, ti);
		return -EROFS;
	}

	if (bdev_is_zoned(leg->bdev)) {
		DMERR("%s leg: %s is a zoned device, which can't be written in any order",
		      leg_name(id), path);
		ti->error = id == LEG_LOCAL ? "Local leg is zoned" : "Remote leg is zoned";
		give_back(leg, ti);
		return -EINVAL;
	}

	have = bdev_nr_sectors(leg->bdev);
	if (have < ti->len) {
		DMERR("%s leg: %s has %llu sectors, the table asks for %llu",
		      leg_name(id), path, (unsigned long long)have, (unsigned long long)ti->len);
		ti->error = id == LEG_LOCAL ? "Local leg is smaller than the table's length" :
					      "Remote leg is smaller than the table's length";
		give_back(leg, ti);
		return -EINVAL;
	}

	r = sender_create(&leg->sender);
	if (r) {
		ti->error = "Out of memory";
		give_back(leg, ti);
	}
	return r;
}

void leg_put(struct leg *leg, struct dm_target *ti)
{
	if (leg->dev)
		dm_put_device(ti, leg->dev);
	leg->dev = NULL;
}

void leg_close(struct leg *leg)
{
	sender_destroy(&leg->sender);
	if (leg->held)
		lockstep_bdev_release(leg->held);
	leg->held = NULL;
	leg->bdev = NULL;
}

const char *leg_path(const struct leg *leg)
{
	return leg->bdev ? leg->path : "-";
}

struct block_device *leg_bdev(const struct leg *leg)
{
	return leg->bdev;
}

blk_opf_t leg_write_flags(const struct leg *leg)
{
	/* Asked each time: an administrator may switch a disk's cache. */
	return leg->write_through && bdev_write_cache(leg_bdev(leg)) ? REQ_FUA : 0;
}

bool leg_may_forget(const struct leg *leg)
{
	return leg->bdev && !leg->write_through && !leg->cache_trusted &&
	       bdev_write_cache(leg_bdev(leg));
}

const char *leg_why_word(enum leg_why why)
{
	static const char * const words[] = {
		[WHY_NONE] = "-",
		[WHY_ABSENT] = "absent",
		[WHY_TOLD] = "told",
		[WHY_FAILED] = "failed",
		[WHY_TIMEOUT] = "timeout",
		[WHY_DRAINING] = "draining",
		[WHY_UNREADABLE] = "unreadable",
		[WHY_FOREIGN] = "foreign",
		[WHY_OUTDATED] = "outdated",
		[WHY_DIVERGED] = "diverged",
		[WHY_TAKEN] = "taken",
	};

	return words[why];
}
