// SPDX-License-Identifier: GPL-2.0-only
/* The rules by which a mirror becomes larger. */
#include "growth.h"
#include "life.h"

enum growth growth_check(const struct super *s, u64 had, u64 has, struct lockstep_layout *to)
{
	if (has == had)
		return GROWTH_NONE;
	if (has < had)
		return GROWTH_SHRUNK;
	if (!lockstep_layout(has, s->region_shift, to))
		return GROWTH_TOO_LARGE;
	return to->map_start < had ? GROWTH_TOO_LITTLE : GROWTH_OK;
}

const char *growth_text(enum growth growth)
{
	switch (growth) {
	case GROWTH_NONE:
		return "has the size that it had";
	case GROWTH_OK:
		return "has grown";
	case GROWTH_SHRUNK:
		return "has become smaller: make it as large as it was";
	case GROWTH_TOO_LITTLE:
		return "has grown by too little, the new metadata would lie over the old";
	case GROWTH_TOO_LARGE:
		return "has become too large for regions of that size: make it smaller";
	}
	return "";
}

void growth_move(struct super *s, u64 had, const struct lockstep_layout *to)
{
	s->moved_to = 0;
	s->moved_from = lockstep_slots_start(had);
	s->map_start = to->map_start;
	s->map_sectors = to->map_sectors;
	super_new_map(s);
}

bool growth_room(const struct super *s, u64 data_sectors)
{
	u64 regions = lockstep_regions(data_sectors, s->region_shift);

	return data_sectors <= s->map_start && regions <= LOCKSTEP_REGIONS_MAX &&
	       lockstep_map_sectors((u32)regions) <= s->map_sectors;
}

void growth_extend(struct super *s, u64 data_sectors)
{
	s->data_sectors = data_sectors;
}
