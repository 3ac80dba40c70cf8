// SPDX-License-Identifier: GPL-2.0-only
/*
 * The load: seeded writes with much overlap, several in flight, flushes, FUA,
 * zeroes and discards; at an instant the power cut, which the program itself
 * triggers after it has taken every answer that was there, so that what counts
 * as acknowledged was answered before the cut.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "sectors.h"
#include "state.h"
#include "torture.h"

#define MAX_DEPTH 64

struct slot {
	void *data;
	uint32_t op;		/* 0: free */
};

struct load {
	const struct load_options *opt;
	struct device dev;
	struct aio aio;
	struct state state;
	struct slot slots[MAX_DEPTH];
	uint64_t rng;
	uint64_t hot[2];	/* first sectors of the small and the middle window */
	int cut_fds[MAX_CUTS];
	uint64_t errors;
	uint32_t issued;
	bool no_discard;
	bool no_zero;
};

static uint64_t below(struct load *l, uint64_t n)
{
	return (random_next(&l->rng) >> 16) % n;
}

static int take_baseline(void *arg, uint64_t sector, const void *data)
{
	struct load *l = arg;

	l->state.baseline[sector] = sector_hash(data);
	return 0;
}

static uint32_t pick_size(struct load *l)
{
	switch (below(l, 8)) {
	case 0: case 1: case 2:
		return 8;
	case 3: case 4:
		return 1 + (uint32_t)below(l, 16);
	case 5: case 6:
		return 1 + (uint32_t)below(l, 128);
	default:
		return 128;
	}
}

/* Half of the writes hit 128 KiB, most of the rest 1 MiB, some anywhere. */
static uint64_t pick_place(struct load *l, uint32_t count)
{
	uint64_t all = l->dev.sectors, from = 0, window = all, at;
	uint64_t dice = below(l, 10);

	if (dice < 5) {
		from = l->hot[0];
		window = 256;
	} else if (dice < 9) {
		from = l->hot[1];
		window = 2048;
	}
	at = from + below(l, window);
	if (below(l, 2))
		at &= ~7ULL;
	return at > all - count ? all - count : at;
}

/* Zeroes and discards wait for their end, other requests go on meanwhile. */
static void range_op(struct load *l, enum oracle_kind kind)
{
	uint32_t count = pick_size(l), op;
	uint64_t at = pick_place(l, count);
	int r;

	op = oracle_issue(l->state.oracle, kind, at, count, false);
	r = kind == ORACLE_ZERO ? device_zero(&l->dev, at, count) :
				  device_discard(&l->dev, at, count);
	if (!r) {
		oracle_ack(l->state.oracle, op);
		return;
	}
	oracle_fail(l->state.oracle, op);
	if (r == -EOPNOTSUPP && kind == ORACLE_DISCARD)
		l->no_discard = true;
	else if (r == -EOPNOTSUPP)
		l->no_zero = true;
	else
		l->errors++;
}

static void issue(struct load *l, struct slot *slot, bool ranges)
{
	uint32_t count, i;
	uint64_t at, dice = below(l, 100);
	bool fua;
	int r;

	if (dice < 2 && ranges && !l->no_zero) {
		range_op(l, ORACLE_ZERO);
		return;
	}
	if (dice < 4 && ranges && !l->no_discard) {
		range_op(l, ORACLE_DISCARD);
		return;
	}
	if (dice < 10) {
		slot->op = oracle_issue(l->state.oracle, ORACLE_FLUSH, 0, 0, false);
		r = aio_flush(&l->aio, &l->dev, (uintptr_t)slot);
	} else {
		fua = dice < 20;
		count = pick_size(l);
		at = pick_place(l, count);
		slot->op = oracle_issue(l->state.oracle, ORACLE_WRITE, at, count, fua);
		for (i = 0; i < count; i++)
			sector_fill((char *)slot->data + i * SECTOR, l->state.run, slot->op, at + i);
		r = aio_write(&l->aio, &l->dev, slot->data, at, count, fua, (uintptr_t)slot);
	}
	if (r) {
		oracle_fail(l->state.oracle, slot->op);
		slot->op = 0;
		l->errors++;
	}
}

static void reap(struct load *l, int min, int64_t ns)
{
	struct io_event ev[MAX_DEPTH];
	int i, n = aio_reap(&l->aio, ev, min, MAX_DEPTH, ns);

	for (i = 0; i < n; i++) {
		struct slot *slot = (struct slot *)(uintptr_t)ev[i].data;
		uint32_t nr, op = slot->op;
		const struct oracle_op *ops = oracle_ops(l->state.oracle, &nr);
		int64_t want = (int64_t)ops[op - 1].count * SECTOR;

		slot->op = 0;
		if (ev[i].res == want) {
			oracle_ack(l->state.oracle, op);
		} else {
			oracle_fail(l->state.oracle, op);
			if (!l->errors++)
				printf("first error: op %u: %s\n", op,
				       ev[i].res < 0 ? strerror((int)-ev[i].res) : "short write");
		}
	}
}

