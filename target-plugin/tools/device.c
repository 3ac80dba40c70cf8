// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include "../dcd-format.h"
#include "device.h"

/* One that takes longer isn't asked again. */
#define LATE_MS 250

/* Blocks of what is open with sectors that took long to fail: a bit each. */
static struct slow {
	int fd;
	u8 sectors;
	u64 block;
} *slow;
static size_t nr_slow;

int device_open(struct device *d, const char *what, const char *path, bool for_writing)
{
	struct stat st;

	d->path = path;
	d->moves = NULL;
	d->fd = open(path, (for_writing ? O_RDWR | O_EXCL : O_RDONLY) | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &st)) {
		fprintf(stderr, "dcd: %s %s: %s%s\n", what, path, strerror(errno),
			errno == EBUSY ? " (mounted, or open in a DCD?)" : "");
		return -1;
	}
	d->bytes = (u64)st.st_size;
	if (S_ISBLK(st.st_mode)) {
		if (ioctl(d->fd, BLKGETSIZE64, &d->bytes)) {
			fprintf(stderr, "dcd: %s %s: can't get its size: %s\n", what, path,
				strerror(errno));
			return -1;
		}
		ioctl(d->fd, BLKFLSBUF, 0);	/* only root may; who reads an image needn't */
	} else if (!S_ISREG(st.st_mode)) {
		fprintf(stderr, "dcd: %s %s: neither a block device nor a file\n", what, path);
		return -1;
	}
	return 0;
}

/* They were written, or it is closed. */
static void forget(const struct device *d, u64 at, u64 end)
{
	for (size_t i = 0; i < nr_slow; i++)
		if (slow[i].fd == d->fd && (slow[i].block + 1) * DCD_BLOCK > at &&
		    slow[i].block * DCD_BLOCK < end)
			slow[i].sectors = 0;
}

void device_close(struct device *d)
{
	if (d->fd >= 0) {
		forget(d, 0, d->bytes);
		close(d->fd);
	}
	d->fd = -1;
}

