// SPDX-License-Identifier: GPL-2.0-only
/*
 * LIO backstore "dcd": the DCD engine as a LUN.
 *
 *   mkdir -p /sys/kernel/config/target/core/dcd_0/NAME; cd there
 *   echo data=/dev/X,log=/dev/Y,nvram=pmem:/dev/pmem0 > control
 *   echo 1 > enable
 *
 * Keys of control: data, log, nvram, nvram_bytes. One write of control changes
 * all of its keys or none. Afterwards `info` shows state and counters.
 *
 * With the only key digests_of=NAME it is another LUN: read-only, the digests of
 * the content of the enabled dcd device NAME (digest.h), for a mirror's resync.
 * It holds nothing of that device: either may be taken away first. Without it
 * reads fail.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <scsi/scsi_proto.h>
#include <target/target_core_base.h>
#include <target/target_core_backend.h>

#include "dcd.h"
#include "digest.h"
#include "lockstep-compat.h"
#include "lockstep-digest.h"

/* Sectors that one command may ask digests of: 16 MiB of data have to be read for them. */
#define DIGEST_MAX_SECTORS 256

struct settings {
	char *data;
	char *log;
	char *nvram;
	size_t nvram_bytes;
	char *digests_of;
};

struct dcd_dev {
	struct se_device dev;
	struct mutex lock;		/* of @set, and of @engine's coming and going */
	struct settings set;
	struct dcd_engine *engine;	/* commands come only while it is there, */
	sector_t viewed;		/* or if these are the sectors of set.digests_of */
};

struct dcd_cmd {
	struct dcd_request rq;
	struct se_cmd *cmd;
};

struct digest_cmd {
	struct work_struct work;
	struct se_cmd *cmd;
	struct scatterlist *sgl;
	u32 nents;
};

static struct workqueue_struct *digest_wq;

static struct dcd_dev *to_dcd(struct se_device *dev)
{
	return container_of(dev, struct dcd_dev, dev);
}

/* --- configuration --- */

static void settings_free(struct settings *s)
{
	kfree(s->data);
	kfree(s->log);
	kfree(s->nvram);
	kfree(s->digests_of);
}

static int replace(char **old, const char *value)
{
	char *new = kstrdup(value, GFP_KERNEL);

	if (!new)
		return -ENOMEM;
	kfree(*old);
	*old = new;
	return 0;
}

static int settings_copy(struct settings *to, const struct settings *from)
{
	int r = 0;

	to->nvram_bytes = from->nvram_bytes;
	if (from->data)
		r = replace(&to->data, from->data);
	if (!r && from->log)
		r = replace(&to->log, from->log);
	if (!r && from->nvram)
		r = replace(&to->nvram, from->nvram);
	if (!r && from->digests_of)
		r = replace(&to->digests_of, from->digests_of);
	return r;
}

static int set_one(struct settings *s, char *word)
{
	char *value = strchr(word, '=');
	u64 bytes;

	if (value)
		*value++ = 0;
	if (!value || !*value) {
		pr_err("dcd: control: \"%s\" has no value: KEY=VALUE[,...] is expected\n", word);
		return -EINVAL;
	}
	if (!strcmp(word, "data"))
		return replace(&s->data, value);
	if (!strcmp(word, "log"))
		return replace(&s->log, value);
	if (!strcmp(word, "nvram"))
		return replace(&s->nvram, value);
	if (!strcmp(word, "digests_of"))
		return replace(&s->digests_of, value);
	if (!strcmp(word, "nvram_bytes")) {
		if (kstrtou64(value, 0, &bytes) || !bytes || bytes > SIZE_MAX) {
			pr_err("dcd: control: nvram_bytes=%s is not a number of bytes\n", value);
			return -EINVAL;
		}
		s->nvram_bytes = bytes;
		return 0;
	}
	pr_err("dcd: control: unknown key \"%s\": data, log, nvram, nvram_bytes and digests_of exist\n",
	       word);
	return -EINVAL;
}

