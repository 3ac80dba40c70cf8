/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recovery in memory: the parsers and the plan, as the command's set.c and the module
 * use them, on images; for tests that need it a million times.
 */
#ifndef DCD_TEST_WALK_H
#define DCD_TEST_WALK_H

#include "../../moves.h"
#include "../../plan.h"

/*
 * @log: @bytes of the log at @offset, which are good until the next call; NULL: they can't be
 *	 read. @nvram alike, but what is below nvram_bytes can always be read.
 */
struct images {
	const u8 *(*log)(u64 offset, u64 bytes);
	u64 log_bytes;
	const u8 *(*nvram)(u64 offset, u64 bytes);	/* NULL: there is none */
	u64 nvram_bytes;
	u8 *data;		/* live entries are written to it; NULL: only looked for */
	u64 data_bytes;		/* 0: there is no data disk to compare with */
};

struct walked {
	struct dcd_super_found super;
	struct dcd_moves_found moves;
	struct dcd_header_found header;
	struct dcd_plan plan;
	u64 entries;		/* live */
	u64 lost;		/* of those */
};

/* A word: "ok", or "lost": it is accepted, with medium errors; or why it is refused. */
const char *walk(const struct images *m, struct walked *w);

#endif
