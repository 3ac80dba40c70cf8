# SPDX-License-Identifier: GPL-2.0-only
"""A data disk whose discards don't return, or after a minute only; all else it does at once.

Writes go on, over the range of the discard, too, and that doesn't come over them when it is done
in the end. The LUN can be taken away and closed; the data disk stays in the DCD's use until then.

    dcd_hung_discard.py [PART...]
"""

import errno
import random
import threading
import time
from pathlib import Path

from dcdlab import SEGMENT, SITE, Box, Model, filled
from locklab import base, blk, dm, lio, media
from locklab.iscsi import Session
from locklab.wire import Wire
from probelab import SOON, timed

PARTS = ("minutes", "closed", "cut", "dead_log", "both")
DISCARDED = 32 << 11  # sectors
SIZE = 32  # of a write
MINUTE = 60.0


class Hung:
    """A DCD with 7 MiB of log, and a discard that the data disk has been at for a while."""

    def __init__(self) -> None:
        self.box = Box(data_mib=64, log_mib=8, nvram="lab", nvram_bytes=4096 + 8 * SEGMENT)
        self.model = Model(self.box.data.sectors)
        self._rng = random.Random(f"hung discard {base.SEED}")
        self._tag = 0

    def hang(self, disk: blk.Disk) -> None:
        self.box.data.hold_discards()
        disk.discard(0, DISCARDED)
        self.model.put(0, bytes(DISCARDED * blk.SECTOR))
        base.until(self.box.data.held, "a discard to hang")

    def write(self, disk: blk.Disk) -> float:
        """Anywhere, or where the discard begins: the ring's size in all is more than that has."""
        at = self._rng.randrange(self._rng.choice((512, DISCARDED, disk.sectors)) - SIZE)
        self._tag += 1
        data = blk.pattern(f"new {self._tag}", SIZE)
        took = blk.timed(lambda: disk.write(at, data))
        self.model.put(at, data)
        return took

    def writes(self, disk: blk.Disk, count: int, pause: float = 0.0) -> None:
        longest = 0.0
        for _ in range(count):
            longest = max(longest, self.write(disk))
            time.sleep(pause)
        print(f"  {count} writes, the longest took {longest * 1000:.1f} ms", flush=True)
        base.expect(longest < SOON, f"a write took {longest:.3f} s")

    def good_end(self) -> None:
        with self.box.disk() as disk:
            self.model.check(disk, "opened again")
            self.box.destaged()
            self.model.check(disk, "destaged")
        base.expect(self.box.data.bytes(0, self.box.data.sectors) == bytes(self.model.bytes),
                    "the data disk itself")  # fmt: skip
        self.box.away()

    def free(self) -> None:
        base.until(lambda: dm.opens(self.box.data.name) == 0, "the data disk in nobody's use")


def minutes() -> None:
    base.step("discards return after a minute each; the ring is written several times over")
    hung = Hung()
    box = hung.box
    with box.disk() as disk:
        filled(disk, hung.model, 0, 4096, "old")
        box.destaged()
        for turn in range(3):
            hung.hang(disk)
            until = time.monotonic() + MINUTE
            hung.writes(disk, 1500, 0.02)
            base.expect(turn or box.count("logged_again") > 0, "what is held is logged again")
            time.sleep(max(0.0, until - time.monotonic()))
            box.data.let_go()
        box.destaged()
        hung.model.check(disk, "in the end")
        base.equal(box.count("discards_hung"), 3, "discards that hung")
        base.expect(box.count("discarded_sectors") > 0, "discards are used again")
    hung.good_end()


def closed() -> None:
    base.step("a discard hangs: the session is lost, comes back, logs out; the LUN is closed")
    hung = Hung()
    box = hung.box
    store = box.open()
    wire, target, session = Wire("lan"), lio.Target(store), Session()
    with blk.Disk(session.login()) as disk:
        filled(disk, hung.model, 0, 4096, "old")
        box.destaged()
        hung.hang(disk)
        hung.writes(disk, 300)
        box.says("data FAILING", "info to say so")
    wire.cut()
    base.until(lambda: not session.up(), "the host to notice")
    wire.mend("lan")
    timed("the way back", lambda: base.until(session.up, "a session"), 10 * SOON)
    timed("the logout", session.close, SOON)
    timed("taking the target away", target.remove, SOON)
    users = Path("/sys/module/dcd/refcnt")
    before = int(users.read_text())
    closing = threading.Thread(target=box.close, daemon=True)
    closing.start()
    closing.join(3 * SOON)
    waits = closing.is_alive()
    if waits:
        box.data.let_go()
    base.expect(not waits, "the close waits for the discard")
    base.equal(int(users.read_text()), before + 1, "the module is in use by what is left")
    with base.refused("to open it again", errno.EBUSY, kernel="it is in use"):
        box.open()
    box.data.let_go()
    hung.free()
    base.until(lambda: int(users.read_text()) == before, "the module")
    wire.close()
    hung.good_end()


def cut() -> None:
    base.step("a discard hangs, and the power is cut")
    hung = Hung()
    box = hung.box
    with box.disk() as disk:
        filled(disk, hung.model, 0, 4096, "old")
        box.destaged()
        hung.hang(disk)
        hung.writes(disk, 1500)
        media.cut(SITE, base.SEED)
    box.data.let_go()
    hung.free()
    box.power_on()
    hung.good_end()


def dead_log() -> None:
    base.step("a discard hangs, and the log fails: nothing is written where it may come")
    hung = Hung()
    box = hung.box
    with box.disk("busy_after_ms=500") as disk:
        filled(disk, hung.model, 0, 4096, "old")
        box.destaged()
        hung.hang(disk)
        hung.writes(disk, 300)
        box.log.fail_writes()
        for _ in range(10):
            hung.write(disk)
        time.sleep(MINUTE)
        box.data.let_go()
        hung.writes(disk, 100)
        box.log.heal()
        box.says("log ok, data ok", "both disks to work")
        hung.writes(disk, 100)
        hung.model.check(disk, "in the end")
    hung.good_end()


def both() -> None:
    base.step("a discard hangs, and the log fails: the LUN is closed, NVRAM keeps what it has")
    hung = Hung()
    box = hung.box
    store = box.open()
    with lio.look(store) as node, blk.Disk(node) as disk:
        filled(disk, hung.model, 0, 4096, "old")
        box.destaged()
        hung.hang(disk)
        hung.writes(disk, 300)
        box.log.fail_writes()
        hung.write(disk)
        box.says("log FAILING", "the log to be dead")
        hung.write(disk)
    closing = threading.Thread(target=box.close, daemon=True)
    closing.start()
    closing.join(20 * SOON)
    waits = closing.is_alive()
    box.data.let_go()
    box.log.heal()
    closing.join()
    base.expect(not waits, "the close waits for the discard")
    hung.free()
    hung.good_end()


for part in base.words(1, PARTS) or PARTS:
    globals()[part]()
base.step("done")
