// SPDX-License-Identifier: GPL-2.0-only
/* The registry of NVRAM types, and reading what may have media errors. */
#include <linux/export.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "engine.h"
#include "lockstep-test.h"

TEST_KNOB(bool, plain_loads, "NVRAM is read as if it had no media errors");
TEST_KNOB(bool, any_nvram, "an NVRAM that may forget is as good as another");

static DEFINE_MUTEX(types_lock);
static LIST_HEAD(types);

static struct dcd_nvram_type *find(const char *name, size_t len)
{
	struct dcd_nvram_type *t;

	lockdep_assert_held(&types_lock);
	list_for_each_entry(t, &types, link)
		if (strlen(t->name) == len && !memcmp(t->name, name, len))
			return t;
	return NULL;
}

int dcd_nvram_register(struct dcd_nvram_type *type)
{
	int r = 0;

	mutex_lock(&types_lock);
	if (find(type->name, strlen(type->name)))
		r = -EEXIST;
	else
		list_add_tail(&type->link, &types);
	mutex_unlock(&types_lock);
	return r;
}
EXPORT_SYMBOL_GPL(dcd_nvram_register);

void dcd_nvram_unregister(struct dcd_nvram_type *type)
{
	mutex_lock(&types_lock);
	list_del(&type->link);
	mutex_unlock(&types_lock);
}
EXPORT_SYMBOL_GPL(dcd_nvram_unregister);

int dcd_nvram_open(const char *spec, size_t bytes, struct dcd_nvram **nv)
{
	size_t len = strcspn(spec, ":");
	struct dcd_nvram_type *t;
	int r;

	mutex_lock(&types_lock);
	t = find(spec, len);
	if (t && !try_module_get(t->owner))
		t = NULL;
	mutex_unlock(&types_lock);
	if (!t) {
		pr_err("dcd: nvram=%s: no NVRAM type \"%.*s\" here (its module isn't loaded?)\n",
		       spec, (int)len, spec);
		return -EINVAL;
	}
	r = t->open(spec[len] ? spec + len + 1 : "", bytes, nv);
	if (r) {
		pr_err("dcd: nvram=%s: can't open it: error %d\n", spec, r);
		module_put(t->owner);
		return r;
	}
	(*nv)->type = t;
	if ((*nv)->forgets && !test_knob(any_nvram)) {
		pr_err("dcd: nvram=%s: %s\n", spec, (*nv)->forgets);
		dcd_nvram_close(*nv);
		*nv = NULL;
		return -EOPNOTSUPP;
	}
	return 0;
}

static size_t load(struct dcd_nvram *nv, const u8 *from, u8 *to, size_t bytes)
{
	if (test_knob(plain_loads)) {
		memcpy(to, from, bytes);
		return 0;
	}
	if (nv->type->read)
		return nv->type->read(nv, from - (u8 *)nv->base, to, bytes);
	return copy_mc_to_kernel(to, from, bytes);
}

unsigned int dcd_nvram_read(struct dcd_nvram *nv, const void *from, void *to, size_t bytes,
			    u8 *bad)
{
	size_t start = (const u8 *)from - (u8 *)nv->base, at = start, end = start + bytes;
	unsigned int n = 0;

	if (bad)
		memset(bad, 0, DIV_ROUND_UP(bytes, SECTOR_SIZE));
	while (at < end) {
		size_t left = load(nv, nv->base + at, to + (at - start), end - at), sector;

		if (!left)
			break;
		/* The rest of its sector is lost with it: the driver knows no less than that. */
		at = end - left;
		sector = max(round_down(at, SECTOR_SIZE), start);
		at = min(round_down(at, SECTOR_SIZE) + SECTOR_SIZE, end);
		memset(to + (sector - start), 0, at - sector);
		if (bad)
			bad[(sector - start) >> SECTOR_SHIFT] = true;
		n++;
	}
	return n;
}

int dcd_nvram_mend(struct dcd_nvram *nv, size_t off, void *from, size_t bytes)
{
	return nv->type->mend ? nv->type->mend(nv, off, from, bytes) : -EOPNOTSUPP;
}

void dcd_nvram_close(struct dcd_nvram *nv)
{
	const struct dcd_nvram_type *t = nv->type;

	t->close(nv);
	module_put(t->owner);
}
