# SPDX-License-Identifier: GPL-2.0-only
"""What the scenarios of late writes share: a leg that is reached by two ways, each of which can
hang by itself with what was sent by it, and the module's word on who waits for whom.

A way is a linear device of its own over one disk, as a LUN by two portals is two disks: the mirror
sees two block devices.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS
from statelab import create, super_of

PARAMETERS = Path("/sys/module/dm_lockstep/parameters")
MIB = 4
TIMEOUT_MS = 500


@dataclass(frozen=True)
class Draining:
    """A line of the parameter `draining` (registry.h)."""

    requests: int
    leg: str
    device: str
    uuid: str
    name: str


def draining() -> list[Draining]:
    lines = (PARAMETERS / "draining").read_text().splitlines()
    words = [line.split(" ", 4) for line in lines]
    return [Draining(int(nr), leg, device, uuid, name) for nr, leg, device, uuid, name in words]


def knob(name: str) -> None:
    base.put(PARAMETERS / f"test_{name}", 1)
    print(f"switched off for a test: {name}", flush=True)


class Ways:
    """A disk, and the devices by which it is reached."""

    def __init__(self, name: str, ways: int = 2) -> None:
        self.disk = ram.Ram(f"{name}disk", MIB)
        self.names = [f"{name}{n}" for n in range(ways)]
        self.nodes = [dm.create(one, self._table()) for one in self.names]
        self._hung = [False] * ways

    def _table(self) -> str:
        return f"0 {self.disk.sectors} linear {self.disk.node} 0"

    def hangs(self, way: int) -> bool:
        return self._hung[way]

    def hang(self, way: int) -> None:
        if not self._hung[way]:
            dm.suspend(self.names[way], flush=False)
        self._hung[way] = True

    def wake(self, way: int) -> None:
        """What was sent by it arrives now."""
        if self._hung[way]:
            dm.resume(self.names[way])
        self._hung[way] = False

    def close(self) -> None:
        for way, name in enumerate(self.names):
            self.wake(way)
            base.until(lambda: dm.opens(name) == 0, f"{name} in nobody's use")  # noqa: B023
            dm.remove(name)
        self.disk.remove()


class Late:
    """A mirror whose legs are reached by two ways each."""

    def __init__(self, *options: object, core: bool = False, name: str = "mirror") -> None:
        self.name = name
        self.legs = (Ways("l"), Ways("r"))
        self.core = core
        self._options = ("remote_timeout", TIMEOUT_MS, "rejoin", 1, *options)
        self.used = [0, 0]
        if core:
            self.sectors = self.legs[0].disk.sectors
        else:
            create(self.legs[0].nodes[0], self.legs[1].nodes[0], "--assume-clean")
            self.sectors = super_of(self.legs[0].nodes[0]).data_sectors
        self.node = dm.create(name, self.table("nosync"))

    def table(self, word: str = "sync") -> str:
        nodes = [leg.nodes[way] for leg, way in zip(self.legs, self.used, strict=True)]
        words = (*((word, "region_size", 64) if self.core else ()), *self._options)
        return mirror.table(*nodes, *words, sectors=self.sectors)

    def exchange(self, leg: int, way: int) -> None:
        """The leg by another way, by a new table."""
        self.used[leg] = way
        dm.reload(self.name, self.table())

    def again(self) -> None:
        """Removed, and made again by the ways that are used now."""
        dm.remove(self.name)
        self.node = dm.create(self.name, self.table())

    @property
    def line(self) -> str:
        return dm.status(self.name)

    @property
    def health(self) -> str:
        return self.line.split()[0]

    @property
    def why(self) -> str:
        return mirror.parse(self.line).rest[FIELDS.index("why")]

    def drains(self, what: str) -> None:
        base.until(lambda: (self.health, self.why) == ("AD", "draining"), f"{what}: {self.line}")

    def in_sync(self) -> None:
        with contextlib.suppress(base.Wrong):
            base.until(lambda: self.line.startswith("AA") and self.line.split()[2] == "idle",
                       "in sync", 60)  # fmt: skip
            return
        raise base.Wrong(f"not in sync: {self.line}; {draining()}")

    def write(self, sector: int, tag: str) -> None:
        with blk.Disk(self.node) as disk:
            disk.write(sector, blk.pattern(tag, 8))

    def holds(self, sector: int, tag: str) -> None:
        """Both disks have it, themselves."""
        for leg in self.legs:
            with blk.Disk(leg.disk.node, write=False) as disk:
                base.expect(disk.read(sector, 8) == blk.pattern(tag, 8),
                            f"{leg.disk.node} hasn't {tag!r} at {sector}")  # fmt: skip

    def given_up(self, tag: str, sector: int = 0) -> None:
        """The remote leg hangs with this write in it, which is acknowledged without it."""
        self.legs[1].hang(self.used[1])
        self.write(sector, tag)
        base.until(lambda: self.health == "AD", "given up")

    def close(self) -> None:
        dm.remove(self.name)
        for leg in self.legs:
            leg.close()
        base.until(lambda: not draining(), "nothing drains")
