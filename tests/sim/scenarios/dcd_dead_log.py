# SPDX-License-Identifier: GPL-2.0-only
"""Past a dead log: a LUN is closed, or writes wait, while places of it can't be read, or only
slowly. Nothing that can be read is lost, and nobody waits for long.

    dcd_dead_log.py [PART...]
"""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box, Disk, Model, filled
from locklab import base, blk
from poisonlab import HELD

WHOLE = 112  # sectors of a write that fills a segment
RING = RING_START // blk.SECTOR
UNREADABLE_S = 6  # longer than a place is waited for
PLACES, BEFORE = 1200, 2500
SLOW_MS, HOURS_MS = 200, 3_600_000
CLOSE_S = 15  # twice five seconds, for the log and for the last chance, and some rounds
REFUSED_S = 34  # thirty seconds, and a round
HUNG_S = 170  # a minute each for a superblock, a place, and a superblock; it took 216 s once
STARVED_S = 30
BUSY_AFTER = 10  # the default
HOW = {  # reads of the superblock, and of the ring: which fail (or don't), after so long
    "ring": (None, (True, SLOW_MS)),
    "all": ((True, SLOW_MS), (True, SLOW_MS)),
    "super": ((False, SLOW_MS), (True, 0)),
    "now": (None, (True, 0)),
    "minute": ((False, 60_000), (False, 60_000)),
    "hang": ((False, HOURS_MS), (False, HOURS_MS)),
}


def box_of(nvram: str, mib: int, more: str = "") -> tuple[Box, Model]:
    box = Box(nvram=nvram, data_mib=64, log_mib=mib, nvram_bytes=4096 + 8 * SEGMENT,
              settings=f"{HELD},scrub_kib=0{more}")  # fmt: skip
    return box, Model(box.data.sectors)


def patient(disk: blk.Disk) -> None:
    """The initiator takes nothing back that takes long."""
    base.put(Path("/sys/block") / Path(disk.node).name / "device/timeout", 900)


