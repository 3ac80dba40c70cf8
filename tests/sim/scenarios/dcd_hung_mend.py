# SPDX-License-Identifier: GPL-2.0-only
"""After a cut a segment of the log is damaged, and slots of the NVRAM have it yet, or what of it is
damaged; the log doesn't answer in time when the LUN is enabled.

  whole   a slot has all of it: the opening goes on with that
  unwritten  likewise, and the log takes no writes
  many    likewise, of more segments than slots may be kept for, and the disk says so late: they
          are moved
  some    a slot that was begun anew has what is damaged: nobody else has it, so the opening is
          refused, until the log has answered
  unread  likewise, as a block can't be read, which a write doesn't mend: that is moved, and the
          opening refused if the disk takes too long to say so
  at_random  a slot has some of a segment that the log doesn't give, as it fails at random: the rest
          is there when it is well again
  rotted  likewise, and it gives all in the end, and of one sector other bytes: nothing is left out
  parts   of a bad block a slot has one write, and not the other one: that one alone is lost
  after   what was mended so is read back no longer than any other place, later

Arguments: parts (all of them if there are none).
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from faultlab import faults, mark
from locklab import base, blk, dm, lio
from probelab import timed

SLOW_MS = 2500  # a write and a flush: longer than a write is waited for, and not much
MOST = 10.0
BATCH, PIECE = 64, 8  # sectors
BATCHES, PIECES = 9, 6
SUPERS = 64  # sectors, that have the superblocks


def box_of(slots: int) -> tuple[Box, Model]:
    box = Box(
        nvram="lab", data_mib=16, log_mib=8, nvram_bytes=4096 + slots * SEGMENT,
        settings="destage_idle_ms=3600000,scrub_kib=0",
    )  # fmt: skip
    return box, Model(box.data.sectors)


def place(box: Box, model: Model, at: int) -> int:
    """Of that sector in the log."""
    wanted = bytes(model.bytes[at * blk.SECTOR : (at + 1) * blk.SECTOR])
    where = box.log.bytes(0, box.log.sectors).find(wanted, RING_START) // blk.SECTOR
    base.expect(where > 0, "the log has that sector")
    return where


def damage(box: Box, model: Model, at: int) -> int:
    """The log's copy of that sector; where it was."""
    where = place(box, model, at)
    with blk.Disk(box.log.node) as raw:
        raw.write(where, bytes(blk.SECTOR))
        raw.flush()
    return where


def whole() -> None:
    mended(lambda box: box.log.slow_writes(SLOW_MS), "is slow")


def unwritten() -> None:
    mended(lambda box: box.log.fail_writes(), "takes no writes")
    base.step("likewise, and the power is cut again, before and after slots are used anew")
    box, model = box_of(16)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 1024, "old")
        base.until(lambda: " 0 in use" in box.info(), "the log to have it")
    damage(box, model, 512)
    for first, last in ((0, 0), (2048, 2112), (2048, 6144), (0, 0)):
        box.log.fail_writes()
        with box.disk_until_cut() as disk:
            model.check(disk, "opened")
            if last:
                filled(disk, model, first, last, f"new {last}", PIECE)
            model.check(disk, f"written {first} to {last}")
    box.away()


def mended(fault: Callable[[Box], None], what: str) -> None:
    base.step(f"a slot has all of a segment that is damaged in a log that {what}")
    box, model = box_of(16)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 1024, "old")
        base.until(lambda: " 0 in use" in box.info(), "the log to have it")
    damage(box, model, 512)
    fault(box)
    store = list[lio.Backstore]()
    timed("to enable it", lambda: store.append(box.open()), MOST)
    with lio.look(store[0]) as node, blk.Disk(node) as disk:
        filled(disk, model, 2048, 4096, "new")
        model.check(disk, "opened")
        box.log.heal()
        box.says("log ok,", "the log to be used again", 60)
        filled(disk, model, 4096, 8192, "newer")
        model.check(disk, "in the end")
    box.close()
    base.until(box.log.unused, "the log to have answered", 60)
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def many() -> None:
    base.step("blocks that can't be read, which takes 300 ms, in more segments than slots are kept")
    box, model = box_of(8)
    with box.disk_until_cut() as disk:
        for batch in range(12):
            filled(disk, model, batch * BATCH, (batch + 1) * BATCH, f"{batch}", PIECE)
            time.sleep(0.4)
    starts = sorted(place(box, model, batch * BATCH) for batch in range(5, 12))
    bad = [(at, at + PIECE - 1) for at in starts]
    for what in ("opened", "opened again"):
        box.log.fail_reads_late(300, *bad)
        opened(box, model, what)
    box.away()


