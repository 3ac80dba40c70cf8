# SPDX-License-Identifier: GPL-2.0-only
"""After a cut a segment of the log is damaged, and slots of the NVRAM have it yet, or what of it is
damaged; the log doesn't answer in time when the LUN is enabled.

  whole   a slot has all of it: the opening goes on with that
  some    a slot that was begun anew has what is damaged: nobody else has it, so the opening is
          refused, until the log has answered
  unread  likewise, as a block can't be read, which a write doesn't mend: that is moved, and the
          opening refused if the disk takes too long to say so

Arguments: parts (all of them if there are none).
"""

from __future__ import annotations

import errno
import time

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk, lio
from probelab import timed

SLOW_MS = 2500  # a write and a flush: longer than a write is waited for, and not much
MOST = 10.0
BATCH, PIECE = 64, 8  # sectors
BATCHES, PIECES = 9, 6


def box_of(slots: int) -> tuple[Box, Model]:
    box = Box(
        nvram="lab", data_mib=16, log_mib=8, nvram_bytes=4096 + slots * SEGMENT,
        settings="destage_idle_ms=3600000,scrub_kib=0",
    )  # fmt: skip
    return box, Model(box.data.sectors)


def damage(box: Box, model: Model, at: int) -> int:
    """The log's copy of that sector; where it was."""
    wanted = bytes(model.bytes[at * blk.SECTOR : (at + 1) * blk.SECTOR])
    where = box.log.bytes(0, box.log.sectors).find(wanted, RING_START) // blk.SECTOR
    base.expect(where > 0, "the log has that sector")
    with blk.Disk(box.log.node) as raw:
        raw.write(where, bytes(blk.SECTOR))
        raw.flush()
    return where


def whole() -> None:
    base.step("a slot has all of a segment that is damaged in a log that is slow")
    box, model = box_of(16)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 1024, "old")
        base.until(lambda: " 0 in use" in box.info(), "the log to have it")
    damage(box, model, 512)
    box.log.slow_writes(SLOW_MS)
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


def with_some() -> tuple[Box, Model, int]:
    """A slot has only a part of a segment of the log; and the first sector of what it has."""
    box, model = box_of(4)
    with box.disk_until_cut() as disk:
        for batch in range(BATCHES):
            first = batch * BATCH
            filled(disk, model, first, first + PIECES * PIECE, f"{batch}", PIECE)
            time.sleep(0.4)  # each in a segment of its own
        filled(disk, model, 2000, 2000 + PIECE, "new", PIECE)  # the oldest slot is begun anew
    return box, model, (BATCHES - 4) * BATCH + (PIECES - 1) * PIECE


def some() -> None:
    base.step("a slot has only what of a segment is damaged in a log that hangs")
    box, model, at = with_some()
    where = damage(box, model, at)
    ring, segment = RING_START // blk.SECTOR, SEGMENT // blk.SECTOR
    box.log.hold_write(where - (where - ring) % segment)
    try:
        box.open()
    except OSError as err:
        base.equal(err.errno, errno.ETIME, "the opening")
    else:
        raise base.Wrong("it is opened without what only a part of a slot has")
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
            try:
                box.open()
            except OSError as err:
                base.equal(err.errno, errno.ETIME, "the opening")
            else:
                raise base.Wrong("it isn't refused")
            base.until(box.log.unused, "the log to have answered", 60)
        for what in ("opened", "opened again"):
            opened(box, model, what)
            box.log.fail_reads_late(ms, bad)
        box.away()


def opened(box: Box, model: Model, what: str) -> None:
    """All is there, and stays so when the slots have been used for other writes."""
    with box.disk_until_cut() as disk:
        model.check(disk, what)
        filled(disk, model, 4096, 4096 + 16 * BATCH, what, BATCH)
        model.check(disk, f"{what}, and written")


PARTS = {part.__name__: part for part in (whole, some, unread)}

for name in base.words(1, list(PARTS)) or PARTS:
    PARTS[name]()
