/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one place that knows kernels differ.
 *
 * The code is written for the newest kernel. What an older one lacks is
 * defined here in terms of what it has, decided by the probes (probes/NAME.c
 * gives HAVE_NAME in the generated compat.h), never by version numbers. Blocks
 * are kept by noun; a block that no supported kernel needs any more is deleted
 * together with its probe.
 */
#ifndef LOCKSTEP_COMPAT_H
#define LOCKSTEP_COMPAT_H

#include "compat.h"

#include <linux/device-mapper.h>
#include <linux/module.h>

/* A dm target's module_init and module_exit in one line. */
#if !HAVE_MODULE_DM
#define module_dm(name)							\
static int __init dm_##name##_init(void)				\
{									\
	return dm_register_target(&(name##_target));			\
}									\
module_init(dm_##name##_init)						\
static void __exit dm_##name##_exit(void)				\
{									\
	dm_unregister_target(&(name##_target));				\
}									\
module_exit(dm_##name##_exit)
#endif

/* What dm_table_get_mode() says of a table that may be written. */
#if !HAVE_BLK_OPEN_WRITE
#define BLK_OPEN_WRITE FMODE_WRITE
#endif

#endif /* LOCKSTEP_COMPAT_H */