static ssize_t set_params(struct dcd_dev *d, const char *page, ssize_t count)
{
	struct settings new = { };
	char *text, *rest, *word;
	int r;

	if (d->engine || d->viewed) {
		pr_err("dcd: control: the device is enabled, its settings are fixed\n");
		return -EBUSY;
	}
	text = kstrdup(page, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	r = settings_copy(&new, &d->set);
	rest = text;
	while (!r && (word = strsep(&rest, ",\n")))
		if (*word)
			r = set_one(&new, word);
	kfree(text);
	if (r) {
		settings_free(&new);
		return r;
	}
	settings_free(&d->set);
	d->set = new;
	return count;
}

static ssize_t dcd_set_params(struct se_device *dev, const char *page, ssize_t count)
{
	struct dcd_dev *d = to_dcd(dev);
	ssize_t r;

	mutex_lock(&d->lock);
	r = set_params(d, page, count);
	mutex_unlock(&d->lock);
	return r;
}

static ssize_t dcd_show_params(struct se_device *dev, char *page)
{
	struct dcd_dev *d = to_dcd(dev);
	ssize_t n;

	mutex_lock(&d->lock);
	if (d->set.digests_of) {
		n = scnprintf(page, PAGE_SIZE / 2, "digests_of=%s\n", d->set.digests_of);
		if (d->viewed)
			n += scnprintf(page + n, PAGE_SIZE / 2, "data_sectors %llu\n",
				       (u64)d->viewed);
	} else {
		n = scnprintf(page, PAGE_SIZE / 2, "data=%s,log=%s,nvram=%s,nvram_bytes=%zu\n",
			      d->set.data ?: "", d->set.log ?: "", d->set.nvram ?: "",
			      d->set.nvram_bytes);
	}
	if (d->engine)
		n += dcd_to_text(d->engine, page + n, PAGE_SIZE / 2);
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
	return &d->dev;
}

static int open_engine(struct dcd_dev *d)
{
	struct dcd_config c = {
		.name = config_item_name(&d->dev.dev_group.cg_item),
		.data = d->set.data,
		.log = d->set.log,
		.nvram = d->set.nvram,
		.nvram_bytes = d->set.nvram_bytes,
	};
	struct dcd_engine *e;

	if (!c.data || !c.log || !c.nvram) {
		pr_err("dcd: %s: control needs %s= before enable\n", c.name,
		       !c.data ? "data" : !c.log ? "log" : "nvram");
		return -EINVAL;
	}
	e = dcd_open(&c);
	if (IS_ERR(e))
		return PTR_ERR(e);
	d->engine = e;
	return 0;
}

static int open_view(struct dcd_dev *d)
{
	const char *name = config_item_name(&d->dev.dev_group.cg_item);
	const struct settings *s = &d->set;
	sector_t sectors;
	int r;

	if (s->data || s->log || s->nvram || s->nvram_bytes) {
		pr_err("dcd: %s: control: digests_of= can't be with any other key\n", name);
		return -EINVAL;
	}
	r = dcd_digest_source(s->digests_of, &sectors);
	if (r) {
		pr_err("dcd: %s: digests_of=%s: %s\n", name, s->digests_of, r == -ENOTUNIQ ?
		       "two dcd devices have that name: give one of them another" :
		       "no dcd device of that name is enabled: enable it first");
		return r;
	}
	d->viewed = sectors;
	return 0;
}

static void configure_view(struct se_device *dev)
{
	dev->dev_flags |= DF_READ_ONLY;
	dev->dev_attrib.hw_block_size = 512;
	dev->dev_attrib.hw_max_sectors = DIGEST_MAX_SECTORS;
	dev->dev_attrib.hw_queue_depth = 64;
}

static int dcd_configure_device(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);
	int r;

	mutex_lock(&d->lock);
	r = d->set.digests_of ? open_view(d) : open_engine(d);
	mutex_unlock(&d->lock);
	if (r)
		return r;
	if (d->viewed) {
		configure_view(dev);
		return 0;
	}
	dev->dev_attrib.hw_block_size = 512;
	dev->dev_attrib.hw_max_sectors = 2048;
	dev->dev_attrib.hw_queue_depth = 128;
	dev->dev_attrib.max_unmap_lba_count = 1U << 22;
	dev->dev_attrib.max_unmap_block_desc_count = 32;
	dev->dev_attrib.unmap_granularity = 1;
	dev->dev_attrib.unmap_zeroes_data = 1;
	dev->dev_attrib.emulate_tpu = 1;
	dev->dev_attrib.emulate_tpws = 1;
	dev->dev_attrib.max_write_same_len = 0xffff;
	dev->dev_attrib.is_nonrot = 1;
	return 0;
}

static void dcd_destroy_device(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);

	mutex_lock(&d->lock);
	if (d->engine)
		dcd_close(d->engine);
	d->engine = NULL;
	mutex_unlock(&d->lock);
}

