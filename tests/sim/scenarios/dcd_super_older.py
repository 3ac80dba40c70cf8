# SPDX-License-Identifier: GPL-2.0-only
"""The newest copy of the superblock can't be read after a power cut, so the older one counts: what
that one says of the log is right too.

past_NVRAM: the log failed, its data disk got past it, and it works again. What it has of before is
older than the data disk, and the older copy knows it. refused: the same of a log without NVRAM.
known: nobody could tell it before the close, so only the kernel knew; the opening has told it.
lap_NVRAM: the ring was used round and round, and is full: no place has been used again that the
older copy counts.
header: past a dead log slots are used again by what the NVRAM's header says. Its newest copy has a
media error after the cut, and the older one has those entries applied, too.
room: the same while the data disk fails: all of the ring can be used, nothing is refused.

Controls: dcd.test_one_told=1 for the first ones, dcd.test_one_passes=1 for lap,
dcd.test_one_header=1.
"""

import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dcdlab import Box, Model, filled
from locklab import base, blk, dm

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99"
GENERATION, TAIL = 56, 96  # bytes of the superblock
HEADERS = (0, 4)  # sectors of the NVRAM
PER = 112  # sectors of payload in a segment
FAR, FULL = 12, 25  # segments; the ring has 32
NO_BLIPS = Path("/sys/module/dcd/parameters/test_no_blips")


def copies(box: Box) -> list[tuple[int, int]]:
    """Generation and tail of each."""
    found = []
    for copy in (0, 1):
        data = box.log.bytes(8 * copy, 1)
        found.append((struct.unpack_from("<Q", data, GENERATION)[0],
                      struct.unpack_from("<Q", data, TAIL)[0]))  # fmt: skip
    return found


def older_counts(box: Box, model: Model, what: str) -> None:
    """The newest copy can't be read: at an opening, and at the next one it can be again."""
    found = copies(box)
    newest = max((0, 1), key=lambda copy: found[copy])
    print(f"  {what}: copies of (generation, tail): {found}", flush=True)
    box.log.fail_here(((8 * newest, 8 * newest), "error_reads"))
    with box.disk() as disk:
        model.check(disk, f"{what}, by the older copy")
        filled(disk, model, 8000, 8016, f"{what} goes on", 8)
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, f"{what}, with both")
        box.set("destage_idle_ms=1")
        box.destaged()
        model.check(disk, f"{what}, from the data disk")


def fails(box: Box, model: Model, disk: blk.Disk) -> None:
    """Newer writes are acknowledged over what the log has, and the data disk gets them."""
    filled(disk, model, 0, 200, "in the log")
    base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    box.log.fail_writes()
    filled(disk, model, 100, 150, "acknowledged", 10)
    box.says("log FAILING", "the failure to be seen")


def past(nvram: str, more: bool) -> None:
    base.step(f"{nvram}: the log works again, {'and is used' if more else 'and nothing comes'}")
    box = Box(nvram=nvram, settings=HELD)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        fails(box, model, disk)
        box.log.heal()
        box.says("log ok", "the log to work again")
        if more:
            filled(disk, model, 140, 180, "goes on", 10)
        disk.flush()
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    older_counts(box, model, "past the log")
    box.away()


def refused() -> None:
    base.step("none: a write is refused while the log fails, others come when it works again")
    box = Box(nvram="none", settings=HELD)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 200, "in the log")
        box.log.fail_writes()
        with base.refused("a write"):
            disk.write(1000, blk.pattern("refused", 8))
        box.log.heal()
        box.says("log ok", "the log to work again")
        filled(disk, model, 100, 150, "acknowledged", 10)
        filled(disk, model, 1000, 1008, "acknowledged", 8)
    older_counts(box, model, "refused meanwhile")
    box.away()


def known() -> None:
    base.step("dram:battery: closed while the log fails, opened when it works")
    box = Box(settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        fails(box, model, disk)
    box.log.heal()
    with box.disk_until_cut() as disk:
        model.check(disk, "the kernel knew it")
    older_counts(box, model, "the kernel knew it")
    box.away()


def newest_header(nvram: blk.Disk) -> int:
    """Its sector."""
    found = [struct.unpack_from("<Q", nvram.read(at, 1), GENERATION)[0] for at in HEADERS]
    return HEADERS[found[1] > found[0]]


def header() -> None:
    base.step("lab: slots are used again past a dead log, and the NVRAM's newest header turns bad")
    box = Box(nvram="lab", settings=HELD)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 200, "in the log")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        base.put(NO_BLIPS, 1)  # past it at once, so that the rounds and the slots are as they were
        box.log.fail_writes()
        box.data.slow(100)
        filled(disk, model, 100, 3400, "past the log")
        base.until(lambda: " 0 in use" in box.info(), "all to be past the log")
        box.data.fail()
        filled(disk, model, 150, 400, "in NVRAM", 50)
    with blk.Disk(box.view, write=False) as nvram:
        newest = newest_header(nvram)
    dm.message("nv", f"poison {newest} 1")
    with box.disk() as disk:
        model.check(disk, "by the older header")
    box.away()


def newest_tail(box: Box) -> int:
    return max(copies(box))[1]


def under_way(disk: blk.Disk, model: Model, box: Box, turn: int) -> None:
    """The tail moves far, while something newer is in the log: never all is on the data disk."""
    tail = newest_tail(box)
    box.set("destage_idle_ms=1")
    n = 0
    while newest_tail(box) < tail + FAR:
        base.expect(n < 1000, f"the tail doesn't move: {box.info()}")
        filled(disk, model, 4000 + n % 64 * 8, 4000 + n % 64 * 8 + 8, f"under way {turn} {n}", 8)
        time.sleep(0.002)
        n += 1
    box.set("destage_idle_ms=3600000")


def lap(nvram: str, failing: bool = False) -> None:
    base.step(f"{nvram}: round and round the ring, until it is full")
    box = Box(nvram=nvram, settings=HELD)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        box.data.slow(2)
        for turn in range(4):
            filled(disk, model, turn * PER, (turn + 14) * PER, f"turn {turn}", PER)
            under_way(disk, model, box, turn)
            print(f"  turn {turn}: {copies(box)}, live {box.count('live')}", flush=True)
        box.data.fail()
        if failing:
            filled(disk, model, 5000, 5000 + PER, "only in the log", PER)
            box.set("destage_idle_ms=1")
            box.says("data FAILING", "the data disk's failure")
            box.set("destage_idle_ms=3600000")
        n = 0
        while box.count("live") < FULL:
            at = n * PER % 3000
            filled(disk, model, at, at + PER, f"only in the log {n}", PER)
            n += 1
        disk.flush()
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        print(f"  full: {copies(box)}, live {box.count('live')}", flush=True)
    older_counts(box, model, "the ring is full")
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    "past_dram": lambda: past("dram", False),
    "past_battery": lambda: past("dram:battery", False),
    "past_battery_used": lambda: past("dram:battery", True),
    "past_lab": lambda: past("lab", True),
    "refused": refused,
    "known": known,
    "lap_lab": lambda: lap("lab"),
    "lap_battery": lambda: lap("dram:battery"),
    "lap_none": lambda: lap("none"),
    "header": header,
    "room": lambda: lap("dram:battery", failing=True),
}

for part in sys.argv[1:] or PARTS:
    PARTS[part]()
base.step("done")
