# SPDX-License-Identifier: GPL-2.0-only
"""A disk that takes its time to say that it can't: an error after a second or more, as of a command
that is tried again and again, and no hang.

  discard   each discard of the data disk fails late: while the log is left, and past a dead one
  zeroing   so does each zeroing, at once
  left      after the log was left, UNMAP and WRITE SAME are written
  log       the log is dead, and takes 30 s to refuse a write
  stall     the log is away for a moment, and what was under way hangs for 3 s before
  data_stall  the same of the data disk, of which all writes have need
  close     the data disk is dead, and takes 30 s to say so
  block     a block of the log is bad, and takes 7 s to refuse a write
  scratch   likewise six of them in a row
  unread    one takes writes, doesn't give what it was given, and takes 7 s to say so

Arguments: parts (all of them if there are none).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk, lio
from statelab import Beside

SLOTS = 8
OLD, NEW = 4096, 8192  # sectors: what is there before; where is written
WIPED = 2048


def box_of(nvram: str, zeroes: str) -> tuple[Box, Model]:
    box = Box(
        nvram=nvram, data_mib=64, log_mib=8, nvram_bytes=4096 + SLOTS * SEGMENT,
        data_options={"zeroes": zeroes}, settings="destage_idle_ms=50,scrub_kib=0",
    )  # fmt: skip
    return box, Model(box.data.sectors)


@contextmanager
def fails(box: Box, late: float) -> Iterator[None]:
    """The data disk's discards and zeroings, after so many seconds each."""
    stop = threading.Event()

    def lets_go() -> None:
        while not stop.wait(0.005):
            if box.data.held():
                time.sleep(late)
                box.data.let_go()

    box.data.discards("fail")
    thread = threading.Thread(target=lets_go)
    if late:
        box.data.hold_discards()
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if late:
            thread.join()
        box.data.discards("good")
        box.data.let_go()


def writes(disk: blk.Disk, model: Model, n: int) -> None:
    """Each of them in time, and one more than NVRAM takes."""
    for i in range(n):
        at = NEW + 64 * (i % 64)
        took = blk.timed(partial(filled, disk, model, at, at + 64, f"new {i}"))
        base.expect(took < 5, f"write {i} took {took:.1f} s")
        time.sleep(0.2)


@contextmanager
def wiped(
    nvram: str, zeroes: str, late: float, wipe: Callable[[blk.Disk], None]
) -> Iterator[tuple[Box, blk.Disk, Model]]:
    """What was on the data disk is to be wiped, and that fails for as long as this lasts."""
    box, model = box_of(nvram, zeroes)
    with box.disk() as disk:
        filled(disk, model, 0, OLD, "old")
        box.destaged()
        with fails(box, late):
            wipe(disk)
            model.put(0, bytes(WIPED * blk.SECTOR))
            yield box, disk, model
        box.log.heal()
        model.check(disk, "in the end")
    box.away()


def leaves(nvram: str, zeroes: str, late: float, wipe: Callable[[blk.Disk], None]) -> None:
    base.step(f"a dead log is left, {nvram}")
    with wiped(nvram, zeroes, late, wipe) as (box, disk, model):
        box.leave_log()
        writes(disk, model, 2 * SLOTS)
        box.says("log LEFT", "the log to be left")


def dead(nvram: str, zeroes: str, late: float, wipe: Callable[[blk.Disk], None]) -> None:
    base.step(f"writes go on past a dead log, {nvram}")
    with wiped(nvram, zeroes, late, wipe) as (box, disk, model):
        box.log.fail_writes()
        writes(disk, model, 4 * SLOTS)


def discard() -> None:
    for late in (0.0, 0.4):
        leaves("dram:battery", "off", late, lambda disk: disk.discard(0, WIPED))
        dead("lab", "off", late, lambda disk: disk.discard(0, WIPED))


def zeroing() -> None:
    for late in (0.0, 2.0):
        leaves("lab", "on", late, lambda disk: disk.zero(0, WIPED))
        dead("lab", "on", late, lambda disk: disk.zero(0, WIPED))


