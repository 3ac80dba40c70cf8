// SPDX-License-Identifier: GPL-2.0-only
/*
 * The order makes it safe to cut this off anywhere: the data disk gets all writes; then
 * log and NVRAM are marked, so that nothing opens them; then only does the leg on the
 * data disk say that it may be used without them. Of a log that is lost it never does: it may lack
 * writes that the mirror counts on.
 */
#include <inttypes.h>

#include "../../dm-target/tools/json.h"
#include "lost.h"
#include "mark.h"
#include "recover.h"
#include "salvage.h"
#include "set-text.h"

/* All copies: if one were left, damage to the others would bring the log back to life. */
static int seal(struct set *s)
{
	for (int i = 0; i < 2 && !s->log_lost; i++) {
		u8 block[DCD_BLOCK] = { 0 };

		dcd_super_retire(&s->super.super);
		memcpy(block, &s->super.super, sizeof(s->super.super));
		if (device_write(&s->log, block, sizeof(block),
				 (le64_to_cpu(s->super.super.generation) & 1) * DCD_BLOCK) ||
		    device_flush(&s->log))
			return -1;
	}
	for (int i = 0; i < 2 && s->has_nvram; i++) {
		dcd_header_retire(&s->header.header);
		if (set_put_header(s, le64_to_cpu(s->header.header.generation) & 1))
			return -1;
	}
	return 0;
}

/* It was left by the module, and something was lost then: leave.h there. */
static bool lacks(const struct set *s)
{
	return (s->super.super.features.incompat | s->header.header.features.incompat) &
	       cpu_to_le32(DCD_INCOMPAT_LACKS);
}

static void say(const struct set *s, const struct options *o, const struct tally *t, bool marked)
{
	if (*s->reason)
		fprintf(stderr, "dcd: %s\n", s->message);
	if (o->json) {
		json_open(NULL, '{');
		json_text("state", *s->reason ? "refused" : s->failed ? "failed" : "retired");
		json_text("reason", *s->reason ? s->reason : NULL);
		json_text("message", *s->reason ? s->message : NULL);
		json_number("entries", t->entries);
		json_number("sectors", t->sectors);
		json_bool("leg", marked);
		set_missing_json(s);
		if (s->log_lost)
			lost_json(s);
		json_close('}');
	} else if (!*s->reason && !s->failed) {
		printf("wrote %" PRIu64 " entries, %" PRIu64 " sectors to %s; log %s%s%s: retired\n",
		       t->entries, t->sectors, o->data, o->log, s->has_nvram ? " and NVRAM " : "",
		       s->has_nvram ? o->nvram : "");
		if (s->log_lost) {
			lost_text(s);
			printf("%s: if that is a mirror's leg, it lacks what is lost: lockstep-meta wipe --force it, and lockstep replace fills it anew\n",
			       o->data);
			return;
		}
		printf(marked ? "%s: the mirror's leg, may be used without them\n" :
		       "%s: no mirror's leg that knows of this log is at its end\n", o->data);
	}
}

int command_retire(const struct options *o)
{
	struct tally found = { 0 };
	bool marked = false;
	struct set s;
	int r;

	r = set_open_any(&s, o, true);
	if (!r && s.log_lost) {
		r = s.header.reason == DCD_RETIRED ? 0 : set_salvage(&s, false, o->force, &found);
	} else if (!r) {
		r = set_recover(&s, o, &found);
	}
	if (!r && (seal(&s) || (!s.log_lost && !lacks(&s) &&
				mark_left(&s.data, &s.super.super, &marked)))) {
		s.failed = true;
		r = -1;
	}
	say(&s, o, &found, marked);
	r = r ? 1 : s.log_lost || s.plan.missing ? LOSSES : 0;
	set_close(&s);
	return r;
}
