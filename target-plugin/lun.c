// SPDX-License-Identifier: GPL-2.0-only
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "digest.h"
#include "lockstep-test.h"
#include "lun.h"

TEST_KNOB(bool, shows_late, "info waits until it is opened");
TEST_KNOB(bool, leave_again, "any setting asks anew for a leave of the log that was refused");

#define SHOW_PATIENCE HZ
/*
 * Blocks of one UNMAP. An entry reaches over a few ranges of the index only, so with 4 KiB
 * writes in the log that is 256 entries of them, and initiators give up what takes 30 s.
 */
#define MOST_UNMAPPED 0x10000U

/* The engine's, or of the one whose digests it shows. */
static sector_t sectors_of(const struct dcd_dev *d)
{
	return d->engine ? dcd_sectors(d->engine) : READ_ONCE(d->viewed);
}

static void raise(struct dcd_dev *d, enum lun_attention_kind kind)
{
	if (lun_attention_raise(&d->attention, &d->dev, kind))
		pr_warn("dcd: %s: no memory to tell the initiators of its new %s: look for it there\n",
			lun_name(d), kind == LUN_CAPACITY_CHANGED ? "size" : "write cache");
}

static int grow(struct dcd_dev *d)
{
	sector_t old = sectors_of(d), now = old;
	int r;

	if (d->engine)
		r = dcd_grow(d->engine);
	else
		r = dcd_digest_source(d->set.digests_of, &now);
	if (!r && d->viewed)
		WRITE_ONCE(d->viewed, now);
	if (r || sectors_of(d) == old)
		return r;
	raise(d, LUN_CAPACITY_CHANGED);
	return 0;
}

static bool dcd_get_write_cache(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);

	return d->engine && dcd_volatile_cache(d->engine);
}

/* What the engine has made of leave_log: it may have refused it; and its end is for good. */
static void learn_leave(struct dcd_dev *d)
{
	if (d->engine && !test_knob(leave_again))
		d->set.config.leave_log = dcd_leaves(d->engine);
}

/* To leave the log, or not, isn't asked for anew by who sets another key. */
static int reconfigure(struct dcd_dev *d, bool left)
{
	bool leaves = d->set.config.leave_log;

	dcd_reconfigure(d->engine, &d->set.config);
	if (leaves == left && !test_knob(leave_again))
		return 0;
	if (leaves)
		return dcd_leave(d->engine);
	dcd_leave_not(d->engine);
	return 0;
}

static ssize_t dcd_set_params(struct se_device *dev, const char *page, ssize_t count)
{
	struct dcd_dev *d = to_dcd(dev);
	bool enabled, cache, left;
	int r;

	if (mutex_lock_killable(&d->lock))
		return -EINTR;
	learn_leave(d);
	left = d->set.config.leave_log;
	cache = dcd_get_write_cache(dev);
	enabled = d->engine || d->viewed;
	r = lun_settings_parse(&d->set, lun_name(d), page, enabled);
	if (!r && d->engine)
		r = reconfigure(d, left);
	learn_leave(d);
	if (dcd_get_write_cache(dev))
		WRITE_ONCE(d->had_cache, true);
	if (dcd_get_write_cache(dev) != cache)
		raise(d, LUN_MODE_CHANGED);
	if (!r && d->set.grow && enabled) {
		d->set.grow = 0;
		r = grow(d);
	}
	mutex_unlock(&d->lock);
	return r ?: count;
}

/*
 * Who opens it holds the lock as long as its disks take, and whoever lists all backstores reads
 * this. Once it is enabled it is waited for: what is saved then has to have all settings.
 */
static bool lock_to_show(struct dcd_dev *d)
{
	unsigned long until = jiffies + SHOW_PATIENCE;

	while (!mutex_trylock(&d->lock)) {
		schedule_timeout_killable(HZ / 50 + 1);
		if (fatal_signal_pending(current) ||
		    (time_after(jiffies, until) && !READ_ONCE(d->engine) && !test_knob(shows_late)))
			return false;
	}
	return true;
}

