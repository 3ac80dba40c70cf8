# SPDX-License-Identifier: GPL-2.0-only
"""What scenarios of disks that hang share: how long something takes beside them, and another
session's reads, which nothing of it may hold up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from locklab import base, blk

PROBED = 8000
SOON = 1.0  # seconds


class Probe(threading.Thread):
    """Another session's reads, one each 100 ms."""

    def __init__(self, node: str) -> None:
        super().__init__(daemon=True)
        self._node, self._stop = node, threading.Event()
        self.longest = 0.0
        self.error: Exception | None = None

    def run(self) -> None:
        last = time.monotonic()
        try:
            with blk.Disk(self._node, write=False) as disk:
                while not self._stop.wait(0.1):
                    disk.read(PROBED, 1)
                    now = time.monotonic()
                    self.longest = max(self.longest, now - last)
                    last = now
        except (OSError, base.Wrong) as err:
            self.error = err

    def end(self) -> None:
        self._stop.set()
        self.join(SOON)
        base.expect(not self.is_alive(), "the probe's read isn't answered")
        base.expect(self.error is None, f"the probe: {self.error}")
        print(f"  the probe's longest gap: {self.longest * 1000:.0f} ms", flush=True)
        base.expect(self.longest < SOON, f"a gap of {self.longest:.3f} s")


def timed(what: str, work: Callable[[], object], most: float) -> None:
    took = blk.timed(work)
    print(f"  {what} took {took * 1000:.0f} ms", flush=True)
    base.expect(took < most, f"{what} took {took:.3f} s")
