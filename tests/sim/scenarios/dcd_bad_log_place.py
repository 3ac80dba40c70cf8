# SPDX-License-Identifier: GPL-2.0-only
"""One block of the log takes writes and can't be read: once that is found, nobody loses by it
again, however often the ring comes to that place.

Args: the parts, of which without any all are run.
"""

import time

from dcdlab import RING_START, SEGMENT, Box
from locklab import base, blk

PER = SEGMENT // blk.SECTOR
PLACE = RING_START // blk.SECTOR + 20 * PER  # the 20th of 32 in the ring
SETTINGS = "read_cache_bytes=0"


def box_of(nvram: str, settings: str = SETTINGS) -> Box:
    return Box(
        data_mib=128, log_mib=3, nvram=nvram, nvram_bytes=4096 + 4 * SEGMENT, settings=settings
    )


class Writes:
    """Each 4 KiB, none over another; a segment gets a few of them."""

    def __init__(self, disk: blk.Disk) -> None:
        self.disk = disk
        self.n = self.refused = 0
        self.acknowledged: list[int] = []

    def some(self) -> None:
        for _ in range(2):
            try:
                self.disk.write(8 * self.n, blk.pattern(f"{self.n}", 8))
                self.acknowledged.append(self.n)
            except OSError:
                self.refused += 1
            self.n += 1
        time.sleep(0.04)

    def gone(self, disk: blk.Disk) -> list[int]:
        found = []
        for n in self.acknowledged:
            try:
                got = disk.read(8 * n, 8)
            except OSError:
                found.append(n)
            else:
                base.expect(got == blk.pattern(f"{n}", 8), f"write {n} has other bytes")
        return found


def laps(nvram: str, sector: int) -> None:
    base.step(f"{nvram}: sector {sector} of a place can't be read, for many laps of the ring")
    box = box_of(nvram)
    with box.disk() as disk:
        box.log.unreadable((PLACE + sector, PLACE + sector + 7))
        writes = Writes(disk)
        while writes.n < 1400 and box.count("segments") < 6 * 32:
            writes.some()
        base.until(lambda: box.count("lost_places") > 0, "the place to be found", 120)
        gone = writes.gone(disk)
        said = f"of {len(writes.acknowledged)}, {writes.refused} refused: {box.info()}"
        base.expect(len(gone) <= 1, f"lap after lap acknowledged writes are lost: {gone} {said}")
        base.expect(box.count("read_back_bad") > 0, f"nobody found that it takes none: {said}")
        base.expect(not writes.refused, f"writes are refused: {said}")
        box.log.heal()
        box.says("log ok" if not gone else "log DAMAGED", "the log to work")
        refused = writes.refused
        until = box.count("segments") + 2 * 32
        while box.count("segments") < until:
            writes.some()
        base.equal(writes.refused, refused, f"healed, and writes are refused: {box.info()}")
        base.equal(writes.gone(disk), gone, "what is lost in the end")
    box.away()


def table() -> None:
    base.step("the table of a place can't be read, the scrub has told it, and power is cut")
    box = box_of("lab", f"{SETTINGS},scrub_kib=100000")
    with box.disk_until_cut() as disk:
        box.log.unreadable((PLACE + 8, PLACE + 15))
        writes = Writes(disk)
        while not box.count("scrub_bad"):
            writes.some()
        told = box.count("segments")
        while box.count("segments") < told + 2 * 32 or box.count("segments") % 32 not in (26, 27):
            writes.some()
    box.log.unreadable((PLACE + 8, PLACE + 15))
    with box.disk() as disk:
        base.equal(writes.gone(disk), [], "what the cut has lost")
        base.equal(writes.refused, 0, "writes that were refused")
    box.away()


PARTS = {
    "lab": lambda: laps("lab", 40),
    "table": table,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