def at_rest(nvram: str) -> None:
    base.step(f"{nvram}: closed soon after a place of a dead log can be read again")
    box, model = box_of(nvram, 4)
    with box.disk() as disk:
        filled(disk, model, 4096, 4096 + 20 * WHOLE, "in the log", WHOLE)
        filled(disk, model, 0, 64, "old", 8)
        filled(disk, model, 8192, 8192 + 10 * WHOLE, "more", WHOLE)
        box.says(" 0 in use", "all to be in the log")
        first = RING + 3 * SEGMENT // blk.SECTOR
        box.log.refuse_and_break(first, first + SEGMENT // blk.SECTOR - 1)
        filled(disk, model, 0, 64, "new", 8)
        box.says("log FAILING", "the log to be dead")
        time.sleep(UNREADABLE_S)
        box.log.refuse((0, box.log.sectors - 1))
        time.sleep(0.5)
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def broken(log: Disk, how: str) -> None:
    """It takes no writes, and reads of it are as HOW says."""
    log.refuse_and_read(*((part, HOW[how][n]) for n, part in enumerate(
        ((0, RING - 1), (RING, log.sectors - 1)))))  # fmt: skip


def in_log_only(box: Box, model: Model, disk: blk.Disk) -> None:
    for n in range(PLACES):
        filled(disk, model, 4096 + 16 * n, 4096 + 16 * n + 8, "in the log", 8)
    box.says(" 0 in use", "all to be in the log")


def closed(nvram: str, how: str) -> None:
    base.step(f"{nvram}: closed past a dead log of which nothing can be read ({how})")
    box, model = box_of(nvram, 8, ",busy_after_ms=0")

    def in_time(close: Callable[[], None]) -> None:
        took = blk.timed(close)
        print(f"  the close took {took:.1f} s", flush=True)
        base.expect(took < CLOSE_S, f"the close took {took:.1f} s")

    with box.disk_closed_by(in_time) as disk:
        patient(disk)
        in_log_only(box, model, disk)
        broken(box.log, how)
        with contextlib.suppress(OSError):
            disk.write(0, blk.pattern("new", 8))
        box.says("log FAILING", "the log to be dead")
    box.log.heal()
    box.away()


def behind(how: str) -> None:
    base.step(f"closed with what a forgetful NVRAM alone has, behind {BEFORE} places of a dead log"
              f" that can't be read ({how})")  # fmt: skip
    box, model = box_of("dram:battery", 16, ",busy_after_ms=0")
    fresh = range(110_000, 110_128, 16)
    with box.disk() as disk:
        patient(disk)
        for n in range(BEFORE):
            filled(disk, model, 8192 + 16 * n, 8192 + 16 * n + 8, "in the log", 8)
        filled(disk, model, 4096, 4096 + 20 * WHOLE, "in the log, too", WHOLE)
        box.says(" 0 in use", "all to be in the log")
        broken(box.log, how)
        for at in fresh:
            disk.write(at, blk.pattern(f"fresh {at}", 8))
        box.says("log FAILING", "the log to be dead")
        time.sleep(0.1)
    for at in fresh:
        there = box.data.bytes(at, 8) == blk.pattern(f"fresh {at}", 8)
        base.expect(there, f"the data disk lacks what was written to sector {at}")
    box.log.heal()
    box.away()


def reset() -> None:
    base.step("places of the log are given up; meanwhile it is away for a moment")
    box = Box(nvram="lab", data_mib=32, log_mib=8, nvram_bytes=4096 + 8 * SEGMENT,
              settings=f"{HELD},scrub_kib=0")  # fmt: skip
    model = Model(box.data.sectors)
    with box.disk() as disk:
        for at in range(4096, 4096 + 64 * 40, 64):
            filled(disk, model, at, at + 8, "in the log", 8)
        filled(disk, model, 40000, 40000 + 20 * WHOLE, "more", WHOLE)
        box.says(" 0 in use", "all to be in the log")
        box.log.unreadable((RING, RING + 6 * 128 - 1))
        box.set("destage_idle_ms=1,destage_low=0,destage_high=1")
        for n in range(5000):
            disk.write(20000 + 16 * (n % 100), blk.pattern(f"new {n}", 8))
            if box.count("lost_places"):
                break
            time.sleep(0.02)
        time.sleep(0.2)
        given_up = box.count("lost_places")
        box.log.fail("1 error_reads")
        time.sleep(1.5)
        now = box.count("lost_places")
        box.log.heal()
        print(f"  {given_up} are LOST, and {now} after a second and a half", flush=True)
        base.expect(0 < given_up <= now <= given_up + 1, f"{now} places are LOST, not {given_up}")
    box.away()


def refused(how: str) -> None:
    base.step(f"lab: NVRAM is full past a dead log of which nothing can be read ({how})")
    box, model = box_of("lab", 8, ",busy_after_ms=0")
    with box.disk() as disk:
        patient(disk)
        in_log_only(box, model, disk)
        broken(box.log, how)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for n in range(200):
                began = time.monotonic()
                disk.write(65536 + WHOLE * (n % 20), blk.pattern(f"new {n}", WHOLE))
        took = time.monotonic() - began
        print(f"  refused after {took:.1f} s", flush=True)
        base.expect(took < REFUSED_S, f"a write was refused after {took:.1f} s")
        box.log.heal()
    box.away()


def hangs() -> None:
    base.step("lab: NVRAM is full past a dead log that answers each read after a minute")
    box, model = box_of("lab", 8, ",busy_after_ms=0")
    with box.disk() as disk:
        patient(disk)
        in_log_only(box, model, disk)
        broken(box.log, "minute")
        took = 0.0
        for n in range(20):
            data = blk.pattern(f"new {n}", WHOLE)
            took = max(took, blk.timed(partial(disk.write, 65536 + WHOLE * n, data)))
            if took > 1:
                break
        print(f"  the longest write took {took:.1f} s", flush=True)
        base.expect(1 < took < HUNG_S, f"a write took {took:.1f} s")
        box.log.heal()
    box.away()


def left() -> None:
    base.step("a commit waits for a slot that it may pin; meanwhile the log is left")
    box = Box(data_mib=64, log_mib=5, nvram="lab", nvram_bytes=4096 + 6 * SEGMENT,
              settings=f"{HELD},scrub_kib=0")  # fmt: skip
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 65536, 65536 + 24 * WHOLE, "in places that can't be read", WHOLE)
        box.says(" 0 in use", "the log to have all")
        box.log.fail("1 error_reads")
        for at in range(65536, 65536 + 24 * WHOLE, WHOLE):
            with contextlib.suppress(OSError):
                disk.read(at, 8)
        base.expect(box.count("doubted") > 8, box.info())
        box.log.heal()
        box.set("destage_idle_ms=1")
        box.destaged()
        for _ in range(2):
            filled(disk, model, 65536, 65536 + 20 * WHOLE, "up to the ring's end", WHOLE)
            box.destaged()
        box.data.fail_writes()
        box.log.slow_reads(HOURS_MS)
        filled(disk, model, 0, 5 * WHOLE, "read back late", WHOLE)
        base.until(lambda: box.count("read_back_late") > 3, "half of the slots to be pinned")
        time.sleep(0.5)
        box.set("leave_log=1")
        box.says("log LEAVING", "the log to be left")
        time.sleep(0.3)
        box.data.heal()
        took = blk.timed(partial(filled, disk, model, 20000, 20000 + 12 * WHOLE, "then", WHOLE))
        print(f"  twelve writes took {took:.1f} s", flush=True)
        base.expect(took < BUSY_AFTER, f"writes took {took:.1f} s")
        box.says("log LEFT", "the log to be left")
        model.check(disk, "left")
    box.log.heal()
    box.away()


