/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Metadata: the superblocks of the two legs as the running mirror knows them,
 * and the reading and writing of superblocks and map pages. What they mean is
 * decided elsewhere (verdict.h, standing.h, join.h); their layout is
 * lockstep-format.h's.
 *
 * A mirror in core mode (mirror.meta is NULL) has none: then all that writes
 * does nothing and succeeds.
 *
 * A leg in use may be used by another host all the same, while this one sleeps or its table is
 * suspended. So a superblock is read before anything of the metadata is written to the leg: each
 * time before a superblock or a whole map is, and before a page of the map if the last time is more
 * than METADATA_SECONDS ago, sleep included. One that isn't this table's is told with -ESTALE, and
 * nothing is written.
 *
 * Everything here sleeps, for as long as a transfer takes (transfer.h): until the
 * leg dies, at most. Each write is durable on return. 0 or an errno.
 *
 * Locking: metadata.lock[leg] is held over a change of that leg's superblock in
 * core and on the disk, so that two changes never mix. A superblock in core is
 * read under it too, or where no change can be under way.
 */
#ifndef LOCKSTEP_METADATA_H
#define LOCKSTEP_METADATA_H

#include <linux/atomic.h>
#include <linux/mutex.h>

#include "leg.h"
#include "super.h"
#include "transfer.h"

struct mirror;

#define METADATA_SECONDS	5

struct metadata {
	u64 owner;			/* in each superblock that this table writes; not 0 */
	struct mutex lock[LEGS];	/* of that leg's superblock, see above */
	struct super super[LEGS];	/* as last written, or tried to be */
	atomic64_t said[LEGS];		/* the seq it has for certain; 0: none, or it is NEW */
	/*
	 * The last write of it hasn't succeeded (yet): the leg may have that in one slot, in
	 * both, or not at all. The next write that succeeds ends this; see metadata_make_sure().
	 */
	bool unsure[LEGS];
	u64 before[LEGS];		/* owner of the table that it was handed on by; 0: none */
	bool later[LEGS];		/* that one may have written the leg since */
	bool foreign[LEGS];		/* what was found last isn't this table's */
	bool touched[LEGS];		/* its map isn't taken in yet: join.c, begin_alone() */
	struct super mapped[LEGS];	/* the dirty map has its map, as of this; seq 0: no */
	u64 looked[LEGS];		/* when it last was; CLOCK_BOOTTIME in ns, 0: never */
	/*
	 * The device's size, in sectors, when a superblock was first found at its end:
	 * that stays there, though the device may grow while it is in use. A table
	 * reload hands it on (registry.h). 0: none was found yet.
	 */
	u64 size[LEGS];
	void *slots[LEGS];		/* for their I/O: LOCKSTEP_SLOTS_BYTES */
};

/* -ENOMEM, or 0. destroy takes NULL too. */
int __must_check metadata_create(struct mirror *m);
void metadata_destroy(struct mirror *m);

/* The sector of the leg's superblock slots; 0: it has no room for any, or core mode. */
sector_t metadata_place(struct mirror *m, enum leg_id leg);

/*
 * What is on the leg now: at its end, and that only if no move to there has failed. If one from
 * there to where the device ends now was cut short, it is what is newer of the two places, and
 * size[leg] goes with it.
 * Of a leg that can't be read, @found says that; the errno is returned beside it.
 */
int metadata_read(struct mirror *m, enum leg_id leg, struct super_found *found);

/*
 * Is what the leg's superblock says still this table's word? 0, or -ESTALE; -ETIMEDOUT if the leg
 * doesn't answer. What can't be read, or is damaged, is nobody else's word. check: it is read now,
 * under lock[leg]; look: if it hasn't been lately, takes lock[leg]; foreign: by the last look, in
 * any context.
 */
int __must_check metadata_check(struct mirror *m, enum leg_id leg);
int __must_check metadata_look(struct mirror *m, enum leg_id leg);
bool metadata_foreign(const struct mirror *m, enum leg_id leg);