static void free_rcu_cb(struct rcu_head *head)
{
	struct se_device *dev = container_of(head, struct se_device, rcu_head);
	struct dcd_dev *d = to_dcd(dev);

	settings_free(&d->set);
	mutex_destroy(&d->lock);
	kfree(d);
}

static void dcd_free_device(struct se_device *dev)
{
	call_rcu(&dev->rcu_head, free_rcu_cb);
}

static bool dcd_configure_unmap(struct se_device *dev)
{
	return !to_dcd(dev)->viewed;
}

static sector_t dcd_get_blocks(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);
	u64 bytes = d->viewed ? digest_lun_bytes(d->viewed) :
				(u64)dcd_sectors(d->engine) << SECTOR_SHIFT;

	return div_u64(bytes, dev->dev_attrib.block_size) - 1;
}

static bool dcd_get_write_cache(struct se_device *dev)
{
	struct dcd_dev *d = to_dcd(dev);

	return d->engine && dcd_volatile_cache(d->engine);
}

/* --- commands --- */

static void complete_cmd(struct se_cmd *cmd, int error)
{
	if (!error)
		target_complete_cmd(cmd, SAM_STAT_GOOD);
	else if (error == -ENOMEM || error == -EAGAIN)
		target_complete_cmd(cmd, SAM_STAT_BUSY);
	else
		target_complete_cmd_with_sense(cmd, SAM_STAT_CHECK_CONDITION,
					       TCM_LOGICAL_UNIT_COMMUNICATION_FAILURE);
}

static void dcd_done(struct dcd_request *rq, int error)
{
	struct dcd_cmd *c = container_of(rq, struct dcd_cmd, rq);
	struct se_cmd *cmd = c->cmd;

	kfree(c);
	complete_cmd(cmd, error);
}

static sense_reason_t start(struct se_cmd *cmd, enum dcd_op op, sector_t sector,
			    sector_t sectors, struct scatterlist *sgl, u32 nents)
{
	struct dcd_cmd *c = kzalloc(sizeof(*c), GFP_KERNEL);

	if (!c)
		return TCM_OUT_OF_RESOURCES;
	c->cmd = cmd;
	c->rq.op = op;
	c->rq.fua = cmd->se_cmd_flags & SCF_FUA;
	c->rq.sector = sector;
	c->rq.sectors = sectors;
	c->rq.sgl = sgl;
	c->rq.nents = nents;
	c->rq.done = dcd_done;
	dcd_submit(to_dcd(cmd->se_dev)->engine, &c->rq);
	return 0;
}

static sense_reason_t dcd_execute_rw(struct se_cmd *cmd, struct scatterlist *sgl, u32 nents,
				     enum dma_data_direction dir)
{
	return start(cmd, dir == DMA_TO_DEVICE ? DCD_WRITE : DCD_READ,
		     target_to_linux_sector(cmd->se_dev, cmd->t_task_lba),
		     cmd->data_length >> SECTOR_SHIFT, sgl, nents);
}

static sense_reason_t dcd_execute_sync_cache(struct se_cmd *cmd)
{
	/* IMMED asks for an answer before the end; one at the end is as good. */
	return start(cmd, DCD_FLUSH, 0, 0, NULL, 0);
}

struct wait {
	struct dcd_request rq;
	struct completion done;
	int error;
};

static void wait_done(struct dcd_request *rq, int error)
{
	struct wait *w = container_of(rq, struct wait, rq);

	w->error = error;
	complete(&w->done);
}

/* The core completes the command when all ranges are done. */
static sense_reason_t dcd_execute_unmap(struct se_cmd *cmd, sector_t lba, sector_t nolb)
{
	struct wait w = {
		.rq = {
			.op = DCD_DISCARD,
			.sector = target_to_linux_sector(cmd->se_dev, lba),
			.sectors = target_to_linux_sector(cmd->se_dev, nolb),
			.done = wait_done,
		},
	};

	if (!nolb)
		return 0;
	init_completion(&w.done);
	dcd_submit(to_dcd(cmd->se_dev)->engine, &w.rq);
	wait_for_completion(&w.done);
	if (w.error == -ENOMEM || w.error == -EAGAIN)
		return TCM_OUT_OF_RESOURCES;
	return w.error ? TCM_LOGICAL_UNIT_COMMUNICATION_FAILURE : 0;
}

