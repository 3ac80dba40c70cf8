// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <scsi/sg.h>

#include "../../target-plugin/dcd-identity-format.h"
#include "device.h"

#define PAGE		4096U
#define CHUNK		DEVICE_MOST
#define DRAINING	"/sys/module/dm_lockstep/parameters/draining"
#define ASK_MS		30000U	/* an answer may have to wait for a session to come back */
#define PAGE_SECTORS	(PAGE / 512U)
#define DEPTH		8		/* of devices that are made of others */

/* Reads and writes apart: a wire may be slow in one direction only. */
static struct pace {
	int fd;			/* of the device; -1: none */
	size_t bytes;
	u64 least_ms;		/* any has taken; the first one is of a superblock, so a small one */
} reads = { .fd = -1 }, writes = { .fd = -1 };

static int complain(const struct device *d, const char *what)
{
	fprintf(stderr, "lockstep-meta: %s: %s: %s%s\n", d->path, what, strerror(errno),
		errno == EBUSY ? " (mounted, or in a running mirror?)" : "");
	return -1;
}

/* Of a file: what O_EXCL is for block devices. */
static int claim_file(struct device *d)
{
	if (!flock(d->fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno == EWOULDBLOCK)
		errno = EBUSY;
	return complain(d, "can't be used");
}

int device_open(struct device *d, const char *path, bool for_writing)
{
	int flags = O_CLOEXEC | (for_writing ? O_RDWR | O_EXCL : O_RDONLY);
	struct stat st;
	uint64_t bytes;

	*d = (struct device){ .path = path, .fd = open(path, flags | O_DIRECT) };
	if (d->fd < 0 && errno == EINVAL)	/* a file system without direct I/O */
		d->fd = open(path, flags);
	if (d->fd < 0 || fstat(d->fd, &st))
		goto failed;
	bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode)) {
		d->node = st.st_rdev;
		if (ioctl(d->fd, BLKGETSIZE64, &bytes))
			goto failed;
	} else if (!S_ISREG(st.st_mode)) {
		errno = ENOTBLK;
		goto failed;
	} else if (for_writing && claim_file(d)) {
		device_close(d);
		return -1;
	}
	d->on = st.st_dev;
	d->inode = st.st_ino;
	d->sectors = bytes / 512;
	return 0;
failed:
	complain(d, "can't be opened");
	device_close(d);
	return -1;
}

void device_close(struct device *d)
{
	if (d->fd >= 0)
		close(d->fd);
	/* The next device may get the same number. */
	if (reads.fd == d->fd)
		reads.fd = -1;
	if (writes.fd == d->fd)
		writes.fd = -1;
	d->fd = -1;
}

bool device_same(const struct device *a, const struct device *b)
{
	return a->node || b->node ? a->node == b->node : a->on == b->on && a->inode == b->inode;
}

/* Aligned for direct I/O. Never freed: a few for each run. */
static void *buffer(void)
{
	static void *b;

	if (!b && posix_memalign(&b, PAGE, CHUNK)) {
		fputs("lockstep-meta: no memory\n", stderr);
		exit(1);
	}
	return b;
}

static u64 clock_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000 + (u64)t.tv_nsec / 1000000;
}

static size_t at_once(struct pace *p, const struct device *d)
{
	if (p->fd != d->fd)
		*p = (struct pace){ .fd = d->fd, .bytes = DEVICE_LEAST, .least_ms = UINT32_MAX };
	return p->bytes;
}

/* So many bytes, asked for at @began, have come, or (not @good) it has failed. */
static void returned(struct pace *p, size_t bytes, u64 began, bool good)
{
	u64 took = clock_ms() - began;

	if (good && took < p->least_ms)
		p->least_ms = took;
	if (took > p->least_ms + DEVICE_SOON_MS)
		p->bytes = p->bytes / 2 > DEVICE_LEAST ? p->bytes / 2 : DEVICE_LEAST;
	else if (good && bytes >= p->bytes && p->bytes < DEVICE_MOST)
		p->bytes *= 2;
}

size_t device_at_once(const struct device *d)
{
	return at_once(&reads, d);
}

