# SPDX-License-Identifier: GPL-2.0-only
"""A resync gets on beside applications that never rest, and what that costs them.

Arguments: what the applications write (APPS), the wire and the disks (throttlelab.py), the KiB/s
that a resync at its default settings has to reach beside each application, and by how much its
99th percentile may grow, in ms.
A further argument test_NAME is a knob of the module. In one run: politely alone (resync_least 0),
at the least rate that is the default, and as fast as it goes (resync_pace full). And what the
resync has done while the application was idle doesn't count when that is busy.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from locklab import base, mirror
from mirrorlab import FIELDS
from throttlelab import Again, App, Run, legs, resynced

PARAMETERS = Path("/sys/module/dm_lockstep/parameters")
APPS = {
    "small": (
        App("one writer, no pause", 1, 0, 1.0, 500),
        App("16 writers, no pause", 16, 0, 1.0, 60),
    ),
    "many": (App("128 writers, no pause", 128, 0, 1.0, 15),),
    "large": (App("32 writers of 256 KiB, no pause", 32, 0, 1.0, 16, 512),),
}
WAYS: tuple[tuple[str, ...], ...] = (("resync_least", "0"), (), ("resync_pace", "full"))


IDLE = 30


def beside(
    local: str, remote: str, app: App, words: tuple[str, ...], alone: Run, idle: float = 0
) -> tuple[float, float]:
    """KiB/s of the resync, and ms by which the 99th percentile has grown."""
    device = mirror.Mirror(local, remote, "nosync", *words)
    again = Again(device)
    time.sleep(idle)
    before, began = resynced(device), time.monotonic()
    time.sleep(0.5)
    run = Run(device.node, app)
    rate = (resynced(device) - before) / (time.monotonic() - began)
    holds = device.status().rest[FIELDS.index("holds")]
    again.end()
    device.remove()
    print(
        f"  {app.name}; {' '.join(words) or 'as by default'}; idle {idle} s: mean"
        f" {alone.mean:.3f} -> {run.mean:.3f}, p99 {alone.p99:.3f} -> {run.p99:.3f} ms,"
        f" resync {rate:.0f} KiB/s, held back by {holds}",
        flush=True,
    )
    return rate, run.p99 - alone.p99


def main() -> None:
    size, profile, kind = sys.argv[1:4]
    least, grows = int(sys.argv[4]), float(sys.argv[5])
    for knob in sys.argv[6:]:
        base.put(PARAMETERS / knob, 1)
    wrong = []
    with legs(profile, kind) as (local, remote):
        for app in APPS[size]:
            device = mirror.Mirror(local, remote, "nosync")
            alone = Run(device.node, app)
            device.remove()
            for words in WAYS:
                rate, more = beside(local, remote, app, words, alone)
                if not words and (rate < least or more > grows):
                    wrong.append(f"{app.name}: {rate:.0f} KiB/s, p99 grows by {more:.3f} ms")
            if sys.argv[6:]:
                continue
            words = ("resync_least", str(least))
            at_once, _ = beside(local, remote, app, words, alone)
            later, _ = beside(local, remote, app, words, alone, IDLE)
            if later < at_once * 2 / 3:
                wrong.append(f"{app.name}: {at_once:.0f} KiB/s, {later:.0f} after {IDLE} idle s")
    base.expect(not wrong, f"want {least} KiB/s and at most {grows} ms: {'; '.join(wrong)}")


main()
