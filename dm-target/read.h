/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Read: from the local leg where it is current, else from the remote leg where
 * that is current, else an error. A read that fails on one leg is tried once
 * more on the other if that is current there; the failed leg's error is
 * counted and traced, and the leg stays (a bad sector is no reason to lose a
 * leg); or by blocks, if the other one is current in some regions of it. What came good from the
 * other leg is asked to be repaired (repair.h). What neither has
 * whole is put together from both by blocks: a bad place of each is no loss. So is what the repair
 * from a target (repair.h) couldn't write to the source, by the source's physical blocks.
 *
 * The second try goes through pages of the mirror's own and ends when its leg dies
 * (transfer.h). So does the first one, if its leg has a timeout and isn't the only one
 * (bounce.h): when the leg is given up it is tried on the other one. Any other has the caller's
 * pages, which must not be written after it has ended: so it ends when the device says so, if
 * need be by the time-outs below.
 *
 * A read of the local leg is submitted by its caller, who alone waits if that leg hangs; one of
 * the remote leg, or in pages of the mirror's own, by the leg's sender (sender.h). Both count for
 * the leg's timeout, if it has one.
 *
 * What is tried again goes in parts, one after the other, and how many of them at a time again.h
 * says.
 *
 * Reads take no range: a read that overlaps a write in flight may return old
 * or new data, as on any disk.
 */
#ifndef LOCKSTEP_READ_H
#define LOCKSTEP_READ_H

#include <linux/blk_types.h>

struct mirror;

/* For .map: returns DM_MAPIO_REMAPPED, DM_MAPIO_SUBMITTED or DM_MAPIO_KILL. */
int read_map(struct mirror *m, struct bio *bio);

/* For .end_io of a read: returns DM_ENDIO_DONE, or _INCOMPLETE to try again. */
int read_end_io(struct mirror *m, struct bio *bio, blk_status_t *error);

#endif
