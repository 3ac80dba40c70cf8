# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a remote leg that two hosts use. One has the mirror; it may be suspended or
stopped, or lose a leg, and it knows nothing of the other host, which takes the remote leg over
whenever it is let to, writes to it, and stops.

Arguments: how many lives, and the first seed.

Each leg has a lineage: what was acknowledged and has to be there if that leg is the one to go on
with. The mirror's host writes to the first half of the device, the other one to the second, so that
neither's writes can hide the other's. What is promised:
  - A start that is accepted has all of both lineages; from then on they are one.
  - After `resolve` the mirror has all of the lineage of the leg that is kept.
  - The other host finds all of the remote leg's lineage.
  - A resume that is accepted, of the same table or of a new one, changes nothing of what was read
    before the suspend, unless the other host had used the remote leg by then.
  - A write fails only if both legs have had trouble, or the other host has used the remote one.
The other host comes when the mirror's does nothing, and its writes are followed by some seconds in
which nobody writes: within these the mirror's host may not know of it (METADATA_SECONDS). Only
fencing helps against two hosts that write at the same moment.
"""

from __future__ import annotations

import contextlib
import errno
import random
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm
from otherhost import LOOKED, SETTLES, other_host, resolve
from statelab import LOCAL, REMOTE, Versions, content, sector, version_in
from statelegs import Pair

WRITE = 8
PLACES = 12  # of each host
Lineage = dict[int, int]


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"hosts {seed}")
        self.pair = Pair("remote_timeout", 2000, "rejoin", 1)
        self.versions = Versions()
        self.lineages: dict[str, Lineage] = {LOCAL: {}, REMOTE: {}}
        self.runs, self.suspended, self.used = True, False, False
        self.all_well = True
        self.troubled: set[str] = set()  # legs, since they were in sync last
        self.told: list[str] = []
        self.seen: bytes | None = None  # at the suspend

    def events(self) -> list[Callable[[], None]]:
        if not self.runs:
            return [self.use, self.start, self.start]
        if self.suspended:
            return [self.use, self.use, self.load, self.load, self.resume, self.resume, self.stop]
        return [
            self.put, self.put, self.put, self.use, self.suspend, self.stop, self.gone, self.gone,
            self.well, self.well, self.rest, self.recover,
        ]  # fmt: skip

    def put(self) -> None:
        at = self.rng.randrange(PLACES) * 64
        version = self.versions.next()
        try:
            with blk.Disk(self.pair.node) as disk:
                disk.write(at, b"".join(sector(version, at + n) for n in range(WRITE)))
        except OSError as err:
            self.told.append(f"put {err.errno}")
            base.equal(err.errno, errno.EIO, "a write")
            base.expect(self.used or len(self.troubled) == 2, "a write fails while a leg is well")
            return
        health = self.pair.status().health
        has = {LOCAL: health[0] == "A", REMOTE: health[1] == "A"}
        # That the remote leg has it, too, counts for nothing once the other host has used it.
        if self.used and has[LOCAL]:
            has[REMOTE] = False
        for leg in (leg for leg in has if has[leg]):
            self.lineages[leg][at] = version

    def use(self) -> None:
        """The remote leg by the other host, as far as it is let to."""
        time.sleep(SETTLES)
        try:
            with other_host(self.pair, self.pair.remote) as there:
                self.check(there, self.lineages[REMOTE], "the other host")
                at = (PLACES + self.rng.randrange(PLACES)) * 64
                version = self.versions.next()
                with blk.Disk(there) as disk:
                    disk.write(at, b"".join(sector(version, at + n) for n in range(WRITE)))
        except OSError as err:
            self.told.append(f"use {err.errno}")
            base.equal(err.errno, errno.EINVAL, "the other host's start")
        else:
            self.lineages[REMOTE][at] = version
            self.used = True
        time.sleep(LOOKED)

    def suspend(self) -> None:
        self.seen = None
        if not self.used:
            with contextlib.suppress(OSError):
                self.seen = content(self.pair.node, self.pair.sectors)
        dm.suspend("mirror")
        self.suspended = True

    def load(self) -> None:
        self.well()
        dm.load("mirror", self.pair.table())

    def resume(self) -> None:
        try:
            dm.resume("mirror")
        except OSError as err:
            self.told.append(f"resume {err.errno}")
            base.equal(err.errno, errno.ESTALE, "a resume")
            base.expect(self.used, "a resume is refused though nobody else has used a leg")
            return
        self.suspended = False
        with contextlib.suppress(OSError):
            now = content(self.pair.node, self.pair.sectors)
            base.expect(self.seen in (None, now), "a resume changes what was read before")

    def gone(self) -> None:
        leg = self.rng.choice((LOCAL, REMOTE))
        self.told.append(leg)
        self.pair.legs[leg].gone()
        self.troubled.add(leg)
        self.all_well = False

    def well(self) -> None:
        self.all_well = True
        for leg in self.pair.legs.values():
            leg.well()

    def rest(self) -> None:
        time.sleep(self.rng.choice((2, LOOKED, 70)))
        if self.pair.status().health == "AA" and self.all_well and not self.used:
            self.troubled.clear()

    def recover(self) -> None:
        try:
            self.pair.message("recover")
        except OSError as err:
            self.told.append(f"recover {err.errno}")

    def stop(self) -> None:
        self.pair.stop()
        self.runs = self.suspended = False

    def start(self) -> None:
        self.well()
        try:
            self.pair.start()
        except OSError as err:
            base.equal(err.errno, errno.EINVAL, "a start")
            base.expect(self.used, "a start is refused though nobody else has used a leg")
            keeps = resolve(self.pair, self.rng.choice((LOCAL, REMOTE)))
            self.told.append(f"keeps {keeps}")
            kept = self.lineages[keeps]
            self.pair.start()
        else:
            kept = {**self.lineages[LOCAL]}
            for at, version in self.lineages[REMOTE].items():
                kept[at] = max(version, kept.get(at, 0))
        self.runs, self.used = True, False
        self.troubled.clear()
        self.check(self.pair.node, kept, "the mirror")
        self.lineages = {LOCAL: dict(kept), REMOTE: dict(kept)}
        self.pair.in_sync()

    def check(self, node: str, lineage: Lineage, who: str) -> None:
        data = content(node, self.pair.sectors)
        for first, version in lineage.items():
            for at in range(first, first + WRITE):
                found = version_in(data, at)
                what = f"{who}: sector {at} has version {found}, {version} was acknowledged"
                base.expect(found >= version, what)

    def live(self) -> None:
        for _ in range(14):
            event = self.rng.choice(self.events())
            self.told.append(event.__name__)
            event()
        if self.runs:
            self.stop()
        self.told.append("the end")
        self.start()
        self.pair.stop()
        self.pair.same()
        self.pair.close()


count, begin = (int(word) for word in sys.argv[1:3])
for seed in range(begin, begin + count):
    life = Life(seed)
    try:
        life.live()
    except (base.Wrong, OSError) as err:
        raise base.Wrong(f"life {seed}: {' '.join(life.told)}: {err}") from err
base.step("done")
