# SPDX-License-Identifier: GPL-2.0-only
"""Places of the log that are damaged, or can't be read: what only they had is a medium error until
it is written over, whatever comes between; they hold neither the log's tail nor its next start.

Args: the parts, of which without any all are run.
"""

import errno
import json
import random
import subprocess
import time
from pathlib import Path
from typing import Any

from dcdlab import RING_START, SEGMENT, TOOL, Box, Model, filled
from faultlab import faults, mark
from locklab import base, blk, dm

TRACING = Path("/sys/kernel/tracing")
RING = 8  # MiB
PER = SEGMENT // blk.SECTOR
HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99,read_cache_bytes=0"
SIZE = 16
BAD, UNREADABLE = 320, 1600  # entries of SIZE sectors
INCOMPAT = 24  # byte of the superblock
LOST = 2
FLAKY = 60  # of a hundred


def box_of(nvram: str = "lab", settings: str = "read_cache_bytes=0") -> Box:
    return Box(
        data_mib=16, log_mib=RING + 1, nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT,
        settings=settings,
    )  # fmt: skip


def place(box: Box, model: Model, sector: int) -> int:
    """The sector of the log that has this sector of the disk."""
    log = box.log.bytes(0, box.log.sectors)
    at = log.find(bytes(model.bytes[sector * blk.SECTOR : (sector + 1) * blk.SECTOR]))
    base.expect(at > 0 and at % blk.SECTOR == 0, "the log doesn't have it")
    return at // blk.SECTOR


def flip(box: Box, at: int) -> None:
    with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
        raw = bytearray(medium.read(at, 1))
        raw[77] ^= 0x14
        medium.write(at, bytes(raw))


def hurt(box: Box, model: Model) -> None:
    """One entry is damaged, another one can't be read."""
    flip(box, place(box, model, BAD + 3))
    at = place(box, model, UNREADABLE) // 8 * 8
    box.log.unreadable((at, at + 7))


def gone(disk: blk.Disk, first: int, end: int, what: str) -> None:
    for sector in range(first, end):
        with base.refused(f"{what}: a read of sector {sector}", errno.ENODATA):
            disk.read(sector, 1)


def all_but(disk: blk.Disk, model: Model, lost: list[tuple[int, int]], what: str) -> None:
    at = 0
    for first, end in [*lost, (disk.sectors, disk.sectors)]:
        for begin in range(at, first, 512):
            stop = min(begin + 512, first)
            want = bytes(model.bytes[begin * blk.SECTOR : stop * blk.SECTOR])
            base.expect(disk.read(begin, stop - begin) == want, f"{what}: {begin} to {stop}")
        gone(disk, first, end, what)
        at = end


