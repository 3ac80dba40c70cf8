/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Activate: from what is on the two legs to a running mirror, and back to legs
 * that say that they were stopped cleanly.
 *
 * Nothing is taken for granted: the legs are read and judged (verdict.h) when
 * the table is loaded, so that an administrator is told then, and again when it
 * is resumed for the first time, as a table may be loaded long before that.
 * After a table reload the legs are read too: the old table has written all
 * that it knew when it was suspended.
 *
 * All of this sleeps, for as long as the legs take. No I/O of the callers' is in
 * flight. 0 or an errno.
 */
#ifndef LOCKSTEP_ACTIVATE_H
#define LOCKSTEP_ACTIVATE_H

struct mirror;

/*
 * In the constructor, legs opened: may this table be made? Sets
 * mirror.region_shift. On an error ti->error is set, and the kernel's log says
 * what is wrong and what to do.
 */
int __must_check activate_check(struct mirror *m);

/*
 * In .preresume of a mirror that hasn't run. A leg that is dead isn't touched.
 * After a table reload, when an error would leave the device suspended with all
 * its I/O, a leg that can't be taken is given up instead (field 12 says why). -ESTALE, the
 * device stays suspended: that is the leg that had everything, and somebody else has used it since.
 */
int __must_check activate_begin(struct mirror *m);

/*
 * In .postsuspend, and in the .preresume after it: a leg that has gone meanwhile is given up.
 * activate_again(): -EBUSY if a leg that is in use hasn't answered yet what the suspend has written
 * to it, or doesn't answer what the resume writes and can't be given up: then the table is as it
 * was, but that superblocks may say that they are in use. -ESTALE if each leg that has everything
 * has been used by somebody else meanwhile: nothing is written to it.
 */
void activate_suspend(struct mirror *m);
int __must_check activate_again(struct mirror *m);

#endif
