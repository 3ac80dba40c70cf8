// SPDX-License-Identifier: GPL-2.0-only
/*
 * flips LOG NVRAM|- DATA RIGHT EVERY: each EVERYth bit of log and NVRAM flipped, and each
 * EVERYth length in bytes: what recovery makes of DATA is RIGHT, or it is refused. Prints how
 * often which, and how many bits it needn't try: those of sectors that recovery doesn't read
 * when nothing is wrong. What it does follows from what it reads, so they can't matter. Exit
 * code 1 at the first that is otherwise.
 */
#include <stdlib.h>

#include "walk.h"

struct file {
	u8 *bytes;
	u64 size;
	u8 *read;	/* of each sector: was it? */
};

static struct file load(const char *path)
{
	struct file f = { 0 };
	FILE *in = fopen(path, "rb");

	if (!in || fseek(in, 0, SEEK_END))
		abort();
	f.size = (u64)ftell(in);
	f.bytes = malloc(f.size);
	f.read = calloc(f.size / SECTOR_SIZE + 1, 1);
	rewind(in);
	if (!f.bytes || !f.read || fread(f.bytes, 1, f.size, in) != f.size)
		abort();
	fclose(in);
	return f;
}

static struct file log, nvram, data, right;
static u8 *work;
static u64 good, refused, unread;
static bool watching;

static const u8 *read_file(struct file *f, u64 offset, u64 bytes)
{
	for (u64 at = offset; watching && at < offset + bytes; at += SECTOR_SIZE)
		f->read[at / SECTOR_SIZE] = 1;
	return f->bytes + offset;
}

static const u8 *read_log(u64 offset, u64 bytes)
{
	return read_file(&log, offset, bytes);
}

static const u8 *read_nvram(u64 offset, u64 bytes)
{
	return read_file(&nvram, offset, bytes);
}

static void try(struct images *m, const char *what, u64 place)
{
	struct walked w;

	memcpy(work, data.bytes, data.size);
	if (strcmp(walk(m, &w), "ok")) {
		refused++;
	} else if (!memcmp(work, right.bytes, right.size)) {
		good++;
	} else {
		printf("%s %llu: accepted, and the data are wrong\n", what,
		       (unsigned long long)place);
		exit(1);
	}
}

static void flip_all(struct images *m, struct file *f, const char *what, u64 every)
{
	for (u64 bit = 0; bit < f->size * 8; bit += every) {
		if (!f->read[bit / 8 / SECTOR_SIZE]) {
			unread++;
			continue;
		}
		f->bytes[bit / 8] ^= 1 << bit % 8;
		try(m, what, bit);
		f->bytes[bit / 8] ^= 1 << bit % 8;
	}
}

static void cut_all(struct images *m, u64 *length, const char *what, u64 every)
{
	u64 whole = *length;

	for (*length = 0; *length < whole; *length += every)
		try(m, what, *length);
	*length = whole;
}

int main(int argc, char **argv)
{
	struct images m;
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
	m = (struct images){ .log = read_log, .log_bytes = log.size,
			     .nvram = nvram.bytes ? read_nvram : NULL, .nvram_bytes = nvram.size,
			     .data = work, .data_bytes = data.size };
	watching = true;
	try(&m, "untouched", 0);
	watching = false;
	if (!good) {
		puts("refused though nothing is wrong");
		return 1;
	}
	flip_all(&m, &log, "bit of the log", every);
	cut_all(&m, &m.log_bytes, "length of the log", every);
	if (m.nvram) {
		flip_all(&m, &nvram, "bit of the NVRAM", every);
		cut_all(&m, &m.nvram_bytes, "length of the NVRAM", every);
	}
	printf("right %llu refused %llu not read %llu\n", (unsigned long long)good,
	       (unsigned long long)refused, (unsigned long long)unread);
	return 0;
}
