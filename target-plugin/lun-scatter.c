// SPDX-License-Identifier: GPL-2.0-only
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <scsi/scsi_common.h>
#include <scsi/scsi_proto.h>
#include <target/target_core_fabric.h>

#include "dcd-identity-format.h"
#include "lockstep-test.h"
#include "lun.h"
#include "lun-scatter.h"
#include "scatter.h"

TEST_KNOB(bool, limits_short, "the page of block limits is as long as the core makes it");

#define ASC_PARAMETER_LIST_LENGTH 0x1a

struct scattered {
	struct dcd_request rq;
	struct se_cmd *cmd;
	struct dcd_range ranges[];
};

static bool has_fua(struct se_device *dev)
{
	return dev->dev_attrib.emulate_fua_write && dcd_volatile_cache(to_dcd(dev)->engine);
}

static void limits_of(struct se_device *dev, struct scatter_limits *l)
{
	unsigned int ranges;
	sector_t sectors;

	dcd_batch_limits(to_dcd(dev)->engine, &ranges, &sectors);
	l->ranges = min_t(unsigned int, ranges, U16_MAX);
	l->blocks = div_u64(sectors, dev->dev_attrib.block_size >> SECTOR_SHIFT);
}

/* Of a command that the core has let in. */
static enum scatter_sense look_at(struct se_cmd *cmd, struct scatter_limits *l,
				  struct scatter_command *c)
{
	struct se_device *dev = cmd->se_dev;
	enum scatter_sense sense;

	limits_of(dev, l);
	sense = scatter_parse_cdb(cmd->t_task_cdb, l, dev->dev_attrib.block_size,
				  cmd->data_length, c);
	if (!sense && (c->fua || c->dpo) && !lun_takes_fua(to_dcd(dev)))
		sense = SCATTER_CDB_FIELD;	/* as the core does with the other writes */
	return sense;
}

/* The core has no sense of its own for it. */
static void complete_list_length(struct se_cmd *cmd)
{
	u8 sense[TRANSPORT_SENSE_BUFFER];

	lun_sense(cmd->se_dev, ABORTED_COMMAND, ASC_PARAMETER_LIST_LENGTH, 0, sense);
	scsi_set_sense_field_pointer(sense, sizeof(sense), SCATTER_BTL_FIELD, 0xff, true);
	lun_complete_with(cmd, sense);
}

static sense_reason_t refused(struct se_cmd *cmd, enum scatter_sense sense)
{
	switch (sense) {
	case SCATTER_CDB_FIELD:
		return TCM_INVALID_CDB_FIELD;
	case SCATTER_BUFFER:
		return TCM_INVALID_FIELD_IN_COMMAND_IU;
	case SCATTER_LIST_FIELD:
		return TCM_INVALID_PARAMETER_LIST;
	case SCATTER_OUT_OF_RANGE:
		return TCM_ADDRESS_OUT_OF_RANGE;
	default:
		complete_list_length(cmd);
		return 0;
	}
}

static void scattered_done(struct dcd_request *rq, int error)
{
	struct scattered *s = container_of(rq, struct scattered, rq);
	struct se_cmd *cmd = s->cmd;

	kvfree(s);
	lun_complete(cmd, error);
}

static bool scattered_unwanted(const struct dcd_request *rq)
{
	return lun_unwanted(container_of(rq, struct scattered, rq)->cmd);
}

/* List and ranges have room for all descriptors. */
static enum scatter_sense read_list(struct scattered *s, const struct scatter_command *c,
				    const struct scatter_limits *l, u8 *list,
				    struct scatter_range *ranges)
{
	struct se_cmd *cmd = s->cmd;
	struct se_device *dev = cmd->se_dev;
	u32 bytes = scatter_list_bytes(c), i, n;
	enum scatter_sense sense;

