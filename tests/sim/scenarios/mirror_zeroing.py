# SPDX-License-Identifier: GPL-2.0-only
"""Zeroings of many GiB, by the WAN, whose disks zero at no cost: beside them a write, a suspend and
messages are as soon as beside anything else.

  zero     what is allocated stays so, as for `blkdiscard --zeroout`
  discard  as for blkdiscard
  verify   beside the first one a verify is stopped, and begun anew

Arguments: the part.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, wire

GIB = 32
SECTORS = GIB << 21
MOST_S = 5.0
OTHER = 8  # sectors at the end, for a write
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


class Zeroed:
    """A mirror of two such disks, of which all is being zeroed."""

    def __init__(self, gib: int, *, discard: bool = False) -> None:
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
        self.zeroing = Zeroing(self.mirror.node, min(gib << 21, self.last), discard=discard)

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


def beside(gib: int, *, discard: bool) -> None:
    it = Zeroed(gib, discard=discard)
    for _ in range(3):
        time.sleep(1)
        in_time("a write", it.write)
        in_time("a suspend", it.suspend)
    base.expect(it.zeroing.is_alive(), "all has been zeroed before")
    it.end()


def zero() -> None:
    base.step("zeroes that keep what is allocated")
    beside(GIB, discard=False)


def discard() -> None:
    base.step("a discard")
    beside(GIB, discard=True)


def verify() -> None:
    base.step("a verify is stopped, and begun anew")
    it = Zeroed(GIB)
    for _ in range(3):
        in_time("verify start", it.message("verify start"))
        time.sleep(1)
        in_time("verify stop", it.message("verify stop"))
    it.end()


PARTS = {part.__name__: part for part in (zero, discard, verify)}

(name,) = base.words(1, list(PARTS))
PARTS[name]()
base.step("done")
