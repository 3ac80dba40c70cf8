/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Status, fields separated by one blank:
 *
 *    1  health of local and remote leg, one character each:
 *       A in sync   a alive, some regions stale   D dead (gets no I/O)
 *       - there is none   ? not known: the table isn't in use yet, or just about to be
 *    2  <regions in sync>/<regions>
 *    3  idle | resync | verify | paused | waiting | stalled (resync.h, verify.h)
 *    4  I/O errors of the local leg (read, write and flush)
 *    5  I/O errors of the remote leg
 *    6  policy: degrade | block | error
 *    7  regions stale on the local leg        8  on the remote leg
 *    9  read errors local                    10  read errors remote
 *   11  together | parting | alone | blocked | refusing (standing.h); starting: field 1 is ?
 *   12  why a dead leg stays dead: one word (draining: registry.h); LOCAL,REMOTE if
 *       both are dead; or -
 *   13  regions dirty, by the map and the activity log of the leg that keeps them
 *   14  rate of the resync now, KiB/s
 *   15  verify: <regions compared>/<regions>, equal when it has ended, or - (none
 *       since the mirror came up, or stopped before its end)
 *   16  sectors that verify has found to differ
 *   17+ counters in the order of counters.h: writes reads flushes fua zeroes
 *       waited copied_bytes punted failovers alone refused late
 *       resynced_sectors abandoned held marked map_writes super_writes cleaned
 *       compared_sectors equal_sectors batches batched merged absorbed
 *       saved_bytes verified_sectors repaired repairs_failed repairs_dropped
 *       absorbed_waiting
 *       digested_sectors digests_equal_sectors digests_failed
 *       scattered scattered_runs scattered_again scattered_punted
 *       parked window_halved budget_waited budget_background budget_left
 *       reads_abandoned
 *
 *   then  do batches go as WRITE SCATTERED (scatter.h): yes | no | off | refused |
 *       failed (again and again) | unknown (not asked yet) | - (the remote leg is no
 *       SCSI disk)
 *   then  memory of the writes in flight, KiB: <held>/<limit>/<writes that wait for some>
 *       (budget.h)
 *   then  what holds the resync or the verify back most of the time: application | rate |
 *       - (nothing of ours)
 *   then  legs that are alive, don't answer, and aren't given up for that, so that what
 *       needs them waits (watch.h): local | remote | local,remote | -
 *   last  what the activity log would leave to resync after a crash, MiB: <now>/<at most>,
 *       with /full while a write waits for room in it (dirty-map.h); - without metadata
 *
 * New counters come after the last of them. Each change of fields 1 and 11 and of the legs
 * that don't answer, and the end of a verify, is a dm event (dmsetup wait) and a line in
 * the kernel log.
 */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#include <linux/device-mapper.h>

struct mirror;

/* For .status: process context. */
void status_emit(struct mirror *m, status_type_t type, char *result, unsigned int maxlen);

#endif
