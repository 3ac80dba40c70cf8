/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Transfer: an I/O of the mirror's own to one leg: metadata, a flush, a chunk, a
 * read that is tried again. Not the callers' I/O: that is write.h's and read.h's.
 *
 * A leg may hang, and nobody who could go on without it is to wait for it. So a
 * transfer is waited for until it returns, or is abandoned:
 *  - when its leg dies: by an error, because it hangs (watch.h), or by "fail";
 *  - on a dead leg, which only a join uses (join.h): after JOIN_SECONDS, or later if nobody wants
 *    the join to end, or as soon as joins are to stop. Anybody else's ends at once: the join may be
 *    about to find that the leg is no more this mirror's;
 *  - what a join reads of the other leg, which is alive: likewise, or after LOOK_SECONDS if the
 *    join can do without;
 *  - a chunk that is read from a silent leg, when the table is suspended or nobody
 *    waits for it any more;
 *  - what a message needs of a silent leg, as soon as the table is being suspended: dm waits for
 *    messages before it waits for anything else;
 *  - whatever goes to a silent leg, once all of the callers' I/O has ended and the table is as
 *    good as suspended: a suspend and a removal end though the only good leg hangs. A write
 *    that was abandoned so is late: the same table isn't resumed before it has returned
 *    (transfers_late()), since its next writes mustn't be overtaken by it;
 *  - likewise after the leg's timeout, or WATCH_TELLS_MS if it has none, while the table is
 *    suspended and nobody watches it any more: a parting that a message has begun then;
 *  - likewise, but some seconds later than the watch would give the leg up if somebody stood in
 *    for it, what a resume of the same table writes: it is refused then;
 *  - while the mirror has not been started yet, so that nothing can be given up: after the leg's
 *    timeout, if it has one. Then the start fails; the next one by this table, and the next resume,
 *    waits twice as long, up to START_MS_MOST.
 * What is abandoned ends for who waits with -ETIMEDOUT, and what the leg has answered with an
 * error, whichever that is, with -EIO. Unless it was still with the
 * sender, it may reach the leg, so it counts with the abandoned writes (write.h), and the leg
 * isn't used again before it has returned. Its memory stays until then.
 *
 * Each is submitted by the leg's sender (sender.h). Errors are counted and traced for the
 * leg, if it is alive; what they mean is the caller's business.
 *
 * Memory: transfer_now() and transfer_read() take pages of their own from
 * reserves. TRANSFER_RESERVE is more than can be under way on both legs, abandoned
 * ones included: on each one superblock, one map page of the map's worker and one
 * of who has stopped it, and one of a join. Of these map pages several may be one larger write,
 * from a reserve of its own. What a run has under way beside its first one is from no reserve: it
 * does without if there is no memory. A read that is tried again has another
 * reserve, and waits for it no longer than the leg lives; a read of transfer_now() that is larger
 * than a superblock waits for that. A chunk has its own pages.
 */
#ifndef LOCKSTEP_TRANSFER_H
#define LOCKSTEP_TRANSFER_H

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/mempool.h>

#include "leg.h"
#include "write-pool.h"

struct mirror;

#define JOIN_SECONDS		10U
#define JOIN_SECONDS_MOST	320U
#define LOOK_SECONDS		2
#define START_MS_MOST		60000U
#define TRANSFER_RESERVE	8
#define TRANSFER_MAP_RESERVE	4
#define TRANSFER_MAP_BYTES	(64U << 10)
#define TRANSFER_RUN_BYTES	(256U << 10)
#define TRANSFER_RUN_MOST	(4U << 20)

struct transfer {
	struct mirror *m;
	enum leg_id leg;
	struct bio bio;			/* its pages are added after transfer_init() */
	struct bio_vec vecs[IO_MAX_PAGES];
	/* A read: NULL, or false when nobody waits for it any more. Set between init and submit. */
	const bool *wanted;
	u64 ns;				/* that it took; 0 if it was abandoned */
	unsigned long ended;		/* jiffies */

