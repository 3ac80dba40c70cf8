# SPDX-License-Identifier: GPL-2.0-only
"""The log disk doesn't answer writes, for minutes or for ever, as a disk does whose driver tries on
and on. With an NVRAM that keeps its content nobody waits for it: the DCD goes
past it, and what the log was at may get there at any time later.

  passed  it hangs for a minute beside writers; then it is used again
  cut     the power is cut while it hangs
  opened  it hangs when the LUN is enabled after a cut
  opened_slow  likewise, and it answers each write after a second
  late    one write of it hangs, and comes when all else is on the data disk
  closed  the LUN is disabled meanwhile: the disks stay in use until the log has answered
  slow    it answers each write after a second: the LUN is disabled
  left    it is left meanwhile, for good
  left_whole  likewise, and it doesn't give anything either
  grown   the superblock alone hangs
  taken_back  without such an NVRAM the word that it was left isn't written late
  forgets without such an NVRAM it can't be left before it has answered, and nothing is lost

Arguments: parts (all of them if there are none).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk, lio
from probelab import Probe, timed
from statelab import Beside

SLOTS = 16
SLOW_MS, MINUTE_MS, HOUR_MS = 1000, 60_000, 3_600_000
MOST = 10.0  # seconds: a mirror gives a leg up then
WRITERS = 4
SECOND = 4096 // blk.SECTOR  # copy of the superblock
AREA = 1024  # sectors of each writer
SIZE = 64


def box_of(nvram: str = "lab") -> tuple[Box, Model]:
    box = Box(
        nvram=nvram, data_mib=16, log_mib=8, nvram_bytes=4096 + SLOTS * SEGMENT,
        settings="destage_idle_ms=100,scrub_kib=0",
    )  # fmt: skip
    return box, Model(box.data.sectors)


class Writers:
    """Each writes its own area over and over, more than NVRAM has room for."""

    def __init__(self, node: str, model: Model) -> None:
        self._node, self._model, self._stop = node, model, threading.Event()
        self.longest, self.errors = 0.0, list[str]()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _run(self, n: int) -> None:
        with blk.Disk(self._node) as disk:
            turn = 0
            while not self._stop.is_set():
                at = AREA * (1 + n) + turn * SIZE % AREA
                began = time.monotonic()
                try:
                    filled(disk, self._model, at, at + SIZE, f"{n} {turn}", SIZE)
                except OSError as err:
                    self.errors.append(str(err))
                    return
                with self._lock:
                    self.longest = max(self.longest, time.monotonic() - began)
                turn += 1
                time.sleep(0.01)

    def end(self, most: float = MOST) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * MOST)
        base.expect(not any(t.is_alive() for t in self._threads), "a write still waits")
        print(f"  the longest write took {self.longest:.1f} s", flush=True)
        base.expect(not self.errors, f"writes fail: {self.errors[:1]}")
        base.expect(self.longest < most, f"a write took {self.longest:.1f} s")


@contextlib.contextmanager
def hangs(box: Box, disk: blk.Disk, model: Model, ms: int) -> Iterator[Writers]:
    """Writes of the log, below writers."""
    filled(disk, model, 0, AREA, "old")
    writers = Writers(disk.node, model)
    time.sleep(1)
    box.log.slow_writes(ms)
    yield writers


def well_again(box: Box) -> None:
    box.log.heal()
    box.says("log ok,", "the log to be used again", 30)


def passed() -> None:
    base.step("a log that hangs for a minute is gone past, and is used again")
    box, model = box_of()
    with box.disk() as disk:
        probe = Probe(disk.node)
        probe.start()
        with hangs(box, disk, model, MINUTE_MS) as writers:
            time.sleep(45)
            timed("a flush", disk.flush, MOST)
            timed("info", box.info, 1)
            well_again(box)
            time.sleep(2)
        writers.end()
        probe.end()
        base.expect(box.count("busy") == 0, "no write gets BUSY")
        model.check(disk, "in the end")
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def cut() -> None:
    base.step("the power is cut while the log hangs, and while it is gone past")
    for after in (2, 12):
        box, model = box_of()
        with box.disk_until_cut() as disk:
            with hangs(box, disk, model, HOUR_MS) as writers:
                time.sleep(after)
            writers.end()
            box.log.heal()
        with box.disk() as disk:
            model.check(disk, "after the cut")
        box.away()


def opened() -> None:
    base.step("it hangs when the LUN is enabled after a cut")
    box, model = box_of()
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, AREA, "old")
    box.log.slow_writes(HOUR_MS)
    store = list[lio.Backstore]()
    timed("to enable it", lambda: store.append(box.open()), MOST)
    with lio.look(store[0]) as node, blk.Disk(node) as disk:
        timed("writes", lambda: filled(disk, model, AREA, 4 * AREA, "new"), MOST)
        model.check(disk, "opened")
        well_again(box)
        filled(disk, model, 0, AREA, "newer")
    box.close()
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def opened_slow() -> None:
    base.step("it is slow when the LUN is enabled after a cut")
    box, model = box_of()
    with box.disk_until_cut() as disk:
        with hangs(box, disk, model, SLOW_MS) as writers:
            time.sleep(4)  # NVRAM is full
        writers.end()
    box.log.slow_writes(SLOW_MS)
    store = list[lio.Backstore]()
    timed("to enable it", lambda: store.append(box.open()), MOST)
    with lio.look(store[0]) as node, blk.Disk(node) as disk:
        model.check(disk, "opened")
        well_again(box)
    box.close()
    box.away()


def late() -> None:
    base.step("a write of the log that comes when all else has been destaged")
    box, model = box_of()
    with box.disk() as disk:
        for lap in range(3):
            filled(disk, model, 0, AREA, f"old {lap}")
            box.log.hold_write(RING_START // blk.SECTOR)
            while not box.log.held():
                filled(disk, model, AREA, 2 * AREA, f"lap {lap}")
            box.says("log FAILING", "the log to be gone past", 30)
            filled(disk, model, 0, AREA, f"new {lap}")
            time.sleep(12)
            base.expect(box.log.held() == 1, "nothing else waits at the log")
            box.log.let_go()
            box.says("log ok,", "the log to be used again", 30)
        box.destaged()
        model.check(disk, "in the end")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk alone")
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def closes(after: int) -> None:
    box, model = box_of()
    took = list[float]()
    with box.disk_closed_by(lambda close: took.append(blk.timed(close))) as disk:
        with hangs(box, disk, model, HOUR_MS) as writers:
            time.sleep(after)
        writers.end()
    print(f"  the close took {took[0]:.1f} s", flush=True)
    base.expect(took[0] < MOST, f"the close took {took[0]:.1f} s")
    base.expect(not box.log.unused(), "the log stays in use")
    box.log.heal()
    base.until(box.log.unused, "the log to have answered", 30)
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def closed() -> None:
    base.step("a close doesn't wait for a log that hangs")
    for after in (1, 12):
        closes(after)


def slow() -> None:
    base.step("a close doesn't wait for all that a slow log hasn't got yet")
    box, model = box_of()
    took = list[float]()
    with box.disk_closed_by(lambda close: took.append(blk.timed(close))) as disk:
        with hangs(box, disk, model, SLOW_MS) as writers:
            time.sleep(8)
        writers.end(2 * MOST)
    print(f"  the close took {took[0]:.1f} s", flush=True)
    base.expect(took[0] < MOST, f"the close took {took[0]:.1f} s")
    box.log.heal()
    base.until(box.log.unused, "the log to have answered", 30)
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def left() -> None:
    base.step("a log whose writes hang is left")
    box, model = box_of()
    took = list[float]()
    with box.disk_closed_by(lambda close: took.append(blk.timed(close))) as disk:
        probe = Probe(disk.node)
        probe.start()
        with hangs(box, disk, model, HOUR_MS) as writers:
            box.says("log FAILING", "the log to be gone past", 30)
            timed("leave_log", lambda: box.set("leave_log=1"), MOST)
            timed("to be left", lambda: box.says("log LEFT", "the log to be left", 60), MOST)
            time.sleep(1)
        writers.end()
        probe.end()
        base.expect(box.count("busy") == 0, "no write gets BUSY")
        model.check(disk, "left")
    ends(box, model, took[0])


def left_whole() -> None:
    base.step("a log that hangs, and has nothing, is left")
    box, model = box_of()
    took = list[float]()
    with box.disk_closed_by(lambda close: took.append(blk.timed(close))) as disk:
        filled(disk, model, 0, AREA, "old")
        box.destaged()
        box.log.slow(HOUR_MS)
        timed("a write", lambda: filled(disk, model, AREA, 2 * AREA, "new", 512), 1)
        timed("leave_log", lambda: box.set("leave_log=1"), MOST)
        timed("to be left", lambda: box.says("log LEFT", "the log to be left", 60), MOST)
        timed("a write", lambda: filled(disk, model, 0, AREA, "newer", 512), 1)
        timed("a flush", disk.flush, 1)
        model.check(disk, "left")
    ends(box, model, took[0])


def ends(box: Box, model: Model, took: float) -> None:
    """It was left, and closed."""
    print(f"  the close took {took:.1f} s", flush=True)
    base.expect(took < MOST, f"the close took {took:.1f} s")
    box.log.heal()
    base.until(box.log.unused, "the log to have answered", 30)
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk alone")
    box.away()


def grown() -> None:
    base.step("a superblock that isn't written holds nobody")
    box, model = box_of()
    with box.disk() as disk:
        filled(disk, model, 0, AREA, "old")
        for copy in range(2):
            box.log.hold_write(copy * 4096 // blk.SECTOR)
            writers = Writers(disk.node, model)
            base.until(box.log.held, "a superblock to be written", 60)
            time.sleep(30)
            box.log.let_go()
            box.says("log ok,", "the log to be used again", 30)
            writers.end()
        base.expect(box.count("busy") == 0, "no write gets BUSY")
        model.check(disk, "in the end")
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def isnt_left(nvram: str) -> None:
    box, model = box_of(nvram)
    with box.disk() as disk:
        filled(disk, model, 0, AREA, "old")
        box.log.slow(HOUR_MS)
        time.sleep(1)
        timed("leave_log", lambda: box.set("leave_log=1"), MOST)
        base.until(lambda: "LEAVING" not in box.info(), "it to be refused", 30)
        base.expect("log LEFT" not in box.info(), "it isn't left")
        box.log.heal()
        box.says("log ok,", "the log to be used again", 30)
        filled(disk, model, 0, AREA, "new")
        model.check(disk, "in the end")
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def forgets() -> None:
    base.step("without an NVRAM that keeps its content a log that hangs can't be left")
    for nvram in ("dram:battery", "none"):
        isnt_left(nvram)


def taken_back() -> None:
    base.step("that it was left is told the log late, and the admin takes it back")
    box, model = box_of("dram:battery")
    store = box.open("destage_idle_ms=3600000", "read_cache_bytes=0")
    with lio.look(store) as node, blk.Disk(node) as disk:
        filled(disk, model, 0, AREA, "old")
        disk.flush()
        time.sleep(1)
        place = (RING_START + 2 * SEGMENT) // blk.SECTOR
        box.log.hold_write(SECOND)
        box.log.unreadable((0, 2 * SECOND - 1), (place, place + 511))
        box.set("leave_log=1")
        time.sleep(60)
        box.set("leave_log=0")
        time.sleep(1)
        is_left = "log LE" in box.info()
    closing = Beside(box.close)
    time.sleep(2)
    box.log.let_go()
    box.log.heal()
    base.until(lambda: closing.done, "the close", 60)
    closing.result()
    base.until(box.log.unused, "the log to have answered", 30)
    print(f"  it is {'left' if is_left else 'not left'}", flush=True)
    if not is_left:
        with box.disk() as disk:
            model.check(disk, "opened again")
    box.away()


PARTS = {part.__name__: part for part in (
    passed, cut, opened, opened_slow, late, closed, slow, left, left_whole, grown, forgets,
    taken_back,
)}  # fmt: skip

for name in base.words(1, list(PARTS)) or PARTS:
    PARTS[name]()