	if (sg_copy_to_buffer(cmd->t_data_sg, cmd->t_data_nents, list, bytes) != bytes)
		return SCATTER_BUFFER;
	sense = scatter_parse_list(list, c, l, dev->transport->get_blocks(dev) + 1, ranges, &n);
	if (sense)
		return sense;
	/* Without blocks in any it is a write of nothing. */
	for (i = 0; i < n; i++) {
		s->ranges[i].sector = target_to_linux_sector(dev, ranges[i].lba);
		s->ranges[i].sectors = target_to_linux_sector(dev, ranges[i].blocks);
	}
	s->rq = (struct dcd_request){
		.op = DCD_WRITE,
		.fua = c->fua,
		.ranges = n ? s->ranges : NULL,
		.nranges = n,
		.sectors = target_to_linux_sector(dev, c->blocks),
		.sgl = cmd->t_data_sg,
		.nents = cmd->t_data_nents,
		.skip = c->offset * dev->dev_attrib.block_size,
		.done = scattered_done,
		.unwanted = scattered_unwanted,
	};
	return SCATTER_GOOD;
}

static sense_reason_t execute(struct se_cmd *cmd)
{
	struct scatter_range *ranges;
	struct scatter_command c;
	struct scatter_limits l;
	enum scatter_sense sense = look_at(cmd, &l, &c);
	struct scattered *s;
	u8 *list;

	if (sense)
		return refused(cmd, sense);
	if (!c.ranges) {
		target_complete_cmd(cmd, SAM_STAT_GOOD);
		return 0;
	}
	s = kvzalloc(struct_size(s, ranges, c.ranges), GFP_KERNEL);
	list = kvmalloc(scatter_list_bytes(&c), GFP_KERNEL);
	ranges = kvmalloc_array(c.ranges, sizeof(*ranges), GFP_KERNEL);
	if (s && list && ranges) {
		s->cmd = cmd;
		sense = read_list(s, &c, &l, list, ranges);
	}
	kvfree(ranges);
	if (!s || !list || !ranges || sense) {
		sense_reason_t r = sense ? refused(cmd, sense) : TCM_OUT_OF_RESOURCES;

		kvfree(list);
		kvfree(s);
		return r;
	}
	kvfree(list);
	dcd_submit(to_dcd(cmd->se_dev)->engine, &s->rq);
	return 0;
}

/*
 * What the core's check of a command's length does, which it doesn't export: what
 * is wrong is told before the initiator sends any data.
 */
static sense_reason_t parse(struct se_cmd *cmd)
{
	struct scatter_command c;
	struct scatter_limits l;
	enum scatter_sense sense;

	if (dcd_left(to_dcd(cmd->se_dev)->engine))
		return TCM_UNSUPPORTED_SCSI_OPCODE;
	if (cmd->data_length && cmd->data_direction != DMA_TO_DEVICE)
		return TCM_INVALID_CDB_FIELD;
	sense = look_at(cmd, &l, &c);
	/* That one has a sense of ours: at its execution. */
	if (sense && sense != SCATTER_LIST_LENGTH)
		return refused(cmd, sense);
	/* What is brought although nothing is to be transferred. */
	if (!sense && !c.ranges && cmd->data_length) {
		cmd->se_cmd_flags |= SCF_UNDERFLOW_BIT;
		cmd->residual_count = cmd->data_length;
	}
	cmd->execute_cmd = execute;
	return 0;
}

/* --- what the LUN says of it --- */

/* So many bytes may be sent: @asked for by the CDB. */
static u32 room(struct se_cmd *cmd, u32 asked)
{
	struct scatterlist *sg;
	unsigned int i;
	u32 bytes = 0;

	for_each_sg(cmd->t_data_sg, sg, cmd->t_data_nents, i)
		bytes += sg->length;
	return min(bytes, asked);
}

/* The answer, which the core has made and cut off, gets @n bytes from @at on. */
static void amend(struct se_cmd *cmd, u32 asked, u32 at, const u8 *bytes, u32 n)
{
	u32 end = min(at + n, room(cmd, asked)), more;

	if (at < end)
		sg_pcopy_from_buffer(cmd->t_data_sg, cmd->t_data_nents, bytes, end - at, at);
	if (end <= cmd->data_length)
		return;
	more = end - cmd->data_length;
	cmd->data_length = end;
	cmd->residual_count -= min(more, cmd->residual_count);
	if (!cmd->residual_count)
		cmd->se_cmd_flags &= ~SCF_UNDERFLOW_BIT;
}

