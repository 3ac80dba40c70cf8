// SPDX-License-Identifier: GPL-2.0-only
/* See oracle.h for the rule. */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct oracle {
	uint64_t sectors;
	uint64_t clock;			/* number of the last event */
	struct oracle_op *ops;
	uint32_t nr;
	uint32_t room;
	/*
	 * Index by sector, built on demand: the ops that cover sector s are
	 * cover[first[s]] .. cover[first[s + 1] - 1], in order of issue.
	 * kept[i]: the event by which op i was promised on a volatile device.
	 */
	uint64_t *first;
	uint32_t *cover;
	uint64_t *kept;
};

static void *need(void *p)
{
	if (!p) {
		fputs("oracle: out of memory\n", stderr);
		abort();
	}
	return p;
}

static void drop_index(struct oracle *o)
{
	free(o->first);
	free(o->cover);
	free(o->kept);
	o->first = NULL;
	o->cover = NULL;
	o->kept = NULL;
}

struct oracle *oracle_new(uint64_t sectors)
{
	struct oracle *o = need(calloc(1, sizeof(*o)));

	o->sectors = sectors;
	return o;
}

void oracle_free(struct oracle *o)
{
	if (!o)
		return;
	drop_index(o);
	free(o->ops);
	free(o);
}

static bool range_ok(const struct oracle *o, uint8_t kind, uint64_t sector, uint32_t count)
{
	if (kind == ORACLE_FLUSH)
		return true;
	return count && sector < o->sectors && count <= o->sectors - sector;
}

uint32_t oracle_issue(struct oracle *o, enum oracle_kind kind, uint64_t sector,
		      uint32_t count, bool fua)
{
	struct oracle_op *op;

	if (!range_ok(o, kind, sector, count))
		return 0;
	drop_index(o);
	if (o->nr == o->room) {
		o->room = o->room ? o->room * 2 : 256;
		o->ops = need(realloc(o->ops, o->room * sizeof(*o->ops)));
	}
	op = &o->ops[o->nr++];
	memset(op, 0, sizeof(*op));
	op->kind = kind;
	op->sector = kind == ORACLE_FLUSH ? 0 : sector;
	op->count = kind == ORACLE_FLUSH ? 0 : count;
	op->fua = fua;
	op->issued = ++o->clock;
	return o->nr;
}

static struct oracle_op *unanswered(struct oracle *o, uint32_t id)
{
	struct oracle_op *op;

	if (!id || id > o->nr)
		return NULL;
	op = &o->ops[id - 1];
	return op->acked || op->failed ? NULL : op;
}

bool oracle_ack(struct oracle *o, uint32_t id)
{
	struct oracle_op *op = unanswered(o, id);

	if (!op)
		return false;
	drop_index(o);
	op->acked = ++o->clock;
	return true;
}

bool oracle_fail(struct oracle *o, uint32_t id)
{
	struct oracle_op *op = unanswered(o, id);

	if (!op)
		return false;
	op->failed = 1;
	return true;
}

const struct oracle_op *oracle_ops(const struct oracle *o, uint32_t *n)
{
	*n = o->nr;
	return o->ops;
}

struct oracle *oracle_load(uint64_t sectors, const struct oracle_op *ops, uint32_t n)
{
	struct oracle *o = oracle_new(sectors);
	uint64_t last = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct oracle_op *op = &ops[i];

		if (op->kind > ORACLE_FLUSH || !range_ok(o, op->kind, op->sector, op->count) ||
		    op->issued <= last || (op->acked && op->acked <= op->issued) ||
		    (op->failed && op->acked)) {
			oracle_free(o);
			return NULL;
		}
		last = op->issued;
		if (op->acked > o->clock)
			o->clock = op->acked;
		if (op->issued > o->clock)
			o->clock = op->issued;
	}
	o->ops = need(malloc((n ? n : 1) * sizeof(*ops)));
	if (n)
		memcpy(o->ops, ops, n * sizeof(*ops));
	o->nr = n;
	o->room = n ? n : 1;
	return o;
}

/*
 * kept[i]: the earliest event at which op i was promised on a volatile device,
 * 0 if it never was. Flushes are walked from the last issued to the first, so
 * that the earliest acknowledgement among those issued after an op's own
 * acknowledgement is a running minimum.
 */
static void index_promises(struct oracle *o)
{
	uint64_t *best = need(calloc(o->clock + 2, sizeof(*best)));
	uint64_t e, run = 0;
	uint32_t i;

	for (i = 0; i < o->nr; i++)
		if (o->ops[i].kind == ORACLE_FLUSH && o->ops[i].acked)
			best[o->ops[i].issued] = o->ops[i].acked;
	/* best[e] becomes: earliest acknowledgement of a flush issued at or after e */
	for (e = o->clock + 1; e-- > 0;) {
		if (best[e] && (!run || best[e] < run))
			run = best[e];
		best[e] = run;
	}
	for (i = 0; i < o->nr; i++) {
		const struct oracle_op *op = &o->ops[i];

		if (!op->acked || op->kind == ORACLE_FLUSH || op->kind == ORACLE_DISCARD)
			continue;
		o->kept[i] = op->fua ? op->acked : best[op->acked];
	}
	free(best);
}

