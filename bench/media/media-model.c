// SPDX-License-Identifier: GPL-2.0-only
/* See media-model.h. */
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/string.h>

#include "media-model.h"

#define ZONES		16U
#define OUTER_TRACK	557U
#define INNER_TRACK	413U
#define HEADS		4U
#define SKEW		300000ULL
#define SEEK_A		400000ULL
#define SEEK_B		43005ULL	/* ns per square root of a cylinder */
#define SEEK_KNEE	(SPINDLE_CYLINDERS / 3)
#define SEEK_SLOPE	274ULL		/* the curve's slope at the knee */
#define WRITE_SETTLE	600000ULL
#define READ_AHEAD	1024U		/* sectors */
/* A request that follows the last one starts at its end, give or take rounding. */
#define SAME_PLACE	2000ULL

static u32 track_of_zone(u32 zone)
{
	return OUTER_TRACK - zone * (OUTER_TRACK - INNER_TRACK) / (ZONES - 1);
}

void spindle_init(struct spindle *s, u64 sectors, bool spread)
{
	memset(s, 0, sizeof(*s));
	s->sectors = sectors ? sectors : 1;
	s->spread = spread || sectors > SPINDLE_SECTORS;
}

/* Zone and cylinder of a place on the disk. */
static u32 locate(const struct spindle *s, u64 sector, u32 *zone)
{
	const u32 width = SPINDLE_CYLINDERS / ZONES;
	u64 lba = sector;
	u32 z;

	if (s->spread)
		lba = div64_u64(sector * (SPINDLE_SECTORS >> 8), s->sectors) << 8;
	for (z = 0; z < ZONES - 1; z++) {
		u64 size = (u64)width * HEADS * track_of_zone(z);

		if (lba < size)
			break;
		lba -= size;
	}
	*zone = z;
	z = z * width + (u32)div_u64(lba, HEADS * track_of_zone(z));
	return z < SPINDLE_CYLINDERS ? z : SPINDLE_CYLINDERS - 1;
}

u32 spindle_cylinder(const struct spindle *s, u64 sector)
{
	u32 zone;

	return locate(s, sector, &zone);
}

u64 spindle_seek(u32 distance, bool write)
{
	u64 t;

	if (!distance)
		return 0;
	if (distance <= SEEK_KNEE)
		t = SEEK_A + ((SEEK_B * int_sqrt((unsigned long)distance << 16)) >> 8);
	else
		t = spindle_seek(SEEK_KNEE, false) + SEEK_SLOPE * (distance - SEEK_KNEE);
	return write ? t + WRITE_SETTLE : t;
}

/* How long until the platter brings @sector under the head. */
static u64 rotation(u64 now, u64 sector, u32 track)
{
	u32 in_track;
	u64 nr = div_u64_rem(sector, track, &in_track);
	u64 angle = div_u64(in_track * SPINDLE_REVOLUTION, track) + nr * SKEW;
	u64 wait;
	u32 a, b;

	div_u64_rem(angle, SPINDLE_REVOLUTION, &a);
	div_u64_rem(now, SPINDLE_REVOLUTION, &b);
	wait = a >= b ? a - b : a + SPINDLE_REVOLUTION - b;
	return wait > SPINDLE_REVOLUTION - SAME_PLACE ? 0 : wait;
}

static u64 transfer(u64 sector, u32 count, u32 track)
{
	u64 changes = div_u64(sector + count - 1, track) - div_u64(sector, track);

	return div_u64(count * SPINDLE_REVOLUTION, track) + changes * SKEW;
}

/* How far the read-ahead has come. */
static void advance(struct spindle *s, u64 now)
{
	u32 track, zone;
	u64 n, full;

	if (!s->ahead_runs || now <= s->ahead_since)
		return;
	locate(s, s->ahead_to, &zone);
	track = track_of_zone(zone);
	/* Skew spread evenly: good enough for a buffer's edge. */
	n = div64_u64((now - s->ahead_since) * track, SPINDLE_REVOLUTION + SKEW);
	full = s->ahead_limit - s->ahead_to;
	if (n >= full) {
		n = full;
		s->ahead_runs = false;
	}
	s->ahead_to += n;
	s->ahead_since += div_u64(n * (SPINDLE_REVOLUTION + SKEW), track);
}

u64 spindle_serve(struct spindle *s, u64 now, bool write, u64 sector, u32 count)
{
	u32 zone, track, cylinder = locate(s, sector, &zone);
	u32 d = cylinder > s->cylinder ? cylinder - s->cylinder : s->cylinder - cylinder;
	u64 t = spindle_seek(d, write);

	track = track_of_zone(zone);
	t += rotation(now + t, sector, track);
	t += transfer(sector, count, track);
	s->cylinder = locate(s, sector + count - 1, &zone);
	if (write) {
		advance(s, now);
		s->ahead_runs = false;
		if (sector < s->ahead_to && sector + count > s->ahead_from)
			s->ahead_to = s->ahead_from;
		return t;
	}
	s->ahead_from = sector;
	s->ahead_to = sector + count;
	s->ahead_limit = s->ahead_to + READ_AHEAD;
	if (s->ahead_limit > s->sectors)
		s->ahead_limit = s->sectors;
	s->ahead_since = now + t;
	s->ahead_runs = true;
	return t;
}

bool spindle_read_ahead(struct spindle *s, u64 now, u64 sector, u32 count, u64 *wait)
{
	u64 end = sector + count;
	u32 zone, track;

	advance(s, now);
	/* A request that comes just before the head does still meets the stream. */
	if (s->ahead_to == s->ahead_from || sector < s->ahead_from ||
	    sector > s->ahead_to + (s->ahead_runs ? 8 : 0))
		return false;
	if (end <= s->ahead_to) {
		*wait = 0;
	} else {
		/* The stream's next part, if the head is still at it. */
		if (!s->ahead_runs)
			return false;
		locate(s, s->ahead_to, &zone);
		track = track_of_zone(zone);
		*wait = div_u64((end - s->ahead_to) * (SPINDLE_REVOLUTION + SKEW), track);
		if (s->ahead_since > now)
			*wait += s->ahead_since - now;
	}
	if (s->ahead_runs && end + READ_AHEAD > s->ahead_limit)
		s->ahead_limit = end + READ_AHEAD < s->sectors ? end + READ_AHEAD : s->sectors;
	return true;
}

u64 spindle_bus(u32 count)
{
	return SPINDLE_COMMAND + (u64)count * 3200;
}
