// SPDX-License-Identifier: GPL-2.0-only
/*
 * scribble: writes whose buffer is rewritten while they are in flight, and what
 * the two legs of a mirror hold afterwards.
 *
 *   scribble DEV LEG LEG TRIES SEED
 *
 * A try is one O_DIRECT write to DEV. Until it is acknowledged its buffer is
 * rewritten every STEP_US; then its sectors are read from both LEGs (the disks
 * below) and compared. Three tries of four have 1 to 64 sectors, the others up
 * to 2048 (1 MiB); one of eight has FUA. SLOTS tries are in flight at a time,
 * each in a part of DEV of its own, so that each can be judged by itself.
 *
 * Waits between the rewrites, and never spins: it must run where only waiting
 * passes time (tests/sim).
 *
 * Prints one JSON object: for small and large writes the tries, those that were
 * rewritten in flight at least once, those whose legs differ, and those that
 * failed. Exit code: 0, also if legs differ: that is for the caller to judge;
 * 2 can't run.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "load.h"

#define SMALL		64u
#define LARGE		2048u
#define SLOTS		4u
#define STEP_US		100

enum size { IS_SMALL, IS_LARGE, SIZES };

struct slot {
	uint64_t *buf;
	uint64_t first, sectors;	/* the slot's part of the device */
	uint64_t start;
	uint32_t count;
	enum size size;
	bool busy, rewritten;
};

struct tally {
	uint64_t tries, in_flight, differ, failed;
};

static struct slot slots[SLOTS];
static struct tally tallies[SIZES];
static uint64_t turn, first_differing = UINT64_MAX;
static struct device dev, legs[2];
static void *copies[2];
static struct aio aio;

/* Every word changes with every turn, so that no two versions are alike anywhere. */
static void scribble(struct slot *s)
{
	uint64_t words = (uint64_t)s->count * SECTOR / 8;

	turn++;
	for (uint64_t i = 0; i < words; i++)
		s->buf[i] = turn << 32 | i;
}

static void submit(struct slot *s)
{
	int r;

	s->size = rnd(4) ? IS_SMALL : IS_LARGE;
	s->count = s->size == IS_SMALL ? 1 + (uint32_t)rnd(SMALL) :
					 SMALL + 1 + (uint32_t)rnd(LARGE - SMALL);
	s->start = s->first + rnd(s->sectors - s->count + 1);
	s->rewritten = false;
	s->busy = true;
	tallies[s->size].tries++;
	scribble(s);
	r = aio_write(&aio, &dev, s->buf, s->start, s->count, !rnd(8), (uintptr_t)s);
	if (r) {
		errno = -r;
		die("io_submit");
	}
}

static void judge(struct slot *s, int64_t result)
{
	struct tally *t = &tallies[s->size];
	size_t bytes = s->count * SECTOR;

	s->busy = false;
	t->in_flight += s->rewritten;
	if (result != (int64_t)bytes) {
		t->failed++;
		return;
	}
	for (int i = 0; i < 2; i++)
		if (pread(legs[i].fd, copies[i], bytes, (off_t)(s->start * SECTOR)) != (ssize_t)bytes)
			die("reading a leg");
	if (memcmp(copies[0], copies[1], bytes)) {
		t->differ++;
		if (first_differing == UINT64_MAX)
			first_differing = s->start;
	}
}

static bool reap(void)
{
	struct io_event events[SLOTS];
	int n = aio_reap(&aio, events, 1, SLOTS, STEP_US * 1000);

	for (int i = 0; i < n; i++)
		judge((struct slot *)(uintptr_t)events[i].data, events[i].res);
	return n > 0;
}

static void print(const char *name, const struct tally *t)
{
	printf("\"%s\": {\"tries\": %llu, \"in_flight\": %llu, \"differ\": %llu, \"failed\": %llu}, ",
	       name, (unsigned long long)t->tries, (unsigned long long)t->in_flight,
	       (unsigned long long)t->differ, (unsigned long long)t->failed);
}

static void set_up(char **argv)
{
	if (device_open(&dev, argv[1], true))
		exit(2);
	for (int i = 0; i < 2; i++) {
		if (device_open(&legs[i], argv[2 + i], false))
			exit(2);
		copies[i] = buffer(LARGE * SECTOR);
	}
	if (dev.sectors / SLOTS < LARGE) {
		errno = ENOSPC;
		die(argv[1]);
	}
	if (aio_open(&aio, SLOTS))
		exit(2);
	for (unsigned int i = 0; i < SLOTS; i++) {
		slots[i].sectors = dev.sectors / SLOTS;
		slots[i].first = i * slots[i].sectors;
		slots[i].buf = buffer(LARGE * SECTOR);
	}
}

int main(int argc, char **argv)
{
	uint64_t tries, begun = 0;
	unsigned int busy;

	if (argc != 6) {
		fputs("usage: scribble DEV LEG LEG TRIES SEED\n", stderr);
		return 2;
	}
	tries = strtoull(argv[4], NULL, 10);
	rnd_seed(argv[5]);
	set_up(argv);
	do {
		busy = 0;
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (!slots[i].busy && begun < tries) {
				submit(&slots[i]);
				begun++;
			}
			busy += slots[i].busy;
		}
		if (!busy || reap())
			continue;
		/* The step has passed, and whoever is busy now is in flight. */
		for (unsigned int i = 0; i < SLOTS; i++)
			if (slots[i].busy) {
				scribble(&slots[i]);
				slots[i].rewritten = true;
			}
	} while (busy);

	fputc('{', stdout);
	print("small", &tallies[IS_SMALL]);
	print("large", &tallies[IS_LARGE]);
	printf("\"first_differing_sector\": %lld}\n", (long long)first_differing);
	return 0;
}
