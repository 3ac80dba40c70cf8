// SPDX-License-Identifier: GPL-2.0-only
/* The events of a mirror's life. */
#include "life.h"

static const struct generation no_generation;

static bool has_all(const struct super *s)
{
	return s->state == LOCKSTEP_SYNC || s->state == LOCKSTEP_ALONE;
}

static void begin_generation(struct super *s, u64 id, u64 now, u32 why)
{
	memmove(&s->history[1], &s->history[0], sizeof(s->history) - sizeof(s->history[0]));
	s->cur.id = id;
	s->cur.count++;
	s->history[0] = (struct generation_event){ s->cur, now, why, s->leg };
}

static void create(struct super *s, u64 epochs, u64 now)
{
	s->created = now;
	s->map_epochs = epochs;
	super_new_map(s);
}

void super_create_sync(struct super *s, u64 generation_id, u64 epochs, u64 now)
{
	create(s, epochs, now);
	s->state = LOCKSTEP_SYNC;
	begin_generation(s, generation_id, now, LOCKSTEP_WHY_CREATED);
}

void super_create_new(struct super *s, const struct super *source, u64 epochs, u64 now)
{
	create(s, epochs, now);
	s->state = LOCKSTEP_NEW;
	s->base = source->cur;
}

void super_new_map(struct super *s)
{
	s->map_epoch = ++s->map_epochs;
}

void super_forget_map(struct super *s)
{
	s->map_epoch = 0;
}

int super_join(struct super *s, const struct super *source)
{
	if (!has_all(source))
		return -EPERM;
	s->state = LOCKSTEP_TARGET;
	s->cur = source->cur;
	s->data_sectors = source->data_sectors;
	s->base = no_generation;
	s->alone_seq = 0;
	memset(s->adopted, 0, sizeof(s->adopted));
	memcpy(s->history, source->history, sizeof(s->history));
	super_forget_map(s);
	return 0;
}

int super_adopt(struct super *source, const struct super *leg, u64 generation_id, u64 now)
{
	if (!has_all(source))
		return -EPERM;
	/* It may be NEW once more, by an image of it. */
	source->other_seq = 0;
	if (source->state == LOCKSTEP_ALONE && generation_none(&source->base) &&
	    !memcmp(source->adopted, leg->leg_uuid, sizeof(source->adopted)))
		return 0;
	memcpy(source->adopted, leg->leg_uuid, sizeof(source->adopted));
	begin_generation(source, generation_id, now, LOCKSTEP_WHY_NEW_LEG);
	source->state = LOCKSTEP_ALONE;
	source->base = no_generation;
	source->alone_seq = 0;
	return 0;
}

void super_forget_base(struct super *source)
{
	source->base = no_generation;
	source->alone_seq = 0;
}

int super_in_sync(struct super *s)
{
	if (s->state == LOCKSTEP_NEW)
		return -EPERM;
	s->state = LOCKSTEP_SYNC;
	s->base = no_generation;
	s->alone_seq = 0;
	memset(s->adopted, 0, sizeof(s->adopted));
	return 0;
}

int super_go_alone(struct super *s, u64 generation_id, u64 now, u32 why)
{
	if (s->state == LOCKSTEP_ALONE)
		return 0;
	if (s->state != LOCKSTEP_SYNC)
		return -EPERM;
	s->base = s->cur;
	s->state = LOCKSTEP_ALONE;
	s->alone_seq = s->seq;
	begin_generation(s, generation_id, now, why);
	return 1;
}

void super_give_up(struct super *s, const struct super *source)
{
	s->state = LOCKSTEP_NEW;
	s->cur = no_generation;
	s->base = source->cur;
	/* A longer one says nothing of the mirror any more; a shorter one joins as it is. */
	if (s->data_sectors > source->data_sectors)
		s->data_sectors = source->data_sectors;
	memset(s->history, 0, sizeof(s->history));
	memset(s->adopted, 0, sizeof(s->adopted));
	super_forget_map(s);
	s->active = false;
	s->other_seq = 0;
	s->alone_seq = 0;
}

void super_know(struct super *s, u64 seq)
{
	if (seq)
		s->other_seq = seq;
}

void super_set_active(struct super *s, bool active)
{
	s->active = active;
}
