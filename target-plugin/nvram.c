// SPDX-License-Identifier: GPL-2.0-only
/* The registry of NVRAM types. */
#include <linux/export.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>

#include "engine.h"

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
	return 0;
}

void dcd_nvram_close(struct dcd_nvram *nv)
{
	const struct dcd_nvram_type *t = nv->type;

	t->close(nv);
	module_put(t->owner);
}
