// SPDX-License-Identifier: GPL-2.0-only
/* See site-cut.h. */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "site-cut.h"

#define DM_MSG_PREFIX "lockstep-media: "

DEFINE_SPINLOCK(site_instant);
EXPORT_SYMBOL_GPL(site_instant);

static DEFINE_MUTEX(site_mutex);
static LIST_HEAD(site_clients);
static struct dentry *site_dir;

static u64 mix(u64 x)
{
	x += 0x9e3779b97f4a7c15ULL;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static u64 seed_for(u64 seed, const char *name)
{
	for (; *name; name++)
		seed = mix(seed ^ (u8)*name);
	return mix(seed);
}

bool site_coin(u64 seed, u64 thing, u64 part)
{
	switch (seed & 7) {
	case 0:
		return false;
	case 1:
		return true;
	default:
		return mix(mix(seed ^ thing) ^ part) & 1;
	}
}
EXPORT_SYMBOL_GPL(site_coin);

void site_lock(void)
{
	mutex_lock(&site_mutex);
}
EXPORT_SYMBOL_GPL(site_lock);

void site_unlock(void)
{
	mutex_unlock(&site_mutex);
}
EXPORT_SYMBOL_GPL(site_unlock);

struct site_client *site_find(const char *name)
{
	struct site_client *c;

	lockdep_assert_held(&site_mutex);
	list_for_each_entry(c, &site_clients, list)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}
EXPORT_SYMBOL_GPL(site_find);

void site_add(struct site_client *c)
{
	lockdep_assert_held(&site_mutex);
	list_add_tail(&c->list, &site_clients);
}
EXPORT_SYMBOL_GPL(site_add);

void site_del(struct site_client *c)
{
	lockdep_assert_held(&site_mutex);
	list_del(&c->list);
}
EXPORT_SYMBOL_GPL(site_del);

void site_cut_one(struct site_client *c, u64 seed)
{
	unsigned long flags;

	spin_lock_irqsave(&site_instant, flags);
	c->ops->cut(c, seed_for(seed, c->name));
	spin_unlock_irqrestore(&site_instant, flags);
}

unsigned int site_cut(unsigned int site, u64 seed)
{
	struct site_client *c;
	unsigned long flags;
	unsigned int n = 0;

	mutex_lock(&site_mutex);
	spin_lock_irqsave(&site_instant, flags);
	list_for_each_entry(c, &site_clients, list) {
		if (c->site != site)
			continue;
		c->ops->cut(c, seed_for(seed, c->name));
		n++;
	}
	spin_unlock_irqrestore(&site_instant, flags);
	mutex_unlock(&site_mutex);
	return n;
}

void site_forget_all(const struct site_client_ops *ops)
{
	struct site_client *c, *next;

	mutex_lock(&site_mutex);
	list_for_each_entry_safe(c, next, &site_clients, list)
		if (c->ops == ops)
			WARN_ON(c->ops->forget(c));
	mutex_unlock(&site_mutex);
}
EXPORT_SYMBOL_GPL(site_forget_all);

static ssize_t get_line(char *line, size_t room, const char __user *buf, size_t len)
{
	if (len >= room)
		return -EINVAL;
	if (copy_from_user(line, buf, len))
		return -EFAULT;
	line[len] = 0;
	strim(line);
	return 0;
}

static ssize_t cut_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	unsigned int site;
	char line[64];
	ssize_t r;
	u64 seed;

	r = get_line(line, sizeof(line), buf, len);
	if (r)
		return r;
	if (sscanf(line, "%u %llu", &site, &seed) != 2) {
		pr_err(DM_MSG_PREFIX "cut: want \"SITE SEED\", got \"%s\"\n", line);
		return -EINVAL;
	}
	if (!site_cut(site, seed)) {
		pr_err(DM_MSG_PREFIX "cut: site %u has no medium and no NVRAM\n", site);
		return -ENOENT;
	}
	return len;
}

static ssize_t forget_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	char line[SITE_NAME_MAX + 2];
	struct site_client *c;
	ssize_t r;

	r = get_line(line, sizeof(line), buf, len);
	if (r)
		return r;
	mutex_lock(&site_mutex);
	c = site_find(strim(line));
	r = c ? c->ops->forget(c) : -ENOENT;
	mutex_unlock(&site_mutex);
	if (r == -ENOENT)
		pr_err(DM_MSG_PREFIX "forget: no medium or NVRAM \"%s\"\n", strim(line));
	if (r == -EBUSY)
		pr_err(DM_MSG_PREFIX "forget: \"%s\" is in use\n", strim(line));
	return r ? r : len;
}

static int list_show(struct seq_file *m, void *unused)
{
	struct site_client *c;

	mutex_lock(&site_mutex);
	list_for_each_entry(c, &site_clients, list) {
		seq_printf(m, "%s site %u ", c->name, c->site);
		c->ops->show(c, m);
	}
	mutex_unlock(&site_mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(list);

static const struct file_operations cut_fops = {
	.owner = THIS_MODULE,
	.write = cut_write,
	.llseek = noop_llseek,
};

static const struct file_operations forget_fops = {
	.owner = THIS_MODULE,
	.write = forget_write,
	.llseek = noop_llseek,
};

int site_init(void)
{
	site_dir = debugfs_create_dir("lockstep-media", NULL);
	debugfs_create_file("cut", 0200, site_dir, NULL, &cut_fops);
	debugfs_create_file("forget", 0200, site_dir, NULL, &forget_fops);
	debugfs_create_file("list", 0400, site_dir, NULL, &list_fops);
	return 0;
}

void site_exit(void)
{
	debugfs_remove(site_dir);
}