static void build_index(struct oracle *o)
{
	uint64_t s, sum = 0;
	uint64_t *fill;
	uint32_t i;

	o->first = need(calloc(o->sectors + 1, sizeof(*o->first)));
	for (i = 0; i < o->nr; i++)
		for (s = 0; s < o->ops[i].count; s++)
			o->first[o->ops[i].sector + s]++;
	for (s = 0; s <= o->sectors; s++) {
		uint64_t n = o->first[s];

		o->first[s] = sum;
		sum += n;
	}
	o->cover = need(malloc((sum ? sum : 1) * sizeof(*o->cover)));
	fill = need(malloc((o->sectors + 1) * sizeof(*fill)));
	memcpy(fill, o->first, (o->sectors + 1) * sizeof(*fill));
	for (i = 0; i < o->nr; i++)
		for (s = 0; s < o->ops[i].count; s++)
			o->cover[fill[o->ops[i].sector + s]++] = i;
	free(fill);
	o->kept = need(calloc(o->nr ? o->nr : 1, sizeof(*o->kept)));
	index_promises(o);
}

static bool promised(const struct oracle *o, enum oracle_promise promise, uint32_t i)
{
	if (o->ops[i].kind == ORACLE_DISCARD)
		return false;
	return promise == ORACLE_STABLE ? o->ops[i].acked != 0 : o->kept[i] != 0;
}

/* A promised op on @sector that comes after event @acked (0: after nothing); 0 if none. */
static uint32_t overruled_by(const struct oracle *o, enum oracle_promise promise,
			     uint64_t sector, uint64_t acked, bool baseline)
{
	uint64_t c;

	for (c = o->first[sector]; c < o->first[sector + 1]; c++) {
		uint32_t i = o->cover[c];

		if (!promised(o, promise, i))
			continue;
		if (baseline || (acked && acked < o->ops[i].issued))
			return i + 1;
	}
	return 0;
}

static bool covers(const struct oracle *o, uint32_t id, uint64_t sector)
{
	const struct oracle_op *op;

	if (!id || id > o->nr)
		return false;
	op = &o->ops[id - 1];
	return op->kind == ORACLE_WRITE && sector >= op->sector &&
	       sector - op->sector < op->count;
}

enum oracle_verdict oracle_judge(struct oracle *o, enum oracle_promise promise,
				 uint64_t sector, const struct oracle_seen *seen,
				 uint32_t *culprit)
{
	uint32_t dummy, by;
	uint64_t c;
	bool older = false;

	if (!culprit)
		culprit = &dummy;
	*culprit = 0;
	if (!o->first)
		build_index(o);

	/* Any explanation that holds is enough. */
	if (seen->baseline) {
		by = overruled_by(o, promise, sector, 0, true);
		if (!by)
			return ORACLE_OK;
		*culprit = by;
	}
	if (seen->zero) {
		for (c = o->first[sector]; c < o->first[sector + 1]; c++) {
			const struct oracle_op *op = &o->ops[o->cover[c]];

			if (op->kind != ORACLE_ZERO && op->kind != ORACLE_DISCARD)
				continue;
			by = overruled_by(o, promise, sector, op->acked, false);
			if (!by) {
				*culprit = 0;
				return ORACLE_OK;
			}
			older = true;
			*culprit = by;
		}
		if (older)
			return ORACLE_STALE;
	}
	if (seen->described && !seen->foreign_run) {
		if (seen->at != sector)
			return ORACLE_MISPLACED;
		if (!covers(o, seen->op, sector))
			return ORACLE_PHANTOM;
		by = overruled_by(o, promise, sector, o->ops[seen->op - 1].acked, false);
		*culprit = by;
		return by ? ORACLE_STALE : ORACLE_OK;
	}
	if (seen->baseline)
		return ORACLE_LOST;
	if (seen->described)
		return ORACLE_FOREIGN;
	/*
	 * Zeroes that nobody wrote: the place was never filled, or was wiped.
	 * With a promised write on it that is a loss, else something invented.
	 */
	if (seen->zero) {
		by = overruled_by(o, promise, sector, 0, true);
		*culprit = by;
		return by ? ORACLE_LOST : ORACLE_FOREIGN;
	}
	return ORACLE_MIXED;
}

const char *oracle_verdict_name(enum oracle_verdict v)
{
	static const char *const names[] = {
		[ORACLE_OK] = "ok",
		[ORACLE_LOST] = "lost",
		[ORACLE_STALE] = "stale",
		[ORACLE_MISPLACED] = "misplaced",
		[ORACLE_PHANTOM] = "phantom",
		[ORACLE_FOREIGN] = "foreign",
		[ORACLE_MIXED] = "mixed",
	};

	return v < ORACLE_VERDICTS ? names[v] : "?";
}
