# SPDX-License-Identifier: GPL-2.0-only
"""Overlapping writes from buffers that change in flight: the legs stay bit-identical.

The remote leg is slower, so each write is on its way to the two legs at different times. On md
raid1 over the same disks the legs end up different: that shows that the load does what it says.
"""

import sys

from locklab import base, blk, dm, ram
from mirrorlab import Pair, load

COUNT = 1000 if base.CHECKED else 10_000
SPAN = 4096

base.step("lockstep: scribbled and overlapping writes")
pair = Pair("nosync")
pair.remote.slow(1)
writes, _, flushes, bad, _ = load("scribble", pair.mirror.node, COUNT, span=SPAN)
base.equal((writes, bad), (COUNT, 0), "writes and failed writes")
base.expect(
    pair.count("waited") > COUNT // 10, "too few writes overlapped: the load proves nothing"
)
base.expect(pair.count("fua") and flushes, "no FUA or no flush was in the load")
pair.remote.well()
pair.same()
print(f"  {COUNT} writes, {pair.count('waited')} waited for an overlapping one")

base.step("lockstep: legs with latencies in interrupt context")
pair.close()
pair = Pair("nosync", latency_us=(50, 700))
load("scribble", pair.mirror.node, COUNT // 4, span=SPAN, depth=64)
pair.same()
pair.close()

if "md" in sys.argv[1:]:
    base.step("md raid1: the same load")
    disks = [ram.Ram("mda", 8), ram.Ram("mdb", 8)]
    slow = dm.create("mdslow", f"0 {disks[1].sectors} delay {disks[1].node} 0 1")
    base.run("mdadm", "--build", "/dev/md0", "--level=1", "--raid-devices=2", "--assume-clean",
             disks[0].node, slow)  # fmt: skip
    load("scribble", "/dev/md0", COUNT, span=SPAN)
    base.run("mdadm", "--stop", "/dev/md0")
    at = blk.difference(disks[0].node, slow)
    print(f"  md raid1: first differing sector {at}")
    dm.remove("mdslow")
