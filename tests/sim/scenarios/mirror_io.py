# SPDX-License-Identifier: GPL-2.0-only
"""Every kind of I/O through the mirror, both sites and the wire in it: args KIND PROFILE."""

import os
import sys

from locklab import base, blk, pair

kind, profile = sys.argv[1:3] if len(sys.argv) > 2 else ("iblock", "lan")


def sizes(disk: blk.Disk) -> None:
    """Sizes around every border: sector, page, the largest piece the mirror handles at once."""
    wrote = []
    at = 1
    for count in (1, 7, 8, 9, 255, 256, 257, 600):
        data = blk.pattern(f"size {count}", count)
        disk.write(at, data)
        wrote.append((at, data))
        at += count + 3
    for at, data in wrote:
        base.expect(disk.read(at, len(data) // blk.SECTOR) == data, f"{len(data)} bytes at {at}")


def both_legs_say(both: pair.Pair, sector: int, data: bytes, what: str) -> None:
    for node in (both.local.node, both.remote):
        with blk.Disk(node, write=False) as leg:
            got = leg.read(sector, len(data) // blk.SECTOR)
            base.expect(got == data, f"{what}: {node} has other bytes at {sector}")


def order(both: pair.Pair, disk: blk.Disk) -> None:
    """Flush and FUA return only when both legs have it; discard and zeroing do what they say."""
    data = blk.pattern("fua", 8)
    disk.write(4096, data, fua=True)
    both_legs_say(both, 4096, data, "FUA write")
    disk.write(5000, data)
    disk.flush()
    both_legs_say(both, 5000, data, "flushed write")
    disk.zero(4096, 8)
    both_legs_say(both, 4096, bytes(len(data)), "zeroing")
    disk.write(4096, data)
    try:
        disk.discard(4096, 8)
    except OSError as err:  # a leg that can't: then the mirror must not pretend
        print("  discard is not offered:", os.strerror(err.errno or 0))
        base.expect(disk.read(4096, 8) == data, "data lost by a refused discard")
    else:
        print("  discard is offered")


def errors_at_the_end(disk: blk.Disk) -> None:
    last = blk.pattern("last", 1)
    disk.write(disk.sectors - 1, last)
    base.expect(disk.read(disk.sectors - 1, 1) == last, "the last sector")
    with base.refused("a write beyond the end"):
        disk.write(disk.sectors, last)


def first_sync(both: pair.Pair) -> None:
    """A new mirror copies the local leg; its data is there at once, before the end of the copy."""
    base.step("first resync, written to meanwhile")
    with blk.Disk(both.local.node) as local:
        for sector in range(0, local.sectors, 4096):
            local.write(sector, blk.pattern(f"before {sector}", 8))
    device = pair.mirrored(both, "sync")
    base.expect(device.status().remote == "a", "the remote leg isn't in sync at the start")
    with blk.Disk(device.node) as disk:
        disk.write(6144, blk.pattern("meanwhile", 8))
        device.in_sync()
        base.expect(disk.read(6144, 8) == blk.pattern("meanwhile", 8), "the write meanwhile")
        base.expect(disk.read(4096, 8) == blk.pattern("before 4096", 8), "what was there before")
    device.remove()
    blk.same(both.local.node, both.remote)


def main() -> None:
    slow = profile == "wan"
    with pair.pair(kind, profile, mib=4 if slow else pair.LEG_MIB) as both:
        first_sync(both)
        device = pair.mirrored(both)
        with blk.Disk(device.node) as disk:
            base.step("sizes")
            sizes(disk)
            base.step("flush, FUA, zeroing, discard")
            order(both, disk)
            base.step("the end of the device")
            errors_at_the_end(disk)
        base.step("load")
        load = blk.Load(device.node, writers=8).start()
        load.wait_writes(100 if slow or base.CHECKED else 600)
        load.stop()
        base.equal(load.errors, [], "errors of the load")
        load.check()
        base.step("load with overlapping writes")
        load = blk.Load(device.node, writers=16, overlap=True, pause_us=0, sectors=64).start()
        load.wait_writes(200 if slow or base.CHECKED else 2000)
        load.stop()
        base.equal(load.errors, [], "errors of the load")
        status = device.in_sync()
        base.equal(status.local_errors + status.remote_errors, 0, "errors of legs")
        device.remove()
        blk.same(both.local.node, both.remote)
    base.step("done")


main()
