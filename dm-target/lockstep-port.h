/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What super.c, life.c and verdict.c need of their surroundings: they are pure
 * (no allocation, no I/O, no locks), and the same files are compiled into the
 * module and into lockstep-meta.
 */
#ifndef LOCKSTEP_PORT_H
#define LOCKSTEP_PORT_H

#ifdef __KERNEL__
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define __must_check		__attribute__((warn_unused_result))
#define __printf(a, b)		__attribute__((format(printf, a, b)))
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define cpu_to_le32(x)		htole32(x)
#define cpu_to_le64(x)		htole64(x)
#define le32_to_cpu(x)		le32toh(x)
#define le64_to_cpu(x)		le64toh(x)
#define scnprintf(buf, size, ...) lockstep_scnprintf(buf, size, __VA_ARGS__)

u32 crc32c(u32 crc, const void *p, size_t bytes);
int __printf(3, 4) lockstep_scnprintf(char *buf, size_t size, const char *format, ...);
#endif

#endif