/* From @from, or else to @to. If not all of it: with errno. */
static bool transfer(const struct device *d, void *to, const void *from, size_t bytes, u64 sector)
{
	struct pace *p = from ? &writes : &reads;

	for (size_t done = 0, part; done < bytes; done += part) {
		size_t most = at_once(p, d);
		off_t at = (off_t)(sector * 512 + done);
		u64 began = clock_ms();
		ssize_t n;

		part = bytes - done < most ? bytes - done : most;
		n = from ? pwrite(d->fd, (const u8 *)from + done, part, at) :
			   pread(d->fd, (u8 *)to + done, part, at);
		if (n >= 0 && n != (ssize_t)part)
			errno = EIO;
		returned(p, part, began, n == (ssize_t)part);
		if (n != (ssize_t)part)
			return false;
	}
	return true;
}

int device_read(const struct device *d, void *buf, size_t bytes, u64 sector)
{
	return transfer(d, buf, NULL, bytes, sector) ? 0 : complain(d, "can't be read");
}

bool device_try_read(const struct device *d, void *buf, size_t bytes, u64 sector)
{
	return transfer(d, buf, NULL, bytes, sector);
}

bool device_patient_read(const struct device *d, void *buf, size_t bytes, u64 sector)
{
	bool good = device_try_read(d, buf, bytes, sector);

	for (u32 i = 0; !good && i < 10; i++) {
		usleep(100000);
		good = device_try_read(d, buf, bytes, sector);
	}
	return good;
}

/*
 * How many were submitted; each of them sets its *good. *came: fewer, if their answers can't be
 * had.
 */
static u32 read_async(aio_context_t aio, const struct device *d, u8 *buf, size_t bytes,
		      const u64 *sector, u32 n, bool *good, long *came)
{
	struct iocb io[DEVICE_MANY], *list[DEVICE_MANY];
	struct io_event done[DEVICE_MANY];
	long sent;

	for (u32 i = 0; i < n; i++) {
		list[i] = &io[i];
		io[i] = (struct iocb){
			.aio_data = i, .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (u32)d->fd,
			.aio_buf = (uintptr_t)(buf + i * bytes), .aio_nbytes = bytes,
			.aio_offset = (int64_t)(sector[i] * 512),
		};
	}
	sent = syscall(SYS_io_submit, aio, (long)n, list);
	for (*came = 0; *came < sent; ) {
		long r = syscall(SYS_io_getevents, aio, 1L, sent - *came, done, NULL);

		for (long i = 0; i < r; i++)
			good[done[i].data] = done[i].res == (int64_t)bytes;
		if (r < 0 && errno != EINTR)
			break;
		*came += r > 0 ? r : 0;
	}
	return sent > 0 ? (u32)sent : 0;
}

void device_read_many(const struct device *d, u8 *buf, size_t bytes, const u64 *sector, u32 n,
		      bool *good)
{
	/* Kept: to destroy it takes 20 ms, an RCU grace period, and a search reads often. */
	static aio_context_t aio;
	u64 began = clock_ms();
	u32 sent = 0;
	long came;

	memset(good, 0, n * sizeof(*good));
	(void)at_once(&reads, d);
	if (aio || !syscall(SYS_io_setup, DEVICE_MANY, &aio)) {
		sent = read_async(aio, d, buf, bytes, sector, n, good, &came);
		if (came < (long)sent) {
			syscall(SYS_io_destroy, aio);	/* waits for what is on its way */
			aio = 0;
		}
		returned(&reads, sent * bytes, began, !memchr(good, false, sent));
	}
	for (; sent < n; sent++)
		good[sent] = device_try_read(d, buf + sent * bytes, bytes, sector[sent]);
}

int device_write(const struct device *d, const void *buf, size_t bytes, u64 sector)
{
	return transfer(d, NULL, buf, bytes, sector) ? 0 : complain(d, "can't be written");
}

int device_flush(const struct device *d)
{
	return fsync(d->fd) ? complain(d, "can't be flushed") : 0;
}

/* Whether the whole of @answer came. */
static bool ask_scsi(const struct device *d, u8 *cdb, u8 cdb_bytes, void *answer, u32 bytes)
{
	struct sg_io_hdr io = {
		.interface_id = 'S', .cmd_len = cdb_bytes, .cmdp = cdb,
		.dxfer_direction = SG_DXFER_FROM_DEV, .dxfer_len = bytes, .dxferp = answer,
		.timeout = ASK_MS,
	};

	memset(answer, 0, bytes);
	return d->node && !ioctl(d->fd, SG_IO, &io) && !(io.info & SG_INFO_CHECK) && io.resid <= 0;
}

