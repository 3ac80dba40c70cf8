# SPDX-License-Identifier: GPL-2.0-only
"""A data disk that isn't the log's, or is an older copy, is refused before anything is written
there, by the module and by `dcd`, with a live log and with an empty one; the right one never is.
"""

import errno
import random
import time
from collections.abc import Callable
from functools import partial

from dcdlab import SEGMENT, Box, Model, digest, filled, image, put_image, some_write
from locklab import base, blk, lio
from statelab import Beside

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99"


def tool(box: Box, command: str, *more: str) -> tuple[int, str, str]:
    code, said = box.tool(command, *more)
    return code, said["state"], said["reason"]


def refused(box: Box, what: str, raw: bytes) -> None:
    """With this content. Then the disk gets its own back."""
    own = image(box.data.node)
    put_image(box.data.node, raw)
    nodes = (box.data.node, box.log.node)
    before = digest(*nodes)
    base.equal(tool(box, "check"), (4, "refused", "other_data"), f"{what}: check")
    base.equal(tool(box, "recover"), (1, "refused", "other_data"), f"{what}: recover")
    base.equal(tool(box, "retire"), (1, "refused", "other_data"), f"{what}: retire")
    base.equal(digest(*nodes), before, f"{what}: the disks' content")
    before = digest(box.data.node)
    with base.refused(what, errno.EMEDIUMTYPE, kernel="it is another disk, or an older copy"):
        lio.Backstore("dcd", "bad", box.control())
    base.equal(digest(box.data.node), before, f"{what}: the data disk's content")
    put_image(box.data.node, own)
    base.equal(tool(box, "check")[0], 0, f"{what}: undone")


def ends(box: Box, model: Model) -> None:
    with box.disk() as disk:
        model.check(disk, "its own disk")
    box.away()


def one(nvram: str) -> None:
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    base.step(f"{nvram}: nothing was ever destaged: there is no witness")
    with box.disk(HELD) as disk:
        filled(disk, model, 0, 100, "first", 8)
    base.equal(tool(box, "check")[0], 0, "check")
    with box.disk() as disk:
        box.destaged()
        older = image(box.data.node)
        filled(disk, model, 400, 800, "second", 8)
        box.destaged()
    base.step("with an empty log")
    refused(box, "blank", bytes(len(older)))
    refused(box, "older", older)
    base.step("with a live log, part of it over what was destaged")
    with box.disk(HELD) as disk:
        filled(disk, model, 600, 1000, "third", 8)
    base.equal(tool(box, "check")[:2], (0, "live"), "check")
    refused(box, "blank, live", bytes(len(older)))
    refused(box, "older, live", older)
    with box.disk() as disk:
        model.check(disk, "with its own disk")
        box.destaged()
    base.step("with a log that dcd recover has emptied")
    with box.disk(HELD) as disk:
        older = image(box.data.node)
        filled(disk, model, 600, 1000, "fourth", 8)
    base.equal(tool(box, "recover")[:2], (0, "recovered"), "recover")
    refused(box, "older, recovered", older)
    base.step("written to without the DCD, on purpose")
    with blk.Disk(box.data.node) as raw:
        raw.write(960, data := blk.pattern("by hand", 40))
    with base.refused("it", errno.EMEDIUMTYPE, kernel="was written to without the DCD"):
        lio.Backstore("dcd", "bad", box.control())
    base.equal(tool(box, "recover", "--force")[:2], (0, "recovered"), "recover --force")
    model.put(960, data)
    with box.disk() as disk:
        model.check(disk, "it is taken")
    box.away()


def past() -> None:
    base.step("past a log that had failed until the end")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 100, "first", 8)
        box.destaged()
        older = image(box.data.node)
        filled(disk, model, 400, 600, "second", 8)
        box.destaged()
        box.log.fail_writes()
        filled(disk, model, 400, 600, "third", 8)
        box.destaged()
    box.log.heal()
    refused(box, "blank, past a log", bytes(len(older)))
    refused(box, "older, past a log", older)
    base.step("the same behind an opening that was cut off, with a log that works")
    with box.disk_until_cut() as disk:
        model.check(disk, "with its own disk")
    refused(box, "older, a boot later", older)
    with box.disk() as disk:
        model.check(disk, "with its own disk, a boot later")
    box.away()


