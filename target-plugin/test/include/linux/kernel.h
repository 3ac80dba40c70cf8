/* SPDX-License-Identifier: GPL-2.0-only */
/* What lun-settings.c and dcd.h need of the kernel, for tests in userspace. */
#ifndef DCD_TEST_KERNEL_H
#define DCD_TEST_KERNEL_H
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

typedef uint32_t u32;
typedef unsigned long long u64;
typedef uint8_t u8;
typedef u64 sector_t;
typedef struct { int counter; } atomic_t;
struct list_head { struct list_head *next, *prev; };
struct work_struct { struct list_head entry; };

#define __must_check	__attribute__((warn_unused_result))
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define GFP_KERNEL	0
#define pr_err(...)	fprintf(stderr, __VA_ARGS__)
#define swap(a, b)	do { typeof(a) old_ = (a); (a) = (b); (b) = old_; } while (0)

/* A test that wants to know what is freed when defines it. */
extern void look_at_free(const void *p) __attribute__((weak));

static inline void kfree(const void *p)
{
	if (look_at_free)
		look_at_free(p);
	free((void *)p);
}

static inline char *kstrdup(const char *s, int gfp)
{
	(void)gfp;
	return strdup(s);
}

static inline int kstrtou64(const char *s, unsigned int base, u64 *n)
{
	char *end;

	errno = 0;
	*n = strtoull(s, &end, (int)base);
	return errno || end == s || *end || *s == '-' ? -EINVAL : 0;
}

static inline int __attribute__((format(printf, 3, 4)))
scnprintf(char *buf, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf, size, format, args);
	va_end(args);
	return n < 0 || !size ? 0 : (size_t)n < size ? n : (int)size - 1;
}
#endif
