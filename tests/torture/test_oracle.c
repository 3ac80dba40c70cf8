// SPDX-License-Identifier: GPL-2.0-only
/*
 * Unit tests of the oracle: first histories with known answers, good and bad,
 * then random histories against a device that is simulated by brute force:
 * every image a legal device can leave must pass, and every promised sector
 * that is taken away must be reported.
 */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned int checks, failures;

#define CHECK(cond) do {						\
	checks++;							\
	if (!(cond)) {							\
		failures++;						\
		fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
	}								\
} while (0)

static struct oracle_seen base(void)
{
	return (struct oracle_seen){ .baseline = true };
}

static struct oracle_seen zero(void)
{
	return (struct oracle_seen){ .zero = true };
}

static struct oracle_seen by(uint32_t op, uint64_t at)
{
	return (struct oracle_seen){ .described = true, .op = op, .at = at };
}

static enum oracle_verdict judge(struct oracle *o, enum oracle_promise p, uint64_t s,
				 struct oracle_seen seen)
{
	return oracle_judge(o, p, s, &seen, NULL);
}

static void acknowledged_write_is_promised_by_a_stable_device_only(void)
{
	struct oracle *o = oracle_new(16);
	uint32_t w = oracle_issue(o, ORACLE_WRITE, 2, 3, false), culprit = 0;
	struct oracle_seen b = base();

	CHECK(judge(o, ORACLE_STABLE, 2, base()) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 2, by(w, 2)) == ORACLE_OK);
	CHECK(oracle_ack(o, w));
	CHECK(oracle_judge(o, ORACLE_STABLE, 4, &b, &culprit) == ORACLE_LOST);
	CHECK(culprit == w);
	CHECK(judge(o, ORACLE_VOLATILE, 4, base()) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 5, base()) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 1, base()) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 4, by(w, 4)) == ORACLE_OK);
	oracle_free(o);
}

static void flush_promises_what_was_acknowledged_before_it_was_issued(void)
{
	struct oracle *o = oracle_new(16);
	uint32_t a = oracle_issue(o, ORACLE_WRITE, 0, 1, false);
	uint32_t b = oracle_issue(o, ORACLE_WRITE, 1, 1, false);
	uint32_t f;

	oracle_ack(o, a);
	f = oracle_issue(o, ORACLE_FLUSH, 0, 0, false);
	oracle_ack(o, b);
	CHECK(judge(o, ORACLE_VOLATILE, 0, base()) == ORACLE_OK);
	oracle_ack(o, f);
	CHECK(judge(o, ORACLE_VOLATILE, 0, base()) == ORACLE_LOST);
	CHECK(judge(o, ORACLE_VOLATILE, 1, base()) == ORACLE_OK);
	oracle_free(o);
}

static void fua_is_promised_alone(void)
{
	struct oracle *o = oracle_new(4);
	uint32_t a = oracle_issue(o, ORACLE_WRITE, 0, 1, false);
	uint32_t b = oracle_issue(o, ORACLE_WRITE, 1, 1, true);

	oracle_ack(o, a);
	oracle_ack(o, b);
	CHECK(judge(o, ORACLE_VOLATILE, 0, base()) == ORACLE_OK);
	CHECK(judge(o, ORACLE_VOLATILE, 1, base()) == ORACLE_LOST);
	oracle_free(o);
}

static void older_write_is_stale_only_when_the_newer_is_promised(void)
{
	struct oracle *o = oracle_new(4);
	uint32_t a = oracle_issue(o, ORACLE_WRITE, 0, 2, false), b;

	oracle_ack(o, a);
	b = oracle_issue(o, ORACLE_WRITE, 0, 1, false);
	CHECK(judge(o, ORACLE_STABLE, 0, by(a, 0)) == ORACLE_OK);
	oracle_ack(o, b);
	CHECK(judge(o, ORACLE_STABLE, 0, by(a, 0)) == ORACLE_STALE);
	CHECK(judge(o, ORACLE_VOLATILE, 0, by(a, 0)) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 1, by(a, 1)) == ORACLE_OK);
	oracle_free(o);
}

static void writes_in_flight_together_have_no_order(void)
{
	struct oracle *o = oracle_new(4);
	uint32_t a = oracle_issue(o, ORACLE_WRITE, 0, 1, false);
	uint32_t b = oracle_issue(o, ORACLE_WRITE, 0, 1, false);

	oracle_ack(o, b);
	CHECK(judge(o, ORACLE_STABLE, 0, by(a, 0)) == ORACLE_OK);
	oracle_ack(o, a);
	CHECK(judge(o, ORACLE_STABLE, 0, by(a, 0)) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 0, by(b, 0)) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 0, base()) == ORACLE_LOST);
	oracle_free(o);
}

