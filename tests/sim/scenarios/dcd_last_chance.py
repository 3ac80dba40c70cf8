# SPDX-License-Identifier: GPL-2.0-only
"""A LUN whose NVRAM is ordinary memory is closed just when its log dies: the close is the last
chance of what was acknowledged. All of it that the data disk takes within some seconds is there
when the LUN is opened again.

    dcd_last_chance.py [PART...]

late: the data disk hasn't answered yet what is overwritten. both: both disks are away for a moment.
flap: the log works for a moment amid the round that goes past it, and is away again, over and over.
bad: one bad place of the data disk, among many good ones. There the data disk itself is looked at:
the log isn't behind it as long as the bad place isn't mended, so the next opening brings older data
from the log, which the kernel's log says at the close.
untold: all is on the data disk, and only the log can't be told: that isn't waited for.
"""

import threading
import time

from dcdlab import SEGMENT, Box, Model, filled
from locklab import base, blk, lio
from poisonlab import HELD

LATE_MS, LATE_BLOCKS = 2600, 16  # longer than a log may be away until it is dead
AWAY_S = 2.5
FLAP_SLOTS, FLAP_MS = 32, 400  # a write takes so long: the round half a minute
UP_AFTER_S, UP_MS = 3, 200
BAD_BLOCKS, BAD = 200, 10
UNTOLD_S = 2.0


def box_of(slots: int = 16, mib: int = 8) -> tuple[Box, Model]:
    box = Box(nvram="dram:battery", nvram_bytes=4096 + slots * SEGMENT, log_mib=mib, data_mib=64,
              settings=f"{HELD},scrub_kib=0,busy_after_ms=0")  # fmt: skip
    return box, Model(box.data.sectors)


def closed(box: Box) -> None:
    print(f"  the close took {blk.timed(box.close):.1f} s", flush=True)


def opened_again(box: Box, model: Model) -> None:
    box.data.heal()
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def written(disk: blk.Disk, model: Model, places: range, tag: str) -> None:
    for at in places:
        filled(disk, model, at, at + 8, tag, 8)


def late() -> None:
    base.step(f"late: the data disk takes {LATE_MS} ms for a write, and the log is dead")
    box, model = box_of()
    places = range(0, 128 * LATE_BLOCKS, 128)
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        written(disk, model, places, "old")
        box.says(" 0 in use", "all in the log")
        box.data.slow(LATE_MS)
        box.set("destage_idle_ms=1")
        time.sleep(0.2)
        box.log.fail_writes()
        written(disk, model, places, "new")
    closed(box)
    time.sleep(LATE_MS / 1000)
    opened_again(box, model)


def both() -> None:
    base.step(f"both: the two disks are away for {AWAY_S} s, as their controller is reset")
    box, model = box_of(8)

    def back() -> None:
        box.log.heal()
        box.data.heal()

    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        filled(disk, model, 0, 2000, "old", 64)
        box.set("destage_idle_ms=1")
        box.destaged()
        box.data.fail()
        box.log.fail()
        healer = threading.Timer(AWAY_S, back)
        healer.start()
        filled(disk, model, 0, 400, "new", 64)
    closed(box)
    healer.join()
    opened_again(box, model)


class Flapper(threading.Thread):
    """The log works again a while later, and is away as soon as that has been found; and again."""

    def __init__(self, box: Box) -> None:
        super().__init__()
        self._box, self._kernel = box, base.KernelLog()
        self.stopped = False

    def run(self) -> None:
        back = time.monotonic() + UP_AFTER_S
        while not self.stopped:
            if time.monotonic() > back:
                self._box.log.slow(UP_MS)
                back += 3600
            if any("works again" in line for line in self._kernel.new()):
                print("  it works, and is away again", flush=True)
                self._box.log.fail_writes()
                back = time.monotonic() + UP_AFTER_S
            time.sleep(0.002)


def flap() -> None:
    base.step("flap: the log works for a moment amid the close's round, which takes long")
    box, model = box_of(FLAP_SLOTS, 16)
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        written(disk, model, range(0, 64 * 1200, 64), "in the log")
        box.data.slow(FLAP_MS)
        time.sleep(0.05)
        box.log.fail_writes()
        for n in range(FLAP_SLOTS - 6):
            at = 32768 + 3072 * n
            filled(disk, model, at, at + 112, "in NVRAM", 112)
        box.says("log FAILING", "the log to be dead")
    flapper = Flapper(box)
    flapper.start()
    try:
        closed(box)
    finally:
        flapper.stopped = True
        flapper.join()
    opened_again(box, model)


def bad() -> None:
    base.step("bad: one sector of the data disk is bad, amid what it is written together with")
    box, model = box_of()
    places = range(0, 8 * BAD_BLOCKS, 8)
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        written(disk, model, places, "old")
        box.says(" 0 in use", "all in the log")
        box.data.refuse_write(places[BAD] + 3)
        box.log.fail_writes()
        written(disk, model, places, "new")
    closed(box)
    lacks = [
        at for at in places
        if box.data.bytes(at, 8) != model.bytes[at * blk.SECTOR : (at + 8) * blk.SECTOR]
    ]  # fmt: skip
    print(f"  the data disk lacks {len(lacks)} of {BAD_BLOCKS} blocks", flush=True)
    base.expect(lacks in ([], [places[BAD]]), f"the data disk lacks {len(lacks)} blocks")
    box.log.heal()
    box.away()


def untold() -> None:
    base.step("untold: the log is dead, and all is on the data disk before the close")
    box, model = box_of()
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        written(disk, model, range(0, 1600, 8), "old")
        box.set("destage_idle_ms=1")
        box.destaged()
        box.log.fail_writes()
        written(disk, model, range(0, 1600, 8), "new")
        box.says("log FAILING", "the log to be dead")
        time.sleep(10)
    took = blk.timed(box.close)
    print(f"  the close took {took:.1f} s", flush=True)
    lacks = box.data.bytes(0, 1600) != bytes(model.bytes[: 1600 * blk.SECTOR])
    base.expect(not lacks, "the data disk lacks something")
    base.expect(took < UNTOLD_S, f"the close took {took:.1f} s")
    opened_again(box, model)


PARTS = {"late": late, "both": both, "flap": flap, "bad": bad, "untold": untold}
for part in base.words(1, PARTS) or PARTS:
    PARTS[part]()
base.step("done")