void device_log(const struct device *d, u8 uuid[16])
{
	u8 inquiry[] = { 0x12, 1, DCD_IDENTITY_PAGE, 0, DCD_IDENTITY_BYTES, 0 };
	struct dcd_identity page;

	memset(uuid, 0, 16);
	if (ask_scsi(d, inquiry, sizeof(inquiry), &page, sizeof(page)) && dcd_identity_right(&page))
		memcpy(uuid, page.log_uuid, sizeof(page.log_uuid));
}

/* The size of the LUN of a DCD that answers for @d; 0: none does. */
static u64 lun_sectors(const struct device *d)
{
	static const u8 none[16];
	struct { __be64 last; __be32 block_bytes; u8 more[20]; } capacity;
	u8 read_capacity[16] = { 0x9e, 0x10, [13] = sizeof(capacity) };
	u8 log[16];

	device_log(d, log);
	if (!memcmp(log, none, sizeof(none)) ||
	    !ask_scsi(d, read_capacity, sizeof(read_capacity), &capacity, sizeof(capacity)))
		return 0;
	return (be64toh(capacity.last) + 1) * (be32toh(capacity.block_bytes) / 512);
}

/*
 * What is made of several devices, or changes what is written, doesn't pass the question on: those
 * that it is made of are asked. @place: its folder in sysfs.
 */
static u64 lun_below(const char *place, int depth)
{
	char path[1024];
	struct dirent *one;
	u64 sectors = 0;
	DIR *slaves;

	snprintf(path, sizeof(path), "%s/slaves", place);
	slaves = opendir(path);
	while (slaves && !sectors && (one = readdir(slaves))) {
		struct device below = { .path = path };
		struct stat st;

		if (*one->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "/dev/%s", one->d_name);
		for (char *c = path; *c; c++)
			*c = *c == '!' ? '/' : *c;
		below.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (below.fd >= 0 && !fstat(below.fd, &st) && S_ISBLK(st.st_mode)) {
			below.node = st.st_rdev;
			sectors = lun_sectors(&below);
		}
		if (below.fd >= 0)
			close(below.fd);
		snprintf(path, sizeof(path), "/sys/class/block/%s", one->d_name);
		if (!sectors && depth)
			sectors = lun_below(path, depth - 1);
	}
	if (slaves)
		closedir(slaves);
	return sectors;
}

u64 device_part_of(const struct device *d)
{
	u64 sectors = lun_sectors(d);
	char place[64];

	if (sectors || !d->node)
		return sectors == d->sectors ? 0 : sectors;
	snprintf(place, sizeof(place), "/sys/dev/block/%u:%u", major(d->node), minor(d->node));
	return lun_below(place, DEPTH);
}

bool device_bypasses(const struct device *d, const struct super *s)
{
	u8 uuid[16];

	if (s->log_state != LOCKSTEP_LOG_BEHIND)
		return false;
	device_log(d, uuid);
	return memcmp(uuid, s->log_uuid, sizeof(uuid));
}

bool device_unmarked(const struct device *d, const struct super *s, u8 uuid[16])
{
	static const u8 none[16];

	device_log(d, uuid);
	return memcmp(uuid, none, sizeof(none)) &&
	       (s->log_state != LOCKSTEP_LOG_BEHIND ||
		memcmp(uuid, s->log_uuid, sizeof(s->log_uuid)));
}

/* Both slots at the end, or @one if the other can't be read (metadata.c: why that is enough). */
static int read_slots(const struct device *d, u8 *buf, u64 start, bool *one)
{
	bool good = false;

	*one = !device_try_read(d, buf, LOCKSTEP_SLOTS_BYTES, start);
	if (!*one)
		return 0;
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		u8 *slot = buf + i * LOCKSTEP_SLOT_BYTES;

		if (device_try_read(d, slot, LOCKSTEP_SLOT_BYTES, start + i * LOCKSTEP_SLOT_SECTORS))
			good = true;
		else
			memset(slot, 0, LOCKSTEP_SLOT_BYTES);
	}
	return good ? 0 : device_read(d, buf, LOCKSTEP_SLOTS_BYTES, start);
}

