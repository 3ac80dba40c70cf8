# SPDX-License-Identifier: GPL-2.0-only
"""A data disk that takes seconds to say that it doesn't take a block, or doesn't return from a
write at all; everything else it does at once. The log doesn't fill, nobody waits, and what comes
late doesn't come over what was written since.

    dcd_late_write.py [PART...]
"""

import errno
import time
from pathlib import Path

from dcdlab import SEGMENT, SITE, Box, Model, filled
from loadlab import SIZE, Load, good_end, settled, small
from locklab import base, blk, dm, media

PARTS = ("errors", "tried", "overtaken", "closed", "cut", "dead_log", "dead_log_closed",
         "asked", "flushed")  # fmt: skip
SLOW_MS = 7000
BAD = 8
AT = 4096  # the write that is late
MINUTE = 60.0


def errors() -> None:
    base.step(f"{BAD} blocks are errors after {SLOW_MS} ms each, under load")
    box, model = small()
    with box.disk() as disk:
        apart = disk.sectors // (BAD + 1) // SIZE * SIZE
        places = [(n + 1) * apart for n in range(BAD)]
        box.data.fail_late(SLOW_MS, *((at, at + 7) for at in places))
        for at in places:
            filled(disk, model, at, at + 8, "over a bad block", 8)
        Load(disk, model, places).run(40, 0.01)
        base.expect(BAD <= box.count("stuck_ranges") <= BAD + 1, box.info())
        base.equal(box.count("stuck_sectors"), 8 * BAD, "sectors that are stuck")
        base.equal(box.count("write_errors") + box.count("busy"), 0, "writes that were refused")
        base.expect(box.count("logged_again") > 0, "what is stuck is logged again")
        for at in places:
            same = disk.read(at, 8) == bytes(model.bytes[at * blk.SECTOR : (at + 8) * blk.SECTOR])
            base.expect(same, f"sectors {at} on")
        box.data.heal()
        settled(box, model, disk)
        base.expect(box.count("bad_mended") > 0, box.info())
    good_end(box, model)


def tried() -> None:
    base.step("a bad block, which was an error at once, takes long when it is tried")
    box, model = small()
    with box.disk("destage_idle_ms=1") as disk:
        box.data.fail_part(AT, AT + 7)
        filled(disk, model, AT, AT + 8, "over a bad block", 8)
        base.until(lambda: box.count("stuck_ranges") == 1, "it to be known")
        box.data.fail_late(SLOW_MS, (AT, AT + 7))
        base.until(lambda: box.count("writes_late") == 1, "it to be tried")
        Load(disk, model, [AT]).run(60, 0.01)
        base.equal(box.count("writes_late"), 1, "tries, as it takes so long")
        base.equal(box.count("stuck_sectors"), 8, "sectors that are stuck")
        box.data.heal()
        settled(box, model, disk)
    good_end(box, model)


