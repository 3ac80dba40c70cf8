// SPDX-License-Identifier: GPL-2.0-only
/*
 * For the model of a mirror's life (life_model.py): the real verdict and the
 * real events on superblocks given as text. A line in, a line out.
 *
 *   verdict LOCAL REMOTE           -> WORD leg source alone full join crashed
 *   EVENT SUPER OTHER NUMBER       -> what it returned, and SUPER as it is then
 *
 * A leg of a verdict is "absent", "blank", "bad" or a SUPER:
 *   leg/state/active/cur/base/epoch/epochs/set/uuid/sectors/shift/adopted/seq/other_seq/alone_seq/gen.gen...
 * all numbers; a generation is its id. Every superblock passes through its
 * format on the disk.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "life.h"
#include "verdict.h"

#define DEVICE	100000ULL

static void die(const char *what, const char *text)
{
	fprintf(stderr, "life-driver: %s: \"%s\"\n", what, text);
	exit(1);
}

static struct generation generation(u64 id)
{
	return (struct generation){ id, id ? 1 : 0 };
}

static void parse(const char *text, struct super *s)
{
	u64 n[15];
	char *end;

	memset(s, 0, sizeof(*s));
	for (int i = 0; i < 15; i++) {
		n[i] = strtoull(text, &end, 10);
		if (end == text || *end != '/')
			die("not a superblock", text);
		text = end + 1;
	}
	s->leg = (u32)n[0];
	s->state = (u32)n[1];
	s->active = n[2];
	s->cur = generation(n[3]);
	s->base = generation(n[4]);
	s->map_epoch = n[5];
	s->map_epochs = n[6];
	memset(s->set_uuid, (int)n[7], sizeof(s->set_uuid));
	memset(s->leg_uuid, (int)n[8], sizeof(s->leg_uuid));
	s->data_sectors = n[9];
	s->region_shift = (u32)n[10];
	memset(s->adopted, (int)n[11], sizeof(s->adopted));
	s->map_start = 90000;
	s->map_sectors = lockstep_map_sectors((u32)lockstep_regions(DEVICE, s->region_shift));
	s->seq = n[12];
	s->other_seq = n[13];
	s->alone_seq = n[14];
	for (int i = 0; i < LOCKSTEP_HISTORY && *text; i++) {
		s->history[i].gen = generation(strtoull(text, &end, 10));
		text = *end ? end + 1 : end;
	}
}

static void print(const struct super *s)
{
	printf("%u/%u/%d/%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/%u/%u/%" PRIu64 "/%u/%u/%" PRIu64 "/%" PRIu64 "/%" PRIu64 "/",
	       s->leg, s->state, s->active, s->cur.id, s->base.id, s->map_epoch, s->map_epochs,
	       s->set_uuid[0], s->leg_uuid[0], s->data_sectors, s->region_shift,
	       s->adopted[0], s->seq, s->other_seq, s->alone_seq);
	for (int i = 0; i < LOCKSTEP_HISTORY && s->history[i].gen.id; i++)
		printf("%s%" PRIu64, i ? "." : "", s->history[i].gen.id);
}

static void find(const char *text, struct super_found *found)
{
	static u8 slots[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(8)));
	struct super s;

	memset(found, 0, sizeof(*found));
	memset(slots, 0, sizeof(slots));
	if (!strcmp(text, "absent"))
		return;
	if (!strcmp(text, "bad")) {
		memset(&s, 0, sizeof(s));
		super_pack(&s, DEVICE, slots);
	} else if (strcmp(text, "blank")) {
		parse(text, &s);
		super_pack(&s, DEVICE, slots);
		memcpy(slots + LOCKSTEP_SLOT_BYTES, slots, LOCKSTEP_SLOT_BYTES);
	}
	super_find(slots, DEVICE, found);
}

static void verdict(const char *local, const char *remote)
{
	struct super_found l, r;
	struct verdict v;
	char text[400];

	find(local, &l);
	find(remote, &r);
	verdict_decide(&l, &r, &v);
	if (verdict_text(&v, &l, &r, text, sizeof(text)) >= (int)sizeof(text) - 1)
		die("longer than promised", text);
	printf("%s %u %u %d %d %d %d\n", verdict_word(v.reason), v.leg, v.source, v.alone, v.full,
	       v.join, v.crashed);
}

static void event(const char *name, const char *text, const char *other, const char *number)
{
	u64 id = strtoull(number, NULL, 10);
	struct super s, more;
	int r = 0;

	parse(text, &s);
	parse(other, &more);
	if (!strcmp(name, "join")) {
		r = super_join(&s, &more);
	} else if (!strcmp(name, "create_sync")) {
		super_create_sync(&s, id, 1, 0);
	} else if (!strcmp(name, "create_new")) {
		super_create_new(&s, &more, 1, 0);
	} else if (!strcmp(name, "new_map")) {
		super_new_map(&s);
	} else if (!strcmp(name, "adopt")) {
		r = super_adopt(&s, &more, id, 0);
	} else if (!strcmp(name, "forget_base")) {
		super_forget_base(&s);
	} else if (!strcmp(name, "in_sync")) {
		r = super_in_sync(&s);
	} else if (!strcmp(name, "go_alone")) {
		r = super_go_alone(&s, id, 0, LOCKSTEP_WHY_FAILED);
	} else if (!strcmp(name, "know")) {
		super_know(&s, id);
	} else if (!strcmp(name, "give_up")) {
		super_give_up(&s, &more);
	} else {
		die("no such event", name);
	}
	printf("%d ", r);
	print(&s);
	putchar('\n');
}

int main(void)
{
	char line[1000], *word[4];

	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < 4; i++) {
			word[i] = strtok(i ? NULL : line, " \n");
			if (!word[i])
				word[i] = "";
		}
		if (!strcmp(word[0], "verdict"))
			verdict(word[1], word[2]);
		else
			event(word[0], word[1], word[2], word[3]);
		fflush(stdout);
	}
	return 0;
}
