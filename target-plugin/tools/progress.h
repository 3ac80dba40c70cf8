/* SPDX-License-Identifier: GPL-2.0-only */
/* Progress: a line on stderr while something takes long, once a second. */
#ifndef DCD_PROGRESS_H
#define DCD_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* @forced: even if stderr isn't a terminal. */
void progress_begin(const char *what, uint64_t all, bool forced);
void progress(uint64_t done);
void progress_end(void);

#endif
