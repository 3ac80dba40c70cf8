// SPDX-License-Identifier: GPL-2.0-only
#include "scatter.h"

#define PROTECT	0xe0	/* byte 2 of the CDB */
#define DPO	0x10
#define FUA	0x08

/* Big-endian. */
static u64 get(const u8 *p, u32 bytes)
{
	u64 n = 0;

	while (bytes--)
		n = n << 8 | *p++;
	return n;
}

static void put(u8 *p, u32 bytes, u64 n)
{
	while (bytes--) {
		p[bytes] = n;
		n >>= 8;
	}
}

enum scatter_sense scatter_parse_cdb(const u8 *cdb, const struct scatter_limits *l,
				     u32 block_size, u64 buffer, struct scatter_command *c)
{
	u64 length = get(cdb + SCATTER_BTL_FIELD, 4);

	memset(c, 0, sizeof(*c));
	c->ranges = get(cdb + 8, 2);
	c->offset = get(cdb + 4, 2);
	c->dpo = cdb[2] & DPO;
	c->fua = cdb[2] & FUA;
	/* The medium has no protection information. */
	if (cdb[2] & PROTECT || c->ranges > l->ranges || length > l->blocks)
		return SCATTER_CDB_FIELD;
	if (!c->ranges || !length) {
		c->ranges = 0;
		return SCATTER_GOOD;
	}
	if (scatter_list_bytes(c) > (u64)c->offset * block_size)
		return SCATTER_CDB_FIELD;
	if (buffer == length * block_size) {
		/* The list may be all of it, or not be there as a whole. */
		if (length < c->offset)
			return SCATTER_LIST_LENGTH;
		c->blocks = length - c->offset;
		return SCATTER_GOOD;
	}
	/* Nothing else limits how much of the buffer isn't data. */
	if (buffer != (length + c->offset) * block_size || c->offset > l->blocks)
		return SCATTER_BUFFER;
	c->blocks = length;
	return SCATTER_GOOD;
}

enum scatter_sense scatter_parse_list(const u8 *list, const struct scatter_command *c,
				      const struct scatter_limits *l, u64 capacity,
				      struct scatter_range *ranges, u32 *n)
{
	u64 sum = 0;
	u32 i;

	*n = 0;
	for (i = 1; i <= c->ranges; i++) {
		const u8 *d = list + i * SCATTER_DESCRIPTOR;
		struct scatter_range r = { .lba = get(d, 8), .blocks = get(d + 8, 4) };

		if (r.blocks > l->blocks)
			return SCATTER_LIST_FIELD;
		if (r.lba > capacity || r.blocks > capacity - r.lba)
			return SCATTER_OUT_OF_RANGE;
		sum += r.blocks;
		if (sum > c->blocks)
			return SCATTER_LIST_LENGTH;
		if (r.blocks)
			ranges[(*n)++] = r;
	}
	return sum == c->blocks ? SCATTER_GOOD : SCATTER_LIST_LENGTH;
}

static u32 no_timeouts(u8 *buf)
{
	memset(buf, 0, SCATTER_TIMEOUTS);	/* none is known */
	put(buf, 2, SCATTER_TIMEOUTS - 2);
	return SCATTER_TIMEOUTS;
}

#define CTDP	0x80	/* a timeouts descriptor is there */
#define SUPPORT	0x03	/* as the standard says */

u32 scatter_rsoc(u8 *buf, bool fua, bool timeouts)
{
	u8 *usage = buf + 4;
	u32 n = 4 + SCATTER_CDB_BYTES;

	memset(buf, 0, n);
	buf[1] = (timeouts ? CTDP : 0) | SUPPORT;
	put(buf + 2, 2, SCATTER_CDB_BYTES);
	usage[0] = SCATTER_OPCODE;
	usage[1] = SCATTER_ACTION;
	usage[2] = PROTECT | (fua ? DPO | FUA : 0);
	put(usage + 4, 2, 0xffff);
	put(usage + 8, 2, 0xffff);
	put(usage + SCATTER_BTL_FIELD, 4, 0xffffffff);
	return timeouts ? n + no_timeouts(buf + n) : n;
}

u32 scatter_rsoc_entry(u8 *buf, bool timeouts)
{
	memset(buf, 0, 8);
	buf[0] = SCATTER_OPCODE;
	put(buf + 2, 2, SCATTER_ACTION);
	buf[5] = (timeouts ? 2 : 0) | 1;	/* CTDP, SERVACTV */
	put(buf + 6, 2, SCATTER_CDB_BYTES);
	return timeouts ? 8 + no_timeouts(buf + 8) : 8;
}

u32 scatter_vpd(u8 *buf, const struct scatter_limits *l)
{
	memset(buf, 0, SCATTER_VPD_BYTES);
	buf[1] = SCATTER_VPD_PAGE;
	put(buf + 2, 2, SCATTER_VPD_BYTES - 4);
	put(buf + 16, 4, l->blocks);	/* of a range */
	put(buf + 22, 2, l->ranges);
	put(buf + 24, 4, l->blocks);
	return SCATTER_VPD_BYTES;
}
