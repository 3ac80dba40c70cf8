// SPDX-License-Identifier: GPL-2.0-only
/* See device.h. */
#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sectors.h"

#define SCAN_BYTES (1U << 20)

static void complain(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
}

int device_open(struct device *d, const char *path, bool writable)
{
	uint64_t bytes = 0;
	struct stat st;

	d->path = path;
	d->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
	if (d->fd < 0) {
		complain(path, strerror(errno));
		return -1;
	}
	if (fstat(d->fd, &st))
		goto bad;
	d->is_file = S_ISREG(st.st_mode);
	if (d->is_file)
		bytes = (uint64_t)st.st_size;
	else if (ioctl(d->fd, BLKGETSIZE64, &bytes))
		goto bad;
	d->sectors = bytes / SECTOR;
	return 0;
bad:
	fprintf(stderr, "%s: %s: not a block device or file: %s\n",
		program_invocation_short_name, path, strerror(errno));
	close(d->fd);
	d->fd = -1;
	return -1;
}

void device_close(struct device *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

int device_scan(struct device *d, int (*each)(void *arg, uint64_t sector, const void *data),
		void *arg)
{
	uint64_t at = 0, end = d->sectors * SECTOR;
	void *buf;
	int r = 0;

	if (posix_memalign(&buf, 4096, SCAN_BYTES)) {
		complain("memory", "there is none");
		return -1;
	}
	while (!r && at < end) {
		size_t want = end - at < SCAN_BYTES ? end - at : SCAN_BYTES;
		ssize_t n = pread(d->fd, buf, want, (off_t)at), i;

		if (n <= 0 || n % SECTOR) {
			fprintf(stderr, "%s: %s: read of %zu bytes at %llu: %s\n",
				program_invocation_short_name, d->path, want, (unsigned long long)at,
				n < 0 ? strerror(errno) : "came back short");
			r = -1;
			break;
		}
		for (i = 0; i < n && !r; i += SECTOR)
			r = each(arg, (at + (uint64_t)i) / SECTOR, (char *)buf + i);
		at += (uint64_t)n;
	}
	free(buf);
	return r;
}

int aio_open(struct aio *a, unsigned int depth)
{
	memset(a, 0, sizeof(*a));
	if (syscall(SYS_io_setup, depth, &a->context)) {
		complain("io_setup", strerror(errno));
		return -1;
	}
	return 0;
}

void aio_close(struct aio *a)
{
	syscall(SYS_io_destroy, a->context);
}

static int submit(struct aio *a, struct iocb *cb)
{
	struct iocb *list[1] = { cb };

	if (syscall(SYS_io_submit, a->context, 1L, list) != 1)
		return -errno;
	a->in_flight++;
	return 0;
}

static int transfer(struct aio *a, struct device *d, uint16_t what, void *data, uint64_t sector,
		    uint32_t count, int flags, uint64_t tag)
{
	struct iocb cb = {
		.aio_data = tag,
		.aio_lio_opcode = what,
		.aio_fildes = (uint32_t)d->fd,
		.aio_buf = (uintptr_t)data,
		.aio_nbytes = (uint64_t)count * SECTOR,
		.aio_offset = (int64_t)(sector * SECTOR),
		.aio_rw_flags = flags,
	};

	return submit(a, &cb);
}

int aio_write(struct aio *a, struct device *d, void *data, uint64_t sector, uint32_t count,
	      bool fua, uint64_t tag)
{
	return transfer(a, d, IOCB_CMD_PWRITE, data, sector, count, fua ? RWF_DSYNC : 0, tag);
}

int aio_read(struct aio *a, struct device *d, void *data, uint64_t sector, uint32_t count,
	     uint64_t tag)
{
	return transfer(a, d, IOCB_CMD_PREAD, data, sector, count, 0, tag);
}

int aio_flush(struct aio *a, struct device *d, uint64_t tag)
{
	struct iocb cb = {
		.aio_data = tag,
		.aio_lio_opcode = IOCB_CMD_FSYNC,
		.aio_fildes = (uint32_t)d->fd,
	};

	return submit(a, &cb);
}

int aio_reap(struct aio *a, struct io_event *events, int min, int max, int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
	long n;

	do {
		n = syscall(SYS_io_getevents, a->context, (long)min, (long)max, events,
			    ns < 0 ? NULL : &ts);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		complain("io_getevents", strerror(errno));
		exit(2);
	}
	a->in_flight -= (unsigned int)n;
	return (int)n;
}

static int range_ioctl(struct device *d, unsigned long what, int mode, uint64_t sector,
		       uint32_t count)
{
	uint64_t range[2] = { sector * SECTOR, (uint64_t)count * SECTOR };
	int r;

	if (d->is_file)
		r = fallocate(d->fd, mode, (off_t)range[0], (off_t)range[1]);
	else
		r = ioctl(d->fd, what, range);
	return r ? -errno : 0;
}

int device_zero(struct device *d, uint64_t sector, uint32_t count)
{
	return range_ioctl(d, BLKZEROOUT, FALLOC_FL_ZERO_RANGE, sector, count);
}

int device_discard(struct device *d, uint64_t sector, uint32_t count)
{
	return range_ioctl(d, BLKDISCARD, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, sector,
			   count);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

void sleep_ns(uint64_t ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		;
}
