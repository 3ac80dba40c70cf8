# SPDX-License-Identifier: GPL-2.0-only
"""Overlapping writes, and writes from buffers that change in flight: the legs stay bit-identical.

    mirror_scribble.py [md]

The remote leg is slower, so each write is on its way to the two legs at different times. First
10,000 tries (build/bin/scribble), each judged by itself: a write of up to 1 MiB, its buffer
rewritten until the acknowledgment, then its sectors compared on the disks below. Then a load in
which such writes also overlap (mirror-load scribble), compared at its end. With `md` the first load
also runs on md raid1 over the same kind of legs, where the legs have to differ: it does what it
says. At last both over an iSCSI session, whose packets are made of the pages it was given.
"""

import json
from dataclasses import dataclass

from locklab import base, blk, dm, pair, ram
from mirrorlab import Pair, load

SCRIBBLE = "/lockstep/build/bin/scribble"
BESIDE_MD = bool(base.words(1, ["md"]))
TRIES = 600 if base.CHECKED else 10_000
OVERLAPPING = 1000 if base.CHECKED else 10_000
OVER_ISCSI = 100 if base.CHECKED else 1000
SPAN = 4096


@dataclass(frozen=True)
class Tally:
    tries: int
    in_flight: int
    differ: int
    failed: int


def scribble(what: str, node: str, one: str, two: str, tries: int) -> dict[str, Tally]:
    """Small and large writes: how many tries, and on how many the legs differ."""
    said = json.loads(base.run(SCRIBBLE, node, one, two, str(tries), str(base.SEED)))
    found = {size: Tally(**said[size]) for size in ("small", "large")}
    for size, tally in found.items():
        print(f"  {what}, {size} writes: legs differ after {tally.differ} of {tally.tries} tries "
              f"({tally.in_flight} rewritten in flight)", flush=True)  # fmt: skip
        base.equal(tally.failed, 0, f"{what}: failed {size} writes")
        base.expect(
            tally.in_flight > tally.tries * 9 // 10, f"{what}: few {size} writes were in flight"
        )
    return found


def identical(what: str, found: dict[str, Tally]) -> None:
    base.equal({size: tally.differ for size, tally in found.items()}, {"small": 0, "large": 0},
               f"{what}: tries whose legs differ")  # fmt: skip


def different(what: str, found: dict[str, Tally]) -> None:
    """The control: a mirror that sends the caller's pages has to be caught."""
    for size, tally in found.items():
        base.expect(tally.differ, f"{what}: the legs never differ on {size} writes, "
                                  "so this load proves nothing")  # fmt: skip


def md(one: str, two: str) -> str:
    base.run("mdadm", "--build", "/dev/md0", "--level=1", "--raid-devices=2", "--assume-clean",
             one, "--write-mostly", two)  # fmt: skip
    return "/dev/md0"


base.step(f"lockstep: {TRIES} writes of up to 1 MiB, rewritten in flight")
legs = Pair("nosync")
legs.remote.slow(100 if base.CHECKED else 1)  # there the load itself takes long
tallies = scribble("lockstep", legs.mirror.node, legs.local.disk.node, legs.remote.disk.node, TRIES)
identical("lockstep", tallies)
legs.remote.well()
legs.same()

base.step("lockstep: scribbled and overlapping writes")
legs.remote.slow(100 if base.CHECKED else 1)  # there the load itself takes long
waited = legs.count("waited")
writes, _, flushes, bad, _ = load("scribble", legs.mirror.node, OVERLAPPING, span=SPAN)
base.equal((writes, bad), (OVERLAPPING, 0), "writes and failed writes")
waited = legs.count("waited") - waited
base.expect(waited > OVERLAPPING // 10, "too few writes overlapped: the load proves nothing")
base.expect(legs.count("fua") and flushes, "no FUA or no flush was in the load")
legs.remote.well()
legs.same()
print(f"  {OVERLAPPING} writes, {waited} waited for an overlapping one")
legs.close()

base.step("lockstep: legs with latencies in interrupt context")
legs = Pair("nosync", latency_us=(50, 700))
load("scribble", legs.mirror.node, OVERLAPPING // 4, span=SPAN, depth=64)
legs.same()
legs.close()

if BESIDE_MD:
    base.step(f"md raid1: the {TRIES} writes rewritten in flight")
    disks = [ram.Ram("mda", 8), ram.Ram("mdb", 8)]
    slow = dm.create("mdslow", f"0 {disks[1].sectors} delay {disks[1].node} 0 1")
    tallies = scribble("md raid1", md(disks[0].node, slow), disks[0].node, disks[1].node, TRIES)
    different("md raid1", tallies)
    base.run("mdadm", "--stop", "/dev/md0")
    at = blk.difference(disks[0].node, disks[1].node)
    print(f"  md raid1: first differing sector {at}")
    dm.remove("mdslow")

with pair.pair("iblock", "metro") as both:
    far = both.site.disks[0].node
    base.step("lockstep over iSCSI: writes rewritten in flight")
    mirrored = pair.mirrored(both)
    tallies = scribble("lockstep over iSCSI", mirrored.node, both.local.node, far, OVER_ISCSI)
    identical("lockstep over iSCSI", tallies)
    mirrored.remove()
    blk.same(both.local.node, far)
    if BESIDE_MD:
        base.step("md raid1 over iSCSI: the same")
        node = md(both.local.node, both.remote)
        tallies = scribble("md raid1 over iSCSI", node, both.local.node, far, OVER_ISCSI)
        different("md raid1 over iSCSI", tallies)
        base.run("mdadm", "--stop", "/dev/md0")
