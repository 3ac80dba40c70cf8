# SPDX-License-Identifier: GPL-2.0-only
"""The memory of a mirror's writes has a bound, and whoever waits for it gets on.

The arguments name the parts (PARTS at the end); without any, all but `flood`, which ends with a leg
that will take minutes more. A word test_NAME switches that knob of the module on.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS, Beside, Pair, load

FLOOD_MIB = 96
BIG = 1 << 21  # sectors
PARAMETERS = Path("/sys/module/dm_lockstep/parameters")
# What a mirror may have above its limit (budget.h), with one largest write.
LEAST_KIB = 1024 + 132
SMALL = ("memory_kib", 1024)
TIMEOUT_MS = 1000
_LIBC = ctypes.CDLL(None, use_errno=True)
_WRITE = 2  # SYNC_FILE_RANGE_WRITE


def writes_slab() -> int:
    """Bytes of the slab of writes."""
    for line in Path("/proc/slabinfo").read_text().splitlines():
        name, *words = line.split()
        if name == "lockstep_write":
            return int(words[1]) * int(words[2])
    raise base.Wrong("no slab lockstep_write")


def in_writeback_kib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("Writeback:"):
            return int(line.split()[1])
    raise base.Wrong("no Writeback in /proc/meminfo")


def memory(device: mirror.Mirror) -> tuple[int, int, int]:
    """KiB that its writes hold, that they may hold, and how many writes wait."""
    told = device.status().rest[FIELDS.index("memory")]
    used, limit, waiting = (int(word) for word in told.split("/"))
    return used, limit, waiting


class Stream:
    """Writes of `kib` that don't overlap, `depth` in flight; each by a thread of its own, as each
    may sleep in the mirror."""

    def __init__(self, node: str, depth: int, kib: int, tag: str = "") -> None:
        self._disk = blk.Disk(node)
        data = [blk.pattern(f"{tag} {n}", 2 * kib) for n in range(depth)]
        self._data = data
        self._kib = kib
        self._each = [
            Beside(lambda n=n: self._disk.write(2 * kib * n, data[n]))  # type: ignore[misc]
            for n in range(depth)
        ]

    @property
    def done(self) -> int:
        return sum(one.done for one in self._each)

    def end(self) -> None:
        for one in self._each:
            one.result()
        for n, data in enumerate(self._data):
            base.expect(self._disk.read(2 * self._kib * n, 2 * self._kib) == data, f"write {n}")
        self._disk.close()

    def failed(self) -> int:
        """How many did; all have come back."""
        bad = 0
        for one in self._each:
            try:
                one.result()
            except OSError as err:
                base.equal(err.errno, errno.EIO, "error of a write")
                bad += 1
        self._disk.close()
        return bad


def waits(device: mirror.Mirror) -> None:
    base.until(lambda: memory(device)[2], "writes that wait", 10)


def bounded(device: mirror.Mirror) -> None:
    used, limit, _ = memory(device)
    base.expect(used <= limit + LEAST_KIB, f"{used} KiB are held, {limit} KiB are the limit")


def all_back(device: mirror.Mirror) -> None:
    base.until(lambda: memory(device)[::2] == (0, 0), "all memory given back", 60)


def flood() -> None:
    base.step("a flood of writeback to a leg that takes 3 s")
    for name in ("z1", "z2"):
        dm.create(name, f"0 {BIG} zero")
    local = dm.create("l", f"0 {BIG} linear /dev/mapper/z1 0")
    remote = dm.create("r", f"0 {BIG} delay /dev/mapper/z2 0 3000")
    device = mirror.Mirror(local, remote, "nosync", "remote_timeout", 60000, sectors=BIG)
    # Writeback begins at once, and nobody who writes is held up for it.
    base.put(Path("/proc/sys/vm/dirty_background_bytes"), 1 << 20)
    base.put(Path("/proc/sys/vm/dirty_bytes"), 1 << 30)
    # Not closed: the last close would wait for all of it.
    fd = os.open(device.node, os.O_RDWR | os.O_CLOEXEC)
    data = b"x" * (1 << 20)
    Beside(lambda: [os.pwrite(fd, data, at << 20) for at in range(FLOOD_MIB)])
    dirty = slab = 0
    until = time.monotonic() + 9
    while time.monotonic() < until:
        dirty, slab = max(dirty, in_writeback_kib()), max(slab, writes_slab() >> 10)
        time.sleep(0.1)
    total = int(Path("/proc/meminfo").read_text().split()[1])
    print(f"  {dirty} KiB were in flight, {slab} KiB of slab; the machine has {total} KiB")
    # The legs' own share, 2 %, and what dm and the page cache have on the way to it.
    base.expect(dirty + slab < total // 25, f"{dirty + slab} KiB in flight, of {total} KiB")
    used, limit, waiting = memory(device)
    base.expect(limit == total // 100 * 2 or abs(limit - total // 50) < 64, f"limit {limit} KiB")
    base.expect(used and waiting, f"held {used} KiB, {waiting} wait")
    bounded(device)
    base.expect(used <= limit // 2, "background writes have more than their half")

    base.step("a synchronous write beside it takes as long as the leg does")
    with blk.Disk(device.node) as disk:
        took = blk.timed(lambda: disk.write(BIG - 8, blk.pattern("sync", 8), fua=True))
    print(f"  {took:.3f} s")
    base.expect(took < 6.5, f"it took {took} s")
    os._exit(0)  # the rest of the flood would take minutes


def order() -> None:
    base.step("more writes than the budget: all are done, in the order of their coming")
    legs = Pair("nosync", *SMALL, "coalesce", 1, zeroes=True)
    trip_ms = 2000 if base.CHECKED else 50  # 24 threads begin within that
    legs.remote.slow(trip_ms)
    took: dict[int, float] = {}
    disk = blk.Disk(legs.mirror.node)
    began = time.monotonic()

    def write(n: int) -> None:
        disk.write(n * 256, blk.pattern(f"{n}", 256))
        took[n] = time.monotonic() - began

    each = []
    for n in range(24):
        each.append(Beside(lambda n=n: write(n)))  # type: ignore[misc]
        base.until(lambda n=n: legs.count("writes") > n, f"write {n}")  # type: ignore[misc]
    bounded(legs.mirror)
    base.expect(legs.count("budget_waited"), "no write waited")
    for one in each:
        one.result()
    ends = [took[n] for n in range(24)]
    late = [n for n in range(23) if ends[n + 1] < ends[n] - trip_ms / 5000]
    base.expect(not late, f"writes {late} were overtaken: {ends}")
    print(f"  the last one after {max(ends):.3f} s, {legs.count('budget_waited')} waited")

    base.step("one write of 4 MiB, flushes and discards, with the smallest budget")
    disk.write(0, blk.pattern("large", 8192))
    disk.flush()
    disk.discard(0, 4096)
    disk.close()
    legs.remote.well()
    all_back(legs.mirror)
    legs.same()
    legs.close()


def changed() -> None:
    base.step("the budget is lowered while it is full, and raised again")
    legs = Pair("nosync", "memory_kib", 2048, "remote_timeout", 0)
    legs.remote.hang()
    stream = Stream(legs.mirror.node, 56, 128)
    waits(legs.mirror)
    before = memory(legs.mirror)
    legs.mirror.message("memory_kib 1024")
    base.equal(memory(legs.mirror), (before[0], 1024, before[2]), "memory when it is lowered")
    base.expect("memory_kib 1024" in dm.table("mirror"), "the table doesn't tell it")
    legs.mirror.message("memory_kib 3584")
    base.until(lambda: memory(legs.mirror)[0] > 3000, "more are let in")
    legs.mirror.message("memory_kib 1024")
    for bad in ("memory_kib", "memory_kib 1073741825", "memory_kib much", "memory_kib -1"):
        with base.refused(f"message {bad!r}", errno.EINVAL):
            legs.mirror.message(bad)
    legs.remote.wake()
    stream.end()
    all_back(legs.mirror)
    legs.same()
    legs.mirror.message("memory_kib 0")
    base.expect("memory_kib" not in dm.table("mirror"), "the table tells the default")
    legs.close()


def killed() -> None:
    base.step("who is killed doesn't stay in the mirror, and its writes are done")
    legs = Pair("nosync", *SMALL, "remote_timeout", 0)
    open_still = os.open(legs.mirror.node, os.O_RDWR | os.O_CLOEXEC)
    data = blk.pattern("killed", 8192)
    os.pwrite(open_still, data, 0)
    legs.remote.hang()
    child = os.fork()
    if not child:
        # Begins writeback, and waits for none.
        _LIBC.sync_file_range(open_still, ctypes.c_int64(0), ctypes.c_int64(len(data)), _WRITE)
        os._exit(0)
    waits(legs.mirror)
    os.kill(child, signal.SIGKILL)
    gone = Beside(lambda: os.waitpid(child, 0))
    try:
        base.until(lambda: gone.done, "who is killed to be gone", 1)
    except base.Wrong:
        legs.remote.wake()  # or this couldn't end
        raise
    base.expect(legs.count("budget_left"), "no bio was left to the worker")
    bounded(legs.mirror)
    legs.remote.wake()
    os.fsync(open_still)
    os.close(open_still)
    all_back(legs.mirror)
    legs.same()
    with blk.Disk(legs.local.disk.node, write=False) as disk:
        base.expect(disk.read(0, 8192) == data, "what was written is lost")
    legs.close()


def dead_leg() -> None:
    base.step("a leg is given up with all of the budget: the other goes on")
    # Not larger, nor merged, nor in their window: what is parked (window.h) is never sent. Nor in
    # what small ones may have at once.
    for knob in ("test_small_at_once", "test_front_unbound"):
        base.put(PARAMETERS / knob, 1)
    legs = Pair("nosync", *SMALL, "remote_timeout", TIMEOUT_MS, "coalesce", 1)
    legs.remote.hang()
    stream = Stream(legs.mirror.node, 64, 32)
    waits(legs.mirror)
    legs.mirror.wait("AD")
    stream.end()
    for knob in ("test_small_at_once", "test_front_unbound"):
        base.put(PARAMETERS / knob, 0)
    used, limit, waiting = memory(legs.mirror)
    print(f"  {used} KiB of {limit} are the dead leg's, {waiting} wait")
    base.expect(used >= 900, "the dead leg holds nothing: this tests nothing")
    done = load("verify", legs.mirror.node, 400, depth=64)
    base.equal(done[3:], (0, 0), "failed writes and reads")
    bounded(legs.mirror)
    legs.remote.wake()
    legs.recovers()
    all_back(legs.mirror)
    legs.same()
    legs.close()


def blocked() -> None:
    base.step("policy block, a leg that hangs: status, messages and suspend go on")
    legs = Pair("nosync", *SMALL, "policy", "block", "remote_timeout", TIMEOUT_MS, "rejoin", 0)
    legs.remote.hang()
    stream = Stream(legs.mirror.node, 32, 128)
    base.until(lambda: legs.word("standing") == "blocked", "blocked")
    waits(legs.mirror)
    base.expect(not stream.done, "a write was acknowledged")
    legs.mirror.message("resync_rate 100")
    took = blk.timed(lambda: dm.suspend("mirror"))
    print(f"  suspended after {took:.3f} s; {stream.failed()} writes failed")
    base.expect(took < TIMEOUT_MS / 1000 + 1, f"suspend took {took} s")
    dm.resume("mirror")

    base.step("noflush: they are there still when it goes on, and are done when the leg is back")
    stream = Stream(legs.mirror.node, 32, 128, "again")
    waits(legs.mirror)
    took = blk.timed(lambda: dm.suspend("mirror", flush=False))
    base.expect(took < TIMEOUT_MS / 1000 + 1, f"suspend took {took} s")
    dm.resume("mirror")
    legs.remote.wake()
    legs.recovers()
    stream.end()
    all_back(legs.mirror)
    legs.same()
    legs.close()


@contextlib.contextmanager
def host_memory(kib: int) -> Iterator[None]:
    base.put(PARAMETERS / "host_memory_kib", kib)
    yield
    base.put(PARAMETERS / "host_memory_kib", 0)


def stacked() -> None:
    base.step("a mirror on mirrors, and one beside them, the host's memory being short")
    with host_memory(1):
        legs = Pair("nosync")
        beside = ram.Ram("beside", 8)
        upper = mirror.Mirror(legs.mirror.node, beside.node, "nosync", name="upper")
        under = Stream(upper.node, 24, 128)
        under.end()
        done = load("verify", upper.node, 1000, depth=128)
        base.equal(done[3:], (0, 0), "failed writes and reads")
        print(f"  memory: {memory(upper)}")
        all_back(upper)
        all_back(legs.mirror)
        upper.remove()
        legs.same()
        blk.same(legs.local.disk.node, beside.node)
        legs.close()
        beside.remove()


PARTS = {
    "flood": flood, "order": order, "changed": changed, "killed": killed, "dead": dead_leg,
    "blocked": blocked, "stacked": stacked,
}  # fmt: skip
parts = []
for word in sys.argv[1:]:
    if word.startswith("test_"):
        base.put(PARAMETERS / word, 1)
    else:
        parts.append(PARTS[word])
for part in parts or [PARTS[name] for name in PARTS if name != "flood"]:
    part()
