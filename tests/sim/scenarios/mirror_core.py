# SPDX-License-Identifier: GPL-2.0-only
"""Without metadata (sync, nosync) a new table takes over from the one before: a leg that is dead is
dead with what it misses, the sectors that a longer table has more are stale on it, and it is never
copied over the one that has everything.

Args: the parts.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from functools import partial

from locklab import base, blk, dm, mirror
from mirrorlab import Leg
from statelegs import Pair

SECTORS = 4 << 11  # of a table, and twice as many of a longer one; regions of 1 MiB
TIMEOUT_MS = 2000
BLOCK = 8


def way(name: str, node: str, sectors: int) -> str:
    return dm.create(f"way-{name}", f"0 {sectors} linear {node} 0")


class Core:
    """A mirror without metadata, and what has been acknowledged."""

    def __init__(self, mode: str, *, rejoin: int = 1) -> None:
        self.legs = {"local": Leg("llocal"), "remote": Leg("lremote")}
        self.options = (mode, "rejoin", rejoin, "local_timeout", TIMEOUT_MS,
                        "remote_timeout", TIMEOUT_MS)  # fmt: skip
        self.written: dict[int, bytes] = {}
        nodes = [leg.node for leg in self.legs.values()]
        self.mirror = mirror.Mirror(*nodes, *self.options, sectors=SECTORS)
        self.mirror.in_sync()

    def table(self, sectors: int = SECTORS, by: dict[str, str] | None = None,
              mode: str = "") -> str:  # fmt: skip
        """`by`: other devices of legs."""
        nodes = [(by or {}).get(name, leg.node) for name, leg in self.legs.items()]
        options = (mode or self.options[0], *self.options[1:])
        return mirror.table(*nodes, *options, sectors=sectors)

    def way(self, name: str) -> str:
        """Another device of that leg."""
        disk = self.legs[name].disk
        return way(name, disk.node, disk.sectors)

    def put(self, at: int, tag: str) -> None:
        self.written[at] = blk.pattern(tag, BLOCK)
        with blk.Disk(self.mirror.node) as disk:
            disk.write(at, self.written[at])

    def check(self, what: str) -> None:
        with blk.Disk(self.mirror.node, write=False) as disk:
            for at, data in self.written.items():
                base.expect(disk.read(at, BLOCK) == data, f"{what}: sector {at} has other bytes")

    def in_sync(self, what: str) -> None:
        def there() -> bool:
            now = self.mirror.status()
            return (now.health, now.action) == ("AA", "idle")

        base.until(there, f"{what}: in sync", 60)
        self.check(what)
        local, remote = (leg.disk.node for leg in self.legs.values())
        self.mirror.remove()
        blk.same(local, remote, SECTORS)
        for name, leg in self.legs.items():
            if dm.exists(f"way-{name}"):
                dm.remove(f"way-{name}")
            leg.close()


def longer(mode: str, name: str) -> None:
    base.step(f"{mode}: the {name} leg is dead and misses nothing, and a longer table is loaded")
    core = Core(mode, rejoin=0)
    core.put(0, "first")
    core.mirror.message(f"fail {name}")
    base.until(lambda: "D" in core.mirror.status().health, "it is dead")
    dm.reload("mirror", core.table(2 * SECTORS))
    for at in (0, SECTORS // 2, SECTORS + SECTORS // 2):
        core.put(at, f"later {at}")
    core.check("without it")
    core.mirror.message("recover")
    core.in_sync("longer")


def exchanged(mode: str, name: str) -> None:
    base.step(f"{mode}: the {name} leg hangs, and the other one gets another device")
    core = Core(mode)
    core.put(0, "first")
    core.legs[name].hang()
    core.put(0, "second")
    core.put(SECTORS // 2, "missed")
    other = "remote" if name == "local" else "local"
    dm.reload("mirror", core.table(by={other: core.way(other)}))
    core.check("exchanged")
    core.put(SECTORS // 4, "third")
    core.legs[name].wake()
    core.in_sync("it answers again")


def copied_over() -> None:
    base.step("sync: the local leg has missed something; a table with another remote device")
    core = Core("sync")
    core.put(0, "first")
    core.legs["local"].hang()
    core.put(0, "second")
    way = core.way("remote")
    for _ in range(2):
        with base.refused("a table", errno.EINVAL, kernel="sync: the local leg misses something"):
            dm.load("mirror", core.table(by={"remote": way}))
    core.put(SECTORS // 2, "third")
    core.legs["local"].wake()
    core.in_sync("the devices that it had")


def unstarted(mode: str) -> None:
    base.step("a sync table with another remote device is loaded; the local leg fails")
    core = Core("nosync")
    core.put(0, "first")
    way = core.way("remote")
    dm.load("mirror", core.table(by={"remote": way}, mode="sync"))
    core.mirror.message("fail local")
    core.put(0, "second")
    core.put(SECTORS // 2, "missed")
    dm.suspend("mirror")
    base.step("it is refused when it is resumed, however often")
    for _ in range(2):
        with base.refused("its resume", errno.EINVAL, kernel="sync: the local leg misses"):
            dm.resume("mirror")
    base.step(f"the devices that it had, {mode}")
    dm.load("mirror", core.table(mode=mode))
    dm.resume("mirror")
    core.check("the table that it had")
    core.put(SECTORS // 4, "third")
    core.in_sync("the table that it had")


def over_metadata() -> None:
    base.step("a table without metadata doesn't take over from one with them")
    pair = Pair("rejoin", 1, "remote_timeout", TIMEOUT_MS)
    pair.put(0)
    pair.remote.gone()
    pair.put(64)
    nodes = (pair.local.node, pair.remote.node)
    ways = [way(name, leg.disk.node, leg.disk.sectors) for name, leg in pair.legs.items()]
    for mode, legs in itertools.product(("sync", "nosync"), (nodes, ways)):
        with base.refused(mode, errno.EINVAL, kernel="the last table has metadata"):
            dm.load(pair.name, mirror.table(*legs, mode, sectors=pair.sectors))
    pair.remote.well()
    for name in pair.legs:
        dm.remove(f"way-{name}")
    pair.good_end("the table that it had")
    pair.close()


def over_core() -> None:
    base.step("nor does one with metadata take over from a table without them")
    pair = Pair("rejoin", 0)
    pair.put(0)
    pair.stop()
    words = ("nosync", "rejoin", 0)
    nodes = (pair.local.node, pair.remote.node)
    pair.node = dm.create("mirror", mirror.table(*nodes, *words, sectors=pair.sectors))
    pair.remote.set(data="nowrite")
    pair.put(64)
    pair.remote.well()
    with base.refused("metadata", errno.EINVAL, kernel="the last table has no metadata"):
        dm.load("mirror", pair.table())
    pair.message("recover")
    base.until(lambda: pair.status().health == "AA", "in sync, the table that it had")
    pair.check("the table that it had")
    pair.same()
    pair.close()


def failed(mode: str, name: str) -> None:
    base.step(f"{mode}: the {name} leg has failed a write, and the other one gets another device")
    core = Core(mode, rejoin=0)
    core.put(0, "first")
    core.legs[name].fail_writes()
    core.put(0, "second")
    core.put(SECTORS // 2, "missed")
    core.legs[name].well()
    other = "remote" if name == "local" else "local"
    dm.reload("mirror", core.table(by={other: core.way(other)}))
    core.check("exchanged")
    core.in_sync("exchanged")


def elsewhere(legs: str) -> None:
    base.step(f"a leg has failed a write, and the table names {legs}")
    core = Core("nosync", rejoin=0)
    name = "remote" if legs == "swapped" else "local"
    core.put(0, "first")
    core.legs[name].fail_writes()
    core.put(0, "second")
    core.legs[name].well()
    local, remote = (leg.node for leg in core.legs.values())
    by = {"local": remote, "remote": local}
    if legs != "swapped":
        by = {name: core.way(name) for name in core.legs}
    with base.refused("sync", errno.EINVAL, kernel="sync: the local leg misses something"):
        dm.load("mirror", core.table(by=by, mode="sync"))
    if legs == "swapped":
        dm.reload("mirror", core.table(by=by))
        core.check(legs)
    else:
        with base.refused("nosync", errno.EINVAL, kernel="both have other devices now"):
            dm.load("mirror", core.table(by=by))
        core.mirror.message("recover")
    core.in_sync(legs)


PARTS: dict[str, Callable[[], None]] = {
    **{f"longer-{mode}-{name}": partial(longer, mode, name)
       for mode in ("sync", "nosync") for name in ("local", "remote")},
    "exchanged-nosync-local": partial(exchanged, "nosync", "local"),
    "exchanged-nosync-remote": partial(exchanged, "nosync", "remote"),
    "exchanged-sync-remote": partial(exchanged, "sync", "remote"),
    "copied_over": copied_over,
    **{f"unstarted-{mode}": partial(unstarted, mode) for mode in ("sync", "nosync")},
    "over_metadata": over_metadata,
    "over_core": over_core,
    "failed-nosync-local": partial(failed, "nosync", "local"),
    "failed-nosync-remote": partial(failed, "nosync", "remote"),
    "failed-sync-remote": partial(failed, "sync", "remote"),
    "swapped": partial(elsewhere, "swapped"),
    "both": partial(elsewhere, "both by other devices"),
}  # fmt: skip
for part in base.words(1, PARTS) or PARTS:
    PARTS[part]()
base.step("done")