	/* private */
	sector_t sector;
	ktime_t began;
	struct completion done;
	struct sender_item item;
	mempool_t *pool;		/* NULL: the memory is the caller's */
	/* state lock */
	struct list_head link;		/* in transfers.waited */
	unsigned int users;		/* who waits, and the leg */
	bool out;			/* on the leg */
	bool joins;			/* the leg is dead, and its join's own */
	bool looks;			/* a read of the other leg, by a join */
	bool told;			/* by who brings a message (message.h) */
	bool abandoned;
	bool late;			/* a write that may reach a leg which is alive */
	blk_status_t status;
};

struct transfers {
	struct list_head waited;	/* state lock, and the next */
	unsigned int late[LEGS];
	mempool_t metadata;		/* of struct owned */
	mempool_t maps;
	mempool_t reads;
};

/*
 * May sleep; nothing else of the mirror but its legs and the state lock need be
 * there. -ENOMEM, or 0. destroy takes what hasn't been created, all zero, too.
 */
int __must_check transfers_create(struct mirror *m);
void transfers_destroy(struct mirror *m);

/**
 * transfer_now - do one, and wait for it
 * @buffer: is copied to or from pages of its own, so it is the caller's on return. NULL, of a read:
 *	    that it can be read is all that is wanted
 * @bytes: up to TRANSFER_MAP_BYTES; of a read up to IO_MAX_SECTORS; 0: a flush
 *
 * Process context, sleeps. 0 or an errno.
 */
int __must_check transfer_now(struct mirror *m, enum leg_id leg, blk_opf_t opf, sector_t sector,
			      void *buffer, unsigned int bytes);

/*
 * Writes that need no order among them: several are under way, of no more than TRANSFER_RUN_BYTES,
 * as the next write of the application's comes behind them; or TRANSFER_RUN_MOST while those all
 * wait for it anyway, in a start, a suspend or a parting. begin: of which leg. write: as
 * transfer_now(), but it sleeps only while there are so many, or no memory, and does nothing after
 * an error. end: waits for all; 0, or the first one's errno. It has to be called, and others may be
 * written then. Process context.
 */
struct transfer_run {
	struct mirror *m;
	enum leg_id leg;
	struct list_head under_way;
	unsigned int bytes, most;
	int error;
};

void transfer_run_begin(struct transfer_run *run, struct mirror *m, enum leg_id leg);
void transfer_run_write(struct transfer_run *run, blk_opf_t opf, sector_t sector, void *buffer,
			unsigned int bytes);
int __must_check transfer_run_end(struct transfer_run *run);

/* Flush the leg's cache. Likewise. */
int __must_check transfer_flush(struct mirror *m, enum leg_id leg);

/*
 * Read from the leg what @bio asks for, up to IO_MAX_SECTORS; its iter stays. Goes through pages of
 * the mirror's own, as an abandoned one must not write to the caller's. Likewise.
 */
int __must_check transfer_read(struct mirror *m, enum leg_id leg, struct bio *bio);

/*
 * In steps, and in memory of the caller's, which stays until the transfer has
 * returned from the leg, too. Between init and submit the pages are added to
 * t->bio. Submit in process context, it doesn't sleep; wait as above. Init returns
 * false, and changes nothing, if its last use was abandoned and is still out.
 */
bool __must_check transfer_init(struct transfer *t, struct mirror *m, enum leg_id leg,
				blk_opf_t opf, sector_t sector);
void transfer_submit(struct transfer *t);
int __must_check transfer_wait(struct transfer *t);

/*
 * Instead of waiting, for who may not, and errors are neither counted nor traced. Any context.
 * ended: -EINPROGRESS, or what transfer_wait() returns, and when it ended, in jiffies. give_up:
 * nobody wants to know; one that hasn't ended is abandoned.
 */
int __must_check transfer_ended(struct transfer *t, unsigned long *ended);
void transfer_give_up(struct transfer *t);

/* Under the state lock: abandon those that nobody has to wait for any more. */
void transfers_abandon(struct mirror *m);

/* May a write that was abandoned in a suspend still reach a leg that is alive? Any context. */
bool transfers_late(struct mirror *m);

#endif