int device_find(const struct device *d, struct super_found *found)
{
	u64 start = lockstep_slots_start(d->sectors);
	u8 *buf = buffer();
	bool one = false;

	memset(buf, 0, LOCKSTEP_SLOTS_BYTES);
	if (start && read_slots(d, buf, start, &one))
		return -1;
	super_find(buf, d->sectors, found);
	/* Blank is what may be overwritten: not a device of which something can't be read. */
	if (one && found->kind == SUPER_BLANK)
		return device_read(d, buf, LOCKSTEP_SLOTS_BYTES, start);
	found->bypassed = found->kind == SUPER_VALID && device_bypasses(d, &found->super);
	if (found->kind != SUPER_VALID || !found->super.moved_from)
		return 0;
	if (device_read(d, buf, LOCKSTEP_SLOTS_BYTES, found->super.moved_from))
		return -1;
	if (super_moved_back(&found->super, buf)) {
		found->kind = SUPER_BAD;
		found->reason = SUPER_MOVED_BACK;
	}
	return 0;
}

bool device_drains(const struct device *d, const struct super_found *found)
{
	FILE *f = fopen(DRAINING, "re");	/* there is none: the module isn't loaded */
	char line[1024], uuid[UUID_TEXT], leg[UUID_TEXT] = "";
	unsigned int major, minor;
	bool drains = false;

	if (found->kind == SUPER_VALID)
		super_uuid_text(found->super.leg_uuid, leg);
	while (f && !drains && fgets(line, sizeof(line), f))
		drains = sscanf(line, "%*u %*s %u:%u %36s", &major, &minor, uuid) == 3 &&
			 ((d->node && d->node == makedev(major, minor)) || !strcmp(uuid, leg));
	if (f)
		fclose(f);
	return drains;
}

int device_put_super_at(const struct device *d, u64 sectors, const struct super *s)
{
	u64 start = lockstep_slots_start(sectors);
	u8 *buf = buffer();

	super_pack(s, sectors, buf);
	for (u32 i = 0; i < LOCKSTEP_SLOTS; i++) {
		if (device_write(d, buf, LOCKSTEP_SLOT_BYTES, start + i * LOCKSTEP_SLOT_SECTORS) ||
		    device_flush(d))
			return -1;
	}
	return 0;
}

int device_put_super(const struct device *d, const struct super *s)
{
	return device_put_super_at(d, d->sectors, s);
}

int device_clear_slots(const struct device *d, u64 start)
{
	u8 *buf = buffer();

	memset(buf, 0, LOCKSTEP_SLOTS_BYTES);
	return device_write(d, buf, LOCKSTEP_SLOTS_BYTES, start) || device_flush(d) ? -1 : 0;
}

int device_clear_super(const struct device *d)
{
	return device_clear_slots(d, lockstep_slots_start(d->sectors));
}

static u32 chunk_sectors(const struct super *s, u32 done)
{
	u32 left = s->map_sectors - done;

	return left < CHUNK / 512 ? left : CHUNK / 512;
}

static void set_bits(struct lockstep_map_sector *sector, u32 index, const struct super *s,
		     const u8 *bits)
{
	u64 regions = lockstep_regions(s->data_sectors, s->region_shift);
	u64 first = (u64)index * LOCKSTEP_MAP_BITS;

	for (u32 b = 0; b < LOCKSTEP_MAP_BITS && first + b < regions; b++) {
		if (bits[(first + b) / 8] & 1U << (first + b) % 8)
			map_sector_set(sector, b);
	}
	map_sector_seal(sector);
}

int device_put_map(const struct device *d, const struct super *s, const u8 *bits)
{
	struct lockstep_map_sector *sectors = buffer();

	for (u32 done = 0, n; done < s->map_sectors; done += n) {
		n = chunk_sectors(s, done);
		for (u32 i = 0; i < n; i++) {
			map_sector_init(&sectors[i], done + i, s->map_epoch);
			if (bits)
				set_bits(&sectors[i], done + i, s, bits);
		}
		if (device_write(d, sectors, n * 512, s->map_start + done))
			return -1;
	}
	return device_flush(d);
}

