// SPDX-License-Identifier: GPL-2.0-only
/*
 * replay RUNS SEED FILE...: a fuzz target on each FILE, then on RUNS inputs that are made of
 * them by chance. Prints how many there were, and how many of them were accepted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define LONGEST 4096U

struct input {
	size_t size;
	uint8_t bytes[LONGEST];
};

static uint64_t state;

/* splitmix64 */
static uint64_t any(uint64_t below)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (z ^ z >> 31) % below;
}

static void load(struct input *to, const char *path)
{
	FILE *f = fopen(path, "rb");

	if (!f) {
		perror(path);
		exit(2);
	}
	to->size = fread(to->bytes, 1, sizeof(to->bytes), f);
	fclose(f);
}

/* @n bytes of @with at @at of @in, instead of @less that are there. */
static void splice(struct input *in, size_t at, size_t less, const void *with, size_t n)
{
	if (in->size - less + n > LONGEST)
		return;
	memmove(in->bytes + at + n, in->bytes + at + less, in->size - at - less);
	memcpy(in->bytes + at, with, n);
	in->size += n - less;
}

static void mutate(struct input *in, const struct input *other)
{
	static const uint32_t odd[] = { 0, 1, 2, 0x7f, 0x80, 0xff, 0xffff, 0x10000, 0x7fffffff,
					0x80000000, 0xffffffff };
	size_t at = in->size ? any(in->size) : 0, left = in->size - at, from, n;
	uint32_t number = odd[any(sizeof(odd) / sizeof(*odd))];

	switch (any(5)) {
	case 0:
		if (left)
			in->bytes[at] ^= 1 << any(8);
		break;
	case 1:
		n = 1ULL << any(3);
		splice(in, at, n < left ? n : left, &number, n);
		break;
	case 2:
		splice(in, at, left ? any(left) % 16 : 0, "", 0);
		break;
	case 3:
		splice(in, at, 0, &number, 1 + any(4));
		break;
	default:
		from = other->size ? any(other->size) : 0;
		splice(in, at, 0, other->bytes + from, any(other->size - from + 1));
	}
}

int main(int argc, char **argv)
{
	struct input *inputs, in;
	unsigned long runs, i;
	int n = argc - 3;

	if (n < 1) {
		fputs("usage: replay RUNS SEED FILE...\n", stderr);
		return 2;
	}
	runs = strtoul(argv[1], NULL, 0);
	state = strtoull(argv[2], NULL, 0);
	inputs = calloc((size_t)n, sizeof(*inputs));
	if (!inputs)
		return 2;
	for (i = 0; i < (unsigned long)n; i++) {
		load(inputs + i, argv[3 + i]);
		LLVMFuzzerTestOneInput(inputs[i].bytes, inputs[i].size);
	}
	for (i = 0; i < runs; i++) {
		in = inputs[any((uint64_t)n)];
		for (uint64_t turns = 1 + any(4); turns--;)
			mutate(&in, inputs + any((uint64_t)n));
		LLVMFuzzerTestOneInput(in.bytes, in.size);
	}
	free(inputs);
	printf("%lu runs, %lu accepted\n", runs + (unsigned long)n, fuzz_accepted);
	return 0;
}
