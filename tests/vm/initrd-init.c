// SPDX-License-Identifier: GPL-2.0-only
/*
 * First program of the VM lab's guests: the stock kernel has virtio-blk as a
 * module only. Loads it, mounts the disk with the serial "root" and goes on to
 * its init. With "lab.probe" on the kernel's command line it says so on the
 * console and powers off: the lab's proof that an accelerator really works.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAIT_MS 120000
#define POLL_MS 20

static void fail(const char *what)
{
	printf("lab-init: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	reboot(RB_POWER_OFF);
	_exit(1);
}

static int read_line(const char *path, char *line, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = read(fd, line, size - 1);
	close(fd);
	if (got < 0)
		return -1;
	line[got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

static void load(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
		fail(path);
	close(fd);
}

/* The letter of the disk vdX whose serial is "root", or 0. */
static char root_disk(void)
{
	char path[64], serial[32];

	for (char c = 'a'; c <= 'z'; c++) {
		snprintf(path, sizeof(path), "/sys/block/vd%c/serial", c);
		if (!read_line(path, serial, sizeof(serial)) && !strcmp(serial, "root"))
			return c;
	}
	return 0;
}

int main(void)
{
	char line[4096], disk;

	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/dev", 0755);
	mkdir("/new", 0755);
	if (mount("proc", "/proc", "proc", 0, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("dev", "/dev", "devtmpfs", 0, NULL))
		fail("mounting proc, sysfs, devtmpfs");
	if (read_line("/proc/cmdline", line, sizeof(line)))
		fail("/proc/cmdline");
	if (strstr(line, "lab.probe")) {
		puts("lab-init: probe passed");
		fflush(stdout);
		reboot(RB_POWER_OFF);
	}
	load("/virtio_blk.ko");
	for (int waited = 0; !(disk = root_disk()); waited += POLL_MS) {
		errno = ENODEV;
		if (waited >= WAIT_MS)
			fail("the disk with serial root");
		usleep(POLL_MS * 1000);
	}
	snprintf(line, sizeof(line), "/dev/vd%c", disk);
	if (mount(line, "/new", "ext4", MS_NOATIME, NULL))
		fail(line);
	umount2("/proc", MNT_DETACH);
	umount2("/sys", MNT_DETACH);
	if (mount("/dev", "/new/dev", NULL, MS_MOVE, NULL) || chdir("/new") ||
	    mount("/new", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		fail("going over to the root disk");
	execl("/sbin/init", "/sbin/init", (char *)NULL);
	fail("/sbin/init");
	return 1;
}
