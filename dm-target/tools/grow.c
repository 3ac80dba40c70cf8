// SPDX-License-Identifier: GPL-2.0-only
/*
 * grow: metadata that are no longer at the end of their device; the orders are in
 * growth.h. First the legs that are there move, whatever their state; then, if both
 * are there and in sync, the mirror gets longer. Here both superblocks get the new
 * length, each after a map with all that is new. After a crash the command can be
 * repeated: it looks for the old superblock, and takes a leg that has moved as done.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../growth.h"
#include "../verdict.h"
#include "commands.h"
#include "make.h"
#include "search.h"

struct leg {
	struct device *d;
	bool there;
	struct super_found found;
	u64 sectors;		/* size of the device for which that was written */
	enum growth growth;
	struct lockstep_layout layout;
	u8 *bits;
};

/* A superblock that was at the end when the device was smaller. */
static int search(struct leg *leg)
{
	char text[256];

	search_all(leg->d, &leg->found, &leg->sectors);
	if (leg->found.kind == SUPER_VALID)
		return check_bypassed(leg->d, &leg->found);
	if (leg->found.kind == SUPER_BLANK)
		return refuse(leg->d->path, "has no lockstep superblock, neither at its end nor before");
	super_reason_text(&leg->found, text, sizeof(text));
	return refuse(leg->d->path, text);
}

static int find(struct leg *leg)
{
	char text[256];

	leg->sectors = leg->d->sectors;
	if (device_find(leg->d, &leg->found))
		return -1;
	if (leg->found.kind == SUPER_VALID)
		return check_bypassed(leg->d, &leg->found);
	if (leg->found.kind == SUPER_BLANK || leg->found.reason == SUPER_MOVED ||
	    leg->found.reason == SUPER_MOVED_ON || leg->found.reason == SUPER_MOVED_BACK)
		return search(leg);
	super_reason_text(&leg->found, text, sizeof(text));
	/* Damaged: perhaps the first one at the new end, torn by a crash of this command. */
	if (leg->found.reason == SUPER_BAD_CRC && !search(leg))
		return 0;
	return refuse(leg->d->path, text);
}

static int plan_move(struct leg *leg)
{
	const struct super *s = &leg->found.super;

	leg->growth = growth_check(s, leg->sectors, leg->d->sectors, &leg->layout);
	if (leg->growth != GROWTH_NONE && leg->growth != GROWTH_OK)
		return refuse(leg->d->path, growth_text(leg->growth));
	return 0;
}

static u64 room(const struct leg *leg)
{
	return leg->growth == GROWTH_OK ? leg->layout.map_start : leg->found.super.map_start;
}

/* Both there and in sync? A crash of this command between the two leaves two lengths. */
static bool in_sync(const struct leg legs[2], struct verdict *v, char *text, size_t size)
{
	struct super_found as_if = legs[1].found;

	as_if.super.data_sectors = legs[0].found.super.data_sectors;
	verdict_decide(&legs[0].found, &as_if, v);
	verdict_text(v, &legs[0].found, &as_if, text, size);
	return v->reason == VERDICT_OK && !v->join && !v->alone;
}

/* The devices aren't the legs of one mirror, each in its place: not even moved. */
static bool misplaced(enum verdict_reason reason)
{
	return reason == VERDICT_FOREIGN || reason == VERDICT_SWAPPED ||
	       reason == VERDICT_WRONG_LEG || reason == VERDICT_GEOMETRY;
}

/* Of both legs the smaller one's. Not sooner than they can move is anything refused. */
static int plan_length(const struct leg legs[2], u64 *data_sectors)
{
	*data_sectors = room(&legs[0]) < room(&legs[1]) ? room(&legs[0]) : room(&legs[1]);
	for (int i = 0; i < 2; i++) {
		if (legs[i].found.super.data_sectors > *data_sectors)
			return refuse(legs[i].d->path, "the mirror is larger than what the devices have room for");
	}
	return 0;
}

/* The mirror's length may be less than this leg's: after a crash there are two. */
static int read_map(struct leg *leg, u64 data_sectors)
{
	u32 bad;

	if (data_sectors < leg->found.super.data_sectors)
		data_sectors = leg->found.super.data_sectors;
	leg->bits = calloc(1, lockstep_regions(data_sectors, leg->found.super.region_shift) / 8 + 1);
	if (!leg->bits)
		return refuse(leg->d->path, "no memory for its map");
	device_get_map(leg->d, &leg->found.super, leg->bits, &bad);
	return 0;
}

/* The superblock that the leg moved from, if it is there yet: before any other is written. */
static int forget_old(struct leg *leg)
{
	struct super *s = &leg->found.super;

	if (s->moved_from && search_clear(leg->d, s->moved_from + LOCKSTEP_SLOTS_SECTORS))
		return -1;
	s->moved_from = 0;
	return 0;
}

