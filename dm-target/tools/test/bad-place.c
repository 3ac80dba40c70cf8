// SPDX-License-Identifier: GPL-2.0-only
/* Linked with --wrap=pread: reads of the device's middle fail. */
#include <errno.h>
#include <unistd.h>

#define FROM	(1L << 20)
#define TO	(69L << 20)

ssize_t __real_pread(int fd, void *buf, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t at);

ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t at)
{
	if (at + (off_t)bytes <= FROM || at >= TO)
		return __real_pread(fd, buf, bytes, at);
	errno = EIO;
	return -1;
}
