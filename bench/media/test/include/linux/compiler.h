/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef MEDIA_TEST_COMPILER_H
#define MEDIA_TEST_COMPILER_H
#define READ_ONCE(x)		(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)	(*(volatile __typeof__(x) *)&(x) = (value))
#endif