def load(disk: blk.Disk, model: Model, mib: int, tag: str) -> None:
    """So much, behind what is damaged."""
    rng = random.Random(f"lost {base.SEED} {tag}")
    for n in range(mib * 16):
        first = 4096 + 8 * rng.randrange((disk.sectors - 4096 - 128) // 8)
        filled(disk, model, first, first + 128, f"{tag} {n}", 128)


def prepared(box: Box, disk: blk.Disk, model: Model) -> None:
    """All of it is in the log, and nothing of that in NVRAM."""
    filled(disk, model, 0, 4096, "older", 512)
    box.set("destage_idle_ms=1")
    box.destaged()
    box.set("destage_idle_ms=3600000")
    filled(disk, model, BAD - SIZE, BAD + 2 * SIZE, "before it", SIZE)
    filled(disk, model, 4096, 4096 + PER, "so that they are in two segments", 128)
    filled(disk, model, UNREADABLE, UNREADABLE + SIZE, "alone", SIZE)
    # As small as they are: of what a slot had before, nothing is left of its table either. (A log
    # without NVRAM gives each a segment, and would destage before there are so many.)
    each = 128 if box.view == "none" else SIZE
    filled(disk, model, 4096, 4096 + 12 * PER, "so that they are in no slot", each)


def runs(nvram: str) -> None:
    base.step(f"{nvram}: damaged while it runs, four rings of writes, a cut, once more")
    box = box_of(nvram)
    model = Model(box.data.sectors)
    lost = [(BAD, BAD + SIZE), (UNREADABLE, UNREADABLE + SIZE)]
    with box.disk_until_cut() if nvram != "dram:battery" else box.disk() as disk:
        prepared(box, disk, model)
        hurt(box, model)
        box.set("destage_idle_ms=1")
        for n in range(RING):
            if box.count("lost_places") < 2:
                load(disk, model, 1, f"load {n}")
        box.log.heal()  # as a disk does that writes another sector for it
        load(disk, model, 4 * RING, "more of it")
        all_but(disk, model, lost, "under load")
        base.expect(box.count("write_errors") + box.count("busy") == 0, box.info())
        base.expect(box.count("lost_places") == 2, box.info())
        base.expect(f" {BAD} + {SIZE} in segment " in (TRACING / "trace").read_text(), "no event")
        base.expect(box.count("lost_sectors") == 2 * SIZE, box.info())
        base.expect(box.count("free") > (RING << 20) // SEGMENT // 4, f"it fills: {box.info()}")
        base.expect("log DAMAGED" in box.info(), box.info())
        filled(disk, model, BAD + 4, BAD + 6, "a part of it", 2)
        disk.zero(UNREADABLE, 2)
        disk.discard(UNREADABLE + 2, 2)
        model.put(UNREADABLE, bytes(4 * blk.SECTOR))
        lost = [(BAD, BAD + 4), (BAD + 6, BAD + SIZE), (UNREADABLE + 4, UNREADABLE + SIZE)]
        all_but(disk, model, lost, "parts of them written over")
    for copy in (0, 1):
        features = box.log.bytes(copy * 8, 1)[INCOMPAT]
        base.expect(features & LOST, f"a module that doesn't know it would take it: {features}")
    for turn in range(2):
        with box.disk() as disk:
            all_but(disk, model, lost, "opened again")
            load(disk, model, 2 * RING, f"opened {turn}")
            all_but(disk, model, lost, "and written to")
            base.expect(box.count("write_errors") + box.count("busy") == 0, box.info())
    with box.disk() as disk:
        filled(disk, model, BAD, BAD + SIZE, "all of it", SIZE)
        filled(disk, model, UNREADABLE, UNREADABLE + SIZE, "that too", SIZE)
        box.destaged()
        base.expect("log ok" in box.info() and box.count("lost_ranges") == 0, box.info())
        model.check(disk, "written over")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk has others")
    box.away()


def check(box: Box, verb: str = "check", *more: str) -> tuple[int, dict[str, Any]]:
    nvram = ("--nvram", box.view) if box.view != "none" else ()
    words = (TOOL, verb, "--data", box.data.node, "--log", box.log.node, *nvram, "--json", *more)
    told = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    return told.returncode, json.loads(told.stdout)


def opened(nvram: str) -> None:
    base.step(f"{nvram}: found damaged when it is opened")
    box = box_of(nvram, HELD)
    model = Model(box.data.sectors)
    lost = [(BAD, BAD + SIZE), (UNREADABLE, UNREADABLE + SIZE)]
    with box.disk() as disk:
        prepared(box, disk, model)
    hurt(box, model)
    code, told = check(box)
    base.expect(code == 4 and told["state"] == "lost", f"check says {code}, {told}")
    want = [(first, SIZE) for first, _ in lost]
    got = sorted((item["sector"], item["sectors"]) for item in told["lost"])
    base.equal(got, want, "what check lists")
    for verb in ("recover", "retire"):
        code, told = check(box, verb)
        base.expect(code == 1 and told["reason"] == "medium_errors", f"{verb} says {code}, {told}")
    with box.disk() as disk:
        all_but(disk, model, lost, "opened")
        base.expect(box.count("lost_sectors") == 2 * SIZE, box.info())
        base.expect(box.count("lost_places") == 0, box.info())  # nothing was given up to get there
        box.log.heal()  # as a disk does that writes another sector for it
        box.set("destage_idle_ms=1")
        load(disk, model, 2 * RING, "goes on")
        all_but(disk, model, lost, "goes on")
        base.expect(box.count("write_errors") + box.count("busy") == 0, box.info())
    with box.disk("destage_idle_ms=1") as disk:
        all_but(disk, model, lost, "opened once more")
        disk.discard(BAD, SIZE)
        disk.zero(UNREADABLE, SIZE)
        model.put(BAD, bytes(SIZE * blk.SECTOR))
        model.put(UNREADABLE, bytes(SIZE * blk.SECTOR))
        box.destaged()
        model.check(disk, "discarded and zeroed")
    code, told = check(box)
    base.expect(code == 0 and told["state"] == "clean", f"check says {code}, {told}")
    box.away()


def said() -> None:
    base.step("what was lost at an opening is logged again: both superblocks know such entries")
    box = box_of("none", HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        prepared(box, disk, model)
    flip(box, place(box, model, BAD + 3))
    with box.disk() as disk:
        box.set("destage_idle_ms=1")
        load(disk, model, 2 * RING, "goes on")
        base.expect(box.count("logged_again") > 0, box.info())
        all_but(disk, model, [(BAD, BAD + SIZE)], "goes on")
    for copy in (0, 1):
        features = box.log.bytes(copy * 8, 1)[INCOMPAT]
        base.expect(features & LOST, f"a module that doesn't know it would take it: {features}")
    box.away()


def one_sector() -> None:
    """Of a segment: behind its header (3), behind its table's entries (15), of a payload."""
    for nvram, at in (("lab", 3), ("lab", 15), ("none", 3), ("lab", 19), ("none", 16)):
        base.step(f"{nvram}: sector {at} of a segment can't be read")
        box = box_of(nvram, HELD)
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, 0, 8, "each a write", 1)
            filled(disk, model, 64, 64 + 12 * PER, "so that they are in no slot", 128)
        first = place(box, model, 0) - 16
        box.log.unreadable((first + at, first + at))
        with box.disk(HELD) as disk:
            lost = [(at - 16, at - 15)] if at >= 16 else []
            all_but(disk, model, lost, "opened")
        box.away()


def spoiled(box: Box, model: Model, sectors: list[int]) -> None:
    """In the log, of each the only copy."""
    with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
        log = bytearray(medium.read(0, medium.sectors))
        for first in sectors:
            sector = bytes(model.bytes[first * blk.SECTOR : (first + 1) * blk.SECTOR])
            log[log.find(sector) + 7] ^= 4
        for at in range(0, medium.sectors, 512):
            medium.write(at, bytes(log[at * blk.SECTOR : (at + 512) * blk.SECTOR]))


def many_opened() -> None:
    base.step("an opening finds more lost ranges than their bound: the destager comes to rest")
    box = Box(log_mib=3, nvram="lab", nvram_bytes=4096 + 3 * SEGMENT, settings=HELD)
    model = Model(box.data.sectors)
    count = 640
    with box.disk() as disk:
        for n in range(count):
            filled(disk, model, 2 * n, 2 * n + 1, "one sector", 1)
        filled(disk, model, 8192, 8192 + 4 * 112, "so that no slot has them", 112)
    with blk.Disk(f"/dev/mapper/{box.log.name}-medium") as medium:
        log = bytearray(medium.read(0, medium.sectors))
        for n in range(count):
            sector = bytes(model.bytes[2 * n * blk.SECTOR : (2 * n + 1) * blk.SECTOR])
            log[log.find(sector) + 7] ^= 4
        for at in range(0, medium.sectors, 512):
            medium.write(at, bytes(log[at * blk.SECTOR : (at + 512) * blk.SECTOR]))
    with box.disk() as disk:
        base.equal(box.count("lost_sectors"), count, box.info())
        box.set("destage_idle_ms=1,destage_low=50,destage_high=60")
        time.sleep(30)
        for n in range(40):
            filled(disk, model, 10000, 10112, f"goes on {n}", 112)
        again = box.count("logged_again")
        time.sleep(10)
        again = box.count("logged_again") - again
        base.expect(again < 10 * count, f"{again} ranges are logged again in 10 s without a write")
        base.equal(box.count("lost_sectors"), count, box.info())
    box.away()


def in_nvram() -> None:
    base.step("damaged in the log when it is opened, and NVRAM has it yet")
    box = box_of("lab", HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 4 * PER, "some", SIZE)
    flip(box, place(box, model, BAD))
    code, told = check(box)
    base.expect(code == 0 and told["state"] == "live", f"check says {code}, {told}")
    with box.disk() as disk:
        model.check(disk, "opened")
        filled(disk, model, 4 * PER, 16 * PER, "so that it is in no slot", SIZE)
        model.check(disk, "from the log")
    box.away()


def table() -> None:
    base.step("a table is damaged: what it had can't be known")
    box = box_of("lab", HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 16 * PER, "some", SIZE)
    flip(box, (RING_START + 3 * SEGMENT) // blk.SECTOR + 8)
    code, told = check(box)
    base.expect(code == 4 and told["reason"] == "segment_missing", f"check says {code}, {told}")
    with base.refused("a damaged table"):
        box.open()
    box.away()


def many() -> None:
    base.step("more than the bound: that stays, the ring fills, and nothing is lost that is mended")
    box = box_of("lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        prepared(box, disk, model)
        start = RING_START // blk.SECTOR
        box.log.unreadable(*((start + n * PER + 24, start + n * PER + 31) for n in range(128)))
        box.set("destage_idle_ms=1")
        refused = set()
        for n in range(200):
            first = 4096 + 128 * n
            data = blk.pattern(f"others {n}", 128)
            try:
                disk.write(first, data)
            except OSError:
                refused.add(first)
                continue
            model.put(first, data)
        base.expect(refused, f"the ring has room for everything? {box.info()}")
        gave_up = box.count("lost_sectors")
        print(f"  {len(refused)} refused, {gave_up} sectors given up", flush=True)
        base.expect(0 < gave_up <= 128 * PER // 16, "the bound")
        box.log.heal()
        # What is lost isn't logged again before it is a quarter of the ring behind.
        base.until(lambda: box.count("free") > 64, "room")
        lost = 0
        for first in range(0, disk.sectors, 8):
            if first < 4096 or first // 128 * 128 not in refused:
                want = bytes(model.bytes[first * blk.SECTOR : (first + 8) * blk.SECTOR])
                try:
                    base.expect(disk.read(first, 8) == want, f"sector {first}")
                except OSError as err:
                    base.expect(err.errno == errno.ENODATA, str(err))
                    lost += 8
        print(f"  {lost} sectors are medium errors", flush=True)
        base.expect(0 < lost <= gave_up, "others are medium errors too")
    box.away()


def lives() -> None:
    base.step("the site's power is cut again and again, with one place that is damaged")
    box = box_of("lab")
    model = Model(box.data.sectors)
    rng = random.Random(f"lost lives {base.SEED}")
    lost = [(BAD, BAD + SIZE)]
    with box.disk() as disk:
        prepared(box, disk, model)
        flip(box, place(box, model, BAD + 3))
    for life in range(8):
        with box.disk_until_cut() as disk:
            load(disk, model, rng.choice((1, 2, 4, 9)), f"life {life}")
        with box.disk(HELD) as disk:
            all_but(disk, model, lost, f"life {life}")
    with box.disk() as disk:
        filled(disk, model, BAD, BAD + SIZE, "written over", SIZE)
        box.destaged()
        model.check(disk, "written over")
    box.away()


def superblock() -> None:
    base.step("the superblock can't be written when something is to be given up: nothing is")
    box = box_of("lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        prepared(box, disk, model)
        at = place(box, model, BAD) // 8 * 8
        box.log.fail_here(((0, 15), "error_writes"), ((at, at + 7), "error_reads"))
        box.set("destage_idle_ms=1")
        refused = 0
        for n in range(RING):
            try:
                load(disk, model, 1, f"load {n}")
            except OSError:
                refused += 1
        base.expect(refused and "log FAILING" in box.info(), box.info())
        base.expect(box.count("lost_places") == 0, "given up, and nothing says so")
        box.log.unreadable((at, at + 7))
        box.says("log DAMAGED", "the log to work again")
        load(disk, model, 2 * RING, "more")
        box.log.heal()
        gone(disk, BAD, BAD + SIZE, "in the end")
        base.expect(box.count("lost_places") >= 1, box.info())
    with box.disk() as disk:
        gone(disk, BAD, BAD + SIZE, "opened again")
    box.away()


def cable() -> None:
    base.step("the log gives nothing right for a while: nothing of it is given up")
    box = box_of("lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        prepared(box, disk, model)
        filled(disk, model, 4096, 4096 + 60 * PER, "more than half of the ring", 128)
        box.log.fail("5 corrupt_bio_byte 32 r 1 0")
        box.set("destage_idle_ms=1")
        base.until(lambda: box.count("bad_sums") > 100, "the destager to try", 120)
        box.log.heal()
        box.destaged()
        base.expect(box.count("lost_places") == 0, box.info())
        model.check(disk, "with another cable")
    box.away()


def flaky() -> None:
    base.step(f"of all reads of the log {FLAKY} percent fail: nothing of it is given up")
    box = box_of("lab", HELD)
    model = Model(box.data.sectors)
    reads = dm.create("reads", f"0 {box.log.sectors} linear /dev/mapper/log-medium 0")
    with box.disk() as disk:
        box.log.read_by(reads)
        first = 0
        while box.count("free") > (RING << 20) // SEGMENT // 10:
            filled(disk, model, first, first + SIZE, "each by itself", SIZE)
            first += 2 * SIZE
        mark(reads, on=True)
        faults(FLAKY)
        box.set("destage_idle_ms=1,destage_low=50,destage_high=60")
        time.sleep(60)
        faults(0)
        print(f"  {first // 2 // SIZE} places, {box.count('log_read_errors')} reads failed",
              flush=True)  # fmt: skip
        base.equal(box.count("lost_places"), 0, "places that were given up")
        box.destaged()
        model.check(disk, "the log is well")
        box.log.heal()
    dm.remove("reads")
    box.away()


def no_room() -> None:
    base.step("more is lost than a small log has room for to say again: not the data disk's fault")
    box = Box(log_mib=2, nvram="lab", nvram_bytes=4096 + 3 * SEGMENT, settings=HELD)
    model = Model(box.data.sectors)
    count = 400
    with box.disk() as disk:
        for n in range(count):
            filled(disk, model, 2 * n, 2 * n + 1, "one sector", 1)
        filled(disk, model, 8192, 8192 + 4 * 112, "so that no slot has them", 112)
    spoiled(box, model, [2 * n for n in range(count)])
    log = base.KernelLog()
    with box.disk() as disk:
        base.equal(box.count("lost_sectors"), count, box.info())
        box.set("destage_idle_ms=1,destage_low=50,destage_high=60")
        with base.refused("writes in the end"):
            for n in range(200):
                filled(disk, model, 9000 + 112 * (n % 30), 9112 + 112 * (n % 30), f"{n}", 112)
        lines = log.new()
        base.expect(not any("can't destage" in line for line in lines), "the data disk is blamed")
        base.expect("data ok" in box.info() and box.count("data_errors") == 0, box.info())
        base.expect(any("no room to say once more" in line for line in lines), f"{lines}")
        gone(disk, 0, 1, "a lost one")
    box.away()


def patience() -> None:
    base.step("each place has half a minute, whenever the first one was found")
    box = box_of("lab", HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, BAD, BAD + SIZE, "the first", SIZE)
        filled(disk, model, 4096, 4096 + 20 * 112, "so that it is in no slot", 112)
        first = place(box, model, BAD) // 8 * 8
        box.log.unreadable((first, first + 7))
        box.set("destage_idle_ms=1")
        base.until(lambda: box.count("log_read_errors"), "the first to be found")
        time.sleep(20)
        box.set("destage_idle_ms=3600000")
        filled(disk, model, UNREADABLE, UNREADABLE + SIZE, "the second", SIZE)
        filled(disk, model, 4096, 4096 + 38 * 112, "so that it is in no slot either", 112)
        second = place(box, model, UNREADABLE) // 8 * 8
        box.log.unreadable(*sorted(((first, first + 7), (second, second + 7))))
        box.set("destage_idle_ms=1")
        base.until(lambda: box.count("lost_places") > 0, "the first to be given up", 30)
        time.sleep(6)
        base.equal(box.count("lost_places"), 1, "what is given up after a few seconds")
        gone(disk, BAD, BAD + SIZE, "the first")
        base.until(lambda: box.count("lost_places") == 2, "the second to be given up", 40)
    box.away()


ALL = {
    "patience": patience,
    "no-room": no_room,
    "lab": lambda: runs("lab"),
    "none": lambda: runs("none"),
    "battery": lambda: runs("dram:battery"),
    "opened": lambda: opened("lab"),
    "opened-none": lambda: opened("none"),
    "said": said,
    "sector": one_sector,
    "many-opened": many_opened,
    "nvram": in_nvram,
    "table": table,
    "many": many,
    "lives": lives,
    "super": superblock,
    "cable": cable,
    "flaky": flaky,
}
base.put(TRACING / "events/dcd/dcd_lost/enable", "1")
for name in base.words(1, ALL) or ALL:
    ALL[name]()
base.step("done")
