/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Beyond: how far the data disk has got past a log that is dead, with an NVRAM that has
 * acknowledged writes and doesn't outlive the engine (@keeps is false). What such a log has of
 * before is older than the data disk, and it can't be told. If it works again, after a close or a
 * crash, it must not be believed. (An NVRAM that keeps its content has it in its header.)
 *
 * It is said at the end of each round past the log, when everything up to an entry is durable on
 * the data disk. That entries up to it are there stays true whatever comes later, so
 * nothing has to take it back:
 * - On the data disk, where that is the leg of a mirror that knows of this log
 *   (lockstep-format.h, log_applied), where that has its superblock (leg.h). It is the DCD that
 *   writes this superblock then, below the mirror that uses it. That one's own writes are refused
 *   meanwhile, and what it had written before is what is on the disk, as the round has ended. This
 *   outlives everything.
 * - A data disk that is no leg has no place for it. Then this kernel knows it, from the close on,
 *   and the module can't be unloaded: as long as a "dram:battery" keeps its promise.
 *   It is told that a reboot ends that. The module's parameter logs_behind tells the command
 *   `dcd` of them.
 *
 * Who opens the log takes nothing of it up to there, and tells it, as soon as it works.
 */
#ifndef DCD_BEYOND_H
#define DCD_BEYOND_H

#include <linux/types.h>

struct dcd_beyond;
struct dcd_engine;

/* NULL: no memory. */
struct dcd_beyond * __must_check dcd_beyond_new(void);
void dcd_beyond_free(struct dcd_beyond *b);

/*
 * At open, with the superblock: sets the header's @applied. -EMEDIUMTYPE, told: the data disk was
 * taken into use without this log, whatever its NVRAM is (leg.h); -EIO, told: where it would say so
 * can't be read. Sleeps.
 */
int __must_check dcd_beyond_open(struct dcd_engine *e);

/*
 * @sectors: the size of the data disk at the end of which that leg lies, or 0: none is known. An
 * errno, with 0: one may be where nothing can be read. Sleeps.
 */
int __must_check dcd_beyond_leg(struct dcd_engine *e, u64 *sectors);

/*
 * May the data disk end there from now on, which is larger than it was? 0; -EMEDIUMTYPE, told:
 * there is a leg that names another log, so the DCD couldn't be opened any more; -EIO, told: that
 * can't be read. Sleeps.
 */
int __must_check dcd_beyond_may_end(struct dcd_engine *e, u64 sectors);

/*
 * The log is dead, and doesn't know that everything up to entry @applied is durable on
 * the data disk, and there is nothing else. The destager's.
 */
void dcd_beyond_say(struct dcd_engine *e, u64 applied);

/* Is what was said last on the data disk? */
bool dcd_beyond_on_leg(const struct dcd_engine *e);

/*
 * Is what was said last everything: was nothing even reserved since? Then all is on the data disk,
 * and only the log can't be told. At the close.
 */
bool dcd_beyond_has_all(struct dcd_engine *e);

/* At the close's end: @behind: what was said last is so, and the log doesn't know. Sleeps. */
void dcd_beyond_close(struct dcd_engine *e, bool behind);

#endif
