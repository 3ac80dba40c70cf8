/* SPDX-License-Identifier: GPL-2.0-only */
/* What media-model.c needs of the kernel, for tests in userspace. */
#ifndef MEDIA_TEST_TYPES_H
#define MEDIA_TEST_TYPES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;
#endif
