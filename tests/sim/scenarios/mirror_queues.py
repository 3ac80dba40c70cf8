# SPDX-License-Identifier: GPL-2.0-only
"""The remote leg hangs behind a queue that makes whoever submits wait: nobody but the leg's sender
(sender.h) waits there.

Each row is a queue as administrators have it: writeback throttling, schedulers, few requests, a
logical volume or a multipath between. The disk is scsi_debug's, which takes minutes for each
command from some moment on; a multipath keeps what it gets once its only path has failed.

With arguments: only these rows.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS, Beside
from statelab import REGION, create, super_of

MIB = 16
TIMEOUT_MS = 2000
MOST = TIMEOUT_MS / 1000 + 1  # what a caller may have to wait, seconds
HANG_MS = 60_000
DEBUG = Path("/sys/bus/pseudo/drivers/scsi_debug")
DIRECT, BUFFERED = 24, 64
SYNC_FILE_RANGE_WRITE = 2
libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Row:
    scheduler: str = "none"
    wbt_us: int = 0
    requests: int = 0
    depth: int = 32
    below: str = ""
    policy: str = "degrade"


ROWS = {
    "plain": Row(),
    "wbt": Row(wbt_us=75_000),
    "wbt-deadline": Row("mq-deadline", wbt_us=75_000),
    "deadline-few": Row("mq-deadline", requests=4, depth=4),
    "bfq": Row("bfq", requests=8, depth=8),
    "volume": Row("mq-deadline", wbt_us=75_000, requests=4, depth=4, below="linear"),
    "multipath": Row(below="multipath"),
    "block": Row("mq-deadline", requests=4, depth=4, policy="block"),
}


class Remote:
    """The disk of scsi_debug with the row's queue, and what is between it and the mirror."""

    def __init__(self, row: Row) -> None:
        self.row = row
        base.put(DEBUG / "delay", 0)
        base.put(DEBUG / "add_host", 1)
        place = "adapter*/host*/target*/*:0/block/*"
        base.until(lambda: list(DEBUG.glob(place)), "the disk")
        self.disk = f"/dev/{next(DEBUG.glob(place)).name}"
        base.until(Path(self.disk).exists, self.disk)
        device = Path("/sys/block") / Path(self.disk).name
        base.put(device / "device/timeout", 3600)
        base.put(device / "device/queue_depth", row.depth)
        base.put(device / "queue/scheduler", row.scheduler)
        base.put(device / "queue/wbt_lat_usec", row.wbt_us)
        if row.requests:
            base.put(device / "queue/nr_requests", row.requests)
        self.node = self.disk
        sectors = dm.sectors(self.disk)
        if row.below == "linear":
            self.node = dm.create("volume", f"0 {sectors} linear {self.disk} 0")
        elif row.below == "multipath":
            base.put(Path("/sys/module/dm_mod/parameters/dm_mq_queue_depth"), 4)
            self.path = (device / "dev").read_text().strip()
            self.node = dm.create("paths", f"0 {sectors} multipath 1 queue_if_no_path 0 1 1 "
                                  f"round-robin 0 1 1 {self.path} 1000")  # fmt: skip

    def hang(self) -> None:
        if self.row.below == "multipath":
            dm.message("paths", f"fail_path {self.path}")
        else:
            base.put(DEBUG / "delay", HANG_MS)

    def wake(self) -> None:
        """What is out comes back in its time; what isn't yet is quick."""
        if self.row.below == "multipath":
            dm.message("paths", f"reinstate_path {self.path}")
            return

        def quick() -> bool:
            with contextlib.suppress(OSError):  # not while it has commands
                base.put(DEBUG / "delay", 0)
                return True
            return False

        base.until(quick, "the end of all its commands", 3600)

    def close(self) -> None:
        if self.row.below:
            dm.remove({"linear": "volume", "multipath": "paths"}[self.row.below])
        base.put(DEBUG / "add_host", -1)
        base.until(lambda: not Path(self.disk).exists(), "the end of the disk")


