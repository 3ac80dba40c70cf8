/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A blip: the log is away for a moment, as a disk behind a switch, a multipath or an expander is
 * that has to find its way again: all that it is asked for fails at once, and works a moment later.
 *
 * A log that is dead costs much (engine.h): without an NVRAM that keeps its content all writes are
 * refused until everything is on the data disk. So who writes to the log tries the same again,
 * after a pause that grows from 4 to 128 ms, and only what has failed for DCD_BLIP since it was
 * refused first has failed. What NVRAM has room for is acknowledged meanwhile, and all else waits.
 * Where NVRAM keeps its content writes can go on past a dead log, so there that time is shorter,
 * and the first try counts: they wait no longer than NVRAM has room for. Where it doesn't a log
 * that takes that long to say that it has failed is asked once more: what was under way when a path
 * broke is slow to fail, and its next request may be good.
 *
 * Reads of the destager fail, too, and with the log full no room comes before they succeed. A log
 * that doesn't give its superblock either may be away: for DCD_BLIP_READS that is nothing to refuse
 * a write for, who waits for room waits.
 *
 * The data disk may be away, too, for three seconds since it was last known to be well, or hung
 * before it refused anything: the destager tries again, and no write is refused meanwhile.
 *
 * Process context; they sleep.
 */
#ifndef DCD_BLIP_H
#define DCD_BLIP_H

#include <linux/types.h>

struct dcd_engine;

#define DCD_BLIP	(2 * HZ)
#define DCD_BLIP_KEEPS	(HZ / 2)
#define DCD_BLIP_READS	(4 * HZ)

/* What is tried, or refused: since when (jiffies), how often in vain, the next pause in ms. */
struct dcd_blip {
	unsigned long since;
	unsigned int failed;
	unsigned int pause;
};

/* The destager's: since when the log gives nothing, and when that was found last; jiffies. */
struct dcd_mute {
	unsigned long since, seen;
	bool is;
};

void dcd_blip_begin(struct dcd_blip *b);
/*
 * A write to the log, or a read that proves it, has ended with @error. True, after a pause: it is
 * to be tried again. False: it was good, or that is a dead log.
 */
bool __must_check dcd_blip_again(struct dcd_engine *e, struct dcd_blip *b, int error);
/* The log gives nothing at all just now: may it yet be away for a moment only? The destager's. */
bool __must_check dcd_blip_mute(struct dcd_engine *e);
/*
 * A round of the destager has failed: may the data disk yet be away for a moment only? Past a dead
 * log a round may fail by that one. Any context.
 */
bool __must_check dcd_blip_data(const struct dcd_engine *e);

#endif /* DCD_BLIP_H */
