// SPDX-License-Identifier: GPL-2.0-only
/* Linked with --wrap=pread: of the file "data" nothing can be read from byte $FROM on. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t __real_pread(int fd, void *buf, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t at);

ssize_t __wrap_pread(int fd, void *buf, size_t bytes, off_t at)
{
	char link[32], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	path[n < 0 ? 0 : n] = 0;
	if (at + (off_t)bytes <= atoll(getenv("FROM")) || n < 5 || strcmp(path + n - 5, "/data"))
		return __real_pread(fd, buf, bytes, at);
	errno = EIO;
	return -1;
}
