// SPDX-License-Identifier: GPL-2.0-only
/* Linked with --wrap=pread: what begins at byte $ONCE of a file can be read once. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

ssize_t __real_pread(int fd, void *buf, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t at);

ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t at)
{
	static int reads;

	if (at != atoll(getenv("ONCE")) || !reads++)
		return __real_pread(fd, buf, bytes, at);
	errno = EIO;
	return -1;
}
