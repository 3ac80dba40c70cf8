/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * WRITE SCATTERED(16) (SBC-4): its CDB and what comes with it, checked.
 *
 *   buffer, in blocks of the LUN:
 *   0                             offset                     offset + blocks
 *   | header | descriptors | pad | data of the first range | ... |
 *   |  32 B  | 32 B each   |     |                                |
 *
 * BUFFER TRANSFER LENGTH is the length of the whole buffer in SBC-4, and the data's
 * alone in earlier drafts, sg3-utils and scsi_debug. How long the buffer is the
 * transport says too, so both are understood.
 *
 * Ranges that overlap are no error: the standard lets any of them win; here the
 * later one does.
 *
 * Pure functions on the caller's memory: any context, no locks, they don't sleep.
 * Nothing that is read is trusted.
 */
#ifndef DCD_SCATTER_H
#define DCD_SCATTER_H

#include "dcd-port.h"

#define SCATTER_OPCODE		0x9f	/* SERVICE ACTION OUT(16) */
#define SCATTER_ACTION		0x12
#define SCATTER_CDB_BYTES	16
#define SCATTER_DESCRIPTOR	32U	/* bytes; the list's header likewise */
#define SCATTER_BTL_FIELD	10	/* where BUFFER TRANSFER LENGTH is in the CDB */

/* What the Block Limits Extension VPD page says. */
struct scatter_limits {
	u32 ranges;
	u32 blocks;	/* BUFFER TRANSFER LENGTH, and so a range */
};

/* What to answer. */
enum scatter_sense {
	SCATTER_GOOD,
	SCATTER_CDB_FIELD,	/* INVALID FIELD IN CDB */
	SCATTER_BUFFER,		/* not as long: INVALID FIELD IN COMMAND INFORMATION UNIT */
	SCATTER_LIST_FIELD,	/* INVALID FIELD IN PARAMETER LIST */
	SCATTER_OUT_OF_RANGE,	/* LOGICAL BLOCK ADDRESS OUT OF RANGE */
	SCATTER_LIST_LENGTH,	/* ABORTED COMMAND, PARAMETER LIST LENGTH ERROR */
};

struct scatter_command {
	bool dpo, fua;
	u32 ranges;	/* 0: nothing is to be written, and nothing transferred */
	u32 offset;	/* of the data in the buffer, in blocks */
	u32 blocks;	/* of data */
};

struct scatter_range {
	u64 lba;
	u32 blocks;
};

/*
 * @buffer: bytes that the transport brings. No more is said of the offset than that
 * the descriptors end before it and that it is within the buffer.
 */
enum scatter_sense __must_check scatter_parse_cdb(const u8 *cdb, const struct scatter_limits *l,
						  u32 block_size, u64 buffer,
						  struct scatter_command *c);

/* Header and descriptors. */
static inline u32 scatter_list_bytes(const struct scatter_command *c)
{
	return (c->ranges + 1) * SCATTER_DESCRIPTOR;
}

/*
 * @list: scatter_list_bytes(). @capacity: blocks of the LUN. Fills @ranges, which
 * has room for c->ranges; those without blocks are left out. @n: how many there are.
 */
enum scatter_sense __must_check scatter_parse_list(const u8 *list, const struct scatter_command *c,
						   const struct scatter_limits *l, u64 capacity,
						   struct scatter_range *ranges, u32 *n);

/*
 * What the LUN says of it, in REPORT SUPPORTED OPERATION CODES about this command
 * (one_command format) and in the VPD page B7h. @buf has room for it; they return
 * how long it is.
 */
#define SCATTER_VPD_PAGE	0xb7
#define SCATTER_VPD_BYTES	64U
#define SCATTER_RSOC_BYTES	(4U + SCATTER_CDB_BYTES + SCATTER_TIMEOUTS)
#define SCATTER_TIMEOUTS	12U	/* bytes of a timeouts descriptor */
u32 scatter_rsoc(u8 *buf, bool fua, bool timeouts);
u32 scatter_vpd(u8 *buf, const struct scatter_limits *l);
/* Its entry in the list of all commands. */
#define SCATTER_ENTRY_BYTES	(8U + SCATTER_TIMEOUTS)
u32 scatter_rsoc_entry(u8 *buf, bool timeouts);

#endif
