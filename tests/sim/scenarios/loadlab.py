# SPDX-License-Identifier: GPL-2.0-only
"""What scenarios of a disk that takes long share: a small DCD, a load that nothing may hold
up, and that all of it gets to the data disk in the end."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from functools import partial

from dcdlab import SEGMENT, Box, Model
from locklab import base, blk
from probelab import SOON

SIZE = 32  # of a write


def small(nvram: str = "lab", settings: str = "") -> tuple[Box, Model]:
    """7 MiB of log, which is written within seconds."""
    box = Box(
        data_mib=64, log_mib=8, nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT, settings=settings
    )
    return box, Model(box.data.sectors)


class Load:
    """Writes all over the disk from `first` on, but for some places, and how long they take."""

    def __init__(
        self, disk: blk.Disk, model: Model, spared: Sequence[int] = (), first: int = 0,
        size: int = SIZE,
    ) -> None:  # fmt: skip
        self._disk, self._model, self._spared = disk, model, spared
        self._first, self._size = first, size
        self._rng, self._tag = random.Random(f"late {base.SEED}"), 0

    def run(self, seconds: float, pause: float, most: float = SOON) -> None:
        longest, end, size = 0.0, time.monotonic() + seconds, self._size
        blocks = (self._disk.sectors - self._first) // size
        while time.monotonic() < end:
            at = self._first + size * self._rng.randrange(blocks)
            if any(at <= sector < at + size for sector in self._spared):
                continue
            self._tag += 1
            data = blk.pattern(f"load {self._tag}", size)
            longest = max(longest, blk.timed(partial(self._disk.write, at, data)))
            self._model.put(at, data)
            time.sleep(pause)
        print(f"  {self._tag} writes, the longest took {longest * 1000:.1f} ms", flush=True)
        base.expect(longest < most, f"a write took {longest:.3f} s")


def settled(box: Box, model: Model, disk: blk.Disk, seconds: float = 120.0) -> None:
    base.until(lambda: box.count("live") == 0 and " 0 in use" in box.info(),
               "all to be destaged", seconds)  # fmt: skip
    base.expect("data ok" in box.info() and box.count("stuck_sectors") == 0, box.info())
    model.check(disk, "destaged")


def good_end(box: Box, model: Model) -> None:
    with box.disk() as disk:
        model.check(disk, "opened again")
        settled(box, model, disk)
    same = box.data.bytes(0, box.data.sectors) == bytes(model.bytes)
    base.expect(same, "the data disk itself has other bytes")
    box.away()
