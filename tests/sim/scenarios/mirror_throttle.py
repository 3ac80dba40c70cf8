# SPDX-License-Identifier: GPL-2.0-only
"""What the resync leaves of the application's latency, and how fast it is when nobody is there.

Arguments: the wire (`lan`, `wan`, or `none`: the remote leg is a disk of this host), the disks of
both sites (`spindle`, `ram`), and the KiB/s that a resync has to reach when it is alone. Each
application runs twice over the same places with the same pauses: alone, and with a full resync
that is started again whenever it ends. Neither the mean nor the 99th percentile may more than
double. The settings are the defaults: nobody tells a rate.
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from locklab import base, blk, iscsi, lio, media, mirror, ram, wire
from mirrorlab import FIELDS

MIB = 256
MOST = 2.0
# Where the application works: a tenth of the disk.
SPAN = (MIB << 11) // 10


@dataclass(frozen=True)
class App:
    """Threads that each do one I/O of 4 KiB at a time, with a pause (mean of an exponential)."""

    name: str
    threads: int
    pause_ms: float
    writes: float  # part of all I/Os
    count: int  # of I/Os for each thread


APPS = (
    App("one writer, no pause", 1, 0, 1.0, 500),
    App("one writer, pauses of 20 ms", 1, 20, 1.0, 500),
    App("one writer, pauses of 300 ms", 1, 300, 1.0, 300),
    App("16 writers, no pause", 16, 0, 1.0, 60),
    App("4 who mostly read, pauses of 20 ms", 4, 20, 0.3, 250),
)


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
        data = blk.pattern(f"app {number}", 8)
        with blk.Disk(node) as disk:
            for turn in range(self._app.count):
                if self._app.pause_ms:
                    time.sleep(rng.expovariate(1000 / self._app.pause_ms))
                place = rng.randrange(SPAN // 8) * 8
                began = time.monotonic()
                if rng.random() < self._app.writes:
                    disk.write(place, data)
                else:
                    disk.read(place, 8)
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


def measure(device: mirror.Mirror, app: App) -> bool:
    alone = Run(device.node, app)
    background = Again(device)
    before, began = resynced(device), time.monotonic()
    time.sleep(0.5)
    beside = Run(device.node, app)
    rate = (resynced(device) - before) / (time.monotonic() - began)
    background.end()
    mean, p99 = beside.mean / alone.mean, beside.p99 / alone.p99
    print(
        f"  {app.name}: mean {alone.mean:.3f} -> {beside.mean:.3f} ms ({mean:.2f}), "
        f"p99 {alone.p99:.3f} -> {beside.p99:.3f} ms ({p99:.2f}), resync {rate:.0f} KiB/s, "
        f"first {max(alone.first):.3f} -> {max(beside.first):.3f} ms",
        flush=True,
    )
    base.expect(rate > 0, "nothing was resynced meanwhile")
    return mean <= MOST and p99 <= MOST


def alone(device: mirror.Mirror, kib: int) -> tuple[float, int]:
    """KiB/s of the resync over the next so many KiB, and what the status says of it."""
    before, began = resynced(device), time.monotonic()
    base.until(lambda: resynced(device) >= before + kib, f"{kib} KiB")
    rate = (resynced(device) - before) / (time.monotonic() - began)
    return rate, int(device.status().rest[FIELDS.index("rate")])


def main() -> None:
    profile, kind, least = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with legs(profile, kind) as (local, remote):
        good = True
        for app in APPS:
            device = mirror.Mirror(local, remote, "nosync")
            good = measure(device, app) and good
            device.remove()

        base.step("nobody is there: full speed")
        device = mirror.Mirror(local, remote, "sync")
        some = 1 << 10 if profile == "wan" else MIB << 10 >> 2
        alone(device, some)
        rate, told = alone(device, 2 * some)
        print(f"  {rate:.0f} KiB/s; status says {told} KiB/s", flush=True)
        device.remove()
        base.expect(good, f"latency rose to more than {MOST} times what it was")
        base.expect(rate >= least, f"full speed is {rate:.0f} KiB/s, want {least}")


main()
