/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lost: what the log was the only one to have, and can't give any more, as that place of it is
 * damaged or unreadable. The data disk has older data there, so nobody may be given those: a read
 * is a medium error, until something is written, discarded or zeroed over it.
 *
 * Such a place mustn't hold the tail for ever. While there is room it only waits (DCD_LOAD_LEFT),
 * as a disk or its cable may be mended; each for half a minute, and when no more than an eighth of
 * the ring is free for a few seconds and a second read at least, which is less than a write waits
 * for room, but where a read takes seconds itself: then writes are slowed meanwhile (admission.c).
 * And it has to be that place: at each of several times it can't be read, and one copy of the
 * superblock can, many times. A log that fails at random is waited for as one that is away.
 * Then what is left of it in the index is logged at the head as DCD_ENTRY_LOST, 64 bytes however
 * long it is, and that is logged again as bad places of the data disk are (stuck.h): so it outlives
 * everything, and costs no more than all of it once for each quarter of the ring. Recovery makes
 * the same of a segment of which only payloads are damaged (plan.h), but for what the data disk has
 * already (wounded.h).
 *
 * With the log dead an NVRAM that keeps its content goes on past it, and the header's `applied`
 * with it: whoever starts then doesn't take the log's word for anything below that, nor its LOST.
 * So each round past the log puts what is lost into the newest slots of NVRAM before it says that
 * all before those is applied: at every moment an entry that counts says it, in the log before, in
 * NVRAM then, and in the log again when that works. What such a round finds damaged joins them at
 * once, as nothing else gets past it: if the log answers, and with other bytes, or was never given
 * them. What else it can't read is read again in each round for a few seconds, as a log may be away
 * for a moment, and writes wait meanwhile when all slots are full; then it is for whoever mends it,
 * or leaves the log, and they are refused. No write is held by what is lost, as some slots are kept
 * for it (admission.c), one of them always (slots.c): that is room for what
 * is found in one round, 64 such places with tables of 4 KiB. NVRAM that is too small for that
 * (two slots are), or worn, can't go on: the round fails, and when all slots are full writes are
 * refused, with a message that says so. With any other NVRAM they are refused in any case, and the
 * log isn't disowned.
 *
 * There may be DCD_LOST_RANGES of them, with 1/16 of the ring's sectors in all, before no more is
 * given up; nor is anything of a log that doesn't give its superblock either. That disk fails:
 * its places hold the tail, and when the ring is full writes are refused. Nothing is ever given
 * up by that but what was damaged: the data disk isn't written there.
 *
 * @n and @sectors are the index's, under @intake, and may be read by anybody (READ_ONCE); the
 * rest is the destager's. Process context; dcd_lost_judge() sleeps for the log, a moment at most.
 */
#ifndef DCD_LOST_H
#define DCD_LOST_H

#include <linux/types.h>

struct dcd_engine;
struct dcd_load;
struct dcd_place;

#define DCD_LOST_RANGES 256U

/*
 * What couldn't be read lately, at @at of the ring's unrolled space: when it was found, and seen
 * last; jiffies. How often it has @failed, as it may have been late (late.h) only. Of more than
 * DCD_LOST_RANGES those that were seen longest ago begin anew.
 */
struct dcd_doubt {
	u64 at;
	unsigned long since, seen;
	unsigned int failed;
	bool used;
};

enum dcd_away {
	DCD_AWAY_UNKNOWN,	/* the log doesn't answer */
	DCD_AWAY_NOT,
	DCD_AWAY,
	DCD_AWAY_LONG,
};

struct dcd_lost {
	unsigned long n;
	u64 sectors;
	int others;			/* what gives_others() has found, if @others_known */
	bool others_known;		/* for this batch */
	unsigned long giving_n;		/* of this batch, which the index doesn't know yet */
	u64 giving_sectors;
	struct dcd_doubt *doubts;
	bool any;			/* are there some, the last one @seen then? */
	unsigned long seen;		/* jiffies */
};

int __must_check dcd_lost_init(struct dcd_engine *e);
void dcd_lost_free(struct dcd_engine *e);

/*
 * Has what is at @at of the ring been read in vain just now? Then not again before it may be given
 * up; but past a dead log it is read in each round while it may only be away for a moment. Has it
 * been, or was it late, in the last half minute? It is late now, or has failed. The destager's.
 */
bool dcd_lost_rests(const struct dcd_engine *e, u64 at);
bool dcd_lost_doubtful(const struct dcd_engine *e, u64 at);
void dcd_lost_late(struct dcd_engine *e, u64 at);
void dcd_lost_failed(struct dcd_engine *e, u64 at);
/* The loads of another batch are judged. */
void dcd_lost_begin(struct dcd_engine *e);
/*
 * A load couldn't be read from the log. Its kind becomes what is done with it: LEFT, or AGAIN with
 * @lost; or it keeps its error.
 */
void dcd_lost_judge(struct dcd_engine *e, struct dcd_load *l);
/* It isn't known yet whether it can be read: it stays where it is, for now. */
void dcd_lost_wait(struct dcd_load *l);
/*
 * Once more, for the last time: can't it be read? What takes long has to have failed before, unless
 * that is @enough, or others have taken as long as who leaves the log waits for. Sleeps for the
 * log, a moment at most.
 */
bool dcd_lost_gone(struct dcd_engine *e, const struct dcd_load *l, bool enough);
/*
 * Has it failed for no longer than a moment? Does the log give nothing at all: for a moment, or for
 * longer? _gave(): it has just been read somewhere. Of who goes past the log, or leaves it.
 */
bool __must_check dcd_lost_young(const struct dcd_engine *e, u64 at);
enum dcd_away __must_check dcd_lost_away(struct dcd_engine *e);
void dcd_lost_gave(struct dcd_engine *e);
/* A load of what is lost already. */
void dcd_lost_keep(struct dcd_engine *e, struct dcd_load *l, bool past_log);
/* It, or a bad place's data, can't be logged again: what of that is whose error. */
void dcd_lost_no_room(struct dcd_engine *e, struct dcd_load *l, int error);
/* The test knob lost_stays: never in a shipped build. */
bool dcd_lost_stays(void);

#endif /* DCD_LOST_H */
