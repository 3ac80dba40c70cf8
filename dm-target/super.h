/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Super: what the superblock of a leg says, and the sectors of its dirty map,
 * to and from the format on the disk (lockstep-format.h).
 *
 * Pure functions on the caller's memory: any context, no locks, they don't
 * sleep. The kernel module and lockstep-meta use the same code.
 *
 * What super_unpack() accepts is consistent in itself: the layout fits the
 * device, state and generations go together. Nothing else is accepted, however
 * small the fault: a superblock is never repaired by guess.
 */
#ifndef LOCKSTEP_SUPER_H
#define LOCKSTEP_SUPER_H

#include "lockstep-format.h"
#include "lockstep-port.h"

struct generation {
	u64 id;		/* 0: none */
	u32 count;
};

struct generation_event {
	struct generation gen;
	u64 time;	/* seconds since 1970, UTC */
	u32 why;	/* LOCKSTEP_WHY_* */
	u32 leg;	/* the leg on which it began */
};

struct super {
	u32 compat;
	u32 ro_compat;
	u32 incompat;
	bool active;
	u64 seq;		/* of this update; super_touch() makes the next */
	u8 set_uuid[16];
	u8 leg_uuid[16];
	u8 adopted[16];		/* leg_uuid of the NEW leg for which cur began */
	u8 digest_key[32];	/* of the last resync that worked by digests (digest.h) */
	char name[LOCKSTEP_NAME_BYTES];
	u64 created;
	u64 updated;
	u64 data_sectors;
	u64 map_start;
	u32 map_sectors;
	u32 region_shift;
	u32 leg;		/* LOCKSTEP_LOCAL or LOCKSTEP_REMOTE */
	u32 state;		/* LOCKSTEP_SYNC... */
	u64 map_epoch;
	u64 map_epochs;
	struct generation cur;	/* none if NEW, else history[0].gen */
	/* ALONE: the other may be in sync with it, or none. NEW: its source knows it. Else none. */
	struct generation base;
	u64 moved_to;		/* a move to there has begun, see growth.h; 0: none */
	u64 moved_from;		/* from there; the slots there aren't zeroed yet; 0: none */
	u8 log_uuid[16];	/* of the DCD through which it is written; see super_set_log() */
	u32 log_state;		/* LOCKSTEP_LOG_* */
	u64 log_applied;	/* not 0: a DCD has written this; super_pack() doesn't */
	u64 other_seq;		/* that the other leg's superblock has had; see super_know() */
	u64 alone_seq;		/* ALONE: of the update before it was; see super_go_alone() */
	u64 owner;		/* of the table that wrote it; see super_touch() */
	struct generation_event history[LOCKSTEP_HISTORY];	/* newest first */
};

/* What was found where a leg should be. */
enum super_kind {
	SUPER_ABSENT,	/* no device was given */
	SUPER_BLANK,	/* no superblock of ours */
	SUPER_BAD,	/* one that can't be used: see reason */
	SUPER_VALID,
};

enum super_reason {
	SUPER_OK,
	SUPER_UNREADABLE,	/* set by who reads: I/O error */
	SUPER_TOO_SMALL,	/* the device has no room for a superblock */
	SUPER_NO_MAGIC,
	SUPER_BAD_CRC,		/* magic, but the checksum is wrong in both slots */
	SUPER_BAD_VERSION,
	SUPER_BAD_FEATURES,	/* unknown incompat or ro_compat bits */
	SUPER_MOVED,		/* was written for a device of another size */
	SUPER_BAD_LAYOUT,	/* data, map and slots don't fit the device */
	SUPER_BAD_STATE,	/* state, generations and history contradict each other */
	SUPER_SLOTS_DIFFER,	/* same seq, different content */
	SUPER_MOVED_ON,		/* says that another one counts, further on; super is set */
	SUPER_MOVED_BACK,	/* a move to it failed, the leg went on where it was */
	SUPER_REASONS,
};

struct super_found {
	enum super_kind kind;
	enum super_reason reason;
	u64 detail;		/* version, unknown features or sector that @reason is about */
	struct super super;	/* if SUPER_VALID or SUPER_MOVED_ON */
	/* Set by who knows the device: it is BEHIND a log, and isn't that DCD's LUN. */
	bool bypassed;
};

