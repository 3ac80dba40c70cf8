# SPDX-License-Identifier: GPL-2.0-only
"""What scenarios of a data disk that takes long share: a small DCD, a load that nothing may hold
up, and that all of it gets to the data disk in the end."""

from __future__ import annotations

import random
import time
from functools import partial

from dcdlab import SEGMENT, Box, Model
from locklab import base, blk
from probelab import SOON

SIZE = 32  # of a write


def small(nvram: str = "lab") -> tuple[Box, Model]:
    """7 MiB of log, which is written within seconds."""
    box = Box(data_mib=64, log_mib=8, nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT)
    return box, Model(box.data.sectors)


class Load:
    """Writes all over the disk, but for some places, and how long they take."""

    def __init__(self, disk: blk.Disk, model: Model, spared: list[int]) -> None:
        self._disk, self._model, self._spared = disk, model, spared
        self._rng, self._tag = random.Random(f"late {base.SEED}"), 0

    def run(self, seconds: float, pause: float) -> None:
        longest, end = 0.0, time.monotonic() + seconds
        while time.monotonic() < end:
            at = SIZE * self._rng.randrange(self._disk.sectors // SIZE)
            if any(at <= sector < at + SIZE for sector in self._spared):
                continue
            self._tag += 1
            data = blk.pattern(f"load {self._tag}", SIZE)
            longest = max(longest, blk.timed(partial(self._disk.write, at, data)))
            self._model.put(at, data)
            time.sleep(pause)
        print(f"  {self._tag} writes, the longest took {longest * 1000:.1f} ms", flush=True)
        base.expect(longest < SOON, f"a write took {longest:.3f} s")


def settled(box: Box, model: Model, disk: blk.Disk, seconds: float = 120.0) -> None:
    base.until(lambda: box.count("live") == 0 and "0 in use" in box.info(),
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
