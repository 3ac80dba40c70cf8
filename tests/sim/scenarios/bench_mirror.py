# SPDX-License-Identifier: GPL-2.0-only
"""CPU cost of a write: lockstep, md raid1 and dm-mirror side by side on RAM disks.

Run it in real time:

    tests/sim/lab run tests/sim/scenarios/bench_mirror.py --realtime [-- WRITES ROUNDS]

The disks take no time and there is one CPU, so the wall time of a load is the CPU time of the whole
path: the program, the block layer, the mirror, the disks. The same load on a bare disk is printed
as well: what a mirror adds is the difference, less the second disk's share. Rounds are interleaved,
and the fastest of each is taken: what disturbs this machine only ever adds.
"""

import statistics
import sys
import time
from collections.abc import Callable

from locklab import base, dm, mirror, ram
from mirrorlab import load

WRITES = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
MIB = 64
SPAN = MIB << 11
DEPTHS = (1, 32)

Peer = tuple[str, Callable[[str, str], str], Callable[[], None]]


def lockstep(one: str, two: str) -> str:
    return mirror.Mirror(one, two, "nosync", name="bench").node


def md(one: str, two: str) -> str:
    # --bitmap=none: as our core map, nothing is written but the data
    base.run("mdadm", "--build", "/dev/md0", "--level=1", "--raid-devices=2", "--assume-clean",
             one, two)  # fmt: skip
    return "/dev/md0"


def dm_mirror(one: str, two: str) -> str:
    table = f"0 {SPAN} mirror core 2 2048 nosync 2 {one} 0 {two} 0 1 handle_errors"
    return dm.create("bench", table)


def remove_dm() -> None:
    dm.remove("bench")


def remove_md() -> None:
    base.run("mdadm", "--stop", "/dev/md0")


PEERS: list[Peer] = [
    ("bare disk", lambda one, _: one, lambda: None),
    ("lockstep", lockstep, remove_dm),
    ("md raid1", md, remove_md),
    ("dm-mirror", dm_mirror, remove_dm),
]


def once(peer: Peer, depth: int, seed: int) -> float:
    """Microseconds for each write."""
    _, make, remove = peer
    disks = [ram.Ram(name, MIB) for name in ("bench1", "bench2")]
    node = make(disks[0].node, disks[1].node)
    load("stream", node, SPAN // 8, span=SPAN, depth=32, seed=seed)  # so that the pages are there
    before = time.monotonic()
    load("stream", node, WRITES, span=SPAN, depth=depth, seed=seed)
    seconds = time.monotonic() - before
    remove()
    for disk in disks:
        disk.remove()
    return seconds / WRITES * 1e6


for depth in DEPTHS:
    took: dict[str, list[float]] = {name: [] for name, _, _ in PEERS}
    for turn in range(ROUNDS):
        for peer in PEERS:
            took[peer[0]].append(once(peer, depth, base.SEED + turn))
    best = {name: min(times) for name, times in took.items()}
    print(f"4 KiB random writes, {depth} in flight, {ROUNDS} rounds of {WRITES}:")
    for name, times in took.items():
        print(
            f"  {name:10} {best[name]:7.2f} us a write (median {statistics.median(times):.2f}, "
            f"max {max(times):.2f})"
        )
    for name in ("md raid1", "dm-mirror"):
        print(f"  lockstep / {name}: {best['lockstep'] / best[name]:.2f}")