static bool all_zero(struct se_cmd *cmd)
{
	u8 buf[512];
	u32 at;

	for (at = 0; at < cmd->t_data_sg[0].length; at += sizeof(buf)) {
		size_t n = sg_pcopy_to_buffer(cmd->t_data_sg, 1, buf, sizeof(buf), at);

		if (memchr_inv(buf, 0, n))
			return false;
	}
	return true;
}

/* Of zeroes it is a record without payload; anything else, initiators write themselves. */
static sense_reason_t dcd_execute_write_same(struct se_cmd *cmd)
{
	sector_t sectors = target_to_linux_sector(cmd->se_dev, sbc_get_write_same_sectors(cmd));

	if (cmd->prot_op || cmd->t_data_nents != 1 ||
	    cmd->t_data_sg[0].length != cmd->se_dev->dev_attrib.block_size)
		return TCM_INVALID_CDB_FIELD;
	if (!all_zero(cmd))
		return TCM_INVALID_CDB_FIELD;
	return start(cmd, DCD_WRITE_ZEROES,
		     target_to_linux_sector(cmd->se_dev, cmd->t_task_lba), sectors, NULL, 0);
}

static struct exec_cmd_ops dcd_cmd_ops = {
	.execute_rw = dcd_execute_rw,
	.execute_sync_cache = dcd_execute_sync_cache,
	.execute_write_same = dcd_execute_write_same,
	.execute_unmap = dcd_execute_unmap,
};

/* --- commands to a LUN of digests --- */

static int read_digests(struct digest_cmd *c)
{
	struct se_cmd *cmd = c->cmd;
	struct dcd_dev *d = to_dcd(cmd->se_dev);
	u64 at = (u64)target_to_linux_sector(cmd->se_dev, cmd->t_task_lba) << SECTOR_SHIFT;
	void *buf = kvmalloc(cmd->data_length, GFP_NOIO);
	int r;

	if (!buf)
		return -ENOMEM;
	r = dcd_digest_read(d->set.digests_of, d->viewed, at, buf, cmd->data_length);
	if (!r)
		sg_copy_from_buffer(c->sgl, c->nents, buf, cmd->data_length);
	kvfree(buf);
	return r;
}

static void digest_work(struct work_struct *work)
{
	struct digest_cmd *c = container_of(work, struct digest_cmd, work);
	int r = read_digests(c);

	complete_cmd(c->cmd, r);
	kfree(c);
}

static sense_reason_t digest_execute_rw(struct se_cmd *cmd, struct scatterlist *sgl, u32 nents,
					enum dma_data_direction dir)
{
	struct digest_cmd *c;

	if (dir != DMA_FROM_DEVICE)
		return TCM_WRITE_PROTECTED;
	c = kzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return TCM_OUT_OF_RESOURCES;
	c->cmd = cmd;
	c->sgl = sgl;
	c->nents = nents;
	INIT_WORK(&c->work, digest_work);
	queue_work(digest_wq, &c->work);
	return 0;
}

static struct exec_cmd_ops digest_cmd_ops = {
	.execute_rw = digest_execute_rw,
};

static sense_reason_t dcd_parse_cdb(struct se_cmd *cmd)
{
	return sbc_parse_cdb(cmd, to_dcd(cmd->se_dev)->viewed ? &digest_cmd_ops : &dcd_cmd_ops);
}

static const struct target_backend_ops dcd_ops = {
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
	.parse_cdb = dcd_parse_cdb,
	.set_configfs_dev_params = dcd_set_params,
	.show_configfs_dev_params = dcd_show_params,
	.get_device_type = sbc_get_device_type,
	.get_blocks = dcd_get_blocks,
	.get_write_cache = dcd_get_write_cache,
	.tb_dev_attrib_attrs = sbc_attrib_attrs,
};

static int __init dcd_module_init(void)
{
	int r;

	digest_wq = alloc_workqueue("dcd-digests", WQ_UNBOUND, 0);
	if (!digest_wq)
		return -ENOMEM;
	r = transport_backend_register(&dcd_ops);
	if (r)
		destroy_workqueue(digest_wq);
	return r;
}

static void __exit dcd_module_exit(void)
{
	rcu_barrier();	/* free_rcu_cb() */
	target_backend_unregister(&dcd_ops);
	destroy_workqueue(digest_wq);
}

module_init(dcd_module_init);
module_exit(dcd_module_exit);
MODULE_DESCRIPTION("LIO backstore: disk-caching disk");
MODULE_LICENSE("GPL");
