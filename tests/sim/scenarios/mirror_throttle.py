# SPDX-License-Identifier: GPL-2.0-only
"""What the resync leaves of the application's latency, and how fast it is when nobody is there.

Arguments: the wire (a profile, or `none`: the remote leg is a disk of this host), the disks of
both sites (`spindle`, `ram`), and the KiB/s that a resync has to reach when it is alone. Each
application runs twice over the same places with the same pauses: alone, and with a full resync
that is started again whenever it ends. Neither the mean nor the 99th percentile may more than
double. The settings are the defaults (nobody tells a rate), but for the least rate: mirror_least.py
has that.
"""

from __future__ import annotations

import sys
import time

from locklab import base, mirror
from mirrorlab import FIELDS
from throttlelab import MIB, Again, App, Run, legs, resynced

MOST = 2.0

APPS = (
    App("one writer, no pause", 1, 0, 1.0, 500),
    App("one writer, pauses of 20 ms", 1, 20, 1.0, 500),
    App("one writer, pauses of 300 ms", 1, 300, 1.0, 300),
    App("16 writers, no pause", 16, 0, 1.0, 60),
    App("4 who mostly read, pauses of 20 ms", 4, 20, 0.3, 250),
)


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
            device = mirror.Mirror(local, remote, "nosync", "resync_least", 0)
            good = measure(device, app) and good
            device.remove()

        base.step("nobody is there: full speed")
        device = mirror.Mirror(local, remote, "sync")
        some = MIB << 10 >> 2 if profile in ("lan", "none") else 1 << 10
        alone(device, some)
        rate, told = alone(device, 2 * some)
        print(f"  {rate:.0f} KiB/s; status says {told} KiB/s", flush=True)
        device.remove()
        base.expect(good, f"latency rose to more than {MOST} times what it was")
        base.expect(rate >= least, f"full speed is {rate:.0f} KiB/s, want {least}")


main()