/* The core has already written something at the page's beginning. */
static ssize_t dcd_show_params(struct se_device *dev, char *page)
{
	size_t size = PAGE_SIZE - offset_in_page(page);
	struct dcd_dev *d = to_dcd(dev);
	ssize_t n;

	if (!lock_to_show(d))
		return scnprintf(page, size, "        it is being opened, or closed; ask again\n");
	learn_leave(d);
	n = lun_settings_show(&d->set, page, size);
	if (d->viewed)
		n += scnprintf(page + n, size - n, "data_sectors %llu\n", (u64)d->viewed);
	if (d->engine)
		n += dcd_to_text(d->engine, page + n, size - n);
	mutex_unlock(&d->lock);
	return n;
}

/* --- life --- */

static int dcd_attach_hba(struct se_hba *hba, u32 host_id)
{
	return 0;
}

static void dcd_detach_hba(struct se_hba *hba)
{
}

static struct se_device *dcd_alloc_device(struct se_hba *hba, const char *name)
{
	struct dcd_dev *d = kzalloc(sizeof(*d), GFP_KERNEL);

	if (!d)
		return NULL;
	mutex_init(&d->lock);
	mutex_init(&d->here);
	lun_settings_init(&d->set);
	lun_attention_init(&d->attention);
	lun_compare_init(&d->compare);
	return &d->dev;
}

static struct dcd_engine *replace_engine(struct dcd_dev *d, struct dcd_engine *e)
{
	struct dcd_engine *old;

	mutex_lock(&d->here);
	old = d->engine;
	d->engine = e;
	mutex_unlock(&d->here);
	return old;
}

static int open_engine(struct dcd_dev *d)
{
	struct dcd_config c = d->set.config;
	struct dcd_engine *e;

	c.name = lun_name(d);
	c.grow = d->set.grow;
	if (!c.data || !c.log || !c.nvram) {
		pr_err("dcd: %s: control needs %s= before enable\n", c.name,
		       !c.data ? "data" : !c.log ? "log" : "nvram");
		return -EINVAL;
	}
	e = dcd_open(&c);
	if (IS_ERR(e))
		return PTR_ERR(e);
	replace_engine(d, e);
	return 0;
}

static int dcd_configure_device(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);
	struct dcd_topology t;
	int r;

	mutex_lock(&d->lock);
	r = d->set.digests_of ? lun_digests_open(d) : open_engine(d);
	if (!r)
		d->set.grow = 0;
	mutex_unlock(&d->lock);
	if (r)
		return r;
	if (d->viewed) {
		lun_digests_configure(dev);
		return 0;
	}
	d->had_cache = dcd_volatile_cache(d->engine);
	dcd_topology(d->engine, &t);
	dev->dev_attrib.hw_block_size = t.logical_block;
	dev->dev_attrib.hw_max_sectors = (1U << 20) / t.logical_block;
	dev->dev_attrib.hw_queue_depth = 128;
	dev->dev_attrib.max_unmap_lba_count = MOST_UNMAPPED;
	dev->dev_attrib.max_unmap_block_desc_count = 32;
	dev->dev_attrib.unmap_granularity = max(t.discard_granularity / t.logical_block, 1U);
	dev->dev_attrib.unmap_granularity_alignment = t.discard_misaligned / t.logical_block;
	/*
	 * Zeroes are cheap here, but in the end the data disk has to have them: to a disk that
	 * doesn't discard nobody should bring them for nothing. (WRITE SAME that unmaps is a write
	 * in any case. It is taken also where that can't unmap: an initiator may know only what was
	 * said of the data disk of before, and zero so.)
	 */
	dev->dev_attrib.emulate_tpu = t.discards;
	dev->dev_attrib.emulate_tpws = t.discards;
	dev->dev_attrib.unmap_zeroes_data = t.discards_to_zeroes;
	dev->dev_attrib.max_write_same_len = 0xffff;
	dev->dev_attrib.is_nonrot = !t.rotates;
	return 0;
}

static void dcd_destroy_device(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);
	struct dcd_engine *e;

	lun_compare_exit(&d->compare);
	mutex_lock(&d->lock);
	e = replace_engine(d, NULL);
	if (e)
		dcd_close(e);
	mutex_unlock(&d->lock);
}

static void free_rcu_cb(struct rcu_head *head)
{
	struct se_device *dev = container_of(head, struct se_device, rcu_head);
	struct dcd_dev *d = to_dcd(dev);

	lun_settings_free(&d->set);
	lun_attention_exit(&d->attention);
	mutex_destroy(&d->here);
	mutex_destroy(&d->lock);
	kfree(d);
}

