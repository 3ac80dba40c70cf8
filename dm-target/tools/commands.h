/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The commands of lockstep-meta. Each returns the exit code: 0 done, 1 refused
 * or failed, with the reason on stderr (examine, verdict: in the JSON). What is
 * to be checked is checked before anything is written.
 */
#ifndef LOCKSTEP_COMMANDS_H
#define LOCKSTEP_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *local;
	const char *remote;
	const char *source;
	const char *name;
	const char *leg;	/* "local" or "remote" */
	const char *keep;	/* likewise */
	uint64_t region_size;	/* sectors; 0: by the rule of lockstep-format.h */
	bool assume_clean;
	bool force;
	bool no_search;		/* somebody has looked for an old superblock (search.h) before */
	bool in_use;		/* a dry run: the device may be in use now */
	bool dry_run;		/* all checks, nothing is written */
};

/* What is there: these only read, the devices may be in use. "-" is an absent leg. */
int command_examine(const struct options *o, char **devices, int count);
int command_verdict(const char *local, const char *remote);

/* Lines KEY=VALUE for udev's IMPORT{program} if the device is a leg; else nothing, and 1. */
int command_udev(const char *path);

int command_create(const struct options *o);
int command_join(const struct options *o, const char *path);
int command_resolve(const struct options *o, const char *local, const char *remote);
/*
 * Devices have become larger, and the mirror is stopped: the metadata move to
 * their ends. If both legs are there and in sync, the mirror gets the new room: what
 * is new is marked dirty, so the next start makes it equal. A leg that isn't there
 * is "-". Again after a crash: goes on. A dry run may look at a mirror in use.
 */
int command_grow(const struct options *o, const char *local, const char *remote);
/*
 * Of legs that are the LUN of a DCD: their superblock says so from now on, so that the
 * disk below isn't taken for the leg. Nothing is written that is there already.
 */
int command_mark(const struct options *o, char **devices, int count);
/*
 * The log in front of this disk is lost, or its writes may be: the disk counts as it is,
 * and the DCD of that log won't write to it any more.
 */
int command_leave_log(const struct options *o, const char *path);
/* Not without force if that makes it forget a log: then nothing keeps that one from the disk. */
int command_wipe(const struct options *o, const char *path);

#endif