@contextmanager
def zeroes_fail(late: float) -> Iterator[blk.Disk]:
    """The log is left, and two times WIPED are to be zeroed meanwhile."""
    base.step(f"the log is left, and the data disk's zeroing fails after {late} s")
    box, model = box_of("lab", "on")
    with box.disk() as disk:
        box.leave_log()
        box.says("log LEFT", "the log to be left")
        filled(disk, model, 0, OLD, "old")
        with fails(box, late):
            yield disk
        model.put(0, bytes(2 * WIPED * blk.SECTOR))
        model.check(disk, "zeroed")
    box.away()


def left() -> None:
    with zeroes_fail(0) as disk:
        disk.zero(0, WIPED + 8)
        disk.discard(WIPED + 8, WIPED - 8)


def left_late() -> None:
    with zeroes_fail(30) as disk:
        disk.zero(0, WIPED)
        took = blk.timed(partial(disk.zero, WIPED, WIPED))
        base.expect(took < 5, f"the next one took {took:.1f} s")


def well_again() -> None:
    base.step("a log hung for 30 s once, is well, and the data disk is away for 20 s then")
    box = Box(nvram="lab", data_mib=64, log_mib=32, nvram_bytes=4096 + 32 * SEGMENT,
              settings="scrub_kib=0,busy_after_ms=60000")  # fmt: skip
    with box.disk() as disk:
        box.log.refuse_late(30000)
        loaded(disk, 45)
        box.log.heal()
        loaded(disk, 60)
        box.data.fail()
        base.equal(loaded(disk, 20)[1], 0, "writes that failed")
        box.data.heal()
    box.away()


def stall() -> None:
    for nvram in ("dram:battery", "none"):
        base.step(f"the log's path breaks: 3 s of nothing, 5 ms of errors, {nvram}")
        stalled(nvram, 32, "log", 3000, 8)


def data_stall() -> None:
    """The ring is full, so each write waits for the data disk."""
    for nvram in ("dram:battery", "lab"):
        base.step(f"the data disk's path breaks: 4 s of nothing, 5 ms of errors, {nvram}")
        stalled(nvram, 3, "data", 4000, 100)


def stalled(nvram: str, log_mib: int, name: str, ms: int, sectors: int) -> None:
    box = Box(nvram=nvram, data_mib=64, log_mib=log_mib, nvram_bytes=4096 + 32 * SEGMENT,
              settings="scrub_kib=0,read_cache_bytes=0")  # fmt: skip
    with box.disk() as disk:
        loaded(disk, 6, sectors)
        beside = Beside(partial((box.log if name == "log" else box.data).stall, ms, 5))
        base.equal(loaded(disk, 12, sectors)[1], 0, "writes that failed")
        beside.result()
    box.away()


def loaded(disk: blk.Disk, seconds: float, sectors: int = 8) -> tuple[float, int]:
    """For how long writes of this size stood, of those that took over a second; how many failed."""
    stood = 0.0
    failed = n = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        try:
            disk.write(8 * (n % 4000), blk.pattern(f"{n}", sectors))
        except OSError:
            failed += 1
        took = time.monotonic() - began
        stood, n = stood + (took if took > 1 else 0), n + 1
        time.sleep(0.02)
    print(f"  {n} writes, {failed} failed, stood {stood:.0f} s", flush=True)
    return stood, failed


def log() -> None:
    base.step("the log is dead, and takes 30 s to say so")
    box = Box(nvram="lab", data_mib=64, log_mib=32, nvram_bytes=4096 + 32 * SEGMENT,
              settings="scrub_kib=0,busy_after_ms=60000")  # fmt: skip
    with box.disk() as disk:
        box.log.refuse_late(30000)
        stood, failed = loaded(disk, 400)
        base.equal(failed, 0, "writes that failed")
        base.expect(stood < 120, f"of 400 s writes stood for {stood:.0f}")
        box.log.heal()
    box.away()


