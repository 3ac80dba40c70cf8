/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slots: what becomes of the slots of the NVRAM (slots.c), and of those of them that have media
 * errors (bad-slots.c). Where it isn't said otherwise: any context, no lock is held. "Needs @lock":
 * the engine's, taken with spin_lock().
 */
#ifndef DCD_SLOTS_H
#define DCD_SLOTS_H

#include <linux/types.h>

struct dcd_engine;
struct dcd_place;
struct dcd_slot;

/*
 * slots.c. The bytes of a place that is in memory, else NULL; good until the
 * caller, who is in @copiers, leaves it; that has to come soon: only after a copy, by the second.
 * False: a media error, which has been told; the log may have it.
 */
const u8 *dcd_place_in_slot(struct dcd_engine *e, const struct dcd_place *p);
bool __must_check dcd_slot_read(struct dcd_engine *e, const u8 *from, void *to, size_t bytes);
/*
 * Copies the bytes of a place that is in memory, and returns 0; else the sector of the log
 * disk that has them.
 */
u64 __must_check dcd_place_copy(struct dcd_engine *e, const struct dcd_place *p, void *buf);
/*
 * Copies what is in a slot behind its header; false: not all could be read, and the slot has been
 * told (what couldn't is zeroes, so checksums tell). The caller is in @copiers, or has it.
 */
bool dcd_slot_copy(struct dcd_engine *e, const struct dcd_slot *s, void *buf);
/* All of a segment that is in memory and whole; its first entry. How many, or -ENOENT. */
int dcd_slot_whole(struct dcd_engine *e, u64 segment, void *buf, u64 *first);
/*
 * The slot of the segment to open next, NULL: none yet, or the log is full, but for what
 * is logged @again. Needs @lock.
 */
struct dcd_slot *dcd_slot_free(struct dcd_engine *e, bool again);
/* It gets that segment, which the caller fills in. Needs @lock. */
void dcd_slot_opened(struct dcd_engine *e, struct dcd_slot *s);
/* Something that counts is in all of them. Needs @lock. */
bool dcd_slots_used_up(const struct dcd_engine *e);
/* It will be free, whatever becomes of the disks. Needs @lock. */
bool dcd_slot_coming(struct dcd_engine *e);
/* The oldest that isn't in the log, if the log is dead or not as @dead says; else NULL. */
struct dcd_slot *dcd_slot_next_sealed(struct dcd_engine *e, bool dead);
/* Slots were used up or became clean: make some free ahead of the head. */
void dcd_slots_kick(struct dcd_engine *e);
void dcd_reuse_worker(struct work_struct *work);
/* The slot, which is next, is durable in the log. */
void dcd_slot_committed(struct dcd_engine *e, struct dcd_slot *s, bool pinned);
/*
 * May one more be pinned? Those that are keep what the log can't give, and are read in its place,
 * until that is on the data disk and a superblock says so. No more than half of them; @most:
 * of those that are good, all but what writes need. At recovery: @s has all of @segment, and is
 * pinned.
 */
bool __must_check dcd_slots_may_pin(struct dcd_engine *e, bool most);
void dcd_slot_pin(struct dcd_engine *e, struct dcd_slot *s, u64 segment);
/* Segments below @target, entries up to @applied, are on the data disk. Needs @lock. */
void dcd_slots_bypassed(struct dcd_engine *e, u64 target, u64 applied);
/* The tail has moved, and a superblock or the NVRAM's header says so. Needs @lock. */
void dcd_slots_unpin(struct dcd_engine *e);
/*
 * @s keeps only its first @entries, up to byte @used, and gets no more; without any, and behind
 * it, slots are free again. @counts: dcd_counts() of what it loses. None of that was published.
 * Needs @lock.
 */
void dcd_slots_take_back(struct dcd_engine *e, struct dcd_slot *s, u32 entries, u32 used,
			 u32 counts);
/* At recovery: what was found in @s is @segment. When all is known: the others are idle. */
void dcd_slot_recovered(struct dcd_engine *e, struct dcd_slot *s, u64 segment, bool in_log);
void dcd_slots_begin(struct dcd_engine *e);

/*
 * bad-slots.c. What is at @at, in a slot, can't be read: @sectors of it. No lock is held.
 * Nothing that counts is in a bad one any more: needs @lock. At the open: are enough good?
 */
void dcd_slot_unreadable(struct dcd_engine *e, const void *at, unsigned int sectors);
void dcd_slot_retire(struct dcd_engine *e, struct dcd_slot *s);
int __must_check dcd_slots_check(struct dcd_engine *e);
u32 dcd_slot_number(const struct dcd_engine *e, const void *at);	/* in the NVRAM */
bool dcd_slots_drain(const struct dcd_engine *e);	/* a test knob's; needs @lock */

#endif /* DCD_SLOTS_H */