/* Pages that can't be read look damaged (0xff): all of their bits count as set, as in map-image.c. */
static void read_map(const struct device *d, void *buf, u32 sectors, u64 at)
{
	u8 *page = buf;
	u32 n;

	if (device_try_read(d, buf, sectors * 512, at))
		return;
	for (; sectors; sectors -= n, at += n, page += n * 512) {
		n = sectors < LOCKSTEP_MAP_PAGE ? sectors : LOCKSTEP_MAP_PAGE;
		if (!device_try_read(d, page, n * 512, at))
			memset(page, 0xff, n * 512);
	}
}

/* What the activity log names. Of a sector that is damaged nobody knows what it named. */
static void get_activity(const struct device *d, const struct super *s, u8 *bits, u32 *bad)
{
	struct lockstep_map_sector *sectors = buffer();
	u64 regions = lockstep_regions(s->data_sectors, s->region_shift);
	u32 first = s->map_sectors - LOCKSTEP_ACTIVITY_SECTORS;

	if (!s->map_epoch)
		return;
	read_map(d, sectors, LOCKSTEP_ACTIVITY_SECTORS, s->map_start + first);
	for (u32 i = 0; i < LOCKSTEP_ACTIVITY_SECTORS; i++) {
		if (map_sector_take(&sectors[i], first + i, s->map_epoch) == MAP_SECTOR_BAD) {
			++*bad;
			memset(bits, 0xff, regions / 8);
			for (u64 r = regions & ~7ULL; r < regions; r++)
				bits[r / 8] |= (u8)(1U << r % 8);
			continue;
		}
		for (u32 e = 0; e < LOCKSTEP_SECTOR_ENTRIES; e++) {
			u32 region = le32_to_cpu(sectors[i].entries[e]) - 1;

			if (region < regions)
				bits[region / 8] |= (u8)(1U << region % 8);
		}
	}
}

/* Is that page of the map, of any epoch? */
static bool is_map(const struct lockstep_map_sector *page, u32 first)
{
	for (u32 i = 0; i < LOCKSTEP_MAP_PAGE; i++)
		if (map_sector_check(&page[i], first + i, 1) == MAP_SECTOR_BAD)
			return false;
	return true;
}

int device_clear_map(const struct device *d, const struct super *s)
{
	static const u8 zeroes[LOCKSTEP_MAP_PAGE * 512] __attribute__((aligned(4096)));
	struct lockstep_map_sector *sectors = buffer();

	for (u32 done = 0, n; done < s->map_sectors; done += n) {
		n = chunk_sectors(s, done);
		read_map(d, sectors, n, s->map_start + done);
		for (u32 i = 0; i + LOCKSTEP_MAP_PAGE <= n; i += LOCKSTEP_MAP_PAGE)
			if (is_map(&sectors[i], done + i) &&
			    device_write(d, zeroes, sizeof(zeroes), s->map_start + done + i))
				return -1;
	}
	return device_flush(d);
}

void device_get_map(const struct device *d, const struct super *s, u8 *bits, u32 *bad)
{
	struct lockstep_map_sector *sectors = buffer();
	u64 regions = lockstep_regions(s->data_sectors, s->region_shift);
	u32 needed = lockstep_map_sectors((u32)regions) - LOCKSTEP_ACTIVITY_SECTORS;

	*bad = 0;
	for (u32 done = 0, n; done < needed && s->map_epoch; done += n) {
		n = chunk_sectors(s, done);
		read_map(d, sectors, n, s->map_start + done);
		for (u32 i = 0; i < n && (u64)(done + i) * LOCKSTEP_MAP_BITS < regions; i++) {
			u64 first = (u64)(done + i) * LOCKSTEP_MAP_BITS;

			if (map_sector_take(&sectors[i], done + i, s->map_epoch) == MAP_SECTOR_BAD)
				++*bad;
			for (u32 b = 0; b < LOCKSTEP_MAP_BITS && first + b < regions; b++) {
				if (map_sector_test(&sectors[i], b))
					bits[(first + b) / 8] |= (u8)(1U << (first + b) % 8);
			}
		}
	}
	get_activity(d, s, bits, bad);
}
