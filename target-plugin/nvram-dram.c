// SPDX-License-Identifier: GPL-2.0-only
/*
 * NVRAM type "dram": volatile, unless the admin says "dram:battery"; and "none":
 * memory as well, but no write is acknowledged because it is there.
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "engine.h"

#define DRAM_DEFAULT (32U << 20)	/* the papers' buffer */

struct dram {
	struct dcd_nvram nv;
	bool battery;
};

static int make(bool battery, size_t bytes, struct dcd_nvram **nv)
{
	struct dram *d = kzalloc(sizeof(*d), GFP_KERNEL);

	if (!d)
		return -ENOMEM;
	d->battery = battery;
	d->nv.bytes = bytes ?: DRAM_DEFAULT;
	d->nv.base = __vmalloc(d->nv.bytes, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	if (!d->nv.base) {
		pr_err("dcd: nvram: can't get %zu bytes of memory\n", d->nv.bytes);
		kfree(d);
		return -ENOMEM;
	}
	*nv = &d->nv;
	return 0;
}

static int dram_open(const char *spec, size_t bytes, struct dcd_nvram **nv)
{
	bool battery = !strcmp(spec, "battery");

	if (*spec && !battery) {
		pr_err("dcd: nvram=dram:%s: only \"dram\" and \"dram:battery\" exist\n", spec);
		return -EINVAL;
	}
	return make(battery, bytes, nv);
}

static int none_open(const char *spec, size_t bytes, struct dcd_nvram **nv)
{
	if (*spec) {
		pr_err("dcd: nvram=none:%s: \"none\" has no settings\n", spec);
		return -EINVAL;
	}
	return make(false, bytes, nv);
}

static void dram_close(struct dcd_nvram *nv)
{
	struct dram *d = container_of(nv, struct dram, nv);

	vfree(nv->base);
	kfree(d);
}

static void dram_persist(struct dcd_nvram *nv, size_t off, size_t len)
{
}

static bool dram_loses_acks(struct dcd_nvram *nv)
{
	return !container_of(nv, struct dram, nv)->battery;
}

struct dcd_nvram_type dcd_nvram_dram = {
	.name = "dram",
	.owner = NULL,	/* part of dcd.ko */
	.volatile_content = true,
	.open = dram_open,
	.close = dram_close,
	.persist = dram_persist,
	.loses_acks = dram_loses_acks,
};

struct dcd_nvram_type dcd_nvram_none = {
	.name = "none",
	.owner = NULL,	/* part of dcd.ko */
	.volatile_content = true,
	.report_after_complete = true,
	.open = none_open,
	.close = dram_close,
	.persist = dram_persist,
};
