// SPDX-License-Identifier: GPL-2.0-only
/*
 * flips LOG NVRAM|- DATA RIGHT EVERY: each EVERYth bit of log and NVRAM flipped, and each
 * (16 * EVERY)th length: what recovery makes of DATA is RIGHT, or it is refused. Prints how often
 * which; exit code 1 at the first that is otherwise.
 */
#include <stdlib.h>

#include "walk.h"

struct file {
	u8 *bytes;
	u64 size;
};

static struct file load(const char *path)
{
	struct file f = { 0 };
	FILE *in = fopen(path, "rb");

	if (!in || fseek(in, 0, SEEK_END))
		abort();
	f.size = (u64)ftell(in);
	f.bytes = malloc(f.size);
	rewind(in);
	if (!f.bytes || fread(f.bytes, 1, f.size, in) != f.size)
		abort();
	fclose(in);
	return f;
}

static struct file log, nvram, data, right;
static u8 *work;
static u64 good, refused;

static void try(struct images *m, const char *what, u64 place)
{
	const char *said;

	memcpy(work, data.bytes, data.size);
	m->data = work;
	said = walk(m);
	if (strcmp(said, "ok")) {
		refused++;
	} else if (!memcmp(work, right.bytes, right.size)) {
		good++;
	} else {
		printf("%s %llu: accepted, and the data are wrong\n", what,
		       (unsigned long long)place);
		exit(1);
	}
}

/* In a block of zeroes far behind anything: one bit in it stands for all. */
static bool dull(const struct file *f, u64 block)
{
	u64 from = block < 16 ? 0 : block - 16;

	for (u64 i = from * 512; i < f->size && i < (block + 1) * 512; i++)
		if (f->bytes[i])
			return false;
	return true;
}

static void flip_all(struct images *m, struct file *f, const char *what, u64 every)
{
	u64 bit = 0, known = U64_MAX;
	bool skip = false;

	while (bit < f->size * 8) {
		f->bytes[bit / 8] ^= 1 << bit % 8;
		try(m, what, bit);
		f->bytes[bit / 8] ^= 1 << bit % 8;
		if (bit / 4096 != known)
			skip = dull(f, bit / 4096);
		known = bit / 4096;
		bit = skip ? (known + 1) * 4096 : bit + every;
	}
}

int main(int argc, char **argv)
{
	struct images m = { 0 };
	u64 every;

	if (argc != 6)
		return 2;
	log = load(argv[1]);
	if (strcmp(argv[2], "-"))
		nvram = load(argv[2]);
	data = load(argv[3]);
	right = load(argv[4]);
	every = strtoull(argv[5], NULL, 0);
	work = malloc(data.size);
	if (!work || right.size != data.size || !every)
		abort();
	m = (struct images){ .log = log.bytes, .log_bytes = log.size, .nvram = nvram.bytes,
			     .nvram_bytes = nvram.size, .data_bytes = data.size };
	try(&m, "untouched", 0);
	if (!good) {
		puts("refused though nothing is wrong");
		return 1;
	}
	flip_all(&m, &log, "bit of the log", every);
	if (nvram.bytes)
		flip_all(&m, &nvram, "bit of the NVRAM", every);
	for (m.log_bytes = 0; m.log_bytes < log.size; m.log_bytes += 16 * every)
		try(&m, "length of the log", m.log_bytes);
	m.log_bytes = log.size;
	for (m.nvram_bytes = 0; m.nvram_bytes < nvram.size; m.nvram_bytes += 16 * every)
		try(&m, "length of the NVRAM", m.nvram_bytes);
	printf("right %llu refused %llu\n", (unsigned long long)good,
	       (unsigned long long)refused);
	return 0;
}