def batches(disk: blk.Disk, model: Model) -> None:
    """Each in a segment of its own."""
    for batch in range(BATCHES):
        first = batch * BATCH
        filled(disk, model, first, first + PIECES * PIECE, f"{batch}", PIECE)
        time.sleep(0.4)


def with_some(slots: int = 4) -> tuple[Box, Model, int]:
    """A slot has only a part of a segment of the log; and the first sector of what it has."""
    box, model = box_of(slots)
    with box.disk_until_cut() as disk:
        batches(disk, model)
        filled(disk, model, 2000, 2000 + PIECE, "new", PIECE)  # the oldest slot is begun anew
    return box, model, (BATCHES - slots) * BATCH + (PIECES - 1) * PIECE


def some() -> None:
    base.step("a slot has only what of a segment is damaged in a log that hangs")
    box, model, at = with_some()
    where = damage(box, model, at)
    ring, segment = RING_START // blk.SECTOR, SEGMENT // blk.SECTOR
    box.log.hold_write(where - (where - ring) % segment)
    with base.refused("an opening without what only a part of a slot has", errno.ETIME):
        box.open()
    box.log.let_go()
    base.until(box.log.unused, "the log to have answered", 60)
    with box.disk() as disk:
        model.check(disk, "opened")
    box.away()


def unread() -> None:
    for ms in (300, 700, 3000):
        base.step(f"likewise in a log that can't read it, which takes {ms} ms to fail")
        box, model, at = with_some()
        where = damage(box, model, at)
        bad = where, where + PIECE - 1
        box.log.fail_reads_late(ms, bad)
        if ms > 1000:
            with base.refused("an opening that isn't told in time", errno.ETIME):
                box.open()
            base.until(box.log.unused, "the log to have answered", 60)
        for what in ("opened", "opened again"):
            opened(box, model, what)
            box.log.fail_reads_late(ms, bad)
        box.away()


def at_random() -> None:
    base.step("a slot has all but the first write of a segment, and the log's reads fail at random")
    box, model = box_of(4)
    with box.disk_until_cut() as disk:
        batches(disk, model)
        filled(disk, model, 2000, 2000 + PIECE, "new", PIECE)
    first = (BATCHES - 4) * BATCH
    begin = place(box, model, first)
    end = place(box, model, first + (PIECES - 1) * PIECE) + PIECE
    part = dm.create("part", f"0 {end - begin} flakey {box.log.medium} {begin} 0 1 1 error_reads")
    supers = dm.create("supers", f"0 {SUPERS} linear {box.log.medium} 0")
    mark(supers, True)
    dm.load(box.log.name, "\n".join((
        f"0 {SUPERS} linear {supers} 0",
        f"{SUPERS} {begin - SUPERS} linear {box.log.medium} {SUPERS}",
        f"{begin} {end - begin} linear {part} 0",
        f"{end} {box.log.sectors - end} linear {box.log.medium} {end}",
    )))  # fmt: skip
    dm.suspend(box.log.name)
    dm.resume(box.log.name)
    log = base.KernelLog()
    faults(50)
    base.until(lambda: refused(box) and any("fails at random" in line for line in log.new()),
               "such a refusal")  # fmt: skip
    faults(0)
    box.log.heal()
    base.until(box.log.unused, "the log to be closed", 60)
    for name in ("part", "supers"):
        dm.remove(name)
    with box.disk() as disk:
        model.check(disk, "opened")
    box.away()


