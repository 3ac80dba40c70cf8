# SPDX-License-Identifier: GPL-2.0-only
"""Zeroings of many GiB, by the WAN, whose disks zero at no cost: beside them a write, a suspend and
messages are as soon as beside anything else.

  zero     what is allocated stays so, as for `blkdiscard --zeroout`
  discard  as for blkdiscard
  small    of pieces of 4 KiB, as a file system's that discards what it has freed
  verify   beside the first one a verify is stopped, and begun anew
  held     what comes while the device is suspended isn't held by zeroes that do
  written  likewise a read by a file's writeback
  above    likewise of a device above the mirror

Arguments: the part.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, wire
from statelab import Beside

GIB = 32
SECTORS = GIB << 21
MOST_S = 5.0
OTHER = 8  # sectors at the end, for a write
PIECE = 8  # sectors
FILE_MIB = 40
SITES = {"near": 3, "far": 7}


class Zeroing(threading.Thread):
    def __init__(self, node: str, sectors: int, *, discard: bool) -> None:
        super().__init__()
        self._node, self._sectors, self._discard = node, sectors, discard
        self.start()

    def run(self) -> None:
        with blk.Disk(self._node) as disk:
            (disk.discard if self._discard else disk.zero)(0, self._sectors)


def in_time(what: str, call: Callable[[], object]) -> None:
    took = blk.timed(call)
    print(f"  {what} took {took:.2f} s", flush=True)
    base.expect(took < MOST_S, f"{what} took {took:.1f} s")


class World:
    """A mirror of two such disks."""

    def __init__(self) -> None:
        link = wire.Wire("none")
        near, far = (
            dm.create(name, f"0 {SECTORS} media {name} ram null 4 site {site} write_cache off")
            for name, site in SITES.items()
        )
        self.target, self.session = lio.Target(lio.iblock("leg", far)), iscsi.Session()
        remote = self.session.login()
        statelab.meta("create", "--local", near, "--remote", remote, "--name", "m",
                      "--assume-clean")  # fmt: skip
        sectors = statelab.super_of(near).data_sectors // 8 * 8
        self.mirror = mirror.Mirror(near, remote, "remote_timeout", 10000, sectors=sectors)
        # What is held while a device is suspended waits above it.
        self.top = dm.create("top", f"0 {sectors} linear {self.mirror.node} 0")
        self.last = sectors - OTHER
        link.profile("wan")
        self.link = link

    def zero(self, gib: int = GIB, *, discard: bool = False) -> None:
        self.zeroing = Zeroing(self.mirror.node, min(gib << 21, self.last), discard=discard)

    def zero_pieces(self, count: int) -> None:
        """Of PIECE sectors, with as much between them."""
        lines = (f"{n * PIECE} {PIECE} linear {self.mirror.node} {2 * n * PIECE}"
                 for n in range(count))  # fmt: skip
        self.zeroing = Zeroing(dm.create("pieces", "\n".join(lines)), count * PIECE, discard=True)

    def read(self) -> None:
        with blk.Disk(self.top, write=False) as disk:
            disk.read(self.last - 2 * OTHER, OTHER)

    def write(self) -> None:
        with blk.Disk(self.top) as disk:
            disk.write(self.last, blk.pattern("other", OTHER), fua=True)

    def suspend(self) -> None:
        dm.suspend("mirror")
        dm.resume("mirror")

    def message(self, text: str) -> Callable[[], None]:
        return lambda: dm.message("mirror", text)

    def end(self) -> None:
        self.zeroing.join()


def beside(it: World) -> None:
    """What comes while it is suspended is dm's, which gives all of it to the mirror afterwards: as
    with dm-linear, another suspend would wait for it."""
    for _ in range(2):
        time.sleep(1)
        in_time("a write", it.write)
    in_time("a suspend", it.suspend)
    in_time("a write", it.write)
    base.expect(it.zeroing.is_alive(), "all has been zeroed before")
    it.end()


def zero() -> None:
    base.step("zeroes that keep what is allocated")
    it = World()
    it.zero()
    beside(it)


def discard() -> None:
    base.step("a discard")
    it = World()
    it.zero(discard=True)
    beside(it)


def small() -> None:
    base.step("a discard of small pieces")
    it = World()
    it.zero_pieces(4096)
    beside(it)


def verify() -> None:
    base.step("a verify is stopped, and begun anew")
    it = World()
    it.zero()
    for _ in range(3):
        in_time("verify start", it.message("verify start"))
        time.sleep(1)
        in_time("verify stop", it.message("verify stop"))
    it.end()


def while_suspended(
    work: Callable[[], object], *others: Callable[[], None], name: str = "mirror"
) -> None:
    dm.suspend(name)
    work()
    time.sleep(2)
    ends = [Beside(partial(in_time, f"a {other.__name__}", other)) for other in others]
    time.sleep(0.1)
    dm.resume(name)
    for one in ends:
        one.result()


def held() -> None:
    base.step("zeroes come while the device is suspended, and then others")
    it = World()
    while_suspended(it.zero, it.read, it.write)
    it.end()


def written(name: str = "mirror") -> None:
    base.step(f"a file is written back while the device {name} is suspended")
    it = World()

    def write() -> None:
        with open(it.top, "r+b", buffering=0) as file:
            for n in range(FILE_MIB):
                file.seek(n << 20)
                file.write(bytes([n + 1]) * (1 << 20))
            os.fsync(file.fileno())

    files = list[Beside]()
    while_suspended(lambda: files.append(Beside(write)), it.read, name=name)
    files[0].result()


def above() -> None:
    written("top")


PARTS = {part.__name__: part for part in (zero, discard, small, verify, held, written, above)}

(name,) = base.words(1, list(PARTS))
PARTS[name]()
base.step("done")
