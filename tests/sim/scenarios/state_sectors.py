# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a mirror one of whose disks has bad sectors: after crashes of the primary that
left writes on one leg only, and before the resync has come there, it is read, written, suspended,
and its table is exchanged; more sectors go bad meanwhile.

Args: how many lives, and the first seed.

What is promised:
  - No read and no write fails, as the other disk is well. (Behind a second crash before the resync
    is over it isn't known any more that the other one has all; that isn't run here.)
  - What is read was acknowledged last, or was under way at the crash; and what was read once is
    read again, but where a sector has gone bad since then, before the resync came (lockstep(8)).
  - In sync at the end, both disks are alike, and have that.
"""

from __future__ import annotations

import copy
import random
import sys
import time
from collections.abc import Iterator
from functools import partial

from locklab import base, blk, dm, mirror
from mirrorlab import Leg
from statelab import LOCAL, REMOTE, Beside, History, Versions, create, sector, super_of

REGION = 64  # as create() makes them


class Sick(Leg):
    """Some of its sectors can't be read: until they are written, or never again (worn)."""

    def __init__(self, name: str) -> None:
        super().__init__(name, mib=1)
        self.bad: set[int] = set()
        self.worn = False

    def go_bad(self, sectors: set[int]) -> None:
        self.bad |= sectors
        if not self.worn:
            if "dust" not in dm.table(self.name):
                self.table(f"0 {self.disk.sectors} dust {self.disk.node} 0 512")
                dm.message(self.name, "enable")
            for at in sectors:
                dm.message(self.name, f"addbadblock {at}")
            return
        lines, node, end = [], self.disk.node, self.disk.sectors
        good = 0
        for at, after in _runs(self.bad):
            lines += [f"{good} {at - good} linear {node} {good}"] if at > good else []
            lines.append(f"{at} {after - at} flakey {node} {at} 0 3600 1 error_reads")
            good = after
        self.table("\n".join([*lines, f"{good} {end - good} linear {node} {good}"]))

    def mended(self) -> None:
        self.bad.clear()
        self.well()