/**
 * super_pack - a slot, ready to be written
 * @dev_sectors: the size of the device
 * @slot: LOCKSTEP_SLOT_BYTES
 *
 * Both slots get the same bytes: slot 0 at lockstep_slots_start(@dev_sectors),
 * and when that is durable, slot 1, LOCKSTEP_SLOT_SECTORS after it. Before:
 * super_touch().
 */
void super_pack(const struct super *s, u64 dev_sectors, void *slot);

/**
 * super_unpack - a slot, as it was read
 * @s: is set if the result is SUPER_OK
 * @detail: see struct super_found
 */
enum super_reason __must_check super_unpack(const void *slot, u64 dev_sectors, struct super *s,
					    u64 *detail);

/**
 * super_find - the superblock of a leg
 * @slots: LOCKSTEP_SLOTS_BYTES, as read at lockstep_slots_start(@dev_sectors)
 *
 * Of two valid slots the newer one. A slot that isn't ours or has a wrong
 * checksum is passed over if the other one is valid: an update was torn. A slot
 * that is whole and can't be used, is not: it may be the newer one.
 *
 * If it has moved_from, it counts only if super_moved_back() says no.
 */
void super_find(const void *slots, u64 dev_sectors, struct super_found *found);

/**
 * super_moved_back - has the leg been in use where its superblock came from?
 * @s: one that was found, with moved_from
 * @slots: LOCKSTEP_SLOTS_BYTES, as read at moved_from
 *
 * The move to @s failed with an error then, and nobody could remove @s.
 */
bool __must_check super_moved_back(const struct super *s, const void *slots);

/* Why super_find() refused, and what to do. Returns the length. */
int super_reason_text(const struct super_found *found, char *buf, size_t size);

/* What is known of the log of a DCD in front of the disk. The caller super_touch()es it. */
void super_set_log(struct super *s, const u8 uuid[16], u32 state);

/*
 * Each attempt to write a superblock, failed ones too, begins with this. @owner: of the table that
 * writes it. A tool gives 0 for a leg that it has changed, and leaves a running table's if all that
 * the mirror says of itself stays.
 */
void super_touch(struct super *s, u64 now, u64 owner);

static inline bool generation_is(const struct generation *a, const struct generation *b)
{
	return a->id == b->id && a->count == b->count;
}

static inline bool generation_none(const struct generation *g)
{
	return !g->id;
}

const char *super_state_name(u32 state);
const char *super_why_name(u32 why);

/* 36 characters and a NUL, as RFC 4122 prints it. */
#define UUID_TEXT 37
void super_uuid_text(const u8 uuid[16], char buf[UUID_TEXT]);

/* The generations of a leg, newest first, one a line of up to 120 bytes; or "none". The length. */
int super_history_text(const struct super *s, char *buf, size_t size);

/*
 * Map sectors. @index counts from 0 within the map, @bit from 0 within the
 * sector (below LOCKSTEP_MAP_BITS).
 */
enum map_sector_kind {
	MAP_SECTOR_VALID,	/* its bits count */
	MAP_SECTOR_CLEAR,	/* of another epoch: all clear */
	MAP_SECTOR_BAD,		/* torn, damaged or misplaced: all set */
};

/* All clear, and sealed. */
void map_sector_init(struct lockstep_map_sector *s, u32 index, u64 epoch);
/* After any change to its bits, before it is written. */
void map_sector_seal(struct lockstep_map_sector *s);
enum map_sector_kind __must_check map_sector_check(const struct lockstep_map_sector *s,
						   u32 index, u64 epoch);
/*
 * Make a sector that was read usable: sealed, of this epoch, with the bits that
 * its kind stands for. Returns the kind it had. An epoch of 0: all clear.
 */
enum map_sector_kind map_sector_take(struct lockstep_map_sector *s, u32 index, u64 epoch);

static inline bool map_sector_test(const struct lockstep_map_sector *s, u32 bit)
{
	return s->bits[bit / 8] & 1U << bit % 8;
}

static inline void map_sector_set(struct lockstep_map_sector *s, u32 bit)
{
	s->bits[bit / 8] |= (u8)(1U << bit % 8);
}

static inline void map_sector_clear(struct lockstep_map_sector *s, u32 bit)
{
	s->bits[bit / 8] &= (u8)~(1U << bit % 8);
}

#endif