int device_try_read(const struct device *d, void *buf, size_t bytes, u64 at)
{
	while (bytes) {
		u64 where, part = dcd_moves_part(d->moves, at, bytes, &where);
		ssize_t n = pread(d->fd, buf, part, (off_t)where);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		buf = (u8 *)buf + n;
		at += (u64)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Past the page cache, which knows no less than a page; one that reads through it if need be. */
static struct device direct(const struct device *d, int how, u32 *block)
{
	struct device raw = *d;
	char path[32];
	int size;

	*block = DCD_BLOCK;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", d->fd);
	raw.fd = open(path, how | O_DIRECT | O_CLOEXEC);
	if (raw.fd < 0)
		raw.fd = dup(d->fd);
	else if (!ioctl(d->fd, BLKSSZGET, &size) && size >= SECTOR_SIZE && size < (int)DCD_BLOCK)
		*block = (u32)size;
	return raw;
}

static u8 *late_at(const struct device *d, u64 block)
{
	for (size_t i = 0; i < nr_slow; i++)
		if (slow[i].fd == d->fd && slow[i].block == block)
			return &slow[i].sectors;
	return NULL;
}

static bool is_late(const struct device *d, u64 at)
{
	const u8 *sectors = late_at(d, at / DCD_BLOCK);

	return sectors && *sectors & (1U << (at % DCD_BLOCK >> SECTOR_SHIFT));
}

/* Without memory they are asked again. */
static void remember(const struct device *d, u64 at, size_t bytes)
{
	for (u64 end = at + bytes; at < end; at += SECTOR_SIZE) {
		u8 *sectors = late_at(d, at / DCD_BLOCK);

		if (!sectors) {
			struct slow *more = realloc(slow, (nr_slow + 1) * sizeof(*slow));

			if (!more)
				return;
			slow = more;
			slow[nr_slow] = (struct slow){ .fd = d->fd, .block = at / DCD_BLOCK };
			sectors = &slow[nr_slow++].sectors;
		}
		*sectors |= (u8)(1U << (at % DCD_BLOCK >> SECTOR_SHIFT));
	}
}

/* As device_try_read(); @late: whether it took long. */
static int timed_read(const struct device *d, void *buf, size_t bytes, u64 at, bool *late)
{
	struct timespec began, now;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &began);
	r = device_try_read(d, buf, bytes, at);
	clock_gettime(CLOCK_MONOTONIC, &now);
	*late = (now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 >
		LATE_MS;
	return r;
}

/* What is read around: @bytes from @at on, to @buf; @unread of them. */
struct around {
	const struct device *d;
	struct device raw;
	u8 *part;		/* a block */
	u32 block;
	u64 at, end;
	u8 *buf, *unread;
};

/* One part of the device, if it is wanted: how many sectors of it can't be read. */
static u32 read_part(struct around *a, u64 from, u64 to, bool *failed, bool *late)
{
	u64 first = from > a->at ? from : a->at, end = to < a->end ? to : a->end;
	size_t bytes = end > first ? end - first : 0;

	*failed = false;
	*late = false;
	if (!bytes)
		return 0;
	if (!is_late(a->d, first)) {
		*failed = !a->part || a->raw.fd < 0 ||
			  timed_read(&a->raw, a->part, to - from, from, late);
		if (!*failed)
			memcpy(a->buf + (first - a->at), a->part + (first - from), bytes);
		if (!*failed)
			return 0;
	}
	memset(a->buf + (first - a->at), 0, bytes);
	memset(a->unread + ((first - a->at) >> SECTOR_SHIFT), 1, bytes >> SECTOR_SHIFT);
	return (u32)(bytes >> SECTOR_SHIFT);
}

/* A block of the device as a whole; and else by what can be read by itself. */
static u32 read_block(struct around *a, u64 from)
{
	u64 to = min_t(u64, from + DCD_BLOCK, a->d->bytes);
	u8 *known = late_at(a->d, from / DCD_BLOCK);
	bool failed, late;
	u32 size = DCD_BLOCK, n = 0;

	if (!known || !*known) {
		n = read_part(a, from, to, &failed, &late);
		if (!failed)
			return n;
		if (ioctl(a->d->fd, BLKPBSZGET, &size) || a->block == DCD_BLOCK)
			size = a->block;
		if (late && size >= DCD_BLOCK)
			remember(a->d, from, to - from);
		if (a->block == DCD_BLOCK || (late && size >= DCD_BLOCK))
			return n;
		memset(a->unread + ((max_t(u64, from, a->at) - a->at) >> SECTOR_SHIFT), 0,
		       (min_t(u64, to, a->end) - max_t(u64, from, a->at)) >> SECTOR_SHIFT);
	}
	for (n = 0; from < to; from += a->block) {
		n += read_part(a, from, from + a->block, &failed, &late);
		if (failed && late)
			remember(a->d, from, a->block);
	}
	return n;
}

static bool any_late(const struct device *d, u64 at, size_t bytes)
{
	for (size_t from = 0; from < bytes; from += SECTOR_SIZE)
		if (is_late(d, at + from))
			return true;
	return false;
}

u32 device_read_around(const struct device *d, void *buf, size_t bytes, u64 at, u8 *unread)
{
	struct around a = { .d = d, .at = at, .end = at + bytes, .buf = buf, .unread = unread };
	u32 n = 0;

	memset(unread, 0, bytes >> SECTOR_SHIFT);
	if (!any_late(d, at, bytes) && !device_try_read(d, buf, bytes, at))
		return 0;
	a.raw = direct(d, O_RDONLY, &a.block);
	a.part = aligned_alloc(DCD_BLOCK, DCD_BLOCK);
	for (u64 from = at / DCD_BLOCK * DCD_BLOCK; from < a.end; from += DCD_BLOCK)
		n += read_block(&a, from);
	free(a.part);
	device_close(&a.raw);
	return n;
}

int device_read(const struct device *d, void *buf, size_t bytes, u64 at)
{
	int r = device_try_read(d, buf, bytes, at);

	if (!r)
		return 0;
	fprintf(stderr, "dcd: can't read %zu bytes of %s at %llu: %s\n", bytes, d->path,
		(unsigned long long)at, strerror(-r));
	return -1;
}

int device_write(const struct device *d, const void *buf, size_t bytes, u64 at)
{
	forget(d, at, at + bytes);
	while (bytes) {
		u64 where, part = dcd_moves_part(d->moves, at, bytes, &where);
		ssize_t n = pwrite(d->fd, buf, part, (off_t)where);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			fprintf(stderr, "dcd: can't write %s at %llu: %s\n", d->path,
				(unsigned long long)at, n ? strerror(errno) : "it ends there");
			return -1;
		}
		buf = (const u8 *)buf + n;
		at += (u64)n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* Without a word, and each part at once: not all may be written. */
static int try_write(const struct device *d, const u8 *bytes, size_t n, u64 at)
{
	while (n) {
		u64 where, part = dcd_moves_part(d->moves, at, n, &where);

		if (pwrite(d->fd, bytes, part, (off_t)where) != (ssize_t)part)
			return -1;
		bytes += part;
		at += part;
		n -= part;
	}
	return 0;
}

static int write_back(const struct device *d, const u8 *bytes, u8 *again, size_t n, u64 at)
{
	if (try_write(d, bytes, n, at) || fsync(d->fd) ||
	    posix_fadvise(d->fd, 0, 0, POSIX_FADV_DONTNEED) || device_try_read(d, again, n, at))
		return -1;
	return memcmp(bytes, again, n);
}

int device_rewrite(const struct device *d, const void *buf, size_t bytes, u64 at)
{
	size_t room = (bytes + DCD_BLOCK - 1) / DCD_BLOCK * DCD_BLOCK;
	u8 *copy = aligned_alloc(DCD_BLOCK, 2 * room);
	u32 block;
	struct device raw = direct(d, O_RDWR, &block);
	int r = -1;

	forget(d, at, at + bytes);
	if (copy) {
		memcpy(copy, buf, bytes);
		if (raw.fd >= 0)
			r = write_back(&raw, copy, copy + room, bytes, at);
		if (r)	/* an image whose file system wants larger blocks */
			r = write_back(d, copy, copy + room, bytes, at);
	}
	if (r)
		fprintf(stderr, "dcd: %zu bytes of %s at %llu can't be written so that they can be read again\n",
			bytes, d->path, (unsigned long long)at);
	device_close(&raw);
	free(copy);
	return r ? -1 : 0;
}

int device_zero(const struct device *d, u64 bytes, u64 at)
{
	static const u8 zeroes[1 << 20];

	if (!fallocate(d->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, (off_t)at,
		       (off_t)bytes))
		return 0;
	/* Not every file system can that. */
	while (bytes) {
		u64 n = min_t(u64, bytes, sizeof(zeroes));

		if (device_write(d, zeroes, n, at))
			return -1;
		at += n;
		bytes -= n;
	}
	return 0;
}

int device_flush(const struct device *d)
{
	if (!fsync(d->fd))
		return 0;
	fprintf(stderr, "dcd: can't flush %s: %s\n", d->path, strerror(errno));
	return -1;
}

bool device_same(const char *a, const char *b)
{
	struct stat x, y;

	if (stat(a, &x) || stat(b, &y))
		return false;	/* opening it says why */
	if (S_ISBLK(x.st_mode))
		return S_ISBLK(y.st_mode) && x.st_rdev == y.st_rdev;
	return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Its first block, as it is on the disk by now. */
static int read_first(const struct device *d, u8 *block)
{
	u32 size;
	struct device raw = direct(d, O_RDONLY, &size);
	int r = -1;

	posix_fadvise(d->fd, 0, DCD_BLOCK, POSIX_FADV_DONTNEED);
	if (raw.fd >= 0)
		r = device_try_read(&raw, block, DCD_BLOCK, 0);
	device_close(&raw);
	return r;
}

static int appears_at(const struct device *d, const struct device *other, u8 *was, u8 *token,
		      u8 *seen)
{
	int r;

	/* One of these is what nearly all pairs of disks end at, and nothing is written. */
	if (read_first(d, was) || read_first(other, seen) || memcmp(was, seen, DCD_BLOCK))
		return 0;
	/* Who wrote it? A copy has the same bytes. */
	if (getrandom(token, DCD_BLOCK, 0) != DCD_BLOCK) {
		perror("dcd: getrandom");
		return -1;
	}
	r = device_rewrite(d, token, DCD_BLOCK, 0);
	if (!r)
		r = !read_first(other, seen) && !memcmp(token, seen, DCD_BLOCK);
	return device_rewrite(d, was, DCD_BLOCK, 0) ? -1 : r;
}

int device_is(const struct device *d, const struct device *other)
{
	u8 *blocks;
	int r = -1;

	if (d->bytes < DCD_BLOCK || other->bytes < DCD_BLOCK)
		return 0;
	blocks = aligned_alloc(DCD_BLOCK, 3 * DCD_BLOCK);
	if (blocks)
		r = appears_at(d, other, blocks, blocks + DCD_BLOCK, blocks + 2 * DCD_BLOCK);
	else
		fputs("dcd: no memory\n", stderr);
	free(blocks);
	return r;
}
