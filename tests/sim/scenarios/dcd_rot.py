# SPDX-License-Identifier: GPL-2.0-only
"""Bits of the log flip while the DCD is open: nobody gets them, and the data disk doesn't either.

What is only there is a medium error until it is written over; all else goes its way.
"""

import errno
import sys
import time
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk

TRACING = Path("/sys/kernel/tracing")
# All of it stays in the log, and not in the four slots.
HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99,read_cache_bytes=0"
SIZE, END = 16, 1600
BAD = 32  # the entry that is damaged


def flip(box: Box, sector: int) -> None:
    """A bit on the log's medium."""
    with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
        raw = bytearray(medium.read(sector, 1))
        raw[77] ^= 4
        medium.write(sector, bytes(raw))


def place(box: Box, data: bytes) -> int:
    """The sector of the log that has these 512 bytes."""
    at = box.log.bytes(0, box.log.sectors).find(data)
    base.expect(at > 0 and at % blk.SECTOR == 0, "the log doesn't have them")
    return at // blk.SECTOR


def rot(box: Box, model: Model, sector: int) -> None:
    """The log's copy of one sector of the data disk."""
    flip(box, place(box, bytes(model.bytes[sector * blk.SECTOR : (sector + 1) * blk.SECTOR])))


def right(disk: blk.Disk, model: Model, first: int, end: int) -> None:
    want = bytes(model.bytes[first * blk.SECTOR : end * blk.SECTOR])
    base.expect(disk.read(first, end - first) == want, f"sectors {first} to {end} are others")


def refused(disk: blk.Disk, first: int, end: int, what: str) -> None:
    with base.refused(f"a read of {what}", errno.ENODATA):
        disk.read(first, end - first)


def all_but(box: Box, model: Model, bad: int, size: int = SIZE) -> None:
    """Everything but that entry gets to the data disk; nothing of that."""
    rest = model.bytes[(bad + size) * blk.SECTOR : END * blk.SECTOR]
    base.until(lambda: box.data.bytes(bad + size, END - bad - size) == rest, "the rest's destaging")
    base.expect(box.data.bytes(0, bad) == model.bytes[: bad * blk.SECTOR], "what is before it")
    base.expect(not any(box.data.bytes(bad, size)), "the data disk got damaged bytes")
    base.expect(box.count("live") > 0, "the log has given up what is nowhere else")
    base.expect("log DAMAGED" in box.info(), box.info())


def mended(box: Box, disk: blk.Disk, model: Model) -> None:
    filled(disk, model, BAD, BAD + SIZE, "written over", SIZE)
    box.set("destage_idle_ms=1")
    box.destaged()
    base.expect("log ok" in box.info(), box.info())
    model.check(disk, "written over")


def reads() -> None:
    base.step("a read of what is damaged")
    box = Box(settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, END, "in the log", SIZE)
        right(disk, model, 0, 100)
        rot(box, model, BAD + 8)
        refused(disk, BAD, BAD + SIZE, "what is damaged")
        base.expect(box.count("bad_sums") > 0, box.info())
        right(disk, model, 0, BAD)
        right(disk, model, BAD + SIZE, END)
        refused(disk, 0, 256, "that and others")
        all_but(box, model, BAD)
        refused(disk, BAD, BAD + 1, "what is damaged, later")
        mended(box, disk, model)
    box.away()


def destage() -> None:
    base.step("what is damaged is destaged")
    box = Box(settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, END, "in the log", SIZE)
        rot(box, model, BAD)
        box.set("destage_idle_ms=1")
        all_but(box, model, BAD)
        refused(disk, BAD, BAD + SIZE, "what is damaged")
        mended(box, disk, model)
    box.away()


def part() -> None:
    base.step("what is left of an entry that was partly written over")
    box = Box(settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, END, "in the log", SIZE)
        filled(disk, model, 100, 300, "over parts of some", 7)
        filled(disk, model, 1000, END, "so that it isn't in a slot", SIZE)
        right(disk, model, 0, END)
        filled(disk, model, BAD + 4, BAD + 8, "over a part of it", 4)
        rot(box, model, BAD + 12)
        refused(disk, BAD, BAD + 4, "the part before")
        right(disk, model, BAD + 4, BAD + 8)
        refused(disk, BAD + 8, BAD + SIZE, "the part behind")
        mended(box, disk, model)
    box.away()


