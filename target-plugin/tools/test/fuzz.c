// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parsers of on-disk data and the plan on any bytes: nothing is read or written
 * outside, and it ends. Built with -fsanitize=fuzzer it is a libFuzzer target; without, it
 * has a mutator of its own, for compilers that have none:
 *
 *   fuzz RUNS SEED FILE...    FILE: an input, see below
 *
 * An input is a log and an NVRAM in short: what isn't zero of them, as pieces
 * {u8 where, u8 length / 16, bytes}, see place(). Checksums are set right when the pieces are
 * in place, unless the input's first byte says no; else nothing would get past them.
 */
#include <stdlib.h>

#include "walk.h"

#define SEGMENT	DCD_SEGMENT_MIN
#define SLOTS	4U
#define LOG	(DCD_RING_START + DCD_SEGMENTS_MIN * SEGMENT)
#define NVRAM	(DCD_BLOCK + SLOTS * SEGMENT)
#define DATA	(64U << 10)

/*
 * 0, 1: superblock; 2, 3: header; 16 to 31: a segment's header; 32 to 47: its table; 48 to 63:
 * its payload; 64 to 67: a slot's table; 80 to 83:
 * its payload; else: nowhere.
 */
static u8 log_image[LOG], nvram_image[NVRAM], data_image[DATA];
static u64 accepted;

static u8 *place(u8 where)
{
	u8 *segment = log_image + DCD_RING_START + (size_t)(where % 16) * SEGMENT;
	u8 *slot = nvram_image + DCD_BLOCK + (size_t)(where % 16 % SLOTS) * SEGMENT;

	switch (where / 16) {
	case 0:
		return where < 2 ? log_image + where * DCD_BLOCK :
		       where < 4 ? nvram_image + (where - 2) * DCD_NVRAM_COPY : NULL;
	case 1:
		return segment;
	case 2:
		return segment + DCD_BLOCK;
	case 3:
		return segment + 2 * DCD_BLOCK;
	case 4:
		return slot + DCD_BLOCK;
	case 5:
		return slot + 2 * DCD_BLOCK;
	default:
		return NULL;
	}
}

static void seal(u8 *p, size_t bytes, size_t at)
{
	u32 crc;

	memset(p + at, 0, sizeof(crc));
	crc = htole32(dcd_crc(p, bytes));
	memcpy(p + at, &crc, sizeof(crc));
}

static void seal_table(u8 *seg)
{
	for (u32 i = 0; i < 4; i++) {
		struct dcd_entry *n = (struct dcd_entry *)(seg + DCD_BLOCK) + i;
		u64 offset = (u64)le32toh(n->offset) * 512, stored = (u64)le32toh(n->stored) * 512;

		if (!n->sectors)
			return;
		if (offset <= SEGMENT && stored <= SEGMENT - offset)
			n->payload_crc = htole32(dcd_crc(seg + offset, stored));
		seal((u8 *)n, sizeof(*n), offsetof(struct dcd_entry, crc));
	}
}

static void seal_all(void)
{
	for (u32 i = 0; i < 2; i++) {
		seal(log_image + i * DCD_BLOCK, sizeof(struct dcd_super),
		     offsetof(struct dcd_super, crc));
		seal(nvram_image + i * DCD_NVRAM_COPY, sizeof(struct dcd_nvram_header),
		     offsetof(struct dcd_nvram_header, crc));
	}
	for (u32 i = 0; i < SLOTS; i++)
		seal_table(nvram_image + DCD_BLOCK + (size_t)i * SEGMENT);
	for (u32 i = 0; i < DCD_SEGMENTS_MIN; i++) {
		u8 *seg = log_image + DCD_RING_START + (size_t)i * SEGMENT;
		struct dcd_segment *h = (struct dcd_segment *)seg;
		u32 used = le32toh(h->used_bytes);

		if (!h->magic)
			continue;
		seal_table(seg);
		if (used > DCD_BLOCK && used <= SEGMENT)
			h->body_crc = htole32(dcd_crc(seg + DCD_BLOCK, used - DCD_BLOCK));
		seal(seg, sizeof(*h), offsetof(struct dcd_segment, crc));
	}
}

int LLVMFuzzerTestOneInput(const u8 *in, size_t size);
int LLVMFuzzerTestOneInput(const u8 *in, size_t size)
{
	struct images m = { .log = log_image, .log_bytes = LOG, .nvram = nvram_image,
			    .nvram_bytes = NVRAM, .data = data_image, .data_bytes = DATA };
	u8 *touched[64];
	size_t lengths[64], at = 1;
	u32 n = 0;

	if (!size)
		return 0;
	while (at + 2 <= size && n < 64) {
		u8 *to = place(in[at]);
		size_t length = min_t(size_t, in[at + 1] * 16u, size - at - 2);

		if (to)
			memcpy(to, in + at + 2, length);
		touched[n] = to;
		lengths[n++] = length;
		at += 2 + length;
	}
	if (!(in[0] & 1))
		seal_all();
	if (in[0] & 2)
		m.nvram = NULL;
	accepted += !strcmp(walk(&m), "ok");
	/* As it was: zeroes; sealing wrote a little behind the pieces. */
	while (n--)
		if (touched[n])
			memset(touched[n], 0, lengths[n] + sizeof(struct dcd_segment));
	memset(log_image, 0, sizeof(struct dcd_super));
	memset(log_image + DCD_BLOCK, 0, sizeof(struct dcd_super));
	memset(nvram_image, 0, DCD_BLOCK);
	return 0;
}

#ifndef LIBFUZZER
static u64 state;

static u32 any(u32 below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(state >> 33) % below;
}

static void mutate(u8 *in, size_t size)
{
	static const u32 odd[] = { 0, 1, 2, 0x7f, 0x80, 0xff, 0xffff, 0x10000, 0x7fffffff,
				   0x80000000, 0xffffffff };

	for (u32 n = 1 + any(4); n--;) {
		size_t at = any((u32)size);
		u32 v = odd[any(sizeof(odd) / sizeof(*odd))];

		if (any(2))
			in[at] ^= 1 << any(8);
		else if (size - at >= 4)
			memcpy(in + at, &v, 4);
	}
}

int main(int argc, char **argv)
{
	static u8 inputs[32][16384], in[16384];
	size_t sizes[32];
	u64 runs;
	int n;

	if (argc < 4)
		return 2;
	runs = strtoull(argv[1], NULL, 0);
	state = strtoull(argv[2], NULL, 0);
	for (n = 0; n < 32 && n < argc - 3; n++) {
		FILE *f = fopen(argv[n + 3], "rb");

		if (!f)
			abort();
		sizes[n] = fread(inputs[n], 1, sizeof(inputs[n]), f);
		fclose(f);
		LLVMFuzzerTestOneInput(inputs[n], sizes[n]);
	}
	for (u64 i = 0; i < runs; i++) {
		u32 which = any((u32)n);

		memcpy(in, inputs[which], sizes[which]);
		mutate(in, sizes[which]);
		LLVMFuzzerTestOneInput(in, sizes[which]);
	}
	printf("%llu runs, %llu accepted\n", (unsigned long long)runs,
	       (unsigned long long)accepted);
	return 0;
}
#endif
