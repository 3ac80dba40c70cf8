/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ask: does a leg answer? A leg that hangs is given up only if the other one does (watch.h).
 *
 * The question is a read of one block: of the leg's superblock, or of its first block in core
 * mode; if that fails, of another place, and of a third one, as each may have a bad sector. Nobody
 * waits for the answer: who asks comes again later. So a leg that reads and doesn't write passes
 * for one that answers.
 *
 * Locking: the watch's worker is the only caller of ask_leg() and ask_rest(); ask_stop() when it
 * has ended.
 */
#ifndef LOCKSTEP_ASK_H
#define LOCKSTEP_ASK_H

#include "transfer.h"

struct mirror;

/* An answer counts for so long, or till the next look; and for so long its absence says nothing. */
#define ASK_MS	1000u
#define ASK_PLACES	3u

struct ask {
	struct transfer t;
	void *block;			/* the answer */
	unsigned int bytes;		/* a logical block */
	unsigned long since;		/* jiffies: when it was asked */
	bool asked;			/* and the answer wasn't looked at yet */
	bool awaited;			/* and who asks has come for it ever since */
	unsigned int place;		/* which one */
};

/* Of a leg with a device. NULL: out of memory; destroy and stop take that, too. May sleep. */
struct ask *ask_create(const struct leg *leg);
void ask_destroy(struct ask *a);

/*
 * Does the leg, which is alive, answer? Process context, doesn't sleep. 0: it has answered within
 * ASK_MS, or since who asks came last. -EINPROGRESS: it was asked within ASK_MS, and what it says
 * isn't known yet. Else it has said nothing for longer (-ETIMEDOUT), or no place of it can be
 * read: the errno of the last.
 */
int __must_check ask_leg(struct mirror *m, enum leg_id leg);

/* Nobody has to know for now: by the time that somebody has to, an answer may be old. */
void ask_rest(struct ask *a);

/* Nobody wants to know any more: what is still out drains as abandoned I/O does (write.h). */
void ask_stop(struct ask *a);

#endif
