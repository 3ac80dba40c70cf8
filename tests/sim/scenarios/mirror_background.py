# SPDX-License-Identifier: GPL-2.0-only
"""What a synchronous write of 4 KiB takes beside a flood of writeback, and beside it on md raid1.

Arguments: the wire (`lan`, `wan`), how many such writes, and maybe test_NAME, a knob of the module.
The flood is what a program leaves to the kernel to write: pages at random places and whole MiB by
turns, more than the wire takes. On the mirror the 99th percentile is at most MOST times md's, which
leaves all of the flood in the queues of the legs; and the flood has at least HALF of the wire.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from locklab import base, blk, mirror, pair
from mirrorlab import FIELDS, Beside

MIB = 64
WARM_S = {"lan": 0.5, "wan": 5.0}
# What the kernel lets wait for its writing: on a slow wire more takes minutes, of md, too.
DIRTY = {"lan": 24 << 20, "wan": 2 << 20}
# KiB/s: half of the wire (on a LAN, of what md does in the same run).
HALF = {"lan": 58_000, "wan": 180}
MOST = 0.25
PARAMETERS = Path("/sys/module/dm_lockstep/parameters")


@dataclass(frozen=True)
class Told:
    mean: float  # ms
    p99: float
    most: float
    flood: float  # KiB/s

    def __str__(self) -> str:
        return (
            f"mean {self.mean:.2f}, p99 {self.p99:.2f}, most {self.most:.2f} ms,"
            f" flood {self.flood:.0f} KiB/s"
        )


class Flood:
    def __init__(self, node: str) -> None:
        self._stop = threading.Event()
        self._fd = os.open(node, os.O_RDWR | os.O_CLOEXEC)
        self._work = Beside(self._write)

    def _write(self) -> None:
        rng = random.Random(f"flood {base.SEED}")
        page, large = b"p" * 4096, b"l" * (1 << 20)
        turn = 0
        while not self._stop.is_set():
            turn += 1
            os.pwrite(self._fd, large, turn % (MIB // 2) << 20)
            for _ in range(64):
                os.pwrite(self._fd, page, rng.randrange(MIB << 7, (MIB - 1) << 8) << 12)

    def stop(self) -> None:
        self._stop.set()
        self._work.result()
        os.fsync(self._fd)
        os.close(self._fd)


def written(node: str) -> int:
    """KiB to this disk until now."""
    stat = Path(f"/sys/block/{Path(node).name}/stat").read_text().split()
    return int(stat[6]) // 2


def measure(node: str, local: str, count: int, warm_s: float) -> Told:
    flood = Flood(node)
    took = []
    with blk.Disk(node) as disk:
        data = blk.pattern("sync", 8)
        time.sleep(warm_s)
        before, began = written(local), time.monotonic()
        for n in range(count):
            sent = time.monotonic()
            disk.write((MIB - 1 << 11) + n % 256 * 8, data, fua=True)
            took.append(1000 * (time.monotonic() - sent))
        rate = (written(local) - before) / (time.monotonic() - began)
        flood.stop()
    took.sort()
    return Told(sum(took) / count, took[count * 99 // 100], took[-1], rate)


def main() -> None:
    profile, count = sys.argv[1], int(sys.argv[2])
    for knob in sys.argv[3:]:
        base.put(PARAMETERS / knob, 1)
    base.put(Path("/proc/sys/vm/dirty_background_bytes"), DIRTY[profile] >> 3)
    base.put(Path("/proc/sys/vm/dirty_bytes"), DIRTY[profile])
    with pair.pair("iblock", profile, mib=MIB) as both:
        device = mirror.Mirror(both.local.node, both.remote, "nosync", "remote_timeout", 0)
        ours = measure(device.node, both.local.node, count, WARM_S[profile])
        memory = device.status().rest[FIELDS.index("memory")]
        print(f"  lockstep: {ours}; memory {memory}", flush=True)
        device.remove()
        base.run("mdadm", "--build", "/dev/md0", "--level=1", "--raid-devices=2", "--assume-clean",
                 both.local.node, "--write-mostly", both.remote)  # fmt: skip
        md = measure("/dev/md0", both.local.node, count, WARM_S[profile])
        print(f"  md raid1: {md}", flush=True)
        base.run("mdadm", "--stop", "/dev/md0")
    base.expect(ours.p99 <= MOST * md.p99, f"p99 is {ours.p99} ms, md's {md.p99} ms")
    base.expect(ours.flood > HALF[profile], f"the flood does {ours.flood} KiB/s")


main()