/*
 * In a table reload: what the suspended table before has said on the leg is this table's word, too,
 * until it takes the leg. And: is what was found on it still that, or what this table has said
 * since? Of a leg that wasn't handed on, or was exchanged for one of another uuid, it is. Both
 * where no change can be under way; but if the table before is @busy it may be at one yet, and all
 * that it writes is its word.
 */
void metadata_inherit(struct mirror *m, const struct mirror *from, enum leg_id leg, bool busy);
bool metadata_is_kept(struct mirror *m, enum leg_id leg, const struct super_found *found);

/* Was it this table that has written the superblock in core? Where no change can be under way. */
bool metadata_is_owner(const struct mirror *m, enum leg_id leg);

/*
 * Likewise: the table before has handed on what is in the map of @leg, which is its home.
 * knows_map: and nobody has used the leg since, by the superblock that was taken from it.
 */
void metadata_inherit_map(struct mirror *m, const struct mirror *from, enum leg_id leg);
bool metadata_knows_map(const struct mirror *m, enum leg_id leg);

/* @s is what is on the leg, durably. Under lock[leg], or where no change can be under way. */
void metadata_take(struct mirror *m, enum leg_id leg, const struct super *s);

/*
 * The superblock in core, with what is known of the other leg by now, for who makes the next
 * one of it: first, so that it never tells of an update of the other leg that came after what it
 * was made by. Under lock[leg].
 */
void metadata_next(struct mirror *m, enum leg_id leg, struct super *next);

/*
 * Write @next to the leg; then it is the superblock in core. After an error it
 * isn't, but its seq is used up, and the leg may have it all the same. If it has
 * moved_from, the slots there are zeroed first, and it hasn't any more. -ESTALE: what is there
 * isn't this mirror's, and stays.
 * Under lock[leg].
 */
int __must_check metadata_write(struct mirror *m, enum leg_id leg, struct super *next);

/*
 * The superblock in core, which growth_move() has made and whose map is at its place
 * already, is written to the end of a device that has @sectors now, in growth.h's
 * order. @old: as it was before. After an error the old one counts; not after one of
 * zeroing the old slots, which the next write of it tries again. Under lock[leg].
 */
int __must_check metadata_move(struct mirror *m, enum leg_id leg, u64 sectors,
			       const struct super *old);

/*
 * Let @change (NULL: nothing) change the superblock, and write it, as one in use. What
 * @change returns, if it isn't 0, is returned and nothing is written. Takes
 * lock[leg].
 */
int __must_check metadata_update(struct mirror *m, enum leg_id leg,
				 int (*change)(struct mirror *m, struct super *s));

/*
 * Is what the leg's superblock says in doubt, for a write of it has failed or is under way? Any
 * context. And have it say, for certain, what it says in core, as one in use: it is written once
 * more, or, if it can't be written, it is read, and nothing of what failed is there. Takes
 * lock[leg].
 */
bool metadata_unsure(const struct mirror *m, enum leg_id leg);
int __must_check metadata_make_sure(struct mirror *m, enum leg_id leg);

/* Not 0: for generation ids. */
u64 metadata_random(void);

/* The map epoch of the superblock in core. */
u64 metadata_epoch(const struct mirror *m, enum leg_id leg);

/* Which page of the map the activity log begins with; LOCKSTEP_ACTIVITY_PAGES are its. */
unsigned long metadata_log_page(const struct mirror *m, enum leg_id leg);

/*
 * Some pages (of LOCKSTEP_MAP_PAGE sectors) of the leg's map, up to METADATA_MAP_PAGES. @pages is
 * the caller's on return. Written ones are durable when the run has ended.
 */
#define METADATA_MAP_PAGES	(TRANSFER_MAP_BYTES / (LOCKSTEP_MAP_PAGE << SECTOR_SHIFT))
void metadata_write_map(struct transfer_run *run, unsigned long index, void *pages, unsigned int n);
int __must_check metadata_read_map(struct mirror *m, enum leg_id leg, unsigned long index,
				   void *pages, unsigned int n);

#endif
