# SPDX-License-Identifier: GPL-2.0-only
"""One block of the log takes writes and can't be read: once that is found, nobody loses by it
again, however often the ring comes to that place.

Args: the parts, of which without any all are run.
"""

import contextlib
import errno
import time

from dcdlab import RING_START, SEGMENT, TOOL, Box
from locklab import base, blk
from poisonlab import HELD, poison, sector_of

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
        found = box.count("read_back_bad") + box.count("blocks_moved")
        base.expect(found > 0, f"nobody found that it takes none: {said}")
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


def several() -> None:
    base.step("a block of each of four places can't be read, for many laps of the ring")
    box = Box(data_mib=128, log_mib=3, nvram="lab", nvram_bytes=4096 + 16 * SEGMENT,
              settings=SETTINGS)  # fmt: skip
    first = RING_START // blk.SECTOR
    with box.disk() as disk:
        box.log.fail_here(*[((at, at + 7), "error_reads")
                            for at in (first + n * PER + 40 for n in (4, 11, 18, 25))])  # fmt: skip
        writes = Writes(disk)
        while writes.n < 2800 and box.count("segments") < 12 * 32:
            writes.some()
        gone = writes.gone(disk)
        said = f"{writes.refused} refused: {box.info()}"
        base.equal(writes.refused, 0, f"refused writes, {said}")
        base.expect(len(gone) <= 4, f"more than each place's first one is lost: {gone} {said}")
        base.expect(box.count("slots_pinned") >= 4, f"slots keep what the log can't give: {said}")
        base.equal(box.count("bypass_rounds"), 0, "rounds past a dead log")
        box.log.heal()
    box.away()


def kept() -> None:
    base.step("only a slot has what the log can't give, the data disk fails, and power is cut")
    box = Box(data_mib=128, log_mib=3, nvram="lab", nvram_bytes=4096 + 16 * SEGMENT,
              settings=SETTINGS)  # fmt: skip
    with box.disk_until_cut() as disk:
        box.log.unreadable((PLACE + 40, PLACE + 47))
        writes = Writes(disk)
        while not box.count("slots_pinned"):
            writes.some()
        gone = writes.gone(disk)
        pinned = box.count("slots_pinned")
        while box.count("segments") % 32 != 12:  # the next one is 8 segments ahead
            writes.some()
        box.data.fail_writes()
        while box.count("slots_pinned") == pinned:
            writes.some()
        behind = box.count("segments") + 3  # so that it isn't the end of the log
        while box.count("segments") < behind:
            writes.some()
    box.data.heal()
    box.log.unreadable((PLACE + 40, PLACE + 47))
    # Nothing is in a hurry to be destaged, but for what only that slot has.
    box.settings = f"{SETTINGS},destage_idle_ms=3600000,destage_low=98,destage_high=99"
    with box.disk() as disk:
        base.equal(writes.gone(disk), gone, "what the cut has lost")
        base.equal(writes.refused, 0, "writes that were refused")
        for _ in range(400):  # whoever takes that slot for an idle one overwrites it
            writes.some()
        base.equal(writes.gone(disk), gone, "what is lost in the end")
    box.away()


def worn() -> None:
    base.step("the slot that has what the log can't give gets a media error, too")
    box = Box(data_mib=128, log_mib=3, nvram="lab", nvram_bytes=4096 + 16 * SEGMENT,
              settings=SETTINGS)  # fmt: skip
    with box.disk() as disk:
        box.log.unreadable((PLACE + 40, PLACE + 47))
        writes = Writes(disk)
        while not box.count("slots_pinned"):
            writes.some()
        pinned = box.count("slots_pinned")
        while box.count("segments") % 32 != 12:  # the next one is 8 segments ahead
            writes.some()
        box.data.fail_writes()
        while box.count("slots_pinned") == pinned:
            writes.some()
        some = writes.acknowledged[-12:]  # in that slot and its neighbours
        for n in some:
            poison(box, sector_of(box, blk.pattern(f"{n}", 8)))
        for n in some:  # who reads it is told
            with contextlib.suppress(OSError):
                disk.read(8 * n, 8)
        base.expect(box.count("nvram_errors") > 0, "somebody has met it")
        box.data.heal()
        box.says("data ok", "the data disk to work")
        refused = writes.refused
        until = box.count("segments") + 2 * 32
        while box.count("segments") < until:
            writes.some()
        base.equal(writes.refused, refused, f"refused writes: {box.info()}")
    box.away()


def cut_with_all_in_the_log(slots: int) -> tuple[Box, int]:
    """A box of which each segment of the log has one write, 8 sectors at 8 * its number, of which
    NVRAM has the newest ones, too; power has been cut. Also how many."""
    box = Box(nvram="lab", nvram_bytes=4096 + slots * SEGMENT, settings=HELD)
    with box.disk_until_cut() as disk:
        for n in range(20):
            disk.write(8 * n, blk.pattern(f"{n}", 8))
            base.until(lambda: " 0 in use" in box.info(), "it to be in the log")
        count = box.count("segments")
    return box, count


def place_of(box: Box, n: int) -> tuple[int, int]:
    """All of the place of the log that has write @n, but for its header and table."""
    ring = RING_START // blk.SECTOR
    at = box.log.bytes(ring, box.log.sectors - ring).find(blk.pattern(f"{n}", 8)) // blk.SECTOR
    return ring + at // PER * PER + 16, ring + at // PER * PER + PER - 1


def wrong(disk: blk.Disk, count: int) -> list[int]:
    """What isn't as it was written."""
    found = []
    for n in range(count):
        try:
            good = disk.read(8 * n, 8) == blk.pattern(f"{n}", 8)
        except OSError:
            good = False
        if not good:
            found.append(n)
    return found


def end() -> None:
    base.step("the last place of the log can't be read after a cut, and NVRAM has what was there")
    box, count = cut_with_all_in_the_log(8)
    box.log.unreadable(place_of(box, count - 1))
    with box.disk() as disk:
        for n in range(count, count + 12):  # the slots are used again
            base.equal(wrong(disk, n), [], "writes that are wrong")
            disk.write(8 * n, blk.pattern(f"{n}", 8))
            base.until(lambda: " 0 in use" in box.info(), "it to be in the log")
        base.expect(box.count("slots_pinned"), f"its slot keeps it: {box.info()}")
        box.log.heal()
        base.equal(wrong(disk, count + 12), [], "writes that are wrong")
    box.away()


def neighbours() -> None:
    base.step("two of the newest places can't be read, NVRAM has them, and can't keep both")
    box, count = cut_with_all_in_the_log(4)
    box.log.unreadable(place_of(box, count - 4), place_of(box, count - 3))
    with base.refused("to open it", errno.EIO, kernel="can't be read back"):
        box.open()
    base.run(TOOL, "recover", "--data", box.data.node, "--log", box.log.node, "--nvram", box.view)
    with box.disk() as disk:
        base.equal(wrong(disk, count), [], "writes that are wrong")
    box.away()


PARTS = {
    "end": end,
    "neighbours": neighbours,
    "lab": lambda: laps("lab", 40),
    "table": table,
    "several": several,
    "kept": kept,
    "worn": worn,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
