/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Scatter: a batch as one WRITE SCATTERED(16) (SBC-4), or a few, to the remote leg,
 * where that is a SCSI disk (or a partition of one) that knows the command. A DCD makes
 * one atomic record of it, so that after a power cut of the mirror site all that was in
 * one is there or nothing of it; the standard promises no such thing.
 *
 * The leg is asked when the first batch goes out, and again when it has died and come
 * back, or its cache was switched on or off: REPORT SUPPORTED OPERATION CODES, then VPD
 * page B7h for its limits. Nobody waits for the answers: until they are there, batches
 * go as writes.
 *
 * What takes part: adjacent runs of a batch (batch.h), two or more at a time, as many
 * as leg and queue take, with `scatter auto` of SCATTER_AUTO_SECTORS at most. Never more
 * than the block layer would have in one write: B7h may be missing, and the LUN's
 * MAXIMUM TRANSFER LENGTH (VPD page B0h) or the administrator's max_sectors_kb hold for
 * this command, too. Not: writes with PREFLUSH, and, where the disk has a volatile cache,
 * those that need FUA, if the disk doesn't know it, or not in this command (the CDB usage
 * data say which of its bits are looked at): the block layer has to see to them.
 *
 * A passthrough request has none of the block layer's and sd's care (retries, unit
 * attentions, flushes, splitting). So whatever becomes of it but success, its
 * writes are sent once more in the usual way, as long as the leg is alive; their ranges
 * are held all the time, so nothing can have overtaken them, and the same bytes
 * twice do no harm. An error of the leg is then what those bios say. When the
 * command was refused (ILLEGAL REQUEST, but not for want of the LUN) it isn't used any
 * more with this table.
 *
 * A leg may know the command and not be able to do it: then all is sent twice. While
 * writes of a failed command are out for the second time, batches go as writes. If all of
 * them are good, and no command was meanwhile, it has failed in vain; SCATTER_IN_VAIN
 * times in a row, and it isn't used any more until the leg has died and come back.
 * Whatever the error: one that passes, of a busy target or of the wire, lets a command
 * through in between.
 *
 * Nor does anybody else look where it writes: a leg that is a partition may have been
 * made smaller, and what lies beyond its end is left to the bios, which are refused.
 *
 * Why a bound: all writes of a command are acknowledged when the last of them is there,
 * which on a slow wire is long after the first one; and what is beyond the first
 * burst (LIO: 64 KiB) has to be asked for by the target, a round trip more. Measured
 * in the sim lab, DCD as the remote leg (WAN: Financial-1, nothing skipped, mean and p99
 * response; LAN and metro: random 4 KiB writes, 32 in flight):
 *
 *	bound		WAN, ms		SCSI commands	LAN, writes/s	metro
 *	off		198, 1000	5757		28169		2817
 *	16 KiB		190,  912	4627		27907		2803
 *	32 KiB		191,  904	4507		28436		2847
 *	none (`on`)	219, 1208	4365		28571		2855
 *
 * Memory: everything is asked for without waiting; if there is none, or no tag, the
 * writes go in the usual way.
 *
 * Commands and questions are made and submitted by the leg's sender (sender.h). Each of
 * a command's writes is out on the leg. A question isn't: a leg isn't given up for want
 * of that answer, and nothing but the end of this mirror waits for it (scatter_end()), as
 * long as the SCSI layer's timeouts let it take.
 */
#ifndef LOCKSTEP_SCATTER_H
#define LOCKSTEP_SCATTER_H

#include <linux/blk_types.h>
#include <linux/types.h>

#include "sender.h"
#include "table.h"

struct mirror;
struct write;

#define SCATTER_AUTO_SECTORS	64u	/* of data in a command */
#define SCATTER_IN_VAIN		8u

enum scatter_state {
	SCATTER_NO_DISK,	/* the leg is no SCSI disk, or there is none */
	SCATTER_UNKNOWN,	/* not asked, or no answer yet */
	SCATTER_NOT_OFFERED,
	SCATTER_OFFERED,
	SCATTER_REFUSED,	/* it said that it knows it, and doesn't */
	SCATTER_FAILED,		/* in vain, so many times */
};

/* Guarded by the mirror's writes.lock. */
struct scatter {
	enum scatter_state state;
	enum table_scatter how;	/* as the table says */
	bool asking;		/* writes.returned is woken when it ends */
	struct sender_item question;	/* while asking, the one who asks has it and the next */
	bool ask_limits;
	unsigned int deaths;	/* of the leg, when it was asked */
	bool cache;		/* of the disk, likewise: it was on */
	unsigned int tries;	/* that got no answer since */
	unsigned int ranges;	/* of a command, at most */
	unsigned int sectors;	/* of its data */
	bool fua;		/* it looks at that bit */
	unsigned int again;	/* runs of failed commands that are out for the second time */
	bool in_vain;		/* of these none has failed, and no command was good since */
	unsigned int failures;	/* that were in vain, in a row */
};

void scatter_init(struct mirror *m, enum table_scatter how);
/* No batch comes any more: wait until no question is out. Sleeps. */
void scatter_end(struct mirror *m);
/* Would it have to wait? Any context. */
bool scatter_asking(const struct mirror *m);
/* Any context. */
void scatter_set(struct mirror *m, enum table_scatter how);
/* One word for the status line. */
const char *scatter_word(struct mirror *m);

/*
 * Give these runs to the remote leg's sender, those together that are to be one command, or
 * park them (window.h). They are launched. Process context, doesn't sleep.
 */
void scatter_send(struct mirror *m, struct write **runs, unsigned int nr);

/* What the sender does with the remote parts of writes, in one command or one by one. */
void scatter_submit(struct sender_item **items, unsigned int nr);

/*
 * One of them that was to be sent once more (leg_part.again) has returned, or was dropped by the
 * sender. Any context.
 */
void scatter_again_done(struct mirror *m, blk_status_t status);

#endif
