# SPDX-License-Identifier: GPL-2.0-only
"""A local disk with a volatile cache that loses its power: what the mirror says is in sync is.

Args: the part.
"""

import errno

from locklab import base, blk, dm, media, mirror
from locklab.media import PRIMARY_SITE
from mirrorlab import Leg
from statelab import create, super_of

MIB = 4
SECTORS = MIB << 11
REGION = 64
OPTIONS = ("rejoin", 1, "resync_pace", "full")


class Local:
    """A disk with a volatile cache below a linear device that can be made to fail."""

    def __init__(self) -> None:
        media.forget("p-local")
        self.turn = 0
        self._on()
        self.node = dm.create("wl", self._linear())

    def _on(self) -> None:
        self.turn += 1
        words = f"4 site {PRIMARY_SITE} write_cache on"
        self.medium = dm.create(
            f"plocal{self.turn}", f"0 {SECTORS} media p-local ram null {words}"
        )

    def _linear(self) -> str:
        return f"0 {SECTORS} linear {self.medium} 0"

    def _set(self, table: str) -> None:
        dm.load("wl", table)
        dm.suspend("wl", flush=False)
        dm.resume("wl")

    def fail(self) -> None:
        """Writes and flushes fail; reads don't."""
        self._set(f"0 {SECTORS} flakey {self.medium} 0 0 36000 1 error_writes")

    def gone(self) -> None:
        self._set(f"0 {SECTORS} error")

    def well(self) -> None:
        self._set(self._linear())

    def lose_power(self, seed: int = 1) -> None:
        """Its cache is lost; it answers again after well()."""
        media.cut(PRIMARY_SITE, seed)
        self.gone()
        self._on()


class World:
    def __init__(self, *options: object, metadata: bool) -> None:
        self.local = Local()
        self.remote = Leg("lremote", mib=MIB)
        words = (*options, *OPTIONS)
        self.sectors = SECTORS
        if metadata:
            create(self.local.node, self.remote.node, "--assume-clean")
            self.sectors = super_of(self.local.node).data_sectors
        self.table = mirror.table(
            self.local.node, self.remote.node, *words, sectors=self.sectors
        )
        self.node = dm.create("mirror", self.table)

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status("mirror"))

    def same(self) -> None:
        blk.same(self.local.node, self.remote.node, self.sectors)

    def wait(self, health: str, action: str | None = None) -> None:
        def there() -> bool:
            now = self.status()
            return now.health == health and action in (None, now.action)

        base.until(there, f"{health} {action}: {dm.status('mirror')}", 60)


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


ALL = {
    "core": lambda: reload(False),
    "core_stays": lambda: reload(False, False),
    "metadata": lambda: reload(True),
    "flush_source": lambda: source("flush"),
    "write_source": lambda: source("write"),
}
(part,) = base.words(1, ALL)
ALL[part]()
base.step("done")
