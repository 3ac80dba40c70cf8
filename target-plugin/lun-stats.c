// SPDX-License-Identifier: GPL-2.0-only
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "lockstep-test.h"
#include "lun.h"

TEST_KNOB(bool, zeroes_by_word, "whoever says so, the LUN says that what was unmapped reads as zeroes");

/* What the engine tells, or zero while there is none. */
static ssize_t show_counter(struct config_item *item, enum dcd_counter what, char *page)
{
	struct dcd_dev *d = lun_of_attribute(item);
	u64 value = 0;

	mutex_lock(&d->here);
	if (d->engine)
		value = dcd_counter(d->engine, what);
	mutex_unlock(&d->here);
	return sysfs_emit(page, "%llu\n", value);
}

static struct dcd_state state_of(struct config_item *item)
{
	struct dcd_dev *d = lun_of_attribute(item);
	struct dcd_state s = { };

	mutex_lock(&d->here);
	if (d->engine)
		dcd_state(d->engine, &s);
	mutex_unlock(&d->here);
	return s;
}

#define DCD_COUNTER(id, name)								\
	static ssize_t lun_stat_##name##_show(struct config_item *item, char *page);	\
	CONFIGFS_ATTR_RO(lun_, stat_##name);						\
	static ssize_t lun_stat_##name##_show(struct config_item *item, char *page)	\
	{										\
		return show_counter(item, DCD_N_##id, page);				\
	}
#include "dcd-counters.h"
#undef DCD_COUNTER

#define STATE(name)									\
	static ssize_t lun_stat_##name##_show(struct config_item *item, char *page)	\
	{										\
		return sysfs_emit(page, "%llu\n", (u64)state_of(item).name);		\
	}										\
	CONFIGFS_ATTR_RO(lun_, stat_##name)

STATE(log_segments);
STATE(log_live);
STATE(log_free);
STATE(log_failing);
STATE(log_left);
STATE(log_damaged);
STATE(data_failing);
STATE(stuck_ranges);
STATE(stuck_sectors);
STATE(lost_ranges);
STATE(lost_sectors);
STATE(slots);
STATE(slots_used);
STATE(slots_retired);
STATE(index_used);
STATE(index_bytes);
STATE(cache_used);
STATE(cache_bytes);

static struct configfs_attribute *own[] = {
#define DCD_COUNTER(id, name) \
	[DCD_N_##id] = &lun_attr_stat_##name,
#include "dcd-counters.h"
#undef DCD_COUNTER
	[DCD_COUNTERS] =
	&lun_attr_stat_log_segments,
	&lun_attr_stat_log_live,
	&lun_attr_stat_log_free,
	&lun_attr_stat_log_failing,
	&lun_attr_stat_log_left,
	&lun_attr_stat_log_damaged,
	&lun_attr_stat_data_failing,
	&lun_attr_stat_stuck_ranges,
	&lun_attr_stat_stuck_sectors,
	&lun_attr_stat_lost_ranges,
	&lun_attr_stat_lost_sectors,
	&lun_attr_stat_slots,
	&lun_attr_stat_slots_used,
	&lun_attr_stat_slots_retired,
	&lun_attr_stat_index_used,
	&lun_attr_stat_index_bytes,
	&lun_attr_stat_cache_used,
	&lun_attr_stat_cache_bytes,
};

/*
 * The core's stores don't ask what the disks can. A saved configuration may be of before the data
 * disk was moved to another one.
 */
static ssize_t block_size_store(struct config_item *item, const char *page, size_t count);
static ssize_t unmap_zeroes_data_store(struct config_item *item, const char *page, size_t count);

enum { OUR_BLOCK_SIZE, OUR_UNMAP_ZEROES, OURS };

static struct guarded {
	const char *name;
	ssize_t (*store)(struct config_item *item, const char *page, size_t count);
	ssize_t (*core_store)(struct config_item *item, const char *page, size_t count);
	struct configfs_attribute attribute;
} guarded[OURS] = {
	[OUR_BLOCK_SIZE] = { .name = "block_size", .store = block_size_store },
	[OUR_UNMAP_ZEROES] = { .name = "unmap_zeroes_data", .store = unmap_zeroes_data_store },
};

static ssize_t block_size_store(struct config_item *item, const char *page, size_t count)
{
	struct dcd_dev *d = lun_of_attribute(item);
	u32 least = d->dev.dev_attrib.hw_block_size, value;

	if (!kstrtou32(page, 0, &value) && value < least) {
		pr_err("dcd: %s: block_size=%u: the disks have blocks of %u bytes\n", lun_name(d),
		       value, least);
		return -EINVAL;
	}
	return guarded[OUR_BLOCK_SIZE].core_store(item, page, count);
}

static ssize_t unmap_zeroes_data_store(struct config_item *item, const char *page, size_t count)
{
	struct dcd_dev *d = lun_of_attribute(item);
	struct dcd_topology t = {};
	bool yes;

	if (!kstrtobool(page, &yes) && yes && !test_knob(zeroes_by_word)) {
		mutex_lock(&d->here);
		if (d->engine)
			dcd_topology(d->engine, &t);
		mutex_unlock(&d->here);
		if (!t.discards_to_zeroes) {
			pr_err("dcd: %s: unmap_zeroes_data=1: what the data disk discards isn't known to read as zeroes, so it stays 0\n",
			       lun_name(d));
			return -EINVAL;
		}
	}
	return guarded[OUR_UNMAP_ZEROES].core_store(item, page, count);
}

static struct configfs_attribute *with_our_store(struct configfs_attribute *core)
{
	struct guarded *g;

	for (g = guarded; g < guarded + OURS; g++) {
		if (strcmp(core->ca_name, g->name))
			continue;
		g->core_store = core->store;
		g->attribute = *core;
		g->attribute.store = g->store;
		return &g->attribute;
	}
	return core;
}

struct configfs_attribute **lun_attributes(void)
{
	struct configfs_attribute **all;
	size_t cores = 0, i;

	while (sbc_attrib_attrs[cores])
		cores++;
	all = kcalloc(cores + ARRAY_SIZE(own) + 1, sizeof(*all), GFP_KERNEL);
	if (!all)
		return NULL;
	for (i = 0; i < cores; i++)
		all[i] = with_our_store(sbc_attrib_attrs[i]);
	memcpy(all + cores, own, sizeof(own));
	return all;
}