def _runs(numbers: set[int]) -> Iterator[tuple[int, int]]:
    """[first, end) of each run."""
    for at in sorted(numbers):
        if at - 1 not in numbers:
            end = at
            while end in numbers:
                end += 1
            yield at, end


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"sectors {seed}")
        self.legs = {leg: Sick(f"l{leg}") for leg in (LOCAL, REMOTE)}
        self.sick = self.legs[rng.choice((LOCAL, LOCAL, REMOTE))]
        self.sick.worn = rng.random() < 0.3
        create(*(leg.node for leg in self.legs.values()), "--assume-clean")
        self.sectors = super_of(self.sick.node).data_sectors
        self.history = History(self.sectors)
        self.versions = Versions()
        # Of the sectors that the crash has left open: what they may hold if they go bad now.
        self.open: dict[int, tuple[int, list[int]]] = {}
        self.done = [f"{self.sick.name}{' worn' if self.sick.worn else ''}"]
        self.start()

    def table(self) -> str:
        return mirror.table(
            *(leg.node for leg in self.legs.values()), "resync_jobs", self.rng.randint(1, 4),
            "resync_rate", self.rng.choice((1, 64, 0)), "resync_least", 0, sectors=self.sectors,
        )  # fmt: skip

    def start(self) -> None:
        self.node = dm.create("mirror", self.table())

    def place(self, most: int) -> tuple[int, int]:
        """Near a border of regions, more often than not; all in the same few regions."""
        count = self.rng.randint(1, most)
        at = REGION * self.rng.randint(2, 7) + self.rng.randint(-40, 40)
        return at, count

    def write(self) -> tuple[int, int]:
        at, count = self.place(self.rng.choice((1, 8, 64)))
        version = self.versions.next()
        self.history.issue(at, count, version)
        with blk.Disk(self.node) as disk:
            disk.write(at, self.content(version, at, count))
        self.history.ack(at, count, version, fua=False)
        for one in range(at, at + count):
            self.open.pop(one, None)
        return at, count

    @staticmethod
    def content(version: int, at: int, count: int) -> bytes:
        return b"".join(sector(version, at + n) for n in range(count))

    def read(self) -> None:
        at, count = self.place(self.rng.choice((1, 8, 64, 300)))
        with blk.Disk(self.node, write=False) as disk:
            data = disk.read(at, count)
        self.history.check(data, f"a read of {count} at {at}", first=at)
        for one in self.sick.bad.intersection(self.open):
            self.may_be_old(one)

    def may_be_old(self, at: int) -> None:
        self.history.acked[at], self.history.issued[at] = copy.deepcopy(self.open[at])

    def more_bad(self) -> None:
        if self.sick.worn and len(self.sick.bad) > 4:
            return  # A leg with many places that can't be repaired is failing.
        places = [self.place(1 if self.sick.worn else self.rng.choice((1, 3, 40)))
                  for _ in range(self.rng.randint(1, 3))]  # fmt: skip
        sectors = {n for at, count in places for n in range(at, at + count)}
        self.sick.go_bad(sectors)
        for one in sectors.intersection(self.open):
            self.may_be_old(one)

    def bounce(self) -> None:
        dm.suspend("mirror", flush=self.rng.random() < 0.5)
        dm.resume("mirror")

    def reload(self) -> None:
        dm.load("mirror", self.table())
        dm.suspend("mirror")
        dm.resume("mirror")

    def reads_beside_a_reload(self) -> None:
        reading = [Beside(partial(self.read_only, *self.place(200))) for _ in range(3)]
        self.reload()
        for one in reading:
            one.result()

    def read_only(self, at: int, count: int) -> None:
        with blk.Disk(self.node, write=False) as disk:
            disk.read(at, count)

    def waits(self) -> None:
        time.sleep(self.rng.choice((0.01, 0.3, 3)))

    def crash(self) -> None:
        """Regions that were written last, and in them writes that only one leg has got, or none."""
        dirty: set[int] = set()
        for _ in range(self.rng.randint(1, 6)):
            at, count = self.write()
            dirty.update(range(at // REGION, (at + count - 1) // REGION + 1))
        images = {leg: self.image(leg) for leg in self.legs.values()}
        dm.remove("mirror")
        for leg, image in images.items():
            with blk.Disk(leg.disk.node) as disk:
                disk.write(0, image)
        for _ in range(self.rng.randint(0, 6)):
            at = REGION * self.rng.choice(sorted(dirty)) + self.rng.randrange(REGION)
            count = self.rng.randint(1, min(40, REGION - at % REGION))
            version = self.versions.next()
            self.history.issue(at, count, version)
            for leg in images:
                if self.rng.random() < 0.5:
                    with blk.Disk(leg.disk.node) as disk:
                        disk.write(at, self.content(version, at, count))
        self.open = {
            at: (self.history.acked[at], list(self.history.issued[at]))
            for at in range(self.sectors) if self.history.issued[at] != [0]
        }  # fmt: skip
        if self.rng.random() < 0.8:
            self.more_bad()
        self.start()

    @staticmethod
    def image(leg: Leg) -> bytes:
        with blk.Disk(leg.disk.node, write=False) as disk:
            return disk.read(0, disk.sectors)

    def good_end(self) -> None:
        if self.sick.worn:
            self.sick.mended()
        dm.message("mirror", "resync_rate 0")

        def in_sync() -> bool:
            now = mirror.parse(dm.status("mirror"))
            return (now.health, now.action) == ("AA", "idle")

        base.until(in_sync, "the legs to be in sync", 200)
        self.open.clear()
        self.sick.mended()
        with blk.Disk(self.node, write=False) as disk:
            self.history.check(disk.read(0, self.sectors), "in sync")
        blk.same(self.legs[LOCAL].disk.node, self.legs[REMOTE].disk.node, self.sectors)

    def live(self) -> None:
        for _ in range(3):
            self.done.append("crash")
            self.crash()
            for _ in range(self.rng.randint(0, 12)):
                work = self.rng.choice((
                    self.read, self.read, self.read, self.write, self.more_bad, self.bounce,
                    self.reload, self.reads_beside_a_reload, self.waits,
                ))  # fmt: skip
                self.done.append(work.__name__)
                work()
            self.done.append("in sync")
            self.good_end()
        dm.remove("mirror")
        for leg in self.legs.values():
            leg.close()


count, first = (int(word) for word in sys.argv[1:])
for seed in range(first, first + count):
    life = Life(seed)
    try:
        life.live()
    except (base.Wrong, OSError) as err:
        raise base.Wrong(f"life {seed}: {', '.join(life.done)}: {err}") from err
print(f"{count} lives passed", flush=True)
