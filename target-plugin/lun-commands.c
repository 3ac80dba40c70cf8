// SPDX-License-Identifier: GPL-2.0-only
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>

#include "lockstep-test.h"
#include "lun.h"
#include "lun-scatter.h"

TEST_KNOB(bool, caw_inline, "COMPARE AND WRITE sleeps wherever the core executes it");
TEST_KNOB(bool, parts_at_once, "all parts of a command have the time of one request");
TEST_KNOB(bool, same_unmaps, "WRITE SAME with its UNMAP bit is a discard, whatever it is to leave");

#define ASC_UNRECOVERED_READ 0x11

struct dcd_cmd {
	struct dcd_request rq;
	struct se_cmd *cmd;
};

/* Of commands that wait for room in the log, which a session's own thread shall not. */
static struct workqueue_struct *command_wq;

void lun_complete(struct se_cmd *cmd, int error)
{
	if (!error)
		target_complete_cmd(cmd, SAM_STAT_GOOD);
	else if (error == -ENOMEM || error == -EAGAIN)
		target_complete_cmd(cmd, SAM_STAT_BUSY);
	else if (error == -EOPNOTSUPP)
		target_complete_cmd_with_sense(cmd, SAM_STAT_CHECK_CONDITION,
					       TCM_UNSUPPORTED_SCSI_OPCODE);
	else
		target_complete_cmd_with_sense(cmd, SAM_STAT_CHECK_CONDITION,
					       TCM_LOGICAL_UNIT_COMMUNICATION_FAILURE);
}

void lun_sense(struct se_device *dev, u8 key, u8 asc, u8 ascq, u8 sense[TRANSPORT_SENSE_BUFFER])
{
	bool wide = dev->transport->get_blocks(dev) >= U32_MAX;	/* as the core's own senses */

	memset(sense, 0, TRANSPORT_SENSE_BUFFER);
	scsi_build_sense_buffer(wide, sense, key, asc, ascq);
}

void lun_complete_with(struct se_cmd *cmd, u8 sense[TRANSPORT_SENSE_BUFFER])
{
	/* Nothing is left for it, and if the command was aborted meanwhile it would be called. */
	cmd->transport_complete_callback = NULL;
	transport_copy_sense_to_cmd(cmd, sense);
	target_complete_cmd(cmd, SAM_STAT_CHECK_CONDITION);
}

/* The core has no sense of its own for it. @sector: of 512 bytes. */
static void complete_medium_error(struct se_cmd *cmd, sector_t sector)
{
	struct se_device *dev = cmd->se_dev;
	u8 sense[TRANSPORT_SENSE_BUFFER];

	lun_sense(dev, MEDIUM_ERROR, ASC_UNRECOVERED_READ, 0, sense);
	scsi_set_sense_information(sense, sizeof(sense),
				   div_u64(sector, dev->dev_attrib.block_size >> SECTOR_SHIFT));
	/* COMPARE AND WRITE's lock; with a sense of ours the core doesn't get there any more. */
	if (cmd->transport_complete_callback)
		up(&dev->caw_sem);
	lun_complete_with(cmd, sense);
}

static bool dcd_unwanted(const struct dcd_request *rq)
{
	return lun_unwanted(container_of(rq, struct dcd_cmd, rq)->cmd);
}

static void dcd_done(struct dcd_request *rq, int error)
{
	struct dcd_cmd *c = container_of(rq, struct dcd_cmd, rq);
	sector_t bad = rq->bad_sector;
	struct se_cmd *cmd = c->cmd;

	kfree(c);
	if (error == -ENODATA)
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
	c->rq.once = cmd->t_task_cdb[0] == COMPARE_AND_WRITE;
	c->rq.fua = cmd->se_cmd_flags & SCF_FUA;
	c->rq.sector = sector;
	c->rq.sectors = sectors;
	c->rq.sgl = sgl;
	c->rq.nents = nents;
	c->rq.done = dcd_done;
	c->rq.unwanted = dcd_unwanted;
	c->rq.since = lun_since(cmd);
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
	struct se_cmd *cmd;
	struct completion done;
	int error;
};

static bool wait_unwanted(const struct dcd_request *rq)
{
	return lun_unwanted(container_of(rq, struct wait, rq)->cmd);
}

static void wait_done(struct dcd_request *rq, int error)
{
	struct wait *w = container_of(rq, struct wait, rq);

	w->error = error;
	complete(&w->done);
}

static int submit_and_wait(struct dcd_engine *e, struct wait *w)
{
	if (lun_unwanted(w->cmd))
		return -EAGAIN;
	init_completion(&w->done);
	w->rq.done = wait_done;
	w->rq.unwanted = wait_unwanted;
	w->rq.since = lun_since(w->cmd);
	dcd_submit(e, &w->rq);
	wait_for_completion(&w->done);
	/* What was sent again would begin anew: the next part has its own time. */
	if (!w->error && !test_knob(parts_at_once))
		w->cmd->priv = NULL;
	return w->error;
}