def late(box: Box, model: Model, disk: blk.Disk) -> None:
    """Its first half will be written over."""
    filled(disk, model, 0, 2 * AT, "old")
    box.destaged()
    box.data.hold_write(AT + SIZE - 1)
    filled(disk, model, AT, AT + SIZE, "late", SIZE)
    base.until(lambda: box.count("writes_late") == 1, "a write that is late")
    base.equal(box.data.held(), 1, "writes that the disk is at")
    filled(disk, model, AT, AT + SIZE // 2, "over it", SIZE // 2)


def overtaken() -> None:
    base.step("a write comes late by a minute, and isn't over what was written since")
    box, model = small()
    with box.disk("destage_idle_ms=1") as disk:
        late(box, model, disk)
        Load(disk, model, []).run(MINUTE, 0.02)
        base.expect(box.count("logged_again") > 0, "what is held is logged again")
        base.equal(box.data.held(), 1, "writes that the disk is at")
        box.data.let_go()
        settled(box, model, disk)
        base.equal(box.count("bad_places"), 0, "bad places")
    good_end(box, model)


def closed() -> None:
    base.step("a write doesn't return, and the LUN is closed")
    box, model = small()
    users = Path("/sys/module/dcd/refcnt")
    with box.disk("destage_idle_ms=1") as disk:
        late(box, model, disk)
        before = int(users.read_text())
    base.equal(int(users.read_text()), before + 1, "the module is in use by what is left")
    with base.refused("to open it again", errno.EBUSY, kernel="it is in use"):
        box.open()
    box.data.let_go()
    base.until(lambda: dm.opens(box.data.name) == 0, "the data disk in nobody's use")
    base.until(lambda: int(users.read_text()) == before, "the module")
    good_end(box, model)


def cut() -> None:
    base.step("a write doesn't return, and the power is cut")
    box, model = small()
    with box.disk("destage_idle_ms=1") as disk:
        late(box, model, disk)
        Load(disk, model, []).run(5, 0.02)
        media.cut(SITE, base.SEED)
    box.data.let_go()
    base.until(lambda: dm.opens(box.data.name) == 0, "the data disk in nobody's use")
    box.power_on()
    good_end(box, model)


def dead_log() -> None:
    base.step("a write doesn't return, and the log fails: nothing is written where it may come")
    box, model = small()
    with box.disk("destage_idle_ms=1", "busy_after_ms=500") as disk:
        late(box, model, disk)
        box.log.fail_writes()
        filled(disk, model, 2 * AT, 2 * AT + 10 * SIZE, "past the log", SIZE)
        box.says("log FAILING", "the log's end")
        time.sleep(MINUTE)
        box.data.let_go()
        filled(disk, model, 2 * AT, 2 * AT + 100 * SIZE, "past the log, too", SIZE)
        box.log.heal()
        box.says("log ok, data ok", "both disks to work")
        settled(box, model, disk)
    good_end(box, model)


def dead_log_closed() -> None:
    base.step("a write doesn't return, the log fails, and the LUN is closed")
    box, model = small()
    with box.disk("destage_idle_ms=1", "busy_after_ms=500") as disk:
        late(box, model, disk)
        box.log.fail_writes()
        filled(disk, model, 2 * AT, 2 * AT + 10 * SIZE, "past the log", SIZE)
        box.says("log FAILING", "the log's end")
    base.equal(box.data.held(), 1, "writes that the disk is at")
    box.data.let_go()
    base.until(lambda: dm.opens(box.data.name) == 0, "the data disk in nobody's use")
    box.log.heal()
    good_end(box, model)


def asked() -> None:
    base.step("a write is late where the disk is asked for what it has, as it fails elsewhere")
    box = Box(data_mib=8, log_mib=8, nvram="lab", nvram_bytes=4096 + 8 * SEGMENT)
    model = Model(box.data.sectors)
    bad = AT - box.data.sectors // 4  # it is asked for the blocks a quarter further, and so on
    with box.disk("destage_idle_ms=1", "busy_after_ms=500") as disk:
        filled(disk, model, 0, 2 * AT, "old")
        box.destaged()
        box.data.fails_and_dawdles((bad, bad + 7), (AT, AT + 7), 400)
        box.data.hold_write(AT)
        filled(disk, model, AT, AT + 8, "late", 8)
        base.until(lambda: box.count("writes_late") and box.data.held(), "a write that is late")
        filled(disk, model, bad, bad + 8, "over a bad block", 8)
        rounds = box.count("rounds")
        base.until(lambda: box.count("rounds") > rounds, "a round that comes to the bad block")
        time.sleep(0.1)  # whatever is written meanwhile to the late one's place takes 400 ms
        box.data.let_go()
        base.until(lambda: box.count("bad_places"), "the bad block to be known")
        box.data.heal()
        settled(box, model, disk)
    good_end(box, model)


def flushed() -> None:
    base.step("a write comes late, then a flush fails and the disk's cache is lost")
    box = Box(data_options={"flush": "lie"}, nvram="lab", nvram_bytes=4096 + 8 * SEGMENT)
    model = Model(box.data.sectors)
    beside, size = 2 * AT, 2 * SIZE
    with box.disk("destage_idle_ms=1") as disk:
        filled(disk, model, AT, AT + size, "old", size)
        box.destaged()
        box.data.fail_flush((beside, beside + 7), 200)
        box.data.hold_write(AT)
        filled(disk, model, AT, AT + size, "late", size)
        base.until(lambda: box.count("writes_late") == 1, "a write that is late")
        filled(disk, model, beside, beside + 8, "beside it", 8)
        rounds = box.count("rounds")
        while box.count("rounds") == rounds:
            time.sleep(0.01)
        time.sleep(0.1)  # it takes twice as long
        base.equal(box.count("data_errors"), 0, "errors of the data disk before it has come")
        box.data.let_go()
        base.until(lambda: box.count("data_errors") == 1, "the flush to fail")
        there = model.bytes[AT * blk.SECTOR : (AT + size) * blk.SECTOR]
        base.expect(box.data.bytes(AT, size) == there, "it has come")
        box.data.replug()
        base.equal(box.count("data_errors"), 1, "errors of the data disk while its cache is lost")
        base.expect(box.data.bytes(AT, size) != there, "some of it is lost")
        box.says("data ok", "destage to resume")
        box.destaged()
        model.check(disk, "after the second copy")
    box.away()


for part in base.words(1, PARTS) or PARTS:
    globals()[part]()
base.step("done")
