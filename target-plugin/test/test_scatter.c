// SPDX-License-Identifier: GPL-2.0-only
/*
 * WRITE SCATTERED(16), right and wrong, as SBC-4 has it; then the parser on any bytes:
 *
 *   test_scatter [RUNS SEED]
 */
#include <stdlib.h>

#include "scatter.h"

#define BLOCK		512U
#define CAPACITY	1000U

static const struct scatter_limits limits = { .ranges = 40, .blocks = 300 };
static unsigned int failures;

struct one {
	u8 cdb[SCATTER_CDB_BYTES];
	u8 list[(64 + 1) * SCATTER_DESCRIPTOR];
	u64 buffer;
};

static void put(u8 *p, u32 bytes, u64 n)
{
	while (bytes--) {
		p[bytes] = n;
		n >>= 8;
	}
}

/* @blocks of each range from @lba on, each 10 behind the other; the data behind @offset. */
static struct one of(u32 ranges, u64 lba, u32 blocks, u32 offset)
{
	struct one o = { .cdb = { SCATTER_OPCODE, SCATTER_ACTION } };

	put(o.cdb + 4, 2, offset);
	put(o.cdb + 8, 2, ranges);
	put(o.cdb + 10, 4, offset + ranges * blocks);
	o.buffer = (u64)(offset + ranges * blocks) * BLOCK;
	for (u32 i = 0; i < ranges; i++) {
		put(o.list + (i + 1) * SCATTER_DESCRIPTOR, 8, lba + i * 10);
		put(o.list + (i + 1) * SCATTER_DESCRIPTOR + 8, 4, blocks);
	}
	return o;
}

/* In memory that is as large as what is there. */
static enum scatter_sense parse(const struct one *o, struct scatter_range *ranges, u32 *n)
{
	struct scatter_command c;
	enum scatter_sense s = scatter_parse_cdb(o->cdb, &limits, BLOCK, o->buffer, &c);
	u8 *list;

	*n = 0;
	if (s || !c.ranges)
		return s;
	if (c.ranges > limits.ranges || c.blocks > limits.blocks ||
	    scatter_list_bytes(&c) > c.offset * BLOCK ||
	    (u64)(c.offset + c.blocks) * BLOCK != o->buffer)
		abort();
	list = malloc(scatter_list_bytes(&c));
	memcpy(list, o->list, scatter_list_bytes(&c));
	s = scatter_parse_list(list, &c, &limits, CAPACITY, ranges, n);
	free(list);
	if (!s) {
		u64 sum = 0;

		for (u32 i = 0; i < *n; i++) {
			if (!ranges[i].blocks || ranges[i].lba + ranges[i].blocks > CAPACITY)
				abort();
			sum += ranges[i].blocks;
		}
		if (sum != c.blocks || *n > c.ranges)
			abort();
	}
	return s;
}

static void expect(const char *what, const struct one *o, enum scatter_sense want, u32 ranges)
{
	struct scatter_range r[64];
	enum scatter_sense s;
	u32 n;

	s = parse(o, r, &n);
	if (s == want && (s || n == ranges))
		return;
	fprintf(stderr, "%s: sense %d with %u ranges, expected %d with %u\n", what, s, n, want,
		ranges);
	failures++;
}

static void right(void)
{
	struct one o = of(3, 5, 7, 1);

	expect("three ranges", &o, SCATTER_GOOD, 3);
	put(o.cdb + 10, 4, 21);
	expect("the data's length, as sg3-utils has it", &o, SCATTER_GOOD, 3);
	o = of(40, 0, 1, 3);
	expect("as many as may be, with padding", &o, SCATTER_GOOD, 40);
	o = of(1, CAPACITY - 299, 299, 1);
	expect("as long as may be, up to the end", &o, SCATTER_GOOD, 1);
	o = of(2, 0, 20, 1);
	expect("overlapping", &o, SCATTER_GOOD, 2);
	o = of(3, 5, 7, 1);
	put(o.list + 2 * SCATTER_DESCRIPTOR + 8, 4, 0);
	put(o.list + 3 * SCATTER_DESCRIPTOR + 8, 4, 14);
	expect("one without blocks", &o, SCATTER_GOOD, 2);
	o = of(1, CAPACITY, 0, 1);
	expect("none, at the end", &o, SCATTER_GOOD, 0);
	o = of(0, 0, 0, 0);
	expect("no ranges", &o, SCATTER_GOOD, 0);
	o = of(3, 5, 7, 1);
	put(o.cdb + 10, 4, 0);
	expect("no length", &o, SCATTER_GOOD, 0);
	o = of(3, 5, 7, 1);
	o.cdb[2] = 0x19;	/* DPO, FUA, DLD2 */
	o.cdb[14] = 0xff;	/* DLD1, DLD0, group */
	expect("bits that change nothing here", &o, SCATTER_GOOD, 3);
}

