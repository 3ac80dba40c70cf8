/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A block device (or a file, for tests) opened with O_DIRECT, asynchronous
 * I/O by the kernel's AIO calls, without a library. Waiting is sleeping: there
 * is no polling, which would never end in simulated time.
 */
#ifndef LOCKSTEP_TORTURE_DEVICE_H
#define LOCKSTEP_TORTURE_DEVICE_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>

#define DEVICE_MAX_IO 65536U

struct device {
	const char *path;
	int fd;
	uint64_t sectors;
	bool is_file;
};

struct aio {
	aio_context_t context;
	unsigned int in_flight;
};

/* 0, or -1 with a message on stderr. */
int device_open(struct device *d, const char *path, bool writable);
void device_close(struct device *d);

/*
 * Reads the whole device in order and calls @each for each sector; stops when
 * it returns nonzero, and returns that; -1 with a message on an error.
 */
int device_scan(struct device *d, int (*each)(void *arg, uint64_t sector, const void *data),
		void *arg);

int aio_open(struct aio *a, unsigned int depth);
void aio_close(struct aio *a);
/* @tag comes back with the completion. 0 or -errno. */
int aio_write(struct aio *a, struct device *d, void *data, uint64_t sector, uint32_t count,
	      bool fua, uint64_t tag);
int aio_read(struct aio *a, struct device *d, void *data, uint64_t sector, uint32_t count,
	     uint64_t tag);
int aio_flush(struct aio *a, struct device *d, uint64_t tag);
/*
 * Waits for at least @min completions or until @ns have passed (-1: for ever).
 * Returns how many there are.
 */
int aio_reap(struct aio *a, struct io_event *events, int min, int max, int64_t ns);

/* Ioctls: 0 or -errno. */
int device_zero(struct device *d, uint64_t sector, uint32_t count);
int device_discard(struct device *d, uint64_t sector, uint32_t count);

uint64_t now_ns(void);
void sleep_ns(uint64_t ns);

#endif
