/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Claim: a log belongs to one engine of this kernel, by whatever name its disk was opened.
 *
 * The exclusive use of a block device keeps nobody from the same disk by another name: another path
 * to it, a device that is made of it, a file that is attached twice. Two engines over one
 * log would each put their next segment where the other one has its own, and both would go on to
 * acknowledge writes. So a log is known by what is on it: its uuid. An engine has its claim from
 * its opening, before it writes anything, until its disks are free: one that lingers has it, too,
 * since what comes late would come over what somebody else has written.
 *
 * A copy of a log has that log's uuid, and can't be open beside it.
 *
 * A data disk carries nothing that tells it from others, since all of it is the user's. What can
 * be seen is that it is a log, this engine's or one that is claimed.
 */
#ifndef DCD_CLAIM_H
#define DCD_CLAIM_H

struct dcd_engine;

/*
 * At open, when the superblock has been read for its uuid. Until now another engine may have
 * written it: so it has to be read again. -EBUSY: one has that log; it is told. Sleeps.
 */
int __must_check dcd_claim(struct dcd_engine *e);
/*
 * When it has been. -EBUSY: it is another log by now, or the data disk is the log of another
 * engine. -EINVAL: the data disk is the log disk, by two names. Each is told. Sleeps.
 */
int __must_check dcd_claim_check(struct dcd_engine *e);
/*
 * When nothing is under way on its disks, which are still open. Does nothing if it has no claim.
 * Sleeps.
 */
void dcd_unclaim(const struct dcd_engine *e);

#endif