def cable() -> None:
    base.step("the log's medium is good, what is read from it isn't for a while")
    box = Box(settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, END, "in the log", SIZE)
        box.log.fail("5 corrupt_bio_byte 32 r 1 0")
        refused(disk, BAD, BAD + SIZE, "what the cable has spoiled")
        box.set("destage_idle_ms=1")
        time.sleep(20)
        base.expect(not any(box.data.bytes(BAD, SIZE)), "the data disk got damaged bytes")
        box.log.heal()
        box.destaged()
        model.check(disk, "with another cable")
        base.expect("log ok" in box.info(), box.info())
    box.away()


def lost() -> None:
    base.step("of writes to the log nothing got there but the headers: the last turn's entries")
    box = Box(settings=HELD, log_mib=6)  # else it is given up, as the ring fills: dcd_lost.py
    model = Model(box.data.sectors)
    ring = (RING_START // blk.SECTOR, box.log.sectors - RING_START // blk.SECTOR)
    with box.disk() as disk:
        for turn in range(2):
            filled(disk, model, 0, END, f"turn {turn}", SIZE)
            box.set("destage_idle_ms=1")
            box.destaged()
            box.set("destage_idle_ms=3600000")
        before = box.log.bytes(*ring)
        filled(disk, model, 0, END, "the newest", SIZE)
        filled(disk, model, END, END + 600, "so that it isn't in a slot", SIZE)
        now = box.log.bytes(*ring)
        mixed = b"".join(
            now[at : at + 4096] + before[at + 4096 : at + SEGMENT]
            for at in range(0, len(now), SEGMENT)
        )
        with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
            medium.write(ring[0], mixed)
        errors = 0
        for first in range(0, END, SIZE):
            try:
                right(disk, model, first, first + SIZE)
            except OSError as err:
                base.expect(err.errno == errno.ENODATA, str(err))
                errors += 1
        base.expect(errors > 0, "nothing was damaged")
        with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
            medium.write(ring[0], now)
        box.destaged()
        model.check(disk, "when it had them again")
    box.away()


def seen(event: str, text: str) -> None:
    base.expect(f" dcd_{event}: " in (trace := (TRACING / "trace").read_text()) and text in trace,
                f"no event dcd_{event} with {text!r}")  # fmt: skip


def found(box: Box) -> None:
    began = time.monotonic()
    base.until(lambda: box.count("scrub_bad") > 0, "the scrub to find it", 300)
    print(f"  found after {time.monotonic() - began:.0f} s", flush=True)


def scrub() -> None:
    base.step("a table that nobody needs before the next recovery")
    box = Box(settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, END, "in the log", SIZE)
        flip(box, (RING_START + 3 * SEGMENT + 4096) // blk.SECTOR)
        found(box)
        box.destaged()
        base.expect("log ok" in box.info() and box.count("bad_sums") == 0, box.info())
        seen("scrub", "segment 3 kind 6 error 0")
        model.check(disk, "all of it was right")
    with box.disk() as disk:
        model.check(disk, "opened again")
    base.step("data that nobody reads")
    with box.disk() as disk:
        filled(disk, model, 0, END, "in the log again", SIZE)
        before = box.data.bytes(BAD, SIZE)
        rot(box, model, BAD)
        found(box)
        base.until(lambda: box.count("bad_sums") > 0, "the destager to see it")
        refused(disk, BAD, BAD + SIZE, "what is damaged")
        seen("bad_sum", f" {BAD} + {SIZE} in segment ")
        base.expect(box.data.bytes(BAD, SIZE) == before, "the data disk got damaged bytes")
        mended(box, disk, model)
    base.step("its pace")
    with box.disk("scrub_kib=64") as disk:
        filled(disk, model, 0, END, "in the log once more", SIZE)
        time.sleep(62)
        first = box.count("scrubbed")
        time.sleep(5)
        base.expect(4 <= box.count("scrubbed") - first <= 6, "segments of 64 KiB in 5 s")
        base.expect(box.count("scrub_bad") == 0, box.info())
    base.step("none")
    with box.disk("scrub_kib=0") as disk:
        model.check(disk, "and it goes on")
        time.sleep(300)
        base.expect(box.count("scrubbed") == 0, box.info())
    box.away()


base.put(TRACING / "events/dcd/enable", "1")
PARTS = {
    "reads": reads, "destage": destage, "part": part, "cable": cable, "lost": lost, "scrub": scrub,
}  # fmt: skip
for name in sys.argv[1:] or PARTS:
    PARTS[name]()
