/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Places of the ring that are in doubt: somebody couldn't read one, got other bytes from it than it
 * was given, or couldn't write it. A disk may take writes there all the same, and the ring comes to
 * that place again in every lap. So as long as the engine is open each segment that is written to
 * such a place is read back, and compared, before its slot may be used again. What of it isn't
 * there is moved to a good place (spares.h). Where that can't be, or if it hasn't come within a
 * moment (aside.h; where that was so the last time nobody waits for it at all), its slot is pinned
 * (slots.c): what is read of it comes from there, and the destager brings it to the data disk at
 * once. After a cut recovery takes it from that slot. If too many slots are pinned it is a write
 * that failed: the log is dead (engine.h).
 *
 * With an NVRAM that doesn't keep its content, or none, it is that at once if nothing can be moved.
 * What takes long there is believed, but where a read has failed it is waited for, as long as
 * DCD_PROOF_WAITS: a disk may try a bad block for seconds before it says so, and then that is moved
 * as any other. So is what an opening writes that no slot has as a whole (@only), but what hasn't
 * come by then, or in the time that a commit may take, isn't proved.
 *
 * It is known in memory only, one bit a place; the next opening has to find it again: recovery and
 * scrub do, as soon as something that counts is there. A disk that answers from a cache of its own
 * what its medium doesn't give deceives this.
 */
#ifndef DCD_PROOF_H
#define DCD_PROOF_H

#include <linux/types.h>

struct dcd_engine;

#define DCD_PROOF_WAITS (60 * HZ)

/*
 * @places, those of them that take long, @slow, and those where a read failed, @failed: bits. @buf:
 * for who commits. @only: nothing else has what is written; who opens sets it.
 */
struct dcd_proof {
	unsigned long *places;
	unsigned long *slow;
	unsigned long *failed;
	void *buf;
	bool only;
};

int __must_check dcd_proof_init(struct dcd_engine *e);
void dcd_proof_free(struct dcd_engine *e);

/* The place of this segment is in doubt from now on. Any context. */
void dcd_proof_doubt(struct dcd_engine *e, u64 segment);
void dcd_proof_unread(struct dcd_engine *e, u64 segment);	/* the same, as a read has failed */
/* What was read at this sector of the log has come, or failed, since @began. Any context. */
void dcd_proof_read(struct dcd_engine *e, u64 sector, int error, unsigned long began);
/* How long who proves waits for what he reads there (jiffies). */
unsigned long dcd_proof_patience(const struct dcd_engine *e, u64 sector);
/*
 * What was written there, and is durable, is there, or needn't be proved: 0. -ETIME: nobody knows.
 * Sleeps for a moment, or as long as the disk takes to fail.
 */
int __must_check dcd_proof(struct dcd_engine *e, u64 segment, void *buf, u32 bytes);

#endif /* DCD_PROOF_H */
