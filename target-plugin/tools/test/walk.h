/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recovery in memory: the parsers and the plan, as the command's set.c and the module
 * use them, on images; for tests that need it a million times.
 */
#ifndef DCD_TEST_WALK_H
#define DCD_TEST_WALK_H

#include "../../plan.h"

struct images {
	const u8 *log;
	u64 log_bytes;
	const u8 *nvram;	/* NULL: none */
	u64 nvram_bytes;
	u8 *data;		/* live entries are written to it; NULL: only looked for */
	u64 data_bytes;
};

/* A word: "ok", or why it is refused. */
const char *walk(const struct images *m);

#endif
