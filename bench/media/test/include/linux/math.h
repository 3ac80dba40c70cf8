/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef MEDIA_TEST_MATH_H
#define MEDIA_TEST_MATH_H
#include <math.h>
static inline unsigned long int_sqrt(unsigned long x)
{
	return (unsigned long)sqrtl((long double)x);
}
#endif
