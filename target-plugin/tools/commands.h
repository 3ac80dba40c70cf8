/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The commands of dcd. Each returns the exit code: 0 done, 1 refused or failed,
 * 2 usage, 3 salvaged, and something is lost; `check` has fsck's (check.c). With --json the answer is JSON on
 * stdout; messages are on stderr in either case.
 */
#ifndef DCD_COMMANDS_H
#define DCD_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *data;
	const char *log;
	const char *nvram;	/* NULL: not given; "none": there is none */
	uint64_t segment_bytes;	/* format; 0: by the log's size */
	uint64_t nvram_bytes;	/* format; 0: all of it */
	bool force;
	bool json;
	bool dry_run;		/* recover: all checks, nothing is written */
	bool salvage;		/* recover: what is right of what is damaged; with log "none": retire, too */
	bool all;		/* dump: every place of the ring */
	bool progress;		/* even if stderr isn't a terminal */
};

/* Makes a new log, and the NVRAM's header; the only one that forgets data. */
int command_format(const struct options *o);
/* What the headers of one device say. Reads only; the device may be in use. */
int command_examine(const struct options *o, const char *path);
/* Is all there that is live, and does it belong together? Reads only. */
int command_check(const struct options *o);
/* Segments and entries. Reads only. */
int command_dump(const struct options *o);
/* What is live goes to the data disk. */
int command_recover(const struct options *o);

/*
 * Recovers, and then nothing opens this log and NVRAM over the data disk again: `format`
 * makes new ones of them. Again after an interruption: goes on.
 */
int command_retire(const struct options *o);

#endif