def writeback(node: str) -> Callable[[], object]:
    """As the kernel's flusher does it: many writes that nobody waits for, in regions of theirs."""
    fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
    for i in range(BUFFERED):
        os.pwrite(fd, blk.pattern(f"buffered {i}", 8), (200 + i) * REGION * 512)

    def flush() -> None:
        libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)
        os.close(fd)

    return flush


def in_time(what: str, seconds: float) -> None:
    print(f"  {what}: {seconds:.3f} s", flush=True)
    base.expect(seconds <= MOST, f"{what} took {seconds:.3f} s, more than {MOST} s")


def timed_writes(disk: blk.Disk, first: int, number: int, took: dict[int, float]) -> list[Beside]:
    def one(i: int) -> Callable[[], object]:
        def write() -> None:
            took[i] = blk.timed(lambda: disk.write(i * REGION, blk.pattern(f"direct {i}", 8)))

        return write

    return [Beside(one(i)) for i in range(first, first + number)]


def serves(name: str, disk: blk.Disk) -> None:
    """Without the leg, though a worker sleeps in its queue."""
    base.expect(blk.timed(lambda: dm.status(name)) < 0.1, "status")
    took = blk.timed(lambda: disk.write(150 * REGION, blk.pattern("clean", 8)))
    base.expect(took < 0.1, f"a write to a clean region took {took:.3f} s")
    took = blk.timed(disk.flush)
    in_time("flush, with what was buffered", took)
    took = blk.timed(lambda: dm.message(name, "coalesce 16"))
    base.expect(took < 0.1, f"a message took {took:.3f} s")
    in_time("suspend", blk.timed(lambda: dm.suspend(name)))
    in_time("resume", blk.timed(lambda: dm.resume(name)))
    base.expect(blk.timed(lambda: disk.write(151 * REGION, bytes(4096))) < 0.1, "the next write")


def hung(name: str, row: Row) -> None:
    base.step(f"{name}: {row}")
    remote = Remote(row)
    local = ram.Ram("local", MIB)
    # The module keeps one store for all the disks that it has had.
    base.run("dd", f"if={local.node}", f"of={remote.node}", "bs=1M", "oflag=direct")
    create(local.node, remote.node, "--assume-clean")
    words = ("remote_timeout", TIMEOUT_MS, "rejoin", 0, "policy", row.policy)
    sectors = super_of(local.node).data_sectors
    device = mirror.Mirror(local.node, remote.node, *words, sectors=sectors)
    took: dict[int, float] = {}
    with blk.Disk(device.node) as disk:
        for i in range(8):
            disk.write(i * REGION, blk.pattern("before", 8))
        disk.flush()
        flusher = writeback(device.node)
        remote.hang()
        began = time.monotonic()
        back = Beside(flusher)
        writes = timed_writes(disk, 0, DIRECT, took)
        base.until(lambda: device.status().health == "AD", "the leg given up", 300)
        in_time("given up after", time.monotonic() - began)
        if row.policy == "block":
            base.until(lambda: "blocked" in device.status().rest, "blocked", 300)
            in_time("held after", time.monotonic() - began)
            in_time("unblock", blk.timed(lambda: device.message("unblock")))
        for write in writes:
            write.result()
        in_time("the last write", max(took.values()))
        back.result()
        serves(device.name, disk)
        print(f"  {device.status().rest[FIELDS.index('abandoned')]} abandoned", flush=True)
        remote.wake()
        base.until(lambda: recovered(device), "recover accepted", 3600)
        device.in_sync()
        for i in range(DIRECT):
            base.equal(disk.read(i * REGION, 8), blk.pattern(f"direct {i}", 8), f"write {i}")
    device.remove()
    blk.same(local.node, remote.node, super_of(local.node).data_sectors)
    local.remove()
    remote.close()


def recovered(device: mirror.Mirror) -> bool:
    with contextlib.suppress(OSError):
        device.message("recover")
        return True
    return False


for row_name in base.words(1, ROWS) or ROWS:
    hung(row_name, ROWS[row_name])
base.step("done")
