# SPDX-License-Identifier: GPL-2.0-only
"""The log has been left, and the data disk doesn't answer writes: each is answered with BUSY in
time, or ended at once when it is reset; nothing else waits for them, nothing goes to those sectors
before they have returned, and so what comes late is never over what was written since.

    dcd_left_hangs.py [PART...]
"""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from dcdlab import Box, Model, filled
from locklab import base, blk, dm, scsi
from poisonlab import box_of
from probelab import SOON, timed

PATIENCE_S = 2
HUNG = 4096  # from here on, in the parts where many are
MANY = 100  # more than may be given up
ZEROED = 64
FAR = 2 * HUNG  # where other zeroings are
HOURS_MS = 3_600_000


class Begun(threading.Thread):
    """Something that is sent to the LUN, and maybe sent again by the host."""

    def __init__(self, node: str, work: Callable[[blk.Disk], object]) -> None:
        super().__init__(daemon=True)
        self._node, self._work = node, work
        self.error: OSError | None = None
        self.start()

    def run(self) -> None:
        try:
            with blk.Disk(self._node) as disk:
                self._work(disk)
        except OSError as err:
            self.error = err

    def ends(self, what: str, seconds: float = SOON) -> None:
        self.join(seconds)
        base.expect(not self.is_alive(), f"{what} still waits")


