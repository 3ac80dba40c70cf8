# SPDX-License-Identifier: GPL-2.0-only
"""WRITE SAME of zeroes over blocks of which the data disk says after seconds only that it doesn't
take them, or a zeroing that it doesn't return from at all; everything else it does at once. Nobody
waits, the log doesn't fill, and zeroes that come late aren't over what was written since.

    dcd_zeroing.py [PART...]
"""

import errno
import threading
import time
from functools import partial
from pathlib import Path

from dcdlab import SITE, Box, Model, filled
from loadlab import SIZE, Load, good_end, settled, small
from locklab import base, blk, dm, media
from probelab import SOON

PARTS = ("some", "row", "parts", "quick", "discards", "overtaken", "battery", "closed",
         "closed_bad", "cut", "cut_bad", "dead_log", "dead_log_closed")  # fmt: skip
SLOW_MS, QUICK_MS = 7000, 200
BAD = 8
AT = 8192
ZEROED = 32 << 11  # sectors
ROW = 1 << 11
MINUTE = 60.0
HOUR = 3600.0


def zeroed(disk: blk.Disk, model: Model, first: int, count: int) -> None:
    took = blk.timed(partial(disk.zero, first, count))
    base.expect(took < SOON, f"the zeroing itself took {took:.3f} s")
    model.put(first, bytes(count * blk.SECTOR))


def nobody_was_refused(box: Box) -> None:
    base.equal(box.count("write_errors") + box.count("busy"), 0, "writes that were refused")


