# SPDX-License-Identifier: GPL-2.0-only
"""A local disk with a volatile cache that loses its power: what the mirror says is in sync is.

Args: the part.
"""

import errno
import os
import time
from collections.abc import Callable
from functools import partial

from locklab import base, blk, dm, media, mirror
from locklab.media import PRIMARY_SITE
from mirrorlab import FIELDS
from statelab import SYNC, Beside, create, super_of
from statelegs import Leg

MIB = 4
REGION = 64
OPTIONS = ("rejoin", 1, "resync_pace", "full")


class Local:
    """A disk with a volatile cache below a linear device that can be made to fail."""

    def __init__(self, mib: int = MIB) -> None:
        media.forget("p-local")
        self.sectors = mib << 11
        self.turn = 0
        self._on()
        self.node = dm.create("wl", self._linear())

    def _on(self) -> None:
        self.turn += 1
        words = f"4 site {PRIMARY_SITE} write_cache on"
        self.medium = dm.create(
            f"plocal{self.turn}", f"0 {self.sectors} media p-local ram null {words}"
        )

    def _linear(self) -> str:
        return f"0 {self.sectors} linear {self.medium} 0"

    def _set(self, table: str) -> None:
        dm.load("wl", table)
        dm.suspend("wl", flush=False)
        dm.resume("wl")

    def fail(self) -> None:
        """Writes and flushes fail; reads don't."""
        self._set(f"0 {self.sectors} flakey {self.medium} 0 0 36000 1 error_writes")

    def fail_late(self, ms: int) -> None:
        """Likewise, after so long."""
        failing = dm.create("pfails", f"0 {self.sectors} flakey {self.medium} 0 0 36000 1"
                                      " error_writes")  # fmt: skip
        self._set(f"0 {self.sectors} delay {failing} 0 0 {failing} 0 {ms} {failing} 0 {ms}")

    def gone(self) -> None:
        self._set(f"0 {self.sectors} error")

    def well(self) -> None:
        self._set(self._linear())

    def lose_power(self, seed: int = 1) -> None:
        """Its cache is lost; it answers again after well()."""
        media.cut(PRIMARY_SITE, seed)
        self.gone()
        self._on()


class World:
    def __init__(self, *options: object, metadata: bool, mib: int = MIB) -> None:
        self.local = Local(mib)
        self.remote = Leg("lremote", mib=mib)
        words = (*options, *OPTIONS)
        self.sectors = mib << 11
        if metadata:
            create(self.local.node, self.remote.node, "--assume-clean")
            self.sectors = super_of(self.local.node).data_sectors
        self.table = mirror.table(
            self.local.node, self.remote.node, *words, sectors=self.sectors
        )
        self.node = dm.create("mirror", self.table)

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status("mirror"))

    def word(self, field: str) -> str:
        return self.status().rest[FIELDS.index(field)]

    def standing(self) -> str:
        return self.word("standing")

    def same(self) -> None:
        blk.same(self.local.node, self.remote.node, self.sectors)

    def wait(self, health: str, action: str | None = None, seconds: float = 60) -> None:
        def there() -> bool:
            now = self.status()
            return now.health == health and action in (None, now.action)

        base.until(there, f"{health} {action}: {dm.status('mirror')}", seconds)


def reload(metadata: bool, reloads: bool = True) -> None:
    base.step("a leg is away, the table is exchanged, the leg comes back and loses its power")
    w = World(*(() if metadata else ("nosync", "region_size", REGION)), metadata=metadata)
    old, new = blk.pattern("old", 64), blk.pattern("new", 64)
    with blk.Disk(w.node) as disk:
        disk.write(0, old)
        disk.flush()
        w.local.fail()
        disk.write(0, new)
        disk.flush()
    w.wait("DA")
    if reloads:
        dm.reload("mirror", w.table)
    w.local.well()
    w.wait("AA", "idle")
    base.step("in sync; the local disk loses its power, and is given up for it")
    w.local.lose_power()
    with blk.Disk(w.node) as disk:
        disk.write(2048, new)
        w.wait("DA")
        w.local.well()
        w.wait("AA", "idle")
        got = disk.read(0, 64)
    base.expect(got == new, "what was acknowledged and flushed")
    w.same()


