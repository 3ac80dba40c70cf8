/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes of the data disk, and reads of the log, that take long: a disk that tries a bad sector for
 * seconds before it says so, or for ever. The destager doesn't wait for them, so that all else gets
 * to the data disk meanwhile and the log doesn't fill.
 *
 * When none of a batch's writes has returned for DCD_LATE, what of it is under way is late: its
 * ranges are held (stuck.h), so nothing else is written there until it has returned, and what is to
 * be there stays in the log. The batch waits by itself with its memory; the destager goes on with
 * another one. What has returned is destaged as ever. What the disk didn't take, while it takes
 * others, is a bad place as it is; what of it is good is found when that is tried. What it took may
 * be gone with its cache if a flush has failed since then, so it is copied again.
 *
 * When none of a batch's reads has returned for so long, nor is what they are for read by anybody
 * else: it keeps its place in the log (DCD_LOAD_LEFT), and the tail comes no further than that.
 * What has come is destaged as ever, and the batch waits likewise. What comes late is taken from it
 * if the index knows nothing newer; it goes to the data disk then, or it is what the log can't give
 * (lost.h). Where a read was late or failed nobody waits for the next one at all.
 *
 * There may be DCD_LATE_BATCHES of them. Beyond that a write is waited for, as it is when no more
 * may be held, and past a dead log, where nothing can stay. Of the log nothing more is read, then:
 * what is only there rests until some of it has answered. So a log that doesn't answer at all holds
 * neither the destager nor a close.
 *
 * The destager's, but for dcd_late_under_way(). Process context.
 */
#ifndef DCD_LATE_H
#define DCD_LATE_H

#include <linux/types.h>

struct dcd_batch;
struct dcd_engine;
struct dcd_load;
struct dcd_mark;

/*
 * How many I/Os at a time each disk may have now; 0 is to stop. Asked again and
 * again.
 */
typedef unsigned int dcd_width(struct dcd_engine *e);

#define DCD_LATE (HZ / 4)
#define DCD_LATE_BATCHES 16U
#define DCD_LATE_LEAVES (30 * HZ)	/* who leaves the log doesn't wait for it any longer */

/*
 * @batch: NULL where there is none; @n of them. Both change with the lock held. @spare: for the
 * destager then. @flushes_failed: so many of the data disk.
 */
struct dcd_lates {
	struct dcd_batch *batch[DCD_LATE_BATCHES];
	unsigned int n;
	struct dcd_batch *spare;
	unsigned int flushes_failed;
};

/*
 * What of @b is under way is late from now on. False: it has to be waited for. Sleeps for memory.
 * _keep(): when the destager is done with all else of it; he gets another one for it.
 */
bool __must_check dcd_late_begin(struct dcd_engine *e, struct dcd_batch *b);
struct dcd_batch * __must_check dcd_late_keep(struct dcd_engine *e, struct dcd_batch *b);
/*
 * May the log be asked for something, @doubtful or not? May what of @b is being read be late? Then
 * _unread() says what is: how many.
 */
bool dcd_late_may_read(const struct dcd_engine *e, bool doubtful);
bool __must_check dcd_late_may_be(struct dcd_engine *e);
unsigned int dcd_late_unread(struct dcd_engine *e, struct dcd_batch *b);
/* Is somebody reading what is at @at of the ring? *@since: when he began, or a moment later. */
bool dcd_late_reads(const struct dcd_engine *e, u64 at, unsigned long *since);
/* Has whoever leaves the log waited for some of them for as long as he does? */
bool __must_check dcd_late_too_long(const struct dcd_engine *e);
/* Those that have returned; the mark is what one is now. Sleeps for the data disk, and for room. */
void dcd_late_look(struct dcd_engine *e, const struct dcd_mark *now, dcd_width *width);
/*
 * A flush of the data disk has failed: what had returned before that may not be there. _lasts(): of
 * what was begun when @flushes_failed was as it is told, has none failed since?
 */
void dcd_late_flush_failed(struct dcd_engine *e);
bool __must_check dcd_late_lasts(const struct dcd_engine *e, unsigned int flushes_failed);
/* Any process context. Who frees the engine waits until there is none. */
bool dcd_late_under_way(struct dcd_engine *e);
void dcd_late_free(struct dcd_engine *e);

#endif /* DCD_LATE_H */
