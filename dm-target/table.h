/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The words of a table line:
 *
 *   <start> <len> lockstep <local_dev> <remote_dev> [<#opts> <opt>...]
 *
 * #opts counts all words that follow it. Options, each at most once:
 *
 *   region_size <sectors>    unit of the dirty map: a power of two from 8 to
 *                            2^31; default 2048 (1 MiB)
 *   sync | nosync            sync (default): nothing is known about the remote
 *                            leg, so all of it is resynced from the local one.
 *                            nosync: the administrator declares that the legs
 *                            are identical, as they are after a removal in the
 *                            state AA, never after a crash of this host
 *   policy degrade|error     a leg fails: degrade (default) goes on with the
 *                            other and keeps track; error fails every write
 *                            that can't be on both legs
 *   remote_cache fua|trust   the remote device has a volatile write cache: fua
 *                            (default) sends every write with FUA, so that an
 *                            acknowledged write is on stable storage there;
 *                            trust believes the administrator that the cache
 *                            survives a power loss
 *   local_cache plain|fua    plain (default): the local device loses its power
 *                            together with this host only, so flushes are its
 *                            callers' business. fua: it may lose its power
 *                            alone, as the remote one: for a mirror whose first
 *                            device is the one at the other site
 *   resync_jobs <n>          regions copied at the same time, 1 to 16, default 2
 *   resync_rate <KiB/s>      bound over all jobs, default 0 = none
 *   remote_timeout <ms>      the remote leg is given up if it has answered
 *                            nothing for so long; default 10000, 0 = never
 *
 * The table line that the kernel shows (dmsetup table) can be given again; it
 * leaves out what has its default value.
 */
#ifndef LOCKSTEP_TABLE_H
#define LOCKSTEP_TABLE_H

#include <linux/types.h>

struct dm_target;

struct table_options {
	unsigned int region_size;	/* sectors */
	bool nosync;
	bool error_policy;
	bool trust_remote_cache;
	bool local_fua;
	unsigned int resync_jobs;
	unsigned int resync_rate;	/* KiB/s */
	unsigned int remote_timeout;	/* ms */
};

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
