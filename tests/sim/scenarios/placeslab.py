# SPDX-License-Identifier: GPL-2.0-only
"""Places of a device that is too large to be looked at as a whole, and how long what is written
there waits.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator

from locklab import blk
from statelab import MAP_PAGE

PLACE = 8  # sectors of one


class Waits:
    """How long the application waited, but for what was held on purpose."""

    def __init__(self) -> None:
        self.longest, self.what = 0.0, ""
        self.over = False  # a host's crash: nobody waits any more
        self._held: list[tuple[float, float]] = []

    @contextlib.contextmanager
    def counted(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        now = time.monotonic()
        held = sum(max(0.0, min(now, end) - max(began, start)) for start, end in self._held)
        if not self.over and now - began - held > self.longest:
            self.longest, self.what = now - began - held, what

    def hold(self, seconds: float) -> None:
        now = time.monotonic()
        self._held.append((now, now + seconds))
        time.sleep(seconds)


class Places(blk.Disk):
    """A device of which only some places are used: sector n is in place n / PLACE of these."""

    def __init__(self, node: str, where: list[int], waits: Waits, *, write: bool = True) -> None:
        super().__init__(node, write=write)
        self._where, self._waits = where, waits

    def _parts(self, sector: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Where on the device, which of the sectors, and how many."""
        done = 0
        while done < count:
            place, rest = divmod(sector + done, PLACE)
            many = min(PLACE - rest, count - done)
            yield self._where[place] + rest, done, many
            done += many

    def read(self, sector: int, count: int) -> bytes:
        return b"".join(super(Places, self).read(at, many)
                        for at, _, many in self._parts(sector, count))  # fmt: skip

    def write(self, sector: int, data: bytes, *, fua: bool = False) -> None:
        for at, first, many in self._parts(sector, len(data) >> 9):
            part = data[first << 9 : (first + many) << 9]
            with self._waits.counted(f"a write to sector {at}"):
                super().write(at, part, fua=fua)

    def flush(self) -> None:
        with self._waits.counted("a flush"):
            super().flush()


def choose(rng: random.Random, count: int, sectors: int) -> list[int]:
    """So many places, without an order, which don't overlap: the first one of the device and its
    last; where two pages of the map meet, and some of them in both; and anywhere."""
    found = {0, (sectors - PLACE) // PLACE * PLACE}
    while len(found) < count:
        page = rng.randrange(-(-sectors // MAP_PAGE))
        inside = rng.choice((-PLACE // 2, 0, rng.randrange(MAP_PAGE), rng.randrange(MAP_PAGE)))
        at = page * MAP_PAGE + inside
        if all(abs(at - one) >= PLACE for one in found) and 0 <= at <= sectors - PLACE:
            found.add(at)
    where = list(found)
    rng.shuffle(where)
    return where