static struct slot *free_slot(struct load *l)
{
	unsigned int i;

	for (i = 0; i < l->opt->depth; i++)
		if (!l->slots[i].op)
			return &l->slots[i];
	return NULL;
}

/*
 * Issues and reaps until @deadline, or until @ops have been issued in all and,
 * if there's a deadline, been answered.
 */
static void run_until(struct load *l, uint64_t deadline, uint64_t ops, bool ranges)
{
	for (;;) {
		struct slot *slot = free_slot(l);
		uint64_t now = now_ns();

		if (now >= deadline)
			return;
		if (slot && l->issued < ops) {
			/* A pause now and then: else a device without latency stops time. */
			if (!below(l, 4)) {
				uint64_t pause = below(l, l->opt->pause_us * 1000 + 1);

				sleep_ns(pause < deadline - now ? pause : deadline - now);
			}
			l->issued++;
			issue(l, slot, ranges);
			reap(l, 0, 0);
		} else if (deadline == UINT64_MAX && l->issued >= ops) {
			return;
		} else if (l->aio.in_flight) {
			reap(l, 1, deadline == UINT64_MAX ? -1 : (int64_t)(deadline - now));
		} else {
			return;
		}
	}
}

static int power_cut(struct load *l)
{
	unsigned int i;

	reap(l, 0, 0);
	for (i = 0; i < l->opt->nr_cuts; i++) {
		const char *text = l->opt->cuts[i].text;

		if (write(l->cut_fds[i], text, strlen(text)) < 0) {
			fprintf(stderr, "torture: writing \"%s\" to %s: %s\n", text,
				l->opt->cuts[i].path, strerror(errno));
			return -1;
		}
	}
	return 0;
}

static int report(struct load *l, const char *what, const char *path)
{
	const struct oracle_op *ops;
	uint32_t n, i, acked = 0;

	if (state_save(&l->state, path))
		return -1;
	ops = oracle_ops(l->state.oracle, &n);
	for (i = 0; i < n; i++)
		acked += ops[i].acked != 0;
	printf("%s: issued %u acknowledged %u in flight %u errors %" PRIu64 "\n", what, n, acked,
	       l->aio.in_flight, l->errors);
	fflush(stdout);
	return 0;
}

static int prepare(struct load *l)
{
	unsigned int i;

	if (device_open(&l->dev, l->opt->device, true))
		return -1;
	if (l->dev.sectors < 4096) {
		fprintf(stderr, "torture: %s has %" PRIu64 " sectors, at least 4096 are needed\n",
			l->dev.path, l->dev.sectors);
		return -1;
	}
	for (i = 0; i < l->opt->nr_cuts; i++) {
		l->cut_fds[i] = open(l->opt->cuts[i].path, O_WRONLY | O_CLOEXEC);
		if (l->cut_fds[i] < 0) {
			fprintf(stderr, "torture: %s: %s\n", l->opt->cuts[i].path, strerror(errno));
			return -1;
		}
	}
	for (i = 0; i < l->opt->depth; i++)
		if (posix_memalign(&l->slots[i].data, 4096, DEVICE_MAX_IO)) {
			fputs("torture: out of memory\n", stderr);
			return -1;
		}
	l->rng = l->opt->seed;
	l->state.run = l->opt->seed;
	l->state.sectors = l->dev.sectors;
	l->state.oracle = oracle_new(l->dev.sectors);
	l->state.baseline = calloc(l->dev.sectors, sizeof(*l->state.baseline));
	if (!l->state.baseline) {
		fputs("torture: out of memory\n", stderr);
		return -1;
	}
	if (device_scan(&l->dev, take_baseline, l) || aio_open(&l->aio, l->opt->depth))
		return -1;
	l->hot[0] = below(l, l->dev.sectors - 256);
	l->hot[1] = below(l, l->dev.sectors - 2048);
	return 0;
}

int torture_load(const struct load_options *opt)
{
	static struct load l;
	uint64_t start;
	unsigned int i;
	char end[4096];
	int r = 2;

	l.opt = opt;
	l.dev.fd = -1;
	if (prepare(&l))
		goto out;
	start = now_ns();
	run_until(&l, start + opt->cut_us * 1000, opt->ops, !opt->no_ranges);
	if (power_cut(&l) || report(&l, "cut", opt->state))
		goto out;
	if (opt->more)
		run_until(&l, UINT64_MAX, l.issued + opt->more, false);
	while (l.aio.in_flight)
		reap(&l, 1, -1);
	snprintf(end, sizeof(end), "%s.end", opt->state);
	if (report(&l, "end", end))
		goto out;
	r = opt->more && l.errors ? 1 : 0;
	aio_close(&l.aio);
out:
	for (i = 0; i < opt->nr_cuts; i++)
		if (l.cut_fds[i] > 0)
			close(l.cut_fds[i]);
	for (i = 0; i < opt->depth; i++)
		free(l.slots[i].data);
	device_close(&l.dev);
	state_free(&l.state);
	return r;
}