def write_once(node: str, data: bytes) -> None:
    """At HUNG; after 7 s the host aborts it, and doesn't try it again."""
    cdb = struct.pack(">BBIBHB", 0x2A, 0, HUNG, 0, len(data) // blk.SECTOR, 0)
    with scsi.Lun(node) as lun:
        lun.command(cdb, data, timeout_ms=7000)


def zero_once(node: str, timeout_ms: int) -> bool:
    """ZEROED sectors at HUNG. True: it was acknowledged."""
    cdb = struct.pack(">BBQIBB", 0x93, 0, HUNG, ZEROED, 0, 0)
    with scsi.Lun(node) as lun:
        return lun.command(cdb, bytes(blk.SECTOR), timeout_ms=timeout_ms).good


def write_at(at: int) -> Callable[[blk.Disk], object]:
    return lambda own: own.write(at, blk.pattern(f"at {at}", 8))


def read_at(at: int, got: list[bytes], own: blk.Disk) -> None:
    got.append(own.read(at, 8))


def zero_at(at: int) -> Callable[[blk.Disk], object]:
    return lambda own: own.zero(at, ZEROED)


def begin(disk: blk.Disk, at: int, data: bytes) -> Begun:
    return Begun(disk.node, lambda own: own.write(at, data))


def opened() -> tuple[Box, Model]:
    box = box_of(f"busy_after_ms={PATIENCE_S * 1000}")
    return box, Model(box.data.sectors)


def leave_log(box: Box, disk: blk.Disk, model: Model) -> None:
    filled(disk, model, 0, 2 * HUNG, "old")
    box.leave_log()
    box.says("log LEFT", "the log to be left")


@contextlib.contextmanager
def left(text: str, *more: str) -> Iterator[tuple[Box, Model, blk.Disk]]:
    """A LUN whose log has been left: in the end it and its data disk have what the model has."""
    base.step(text)
    box, model = opened()
    with box.disk(*more) as disk:
        leave_log(box, disk, model)
        yield box, model, disk
        model.check(disk, "in the end")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk alone")
    box.away()


def works(disk: blk.Disk, model: Model) -> None:
    """Elsewhere."""
    timed("a write", lambda: filled(disk, model, 8, 16, f"{time.monotonic()}", 8), SOON)
    timed("a flush", disk.flush, SOON)
    timed("a read", lambda: disk.read(8, 8), SOON)


def given_up(box: Box, count: int = 1) -> None:
    try:
        base.until(lambda: box.count("through_given_up") >= count, f"{count} to be given up",
                   PATIENCE_S + 2)  # fmt: skip
    except base.Wrong:
        box.data.let_go()  # or this script couldn't end
        raise


def overtaken() -> None:
    with left(
        "a write isn't answered, and is sent again; then another one comes for a part of it",
    ) as (box, model, disk):
        box.data.hold_write(HUNG + 12)
        late = blk.pattern("late", 16)
        first = begin(disk, HUNG, late)
        given_up(box)
        base.expect(box.count("busy") > 0, box.info())
        works(disk, model)
        data = blk.pattern("over it", 8)
        second = begin(disk, HUNG + 8, data)
        time.sleep(3 * PATIENCE_S)
        base.equal(box.count("through_given_up"), 1, "how many were given up")
        works(disk, model)
        base.expect(first.is_alive() and second.is_alive(), "nothing goes there yet")
        box.data.let_go()
        first.ends("the write")
        second.ends("the one over it")
        base.expect(not first.error and not second.error, f"{first.error}, {second.error}")
        # The host had both under way at the same time: either may be the newer one.
        got = disk.read(HUNG, 16)
        base.expect(got in (late, late[: 8 * blk.SECTOR] + data), "what is there is neither")
        model.put(HUNG, got)
        filled(disk, model, HUNG, HUNG + 16, "the newest", 16)
        time.sleep(PATIENCE_S)


def reset() -> None:
    with left(
        "LOGICAL UNIT RESET ends it; what is written there then stays, whatever comes late",
        "busy_after_ms=0",
    ) as (box, model, disk):
        box.data.hold_write(HUNG)
        first = begin(disk, HUNG, blk.pattern("late", 16))
        base.until(lambda: box.data.held() == 1, "the disk to have it")
        with scsi.Lun(disk.node) as lun:
            timed("the reset", lun.reset, SOON)
        # The host tries it again.
        works(disk, model)
        newest = begin(disk, HUNG, blk.pattern("newest", 8))
        time.sleep(1)
        base.expect(newest.is_alive(), "nothing goes there yet")
        box.data.let_go()
        for one in (first, newest):
            one.ends("a write")
        filled(disk, model, HUNG, HUNG + 16, "the newest", 16)


def beside() -> None:
    with left(
        "a write is at the data disk, another one comes for the same: it is over the first one",
        "busy_after_ms=0",
    ) as (box, model, disk):
        box.data.hold_write(HUNG)
        first = threading.Thread(target=write_once, args=(disk.node, blk.pattern("late", 8)))
        first.start()
        base.until(lambda: box.data.held() == 1, "the disk to have it")
        second = begin(disk, HUNG, newest := blk.pattern("newest", 8))
        first.join(20)
        base.expect(not first.is_alive(), "the host has aborted the first one")
        box.data.let_go()
        second.ends("the second one")
        base.expect(not second.error, f"the second one: {second.error}")
        time.sleep(1)
        model.put(HUNG, newest)


def gets_its_turn(work: Callable[[blk.Disk], object], zeroers: int) -> None:
    """Beside four that each write to their part, all the time, and some that zero elsewhere."""
    over = threading.Event()

    def beside(late: float, other: Callable[[blk.Disk], object]) -> Begun:
        def goes_on(own: blk.Disk) -> None:
            time.sleep(late)
            while not over.is_set():
                other(own)

        return Begun(disk.node, goes_on)

    with left(
        f"zeroes or a write of what others write to all the time, beside {zeroers} other zeroings"
    ) as (box, model, disk):
        box.data.slow_parts(((HUNG, HUNG + 31), 10), ((FAR, box.data.sectors - 1), 20))
        others = [beside(n / 400, write_at(HUNG + 8 * n)) for n in range(4)]
        others += [beside(n / 300, zero_at(FAR + ZEROED * n)) for n in range(zeroers)]
        time.sleep(1)
        one = Begun(disk.node, work)
        one.join(20)
        waits = one.is_alive()
        over.set()
        for other in (*others, one):
            other.ends("one of them")
        base.expect(not waits, "it waits while the others go on")
        box.data.heal()
        filled(disk, model, HUNG, HUNG + 32, "newest")
        filled(disk, model, FAR, FAR + ZEROED * zeroers, "newest")


def passed() -> None:
    gets_its_turn(lambda own: own.write(HUNG, blk.pattern("all", 32)), 0)
    gets_its_turn(lambda own: own.zero(HUNG, 32), 8)


def read() -> None:
    late = blk.pattern("late", 16)
    for what, send, data in (
        ("a write", lambda node: write_once(node, late), late),
        ("zeroes", lambda node: zero_once(node, 7000), bytes(ZEROED * blk.SECTOR)),
    ):
        with left(
            f"{what}: it isn't answered, and is aborted; what is there is read when it has come",
        ) as (box, model, disk):
            box.data.hold_write(HUNG)
            send(disk.node)
            base.equal(box.count("through_given_up"), 1, "how many were given up")
            works(disk, model)
            got: list[bytes] = []
            reader = Begun(disk.node, partial(read_at, HUNG + 8, got))
            reader.join(3 * PATIENCE_S)
            base.expect(reader.is_alive(), "something else is read before it has come")
            base.expect(box.count("reads_parked") > 0, box.info())
            box.data.let_go()
            reader.ends("the read")
            base.expect(not reader.error, f"the read: {reader.error}")
            base.expect(got == [data[8 * blk.SECTOR : 16 * blk.SECTOR]], "other bytes are read")
            model.put(HUNG, data)


def crossed() -> None:
    with left(
        "zeroes and a write of a part are sent and given up by all; zeroes that come then stay",
        "busy_after_ms=0",
    ) as (box, model, disk):
        box.data.fails_and_dawdles((0, 7), (HUNG, box.data.sectors - 1), 20000)
        both = [
            threading.Thread(target=zero_once, args=(disk.node, 7000)),
            threading.Thread(target=write_once, args=(disk.node, blk.pattern("late", 8))),
        ]
        for one in both:
            one.start()
            time.sleep(2 * PATIENCE_S)
        for one in both:
            one.join()
        base.expect(zero_once(disk.node, 60000), "zeroes are acknowledged")
        box.data.heal()
        time.sleep(20)
        model.put(HUNG, bytes(ZEROED * blk.SECTOR))


def zeroes() -> None:
    with left(
        "zeroes that take the data disk longer than anybody waits for are done once",
    ) as (box, model, disk):
        box.data.hold_write(HUNG)
        one = Begun(disk.node, lambda own: own.zero(HUNG, 2048))
        given_up(box)
        time.sleep(2 * PATIENCE_S)
        works(disk, model)
        done = box.count("through")
        box.data.let_go()
        one.ends("the zeroing")
        base.expect(not one.error, f"the zeroing: {one.error}")
        base.equal(box.count("through"), done, "what has gone to the data disk since")
        model.put(HUNG, bytes(2048 * blk.SECTOR))


def many() -> None:
    with left(
        f"{MANY} writes aren't answered: reads are, and all are done in the end",
    ) as (box, model, disk):
        box.data.fails_and_dawdles((0, 7), (HUNG, box.data.sectors - 1), HOURS_MS)
        begun = []
        for n in range(MANY):
            at, data = HUNG + 8 * n, blk.pattern(f"many {n}", 8)
            begun.append(begin(disk, at, data))
            model.put(at, data)
        given_up(box, 64)
        time.sleep(3 * PATIENCE_S)
        timed("a read", lambda: disk.read(8, 8), SOON)
        box.data.heal()
        for one in begun:
            one.ends("a write", 4 * PATIENCE_S)
            base.expect(not one.error, f"a write: {one.error}")


def closed() -> None:
    base.step("the LUN is closed meanwhile: its data disk stays in use until it has answered")
    box, model = opened()
    users = Path("/sys/module/dcd/refcnt")
    with box.disk() as disk:
        leave_log(box, disk, model)
        before = int(users.read_text())
        box.data.hold_write(HUNG)
        late = blk.pattern("late", 16)
        thread = threading.Thread(target=write_once, args=(disk.node, late))
        thread.start()
        given_up(box)
        thread.join(20)
        base.expect(not thread.is_alive(), "the write has ended")
    base.equal(int(users.read_text()), before + 1, "the module is in use by what is left")
    base.equal(dm.opens(box.data.name), 1, "the data disk is in use")
    box.data.let_go()
    base.until(lambda: dm.opens(box.data.name) == 0, "the data disk in nobody's use")
    base.until(lambda: int(users.read_text()) == before, "the module")
    model.put(HUNG, late)
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk alone")
    box.away()


PARTS = {
    "overtaken": overtaken, "reset": reset, "beside": beside, "passed": passed,
    "read": read, "crossed": crossed, "zeroes": zeroes, "many": many, "closed": closed,
}  # fmt: skip
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
