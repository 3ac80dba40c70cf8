# SPDX-License-Identifier: GPL-2.0-only
"""The NVRAM is as it was at an earlier time when it comes back: a save of its content that failed
(an NVDIMM has that of the last power loss then), or an older copy of it. What it had acknowledged
since would be missing without a word, so it is refused.

Control: with dcd.test_nvram_apart=1 it is believed.
"""

import errno
import time

from dcdlab import RING_START, SEGMENT, SITE, Box, Model, filled, image, put_image
from locklab import base, blk, lio, media

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99"
PART = 400
ENDS = (2, 6)  # sectors of the end records


def is_refused(box: Box) -> None:
    with base.refused("an older NVRAM", errno.EUCLEAN, kernel="is of an earlier time"):
        box.open()


def part(what: str) -> None:
    base.step(what)
    box = Box(nvram="lab", log_mib=8, settings=HELD)
    model = Model(box.data.sectors)
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        filled(disk, model, 0, PART, "first", 8)
        if what == "a copy of the same time":
            old = image(box.view)
            filled(disk, model, 0, PART, "second", 8)
        if what != "a copy of before it was closed":
            media.cut(SITE, base.SEED)
    box.close()
    if what != "a copy of before it was closed":
        box.power_on()
    if what != "a copy of the same time":
        old = image(box.view)
        with lio.look(box.open()) as node, blk.Disk(node) as disk:
            filled(disk, model, 0, 8, "the last one", 8)
            media.cut(SITE, base.SEED)
        box.close()
        box.power_on()
    right = image(box.view)
    put_image(box.view, old)
    is_refused(box)
    for command in ("check", "recover", "retire"):
        code, said = box.tool(command)
        base.expect(code, f"dcd {command} took an older NVRAM")
        base.equal(said["reason"], "nvram_older", f"dcd {command}")
    code, said = box.tool("recover", "--salvage", "--dry-run")
    base.equal((code, said["may_be_missing"]), (3, None), "losses that nobody can count")
    put_image(box.view, right)
    with box.disk() as disk:
        base.expect(disk.read(0, PART) == model.bytes[: PART * blk.SECTOR], "what was written")
    box.away()


def unpublished(by_tool: bool) -> None:
    what = "dcd recover" if by_tool else "opened and cut off again"
    base.step(f"cut off between an entry and its end record, {what}: that is no earlier time")
    box = Box(nvram="lab", log_mib=8, settings=HELD)
    model = Model(box.data.sectors)
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        filled(disk, model, 0, PART, "first", 8)
        before = image(box.view)
        filled(disk, model, 0, 8, "the last one", 8)
        media.cut(SITE, base.SEED)
    box.close()
    box.power_on()
    with blk.Disk(box.view) as nvram:
        for at in ENDS:
            nvram.write(at, before[at * blk.SECTOR : (at + 1) * blk.SECTOR])
    if by_tool:
        base.equal(box.tool("recover")[0], 0, "exit code of dcd recover")
    for _ in range(2):
        with lio.look(box.open()) as node, blk.Disk(node) as disk:
            base.expect(disk.read(0, PART) == model.bytes[: PART * blk.SECTOR], "what was written")
            media.cut(SITE, base.SEED)
        box.close()
        box.power_on()
    box.away()


def salvaged() -> None:
    base.step("the log has all: `dcd recover --salvage` takes that, and not the older NVRAM's word")
    box = Box(nvram="lab", log_mib=8, settings=HELD)
    model = Model(box.data.sectors)
    for boot in ("first", "second"):
        with lio.look(box.open()) as node, blk.Disk(node) as disk:
            filled(disk, model, 0, 40, boot, 8)
            box.says(" 0 in use", "all to be in the log")
            media.cut(SITE, base.SEED)
        box.close()
        box.power_on()
        if boot == "first":
            old = image(box.view)
    put_image(box.view, old)
    code, said = box.tool("recover", "--salvage")
    base.equal((code, said["may_be_missing"]), (3, None), "losses that nobody can count")
    with blk.Disk(box.data.node, write=False) as disk:
        base.expect(disk.read(0, 40) == model.bytes[: 40 * blk.SECTOR], "what was written last")
    box.away()


def untold() -> None:
    base.step("a log that takes no writes is told of the opening when it works again")
    box = Box(nvram="lab", log_mib=8, settings=HELD)
    model = Model(box.data.sectors)
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        filled(disk, model, 0, PART, "first", 8)
        box.says(" 0 in use", "all to be in the log")
        media.cut(SITE, base.SEED)
    box.close()
    box.power_on()
    old = image(box.view)
    box.log.fail_writes()
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        box.log.heal()
        base.until(lambda: box.count("superblocks"), "the log to be told")
        box.log.fail_writes()  # so that only the NVRAM has it
        filled(disk, model, 0, 8, "the last one", 8)
        media.cut(SITE, base.SEED)
    box.close()
    box.log.heal()
    box.power_on()
    put_image(box.view, old)
    is_refused(box)
    box.away()


def mute() -> None:
    base.step("a log whose write of that opening hangs doesn't hold it for long")
    box = Box(nvram="lab", log_mib=8)
    with box.disk() as disk:
        disk.write(0, blk.pattern("before", 8))
        box.destaged()
    box.log.hold_write(0)
    box.log.hold_write(8)
    began = time.monotonic()
    box.open()
    base.expect(time.monotonic() - began < 15, "the opening has waited for that")
    box.log.let_go()
    box.close()
    box.away()


def retired() -> None:
    base.step("`dcd retire` cut off again and again, when the log was marked and the NVRAM wasn't")
    box = Box(nvram="lab", log_mib=8)
    with box.disk() as disk:
        disk.write(0, blk.pattern("before", 8))
    before = image(box.view)
    for _ in range(5):
        base.equal(box.tool("retire")[0], 0, "exit code of dcd retire")
        put_image(box.view, before)
    with base.refused("a log that is retired", errno.EMEDIUMTYPE, kernel="retired"):
        box.open()
    box.away()


def given_up(by_tool: bool) -> None:
    what = "dcd recover" if by_tool else "an opening"
    base.step(f"what {what} has given up behind damaged end records doesn't make the NVRAM older")
    box = Box(nvram="lab", log_mib=8, settings=HELD)
    with lio.look(box.open()) as node, blk.Disk(node) as disk:
        filled(disk, Model(box.data.sectors), 0, PART, "first", 8)
        box.says(" 0 in use", "all to be in the log")
        media.cut(SITE, base.SEED)
    box.close()
    box.power_on()
    segments = box.tool("check")[1]
    last, places = segments["live"]["next"] - 1, segments["log"]["segments"]
    with blk.Disk(box.log.node) as log:  # a table without its header
        log.write(RING_START // blk.SECTOR + last % places * SEGMENT // blk.SECTOR, bytes(4096))
    nvram = bytearray(len(image(box.view)))
    nvram[:4096] = image(box.view)[:4096]
    for at in ENDS:
        nvram[at * blk.SECTOR + 20] ^= 0x55
    put_image(box.view, bytes(nvram))
    base.equal(box.tool("check")[0], 4, "exit code of dcd check: some may be missing")
    if by_tool:
        base.equal(box.tool("recover")[0], 3, "exit code of dcd recover")
    for _ in range(2):
        with box.disk():
            pass
    base.equal(box.tool("check")[0], 0, "exit code of dcd check")
    box.away()


given_up(by_tool=False)
given_up(by_tool=True)
retired()
mute()
untold()
salvaged()
unpublished(False)
unpublished(True)
for what in ("a copy of the same time", "a copy of before it was closed", "a save that failed"):
    part(what)