def slow_death() -> None:
    base.step("all of the log takes no more writes, and takes 9 s to say so each time")
    box = Box(nvram="lab", data_mib=64, log_mib=32, nvram_bytes=4096 + 32 * SEGMENT,
              settings="scrub_kib=0,busy_after_ms=90000")  # fmt: skip
    with box.disk() as disk:
        disk.write(0, blk.pattern("before", 8))
        box.log.refuse_late(9000)
        stood, failed = loaded(disk, 75)
        base.equal(failed, 0, "writes that failed")
        base.expect(stood < 45, f"of 75 s writes stood for {stood:.0f}")
        box.log.heal()
    box.away()


def close() -> None:
    base.step("the data disk is dead, and takes 30 s to say so: a close")
    box = Box(nvram="none", data_mib=16, log_mib=4,
              settings="scrub_kib=0,busy_after_ms=3000,destage_idle_ms=200")  # fmt: skip
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        box.data.fail_late(30000)
        for at in (16, 9000, 23000):
            disk.write(at, blk.pattern("late", 8))
        time.sleep(33)
    took = blk.timed(box.close)
    base.expect(took < 62, f"the close took {took:.0f} s")
    base.until(box.data.unused, "what is late to come back", 100)
    box.data.heal()
    box.away()


def block() -> None:
    base.step("a block of the log is bad, and takes 7 s to say so")
    bad_blocks(1, 150, 8)


def scratch() -> None:
    base.step("six blocks of the log are, in a row")
    bad_blocks(6, 300, 64)


def bad_blocks(n: int, seconds: float, written: int) -> None:
    box = Box(nvram="dram:battery", data_mib=64, log_mib=16, nvram_bytes=4096 + 32 * SEGMENT,
              settings="scrub_kib=0,busy_after_ms=60000")  # fmt: skip
    place = RING_START // blk.SECTOR + 40 * SEGMENT // blk.SECTOR + 24
    with box.disk() as disk:
        # Longer than writes stand: SCSI would give the LUN up.
        base.put(Path("/sys/block", Path(disk.node).name, "device/timeout"), 600)
        box.log.refuse_late(7000, place, place + 8 * n - 1)
        base.equal(loaded(disk, seconds, written)[1], 0, "writes that failed")
        base.equal(box.count("moved_blocks"), n, "blocks that were moved")
        base.equal(loaded(disk, 150, written), (0, 0), "seconds that writes stood then, failed")
        box.log.heal()
    box.away()


def unread() -> None:
    for nvram in ("none", "dram:battery"):
        base.step(f"{nvram}: a block of the log can't be read, and takes 7 s to say so")
        box = Box(nvram=nvram, log_mib=4, nvram_bytes=4096 + SLOTS * SEGMENT,
                  settings="busy_after_ms=60000,scrub_kib=0,read_cache_bytes=0,"
                  "destage_idle_ms=3600000,destage_low=60,destage_high=95")  # fmt: skip
        place = RING_START // blk.SECTOR + 5 * SEGMENT // blk.SECTOR + 40
        model = Model(box.data.sectors)
        with box.disk() as disk:
            box.log.fail_reads_late(7000, (place, place + 7))
            for lap in range(6):
                for n in range(48):
                    filled(disk, model, 128 * (n + 48 * (lap % 2)), 128 * (n + 48 * (lap % 2)) + 96,
                           f"{lap} {n}", 96)  # fmt: skip
                    time.sleep(0.15)
                print(f"  lap {lap}: lost {box.count('lost_places')} moved "
                      f"{box.count('moved_blocks')}", flush=True)  # fmt: skip
            said = box.info()
            base.expect(box.count("lost_places") <= 1, f"lap after lap writes are lost: {said}")
            base.equal(box.count("moved_blocks"), 1, f"blocks that were moved: {said}")
            box.log.heal()
        box.away()


PARTS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (discard, zeroing, left, left_late, log, well_again, slow_death, stall, data_stall,
                close, block, scratch, unread)
}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
base.step("done")
