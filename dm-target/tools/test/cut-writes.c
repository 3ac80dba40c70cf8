// SPDX-License-Identifier: GPL-2.0-only
/*
 * Linked with --wrap=pwrite: the program ends at its write number $CUT, of which
 * the first half is done.
 */
#include <stdlib.h>
#include <unistd.h>

ssize_t __real_pwrite(int fd, const void *buf, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t at);

ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t at)
{
	static int writes;

	if (++writes == atoi(getenv("CUT"))) {
		__real_pwrite(fd, buf, bytes / 2 / 512 * 512, at);
		_exit(99);
	}
	return __real_pwrite(fd, buf, bytes, at);
}
