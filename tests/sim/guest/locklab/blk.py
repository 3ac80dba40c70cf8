# SPDX-License-Identifier: GPL-2.0-only
"""Direct I/O on block devices, comparing them, and a small load of many writers."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import mmap
import os
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import base, dm

SECTOR = 512
_BLKDISCARD, _BLKZEROOUT = 0x1277, 0x127F
_RWF_DSYNC = 0x2
_BLKPG = 0x1269
ADDED, DELETED, RESIZED = 1, 2, 3
_CHUNK = 1 << 20

# Memory for direct I/O that nobody uses at the moment. New memory is dear in this kernel: it maps
# each page of it by calls to the host.
_spare: list[mmap.mmap] = []


@contextlib.contextmanager
def _memory(size: int) -> Iterator[memoryview]:
    """Memory that direct I/O takes, of `size` bytes, with anything in it."""
    try:
        memory = _spare.pop()
    except IndexError:
        memory = mmap.mmap(-1, _CHUNK)
    if len(memory) < size:
        memory = mmap.mmap(-1, size)
    view = memoryview(memory)
    try:
        with view[:size] as part:
            yield part
    finally:
        view.release()
        _spare.append(memory)


class Disk:
    """A device opened with O_DIRECT. Offsets and lengths are in sectors of 512 bytes."""

    def __init__(self, node: str, *, write: bool = True) -> None:
        self.node = node
        mode = os.O_RDWR if write else os.O_RDONLY
        self._fd = os.open(node, mode | os.O_DIRECT | os.O_CLOEXEC)
        self.sectors = os.lseek(self._fd, 0, os.SEEK_END) >> 9

    def read(self, sector: int, count: int) -> bytes:
        with _memory(count * SECTOR) as view:
            got = os.preadv(self._fd, [view], sector * SECTOR)
            if got != count * SECTOR:
                raise base.Wrong(f"{self.node}: read {got} bytes at {sector}, not {count} sectors")
            return bytes(view)

    def write(self, sector: int, data: bytes, *, fua: bool = False) -> None:
        with _memory(len(data)) as view:
            view[:] = data
            flags = _RWF_DSYNC if fua else 0
            put = os.pwritev(self._fd, [view], sector * SECTOR, flags)
            if put != len(data):
                raise base.Wrong(f"{self.node}: wrote {put} of {len(data)} bytes at {sector}")

    def flush(self) -> None:
        os.fsync(self._fd)

    def discard(self, sector: int, count: int) -> None:
        fcntl.ioctl(self._fd, _BLKDISCARD, struct.pack("QQ", sector * SECTOR, count * SECTOR))

    def zero(self, sector: int, count: int) -> None:
        fcntl.ioctl(self._fd, _BLKZEROOUT, struct.pack("QQ", sector * SECTOR, count * SECTOR))

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pattern(tag: str, sectors: int) -> bytes:
    """Bytes that tell who wrote them; the same for the same tag, another in each sector."""
    return b"".join(
        hashlib.sha512(f"{tag} {n}".encode()).digest() * (SECTOR // 64) for n in range(sectors)
    )


def partition(node: str, what: int, first: int, sectors: int) -> None:
    """ADDED, DELETED or RESIZED: the disk's first partition, known to the kernel alone."""
    # As the kernel's structs have it, with their padding.
    part = ctypes.create_string_buffer(
        struct.pack("qqi64s64s4x", first * SECTOR, sectors * SECTOR, 1, b"", b"")
    )
    words = struct.pack("iiiPi", what, 0, len(part), ctypes.addressof(part), 0)
    with open(node, "rb") as disk:
        fcntl.ioctl(disk, _BLKPG, words)


def say_cached(node: str, cached: bool) -> None:
    """What the kernel believes from now on of the device's cache: whether it is volatile."""
    number = os.stat(node).st_rdev
    queue = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/queue")
    base.put(queue / "write_cache", "write back" if cached else "write through")


def difference(a: str, b: str, sectors: int | None = None) -> int | None:
    """First sector in which two devices differ, or None. The shorter one's length counts."""
    with Disk(a, write=False) as left, Disk(b, write=False) as right:
        end = min(left.sectors, right.sectors) if sectors is None else sectors
        step = _CHUNK // SECTOR
        for start in range(0, end, step):
            count = min(step, end - start)
            one, two = left.read(start, count), right.read(start, count)
            if one != two:
                for n in range(count):
                    if one[n * SECTOR : (n + 1) * SECTOR] != two[n * SECTOR : (n + 1) * SECTOR]:
                        return start + n
    return None


