/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The words of a table line:
 *
 *   <start> <len> lockstep <local_dev> <remote_dev> [<#opts> <opt>...]
 *
 * It is alone in its table, and <start> is 0. #opts counts all words that follow it.
 * Options, each at most once:
 *
 *   sync | nosync            no metadata on the legs, as mdadm --build: what is
 *                            known about them is lost with this device. sync:
 *                            nothing is known, all of the remote leg is resynced
 *                            from the local one. nosync: the administrator
 *                            declares that the legs are identical.
 *                            Without either word the legs must have been made by
 *                            "lockstep create"; what they say is what is known,
 *                            and <len> is the length of their data. One of the
 *                            two devices may then be "-": start without it.
 *                            A table with one of them is refused in the place of
 *                            one without, and the other way round; while a leg
 *                            misses something, also if both devices are others,
 *                            and sync if the local leg is the one, or was.
 *   region_size <sectors>    unit of the dirty map: a power of two from 8 to
 *                            2^31; default what the legs say; with sync and
 *                            nosync 2048 (1 MiB)
 *   policy degrade|block|error
 *                            a leg fails: degrade (default) goes on with the
 *                            other and keeps track; block holds writes until
 *                            both legs are back, so that no write is ever
 *                            acknowledged by one site only; error fails every
 *                            write that can't be on both legs
 *   rejoin <seconds>         a leg that failed is tried again so often; default
 *                            5, 0 = only by the message "recover"
 *   remote_cache fua|trust   the remote device has a volatile write cache: fua
 *                            (default) sends every write with FUA, so that an
 *                            acknowledged write is on stable storage there, and
 *                            offers no zeroing, which has no FUA (zero.h); a
 *                            device with such a cache and no FUA is refused, but
 *                            alone, without the other leg;
 *                            trust believes the administrator that the cache
 *                            survives a power loss
 *   local_cache plain|fua    plain (default): the local device loses its power
 *                            together with this host only, so flushes are its
 *                            callers' business. fua: it may lose its power
 *                            alone, as the remote one: for a mirror whose first
 *                            device is the one at the other site
 *   resync_jobs <n>          chunks copied at the same time, 1 to 16, default 8
 *   resync_rate <KiB/s>      bound over all jobs, default 0 = none
 *   resync_least <KiB/s>     what it does under any load, as far as half of the time
 *                            suffices for it; default 4096, 0 = nothing (throttle.h)
 *   resync_pace polite|full  polite (default): the application's I/O goes first
 *                            (throttle.h); full: as fast as it goes
 *   resync_compare on|off    read both legs and copy only what differs; off
 *                            (default): copy unseen (resync.h)
 *   resync_digests <dev>|-   the digest LUN of the remote leg: copy only what
 *                            differs by it, else as resync_compare says; not with
 *                            sync or nosync; - (default): there is none (digest.h)
 *   remote_timeout <ms>      the remote leg is given up if it hasn't answered a
 *                            request for so long; default 10000, 0 = never
 *   local_timeout <ms>       likewise the local leg; default 0 = never
 *   coalesce <n>             writes in a batch at most, 1 to 32, default 32;
 *                            1 = each write goes out at once (batch.h)
 *   coalesce_pipeline <n>    so many batches on the way to the remote leg before
 *                            writes wait for each other, default 8
 *   scatter auto|on|off      a batch goes to the remote leg by WRITE SCATTERED where
 *                            that knows it: auto (default) in commands of at most
 *                            32 KiB, on in as few as the leg takes (scatter.h)
 *   memory_kib <KiB>         that writes in flight may hold at most; who has more to
 *                            write waits; default 0 = 2 % of the machine's memory,
 *                            from 4 MiB to 256 MiB (budget.h)
 *
 *   dirty_limit <MiB>        that a crash of this host leaves to resync at most, default
 *                            4096: in whole regions, of which there are 16 at least,
 *                            and 3968 at most (activity.h). Not with sync or nosync
 *
 * The table line that the kernel shows (dmsetup table) can be given again; it
 * leaves out what has its default value. A new line for a device that runs says all
 * options anew, as with dm-raid and dm-cache: one that it doesn't repeat has its default
 * again, also where a message has set it. So who reloads begins with the line that the
 * kernel shows, as the command `lockstep` does.
 */
#ifndef LOCKSTEP_TABLE_H
#define LOCKSTEP_TABLE_H

#include <linux/types.h>

#include "leg.h"

struct dm_target;

enum table_mode {
	MODE_METADATA,
	MODE_SYNC,
	MODE_NOSYNC,
};

enum table_policy {
	POLICY_DEGRADE,
	POLICY_BLOCK,
	POLICY_ERROR,
};

enum table_scatter {
	TABLE_SCATTER_AUTO,
	TABLE_SCATTER_ON,
	TABLE_SCATTER_OFF,
};

struct table_options {
	enum table_mode mode;
	unsigned int region_size;	/* sectors; 0: not given */
	enum table_policy policy;
	unsigned int rejoin;		/* seconds */
	bool trust_remote_cache;
	bool local_fua;
	unsigned int resync_jobs;
	unsigned int resync_rate;	/* KiB/s */
	unsigned int resync_least;	/* KiB/s */
	unsigned int timeout[LEGS];	/* ms */
	bool resync_full;
	bool resync_compare;
	const char *resync_digests;	/* a path, in argv until digests_create(); NULL: none */
	unsigned int coalesce;		/* writes in a batch */
	unsigned int coalesce_pipeline;	/* batches */
	enum table_scatter scatter;
	unsigned int memory_kib;	/* 0: the default */
	unsigned int dirty_limit;	/* MiB */
};

/* The word in the table, or -EINVAL for a word that is none. */
const char *table_policy_name(enum table_policy policy);
int __must_check table_policy_parse(const char *word, enum table_policy *policy);
int __must_check table_scatter_parse(const char *word, enum table_scatter *scatter);

void table_defaults(struct table_options *o);

/*
 * Parse what follows the two devices. Changes nothing but *o. On an error
 * returns -EINVAL with ti->error set, and a message that names the word.
 */
int __must_check table_parse(struct table_options *o, struct dm_target *ti,
			     unsigned int argc, char **argv);

/* The options as words, with a leading space and their count. Returns the length. */
unsigned int table_emit(const struct table_options *o, char *result, unsigned int maxlen);

#endif
