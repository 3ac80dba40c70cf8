// SPDX-License-Identifier: GPL-2.0-only
/*
 * grow: metadata that are no longer at the end of their device.
 *
 * Order, for each leg, each step durable before the next: the new map and the
 * new superblock at the new end, with the old size of the mirror; the old
 * superblock zeroed. Then, for each leg, a map with all that is new marked
 * dirty, and the superblock with the new size. A crash in between leaves legs
 * that verdict.h refuses (blank, or geometry), and the command can be repeated:
 * it looks for the old superblock, and takes a leg that has the new size as done.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../life.h"
#include "../verdict.h"
#include "commands.h"
#include "make.h"
#include "search.h"

struct leg {
	struct device *d;
	struct super_found found;
	u64 sectors;		/* size of the device for which that was written */
	struct lockstep_layout layout;
	u8 *bits;
};

/* A superblock that was at the end when the device was smaller. */
static int search(struct leg *leg)
{
	search_all(leg->d, &leg->found, &leg->sectors);
	if (leg->found.kind == SUPER_VALID)
		return 0;
	return refuse(leg->d->path, "has no lockstep superblock, neither at its end nor before");
}

static int find(struct leg *leg)
{
	char text[256];

	leg->sectors = leg->d->sectors;
	if (device_find(leg->d, &leg->found))
		return -1;
	if (leg->found.kind == SUPER_VALID)
		return 0;
	if (leg->found.kind == SUPER_BLANK || leg->found.reason == SUPER_MOVED)
		return search(leg);
	super_reason_text(&leg->found, text, sizeof(text));
	/* Damaged: perhaps the first one at the new end, torn by a crash of this command. */
	if (leg->found.reason == SUPER_BAD_CRC && !search(leg))
		return 0;
	return refuse(leg->d->path, text);
}

static int check_sync(struct leg legs[2])
{
	struct super_found as_if = legs[1].found;
	struct verdict v;
	char text[500];

	/* A crash of this command between the two leaves different sizes. */
	as_if.super.data_sectors = legs[0].found.super.data_sectors;
	verdict_decide(&legs[0].found, &as_if, &v);
	if (v.reason == VERDICT_OK && !v.join)
		return 0;
	verdict_text(&v, &legs[0].found, &as_if, text, sizeof(text));
	fprintf(stderr, "lockstep-meta: only a mirror in sync can grow: %s\n", text);
	return -1;
}

static int plan(struct leg legs[2], u64 *data_sectors)
{
	for (int i = 0; i < 2; i++) {
		struct leg *leg = &legs[i];

		if (!lockstep_layout(leg->d->sectors, leg->found.super.region_shift, &leg->layout))
			return refuse(leg->d->path, "has become too large for regions of that size");
		if (leg->sectors != leg->d->sectors && leg->layout.map_start < leg->sectors)
			return refuse(leg->d->path, "has grown by too little: the new metadata would lie over the old");
	}
	*data_sectors = legs[0].layout.map_start < legs[1].layout.map_start ?
			legs[0].layout.map_start : legs[1].layout.map_start;
	for (int i = 0; i < 2; i++) {
		if (legs[i].found.super.data_sectors > *data_sectors)
			return refuse(legs[i].d->path, "the mirror is larger than what the devices have room for");
	}
	return 0;
}

/* The regions of both maps, with room for @data_sectors. */
static int read_maps(struct leg legs[2], u64 data_sectors)
{
	u32 bad;

	for (int i = 0; i < 2; i++) {
		unsigned int shift = legs[i].found.super.region_shift;

		legs[i].bits = calloc(1, lockstep_regions(data_sectors, shift) / 8 + 1);
		if (!legs[i].bits)
			return refuse(legs[i].d->path, "no memory for its map");
		if (device_get_map(legs[i].d, &legs[i].found.super, legs[i].bits, &bad))
			return -1;
	}
	return 0;
}

static int put(struct leg *leg)
{
	struct super *s = &leg->found.super;

	super_touch(s, now());
	return device_put_map(leg->d, s, leg->bits) || device_put_super(leg->d, s) ? -1 : 0;
}

static int move(struct leg *leg)
{
	static const u8 zeroes[LOCKSTEP_SLOTS_BYTES] __attribute__((aligned(4096)));
	u64 old = lockstep_slots_start(leg->sectors);

	if (leg->sectors == leg->d->sectors)
		return 0;
	leg->found.super.map_start = leg->layout.map_start;
	leg->found.super.map_sectors = leg->layout.map_sectors;
	super_new_map(&leg->found.super);
	if (put(leg) || device_write(leg->d, zeroes, sizeof(zeroes), old))
		return -1;
	return device_flush(leg->d);
}

static int extend(struct leg *leg, u64 data_sectors)
{
	struct super *s = &leg->found.super;
	u64 to = lockstep_regions(data_sectors, s->region_shift);

	if (s->data_sectors == data_sectors)
		return 0;
	for (u64 region = s->data_sectors >> s->region_shift; region < to; region++)
		leg->bits[region / 8] |= (u8)(1U << region % 8);
	s->data_sectors = data_sectors;
	/* In place: what is new was beyond the map's use, and only bits are added. */
	return put(leg);
}

int command_grow(const struct options *o, const char *local, const char *remote)
{
	struct device d[2] = { { .fd = -1 }, { .fd = -1 } };
	struct leg legs[2] = { { .d = &d[0] }, { .d = &d[1] } };
	u64 data_sectors = 0;
	int r = 1;

	if (!open_pair(d, local, remote) && !find(&legs[0]) && !find(&legs[1]) && !check_sync(legs) &&
	    !plan(legs, &data_sectors) && !read_maps(legs, data_sectors) &&
	    (o->dry_run || (!move(&legs[0]) && !move(&legs[1]) &&
			    !extend(&legs[0], data_sectors) && !extend(&legs[1], data_sectors)))) {
		legs[0].found.super.data_sectors = data_sectors;
		put_made(&legs[0].found.super);
		r = 0;
	}
	free(legs[0].bits);
	free(legs[1].bits);
	device_close(&d[0]);
	device_close(&d[1]);
	return r;
}
