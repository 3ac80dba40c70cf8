# SPDX-License-Identifier: GPL-2.0-only
"""One load of 4 KiB random writes on RAM disks, for tests/sim/cpu-cost: PEER DEPTH WRITES.

The peers: bare (one disk), lockstep, md (raid1, the second disk write-mostly, no bitmap: as our
core map, nothing is written but the data), dm-mirror (core log). Run by itself it tells nothing:
the disks take no time, and what the CPU takes costs none in simulated time.
"""

import sys

from locklab import base, dm, mirror, ram
from mirrorlab import load

MIB = 64
SPAN = MIB << 11


def md(one: str, two: str) -> str:
    base.run("mdadm", "--build", "/dev/md0", "--level=1", "--raid-devices=2", "--assume-clean",
             one, "--write-mostly", two)  # fmt: skip
    return "/dev/md0"


def dm_mirror(one: str, two: str) -> str:
    return dm.create("bench", f"0 {SPAN} mirror core 2 2048 nosync 2 {one} 0 {two} 0 "
                              "1 handle_errors")  # fmt: skip


PEERS = {
    "bare": lambda one, _two: one,
    "lockstep": lambda one, two: mirror.Mirror(one, two, "nosync", name="bench").node,
    "md": md,
    "dm-mirror": dm_mirror,
}

peer, depth, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
disks = [ram.Ram(name, MIB).node for name in ("bench1", "bench2")]
node = PEERS[peer](disks[0], disks[1])
load("stream", node, SPAN // 8, span=SPAN, depth=32)  # so that the disks' pages are there
load("stream", node, writes, span=SPAN, depth=depth)
