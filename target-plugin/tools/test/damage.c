// SPDX-License-Identifier: GPL-2.0-only
/*
 * damage LOG NVRAM|- OLDLOG OLDNVRAM|- DATA STATES CASES SEED: log and NVRAM after a power
 * cut, damaged at random in CASES ways, one after the other. What recovery makes of DATA is
 * the last of STATES (the data disk with each live entry, one behind the other), or it is
 * refused, or it is an earlier one of STATES: the end of what was acknowledged is gone and
 * nothing can tell, as it looks torn. OLD*: the same devices some time before.
 *
 * Prints how often which, and how many entries were lost at most by looking torn: by a damage at
 * one place (bits of one line, a line, a sector, a block, a slot or a segment that is garbage,
 * or as it was before, or what another place has), and by several, or two that changed places. Exit code 1 if a data disk is
 * none of STATES, or the plan says of itself that it is another than it is.
 */
#include <stdlib.h>

#include "walk.h"

#define SEGMENT DCD_SEGMENT_MIN

struct file {
	u8 *bytes, *before;	/* before: as it was some time ago */
	u64 size;
};

static struct file log, nvram, data, states;
static u8 *work;
static u64 seed;

static u64 random64(void)
{
	seed += 0x9e3779b97f4a7c15ULL;
	u64 z = seed;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static u64 below(u64 n)
{
	return random64() % n;
}

static u8 *load(const char *path, u64 *size)
{
	FILE *in = fopen(path, "rb");
	u8 *bytes;

	if (!in || fseek(in, 0, SEEK_END))
		abort();
	*size = (u64)ftell(in);
	bytes = malloc(*size);
	rewind(in);
	if (!bytes || fread(bytes, 1, *size, in) != *size)
		abort();
	fclose(in);
	return bytes;
}

static const u8 *read_log(u64 offset, u64 bytes)
{
	(void)bytes;
	return log.bytes + offset;
}

static const u8 *read_nvram(u64 offset, u64 bytes)
{
	(void)bytes;
	return nvram.bytes + offset;
}

/* --- damage, with what was there before it --- */

#define UNDOS 64

struct undo {
	u8 *at, *was;
	u64 bytes;
};

static struct undo undos[UNDOS];
static unsigned int nundos;

static void about_to_change(u8 *at, u64 bytes)
{
	struct undo *u = undos + nundos++;

	if (nundos > UNDOS)
		abort();
	u->at = at;
	u->bytes = bytes;
	u->was = malloc(bytes);
	if (!u->was)
		abort();
	memcpy(u->was, at, bytes);
}

static void undo_all(void)
{
	while (nundos) {
		struct undo *u = undos + --nundos;

		memcpy(u->at, u->was, u->bytes);
		free(u->was);
	}
}

/* A place where something is that recovery reads, most often; aligned to @bytes. */
static u64 some_place(const struct file *f, u64 bytes)
{
	u64 start = f == &log ? DCD_RING_START : DCD_BLOCK, at = 0;
	u64 parts = (f->size - start) / SEGMENT;

	switch (below(8)) {
	case 0:
		at = below(4 * DCD_BLOCK);	/* superblock, moved blocks, headers */
		break;
	case 1:
		at = below(f->size);
		break;
	case 2:
		at = start + below(parts) * SEGMENT + below(SEGMENT);
		break;
	case 3:		/* a segment's header; of a slot nothing */
		at = start + below(parts) * SEGMENT + below(SECTOR_SIZE);
		break;
	case 4:
	case 5:		/* the first entries of a table */
		at = start + below(parts) * SEGMENT + DCD_BLOCK + below(16 * 64);
		break;
	default:	/* the first payloads */
		at = start + below(parts) * SEGMENT + 2 * DCD_BLOCK + below(24 * SECTOR_SIZE);
	}
	at -= at % bytes;
	return at + bytes > f->size ? f->size - bytes : at;
}

static void fill(u8 *at, u64 bytes)
{
	u64 how = below(3);

	for (u64 i = 0; i < bytes; i++)
		at[i] = how == 0 ? 0 : how == 1 ? 0xff : (u8)random64();
}

/* Damage at one place of @bytes; if @several, maybe by two that have changed places. */
static void damage(struct file *f, u64 bytes, bool whole, bool several)
{
	u64 start = f == &log ? DCD_RING_START : DCD_BLOCK;
	u64 parts = (f->size - start) / SEGMENT;
	u64 a = whole ? start + below(parts) * SEGMENT : some_place(f, bytes);
	u64 b = whole ? start + below(parts) * SEGMENT : some_place(f, bytes);

	u64 how = below(5);

	if (how == 3 && !several)	/* that would be two places */
		how = 2;
	about_to_change(f->bytes + a, bytes);
	switch (how) {
	case 0:
		fill(f->bytes + a, bytes);
		break;
	case 1:
		memcpy(f->bytes + a, f->before + a, bytes);
		break;
	case 2:		/* a write that went to another place */
		memmove(f->bytes + a, f->bytes + b, bytes);
		break;
	case 3:		/* changed places; above each other is the same as the one before */
		about_to_change(f->bytes + b, bytes);
		memcpy(f->bytes + a, undos[nundos - 1].was, bytes);
		if (a + bytes <= b || b + bytes <= a)
			memcpy(f->bytes + b, undos[nundos - 2].was, bytes);
		break;
	default:	/* a few bits of a line in it */
		a += below(bytes / 64) * 64;
		for (u64 n = 1 + below(6); n; n--)
			f->bytes[a + below(64)] ^= 1 << below(8);
	}
}

static const u64 sizes[] = { 64, 64, 64, SECTOR_SIZE, SECTOR_SIZE, DCD_BLOCK, SEGMENT };

static void damage_some(bool several)
{
	u64 places = several ? 2 + below(5) : 1;

	while (places--) {
		u64 bytes = sizes[below(sizeof(sizes) / sizeof(sizes[0]))];

		damage(nvram.bytes && below(2) ? &nvram : &log, bytes, bytes == SEGMENT,
		       several);
	}
}

/* --- what recovery says --- */

struct tally {
	u64 right, refused, cut, lost;	/* lost: entries, at most */
};

/* How many of the last entries aren't there; exits if it is no state that ever was. */
static u64 lacks(const struct walked *w, u64 last, u64 number)
{
	u64 n = states.size / data.size, less;

	for (less = 0; less < n && memcmp(work, states.bytes + (n - 1 - less) * data.size,
					  data.size); less++)
		;
	if (less == n && !memcmp(work, data.bytes, data.size))
		return n;
	/* Entries may leave the disk as it was: then the plan knows. */
	if (less < n && w->plan.newest <= last - less)
		return last - w->plan.newest;
	printf("case %llu: accepted, and the data are wrong\n", (unsigned long long)number);
	exit(1);
}

static void try(const struct images *m, u64 last, struct tally *t, u64 number)
{
	struct walked w;
	u64 less;

	memcpy(work, data.bytes, data.size);
	if (strcmp(walk(m, &w), "ok")) {
		t->refused++;
		return;
	}
	less = lacks(&w, last, number);
	t->right += !less;
	t->cut += !!less;
	if (less > t->lost)
		t->lost = less;
}

static void say(const char *what, const struct tally *t)
{
	printf("%s: right %llu refused %llu torn %llu lost %llu\n", what,
	       (unsigned long long)t->right, (unsigned long long)t->refused,
	       (unsigned long long)t->cut, (unsigned long long)t->lost);
}

int main(int argc, char **argv)
{
	struct tally one = { 0 }, several = { 0 }, none = { 0 };
	struct images m;
	struct walked w;
	u64 cases, last, size;

	if (argc != 9)
		return 2;
	log.bytes = load(argv[1], &log.size);
	log.before = load(argv[3], &size);
	if (size != log.size)
		abort();
	if (strcmp(argv[2], "-")) {
		nvram.bytes = load(argv[2], &nvram.size);
		nvram.before = load(argv[4], &size);
		if (size != nvram.size)
			abort();
	}
	data.bytes = load(argv[5], &data.size);
	states.bytes = load(argv[6], &states.size);
	cases = strtoull(argv[7], NULL, 0);
	seed = strtoull(argv[8], NULL, 0);
	work = malloc(data.size);
	if (!work || states.size % data.size)
		abort();
	m = (struct images){ .log = read_log, .log_bytes = log.size,
			     .nvram = nvram.bytes ? read_nvram : NULL, .nvram_bytes = nvram.size,
			     .data = work, .data_bytes = data.size };
	if (strcmp(walk(&m, &w), "ok")) {
		puts("refused though nothing is wrong");
		return 1;
	}
	last = w.plan.newest;
	try(&m, last, &none, 0);
	if (!none.right)
		return 1;
	for (u64 i = 1; i <= cases; i++) {
		bool more = i % 4 == 0;

		damage_some(more);
		try(&m, last, more ? &several : &one, i);
		undo_all();
	}
	say("one place", &one);
	say("several", &several);
	return 0;
}