/* The kernel's own, get_unaligned_be32(), is in another header in 6.1 than in 6.12. */
static u32 allocation_length(const u8 *cdb, u32 at, u32 bytes)
{
	u32 n = 0;

	while (bytes--)
		n = n << 8 | cdb[at++];
	return n;
}

#define RSOC_WITH_TIMEOUTS	0x80	/* in byte 2, with what is asked */
#define RSOC_WHAT		0x07

#define BLOCK_LIMITS		0xb0
#define BLOCK_LIMITS_LENGTH	60U
#define BLOCK_LIMITS_UNMAP	40U	/* and WRITE SAME; no more */

enum question {
	NOTHING,
	ALL_COMMANDS,
	THIS_COMMAND,
	ALL_PAGES,
	LIMITS_PAGE,
	IDENTITY_PAGE,
	BLOCK_LIMITS_PAGE,
	NO_ACTION,	/* 9Fh without a service action: an error */
};

static enum question asks(const u8 *cdb)
{
	if (cdb[0] == INQUIRY && cdb[1] & 1)
		return !cdb[2] ? ALL_PAGES : cdb[2] == SCATTER_VPD_PAGE ? LIMITS_PAGE :
		       cdb[2] == DCD_IDENTITY_PAGE ? IDENTITY_PAGE :
		       cdb[2] == BLOCK_LIMITS ? BLOCK_LIMITS_PAGE : NOTHING;
	if (cdb[0] != MAINTENANCE_IN || (cdb[1] & 0x1f) != MI_REPORT_SUPPORTED_OPERATION_CODES)
		return NOTHING;
	if (!(cdb[2] & RSOC_WHAT))
		return ALL_COMMANDS;
	if (cdb[3] != SCATTER_OPCODE)
		return NOTHING;
	if ((cdb[2] & RSOC_WHAT) == 1)
		return NO_ACTION;
	return (cdb[2] & RSOC_WHAT) <= 3 && !cdb[4] && cdb[5] == SCATTER_ACTION ? THIS_COMMAND :
										 NOTHING;
}

/* Without its log there is no such command: nothing would make it one write. */
static enum question question(struct se_cmd *cmd)
{
	enum question q = asks(cmd->t_task_cdb);
	bool of_it = q == ALL_COMMANDS || q == THIS_COMMAND || q == LIMITS_PAGE || q == NO_ACTION;

	return of_it && dcd_left(to_dcd(cmd->se_dev)->engine) ? NOTHING : q;
}

/* The list of commands begins with its length, 4 bytes, that of pages with 2 from byte 2 on. */
static void append(struct se_cmd *cmd, u32 asked, u32 at, u32 bytes, const u8 *more, u32 n)
{
	u8 head[4];
	u32 length, i;

	if (cmd->data_length < sizeof(head))
		return;
	sg_copy_to_buffer(cmd->t_data_sg, cmd->t_data_nents, head, sizeof(head));
	length = allocation_length(head, at, bytes);
	if (!length)
		return;
	amend(cmd, asked, sizeof(head) + length, more, n);
	length += n;
	for (i = at + bytes; i-- > at; length >>= 8)
		head[i] = length;
	sg_copy_from_buffer(cmd->t_data_sg, cmd->t_data_nents, head, sizeof(head));
}

/*
 * The core of 7.3, unlike that of 6.12, ends the page behind what it says of UNMAP, as it has
 * nothing to say of the rest. Linux takes none of that from a page shorter than SBC's: it would
 * unmap by WRITE SAME, which is no more than a write where unmapping doesn't zero.
 */
