/* SPDX-License-Identifier: GPL-2.0-only */
/* What media-model.c needs of the kernel, for tests in userspace. */
#ifndef MEDIA_TEST_TYPES_H
#define MEDIA_TEST_TYPES_H
#include <asm/types.h>
#include <stdbool.h>
#include <stddef.h>
typedef __u64 u64;
typedef __u32 u32;
#endif
