# SPDX-License-Identifier: GPL-2.0-only
"""What scenarios of the throttle share: applications and how long their I/O takes, a resync without
an end, and legs at both ends of a wire.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from locklab import base, blk, iscsi, lio, media, mirror, ram, wire
from mirrorlab import FIELDS

MIB = 256
# Where the application works: a tenth of the disk.
SPAN = (MIB << 11) // 10


@dataclass(frozen=True)
class App:
    """Threads that each do one I/O at a time, with a pause (mean of an exponential)."""

    name: str
    threads: int
    pause_ms: float
    writes: float  # part of all I/Os
    count: int  # of I/Os for each thread
    sectors: int = 8


class Run:
    """One application's run; the latencies are in milliseconds."""

    def __init__(self, node: str, app: App) -> None:
        self.first: list[float] = []  # of each thread
        self.latencies: list[float] = []
        self._app = app
        threads = [
            threading.Thread(target=self._work, args=(node, n)) for n in range(app.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.latencies.sort()

    def _work(self, node: str, number: int) -> None:
        rng = random.Random(f"{base.SEED} {self._app.name} {number}")
        sectors = self._app.sectors
        data = blk.pattern(f"app {number}", sectors)
        with blk.Disk(node) as disk:
            for turn in range(self._app.count):
                if self._app.pause_ms:
                    time.sleep(rng.expovariate(1000 / self._app.pause_ms))
                place = rng.randrange(SPAN // sectors) * sectors
                began = time.monotonic()
                if rng.random() < self._app.writes:
                    disk.write(place, data)
                else:
                    disk.read(place, sectors)
                took = 1000 * (time.monotonic() - began)
                # The first ones may meet the resync at full speed.
                (self.latencies if turn > 2 else self.first).append(took)

    @property
    def mean(self) -> float:
        return sum(self.latencies) / len(self.latencies)

    @property
    def p99(self) -> float:
        return self.latencies[len(self.latencies) * 99 // 100]


class Again:
    """A full resync, and another one whenever it has ended."""

    def __init__(self, device: mirror.Mirror) -> None:
        self._device, self._stop = device, threading.Event()
        self._thread = threading.Thread(target=self._work)
        device.message("resync")
        self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(0.01):
            if self._device.status().action == "idle":
                self._device.message("resync")

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def legs(profile: str, kind: str) -> Iterator[tuple[str, str]]:
    def disk(name: str) -> str:
        if kind == "ram":
            return ram.Ram(name, MIB).node
        return media.disk(name, MIB, kind, write_cache="off", spread="on")

    local, far = disk("local"), disk("far")
    if profile == "none":
        yield local, far
        return
    link = wire.Wire()
    target = lio.Target(lio.iblock("leg", far))
    session = iscsi.Session()
    remote = session.login()
    link.profile(profile)
    yield local, remote
    session.close()
    target.remove()
    link.close()


def resynced(device: mirror.Mirror) -> int:
    """KiB so far."""
    return int(device.status().rest[FIELDS.index("resynced")]) // 2
