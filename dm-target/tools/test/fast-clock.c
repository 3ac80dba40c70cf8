// SPDX-License-Identifier: GPL-2.0-only
/* Linked with --wrap=clock_gettime: an hour goes by between two looks at the clock. */
#include <time.h>

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	static time_t hours;

	(void)clock;
	*t = (struct timespec){ .tv_sec = 3600 * ++hours };
	return 0;
}