def ever(nvram: str) -> None:
    base.step(f"{nvram}: its own disk, after whatever, and after power cuts")
    box = Box(nvram=nvram, settings="destage_idle_ms=20,destage_low=5,destage_high=20")
    rng = random.Random(f"witness {base.SEED}")
    model = Model(box.data.sectors)
    for turn in range(25):
        cut = turn % 2 == 1 and nvram == "lab"
        with box.disk_until_cut() if cut else box.disk() as disk:
            for n in range(rng.randrange(60)):
                if nvram == "lab" and rng.random() < 0.02:
                    rng.choice((box.log.fail_writes, box.log.heal))()
                some_write(disk, model, rng, f"{turn} {n}", within=rng.choice((200, 4000)))
                if rng.random() < 0.03:
                    box.destaged()
        box.log.heal()
        base.equal(tool(box, "check")[0], 0, "check")
        if turn % 7 == 3:
            base.equal(tool(box, "recover")[0], 0, "recover")
    with box.disk() as disk:
        model.check(disk, "at the end")
    box.away()


def blocks() -> None:
    """A disk that refuses a block in two pieces of memory gives what it is asked for."""
    base.step("blocks of 4096")
    box = Box(nvram="lab", data_options={"block": "4096"})
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 400, "first", 8)
        box.destaged()
    with box.disk(HELD) as disk:
        model.check(disk, "its own disk")
        filled(disk, model, 600, 1000, "second", 8)
    refused(box, "blank", bytes(box.data.sectors * blk.SECTOR))
    with box.disk() as disk:
        model.check(disk, "its own disk again")
    box.away()


def hot(nvram: str, count: int, rounds: int, ring: int = 0) -> None:
    """A journal (of which so many are written at a time, in turn), or what a file system says of
    itself: it hides none of what came before."""
    base.step(f"{nvram}: {count} blocks are written {rounds} times, and are live in the end")

    def write(n: int) -> None:
        at = n * ring % count
        filled(disk, model, at * 8, (at + ring if ring else count) * 8, f"hot {n}", 8)

    box = Box(nvram=nvram, data_mib=32, log_mib=16, nvram_bytes=4096 + 8 * SEGMENT)
    model = Model(box.data.sectors)
    cold = count * 8, (count + 1000) * 8
    with box.disk("destage_idle_ms=50") as disk:
        filled(disk, model, 0, *cold[1:], "first", 8)
        box.destaged()
    older = image(box.data.node)
    with box.disk("destage_idle_ms=50") as disk:
        if ring:
            write(0)
            box.destaged()
        filled(disk, model, *cold, "second", 8)
        box.destaged()
        for n in range(rounds):
            write(n)
            box.destaged()
        box.set(HELD)
        filled(disk, model, 0, count * 8, "hot", 8)
    refused(box, "older", older)
    refused(box, "blank", bytes(len(older)))
    ends(box, model)