static void dcd_free_device(struct se_device *dev)
{
	call_rcu(&dev->rcu_head, free_rcu_cb);
}

/* Task management: of what it aborts nothing is left to wait. */
static void dcd_tmr_notify(struct se_device *dev, enum tcm_tmreq_table function,
			   struct list_head *aborted)
{
	struct dcd_dev *d = to_dcd(dev);

	if (d->viewed)
		return;
	lun_compare_look(&d->compare);
	dcd_look(d->engine);
}

static bool dcd_configure_unmap(struct se_device *dev)
{
	return !to_dcd(dev)->viewed;
}

static sector_t dcd_get_blocks(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);
	u64 bytes = d->viewed ? lun_digests_bytes(d) : (u64)sectors_of(d) << SECTOR_SHIFT;

	return div_u64(bytes, dev->dev_attrib.block_size) - 1;
}

/*
 * The data disk's own: behind the log a write that isn't whole blocks of the disk
 * costs what it costs there. The core wants the first two in blocks of the LUN,
 * the others in bytes. A LUN of digests has none.
 */
static struct dcd_topology topology(struct se_device *dev)
{
	struct dcd_topology t = { };

	if (to_dcd(dev)->engine)
		dcd_topology(to_dcd(dev)->engine, &t);
	return t;
}

static unsigned int dcd_get_lbppbe(struct se_device *dev)
{
	unsigned int blocks = topology(dev).physical_block / dev->dev_attrib.block_size;

	return blocks ? ilog2(blocks) : 0;
}

static sector_t dcd_get_alignment(struct se_device *dev)
{
	int misaligned = topology(dev).misaligned;

	return misaligned > 0 ? misaligned / dev->dev_attrib.block_size : 0;
}

static unsigned int dcd_get_io_min(struct se_device *dev)
{
	return topology(dev).io_min;
}

static unsigned int dcd_get_io_opt(struct se_device *dev)
{
	return topology(dev).io_opt;
}

static struct target_backend_ops dcd_ops = {
	.name = "dcd",
	.inquiry_prod = "DCD",
	.inquiry_rev = "1",
	.owner = THIS_MODULE,
	.attach_hba = dcd_attach_hba,
	.detach_hba = dcd_detach_hba,
	.alloc_device = dcd_alloc_device,
	.configure_device = dcd_configure_device,
	.destroy_device = dcd_destroy_device,
	.free_device = dcd_free_device,
	.configure_unmap = dcd_configure_unmap,
	.parse_cdb = lun_parse_cdb,
	.tmr_notify = dcd_tmr_notify,
	.set_configfs_dev_params = dcd_set_params,
	.show_configfs_dev_params = dcd_show_params,
	.get_device_type = sbc_get_device_type,
	.get_blocks = dcd_get_blocks,
	.get_write_cache = dcd_get_write_cache,
	.get_alignment_offset_lbas = dcd_get_alignment,
	.get_lbppbe = dcd_get_lbppbe,
	.get_io_min = dcd_get_io_min,
	.get_io_opt = dcd_get_io_opt,
};

static int __init dcd_module_init(void)
{
	int r = -ENOMEM;

	dcd_ops.tb_dev_attrib_attrs = lun_attributes();
	if (!dcd_ops.tb_dev_attrib_attrs)
		return r;
	r = lun_commands_init();
	if (r)
		goto no_commands;
	r = lun_digests_init();
	if (r)
		goto no_digests;
	r = transport_backend_register(&dcd_ops);
	if (!r)
		return 0;
	lun_digests_exit();
no_digests:
	lun_commands_exit();
no_commands:
	kfree(dcd_ops.tb_dev_attrib_attrs);
	return r;
}

static void __exit dcd_module_exit(void)
{
	rcu_barrier();	/* free_rcu_cb() */
	target_backend_unregister(&dcd_ops);
	lun_digests_exit();
	lun_commands_exit();
	kfree(dcd_ops.tb_dev_attrib_attrs);
}

module_init(dcd_module_init);
module_exit(dcd_module_exit);
MODULE_VERSION(LOCKSTEP_RELEASE);
MODULE_DESCRIPTION("LIO backstore: disk-caching disk");
MODULE_LICENSE("GPL");
