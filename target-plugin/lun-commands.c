// SPDX-License-Identifier: GPL-2.0-only
#include <linux/completion.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>

#include "lun.h"

#define ASC_UNRECOVERED_READ 0x11

struct dcd_cmd {
	struct dcd_request rq;
	struct se_cmd *cmd;
};

static struct workqueue_struct *same_wq;

void lun_complete(struct se_cmd *cmd, int error)
{
	if (!error)
		target_complete_cmd(cmd, SAM_STAT_GOOD);
	else if (error == -ENOMEM || error == -EAGAIN)
		target_complete_cmd(cmd, SAM_STAT_BUSY);
	else
		target_complete_cmd_with_sense(cmd, SAM_STAT_CHECK_CONDITION,
					       TCM_LOGICAL_UNIT_COMMUNICATION_FAILURE);
}

/* The core has no sense of its own for it. @sector: of 512 bytes. */
static void complete_medium_error(struct se_cmd *cmd, sector_t sector)
{
	struct se_device *dev = cmd->se_dev;
	bool wide = dev->transport->get_blocks(dev) >= U32_MAX;	/* as the core's own senses */
	u8 sense[TRANSPORT_SENSE_BUFFER] = { };

	scsi_build_sense_buffer(wide, sense, MEDIUM_ERROR, ASC_UNRECOVERED_READ, 0);
	scsi_set_sense_information(sense, sizeof(sense),
				   div_u64(sector, dev->dev_attrib.block_size >> SECTOR_SHIFT));
	transport_copy_sense_to_cmd(cmd, sense);
	target_complete_cmd(cmd, SAM_STAT_CHECK_CONDITION);
}

static void dcd_done(struct dcd_request *rq, int error)
{
	struct dcd_cmd *c = container_of(rq, struct dcd_cmd, rq);
	sector_t bad = rq->bad_sector;
	struct se_cmd *cmd = c->cmd;

	kfree(c);
	/* With a sense of ours the core forgets COMPARE AND WRITE's lock. */
	if (error == -ENODATA && !cmd->transport_complete_callback)
		complete_medium_error(cmd, bad);
	else
		lun_complete(cmd, error);
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

static int submit_and_wait(struct dcd_engine *e, struct wait *w)
{
	init_completion(&w->done);
	dcd_submit(e, &w->rq);
	wait_for_completion(&w->done);
	return w->error;
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
	int r;

	if (!nolb)
		return 0;
	r = submit_and_wait(to_dcd(cmd->se_dev)->engine, &w);
	if (r == -ENOMEM || r == -EAGAIN)
		return TCM_OUT_OF_RESOURCES;
	return r ? TCM_LOGICAL_UNIT_COMMUNICATION_FAILURE : 0;
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

/* WRITE SAME of anything but zeroes: so many pages full of the block at a time. */
#define SAME_PAGES 64

struct same {
	struct work_struct work;
	struct se_cmd *cmd;
	struct scatterlist sg[SAME_PAGES];
};

static int write_same(struct same *s)
{
	struct se_cmd *cmd = s->cmd;
	struct dcd_engine *e = to_dcd(cmd->se_dev)->engine;
	sector_t at = target_to_linux_sector(cmd->se_dev, cmd->t_task_lba);
	u64 left = target_to_linux_sector(cmd->se_dev, sbc_get_write_same_sectors(cmd));
	u32 block = cmd->t_data_sg[0].length, i;
	struct page *page = alloc_page(GFP_NOIO);
	u8 *bytes;
	int r = 0;

	if (!page)
		return -ENOMEM;
	bytes = page_address(page);
	for (i = 0; i + block <= PAGE_SIZE; i += block)
		sg_copy_to_buffer(cmd->t_data_sg, 1, bytes + i, block);
	while (left && !r) {
		struct wait w = { .rq = { .op = DCD_WRITE, .done = wait_done, .sgl = s->sg } };
		u32 n = min_t(u64, left, SAME_PAGES << PAGE_SECTORS_SHIFT);

		w.rq.sector = at;
		w.rq.sectors = n;
		w.rq.nents = DIV_ROUND_UP(n, PAGE_SECTORS);
		sg_init_table(s->sg, w.rq.nents);
		for (i = 0; i < w.rq.nents; i++)
			sg_set_page(&s->sg[i], page, min_t(u32, PAGE_SIZE, (n << SECTOR_SHIFT) -
							   i * PAGE_SIZE), 0);
		r = submit_and_wait(e, &w);
		at += n;
		left -= n;
	}
	__free_page(page);
	return r;
}

static void same_work(struct work_struct *work)
{
	struct same *s = container_of(work, struct same, work);
	int r = write_same(s);

	lun_complete(s->cmd, r);
	kfree(s);
}

/* Of zeroes it is a record without payload, of anything else many writes. */
static sense_reason_t dcd_execute_write_same(struct se_cmd *cmd)
{
	sector_t sectors = target_to_linux_sector(cmd->se_dev, sbc_get_write_same_sectors(cmd));
	struct same *s;

	if (cmd->prot_op || cmd->t_data_nents != 1 ||
	    cmd->t_data_sg[0].length != cmd->se_dev->dev_attrib.block_size)
		return TCM_INVALID_CDB_FIELD;
	if (all_zero(cmd))
		return start(cmd, DCD_WRITE_ZEROES,
			     target_to_linux_sector(cmd->se_dev, cmd->t_task_lba), sectors, NULL,
			     0);
	s = kmalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return TCM_OUT_OF_RESOURCES;
	s->cmd = cmd;
	INIT_WORK(&s->work, same_work);
	queue_work(same_wq, &s->work);
	return 0;
}

int lun_commands_init(void)
{
	same_wq = alloc_workqueue("dcd-same", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	return same_wq ? 0 : -ENOMEM;
}

void lun_commands_exit(void)
{
	destroy_workqueue(same_wq);
}

struct exec_cmd_ops lun_disk_ops = {
	.execute_rw = dcd_execute_rw,
	.execute_sync_cache = dcd_execute_sync_cache,
	.execute_write_same = dcd_execute_write_same,
	.execute_unmap = dcd_execute_unmap,
};
