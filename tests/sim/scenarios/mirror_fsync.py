# SPDX-License-Identifier: GPL-2.0-only
"""Thousands of scattered dirty pages are fsynced, which the mirror's budget of memory would take at
once, by wires and disks that need a minute for them. What comes meanwhile waits for few of them.

  suspend  of the device: all I/O waits for it
  large    likewise, of pieces of 40 KiB of a file (of a device they would be single pages)
  synced   likewise, and it has a dirty page of its own, which is synced while the suspend begins
  joined   likewise, and the remote leg has just come back
  written  likewise, and it is writeback for which nobody waits
  joining  likewise, and the remote leg comes back amid it: a fast disk alone took much at once
  twice    a noflush suspend, soon after another one
  often    likewise, after many
  commit   a FUA write elsewhere
  later    likewise, after a suspend, so that most of the pages have come by dm's worker
  fast     on a wire with room the fsync takes no longer than without a bound

Arguments: the part, and knobs of the module (test_NAME).
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import statelab
from locklab import base, blk, dm, iscsi, lio, media, mirror, wire

PARAMETERS = Path("/sys/module/dm_lockstep/parameters")
PAGE, STRIDE = 4096, 65536
BUDGET_KIB = 131072
GIB = 1 << 21
SIZE = 2 * GIB
# What is let in is to be answered within two seconds, or a MiB of it (budget.h).
MOST_S = 5.0
# Debian's scheduler of a SCSI disk, mq-deadline, lets a write behind the others wait for so long.
DEADLINE_S = 5.0
# Large ones begin with 4 MiB, which are 11 s by the slower one of the wires. (dm-linear: 26 s.)
LARGE_S = 16.0
FILE = Path("/tmp/fs/file")


class World:
    """A mirror of whose sectors some thousand pages are dirty in the page cache of a device above.
    """

    link = wire.Wire("none")

    def __init__(self, profile: str, disk: str, near: str = "") -> None:
        self.link.profile("none")
        near, far = (
            dm.create(name, f"0 {SIZE} media {name} ram {model} 4 site {site} write_cache off")
            for name, model, site in (("near", near or disk, 3), ("far", disk, 7))
        )
        self.store = lio.iblock("leg", far)
        self.target = lio.Target(self.store)
        self.session = iscsi.Session()
        remote = self.session.login()
        statelab.meta("create", "--local", near, "--remote", remote, "--name", "m",
                      "--assume-clean")  # fmt: skip
        sectors = statelab.super_of(near).data_sectors
        self.mirror = mirror.Mirror(near, remote, "memory_kib", BUDGET_KIB, sectors=sectors)
        self.node = self.mirror.node
        self.top = dm.create("top", f"0 {sectors} linear {self.node} 0")
        self.link.profile(profile)
        time.sleep(1)

    def dirty(
        self, pieces: int, *, size: int = PAGE, first: int = 0, waits: bool = True
    ) -> Syncer:
        return Syncer(self.top, pieces, size, first, waits)

    def suspend(self, *, flush: bool = True, most: float = MOST_S) -> None:
        began = time.monotonic()
        dm.suspend(self.mirror.name, flush=flush)
        took = time.monotonic() - began
        dm.resume(self.mirror.name)
        print(f"  the suspend took {took:.2f} s", flush=True)
        base.expect(took < most, f"a suspend took {took:.1f} s")

    def recover(self) -> None:
        dm.message(self.mirror.name, "recover remote")
        base.until(lambda: "D" not in self.mirror.status().health, "the leg to be back")

    def resynced(self) -> None:
        self.link.profile("none")
        base.until(lambda: self.mirror.status().health == "AA", "the resync", 600)

    def close(self) -> None:
        base.equal(self.mirror.status().health, "AA", "the legs, of which both are well")
        dm.remove("top")
        self.mirror.remove()
        self.session.logout()
        self.link.profile("none")
        self.target.remove()
        self.store.remove()
        for name in ("near", "far"):
            dm.remove(name)
            media.forget(name)


class Syncer(threading.Thread):
    """So many scattered pieces of pages, and their fsync; `took` seconds. Or it is told only that
    they be written, before that."""

    def __init__(self, node: str, pieces: int, size: int, first: int, waits: bool = True) -> None:
        super().__init__()
        self.took = 0.0
        self._waits = waits
        self._file = os.open(node, os.O_RDWR)
        data = os.urandom(size)
        for n in range(first, first + pieces):
            os.pwrite(self._file, data, n * STRIDE)
        self.start()

    def run(self) -> None:
        began = time.monotonic()
        if not self._waits:
            ctypes.CDLL(None).sync_file_range(self._file, ctypes.c_int64(0), ctypes.c_int64(0), 2)
        os.fsync(self._file)
        self.took = time.monotonic() - began
        os.close(self._file)


WORLDS = (("wan", "null", 6000), ("outsourcing-40", "null", 12000), ("lan", "spindle", 12000))


def amid(profile: str, disk: str, pieces: int, size: int = PAGE, *, own: bool = False) -> None:
    base.step(f"a suspend amid an fsync of {pieces} pieces of {size} bytes, {profile}, {disk}")
    world = World(profile, disk)
    syncer = world.dirty(pieces, size=size)
    time.sleep(1)
    with Path(world.node).open("r+b", buffering=0) as node:
        if own:
            node.write(bytes(PAGE))
        world.suspend(most=MOST_S + DEADLINE_S if own else MOST_S)
    syncer.join()
    print(f"  the fsync took {syncer.took:.1f} s", flush=True)
    world.close()


def suspend() -> None:
    for profile, disk, pages in WORLDS:
        amid(profile, disk, pages)


def large() -> None:
    for profile, pieces in (("wan", 1200), ("metro", 4000)):
        base.step(f"a suspend amid an fsync of {pieces} pieces of 40 KiB of a file, {profile}")
        world = World("none", "null")
        base.run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=1", world.top)
        FILE.parent.mkdir(exist_ok=True)
        base.run("mount", world.top, str(FILE.parent))
        with FILE.open("wb") as file:
            for _ in range(pieces * STRIDE >> 20):
                file.write(bytes(1 << 20))
            os.fsync(file.fileno())
        time.sleep(12)
        world.link.profile(profile)
        time.sleep(1)
        syncer = Syncer(str(FILE), pieces, 40960, 0)
        time.sleep(1)
        world.suspend(most=LARGE_S)
        syncer.join()
        print(f"  the fsync took {syncer.took:.1f} s", flush=True)
        base.run("umount", str(FILE.parent))
        world.close()


def synced() -> None:
    amid("wan", "null", 6000, own=True)


def joined() -> None:
    comes_back(waits=True)


def written() -> None:
    comes_back(waits=False)


def comes_back(*, waits: bool) -> None:
    what = "an fsync" if waits else "writeback"
    base.step(f"a suspend amid {what}, which the remote leg has just come back to")
    world = World("wan", "null")
    dm.message(world.mirror.name, "fail remote")
    alone = world.dirty(12000, waits=waits)
    alone.join()
    world.recover()
    syncer = world.dirty(3000, first=12000, waits=waits)
    time.sleep(1)
    world.suspend()
    syncer.join()
    world.resynced()
    world.close()


def joining() -> None:
    base.step("a suspend amid fsyncs, amid which the remote leg comes back")
    world = World("wan", "null", near="ssd")
    dm.message(world.mirror.name, "fail remote")
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            world.dirty(30000).join()

    floods = threading.Thread(target=flood)
    floods.start()
    time.sleep(0.05)
    world.recover()
    over.set()
    time.sleep(1)
    world.suspend()
    floods.join()
    world.resynced()
    world.close()


def twice() -> None:
    suspends_amid(6000, 3, 0.5)


def often() -> None:
    suspends_amid(16000, 12, 2)


def suspends_amid(pages: int, times: int, pause: float) -> None:
    profile, disk, _ = WORLDS[0]
    base.step(f"{times} suspends amid an fsync of {pages} pages, {profile}, {disk}")
    world = World(profile, disk)
    syncer = world.dirty(pages)
    time.sleep(1)
    for _ in range(times):
        world.suspend(flush=False)
        time.sleep(pause)
    base.expect(syncer.is_alive(), "the fsync is to last longer")
    syncer.join()
    world.close()


def commit() -> None:
    for profile, disk, pages in WORLDS:
        commits_amid(profile, disk, pages, suspends=False)


def later() -> None:
    commits_amid("wan", "null", 12000, suspends=True)


def commits_amid(profile: str, disk: str, pages: int, *, suspends: bool) -> None:
    base.step(f"a commit amid an fsync of {pages} pages, {profile}, {disk}")
    world = World(profile, disk)
    syncer = world.dirty(pages)
    time.sleep(1)
    if suspends:
        world.suspend()
    with blk.Disk(world.node) as node:
        worst, many = 0.0, 0
        while syncer.is_alive():
            began = time.monotonic()
            node.write((many * STRIDE + PAGE) // blk.SECTOR, bytes(PAGE), fua=True)
            worst, many = max(worst, time.monotonic() - began), many + 1
            time.sleep(0.05)
    syncer.join()
    print(f"  the longest of {many} took {worst:.2f} s, the fsync {syncer.took:.1f}", flush=True)
    base.expect(worst < MOST_S + DEADLINE_S, f"a commit took {worst:.1f} s")
    world.close()


def fast() -> None:
    unbound = PARAMETERS / "test_front_unbound"
    for profile, disk in (("lan", "null"), ("metro", "null"), ("outsourcing-40", "null"),
                          ("lan", "spindle")):  # fmt: skip
        base.step(f"an fsync of 4000 pages, {profile}, {disk}")
        times = []
        for way in (0, 1):
            base.put(unbound, way)
            world = World(profile, disk)
            syncer = world.dirty(4000)
            syncer.join()
            times.append(syncer.took)
            world.close()
        base.put(unbound, 0)
        print(f"  {times[0]:.2f} s, without a bound {times[1]:.2f}", flush=True)
        base.expect(times[0] < 1.1 * times[1] + 0.5, "the bound costs time")


PARTS = {part.__name__: part for part in (
    suspend, large, synced, joined, written, joining, twice, often, commit, later, fast,
)}  # fmt: skip

for knob in sys.argv[2:]:
    base.put(PARAMETERS / knob, 1)
PARTS[sys.argv[1]]()
base.step("done")
