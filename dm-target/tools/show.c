// SPDX-License-Identifier: GPL-2.0-only
/* What is there: examine, verdict. */
#include <inttypes.h>
#include <stdlib.h>

#include "../verdict.h"
#include "commands.h"
#include "device.h"
#include "json.h"
#include "search.h"

static const char *leg_word(u32 leg)
{
	return leg == LOCKSTEP_LOCAL ? "local" : "remote";
}

/* The members of a generation, within an open object. */
static void put_generation(const struct generation *g)
{
	char id[17];

	snprintf(id, sizeof(id), "%016" PRIx64, g->id);
	json_text("id", id);
	json_number("count", g->count);
}

static void put_optional_generation(const char *key, const struct generation *g)
{
	if (generation_none(g)) {
		json_text(key, NULL);
		return;
	}
	json_open(key, '{');
	put_generation(g);
	json_close('}');
}

static void put_history(const char *key, const struct super *s)
{
	json_open(key, '[');
	for (int i = 0; i < LOCKSTEP_HISTORY && !generation_none(&s->history[i].gen); i++) {
		json_open(NULL, '{');
		put_generation(&s->history[i].gen);
		json_number("time", s->history[i].time);
		json_text("reason", super_why_name(s->history[i].why));
		json_text("leg", leg_word(s->history[i].leg));
		json_close('}');
	}
	json_close(']');
}

static void put_uuid(const char *key, const u8 uuid[16])
{
	char text[UUID_TEXT];

	super_uuid_text(uuid, text);
	json_text(key, text);
}

/* The DCD's log in front of the disk, if the superblock knows one. */
static void put_log(const struct device *d, const struct super *s)
{
	if (!s->log_state) {
		json_text("log", NULL);
		return;
	}
	json_open("log", '{');
	put_uuid("uuid", s->log_uuid);
	json_text("state", s->log_state == LOCKSTEP_LOG_LEFT ? "left" : "behind");
	json_bool("bypassed", device_bypasses(d, s));
	json_close('}');
}

static u64 regions_of(const struct super *s)
{
	return lockstep_regions(s->data_sectors, s->region_shift);
}

static u8 *new_bits(const struct super *s)
{
	u8 *bits = calloc(1, regions_of(s) / 8 + 1);

	if (!bits) {
		fputs("lockstep-meta: no memory\n", stderr);
		exit(1);
	}
	return bits;
}

static u64 count(const u8 *bits, const struct super *s)
{
	u64 n = 0;

	for (u64 i = 0; i < regions_of(s) / 8 + 1; i++)
		n += (u64)__builtin_popcount(bits[i]);
	return n;
}

static void put_super(const struct device *d, const struct super *s)
{
	u8 *bits = new_bits(s);
	char epoch[17];
	u32 bad;

	device_get_map(d, s, bits, &bad);
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, s->map_epoch);
	json_text("reason", NULL);
	put_uuid("set_uuid", s->set_uuid);
	put_uuid("leg_uuid", s->leg_uuid);
	json_text("name", s->name);
	json_text("leg", leg_word(s->leg));
	json_text("state", super_state_name(s->state));
	json_bool("active", s->active);
	json_number("seq", s->seq);
	json_number("created", s->created);
	json_number("updated", s->updated);
	json_number("data_len", s->data_sectors);
	json_number("region_size", 1ULL << s->region_shift);
	json_number("regions", regions_of(s));
	json_number("map_start", s->map_start);
	json_number("map_sectors", s->map_sectors);
	json_text("map_epoch", epoch);
	json_number("dirty_regions", count(bits, s));
	json_number("bad_map_sectors", bad);
	put_optional_generation("cur", &s->cur);
	put_optional_generation("base", &s->base);
	put_history("history", s);
	put_log(d, s);
	free(bits);
}

/* Its superblock isn't at its end any more, in words; or nobody knows that. */
static bool find_grown(const struct device *d, char *text, size_t size)
{
	struct super_found old;
	u64 sectors;

	if (search_likely(d, 0, &old, &sectors) == SEARCH_ENDED)
		json_text("warning", SEARCH_ENDED_TEXT);
	if (old.kind == SUPER_VALID)
		put_log(d, &old.super);
	if (old.kind != SUPER_BLANK)
		snprintf(text, size, "it is the %s leg of the mirror \"%s\", and has grown from %" PRIu64 " to %" PRIu64 " sectors: grow the mirror, or shrink the device back",
			 leg_word(old.super.leg), old.super.name, sectors, d->sectors);
	return old.kind != SUPER_BLANK;
}

static int examine(const struct options *o, const char *path)
{
	struct super_found found = { .kind = SUPER_ABSENT };
	struct device d;
	char text[400] = "the device can't be opened";
	bool grown = false;
	int r = device_open(&d, path, false);

	if (!r && device_find(&d, &found)) {
		found.kind = SUPER_BAD;
		found.reason = SUPER_UNREADABLE;
	}
	json_open(NULL, '{');
	json_text("device", path);
	if (found.kind == SUPER_VALID) {
		json_text("kind", "superblock");
		put_super(&d, &found.super);
	} else {
		if (found.kind != SUPER_ABSENT)
			super_reason_text(&found, text, sizeof(text));
		if (found.kind == SUPER_BLANK && found.reason != SUPER_TOO_SMALL && !o->no_search)
			grown = find_grown(&d, text, sizeof(text));
		json_text("kind", found.kind == SUPER_ABSENT ? "absent" : grown ? "grown" :
				  found.kind == SUPER_BLANK ? "blank" : "bad");
		json_text("reason", text);
		json_bool("unread", found.reason == SUPER_UNREADABLE);
		r = 1;
	}
	json_close('}');
	device_close(&d);
	return r;
}

