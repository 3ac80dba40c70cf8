// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exit codes, as fsck(8): 0: whole (what is live, if anything, is all there); 4: something
 * is damaged or doesn't belong together; 8: a device can't be read; 16: usage. Nothing is
 * ever corrected here, so 1 doesn't occur.
 */
#include <inttypes.h>

#include "../../dm-target/tools/json.h"
#include "lost.h"
#include "set-text.h"
#include "wounded.h"

enum { WHOLE = 0, DAMAGED = 4, FAILED = 8 };

/* A copy that is damaged while the other counts. */
static bool half(const struct set *s)
{
	return s->super.copies[!s->super.counts] != DCD_COPY_VALID || set_moves_differ(s) ||
	       (s->has_nvram && (s->header.copies[!s->header.counts] != DCD_COPY_VALID ||
				 s->header.end_bad));
}

static void say_text(const struct set *s, const char *state, const struct tally *t)
{
	set_text(s);
	if (*s->reason) {
		fprintf(stderr, "dcd: %s\n", s->message);
		return;
	}
	if (t->entries)
		printf("live: %" PRIu64 " entries, %" PRIu64 " sectors, in segments %" PRIu64
		       " to %" PRIu64 " (%" PRIu64 " of them still in NVRAM)\n",
		       t->entries, t->sectors, s->plan.tail, s->plan.next - 1, t->slots);
	else
		puts("live: nothing, the data disk has it all");
	lost_text(s);
	printf("%s\n", state);
}

static void say_json(const struct set *s, const char *state, const struct tally *t)
{
	json_open(NULL, '{');
	json_text("state", state);
	json_text("reason", *s->reason ? s->reason : NULL);
	json_text("message", *s->reason ? s->message : NULL);
	set_json(s);
	if (!*s->reason) {
		json_open("live", '{');
		json_number("tail", s->plan.tail);
		json_number("next", s->plan.next);
		json_number("newest_entry", s->plan.newest);
		json_number("entries", t->entries);
		json_number("sectors", t->sectors);
		json_number("slots", t->slots);
		json_close('}');
		set_missing_json(s);
		lost_json(s);
	}
	json_close('}');
}

int command_check(const struct options *o)
{
	struct tally t = { 0 };
	const char *state;
	struct set s;
	bool retired;
	int r = set_open_any(&s, o, false);

	if (!r)
		r = set_walk(&s, set_tally, &t, true);
	if (!r)
		r = wounded_ask(&s);
	if (!r)
		r = set_witnesses(&s, false);
	if (s.failed) {
		set_close(&s);
		return FAILED;
	}
	retired = set_retired(&s);
	state = r ? "refused" : retired ? "retired" : s.n_lost ? "lost" :
		s.nvram_unread ? "media_errors" : half(&s) ? "damaged_copy" :
		t.entries ? "live" : "clean";
	(o->json ? say_json : say_text)(&s, state, &t);
	r = r || half(&s) || s.n_lost || s.nvram_unread ? DAMAGED : WHOLE;
	set_close(&s);
	return r;
}
