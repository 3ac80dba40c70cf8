# SPDX-License-Identifier: GPL-2.0-only
"""A DCD whose data disk has 16 TiB (in memory, sparse): written at both ends and in between, all of
it (or as many GiB of its end as the argument says) discarded, the power cut meanwhile and
afterwards. Nothing takes a walk over the disk, no number is too small for it, memory is bounded.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from dcdlab import SITE, Box
from locklab import base, blk, lio, media

MIB = 16 << 20
GIB = 1 << 21  # sectors
GONE = int(sys.argv[1]) * GIB if len(sys.argv) > 1 else MIB << 11  # that are discarded
INDEX_MIB = 64
SIZE = 128  # sectors of a write


def available_mib() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    raise base.Wrong("no MemAvailable")


class Huge:
    def __init__(self) -> None:
        self.box = Box(
            data_mib=MIB, log_mib=1025, nvram="lab", nvram_bytes=4096 + 16 * (256 << 10),
            settings=f"index_bytes={INDEX_MIB << 20}",
        )  # fmt: skip
        end = self.box.data.sectors
        # Both ends, around 2 TiB (32 bits of sectors), 8 TiB, and where no boundary is.
        self.places = [0, (1 << 32) - SIZE // 2, end // 2 - SIZE // 2, end - 12345 * GIB,
                       end - SIZE]  # fmt: skip
        self._memory = available_mib()

    def put(self, disk: blk.Disk, tag: str) -> None:
        for at in self.places:
            disk.write(at, blk.pattern(f"{tag} {at}", SIZE))

    def check(self, disk: blk.Disk, tag: str) -> None:
        """`gone`: nothing is there that was discarded, else `third`."""
        for at in self.places:
            want = blk.pattern(f"{'third' if tag == 'gone' else tag} {at}", SIZE)
            if tag == "gone" and at >= self.box.data.sectors - GONE:
                want = bytes(SIZE * blk.SECTOR)
            base.expect(disk.read(at, SIZE) == want, f"{tag}: other bytes at {at}")

    def recovered(self, what: str) -> None:
        info = self.box.info()
        read, us = self.box.count("recovery_bytes") >> 20, self.box.count("recovery_us")
        took = self._memory - available_mib()
        print(f"  {what}: read {read} MiB of the log in {us / 1000:.0f} ms; "
              f"{self.box.count('recovered_entries')} entries", flush=True)  # fmt: skip
        base.expect(took < INDEX_MIB + 192, f"{took} MiB of memory; {info}")


def discard(disk: blk.Disk) -> None:
    """All of it, as mkfs does; a power cut ends it."""
    try:
        disk.discard(disk.sectors - GONE, GONE)
    except OSError as err:
        print(f"  it was ended: {err}", flush=True)


def main() -> None:
    base.step("16 TiB: written, destaged, opened again")
    huge = Huge()
    box = huge.box
    with box.disk() as disk:
        base.equal(disk.sectors, MIB << 11, "sectors")
        huge.put(disk, "first")
        huge.check(disk, "first")
        box.destaged()
        huge.check(disk, "first")
    with box.disk_until_cut() as disk:
        huge.recovered("after a close")
        huge.check(disk, "first")
        huge.put(disk, "second")
    base.step("all of it is discarded, and the power is cut meanwhile")
    store = box.open()
    with lio.look(store) as node, blk.Disk(node) as disk:
        huge.recovered("after a cut")
        huge.check(disk, "second")
        gone = threading.Thread(target=discard, args=(disk,))
        gone.start()
        base.until(lambda: box.count("discards") > 1000, "some to come")
        media.cut(SITE, base.SEED)
        gone.join(600)
        base.expect(not gone.is_alive(), "the discard")
    box.close()
    box.power_on()
    base.step("the same without a cut; then one")
    with box.disk_until_cut() as disk:
        huge.recovered("after a cut in a discard")
        huge.put(disk, "third")
        took = blk.timed(lambda: disk.discard(disk.sectors - GONE, GONE))
        print(f"  all of it: {took:.1f} s, {box.count('discards')} commands", flush=True)
        huge.check(disk, "gone")
        huge.put(disk, "fourth")
    with box.disk() as disk:
        huge.recovered("after a discard of all and a cut")
        huge.check(disk, "fourth")
        if len(sys.argv) > 1:  # all of it takes the modelled disk an hour
            box.destaged()
            huge.check(disk, "fourth")
            base.expect(box.count("discarded_sectors") > GONE - GIB, "they are passed on")
    box.away()


main()
base.step("done")
