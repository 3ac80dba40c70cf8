# SPDX-License-Identifier: GPL-2.0-only
"""A discard of a mirror whose mirror site's disk has to write the zeroes, at 15 MB/s, though its
LUN offers to zero 32 MiB in one request: no leg is taken for one that hangs. Args: the policy; and
`later`, if the first half of that disk has nothing to write (it wasn't allocated yet); `zero`: by
zeroes that keep what is allocated, at 8 MB/s; `hurried`: at 50 MB/s, and remote_timeout is less
from the second half on.
"""

import sys
import threading
import time
from pathlib import Path

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import Leg
from statelab import Beside

ENDS = 8
NULLB = Path("/sys/kernel/config/nullb")
WORDS = {"memory_backed": 0, "discard": 0, "irqmode": 0, "hw_queue_depth": 64}


def null_disk(name: str, mib: int, mbps: int) -> str:
    """Its table of a device-mapper target, without the start."""
    base.made(NULLB / name)
    for word, value in {**WORDS, "size": mib, "mbps": mbps, "power": 1}.items():
        base.put(NULLB / name / word, value)
    base.until(Path("/dev", name).exists, name)
    return f"{mib << 11} linear /dev/{name} 0"


policy, words = sys.argv[1], base.words(2, ["later", "zero", "hurried"])
later, zero, hurried = "later" in words, "zero" in words, "hurried" in words
mbps = 8 if zero else 50 if hurried else 15
slow = 256
fast = slow if later else 0
MIB = fast + slow + 2 * ENDS
# It forgets what is written to it: the beginning and the metadata are elsewhere.
head, tail = (ram.Ram(name, ENDS) for name in ("head", "tail"))
end, last = ENDS << 11, (MIB - ENDS) << 11
parts = [f"0 {end} linear {head.node} 0", f"{end + (fast << 11)} {null_disk('slow', slow, mbps)}",
         f"{last} {end} linear {tail.node} 0"]  # fmt: skip
if fast:
    parts.insert(1, f"{end} {null_disk('fast', fast, 0)}")
far = dm.create("far", "\n".join(parts))
line = wire.Wire("none")
target = lio.Target(lio.iblock("leg", far))
session = iscsi.Session(**{"node.session.timeo.replacement_timeout": "120"})
remote = session.login()
local = Leg("llocal", mib=MIB, zeroes=True)
statelab.create(local.node, remote, "--assume-clean")
size = statelab.super_of(local.node).data_sectors
m = mirror.Mirror(local.node, remote, "policy", policy, name="mirror", sectors=size)


def write(over: threading.Event) -> float:
    """Elsewhere, once in a second: how long the longest took."""
    longest = 0.0
    with blk.Disk(m.node) as disk:
        while not over.is_set():
            began = time.monotonic()
            disk.write(size - 2048, blk.pattern("beside", 8))
            longest = max(longest, time.monotonic() - began)
            time.sleep(1)
    return longest


over = threading.Event()
longest: list[float] = []
writing = Beside(lambda: longest.append(write(over)))
log = base.KernelLog()
base.step(f"policy {policy}: {MIB} MiB are {'zeroed' if zero else 'discarded'}")
began = time.monotonic()
with blk.Disk(m.node) as disk_:
    wipe, first = disk_.zero if zero else disk_.discard, 0
    if hurried:
        first = end + (fast << 11)
        wipe(0, first)
        dm.message("mirror", "remote_timeout 2000")
    discarding = Beside(lambda: wipe(first, size - 4096 - first))
    base.until(lambda: discarding.done, "the discard to end", 120)
    discarding.result()
print(f"  it took {time.monotonic() - began:.1f} s", flush=True)
over.set()
base.until(lambda: writing.done, "the writer to end")
writing.result()
print(f"  the longest write took {longest[0]:.1f} s", flush=True)
gone = [line for line in log.new() if "is dead" in line]
base.expect(not gone, f"a leg was given up: {gone}")
base.step("done")
