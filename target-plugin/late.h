/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes of the data disk that take long: a disk that tries a bad sector for seconds before it says
 * so, or for ever. The destager doesn't wait for them, so that all else gets there meanwhile and
 * the log doesn't fill.
 *
 * When nothing of a batch has returned for DCD_LATE, what of it is under way is late: its ranges
 * are held (stuck.h), so nothing else is written there until it has returned, and what is to be
 * there stays in the log. The batch waits by itself with its memory; the destager goes on with
 * another one. What has returned is destaged as ever. What the disk didn't take, while it takes
 * others, is a bad place as it is; what of it is good is found when that is tried.
 *
 * There may be DCD_LATE_BATCHES of them, with what may be held. Beyond that it is waited for, and
 * so it is past a dead log, where nothing can stay.
 *
 * The destager's, but for dcd_late_under_way(). Process context.
 */
#ifndef DCD_LATE_H
#define DCD_LATE_H

#include <linux/types.h>

struct dcd_batch;
struct dcd_engine;

#define DCD_LATE (HZ / 4)
#define DCD_LATE_BATCHES 8U

/*
 * @batch: NULL where there is none; @n of them. Both change with the lock held. @spare: for the
 * destager then.
 */
struct dcd_lates {
	struct dcd_batch *batch[DCD_LATE_BATCHES];
	unsigned int n;
	struct dcd_batch *spare;
};

/*
 * What of @b is under way is late from now on. False: it has to be waited for. Sleeps for memory.
 * _keep(): when the destager is done with all else of it.
 */
bool __must_check dcd_late_begin(struct dcd_engine *e, struct dcd_batch *b);
void dcd_late_keep(struct dcd_engine *e, struct dcd_batch *b);
/* Those that have returned. Sleeps for the data disk. */
void dcd_late_look(struct dcd_engine *e);
/* Any process context. Who frees the engine waits until there is none. */
bool dcd_late_under_way(struct dcd_engine *e);
void dcd_late_free(struct dcd_engine *e);

#endif /* DCD_LATE_H */