/* In a worker. The core completes the command when all ranges are done. */
static sense_reason_t dcd_execute_unmap(struct se_cmd *cmd, sector_t lba, sector_t nolb)
{
	struct wait w = {
		.rq = {
			.op = DCD_DISCARD,
			.sector = target_to_linux_sector(cmd->se_dev, lba),
			.sectors = target_to_linux_sector(cmd->se_dev, nolb),
		},
		.cmd = cmd,
	};
	int r;

	if (!nolb)
		return 0;
	r = submit_and_wait(to_dcd(cmd->se_dev)->engine, &w);
	if (r == -ENOMEM || r == -EAGAIN)
		return TCM_LUN_BUSY;
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

static int write_same(struct se_cmd *cmd, struct page *page, struct scatterlist *sg)
{
	struct dcd_engine *e = to_dcd(cmd->se_dev)->engine;
	sector_t at = target_to_linux_sector(cmd->se_dev, cmd->t_task_lba);
	u64 left = target_to_linux_sector(cmd->se_dev, sbc_get_write_same_sectors(cmd));
	u32 block = cmd->t_data_sg[0].length, i;
	int r = 0;

	for (i = 0; i + block <= PAGE_SIZE; i += block)
		sg_copy_to_buffer(cmd->t_data_sg, 1, page_address(page) + i, block);
	while (left && !r) {
		struct wait w = { .rq = { .op = DCD_WRITE, .sgl = sg }, .cmd = cmd };
		u32 n = min_t(u64, left, SAME_PAGES << PAGE_SECTORS_SHIFT);

		w.rq.sector = at;
		w.rq.sectors = n;
		w.rq.nents = DIV_ROUND_UP(n, PAGE_SECTORS);
		sg_init_table(sg, w.rq.nents);
		for (i = 0; i < w.rq.nents; i++)
			sg_set_page(&sg[i], page, min_t(u32, PAGE_SIZE, (n << SECTOR_SHIFT) -
							i * PAGE_SIZE), 0);
		r = submit_and_wait(e, &w);
		at += n;
		left -= n;
	}
	return r;
}

/*
 * In a worker. Of zeroes it is a record without payload, of anything else many writes.
 * @zeroes: how the data disk gets zeroes.
 */
static sense_reason_t execute_write_same(struct se_cmd *cmd, enum dcd_op zeroes)
{
	sector_t sectors = target_to_linux_sector(cmd->se_dev, sbc_get_write_same_sectors(cmd));
	struct scatterlist *sg;
	struct page *page;
	int r = -ENOMEM;

	if (cmd->prot_op || cmd->t_data_nents != 1 ||
	    cmd->t_data_sg[0].length != cmd->se_dev->dev_attrib.block_size)
		return TCM_INVALID_CDB_FIELD;
	if (all_zero(cmd))
		return start(cmd, zeroes, target_to_linux_sector(cmd->se_dev, cmd->t_task_lba),
			     sectors, NULL, 0);
	sg = kmalloc_array(SAME_PAGES, sizeof(*sg), GFP_NOIO);
	page = alloc_page(GFP_NOIO);
	if (sg && page)
		r = write_same(cmd, page, sg);
	if (page)
		__free_page(page);
	kfree(sg);
	lun_complete(cmd, r);
	return 0;
}

static sense_reason_t dcd_execute_write_same(struct se_cmd *cmd)
{
	return execute_write_same(cmd, DCD_WRITE_ZEROES);
}

/*
 * With its UNMAP bit it is a write all the same: the bit allows to unmap what reads as the block
 * that was sent then. The core's own would be an UNMAP that doesn't look at the block. What the LUN
 * says of UNMAP (LBPRZ) isn't asked, but what the engine does: an initiator may go by what it was
 * told of the data disk of before.
 */
static sense_reason_t dcd_execute_write_same_unmap(struct se_cmd *cmd)
{
	struct dcd_topology t;

	dcd_topology(to_dcd(cmd->se_dev)->engine, &t);
	return execute_write_same(cmd, t.discards_to_zeroes ? DCD_DISCARD : DCD_WRITE_ZEROES);
}

static struct exec_cmd_ops disk_ops = {
	.execute_rw = dcd_execute_rw,
	.execute_sync_cache = dcd_execute_sync_cache,
	.execute_write_same = dcd_execute_write_same,
	.execute_unmap = dcd_execute_unmap,
};

/* --- a command's way --- */

typedef sense_reason_t (*execute_fn)(struct se_cmd *cmd);

struct later {
	struct work_struct work;
	struct se_cmd *cmd;
	execute_fn execute;
};

static void work_on(struct work_struct *work)
{
	struct later *l = container_of(work, struct later, work);
	struct se_cmd *cmd = l->cmd;
	sense_reason_t r;

	r = l->execute(cmd);
	if (r)
		target_complete_cmd_with_sense(cmd, SAM_STAT_CHECK_CONDITION, r);
	/* Not before: another command's work with this address would wait for the end of this. */
	kfree(l);
}

static sense_reason_t do_later(struct se_cmd *cmd, execute_fn execute)
{
	struct later *l = kmalloc(sizeof(*l), GFP_KERNEL);

	if (!l)
		return TCM_OUT_OF_RESOURCES;
	l->cmd = cmd;
	l->execute = execute;
	INIT_WORK(&l->work, work_on);
	queue_work(command_wq, &l->work);
	return 0;
}

/* The byte with the bits of a WRITE SAME; 0: it is none. */
static unsigned int bits_of_write_same(const u8 *cdb)
{
	switch (cdb[0]) {
	case WRITE_SAME:
	case WRITE_SAME_16:
		return 1;
	case VARIABLE_LENGTH_CMD:
		return !cdb[8] && cdb[9] == WRITE_SAME_32 ? 10 : 0;
	default:
		return 0;
	}
}

/* UNMAP, and WRITE SAME of anything but zeroes, wait for their requests. */
static bool takes_time(const struct se_cmd *cmd)
{
	return cmd->t_task_cdb[0] == UNMAP || bits_of_write_same(cmd->t_task_cdb);
}

#define WRITE_SAME_UNMAP 0x08

static bool writes_and_unmaps(const struct se_cmd *cmd)
{
	unsigned int at = bits_of_write_same(cmd->t_task_cdb);

	return at && cmd->t_task_cdb[at] & WRITE_SAME_UNMAP && !test_knob(same_unmaps);
}

static bool compares(const struct se_cmd *cmd)
{
	return cmd->t_task_cdb[0] == COMPARE_AND_WRITE && !test_knob(caw_inline);
}

/* In place of what the parser found for it, which is in cmd->priv. */
static sense_reason_t execute(struct se_cmd *cmd)
{
	struct dcd_dev *d = to_dcd(cmd->se_dev);
	struct lun_attention *a = &d->attention;
	execute_fn found = cmd->priv;

	cmd->priv = (void *)jiffies;
	if (lun_attention_waits(a) && lun_attention_told(a, cmd))
		return 0;
	if (d->viewed)
		return found(cmd);
	if (compares(cmd))
		return lun_compare(&d->compare, cmd, found);
	return takes_time(cmd) ? do_later(cmd, found) : found(cmd);
}

#define CDB_DPO 0x10
#define CDB_FUA 0x08

/* The core refuses these bits whenever the write cache isn't volatile: it needn't see them. */
static void take_fua(struct se_cmd *cmd)
{
	u8 *cdb = cmd->t_task_cdb;

	switch (cdb[0]) {
	case READ_10:
	case READ_12:
	case READ_16:
	case WRITE_10:
	case WRITE_12:
	case WRITE_16:
	case WRITE_VERIFY:
	case WRITE_VERIFY_16:
	case COMPARE_AND_WRITE:
		break;
	default:
		return;
	}
	if (cdb[1] & CDB_FUA)
		cmd->se_cmd_flags |= SCF_FUA;
	cdb[1] &= ~(CDB_DPO | CDB_FUA);
}

sense_reason_t lun_parse_cdb(struct se_cmd *cmd)
{
	struct dcd_dev *d = to_dcd(cmd->se_dev);
	sense_reason_t r;

	if (!d->viewed && lun_takes_fua(d))
		take_fua(cmd);
	r = d->viewed ? sbc_parse_cdb(cmd, &lun_digest_ops) : lun_scatter_parse_cdb(cmd, &disk_ops);
	cmd->priv = NULL;
	if (!r && !d->viewed && writes_and_unmaps(cmd))
		cmd->execute_cmd = dcd_execute_write_same_unmap;
	if (!r && (takes_time(cmd) || compares(cmd) || lun_attention_waits(&d->attention))) {
		cmd->priv = cmd->execute_cmd;
		cmd->execute_cmd = execute;
		if (compares(cmd) && !d->viewed)
			lun_compare_parsed(cmd);
	}
	return r;
}

int lun_commands_init(void)
{
	int r = lun_compare_module_init();

	if (r)
		return r;
	command_wq = alloc_workqueue("dcd-commands", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (command_wq)
		return 0;
	lun_compare_module_exit();
	return -ENOMEM;
}

void lun_commands_exit(void)
{
	destroy_workqueue(command_wq);
	lun_compare_module_exit();
}