static void unacknowledged_write_may_be_there_or_not(void)
{
	struct oracle *o = oracle_new(4);
	uint32_t a = oracle_issue(o, ORACLE_WRITE, 0, 1, false), b;

	oracle_ack(o, a);
	b = oracle_issue(o, ORACLE_WRITE, 0, 1, false);
	CHECK(oracle_fail(o, b));
	CHECK(!oracle_ack(o, b));
	CHECK(judge(o, ORACLE_STABLE, 0, by(a, 0)) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 0, by(b, 0)) == ORACLE_OK);
	oracle_free(o);
}

static void zeroes_are_a_write_and_discards_promise_nothing(void)
{
	struct oracle *o = oracle_new(4);
	uint32_t a = oracle_issue(o, ORACLE_WRITE, 0, 2, false), z, d;

	oracle_ack(o, a);
	CHECK(judge(o, ORACLE_STABLE, 0, zero()) == ORACLE_LOST);
	z = oracle_issue(o, ORACLE_ZERO, 0, 1, false);
	oracle_ack(o, z);
	CHECK(judge(o, ORACLE_STABLE, 0, zero()) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 0, by(a, 0)) == ORACLE_STALE);
	d = oracle_issue(o, ORACLE_DISCARD, 1, 1, false);
	oracle_ack(o, d);
	CHECK(judge(o, ORACLE_STABLE, 1, zero()) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 1, by(a, 1)) == ORACLE_OK);
	CHECK(judge(o, ORACLE_STABLE, 1, base()) == ORACLE_LOST);
	a = oracle_issue(o, ORACLE_WRITE, 0, 2, false);
	oracle_ack(o, a);
	CHECK(judge(o, ORACLE_STABLE, 0, zero()) == ORACLE_STALE);
	CHECK(judge(o, ORACLE_STABLE, 1, zero()) == ORACLE_STALE);
	CHECK(judge(o, ORACLE_STABLE, 2, zero()) == ORACLE_FOREIGN);
	oracle_free(o);
}

static void foreign_misplaced_and_mixed_sectors_are_told_apart(void)
{
	struct oracle *o = oracle_new(8);
	uint32_t a = oracle_issue(o, ORACLE_WRITE, 0, 2, false);
	struct oracle_seen other = { .described = true, .foreign_run = true };
	struct oracle_seen torn = { 0 };

	CHECK(judge(o, ORACLE_STABLE, 1, by(a, 0)) == ORACLE_MISPLACED);
	CHECK(judge(o, ORACLE_STABLE, 2, by(a, 2)) == ORACLE_PHANTOM);
	CHECK(judge(o, ORACLE_STABLE, 1, by(a + 1, 1)) == ORACLE_PHANTOM);
	CHECK(judge(o, ORACLE_STABLE, 1, by(0, 1)) == ORACLE_PHANTOM);
	CHECK(judge(o, ORACLE_STABLE, 1, other) == ORACLE_FOREIGN);
	CHECK(judge(o, ORACLE_STABLE, 1, torn) == ORACLE_MIXED);
	other.baseline = true;	/* left by an earlier run: fine while nothing is promised */
	CHECK(judge(o, ORACLE_STABLE, 1, other) == ORACLE_OK);
	oracle_ack(o, a);
	CHECK(judge(o, ORACLE_STABLE, 1, other) == ORACLE_LOST);
	oracle_free(o);
}

static void nonsense_is_refused(void)
{
	struct oracle *o = oracle_new(8);
	struct oracle_op bad = { .sector = 0, .count = 1, .issued = 2, .acked = 1 };
	uint32_t n;

	CHECK(oracle_issue(o, ORACLE_WRITE, 7, 2, false) == 0);
	CHECK(oracle_issue(o, ORACLE_WRITE, 8, 1, false) == 0);
	CHECK(oracle_issue(o, ORACLE_WRITE, 0, 0, false) == 0);
	CHECK(!oracle_ack(o, 1));
	CHECK(oracle_ops(o, &n) == NULL && n == 0);
	CHECK(oracle_load(8, &bad, 1) == NULL);
	bad.acked = 3;
	bad.count = 9;
	CHECK(oracle_load(8, &bad, 1) == NULL);
	bad.count = 8;
	oracle_free(o);
	o = oracle_load(8, &bad, 1);
	CHECK(o && judge(o, ORACLE_STABLE, 7, base()) == ORACLE_LOST);
	CHECK(oracle_issue(o, ORACLE_WRITE, 0, 1, false) == 2);
	oracle_free(o);
}

/* --- random histories against a brute-force device --- */

