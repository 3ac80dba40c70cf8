/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a run knew at one instant, in a file: the history of its ops and the
 * fingerprint of each sector before it began. The file is of the machine that
 * wrote it (native byte order), and complete or absent.
 */
#ifndef LOCKSTEP_TORTURE_STATE_H
#define LOCKSTEP_TORTURE_STATE_H

#include <stdint.h>

#include "oracle.h"

struct state {
	uint64_t run;
	uint64_t sectors;
	uint64_t *baseline;	/* one fingerprint a sector */
	struct oracle *oracle;
};

/* 0, or -1 with a message on stderr. */
int state_save(const struct state *s, const char *path);
int state_load(struct state *s, const char *path);
void state_free(struct state *s);

#endif
