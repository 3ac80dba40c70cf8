/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What parse.c and plan.c need of their surroundings: they are pure (no
 * allocation, no I/O, no locks), and the same files are compiled into dcd.ko and
 * into the command `dcd`.
 */
#ifndef DCD_PORT_H
#define DCD_PORT_H

#ifdef __KERNEL__
#include <linux/blk_types.h>
#include <linux/crc32c.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/math64.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "../dm-target/lockstep-port.h"

#define U64_MAX		UINT64_MAX

typedef uint16_t u16;
typedef int64_t s64;

#define cpu_to_le16(x)		htole16(x)
#define le16_to_cpu(x)		le16toh(x)
#define SECTOR_SHIFT		9
#define SECTOR_SIZE		512
#define max(a, b)		({ __auto_type a_ = (a); __auto_type b_ = (b); a_ > b_ ? a_ : b_; })
#define min(a, b)		({ __auto_type a_ = (a); __auto_type b_ = (b); a_ < b_ ? a_ : b_; })
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define min_t(type, a, b)	min((type)(a), (type)(b))

static inline u64 div64_u64_rem(u64 n, u64 by, u64 *rest)
{
	*rest = n % by;
	return n / by;
}
#endif

#endif