#define DEV 12
#define OPS 40

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)((rng >> 11) % n);
}

/*
 * The device: applied[] = ops in the order in which it served them (each at a
 * moment between issue and acknowledgement), safe[] = index up to which each
 * sector's history is on stable storage.
 */
struct model {
	uint32_t hist[DEV][OPS + 1];	/* 0 = baseline */
	uint32_t len[DEV], safe[DEV];
	bool acked[OPS + 1];
};

static void serve(struct model *m, const struct oracle_op *op, uint32_t id, bool stable)
{
	uint64_t s;

	for (s = op->sector; s < op->sector + op->count; s++) {
		m->hist[s][m->len[s]] = id;
		if (stable)
			m->safe[s] = m->len[s];
		m->len[s]++;
	}
}

static struct oracle_seen show(const struct oracle *o, uint32_t id, uint64_t s)
{
	uint32_t n;
	const struct oracle_op *ops = oracle_ops(o, &n);

	if (!id)
		return base();
	return ops[id - 1].kind == ORACLE_WRITE ? by(id, s) : zero();
}

static void random_history(uint64_t seed, enum oracle_promise promise)
{
	struct oracle *o = oracle_new(DEV);
	struct model m;
	uint32_t open[4], nopen = 0, total = 0, s, n;
	bool served[OPS + 1] = { false };
	const struct oracle_op *ops;

	rng = seed * 0x9e3779b97f4a7c15ULL + 1;
	memset(&m, 0, sizeof(m));
	for (s = 0; s < DEV; s++)
		m.len[s] = 1;
	while (total < OPS || nopen) {
		if (total < OPS && nopen < 4 && rnd(2)) {
			uint32_t at = rnd(DEV), id;
			enum oracle_kind k = rnd(8) ? ORACLE_WRITE : ORACLE_ZERO;

			if (rnd(8) == 0)
				k = ORACLE_FLUSH;
			id = oracle_issue(o, k, at, 1 + rnd(DEV - at), rnd(6) == 0);
			open[nopen++] = id;
			total++;
		} else if (nopen) {
			uint32_t i = rnd(nopen), id = open[i];
			const struct oracle_op *op;

			ops = oracle_ops(o, &n);
			op = &ops[id - 1];
			if (!served[id]) {
				served[id] = true;
				if (op->kind == ORACLE_FLUSH) {
					for (s = 0; s < DEV; s++)
						m.safe[s] = m.len[s] - 1;
				} else {
					serve(&m, op, id, promise == ORACLE_STABLE || op->fua);
				}
			} else {
				oracle_ack(o, id);
				open[i] = open[--nopen];
			}
		}
		if (rnd(60) == 0)
			break;	/* the cut */
	}
	for (s = 0; s < DEV; s++) {
		uint32_t i;
		struct oracle_seen b = base();

		for (i = m.safe[s]; i < m.len[s]; i++)
			CHECK(judge(o, promise, s, show(o, m.hist[s][i], s)) == ORACLE_OK);
		/*
		 * Not every loss can be seen (an unordered write looks the same), but
		 * a baseline behind a promised write always can: compare with the
		 * definition, written down a second time without any index.
		 */
		ops = oracle_ops(o, &n);
		bool must = false;
		uint32_t w, f;

		for (w = 0; w < n; w++) {
			if (ops[w].kind == ORACLE_FLUSH || !ops[w].acked ||
			    s < ops[w].sector || s >= ops[w].sector + ops[w].count)
				continue;
			if (promise == ORACLE_STABLE || ops[w].fua)
				must = true;
			for (f = 0; f < n; f++)
				if (ops[f].kind == ORACLE_FLUSH && ops[f].acked &&
				    ops[f].issued > ops[w].acked)
					must = true;
		}
		CHECK(judge(o, promise, s, b) == (must ? ORACLE_LOST : ORACLE_OK));
	}
	oracle_free(o);
}

int main(void)
{
	uint64_t seed;

	acknowledged_write_is_promised_by_a_stable_device_only();
	flush_promises_what_was_acknowledged_before_it_was_issued();
	fua_is_promised_alone();
	older_write_is_stale_only_when_the_newer_is_promised();
	writes_in_flight_together_have_no_order();
	unacknowledged_write_may_be_there_or_not();
	zeroes_are_a_write_and_discards_promise_nothing();
	foreign_misplaced_and_mixed_sectors_are_told_apart();
	nonsense_is_refused();
	for (seed = 1; seed <= 3000; seed++) {
		random_history(seed, ORACLE_STABLE);
		random_history(seed, ORACLE_VOLATILE);
	}
	printf("oracle: %u checks, %u failures\n", checks, failures);
	return failures ? 1 : 0;
}