int command_examine(const struct options *o, char **devices, int n)
{
	int r = 0;

	json_open(NULL, '[');
	for (int i = 0; i < n; i++)
		r |= examine(o, devices[i]);
	json_close(']');
	return r ? 1 : 0;
}

/* A leg of a verdict. @d stays open if found->kind is SUPER_VALID. */
static int find_leg(const char *path, struct device *d, struct super_found *found)
{
	memset(found, 0, sizeof(*found));
	d->fd = -1;
	if (!strcmp(path, "-"))
		return 0;
	if (device_open(d, path, false))
		return -1;
	if (device_find(d, found)) {
		found->kind = SUPER_BAD;
		found->reason = SUPER_UNREADABLE;
	}
	return 0;
}

static void put_accepted(const struct verdict *v, const char *const path[2],
			 const struct device d[2], const struct super_found found[2])
{
	const struct super *s = &found[v->source].super;
	u8 *bits = new_bits(s);
	u64 regions = regions_of(s);
	bool unmarked = false;
	char table[600];
	u8 uuid[16];
	u32 bad;

	for (int i = 0; i < 2; i++) {
		if (found[i].kind != SUPER_VALID)
			continue;
		device_get_map(&d[i], &found[i].super, bits, &bad);
		unmarked |= device_unmarked(&d[i], &found[i].super, uuid);
	}
	json_text("source", leg_word(v->source));
	json_bool("alone", v->alone);
	/* It didn't go on alone before, so the absent leg may have. */
	json_bool("guess", v->alone && s->state == LOCKSTEP_SYNC);
	json_bool("unmarked", unmarked);
	json_bool("full", v->full);
	json_bool("join", v->join);
	json_bool("crashed", v->crashed);
	json_number("dirty_regions", v->full ? regions : count(bits, s));
	json_number("regions", regions);
	snprintf(table, sizeof(table), "0 %" PRIu64 " lockstep %s %s", s->data_sectors, path[0],
		 path[1]);
	json_text("table", table);
	free(bits);
}

int command_verdict(const char *local, const char *remote)
{
	const char *const path[2] = { local, remote };
	struct super_found found[2];
	const struct super *s = NULL;
	struct device d[2];
	struct verdict v;
	char text[500];

	if (find_leg(local, &d[0], &found[0]) || find_leg(remote, &d[1], &found[1]))
		return 1;
	if (d[0].fd >= 0 && d[1].fd >= 0 && device_same(&d[0], &d[1])) {
		fprintf(stderr, "lockstep-meta: %s and %s are the same device\n", local, remote);
		return 1;
	}
	verdict_decide(&found[0], &found[1], &v);
	verdict_text(&v, &found[0], &found[1], text, sizeof(text));
	json_open(NULL, '{');
	json_text("verdict", verdict_word(v.reason));
	json_text("text", text);
	for (int i = 1; i >= 0; i--) {
		if (found[i].kind == SUPER_VALID)
			s = &found[i].super;
	}
	if (v.reason == VERDICT_OK)
		s = &found[v.source].super;
	if (s) {
		put_uuid("set_uuid", s->set_uuid);
		json_text("name", s->name);
		json_number("data_len", s->data_sectors);
		json_number("region_size", 1ULL << s->region_shift);
	}
	if (v.reason == VERDICT_OK) {
		put_accepted(&v, path, d, found);
	} else {
		json_text("leg", leg_word(v.leg));
		json_bool("unread", v.leg <= LOCKSTEP_REMOTE && found[v.leg].reason == SUPER_UNREADABLE);
	}
	if (found[0].kind == SUPER_VALID && found[1].kind == SUPER_VALID) {
		json_open("histories", '{');
		put_history("local", &found[0].super);
		put_history("remote", &found[1].super);
		json_close('}');
	}
	json_close('}');
	return v.reason != VERDICT_OK;
}

/* A superblock for this very device: of a disk, the end may be that of its last partition. */
static bool is_leg(const struct super_found *found)
{
	return found->kind == SUPER_VALID || found->reason == SUPER_MOVED_ON ||
	       found->reason == SUPER_MOVED_BACK || found->reason == SUPER_SLOTS_DIFFER ||
	       found->reason == SUPER_BAD_LAYOUT || found->reason == SUPER_BAD_STATE;
}

int command_udev(const char *path)
{
	struct super_found found;
	char uuid[UUID_TEXT];
	struct device d;
	int r = 1;

	if (device_open(&d, path, false))
		return 1;
	if (!device_find(&d, &found) && is_leg(&found)) {
		puts("LOCKSTEP_MEMBER=1");
		if (found.kind == SUPER_VALID) {
			super_uuid_text(found.super.set_uuid, uuid);
			printf("LOCKSTEP_SET_UUID=%s\n", uuid);
			super_uuid_text(found.super.leg_uuid, uuid);
			printf("LOCKSTEP_LEG_UUID=%s\nLOCKSTEP_LEG=%s\n", uuid,
			       leg_word(found.super.leg));
		}
		r = 0;
	}
	device_close(&d);
	return r;
}