def rotted() -> None:
    base.step("a sector has rotted in a log whose reads fail at random")
    for turn in range(8):
        box, model = box_of(4)
        with box.disk_until_cut() as disk:
            batches(disk, model)
        first = (BATCHES - 6) * BATCH
        damage(box, model, first + 3 * PIECE)
        reads = dm.create("reads", f"0 {box.log.sectors} linear {box.log.medium} 0")
        mark(reads, True)
        box.log.read_by(reads)
        faults(30 + 5 * (turn % 4))
        try:
            box.open()
        except OSError:
            box.store = None
        faults(0)
        box.log.heal()
        if not box.store:
            base.until(box.log.unused, "the log to be closed", 60)
            box.open()
        assert box.store
        with lio.look(box.store) as node, blk.Disk(node) as disk:
            for piece in range(PIECES):
                at = first + piece * PIECE
                try:
                    got = disk.read(at, PIECE)
                except OSError:
                    base.equal(piece, 3, "a write that is lost")
                else:
                    want = model.bytes[at * blk.SECTOR : (at + PIECE) * blk.SECTOR]
                    base.expect(got == want, f"write {piece} is left out")
        box.close()
        base.until(box.log.unused, "the log to be closed", 60)
        dm.remove("reads")
        box.away()


def parts() -> None:
    for how in ("unread", "both"):
        base.step(f"a slot has one of two writes that are bad in the log ({how})")
        box, model = box_of(4)
        with box.disk_until_cut() as disk:
            batches(disk, model)
            filled(disk, model, 2000, 2000 + PIECE, "new", PIECE)
        first = (BATCHES - 4) * BATCH
        bad = place(box, model, first), place(box, model, first + PIECE) + PIECE - 1
        if how == "both":
            box.log.fail_part(*bad)
        else:
            box.log.unreadable(bad)
        store = box.open()
        with lio.look(store) as node, blk.Disk(node) as disk:
            try:
                disk.read(first, PIECE)
            except OSError:
                filled(disk, model, first, first + PIECE, "anew", PIECE)
            else:
                raise base.Wrong("what nobody has can be read")
            model.check(disk, "all others")
        box.close()
        box.away()


def refused(box: Box) -> bool:
    try:
        box.open()
    except OSError:
        box.store = None
        return True
    raise base.Wrong("it is opened without what the log may give another time")


def after() -> None:
    base.step("a place that was mended so, and whose reads are slow later")
    box, model, at = with_some(8)
    where = damage(box, model, at)
    with box.disk() as disk:
        model.check(disk, "opened")
        longest(disk, 300)  # nothing that counts is there any more
        box.log.slow_reads_of(where, where + PIECE - 1, 3500)
        took = longest(disk, 600)
        print(f"  the longest write took {took:.2f} s", flush=True)
        base.expect(took < 1, f"a write took {took:.2f} s")
        box.log.heal()
    box.away()


def longest(disk: blk.Disk, writes: int) -> float:
    took = 0.0
    for turn in range(writes):
        began = time.monotonic()
        disk.write(4096 + turn % 64 * BATCH, blk.pattern(f"{turn}", BATCH))
        took = max(took, time.monotonic() - began)
    return took


def opened(box: Box, model: Model, what: str) -> None:
    """All is there, and stays so when the slots have been used for other writes."""
    with box.disk_until_cut() as disk:
        model.check(disk, what)
        filled(disk, model, 4096, 4096 + 16 * BATCH, what, BATCH)
        model.check(disk, f"{what}, and written")


PARTS = {part.__name__: part for part in (
    whole, unwritten, many, some, unread, at_random, rotted, parts, after,
)}  # fmt: skip

for name in base.words(1, list(PARTS)) or PARTS:
    PARTS[name]()
