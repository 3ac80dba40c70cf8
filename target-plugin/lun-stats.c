// SPDX-License-Identifier: GPL-2.0-only
#include <linux/kernel.h>
#include <linux/slab.h>

#include "lun.h"

/* What the engine tells, or zero while there is none. */
static ssize_t show_counter(struct config_item *item, enum dcd_counter what, char *page)
{
	struct dcd_dev *d = lun_of_attribute(item);
	u64 value = 0;

	mutex_lock(&d->lock);
	if (d->engine)
		value = dcd_counter(d->engine, what);
	mutex_unlock(&d->lock);
	return sysfs_emit(page, "%llu\n", value);
}

static struct dcd_state state_of(struct config_item *item)
{
	struct dcd_dev *d = lun_of_attribute(item);
	struct dcd_state s = { };

	mutex_lock(&d->lock);
	if (d->engine)
		dcd_state(d->engine, &s);
	mutex_unlock(&d->lock);
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
STATE(data_failing);
STATE(slots);
STATE(slots_used);
STATE(index_used);
STATE(index_bytes);

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
	&lun_attr_stat_data_failing,
	&lun_attr_stat_slots,
	&lun_attr_stat_slots_used,
	&lun_attr_stat_index_used,
	&lun_attr_stat_index_bytes,
};

struct configfs_attribute **lun_attributes(void)
{
	struct configfs_attribute **all;
	size_t cores = 0;

	while (sbc_attrib_attrs[cores])
		cores++;
	all = kcalloc(cores + ARRAY_SIZE(own) + 1, sizeof(*all), GFP_KERNEL);
	if (all) {
		memcpy(all, sbc_attrib_attrs, cores * sizeof(*all));
		memcpy(all + cores, own, sizeof(own));
	}
	return all;
}