static void answer_limits(struct se_cmd *cmd)
{
	static const u8 nothing[BLOCK_LIMITS_LENGTH - BLOCK_LIMITS_UNMAP];
	u8 head[4];

	if (cmd->data_length < sizeof(head) || test_knob(limits_short))
		return;
	sg_copy_to_buffer(cmd->t_data_sg, cmd->t_data_nents, head, sizeof(head));
	if (allocation_length(head, 2, 2) == BLOCK_LIMITS_UNMAP)
		append(cmd, allocation_length(cmd->t_task_cdb, 3, 2), 2, 2, nothing,
		       sizeof(nothing));
}

static void answer_one(struct se_cmd *cmd)
{
	const u8 *cdb = cmd->t_task_cdb;
	u8 buf[SCATTER_RSOC_BYTES];

	amend(cmd, allocation_length(cdb, 6, 4), 0, buf,
	      scatter_rsoc(buf, has_fua(cmd->se_dev), cdb[2] & RSOC_WITH_TIMEOUTS));
}

/* The core has made its answer, nothing of it has been sent: process context. */
static sense_reason_t complete_answer(struct se_cmd *cmd, bool success, int *go_on)
{
	const u8 *cdb = cmd->t_task_cdb;
	u8 buf[SCATTER_ENTRY_BYTES];
	u8 pages[] = { SCATTER_VPD_PAGE, DCD_IDENTITY_PAGE };

	if (!success)
		return 0;
	*go_on = 1;
	switch (question(cmd)) {
	case ALL_COMMANDS:
		append(cmd, allocation_length(cdb, 6, 4), 0, 4, buf,
		       scatter_rsoc_entry(buf, cdb[2] & RSOC_WITH_TIMEOUTS));
		break;
	case THIS_COMMAND:
		answer_one(cmd);
		break;
	case ALL_PAGES:
		if (dcd_left(to_dcd(cmd->se_dev)->engine))
			append(cmd, allocation_length(cdb, 3, 2), 2, 2, pages + 1, 1);
		else
			append(cmd, allocation_length(cdb, 3, 2), 2, 2, pages, sizeof(pages));
		break;
	case BLOCK_LIMITS_PAGE:
		answer_limits(cmd);
		break;
	default:
		break;
	}
	return 0;
}

/* The core doesn't answer. */
static sense_reason_t answer(struct se_cmd *cmd)
{
	struct dcd_identity identity;
	struct scatter_limits l;
	u8 buf[SCATTER_VPD_BYTES];
	u32 asked = allocation_length(cmd->t_task_cdb, 3, 2);
	u32 n;

	target_set_cmd_data_length(cmd, 0);
	if (question(cmd) == THIS_COMMAND) {
		answer_one(cmd);
	} else if (question(cmd) == IDENTITY_PAGE) {
		dcd_identity_make(&identity, dcd_log_uuid(to_dcd(cmd->se_dev)->engine));
		amend(cmd, asked, 0, (u8 *)&identity, sizeof(identity));
	} else {
		limits_of(cmd->se_dev, &l);
		n = scatter_vpd(buf, &l);
		amend(cmd, asked, 0, buf, n);
	}
	target_complete_cmd(cmd, SAM_STAT_GOOD);
	return 0;
}

sense_reason_t lun_scatter_parse_cdb(struct se_cmd *cmd, struct exec_cmd_ops *ops)
{
	const u8 *cdb = cmd->t_task_cdb;
	enum question asked = question(cmd);
	sense_reason_t r;

	if (cdb[0] == SCATTER_OPCODE && (cdb[1] & 0x1f) == SCATTER_ACTION)
		return parse(cmd);
	if (asked == NO_ACTION)
		return TCM_INVALID_CDB_FIELD;
	r = sbc_parse_cdb(cmd, ops);
	if (asked == LIMITS_PAGE || asked == IDENTITY_PAGE ||
	    (asked == THIS_COMMAND && r == TCM_UNSUPPORTED_SCSI_OPCODE)) {
		cmd->execute_cmd = answer;
		return 0;
	}
	if (!r && asked)
		cmd->transport_complete_callback = complete_answer;
	return r;
}
