// SPDX-License-Identifier: GPL-2.0-only
/* Reading back: is what a device holds legal, are two devices alike? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "sectors.h"
#include "state.h"
#include "torture.h"

#define NAMED 3		/* offenders named of each kind */

struct check {
	struct state state;
	enum oracle_promise promise;
	uint64_t found[ORACLE_VERDICTS];
};

static int judge(void *arg, uint64_t sector, const void *data)
{
	struct check *c = arg;
	struct oracle_seen seen = sector_look(data, c->state.run, c->state.baseline[sector]);
	uint32_t missing, n;
	enum oracle_verdict v = oracle_judge(c->state.oracle, c->promise, sector, &seen, &missing);
	const struct oracle_op *ops;
	char text[128];

	if (c->found[v]++ >= NAMED || v == ORACLE_OK)
		return 0;
	printf("%s: sector %" PRIu64 " holds %s", oracle_verdict_name(v), sector,
	       sector_to_text(data, text, sizeof(text)));
	if (missing) {
		ops = oracle_ops(c->state.oracle, &n);
		printf("; op %u (sectors %" PRIu64 "+%u, event %" PRIu64 " to %" PRIu64
		       "%s) is missing", missing, ops[missing - 1].sector, ops[missing - 1].count,
		       ops[missing - 1].issued, ops[missing - 1].acked,
		       ops[missing - 1].fua ? ", FUA" : "");
	}
	putchar('\n');
	return 0;
}

int torture_check(const char *device, const char *state, enum oracle_promise promise)
{
	struct check c = { .promise = promise };
	struct device d;
	uint64_t bad = 0;
	int v, r = 2;

	if (state_load(&c.state, state))
		return 2;
	if (device_open(&d, device, false))
		goto out;
	if (d.sectors != c.state.sectors) {
		fprintf(stderr, "torture: %s has %" PRIu64 " sectors, the state is of %" PRIu64 "\n",
			device, d.sectors, c.state.sectors);
		goto close;
	}
	if (device_scan(&d, judge, &c))
		goto close;
	printf("check %s:", device);
	for (v = 0; v < ORACLE_VERDICTS; v++) {
		if (v != ORACLE_OK)
			bad += c.found[v];
		if (c.found[v] || v == ORACLE_OK)
			printf(" %s %" PRIu64, oracle_verdict_name(v), c.found[v]);
	}
	putchar('\n');
	r = bad ? 1 : 0;
close:
	device_close(&d);
out:
	state_free(&c.state);
	return r;
}

struct compare {
	struct device other;
	char *data;
	uint64_t at, have;	/* sectors in data */
	uint64_t differ;
	const char *name;
};

#define COMPARE_SECTORS 2048

static int same(void *arg, uint64_t sector, const void *data)
{
	struct compare *c = arg;
	char one[128], two[128];
	const char *theirs;

	if (sector >= c->at + c->have) {
		uint64_t n = c->other.sectors - sector;

		n = n < COMPARE_SECTORS ? n : COMPARE_SECTORS;
		if (pread(c->other.fd, c->data, n * SECTOR, (off_t)(sector * SECTOR)) !=
		    (ssize_t)(n * SECTOR)) {
			fprintf(stderr, "torture: %s: can't read sector %" PRIu64 "\n",
				c->other.path, sector);
			return -1;
		}
		c->at = sector;
		c->have = n;
	}
	theirs = c->data + (sector - c->at) * SECTOR;
	if (!memcmp(data, theirs, SECTOR))
		return 0;
	if (c->differ++ < NAMED)
		printf("differ: sector %" PRIu64 ": %s holds %s; %s holds %s\n", sector, c->name,
		       sector_to_text(data, one, sizeof(one)), c->other.path,
		       sector_to_text(theirs, two, sizeof(two)));
	return 0;
}

int torture_compare(const char *a, const char *b)
{
	struct compare c = { .name = a };
	struct device first;
	int r = 2;

	if (device_open(&first, a, false))
		return 2;
	if (device_open(&c.other, b, false))
		goto close;
	if (first.sectors != c.other.sectors) {
		fprintf(stderr, "torture: %s has %" PRIu64 " sectors, %s has %" PRIu64 "\n", a,
			first.sectors, b, c.other.sectors);
		goto close_both;
	}
	if (posix_memalign((void **)&c.data, 4096, COMPARE_SECTORS * SECTOR)) {
		fputs("torture: out of memory\n", stderr);
		goto close_both;
	}
	if (device_scan(&first, same, &c))
		goto release;
	printf("compare %s %s: sectors %" PRIu64 " differ %" PRIu64 "\n", a, b, first.sectors,
	       c.differ);
	r = c.differ ? 1 : 0;
release:
	free(c.data);
close_both:
	device_close(&c.other);
close:
	device_close(&first);
	return r;
}
