// SPDX-License-Identifier: GPL-2.0-only
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "digest.h"
#include "lockstep-digest.h"
#include "lun.h"

/* Sectors that one command may ask digests of: 16 MiB of data have to be read for them. */
#define DIGEST_MAX_SECTORS 256

struct digest_cmd {
	struct work_struct work;
	struct dcd_viewer viewer;
	struct se_cmd *cmd;
	struct scatterlist *sgl;
	u32 nents;
};

static struct workqueue_struct *digest_wq;

int lun_digests_open(struct dcd_dev *d)
{
	const char *name = lun_name(d);
	const struct lun_settings *s = &d->set;
	sector_t sectors;
	int r;

	if (lun_settings_any(s)) {
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

void lun_digests_configure(struct se_device *dev)
{
	dev->dev_flags |= DF_READ_ONLY;
	dev->dev_attrib.hw_block_size = 512;
	dev->dev_attrib.hw_max_sectors = DIGEST_MAX_SECTORS;
	dev->dev_attrib.hw_queue_depth = 64;
}

u64 lun_digests_bytes(const struct dcd_dev *d)
{
	return digest_lun_bytes(READ_ONCE(d->viewed));
}

static bool digest_unwanted(const struct dcd_viewer *viewer)
{
	return lun_unwanted(container_of(viewer, struct digest_cmd, viewer)->cmd);
}

static int read_digests(struct digest_cmd *c)
{
	struct se_cmd *cmd = c->cmd;
	struct dcd_dev *d = to_dcd(cmd->se_dev);
	u64 at = (u64)target_to_linux_sector(cmd->se_dev, cmd->t_task_lba) << SECTOR_SHIFT;
	void *buf = kvmalloc(cmd->data_length, GFP_NOIO);
	int r;

	if (!buf)
		return -ENOMEM;
	r = dcd_digest_read(d->set.digests_of, READ_ONCE(d->viewed), at, buf, cmd->data_length,
			    &c->viewer);
	if (!r)
		sg_copy_from_buffer(c->sgl, c->nents, buf, cmd->data_length);
	kvfree(buf);
	return r;
}

static void digest_work(struct work_struct *work)
{
	struct digest_cmd *c = container_of(work, struct digest_cmd, work);
	int r = read_digests(c);

	lun_complete(c->cmd, r);
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
	c->viewer.unwanted = digest_unwanted;
	INIT_WORK(&c->work, digest_work);
	queue_work(digest_wq, &c->work);
	return 0;
}

struct exec_cmd_ops lun_digest_ops = {
	.execute_rw = digest_execute_rw,
};

int lun_digests_init(void)
{
	digest_wq = alloc_workqueue("dcd-digests", WQ_UNBOUND, 0);
	return digest_wq ? 0 : -ENOMEM;
}

void lun_digests_exit(void)
{
	destroy_workqueue(digest_wq);
}
