# SPDX-License-Identifier: GPL-2.0-only
"""What scenarios of writes that wait share: a remote leg that takes 50 ms for everything, so that
when a write comes back tells behind how many others it was; and writes under way one after another.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from locklab import base, blk
from mirrorlab import Beside, Leg, Pair

SLOW_MS = 50
TIMEOUT_MS = 2000


def slow_pair(
    *options: object, pipeline: int = 1, zeroes: bool = False, cache_mib: int = 0
) -> Pair:
    legs = Pair("nosync", "coalesce_pipeline", pipeline, "remote_timeout", TIMEOUT_MS, *options,
                zeroes=zeroes, cache_mib=cache_mib)  # fmt: skip
    legs.remote.slow(SLOW_MS)
    return legs


def bios(leg: Leg) -> int:
    """Writes that the device below the leg has done."""
    number = os.stat(leg.node).st_rdev
    stat = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text().split()
    return int(stat[4])


class Waiting:
    """One write on the way, then some that wait; with what each took."""

    def __init__(self, legs: Pair) -> None:
        self.legs = legs
        self.disk = blk.Disk(legs.mirror.node)
        self.took: dict[str, float] = {}
        self._began = time.monotonic()
        self._beside: list[Beside] = []

    def go(self, name: str, work: Callable[[], object]) -> None:
        """Each is under way before the next begins."""
        seen = self.legs.count("writes") + self.legs.count("flushes") + self.legs.count("zeroes")

        def timed() -> None:
            work()
            self.took[name] = time.monotonic() - self._began

        self._beside.append(Beside(timed))
        base.until(
            lambda: self.legs.count("writes") + self.legs.count("flushes")
            + self.legs.count("zeroes") > seen, name
        )  # fmt: skip

    def write(self, name: str, sector: int, count: int = 8, *, fua: bool = False) -> None:
        data = blk.pattern(name, count)
        self.go(name, lambda: self.disk.write(sector, data, fua=fua))

    def holds(self, sector: int, name: str, count: int = 8) -> None:
        base.equal(self.disk.read(sector, count), blk.pattern(name, count), f"at {sector}: {name}")

    def end(self) -> None:
        for one in self._beside:
            one.result()

    def first(self, *names: str) -> None:
        """They were on the way at once, not after what was there before."""
        for name in names:
            base.expect(self.took[name] < SLOW_MS * 1.5e-3, f"{name} took {self.took[name]:.6f} s")

    def trips(self, number: int, *names: str) -> None:
        """They came back with the number-th round trip."""
        for name in names:
            trips = self.took[name] * 1000 / SLOW_MS
            base.expect(number - 0.1 < trips < number + 0.5, f"{name} took {trips:.3f} round trips")

    def second(self, *names: str) -> None:
        self.trips(2, *names)

    def close(self) -> None:
        self.end()
        self.disk.close()
        self.legs.remote.well()
        self.legs.same()
        self.legs.close()