static void wrong(void)
{
	struct one o = of(41, 0, 1, 3);

	expect("too many", &o, SCATTER_CDB_FIELD, 0);
	o = of(1, 0, 300, 1);
	expect("too long a buffer", &o, SCATTER_CDB_FIELD, 0);
	o = of(3, 5, 7, 0);
	expect("no room for descriptors", &o, SCATTER_CDB_FIELD, 0);
	o = of(16, 5, 7, 1);
	expect("room for the descriptors, not for the header", &o, SCATTER_CDB_FIELD, 0);
	o = of(3, 5, 7, 1);
	o.cdb[2] = 0x20;
	expect("protection", &o, SCATTER_CDB_FIELD, 0);

	o = of(3, 5, 7, 1);
	o.buffer -= BLOCK;
	expect("a block less arrives", &o, SCATTER_BUFFER, 0);
	o.buffer += 3 * BLOCK;
	expect("two more", &o, SCATTER_BUFFER, 0);
	o = of(3, 5, 7, 1);
	o.buffer++;
	expect("no whole blocks", &o, SCATTER_BUFFER, 0);
	o = of(1, 0, 1, 301);
	put(o.cdb + 10, 4, 1);
	expect("more padding than a buffer may have", &o, SCATTER_BUFFER, 0);

	o = of(3, 5, 7, 1);
	put(o.list + 2 * SCATTER_DESCRIPTOR + 8, 4, 301);
	expect("too long a range", &o, SCATTER_LIST_FIELD, 0);
	o = of(1, CAPACITY - 6, 7, 1);
	expect("past the end", &o, SCATTER_OUT_OF_RANGE, 0);
	o = of(1, CAPACITY + 1, 0, 1);
	expect("none, behind the end", &o, SCATTER_OUT_OF_RANGE, 0);
	o = of(1, UINT64_MAX - 2, 7, 1);
	expect("round the end of all numbers", &o, SCATTER_OUT_OF_RANGE, 0);

	o = of(3, 5, 7, 1);
	put(o.list + 3 * SCATTER_DESCRIPTOR + 8, 4, 8);
	expect("more than there are data", &o, SCATTER_LIST_LENGTH, 0);
	put(o.list + 3 * SCATTER_DESCRIPTOR + 8, 4, 6);
	expect("less", &o, SCATTER_LIST_LENGTH, 0);
	o = of(17, 5, 0, 2);
	put(o.cdb + 10, 4, 1);
	o.buffer = BLOCK;
	expect("the list is cut off", &o, SCATTER_LIST_LENGTH, 0);
}

static void says(void)
{
	u8 buf[SCATTER_VPD_BYTES];

	if (scatter_vpd(buf, &limits) != 64 || buf[1] != 0xb7 || buf[3] != 60 ||
	    buf[18] != 300 >> 8 || buf[19] != (u8)300 || buf[23] != 40 || buf[27] != (u8)300)
		failures++;
	if (scatter_rsoc(buf, true, false) != 20 || buf[1] != 3 || buf[3] != 16 ||
	    buf[4] != 0x9f || buf[5] != 0x12 || buf[6] != 0xf8)
		failures++;
	if (scatter_rsoc(buf, false, true) != 32 || buf[1] != 0x83 || buf[6] != 0xe0 || buf[21] != 10)
		failures++;
	if (scatter_rsoc_entry(buf, false) != 8 || buf[0] != 0x9f || buf[3] != 0x12 || buf[5] != 1)
		failures++;
}

static u64 state;

static u32 any(u32 below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

/* A right one with some bytes changed: it is good or not, nothing is read elsewhere. */
static u64 fuzz(u64 runs)
{
	static const u8 odd[] = { 0, 1, 2, 0x7f, 0x80, 0xff };
	struct scatter_range r[64];
	u64 good = 0;
	u32 n;

	while (runs--) {
		struct one o = of(any(44), any(CAPACITY + 20), any(9), any(5));

		for (u32 changes = any(5); changes; changes--) {
			u8 *at = any(2) ? o.cdb + 2 + any(14) : o.list + any(sizeof(o.list));

			*at = any(3) ? odd[any(sizeof(odd))] : any(256);
		}
		if (!any(4))
			o.buffer = (u64)any(400) * BLOCK;
		good += parse(&o, r, &n) == SCATTER_GOOD;
	}
	return good;
}

int main(int argc, char **argv)
{
	right();
	wrong();
	says();
	if (argc == 3) {
		state = strtoull(argv[2], NULL, 0) | 1;
		printf("%llu good\n", (unsigned long long)fuzz(strtoull(argv[1], NULL, 0)));
	}
	return failures ? 1 : 0;
}
