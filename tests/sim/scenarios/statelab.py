# SPDX-License-Identifier: GPL-2.0-only
"""What the scenarios of a mirror's state share: what its legs say on the disk, what each sector may
hold, and writers that know.

A version is a number that no other write of the scenario has; a sector holds the version that was
written to it, and its own number.
"""

from __future__ import annotations

import copy
import errno
import os
import random
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass

from locklab import base, blk, mirror

META = "/lockstep/build/bin/lockstep-meta"
REGION = 64  # the smallest
SLOT_SECTORS, SLOTS = 8, 16
LOG_SECTORS, PAGE = 32, 8  # of the activity log, and of a page of the map
MAP_PAGE = 31744 * REGION  # the sectors that such a page is about
SYNC, ALONE, TARGET, NEW = 1, 2, 3, 4
LOCAL, REMOTE = "local", "remote"
_MAGIC = 0x31474C504554534C
_PART = struct.Struct("<QQ")
_EMPTY = bytes(512)


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    """As lockstep-format.h has it: seeded with ones, not inverted at the end."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc


@dataclass(frozen=True)
class Super:
    """A superblock, as far as scenarios look at it. Written here a second time, on purpose."""

    seq: int
    state: int
    active: bool
    data_sectors: int
    map_start: int
    map_epoch: int
    cur: tuple[int, int]
    base: tuple[int, int]

    @property
    def whole(self) -> bool:
        """Has all of its generation."""
        return self.state in (SYNC, ALONE)


def _slot(data: bytes) -> Super | None:
    crc, _, magic = struct.unpack_from("<IIQ", data, 0)
    if magic != _MAGIC or crc32c(data[4:]) != crc:
        return None
    (flags,) = struct.unpack_from("<I", data, 28)
    (seq,) = struct.unpack_from("<Q", data, 40)
    sectors, map_start, _, _, _, state, epoch = struct.unpack_from("<QQIIIIQ", data, 160)
    cur_id, cur_count, _, base_id, base_count = struct.unpack_from("<QIIQI", data, 208)
    return Super(seq, state, bool(flags & 1), sectors, map_start, epoch, (cur_id, cur_count),
                 (base_id, base_count))  # fmt: skip


def superblock(image: bytes) -> Super | None:
    """Of the end of a device, or of all of it; None if there is none."""
    one, two = image[-8192:-4096], image[-4096:]
    found = [s for s in ([_slot(one)] if one == two else [_slot(one), _slot(two)]) if s]
    return max(found, key=lambda s: s.seq) if found else None


def tail(node: str) -> bytes:
    with blk.Disk(node, write=False) as disk:
        return disk.read(disk.sectors - SLOTS, SLOTS)


def super_of(node: str) -> Super:
    found = superblock(tail(node))
    base.expect(found, f"{node} has a superblock")
    assert found
    return found


def source_of(local: Super, remote: Super) -> str | None:
    """Which leg has the data, of two of one mirror; None: they must be refused. (verdict.h)"""
    if NEW in (local.state, remote.state):
        other = remote if local.state == NEW else local
        return (LOCAL if remote.state == NEW else REMOTE) if other.whole else None
    if local.cur == remote.cur:
        if TARGET in (local.state, remote.state):
            if local.state == remote.state:
                return None
            return LOCAL if remote.state == TARGET else REMOTE
        return None if ALONE in (local.state, remote.state) else LOCAL
    if local.base == remote.cur and remote.state != ALONE:
        return LOCAL
    if remote.base == local.cur and local.state != ALONE:
        return REMOTE
    return None


def meta(*words: str) -> str:
    return base.run(META, *words)


def create(local: str, remote: str, *options: str) -> None:
    meta("create", "--local", local, "--remote", remote, "--name", "m", "--region-size",
         str(REGION), *options)  # fmt: skip


def refusal(*words: str) -> str:
    """What lockstep-meta says when it refuses."""
    done = subprocess.run([META, *words], capture_output=True, text=True, check=False)
    base.equal(done.returncode, 1, f"exit code of lockstep-meta {' '.join(words)}")
    return done.stderr


def sector(version: int, number: int) -> bytes:
    return _PART.pack(version, number) * 32 if version else _EMPTY


def version_in(data: bytes, at: int) -> int:
    """Which write a sector holds, unless it is torn; 0: none."""
    return int(_PART.unpack_from(data, at * 512)[0])


_NEVER = [0]  # what may be seen of a sector to which nothing was written


class History:
    """What each sector may hold: the oracle of one mirror's life, or of one branch of it.

    Writes to one sector don't overlap in time, unless begin() and end() tell of them: then the
    older one may be what stays. `acked`: the newest that was acknowledged, or the oldest that
    was under way when that one was issued; `stable`: what was also flushed, or written with FUA.
    """

    def __init__(self, sectors: int) -> None:
        self.sectors = sectors
        self.acked = [0] * sectors
        self.stable = [0] * sectors
        self.issued: list[list[int]] = [[0] for _ in range(sectors)]  # may be seen, oldest first
        self.ever: list[list[int]] = [[0] for _ in range(sectors)]
        self.zeroes = {0}  # versions that are sectors of zeroes
        self._under_way: dict[int, tuple[int, int]] = {}  # by version: the sectors
        self._oldest: dict[tuple[int, int], int] = {}  # by sector and version, if it isn't alone
        self.frozen = False  # a crash: answers from now on are nobody's

    def fork(self) -> History:
        return copy.deepcopy(self)

    def issue(self, first: int, count: int, version: int) -> bool:
        """False: its host is gone. With two CPUs it would be made before the power is."""
        if self.frozen:
            return False
        for at in range(first, first + count):
            self.issued[at].append(version)
            self.ever[at].append(version)
        return True

    def begin(self, first: int, count: int, version: int, *, within: bool = False) -> None:
        """Just issued; others may be under way, and may be done after it. `within`: only if one of
        them spans all of it, which may then have taken it in, before others that were issued later
        (absorb.h): of all others the order is kept."""
        for at in range(first, first + count):
            low, high = (first, first + count) if within else (at, at + 1)
            others = [v for v, (b, e) in self._under_way.items() if b <= low and high <= e]
            if others:
                self._oldest[at, version] = min(others)
        self._under_way[version] = (first, first + count)

    def end(self, version: int) -> None:
        """Whatever became of it."""
        del self._under_way[version]

    def ack(self, first: int, count: int, version: int, fua: bool) -> None:
        if self.frozen:
            return
        for at in range(first, first + count):
            oldest = self._oldest.get((at, version))
            self.acked[at] = version if oldest is None else max(self.acked[at], oldest)
            if fua:
                self.stable[at] = self.acked[at]

    def flush_begins(self) -> list[int]:
        return self.acked.copy()

    def flushed(self, begun: list[int]) -> None:
        if not self.frozen:
            self.stable = [max(pair) for pair in zip(self.stable, begun, strict=True)]

    def forget(self) -> None:
        """Any write that ever was may be seen: an outdated copy."""
        self.acked, self.stable = [0] * self.sectors, [0] * self.sectors
        self.issued = [list(all_) for all_ in self.ever]

    def check(
        self, data: bytes, what: str, *, first: int = 0, volatile: bool = False,
        settle: bool = True,
    ) -> None:  # fmt: skip
        """`data` begins at sector `first`. settle: what was seen is the truth from now on."""
        promised = self.stable if volatile else self.acked
        for at in range(first, first + len(data) // 512):
            raw = data[(at - first) * 512 : (at - first + 1) * 512]
            if raw == _EMPTY and self.issued[at] == _NEVER:
                continue  # by far the most, and nothing changes
            version, number = _PART.unpack_from(raw)
            legal = [v for v in self.issued[at] if v >= promised[at]]
            if raw == _EMPTY:
                # Any of them; if none is legal, what is told is that there are zeroes.
                version = max(self.zeroes.intersection(legal), default=0)
            elif raw != sector(version, at):
                raise base.Wrong(f"{what}: sector {at} holds {raw[:16].hex()} of {number}, torn or"
                                 f" misplaced; legal are {legal}")  # fmt: skip
            if version not in legal:
                known = f"acknowledged {self.acked[at]}, stable {self.stable[at]}"
                raise base.Wrong(
                    f"{what}: sector {at} holds version {version}, legal are {legal} ({known})"
                )
            if settle:
                self.acked[at] = version
                self.stable[at] = min(self.stable[at], version)
                self.issued[at] = [v for v in self.issued[at] if self.stable[at] <= v <= version]


class Versions:
    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


class Writers:
    """Some threads that write to a device until stop(), each to sectors of its own."""

    def __init__(
        self, node: str, history: History, versions: Versions, *, seed: object, writers: int = 2,
        pause: tuple[float, float] = (0.001, 0.01), fua: float = 0.15, flush: float = 0.05,
        most: int = 12, opened: Callable[[str], blk.Disk] = blk.Disk,
    ) -> None:  # fmt: skip
        self.history, self.node, self._opened = history, node, opened
        self.acked = self.failed = 0
        self.errors: set[int] = set()
        self._versions, self._pause, self._most = versions, pause, most
        self._fua, self._flush = fua, flush
        self._stop = threading.Event()
        share = history.sectors // writers
        self.threads = [
            threading.Thread(target=self._work, daemon=True,
                             args=(random.Random(f"{seed} {n}"), n * share, share))
            for n in range(writers)
        ]  # fmt: skip
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self.threads:
            thread.join(600)
            base.expect(not thread.is_alive(), "a writer is still blocked")

    def told_to_stop(self) -> None:
        self._stop.set()

    def _work(self, rng: random.Random, first: int, share: int) -> None:
        with self._opened(self.node) as disk:
            while not self._stop.wait(rng.uniform(*self._pause)):
                try:
                    self._one(disk, rng, first, share)
                    self.acked += 1
                except OSError as err:
                    self.failed += 1
                    self.errors.add(err.errno or 0)

    def _one(self, disk: blk.Disk, rng: random.Random, first: int, share: int) -> None:
        if rng.random() < self._flush:
            begun = self.history.flush_begins()
            disk.flush()
            self.history.flushed(begun)
            return
        write(disk, self.history, self._versions, rng.randint(1, self._most), rng, first, share,
              rng.random() < self._fua)  # fmt: skip


def write(
    disk: blk.Disk, history: History, versions: Versions, count: int, rng: random.Random,
    first: int = 0, share: int | None = None, fua: bool = False,
) -> None:  # fmt: skip
    """One write of `count` sectors somewhere in the share."""
    share = history.sectors if share is None else share
    at = first + rng.randrange(share - count)
    version = versions.next()
    if not history.issue(at, count, version):
        raise OSError(errno.EIO, "the host is gone")
    disk.write(at, b"".join(sector(version, at + n) for n in range(count)), fua=fua)
    history.ack(at, count, version, fua)


def content(node: str, sectors: int, first: int = 0) -> bytes:
    with blk.Disk(node, write=False) as disk:
        return b"".join(disk.read(first + at, min(512, sectors - at))
                        for at in range(0, sectors, 512))  # fmt: skip


class Beside:
    """Something that blocks, in a thread of its own; what it raised is raised by result()."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._failed: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except (OSError, base.Wrong) as err:
            self._failed = err

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self, seconds: float = 600) -> None:
        self._thread.join(seconds)
        base.expect(self.done, "still blocked")
        if self._failed:
            raise self._failed


os.environ.setdefault("DM_DISABLE_UDEV", "1")


def gets_in_sync(status: Callable[[], mirror.Status], message: Callable[[str], None],
                 seconds: float) -> None:  # fmt: skip
    """With an admin's help where it is wanted: both legs are well."""

    def there() -> bool:
        now = status()
        if now.action == "stalled":
            message("resync")
        if "told" in now.rest:
            message("recover")
        return (now.health, now.action) == ("AA", "idle")

    try:
        base.until(there, "in sync", seconds)
    except base.Wrong as err:
        raise base.Wrong(f"{err}: {status()}") from None
