# SPDX-License-Identifier: GPL-2.0-only
"""A mirror of 16 TiB, whose dirty map has many pages, by the WAN or on a local disk that is busy:
no write takes longer than LONGEST_S, nor does what an admin does.

Args: the part.
    alone    the local leg is told to be dead: the remote one has the map, and half of the writers
             write all over
    tick     the map is cleaned, of which 66 pages have a bit
    back     the local leg is back, and becomes the map's home
    suspend  while the legs' metadata are moved, as they have grown
    grow     likewise, and the activity log needs room all the time
    reload   of a table whose local leg is told to be dead
    hangs    likewise, and the remote leg hangs then: the resume fails in time
"""

import errno
import random
import threading
import time
from collections.abc import Callable

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import FIELDS

LONGEST_S, HANGS_S = 7, 15
MIB, MORE = 16 << 20, 64
SMALL, DEFAULT = 512, 0  # sectors of a region
SPREAD, MOVED = 66, 100  # pages of the map


class Large(mirror.Mirror):
    def __init__(self, local: str, remote: str, region: int) -> None:
        size = ("--region-size", str(region)) if region else ()
        statelab.meta("create", "--local", local, "--remote", remote, "--name", "m",
                      "--assume-clean", *size)  # fmt: skip
        self.sectors = statelab.super_of(local).data_sectors
        super().__init__(local, remote, "rejoin", 5, sectors=self.sectors)

    def map_writes(self) -> int:
        return int(self.status().rest[FIELDS.index("map_writes")])


class Writers:
    """The hot ones write to few regions, others all over."""

    def __init__(self, device: Large, hot: int, others: int, pause: float) -> None:
        self.longest = 0.0
        self._sectors, self._pause, self._over = device.sectors, pause, threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(device.node, n, n < hot))
                         for n in range(hot + others)]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def _write(self, node: str, number: int, hot: bool) -> None:
        rng, data = random.Random(f"{base.SEED} {number}"), blk.pattern(f"{number}", 8)
        with blk.Disk(node) as disk:
            while not self._over.wait(0 if hot else self._pause):
                at = rng.randrange(4096 if hot else self._sectors // 8) * 8
                began = time.monotonic()
                disk.write(at, data, fua=True)
                self.longest = max(self.longest, time.monotonic() - began)

    def end(self, what: str) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        print(f"  {what}: the longest write {self.longest:.2f} s", flush=True)
        base.expect(self.longest < LONGEST_S, f"{what}, a write took {self.longest:.1f} s")


def in_time(what: str, call: Callable[[], object]) -> None:
    took = blk.timed(call)
    print(f"  {what} took {took:.2f} s", flush=True)
    base.expect(took < LONGEST_S, f"{what} took {took:.1f} s")


def by_wan(local: str, region: int = DEFAULT) -> tuple[Large, str]:
    """And its remote device, which has MORE than is used of it."""
    far = session.login()
    device = Large(local, dm.create("rem", f"0 {MIB << 11} linear {far} 0"), region)
    link.profile("wan")
    return device, far


def alone() -> None:
    device, _ = by_wan(ram.Ram("near", MIB).node)
    device.message("fail local")
    writers = Writers(device, 32, 32, 0)
    time.sleep(60)
    writers.end("the remote leg alone")


def busy() -> Large:
    near = ram.Ram("near", MIB, latency_us=6000, queue_depth=1)
    far = ram.Ram("beside", MIB, latency_us=1000)
    device = Large(near.node, far.node, DEFAULT)
    device.message("resync_pace full")
    return device


def scatter(device: Large) -> None:
    step = device.sectors // SPREAD // 8 * 8
    with blk.Disk(device.node) as disk:
        for n in range(SPREAD):
            disk.write(n * step, blk.pattern(f"{n}", 8))


def without(device: Large, leg: str) -> None:
    """It misses a region of each of many pages, and comes back."""
    device.message(f"fail {leg}")
    scatter(device)
    device.message("recover")


def tick() -> None:
    device = busy()
    without(device, "remote")
    device.in_sync()
    writers = Writers(device, 64, 4, 0.2)
    time.sleep(110)
    writers.end("the map is cleaned")


def back() -> None:
    device = busy()
    without(device, "local")
    writers = Writers(device, 64, 4, 0.2)
    device.wait("AA", "idle", 300)
    writers.end("the local leg is back")


def to_grow() -> Large:
    device, far = by_wan(ram.Ram("near", MIB).node, SMALL)
    dm.reload("rem", f"0 {(MIB + MORE) << 11} linear {far} 0")
    return device


def grow() -> None:
    device = to_grow()
    device.message("dirty_limit 256")
    writers = Writers(device, 0, 32, 0)
    time.sleep(20)
    device.message("grow")
    writers.end("beside it")


def suspend() -> None:
    device = to_grow()
    writers = Writers(device, 0, 2, 0.1)
    refused: list[OSError] = []

    def grows() -> None:
        try:
            device.message("grow")
        except OSError as err:
            refused.append(err)

    thread = threading.Thread(target=grows)
    before = device.map_writes()
    thread.start()
    base.until(lambda: device.map_writes() > before + MOVED, "its map to be moved")
    base.expect(thread.is_alive(), "it grows yet")
    in_time("the suspend", lambda: dm.suspend(device.name))
    dm.resume(device.name)
    thread.join()
    base.equal([err.errno for err in refused], [errno.EBUSY], "the grow")
    writers.end("beside it")
    device.message("grow")


def reload() -> None:
    device, _ = by_wan(ram.Ram("near", MIB).node)
    writers = Writers(device, 0, 2, 0.1)
    device.message("fail local")
    device.wait("DA")
    dm.load(device.name, device.table)
    dm.suspend(device.name)
    in_time("the resume", lambda: dm.resume(device.name))
    base.equal(device.status().health, "DA", "the legs")
    writers.end("beside it")


def hangs() -> None:
    far = ram.Ram("beside", MIB, latency_us=20000, queue_depth=1)
    way = dm.create("way", f"0 {MIB << 11} linear {far.node} 0")
    device = Large(ram.Ram("near", MIB).node, way, DEFAULT)
    device.message("fail local")
    scatter(device)
    dm.load(device.name, device.table)
    dm.suspend(device.name)
    threading.Timer(0.5, dm.suspend, (way.rpartition("/")[2],), {"flush": False}).start()
    began = time.monotonic()
    with base.refused("a start that gets no answer", errno.ETIMEDOUT):
        dm.resume(device.name)
    took = time.monotonic() - began
    dm.resume("way")
    base.expect(took < HANGS_S, f"the resume took {took:.1f} s")


PARTS = {"alone": alone, "tick": tick, "back": back, "suspend": suspend, "grow": grow,
         "reload": reload, "hangs": hangs}  # fmt: skip
(part,) = base.words(1, PARTS)
base.step(part)
link = wire.Wire("none")
target = lio.Target(lio.iblock("leg", ram.Ram("far", MIB + MORE).node))
session = iscsi.Session()
PARTS[part]()
base.step("done")
