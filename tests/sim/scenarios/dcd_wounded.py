# SPDX-License-Identifier: GPL-2.0-only
"""What rots in the log when the data disk has it already, and no superblock says so yet, as a crash
came between: nothing is lost by that. What the data disk hasn't, or can't be shown to have, is.

Args: the parts, of which without any all are run.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99,read_cache_bytes=0"
PER = SEGMENT // blk.SECTOR
AT, SIZE = 320, 16  # the write that is damaged
FAR = 4096  # whatever else is written is from here on


def box_of(nvram: str = "lab", settings: str = HELD) -> Box:
    return Box(
        data_mib=16, log_mib=5, nvram=nvram, nvram_bytes=4096 + 4 * SEGMENT, settings=settings
    )


def bytes_of(model: Model, first: int, end: int) -> bytes:
    return bytes(model.bytes[first * blk.SECTOR : end * blk.SECTOR])


def destaged(box: Box, first: int, data: bytes) -> None:
    """As the destager had done it before the crash."""
    with blk.Disk(box.data.node) as disk:
        disk.write(first, data)
        disk.flush()


def place(box: Box, data: bytes) -> int:
    """The sector of the log that has this one."""
    ring = RING_START // blk.SECTOR
    at = box.log.bytes(ring, box.log.sectors - ring).find(data[: blk.SECTOR])
    base.expect(at >= 0 and at % blk.SECTOR == 0, "the log doesn't have it")
    return ring + at // blk.SECTOR


def flip(box: Box, data: bytes) -> None:
    at = place(box, data)
    with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
        raw = bytearray(medium.read(at, 1))
        raw[77] ^= 0x14
        medium.write(at, bytes(raw))


def gone(disk: blk.Disk, first: int, end: int, what: str) -> None:
    for sector in range(first, end):
        with base.refused(f"{what}: a read of sector {sector}", errno.ENODATA):
            disk.read(sector, 1)


def has(disk: blk.Disk, model: Model, first: int, end: int, what: str) -> None:
    base.expect(
        disk.read(first, end - first) == bytes_of(model, first, end), f"{what}: {first} to {end}"
    )


def written(box: Box, model: Model) -> tuple[bytes, bytes]:
    """The older and the newer version, both live in the log and in no slot."""
    with box.disk() as disk:
        filled(disk, model, AT - SIZE, AT + 2 * SIZE, "older", SIZE)
        older = bytes_of(model, AT, AT + SIZE)
        filled(disk, model, AT, AT + SIZE, "newer", SIZE)
        if box.nvram == "lab":
            filled(disk, model, FAR, FAR + 8 * PER, "so that they are in no slot", SIZE)
    return older, bytes_of(model, AT, AT + SIZE)


def whole(nvram: str) -> None:
    base.step(f"{nvram}: the data disk has all of it")
    box = box_of(nvram)
    model = Model(box.data.sectors)
    _, newer = written(box, model)
    destaged(box, AT, newer)
    flip(box, newer[5 * blk.SECTOR :])
    code, told = box.tool("check")
    base.equal((code, told["state"], told["lost"]), (0, "live", []), f"{told}")
    with box.disk() as disk:
        model.check(disk, "opened")
        base.equal((box.count("lost_sectors"), box.count("wounds_closed")), (0, 1), box.info())
    with box.disk() as disk:
        model.check(disk, "once more")
        base.equal(box.count("wounds_closed"), 0, box.info())
        box.set("destage_idle_ms=1")
        box.destaged()
        base.expect("log ok" in box.info(), box.info())
        model.check(disk, "destaged")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk has others")
    box.away()


def unreadable() -> None:
    base.step("the log can't be read there, not even when it was written again")
    box = box_of()
    model = Model(box.data.sectors)
    _, newer = written(box, model)
    destaged(box, AT, newer)
    at = place(box, newer) // 8 * 8
    box.log.unreadable((at, at + 7))
    code, told = box.tool("check")
    base.equal((code, told["state"], told["lost"]), (0, "live", []), f"{told}")
    code, told = box.tool("recover")
    base.equal((code, told["reason"]), (1, "log_unwritable"), f"{told}")
    base.expect(box.data.bytes(AT, SIZE) == newer, "what the data disk alone had")
    for turn in ("opened", "once more"):
        with box.disk() as disk:
            model.check(disk, turn)
            base.equal(box.count("lost_sectors"), 0, box.info())
    with box.disk() as disk:
        box.set("destage_idle_ms=1")
        box.destaged()
        model.check(disk, "destaged")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk has others")
    box.away()


def older() -> None:
    base.step("the data disk has the older version, or can't be read there: it is lost")
    box = box_of()
    model = Model(box.data.sectors)
    old, newer = written(box, model)
    destaged(box, AT, old)
    flip(box, newer)
    code, told = box.tool("check")
    base.equal((code, told["state"]), (4, "lost"), f"{told}")
    with box.disk() as disk:
        gone(disk, AT, AT + SIZE, "older")
        has(disk, model, AT - SIZE, AT, "before it")
    destaged(box, AT, newer)
    box.data.fail_part(AT, AT + 7)
    with box.disk() as disk:
        gone(disk, AT, AT + SIZE, "unreadable")
    box.data.heal()
    with box.disk() as disk:
        model.check(disk, "when it can be read again")
    box.away()


def part() -> None:
    for what, over, bad, lost in (
        ("both are there, what is left of the first is damaged", True, 1, False),
        ("only the first is there, and damaged where it is written over", False, 9, False),
        ("both are there, damaged where it is written over: nobody can know", True, 9, True),
    ):
        base.step(f"a part of it was written over: {what}")
        box = box_of()
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, AT, AT + SIZE, "older", SIZE)
            filled(disk, model, AT, AT + SIZE, "newer", SIZE)
            newer = bytes_of(model, AT, AT + SIZE)
            filled(disk, model, AT + 8, AT + 12, "over it", 4)
            filled(disk, model, FAR, FAR + 8 * PER, "so that they are in no slot", SIZE)
        destaged(box, AT, bytes_of(model, AT, AT + SIZE) if over else newer)
        flip(box, newer[bad * blk.SECTOR :])
        code, told = box.tool("check")
        base.equal((code, told["state"]), (4, "lost") if lost else (0, "live"), f"{told}")
        with box.disk() as disk:
            if lost:
                gone(disk, AT, AT + 8, what)
                gone(disk, AT + 12, AT + SIZE, what)
                has(disk, model, AT + 8, AT + 12, what)
                has(disk, model, FAR, FAR + PER, what)
            else:
                model.check(disk, what)
        box.away()


def both() -> None:
    base.step("one write over the other, in one segment, both damaged: the data disk has the first")
    box = box_of()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, AT, AT + SIZE, "first", SIZE)
        first = bytes_of(model, AT, AT + SIZE)
        filled(disk, model, AT + 4, AT + 8, "second", 4)
        second = bytes_of(model, AT + 4, AT + 8)
        filled(disk, model, FAR, FAR + 8 * PER, "so that they are in no slot", SIZE)
    destaged(box, AT, first)
    flip(box, first)
    flip(box, second)
    code, told = box.tool("check")
    got = [(item["sector"], item["sectors"]) for item in told["lost"]]
    base.equal((code, told["state"], got), (4, "lost", [(AT + 4, 4)]), f"{told}")
    for turn in ("opened", "once more"):
        with box.disk() as disk:
            has(disk, model, AT, AT + 4, turn)
            gone(disk, AT + 4, AT + 8, turn)
            has(disk, model, AT + 8, AT + SIZE, turn)
            base.equal(box.count("lost_sectors"), 4, box.info())
    box.away()


def again() -> None:
    base.step("it is written over in part and destaged, then the power is cut: it is right yet")
    box = box_of(settings="read_cache_bytes=0")
    model = Model(box.data.sectors)
    box.settings = HELD
    _, newer = written(box, model)
    destaged(box, AT, newer)
    flip(box, newer[9 * blk.SECTOR :])
    with box.disk_until_cut() as disk:
        filled(disk, model, AT + 8, AT + 12, "over it", 4)
    # As far as the destager came, and the superblock didn't.
    destaged(box, AT, bytes_of(model, AT, AT + SIZE))
    with box.disk() as disk:
        model.check(disk, "after the cut")
        base.equal(box.count("lost_sectors"), 0, box.info())
    box.away()


def recover() -> None:
    for verb in ("recover", "retire"):
        base.step(f"dcd {verb}: the older version, which is in the log too, doesn't get over it")
        box = box_of()
        model = Model(box.data.sectors)
        _, newer = written(box, model)
        destaged(box, AT, newer)
        flip(box, newer)
        code, told = box.tool(verb)
        base.equal((code, told["state"]), (0, f"{verb}ed".replace("ee", "e")), f"{told}")
        base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk's content")
        box.away()


def read_only() -> None:
    base.step("the log takes no write: the tool saves all of it, and the module starts")
    box = box_of()
    model = Model(box.data.sectors)
    _, newer = written(box, model)
    destaged(box, AT, newer)
    flip(box, newer)
    box.log.fail_writes()
    code, told = box.tool("recover")
    base.equal((code, told["reason"]), (1, "log_unwritable"), f"{told}")
    base.expect(box.data.bytes(AT, SIZE) == newer, "what the data disk alone had")
    with box.disk() as disk:
        base.expect("log FAILING" in box.info(), box.info())
        model.check(disk, "opened")
        base.equal((box.count("lost_sectors"), box.count("wounds_closed")), (0, 1), box.info())
        box.set("destage_idle_ms=1")
        filled(disk, model, AT + 3, AT + 5, "over a part of it", 2)
        model.check(disk, "written over")
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, "opened with a good log")
    box.away()


def salvage() -> None:
    base.step("dcd recover --salvage: the older version doesn't get over it, nor by a second time")
    box = box_of()
    model = Model(box.data.sectors)
    _, newer = written(box, model)
    destaged(box, AT, newer)
    flip(box, newer)
    box.log.fail_writes()
    for turn in range(2):
        code, told = box.tool("recover", "--salvage")
        base.equal((code, told["state"], told["lost"]), (0, "salvaged", []), f"{turn}: {told}")
        base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk's content")
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, "opened after all")
    box.away()


def slot() -> None:
    for what, begin in ("header", 0), ("table", 8):
        base.step(f"the {what} of a segment is gone, and a slot of the NVRAM has all of it")
        box = box_of()
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, FAR, FAR + 3 * PER, "in the slots yet", SIZE)
        ring = RING_START // blk.SECTOR
        at = place(box, bytes_of(model, FAR + 3 * PER // 2, FAR + 3 * PER // 2 + 1))
        at = ring + (at - ring) // PER * PER + begin
        right = box.log.bytes(at, 8)
        with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
            medium.write(at, bytes(8 * blk.SECTOR))
        code, told = box.tool("check")
        base.equal((code, told["state"]), (0, "live"), f"{told}")
        with box.disk() as disk:
            model.check(disk, "opened")
            base.expect(box.log.bytes(at, 8) == right, "the log doesn't have it again")
            filled(disk, model, FAR + 4 * PER, FAR + 9 * PER, "so that it is in no slot", SIZE)
        with box.disk() as disk:
            model.check(disk, "once more")
        box.away()


PARTS: dict[str, Callable[[], None]] = {
    "lab": lambda: whole("lab"),
    "none": lambda: whole("none"),
    "unreadable": unreadable,
    "older": older,
    "part": part,
    "slot": slot,
    "both": both,
    "again": again,
    "recover": recover,
    "read_only": read_only,
    "salvage": salvage,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
