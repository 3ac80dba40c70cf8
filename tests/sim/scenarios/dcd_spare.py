# SPDX-License-Identifier: GPL-2.0-only
"""A block of the log is bad for good: it takes no writes, or can't be read. It is moved to a spare,
and with whatever NVRAM nothing of what is acknowledged has a bad place, nor is a write refused.

Args: the parts, of which without any all are run.
"""

from __future__ import annotations

import errno
import json
import subprocess
import time
from collections.abc import Callable
from functools import partial

from dcdlab import RING_START, SEGMENT, TOOL, Box
from locklab import base, blk
from poisonlab import HELD

PER = SEGMENT // blk.SECTOR
RING = RING_START // blk.SECTOR
PLACE = RING + 20 * PER  # the 20th of 32 in the ring
SPARES, TABLES = 32, (16, 24)  # sectors where they begin
NVRAMS = ("lab", "none", "dram:battery", "dram")
SETTINGS = "read_cache_bytes=0"


def box_of(nvram: str, settings: str = SETTINGS) -> Box:
    return Box(
        data_mib=128, log_mib=3, nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT, settings=settings
    )


class Writes:
    """Each 4 KiB, none over another; a segment gets one, at least."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.n = 0
        self.refused: list[OSError] = []
        self.acknowledged: list[int] = []

    def until(self, disk: blk.Disk, segment: int) -> None:
        while self.box.count("segments") < segment:
            try:
                disk.write(8 * self.n, blk.pattern(f"{self.n}", 8))
                self.acknowledged.append(self.n)
            except OSError as err:
                self.refused.append(err)
            self.n += 1
            time.sleep(0.05)

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


def bad(box: Box, *sectors: int) -> None:
    """Blocks of the log disk take and give nothing, each from such a sector on; in their order."""
    box.log.fail_parts(*((at, at + 7) for at in sectors))


def whole(box: Box, writes: Writes, disk: blk.Disk) -> None:
    said = f"{len(writes.refused)} refused {writes.refused[:1]}: {box.info()}"
    base.equal(writes.gone(disk), [], f"what is lost, {said}")
    base.expect(not writes.refused, said)
    base.expect("log ok" in box.info(), box.info())


def unwritten(nvram: str) -> None:
    base.step(f"{nvram}: a header, a table and a payload take no writes, for many laps")
    box = box_of(nvram)
    with box.disk() as disk:
        bad(box, RING + 4 * PER, RING + 11 * PER + 8, PLACE + 16)
        writes = Writes(box)
        writes.until(disk, 5 * 32)
        whole(box, writes, disk)
        base.equal(box.count("blocks_moved"), 3, f"moved, {box.info()}")
        base.equal(box.count("log_write_errors"), 0, f"writes given up, {box.info()}")
        base.equal(box.count("slots_pinned"), 0, "slots that keep what has no place")
    bad(box, RING + 4 * PER, RING + 11 * PER + 8, PLACE + 16)
    with box.disk() as disk:
        base.equal(box.count("moved_blocks"), 3, f"known at the next start, {box.info()}")
        writes.until(disk, 2 * 32)
        whole(box, writes, disk)
        base.equal(box.count("blocks_moved"), 0, f"moved once more, {box.info()}")
    box.away()


def unread(nvram: str) -> None:
    base.step(f"{nvram}: a block takes writes and can't be read, for many laps")
    box = box_of(nvram)
    with box.disk() as disk:
        box.log.unreadable((PLACE + 16, PLACE + 23))
        writes = Writes(box)
        writes.until(disk, 3 * 32)
        base.until(lambda: box.count("lost_places") > 0, "the place to be found", 120)
        writes.until(disk, 6 * 32)
        gone = writes.gone(disk)
        base.expect(len(gone) <= 3, f"more is lost than what was there first: {gone} {box.info()}")
        base.expect(not writes.refused, f"{len(writes.refused)} refused: {box.info()}")
        base.equal(box.count("blocks_moved"), 1, f"moved, {box.info()}")
        base.equal(box.count("slots_pinned"), 0, "slots that keep what has no place")
        base.expect(writes.gone(disk) == gone, "more of it is lost")
    box.away()


def check(box: Box) -> tuple[int, dict[str, object]]:
    words = ["--data", box.data.node, "--log", box.log.node, "--nvram", box.view, "--json"]
    done = subprocess.run([TOOL, "check", *words], capture_output=True, text=True, check=False)
    print(f"  dcd check: {done.returncode} {done.stdout}{done.stderr}", flush=True)
    return done.returncode, json.loads(done.stdout)


def filled_until_cut(nvram: str) -> tuple[Box, Writes]:
    """All is in the log yet, a part of it in a spare, when the power is cut."""
    box = box_of(nvram, HELD)
    with box.disk_until_cut() as disk:
        bad(box, PLACE + 16)
        writes = Writes(box)
        writes.until(disk, 26)
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        base.expect(box.count("live") >= 25, box.info())
        base.equal(box.count("moved_blocks"), 1, f"moved, {box.info()}")
    bad(box, PLACE + 16)
    return box, writes


def cut(nvram: str) -> None:
    base.step(f"{nvram}: the power is cut while a moved block counts; the module has it all")
    box, writes = filled_until_cut(nvram)
    with box.disk() as disk:
        whole(box, writes, disk)
        writes.until(disk, 8)
        whole(box, writes, disk)
    box.away()


def tool(nvram: str) -> None:
    base.step(f"{nvram}: the same, and dcd check and recover have it all")
    box, writes = filled_until_cut(nvram)
    code, told = check(box)
    base.equal((code, told["state"]), (0, "live"), "dcd check")
    base.run(TOOL, "recover", "--data", box.data.node, "--log", box.log.node, "--nvram", box.view)
    for n in writes.acknowledged:
        base.equal(box.data.bytes(8 * n, 8), blk.pattern(f"{n}", 8), f"write {n}, recovered")
    base.equal(check(box)[0], 0, "dcd check afterwards")
    with box.disk() as disk:
        whole(box, writes, disk)
    box.away()


def spares_are_bad() -> None:
    base.step("none: spares are bad themselves, the first two at once, the next one later")
    box = box_of("none")
    with box.disk() as disk:
        bad(box, SPARES, SPARES + 8, PLACE + 16)
        writes = Writes(box)
        writes.until(disk, 2 * 32)
        base.equal(box.count("spares_left"), 252 - 3, f"one good spare, {box.info()}")
        bad(box, SPARES, SPARES + 8, SPARES + 16, PLACE + 16)
        writes.until(disk, 4 * 32)
        base.equal(box.count("spares_left"), 252 - 4, f"another one, {box.info()}")
        base.equal(box.count("moved_blocks"), 1, f"moved, {box.info()}")
        whole(box, writes, disk)
    box.away()


def no_spares() -> None:
    base.step("lab: no spare takes anything: NVRAM goes past that place of the log")
    box = box_of("lab")
    with box.disk() as disk:
        box.log.fail_parts((SPARES, RING - 1), (PLACE + 16, PLACE + 23))
        writes = Writes(box)
        writes.until(disk, 3 * 32)
        base.expect(box.count("log_write_errors") > 0, f"a dead log, {box.info()}")
        base.equal(box.count("moved_blocks"), 0, f"moved, {box.info()}")
        box.says("log ok", "the log to work past that place")
        whole(box, writes, disk)
    box.away()


def no_table() -> None:
    base.step("lab: a copy of the table takes no writes: nothing is moved, and the log goes on")
    box = box_of("lab")
    with box.disk() as disk:
        bad(box, TABLES[1], PLACE + 16)
        writes = Writes(box)
        writes.until(disk, 3 * 32)
        base.equal(box.count("moved_blocks"), 0, f"moved, {box.info()}")
        box.says("log ok", "the log to work past that place")
        box.log.heal()
        writes.until(disk, box.count("segments") + 2 * 32)
        whole(box, writes, disk)
    with box.disk() as disk:
        whole(box, writes, disk)
    box.away()


def opened() -> None:
    base.step("lab: two of the newest places can't be read after a cut; the slots have them")
    box = Box(nvram="lab", nvram_bytes=4096 + 4 * SEGMENT, settings=HELD)
    writes = Writes(box)
    with box.disk_until_cut() as disk:
        while writes.n < 20:
            writes.until(disk, writes.n + 1)
            base.until(lambda: " 0 in use" in box.info(), "it to be in the log")
        first = box.count("segments") - 3
    at = [RING + (first + n) * PER + 16 for n in range(2)]
    box.log.unreadable(*((sector, sector + 7) for sector in at))
    with box.disk() as disk:
        base.equal(box.count("blocks_moved"), 2, f"moved, {box.info()}")
        base.equal(box.count("slots_pinned"), 0, "slots that keep what has no place")
        writes.until(disk, 12)
        whole(box, writes, disk)
    box.away()


def damage(box: Box, *sectors: int) -> None:
    with blk.Disk(box.log.node) as raw:
        for at in sectors:
            raw.write(at, b"\xa5" * 512)


def tables() -> None:
    base.step("a copy of the table is damaged: the other one counts; both are: nothing is guessed")
    box, writes = filled_until_cut("none")
    damage(box, TABLES[0])
    base.equal(check(box)[0], 4, "dcd check with one copy")
    with box.disk() as disk:
        whole(box, writes, disk)
    base.equal(check(box)[0], 0, "dcd check, with both again")
    damage(box, *TABLES)
    code, told = check(box)
    base.equal((code, told["reason"]), (4, "moves_damaged"), "dcd check with no copy")
    with base.refused("to open it", errno.EUCLEAN, kernel="says where they are"):
        box.open()
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    **{f"unwritten-{nvram}": partial(unwritten, nvram) for nvram in NVRAMS},
    **{f"unread-{nvram}": partial(unread, nvram) for nvram in NVRAMS},
    **{f"cut-{nvram}": partial(cut, nvram) for nvram in ("none", "lab")},
    **{f"tool-{nvram}": partial(tool, nvram) for nvram in ("none", "lab")},
    "opened": opened,
    "spares_are_bad": spares_are_bad,
    "no_spares": no_spares,
    "no_table": no_table,
    "tables": tables,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