def source(fails: str) -> None:
    base.step(f"the source fails a {fails}, and loses its cache: the target has what it had")
    w = World("resync_rate", 1, metadata=True)
    old, new = blk.pattern("old", 64), blk.pattern("new", 64)
    with blk.Disk(w.node) as disk:
        disk.write(0, old)
        disk.flush()
        dm.message("mirror", "fail remote")
        w.wait("AD")
        disk.write(2048, new)
        disk.write(3072, new)
        disk.write(4096, new)
        disk.flush()
        # Slow enough to be under way through all of it.
        dm.message("mirror", "recover")
        w.wait("Aa")
        disk.write(0, new)  # on both legs; on the local one in the cache
        w.local.fail()
        with base.refused(f"the {fails}", errno.EIO):
            if fails == "flush":
                disk.flush()
            else:
                disk.write(6000, new)
        w.local.lose_power()
        w.local.well()
        dm.message("mirror", "resync_rate 0")
        w.wait("AA", "idle")
    w.same()


def in_between(full: bool) -> None:
    """@full: the activity log is, so that the cleaner comes by all the time; else at its tick."""
    base.step("the source loses its cache while the target is made SYNC, and the cleaner comes by")
    slots = 400 if full else 60_000  # ms for a superblock of the target's
    w = World("remote_timeout", 0, *(("dirty_limit", 1) if full else ()), metadata=True,
              mib=64 if full else MIB)  # fmt: skip
    old, new = blk.pattern("old", 64), blk.pattern("new", 64)
    with blk.Disk(w.node) as disk:
        disk.write(0, old)
        disk.flush()
        dm.message("mirror", "fail remote")
        w.wait("AD")
        disk.write(2048, new)
        disk.flush()
        dm.message("mirror", "resync_rate 1")
        dm.message("mirror", "recover")
        w.wait("Aa")
        w.remote.set(slots=f"slow:{slots}")
        dm.message("mirror", "resync_rate 0")
        for n in range(1, 1000 if full else 1):
            disk.write(n * REGION, new[: 8 * 512])
        base.until(lambda: super_of(w.local.medium).state == SYNC, "the source says in sync", 600)
        time.sleep(0 if full else 1)
        disk.write(0, new)  # on both legs; on the local one in the cache
        w.local.fail()
        with base.refused("the flush", errno.EIO):
            disk.flush()
        w.local.lose_power()
        w.local.well()
        for n in range(1000, 2000 if full else 1000):  # others want room in the log
            disk.write(n * REGION, new[: 8 * 512])
            if w.status().health != "Aa":
                break
    w.wait("AA", "idle", 600)
    time.sleep(10)
    w.wait("AA", "idle", 600)
    w.same()


def not_alone(policy: str) -> None:
    base.step(f"policy {policy}: the local cache is lost, and the mirror is stopped and started")
    w = World("policy", policy, metadata=True)
    old, new = blk.pattern("old", 64), blk.pattern("new", 64)
    with blk.Disk(w.node) as disk:
        disk.write(0, old)
        disk.flush()
        disk.write(0, new)  # on both legs; on the local one in the cache
        w.local.fail()
        w.local.lose_power()
        write = Beside(lambda: disk.write(2048, new))
        base.until(lambda: w.standing() in ("blocked", "refusing"), "the local leg is out")
        base.expect(disk.read(0, 64) == new, "the remote leg has what was acknowledged")
        if policy == "block":
            dm.message("mirror", "fail_held")
        with base.refused("a write that one leg alone could have", errno.EIO):
            write.result()
    dm.remove("mirror")
    w.local.well()
    dm.create("mirror", w.table)
    w.wait("AA", "idle")
    with blk.Disk(w.node) as disk:
        base.expect(disk.read(0, 64) == new, "what was acknowledged and read is lost")
    w.same()


def acknowledged(w: World) -> tuple[blk.Disk, bytes, bytes]:
    """Something that both legs have, the local one in its cache; and another region is dirty."""
    old, new = blk.pattern("old", 64), blk.pattern("new", 64)
    disk = blk.Disk(w.node)
    disk.write(0, old)
    disk.flush()
    base.until(lambda: w.word("dirty") == "0", "it is clean", 90)
    disk.write(0, new)
    disk.write(2048, old)
    return disk, old, new


def both_fail(metadata: bool, remote: Callable[[World], None]) -> None:
    base.step("one write fails on both legs, and the local one has lost its cache")
    w = World(*(() if metadata else ("nosync", "region_size", REGION)), metadata=metadata)
    disk, _old, new = acknowledged(w)
    remote(w)
    w.local.lose_power()
    with base.refused("a write", errno.EIO):
        disk.write(2048, new)
    w.local.well()
    w.remote.well()
    base.expect(disk.read(0, 64) == new, "what was acknowledged, at once")
    w.wait("AA", "idle", 90)
    disk.flush()
    base.expect(disk.read(0, 64) == new, "what was acknowledged")
    disk.close()
    w.same()