static int put(struct leg *leg)
{
	struct super *s = &leg->found.super;

	super_touch(s, now(), 0);
	return device_put_map(leg->d, s, leg->bits) || device_put_super(leg->d, s) ? -1 : 0;
}

static int settle(struct leg *leg)
{
	struct super *s = &leg->found.super;

	if (!s->moved_from)
		return 0;
	if (forget_old(leg))
		return -1;
	super_touch(s, now(), 0);
	return device_put_super(leg->d, s);
}

/* A crash may have left @found where it points to another place already. */
static int point(struct leg *leg)
{
	struct super *s = &leg->found.super;

	if (forget_old(leg))
		return -1;
	s->moved_to = lockstep_slots_start(leg->d->sectors);
	super_touch(s, now(), 0);
	return device_put_super_at(leg->d, leg->sectors, s);
}

/* growth.h's order, only that the map is written after the pointer: that is as good. */
static int move(struct leg *leg)
{
	if (!leg->there)
		return 0;
	if (leg->growth == GROWTH_OK) {
		if (point(leg))
			return -1;
		growth_move(&leg->found.super, leg->sectors, &leg->layout);
		if (put(leg))
			return -1;
	}
	return settle(leg);
}

static int extend(struct leg *leg, u64 data_sectors)
{
	struct super *s = &leg->found.super;
	u64 to = lockstep_regions(data_sectors, s->region_shift);

	if (s->data_sectors == data_sectors)
		return 0;
	for (u64 region = growth_first_region(s); region < to; region++)
		leg->bits[region / 8] |= (u8)(1U << region % 8);
	if (forget_old(leg))
		return -1;
	growth_extend(s, data_sectors);
	/* In place: what is new was beyond the map's use, and only bits are added. */
	return put(leg);
}

/* All that is to be known before anything is written. @longer: not only moved. */
static int plan(struct leg legs[2], u64 *data_sectors, bool *longer)
{
	bool moves = false;
	struct verdict v;
	char text[500];

	for (int i = 0; i < 2; i++) {
		if (!legs[i].there)
			continue;
		if (find(&legs[i]) || plan_move(&legs[i]))
			return -1;
		if (*data_sectors < legs[i].found.super.data_sectors)
			*data_sectors = legs[i].found.super.data_sectors;
		moves |= legs[i].growth == GROWTH_OK;
	}
	*longer = in_sync(legs, &v, text, sizeof(text));
	if (misplaced(v.reason)) {
		fprintf(stderr, "lockstep-meta: nothing was changed: %s\n", text);
		return -1;
	}
	if (*longer && plan_length(legs, data_sectors))
		return -1;
	for (int i = 0; i < 2; i++) {
		if (legs[i].there && read_map(&legs[i], *data_sectors))
			return -1;
	}
	if (*longer)
		return 0;
	fprintf(stderr, "lockstep-meta: only a mirror in sync can grow%s: %s\n",
		moves ? "; the metadata move to the end of the devices, and no more" : "", text);
	return moves ? 0 : -1;
}

static int grow(struct leg legs[2], u64 data_sectors, bool longer)
{
	if (move(&legs[0]) || move(&legs[1]))
		return -1;
	return longer && (extend(&legs[0], data_sectors) || extend(&legs[1], data_sectors)) ? -1 : 0;
}

/* With one leg, the other is "-". A look may be at devices in use. */
static int open_legs(struct leg legs[2], const char *const path[2], bool for_writing)
{
	for (int i = 0; i < 2; i++)
		legs[i].there = strcmp(path[i], "-");
	if (legs[0].there && legs[1].there && for_writing)
		return open_pair(legs[0].d, path[0], path[1]);
	for (int i = 0; i < 2; i++) {
		if (legs[i].there && device_open(legs[i].d, path[i], for_writing))
			return -1;
	}
	if (legs[0].there && legs[1].there && device_same(legs[0].d, legs[1].d))
		return refuse(path[1], "is to be both the local and the remote leg");
	return legs[0].there || legs[1].there ? 0 : refuse("-", "name at least one device");
}

int command_grow(const struct options *o, const char *local, const char *remote)
{
	const char *const path[2] = { local, remote };
	struct device d[2] = { { .fd = -1 }, { .fd = -1 } };
	struct leg legs[2] = { { .d = &d[0] }, { .d = &d[1] } };
	u64 data_sectors = 0;
	bool longer;
	int r = 1;

	if (!open_legs(legs, path, !o->dry_run) && !plan(legs, &data_sectors, &longer) &&
	    (o->dry_run || !grow(legs, data_sectors, longer))) {
		struct super *s = &legs[!legs[0].there].found.super;

		s->data_sectors = data_sectors;
		put_made(s);
		r = 0;
	}
	for (int i = 0; i < 2; i++) {
		free(legs[i].bits);
		device_close(&d[i]);
	}
	return r;
}
