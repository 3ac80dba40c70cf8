/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Moment: how much of the destager's time zeroes may have, and how many of them there may be.
 *
 * Each piece of them is a range of the index and an entry that is logged again in each turn, so
 * there mustn't be any number: when there are many, more zeroes wait at the intake, the longer the
 * more there are, and no write waits for those; but not what puts pieces together, nor what is so
 * long that the disk has no room for too many such pieces. The nearer that is, the more of its
 * time the destager has for the shortest of them, up to a fifth. A write into the middle of a piece
 * makes two of it: when there are more than zeroes alone may be, writes are paced by that, too
 * (pace.h).
 *
 * Where it is they that fill the log, or where the data disk can do better than write them, they
 * have a moment in each batch. But pieces make many batches: while writes wait for the ring they
 * have that part of the time only; until there are so many that writes wait for them.
 *
 * Past a dead log no slot of NVRAM is free before a round is over. So an NVRAM that keeps its
 * content has zeroes logged again there, as what is lost has to be (lost.h), in a quarter of the
 * places that it has for entries; what is more is wiped in the round. Of the rest as many are wiped
 * as there is time for while half of the slots are free.
 *
 * The destager's, no locks, but where it says so. Times are in us.
 */
#ifndef DCD_MOMENT_H
#define DCD_MOMENT_H

#include <linux/types.h>

#include "pace.h"

struct dcd_engine;

#define DCD_MOMENT_US	30000
#define DCD_ZEROES_STAY	101

/* How much may be wiped now. */
enum dcd_wiping {
	DCD_WIPE_NONE,
	DCD_WIPE_SOME,		/* for a moment, each batch */
	DCD_WIPE_ALL,
};

/*
 * What zeroes may have of one batch: @all that they need, or wipes of @any for @us, as it has more
 * for each load of data (@us_each), and so many @smalls, parts of granules. @ends: when that time
 * is over the next batch begins.
 */
struct dcd_moment {
	bool all, any, ends;
	s64 us;
	u64 us_each;
	unsigned int smalls;
};

/*
 * Only while nobody needs the log (@urgent) they have all the time that they take. Those that can't
 * be logged again have to go to the data disk, whoever waits. The destager's.
 */
enum dcd_wiping dcd_zeroes_now(struct dcd_engine *e, bool urgent);
/* Past the log, so many pieces: from round to round they are in old and in new slots. */
u64 dcd_zeroes_past_most(const struct dcd_engine *e);
/* Of a batch that is about to be collected. */
struct dcd_moment dcd_zeroes_moment(struct dcd_engine *e, enum dcd_wiping wiping);
/* One load of data is in it. _over: what it took too much is the next one's. */
void dcd_moment_data(struct dcd_moment *m);
void dcd_moment_over(struct dcd_engine *e, const struct dcd_moment *m);
/*
 * Is there time for one more wipe that takes so long? What is begun is done. Or for a part of a
 * granule, which is as quick as a load of data?
 */
bool __must_check dcd_moment_has(struct dcd_moment *m, u64 us);
bool __must_check dcd_moment_fills(const struct dcd_engine *e, struct dcd_moment *m);
/*
 * While the log is needed shorter pieces than that are wiped, in the time that all of them have,
 * which takes the fewest sectors for each that is gone. The fuller it is, the more of them are.
 */
u64 dcd_moment_short(const struct dcd_engine *e);
/* So many of them took @us, and wipes @wiping more. */
void dcd_zeroes_learn(struct dcd_engine *e, u32 loads, u64 us, u64 wiping);
/* What takes @us for data takes so long with the wipes beside them, while the log is needed. */
u64 dcd_with_zeroes(const struct dcd_engine *e, u64 us);
/*
 * Any context. Are there so many pieces that the destager has to be at them? How full that is, of
 * which writes may have the last part.
 */
bool dcd_zeroes_crowd(const struct dcd_engine *e);
struct dcd_level dcd_zeroes_level(const struct dcd_engine *e);
/*
 * For how long zeroes from @sector to @last wait before the next entry of them, unless some others
 * are gone before: percent of half of busy_after_ms; 0: not at all; DCD_ZEROES_STAY: as long as it
 * takes. The more there are the longer it is. So a queue of them, which writes of the same session
 * may be in, isn't held up by few. Any context.
 */
unsigned int dcd_zeroes_wait(struct dcd_engine *e, sector_t sector, sector_t last);

#endif /* DCD_MOMENT_H */