def starved() -> None:
    base.step("neither disk takes writes, and somebody reads a damaged block of the log")
    box, model = box_of("lab", 4, ",busy_after_ms=0")
    stop = threading.Event()

    def read() -> None:
        end = time.monotonic() + 2 * STARVED_S
        with blk.Disk(disk.node, write=False) as mine:
            while not stop.is_set() and time.monotonic() < end:
                with contextlib.suppress(OSError):
                    mine.read(4096 + 2 * WHOLE, 8)
                time.sleep(0.2)

    def write() -> None:
        for n in range(20):
            disk.write(8192 + WHOLE * n, blk.pattern(f"new {n}", WHOLE))

    with box.disk() as disk:
        patient(disk)
        filled(disk, model, 4096, 4096 + 20 * WHOLE, "in the log", WHOLE)
        box.says(" 0 in use", "all to be in the log")
        box.log.rot(bytes(model.bytes[(4096 + 2 * WHOLE) << 9 :][: blk.SECTOR]))
        box.log.refuse_and_break(0, 15)
        box.data.fail_late(100, (8, box.data.sectors - 9))
        filled(disk, model, 0, 8, "new", 8)
        box.says("log FAILING", "the log to be dead")
        box.says("data FAILING", "the data disk to fail")
        time.sleep(6)
        reader = threading.Thread(target=read)
        reader.start()
        began = time.monotonic()
        with base.refused("a write"):
            write()
        took = time.monotonic() - began
        stop.set()
        reader.join()
        print(f"  refused after {took:.1f} s", flush=True)
        base.expect(took < STARVED_S, f"a write was refused after {took:.1f} s")
        box.data.heal()
        box.log.heal()
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    **{f"rests-{nvram}": partial(at_rest, nvram) for nvram in ("dram:battery", "dram")},
    **{f"closed-{nvram}-{how}": partial(closed, nvram, how)
       for nvram, how in (("dram:battery", "ring"), ("dram:battery", "all"),
                          ("dram:battery", "super"), ("dram:battery", "hang"), ("none", "super"),
                          ("lab", "hang"))},
    **{f"refused-{how}": partial(refused, how) for how in ("ring", "all", "super")},
    **{f"behind-{how}": partial(behind, how) for how in ("now", "ring")},
    "reset": reset,
    "hangs": hangs,
    "left": left,
    "starved": starved,
}  # fmt: skip
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