def known(nvram: str) -> None:
    """Blocks that aren't written again don't hide those that are."""
    base.step(f"{nvram}: behind some others only such blocks are written as had been before")
    box = Box(nvram=nvram, data_mib=32, log_mib=16, nvram_bytes=4096 + 8 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk("destage_idle_ms=50") as disk:
        filled(disk, model, 0, 8000, "first", 8)
        box.destaged()
        for at in range(8000, 9600, 200):
            filled(disk, model, at, at + 200, "cold", 8)
            box.destaged()
        older = image(box.data.node)
        for n in range(3):
            filled(disk, model, 0, 8000, f"again {n}", 8)
            box.destaged()
    refused(box, "older", older)
    box.away()


def known_ring(nvram: str) -> None:
    """A journal that is live hides them neither if all they are of had been written before."""
    base.step(f"{nvram}: behind a copy only such blocks are written as had been, then a journal")
    box = Box(nvram=nvram, data_mib=32, log_mib=16, nvram_bytes=4096 + 8 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk("destage_idle_ms=50") as disk:
        filled(disk, model, 0, 512, "journal", 8)
        filled(disk, model, 512, 8512, "first", 8)
        box.destaged()
        older = image(box.data.node)
        for n in range(3):
            filled(disk, model, 512, 8512, f"again {n}", 8)
            box.destaged()
        for n in range(8):
            filled(disk, model, n * 64, n * 64 + 64, f"journal {n}", 8)
            box.destaged()
        box.set(HELD)
        filled(disk, model, 0, 512, "journal, live", 8)
    refused(box, "older, a journal", older)
    ends(box, model)


def recovered(nvram: str) -> None:
    base.step(f"{nvram}: what dcd recover has written is live again")
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    older = image(box.data.node)
    with box.disk() as disk:
        filled(disk, model, 400, 800, "cold", 8)
        box.destaged()
        box.set(HELD)
        filled(disk, model, 0, 320, "hot", 8)
    base.equal(tool(box, "recover")[:2], (0, "recovered"), "recover")
    with box.disk(HELD) as disk:
        filled(disk, model, 0, 320, "hot again", 8)
    refused(box, "older, hot ones recovered", older)
    ends(box, model)


def zeroed(nvram: str, how: str) -> None:
    base.step(f"{nvram}: behind a copy much was zeroed ({how}), and nothing else")
    box = Box(nvram=nvram, data_mib=32, log_mib=16)
    model = Model(box.data.sectors)
    with box.disk("destage_idle_ms=50") as disk:
        filled(disk, model, 0, 6400, "first", 64)
        filled(disk, model, 6400, 8000, "others", 64)
        box.destaged()
        older = image(box.data.node)
        for at in range(0, 6400, 64):
            getattr(disk, how)(at, 64)
            model.put(at, bytes(64 * blk.SECTOR))
        box.destaged()
    refused(box, "older, zeroed", older)
    ends(box, model)


def headed(nvram: str) -> None:
    """Nor do records' heads, which are written once more, stand for all of them."""
    base.step(f"{nvram}: of what came behind a copy the first 4 KiB each are live again")
    box = Box(nvram=nvram, data_mib=32, log_mib=16)
    model = Model(box.data.sectors)
    with box.disk("destage_idle_ms=50") as disk:
        for n in range(2):
            older = image(box.data.node)
            filled(disk, model, 0, 6400, f"records {n}", 64)
            box.destaged()
        box.set(HELD)
        for at in range(0, 6400, 64):
            filled(disk, model, at, at + 8, "head", 8)
    refused(box, "older, heads", older)
    ends(box, model)


def breaks(box: Box) -> None:
    time.sleep(0.45)
    box.data.stall(1000, 0, reads=True)


def away() -> None:
    base.step("the data disk's path breaks when all the witnesses are asked for")
    box = Box(nvram="lab", log_mib=4)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 400, "first", 8)
        box.destaged()
    put_image(box.data.node, bytes(box.data.sectors * blk.SECTOR))
    box.data.slow_reads(300)
    beside = Beside(partial(breaks, box))
    with base.refused("a blank disk", errno.EMEDIUMTYPE, kernel="it is another disk"):
        box.open()
    beside.result()
    box.away()


def heals(box: Box) -> None:
    time.sleep(0.1)
    box.data.heal()


def once() -> None:
    base.step("the only block that is another one can't be read when it is asked for at first")
    box = Box(nvram="lab", log_mib=4)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 80, "first", 8)
        box.destaged()
    with blk.Disk(box.data.node) as raw:
        raw.write(72, bytes(8 * blk.SECTOR))
    box.data.fail_reads_late(300, (72, 79))
    beside = Beside(partial(heals, box))
    with base.refused("an older disk", errno.EMEDIUMTYPE, kernel="it is another disk"):
        box.open()
    beside.result()
    box.away()


def whole(nvram: str) -> None:
    one(nvram)
    ever(nvram)


WORK: dict[str, Callable[[], None]] = {
    "blocks": blocks, "away": away, "once": once, "past": past,
    "lab": partial(whole, "lab"), "none": partial(whole, "none"),
    "hot": partial(hot, "lab", 40, 12), "hot_none": partial(hot, "none", 40, 12),
    "hot_many": partial(hot, "lab", 300, 100), "ring": partial(hot, "lab", 64, 60, 8),
    "known": partial(known, "lab"), "known_none": partial(known, "none"),
    "known_ring": partial(known_ring, "lab"), "known_ring_none": partial(known_ring, "none"),
    "zeroed": partial(zeroed, "lab", "zero"), "zeroed_none": partial(zeroed, "none", "zero"),
    "discarded": partial(zeroed, "lab", "discard"),
    "headed": partial(headed, "lab"), "headed_none": partial(headed, "none"),
    "recovered": partial(recovered, "lab"), "recovered_none": partial(recovered, "none"),
}  # fmt: skip
for name in base.words(1, tuple(WORK)) or WORK:
    WORK[name]()
