// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is live goes to the data disk in the order of its entries; when that is durable,
 * NVRAM header and both copies of the superblock say so, each durable. Until then they say what they said, so
 * whoever comes after an interruption, this program or the module, does it all again.
 * Nothing is written before all is known to be there, and to the data disk nothing before the
 * log has what only that has (wounded.h).
 */
#include <inttypes.h>

#include "../../dm-target/tools/json.h"
#include "lost.h"
#include "progress.h"
#include "recover.h"
#include "salvage.h"
#include "set-text.h"
#include "wounded.h"

static int write_entry(struct set *s, const u8 *seg, const struct dcd_entry *n)
{
	u64 at = le64_to_cpu(n->sector) << SECTOR_SHIFT;
	u64 bytes = (u64)le32_to_cpu(n->sectors) << SECTOR_SHIFT;

	if (le16_to_cpu(n->type) == DCD_ENTRY_WRITE)
		return device_write(&s->data, seg + ((size_t)le32_to_cpu(n->offset) <<
						     SECTOR_SHIFT), bytes, at);
	return device_zero(&s->data, bytes, at);
}

static int write_group(struct set *s, const struct group *g, void *context)
{
	struct tally *done = context;

	set_tally(s, g, done);
	for (u32 i = 0; i < g->entries; i++) {
		const struct dcd_entry *n = dcd_entry_at(g->bytes, i);

		/* What is lost was written over later, or this wouldn't be done. */
		if (le64_to_cpu(n->sequence) <= s->plan.applied || set_is_lost(s, g, i))
			continue;
		if (write_entry(s, g->bytes, n)) {
			s->failed = true;
			return -1;
		}
		set_written(s, le64_to_cpu(n->sector), le32_to_cpu(n->sectors),
			    le16_to_cpu(n->type) != DCD_ENTRY_WRITE);
	}
	progress(done->entries);
	return 0;
}

static int mark(struct set *s)
{
	const struct dcd_geometry *g = &s->super.geometry;
	u8 block[DCD_BLOCK] = { 0 };

	if (dcd_plan_leftover(&s->plan) &&
	    (device_zero(&s->log, DCD_BLOCK + g->table_bytes,
			 dcd_place_of(g, s->plan.begun_at) << SECTOR_SHIFT) ||
	     device_flush(&s->log)))
		return -1;
	if (s->has_nvram && set_mend_ends(s))
		return -1;
	/* Both copies here, too: the next superblock is to be no newer than they are. */
	for (int i = 0; s->has_nvram && i < 2; i++)
		if (set_put_header(s, dcd_header_next(&s->header.header, s->plan.newest)))
			return -1;
	/* Both: with the other one, what is on the data disk would be older than that some day. */
	for (int i = 0; i < 2; i++) {
		unsigned int copy = dcd_super_next(&s->super.super, s->plan.next, s->plan.newest);

		memcpy(block, &s->super.super, sizeof(s->super.super));
		if (device_write(&s->log, block, sizeof(block), (u64)copy * DCD_BLOCK) ||
		    device_flush(&s->log))
			return -1;
	}
	return 0;
}

int set_recover(struct set *s, const struct options *o, struct tally *found)
{
	struct tally done = { 0 };
	int r;

	r = set_walk(s, set_tally, found, true);
	if (!r)
		r = wounded_ask(s);
	if (!r && s->n_lost)
		r = set_refuse_lost(s);
	if (!r)
		r = set_witnesses(s, o->force);
	if (r || o->dry_run)
		return r;
	s->failed = set_mend_moves(s);
	if (s->failed || wounded_to_log(s))
		return -1;
	progress_begin("entries written:", found->entries, o->progress);
	r = set_walk(s, write_group, &done, false);
	progress_end();
	if (!r && (done.entries != found->entries || done.sectors != found->sectors)) {
		fprintf(stderr, "dcd: %s or NVRAM read otherwise for the second time: %" PRIu64 " entries were found, %" PRIu64 " written; nothing is marked as recovered: copy them to good devices, then again\n",
			s->log.path, found->entries, done.entries);
		s->failed = true;
		r = -1;
	}
	if (!r && device_flush(&s->data))
		s->failed = true;
	if (r || s->failed)
		return -1;
	set_witness_anew(s);
	s->failed = mark(s);
	return s->failed ? -1 : 0;
}

static void say(const struct set *s, const struct options *o, const struct tally *t)
{
	const char *state = s->failed ? "failed" : *s->reason ? "refused" :
			    s->salvaged ? "salvaged" : o->dry_run ? "would_recover" : "recovered";

	if (*s->reason)
		fprintf(stderr, "dcd: %s\n", s->message);
	if (!o->json) {
		if (!*s->reason && !s->failed)
			printf("%s %" PRIu64 " entries, %" PRIu64 " sectors, of %" PRIu64
			       " segments and %" PRIu64 " NVRAM slots to %s\n",
			       o->dry_run ? "would write" : "wrote", t->entries, t->sectors,
			       t->segments, t->slots, s->data.path);
		lost_text(s);
		return;
	}
	json_open(NULL, '{');
	json_text("state", state);
	json_text("reason", *s->reason ? s->reason : NULL);
	json_text("message", *s->reason ? s->message : NULL);
	json_number("segments", t->segments);
	json_number("slots", t->slots);
	json_number("entries", t->entries);
	json_number("sectors", t->sectors);
	if (s->salvaged)
		lost_json(s);
	set_missing_json(s);
	json_close('}');
}

int command_recover(const struct options *o)
{
	struct tally found = { 0 };
	struct set s;
	int r = set_open(&s, o, !o->dry_run);

	if (!r && !set_part_lost(&s))
		r = set_recover(&s, o, &found);
	if (o->salvage && !s.failed && s.buf && s.plan.refusal != DCD_REFUSE_NEWER &&
	    (s.plan.want == DCD_REFUSED || set_part_lost(&s) || s.n_lost || s.n_closed)) {
		if (*s.reason)
			fprintf(stderr, "dcd: %s\n", s.message);
		s.reason = "";
		s.salvaged = true;
		r = set_salvage(&s, o->dry_run, o->force, &found);
	}
	say(&s, o, &found);
	r = r ? 1 : s.n_lost || set_part_lost(&s) || s.plan.missing ? LOSSES : 0;
	set_close(&s);
	return r;
}