def unsaid(mended: bool) -> None:
    base.step("the local leg has lost its cache, the remote one can't say that it is alone")
    w = World(metadata=True)
    disk, _old, new = acknowledged(w)
    w.remote.set(slots="nowrite")
    w.local.lose_power()
    with base.refused("a write", errno.EIO):
        disk.write(2048, new)
    w.local.well()
    dm.load("mirror", w.table)
    dm.suspend("mirror")
    base.step("the same table" + ("" if mended else ", which can't be resumed before it can"))
    for _ in range(0 if mended else 2):
        with base.refused("the resume", errno.EIO):
            dm.resume("mirror")
        dm.load("mirror", w.table)
    w.remote.well()
    dm.resume("mirror")
    w.wait("AA", "idle", 90)
    base.expect(disk.read(0, 64) == new, "what was acknowledged")
    disk.close()
    w.same()


def unflushed() -> None:
    base.step("core mode: a suspend can't flush beside a leg that says nothing; another table")
    w = World("nosync", "region_size", REGION, "remote_timeout", 0, metadata=False)
    disk, _old, new = acknowledged(w)
    w.remote.hang()
    dm.message("mirror", "verify start")
    time.sleep(14)  # it is silent
    dm.load("mirror", w.table)
    dm.suspend("mirror")
    w.remote.wake()
    time.sleep(1)
    dm.resume("mirror")
    w.wait("AA", "idle")
    base.step("the local disk loses its power, and is given up for it")
    w.local.lose_power()
    disk.write(4096, new)
    w.wait("DA")
    w.local.well()
    w.wait("AA", "idle")
    base.expect(disk.read(0, 64) == new, "what was acknowledged")
    disk.close()
    w.same()


def suspended(metadata: bool, ends: Callable[[World], None]) -> None:
    base.step("the local disk fails its flush in the cleaner, which a suspend waits for")
    w = World(*(() if metadata else ("nosync", "region_size", REGION)), metadata=metadata)
    old, new = blk.pattern("old", 64), blk.pattern("new", 64)
    with blk.Disk(w.node) as disk:
        disk.write(0, old)
        disk.flush()
        base.until(lambda: w.word("dirty") == "0", "it is clean", 90)
        disk.write(0, new)
        cleaned = time.monotonic() + 60.7  # two ticks of the cleaner, and it is at the flush
    w.local.fail_late(2000)
    time.sleep(cleaned - time.monotonic())

    def suspend() -> None:
        # Ahead of the worker of the parting, on this one CPU.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        dm.suspend("mirror")

    Beside(suspend).result()
    w.local.lose_power()
    w.local.well()
    ends(w)
    w.wait("AA", "idle", 90)
    with blk.Disk(w.node) as disk:
        base.expect(disk.read(0, 64) == new, "what was acknowledged")
    w.same()


def other_table(w: World) -> None:
    dm.load("mirror", w.table)
    dm.resume("mirror")


ALL: dict[str, Callable[[], None]] = {
    **{f"both-{mode}-{how}": partial(both_fail, mode == "metadata", remote)
       for mode in ("metadata", "core") for how, remote in (
           ("writes", lambda w: w.remote.set(data="nowrite")),
           ("gone", lambda w: w.remote.gone()),
       )},
    "unsaid": partial(unsaid, mended=False),
    "unsaid_mended": partial(unsaid, mended=True),
    "unflushed": unflushed,
    "suspend": lambda: suspended(True, lambda _: dm.resume("mirror")),
    "suspend_reload": lambda: suspended(True, other_table),
    "suspend_core": lambda: suspended(False, lambda _: dm.resume("mirror")),
    "suspend_core_reload": lambda: suspended(False, other_table),
    "block": lambda: not_alone("block"),
    "error": lambda: not_alone("error"),
    "core": lambda: reload(False),
    "core_stays": lambda: reload(False, False),
    "metadata": lambda: reload(True),
    "flush_source": lambda: source("flush"),
    "write_source": lambda: source("write"),
    "cleaner_at_its_tick": lambda: in_between(full=False),
    "cleaner_of_a_full_log": lambda: in_between(full=True),
}  # fmt: skip
(part,) = base.words(1, ALL)
ALL[part]()
base.step("done")