def bad_at(first: int) -> list[tuple[int, int]]:
    """Some blocks all over what is zeroed from there on."""
    return [(at, at + 7) for at in range(first + 4096, first + ZEROED, ZEROED // BAD)]


def bad(
    box: Box, model: Model, disk: blk.Disk, parts: list[tuple[int, int]], ms: int = SLOW_MS
) -> None:
    filled(disk, model, 0, AT + ZEROED + AT, "old", 128)
    box.destaged()
    box.data.fail_late(ms, *parts)


def mended(box: Box, model: Model, disk: blk.Disk) -> None:
    box.data.heal()
    settled(box, model, disk, HOUR)


def some() -> None:
    base.step(f"{BAD} blocks of what is zeroed are errors after {SLOW_MS} ms each, under load")
    box, model = small()
    with box.disk() as disk:
        bad(box, model, disk, bad_at(AT))
        zeroed(disk, model, AT, ZEROED)
        load = Load(disk, model, [at for at, _ in bad_at(AT)])
        load.run(3 * MINUTE, 0.01)
        base.expect(box.count("zeroings_hung") > 0, "nothing was late")
        load.run(10 * MINUTE, 0.5)
        base.until(lambda: box.count("stuck_sectors") == 8 * BAD, "what is bad to be known", HOUR)
        nobody_was_refused(box)
        mended(box, model, disk)
        base.expect(box.count("bad_mended") > 0, box.info())
    good_end(box, model)


def row() -> None:
    base.step(f"{ROW} sectors are zeroed, and all of them are errors after {SLOW_MS} ms each")
    box, model = small()
    with box.disk() as disk:
        bad(box, model, disk, [(AT, AT + ROW - 1)])
        zeroed(disk, model, AT, ROW)
        load = Load(disk, model, list(range(AT, AT + ROW, SIZE)))
        load.run(3 * MINUTE, 0.01)
        base.expect(box.count("stuck_sectors") > 0, "nothing is known to be bad")
        nobody_was_refused(box)
        mended(box, model, disk)
    good_end(box, model)


def parts() -> None:
    base.step("zeroes that aren't whole granules, over bad blocks")
    box, model = small()
    places = [(at, at + 7) for at in range(AT, AT + BAD * 1024, 1024)]
    with box.disk() as disk:
        bad(box, model, disk, places)
        for at, _ in places:
            zeroed(disk, model, at - 24, 96)
        load = Load(disk, model, [at for at, _ in places])
        load.run(3 * MINUTE, 0.01)
        base.equal(box.count("stuck_sectors"), 8 * BAD, "sectors that are stuck")
        nobody_was_refused(box)
        mended(box, model, disk)
    good_end(box, model)


def quick() -> None:
    base.step(f"all of many zeroings are errors after {QUICK_MS} ms each, too soon to be late")
    box, model = small()
    places = [(at, at + 95) for at in range(AT, AT + BAD * 1024, 1024)]
    with box.disk() as disk:
        bad(box, model, disk, places, QUICK_MS)
        for at, _ in places:
            zeroed(disk, model, at, 96)
        load = Load(disk, model, [sector for at, _ in places for sector in range(at, at + 96, 32)])
        load.run(3 * MINUTE, 0.01)
        base.equal(box.count("stuck_sectors"), 96 * BAD, "sectors that are stuck")
        nobody_was_refused(box)
        mended(box, model, disk)
    good_end(box, model)


def discards() -> None:
    base.step("discards beside a zeroing of bad blocks, and over it")
    box, model = small()
    stop = threading.Event()
    times: list[float] = []

    def discard(disk: blk.Disk) -> None:
        while not stop.wait(0.7):
            times.append(blk.timed(partial(disk.discard, AT + 1024, ZEROED + 2 * AT)))

    with box.disk() as disk:
        bad(box, model, disk, bad_at(AT))
        zeroed(disk, model, AT, ZEROED)
        thread = threading.Thread(target=discard, args=(disk,))
        thread.start()
        longest, end = 0.0, time.monotonic() + MINUTE
        data = blk.pattern("before it", SIZE)
        try:
            while time.monotonic() < end:
                longest = max(longest, blk.timed(partial(disk.write, 0, data)))
                time.sleep(0.01)
        finally:
            stop.set()
            thread.join(HOUR)
        model.put(0, data)
        model.put(AT + 1024, bytes((ZEROED + 2 * AT) * blk.SECTOR))
        print(f"  {len(times)} discards, the longest took {max(times):.3f} s", flush=True)
        base.expect(max(times) < SOON, f"a discard took {max(times):.3f} s")
        base.expect(longest < SOON, f"a write took {longest:.3f} s")
        nobody_was_refused(box)
        mended(box, model, disk)
    good_end(box, model)


def hung(box: Box, model: Model, disk: blk.Disk) -> None:
    filled(disk, model, 0, 2 * AT, "old")
    box.destaged()
    box.data.hold_discards()  # and zeroes
    zeroed(disk, model, 0, ZEROED)
    base.until(lambda: box.count("zeroings_hung") == 1, "a zeroing that is late")
    base.expect(box.data.held() > 0, "the disk to be at it")
    filled(disk, model, 8, 8 + 10 * SIZE, "over it", SIZE)


def overtaken(nvram: str = "lab") -> None:
    base.step(f"zeroes come late by a minute, not over what was written since; NVRAM: {nvram}")
    box, model = small(nvram)
    with box.disk("destage_idle_ms=1") as disk:
        hung(box, model, disk)
        Load(disk, model, []).run(MINUTE, 0.02)
        base.expect(box.count("logged_again") > 0, "what is held is logged again")
        base.expect(box.data.held() > 0, "the disk is at it yet")
        box.data.let_go()
        settled(box, model, disk, HOUR)
        base.equal(box.count("bad_places"), 0, "bad places")
    good_end(box, model)


def battery() -> None:
    overtaken("dram:battery")


def close_in_time(what: object) -> None:
    assert callable(what)
    took = blk.timed(what)
    print(f"  the close took {took * 1000:.0f} ms", flush=True)
    base.expect(took < 3 * SOON, f"the close waits for the zeroing: {took:.1f} s")


def free(box: Box) -> None:
    base.until(lambda: dm.opens(box.data.name) == 0, "the data disk in nobody's use")


def closed() -> None:
    base.step("a zeroing doesn't return, and the LUN is closed")
    box, model = small()
    users = Path("/sys/module/dcd/refcnt")
    with box.disk_closed_by(close_in_time, "destage_idle_ms=1") as disk:
        hung(box, model, disk)
        before = int(users.read_text())
    base.equal(int(users.read_text()), before + 1, "the module is in use by what is left")
    with base.refused("to open it again", errno.EBUSY, kernel="it is in use"):
        box.open()
    box.data.let_go()
    free(box)
    base.until(lambda: int(users.read_text()) == before, "the module")
    good_end(box, model)


def closed_bad() -> None:
    base.step("the LUN is closed while the disk is at the first of many bad blocks")
    box, model = small()
    with box.disk_closed_by(close_in_time) as disk:
        bad(box, model, disk, [(AT, AT + ROW - 1)])
        zeroed(disk, model, AT, ROW)
        Load(disk, model, list(range(AT, AT + ROW, SIZE))).run(20, 0.01)
    took = blk.timed(partial(free, box))
    base.expect(took < 2 * SLOW_MS / 1000, f"the disk is at more than one: {took:.1f} s")
    box.data.heal()
    good_end(box, model)


def cut() -> None:
    base.step("a zeroing doesn't return, and the power is cut")
    box, model = small()
    with box.disk("destage_idle_ms=1") as disk:
        hung(box, model, disk)
        Load(disk, model, []).run(5, 0.02)
        media.cut(SITE, base.SEED)
    box.data.let_go()
    free(box)
    box.power_on()
    good_end(box, model)


def cut_bad() -> None:
    base.step("the power is cut while some of what is zeroed is on the disk, and bad blocks aren't")
    box, model = small()
    for session in range(4):
        spared = [at for at, _ in bad_at(AT)]
        with box.disk() as disk:
            bad(box, model, disk, bad_at(AT))
            zeroed(disk, model, AT, ZEROED)
            Load(disk, model, spared).run(3 + 13 * session, 0.02)
            media.cut(SITE, base.SEED + session)
        free(box)
        box.power_on()
        with box.disk() as disk:
            model.check(disk, f"after cut {session}")
    good_end(box, model)


def dead_log() -> None:
    base.step("a zeroing doesn't return, and the log fails: nothing is written where it may come")
    box, model = small()
    with box.disk("destage_idle_ms=1", "busy_after_ms=500") as disk:
        hung(box, model, disk)
        box.log.fail_writes()
        filled(disk, model, AT, AT + 10 * SIZE, "past the log", SIZE)
        box.says("log FAILING", "the log's end")
        time.sleep(MINUTE)
        box.data.let_go()
        filled(disk, model, AT, AT + 100 * SIZE, "past the log, too", SIZE)
        box.log.heal()
        box.says("log ok, data ok", "both disks to work")
        settled(box, model, disk)
    good_end(box, model)


def dead_log_closed() -> None:
    base.step("a zeroing doesn't return, the log fails, and the LUN is closed")
    box, model = small()
    with box.disk_closed_by(partial(timed_close, 20 * SOON), "destage_idle_ms=1",
                            "busy_after_ms=500") as disk:  # fmt: skip
        hung(box, model, disk)
        box.log.fail_writes()
        filled(disk, model, AT, AT + 10 * SIZE, "past the log", SIZE)
        box.says("log FAILING", "the log's end")
    base.expect(box.data.held() > 0, "the disk is at it yet")
    box.data.let_go()
    free(box)
    box.log.heal()
    good_end(box, model)


def timed_close(most: float, what: object) -> None:
    assert callable(what)
    took = blk.timed(what)
    base.expect(took < most, f"the close waits for the zeroing: {took:.1f} s")


for part in base.words(1, PARTS) or PARTS:
    globals()[part]()
base.step("done")