def digests(disk: Disk, sectors: int) -> list[str]:
    """Of each MiB, "0" if there is nothing in it: for legs that no one place has."""
    step = _CHUNK // SECTOR
    found = []
    for start in range(0, sectors, step):
        data = disk.read(start, min(step, sectors - start))
        found.append(hashlib.sha256(data).hexdigest() if data.count(0) < len(data) else "0")
    return found


def same(a: str, b: str, sectors: int | None = None) -> None:
    at = difference(a, b, sectors)
    base.expect(at is None, f"{a} and {b} differ, first in sector {at}")
    print("  the legs are bit-identical", flush=True)


class Load:
    """Writers at random places (overlaps included) until stop(); knows what each sector may hold.

    Each writer keeps to itself what it wrote; `check` compares a quiet device with what the last
    acknowledged writes left. To know the winner of two overlapping writes without ordering them,
    writers share no sector unless `overlap` is set; then only errors are watched.
    """

    def __init__(
        self, node: str, *, writers: int = 4, seed: int = base.SEED, overlap: bool = False,
        pause_us: int = 500, sectors: int | None = None, max_write: int = 16, unit: int = 1,
    ) -> None:  # fmt: skip
        self.node, self._overlap, self._pause = node, overlap, pause_us / 1e6
        self._max, self._unit = max_write, unit  # sectors, and of how many each write is made
        self._end = sectors or dm.sectors(node)
        self.writes = 0
        self.errors: list[OSError] = []
        self._stop = threading.Event()
        self._wrote: dict[int, str] = {}
        self._lock = threading.Lock()
        share = self._end // writers
        self._threads = [
            threading.Thread(
                target=self._work,
                args=(n, random.Random(f"load {seed} {n}"),
                      (0, self._end) if overlap else (n * share, (n + 1) * share)),
            )
            for n in range(writers)
        ]  # fmt: skip

    def start(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def wait_writes(self, count: int) -> None:
        """Until so many more writes have been acknowledged (or failed)."""
        target = self.writes + len(self.errors) + count
        base.until(lambda: self.writes + len(self.errors) >= target, f"{count} more writes", 600)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def check(self, node: str | None = None) -> None:
        """What was acknowledged last in each sector is there. Sectors of failed writes are free."""
        base.expect(not self._overlap, "check() is for loads without overlap")
        with Disk(node or self.node, write=False) as disk:
            step = _CHUNK // SECTOR
            for start in range(0, self._end, step):
                data = disk.read(start, min(step, self._end - start))
                for n in range(len(data) // SECTOR):
                    tag = self._wrote.get(start + n)
                    if tag is not None and data[n * SECTOR : (n + 1) * SECTOR] != _sector(tag):
                        raise base.Wrong(f"{disk.node}: sector {start + n} has not {tag!r}")
        print("  every acknowledged write is there", flush=True)

    def _work(self, number: int, rng: random.Random, place: tuple[int, int]) -> None:
        first, end = place
        turn = 0
        with Disk(self.node) as disk:
            while not self._stop.is_set():
                turn += 1
                count = rng.randint(1, self._max // self._unit) * self._unit
                sector = rng.randrange(-(-first // self._unit), (end - count) // self._unit)
                sector *= self._unit
                tag = f"{number}.{turn}"
                try:
                    disk.write(sector, _sector(tag) * count, fua=rng.random() < 0.1)
                    if rng.random() < 0.05:
                        disk.flush()
                except OSError as err:
                    with self._lock:
                        self.errors.append(err)
                        for n in range(sector, sector + count):
                            self._wrote.pop(n, None)
                else:
                    with self._lock:
                        self.writes += 1
                        for n in range(sector, sector + count):
                            self._wrote[n] = tag
                self._stop.wait(self._pause)


def _sector(tag: str) -> bytes:
    return hashlib.sha512(tag.encode()).digest() * (SECTOR // 64)


def timed(work: Callable[[], object]) -> float:
    """Simulated seconds that it takes."""
    before = time.monotonic()
    work()
    return time.monotonic() - before
