/* SPDX-License-Identifier: GPL-2.0-only */
/* What the commands that write have in common. */
#ifndef LOCKSTEP_MAKE_H
#define LOCKSTEP_MAKE_H

#include "device.h"

/* "lockstep-meta: PATH: WHY" on stderr. Returns -1. */
int refuse(const char *path, const char *why);

/* Both for writing. Refuses one device in two places, which would only be called busy. */
int open_pair(struct device d[2], const char *local, const char *remote);

/* A leg that was found: refuses the disk below a DCD whose log may have more. */
int check_bypassed(const struct device *d, const struct super_found *found);
u64 now(void);

/* The mirror that was made, or changed, as JSON. */
void put_made(const struct super *s);

#endif
