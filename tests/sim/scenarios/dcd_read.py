# SPDX-License-Identifier: GPL-2.0-only
"""Reads gathered of pieces: from NVRAM, from the log, zeroes, from the data disk.

Without the read cache, which dcd_cache.py is about.
"""

import errno
import mmap
import os
import random
import subprocess

from dcdlab import RING_START, SEGMENT, Box, Model, filled, some_write
from locklab import base, blk

SECTORS = 2000  # in use
READS = 60 if base.CHECKED else 600
RING, PER = RING_START // blk.SECTOR, SEGMENT // blk.SECTOR
NO_CACHE = "read_cache_bytes=0"
KINDS = ("memory_reads", "zero_pieces", "log_pieces", "data_pieces")


def counts(box: Box, *names: str) -> list[int]:
    return [box.count(name) for name in names]


def read_into(disk: blk.Disk, sector: int, count: int, offset: int) -> bytes:
    """The memory begins @offset bytes behind a page's start."""
    fd = os.open(disk.node, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, count * blk.SECTOR + offset + mmap.PAGESIZE) as memory:
        view = memoryview(memory)[offset : offset + count * blk.SECTOR]
        try:
            base.equal(os.preadv(fd, [view], sector * blk.SECTOR), len(view), "bytes read")
            return bytes(view)
        finally:
            view.release()
            os.close(fd)


def in_log_only(box: Box, disk: blk.Disk, model: Model) -> None:
    """What was written before is in no slot of the NVRAM any more."""
    filled(disk, model, 8000, 8000 + 5 * PER, "in the slots")
    base.until(lambda: " 0 in use" in box.info(), "all to be in the log")


def mixed(nvram: str) -> None:
    base.step(f"{nvram}: reads of any size over pieces of every kind are as the model has it")
    rng = random.Random(f"read {base.SEED} {nvram}")
    box = Box(nvram=nvram, settings=NO_CACHE)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, SECTORS, "at home")
        box.destaged()
        box.data.fail_writes()  # so that the rest stays where it is
        for n in range(60):
            some_write(disk, model, rng, f"in the log {n}", within=SECTORS)
        in_log_only(box, disk, model)
        before = counts(box, *KINDS)
        for n in range(READS):
            if n % 20 == 0 and n < 200:
                some_write(disk, model, rng, f"in NVRAM {n}", within=SECTORS)
            count = rng.choice((1, 3, 8, 63, 64, 200, 511, 600, 1500))
            first = rng.randrange(SECTORS - count)
            want = model.bytes[first * blk.SECTOR : (first + count) * blk.SECTOR]
            offset = rng.choice((0, 0, 512, 1536, 3584))
            got = read_into(disk, first, count, offset)
            base.expect(got == want, f"read {n}: {count} sectors at {first}, memory at {offset}")
        for name, old in zip(KINDS, before, strict=True):
            base.expect(box.count(name) > old, f"no {name}: {box.info()}")
        base.expect(box.count("read_hops") > 0, "the log is read by a worker")
        model.check(disk, "all")
        box.data.heal()
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def inline() -> None:
    base.step("what is only on the data disk, or only in memory, needs no worker")
    box = Box(settings=NO_CACHE)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 256, "at home")
        box.destaged()
        hops, bounces, pieces = counts(box, "read_hops", "read_bounces", "data_pieces")
        disk.read(0, 256)
        disk.read(1000, 8)
        base.equal(box.count("data_pieces"), pieces + 2, "a piece each")
        disk.write(512, blk.pattern("in NVRAM", 8))
        memory = box.count("memory_reads")
        base.expect(disk.read(512, 8) == blk.pattern("in NVRAM", 8), "read from NVRAM")
        base.equal(box.count("memory_reads"), memory + 1, "of memory")
        disk.zero(600, 8)
        base.expect(not any(disk.read(596, 20)), "zeroes and holes")
        base.equal(counts(box, "read_hops", "read_bounces"), [hops, bounces], "no worker")
    box.away()


def bounced() -> None:
    base.step("memory that disks can't read into: by way of a buffer, if a disk is needed at all")
    box = Box(settings=NO_CACHE)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 1500, "at home")
        box.destaged()
        filled(disk, model, 100, 160, "in memory")
        queue = f"/sys/block/{os.path.basename(disk.node)}/queue/dma_alignment"
        with open(queue, encoding="ascii") as file:
            base.expect(int(file.read()) < 128, f"{queue}: this disk takes no odd memory")
        want = bytes(model.bytes)
        bounces = box.count("read_bounces")
        base.expect(read_into(disk, 110, 40, 260) == want[110 * 512 : 150 * 512], "NVRAM")
        base.equal(box.count("read_bounces"), bounces, "a copy goes anywhere")
        base.expect(read_into(disk, 0, 1500, 132) == want[: 1500 * 512], "NVRAM and data disk")
        base.expect(box.count("read_bounces") > bounces, "by way of a buffer")
        box.data.fail_part(1200, 1207)
        with base.refused("a bad place", errno.ENODATA):
            read_into(disk, 100, 1400, 132)
        base.expect(read_into(disk, 0, 1200, 132) == want[: 1200 * 512], "before it")
        box.data.heal()
    box.away()


def at_once() -> None:
    base.step("the pieces of a read are asked for at the same time")
    box = Box(settings=NO_CACHE)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 256, "at home")
        box.destaged()
        box.data.fail_writes()
        for n in range(16):
            filled(disk, model, n * 16, n * 16 + 8, "in the log")
        in_log_only(box, disk, model)
        # Whatever destages fails to write; a slow log alone shows the reads' way.
        box.log.slow(10)
        seconds = blk.timed(lambda: model.check(disk, "pieces"))
        alone = blk.timed(lambda: disk.read(0, 1))
        one = blk.timed(lambda: base.expect(
            disk.read(0, 256) == model.bytes[: 256 * blk.SECTOR], "32 pieces"))  # fmt: skip
        print(f"  a log piece {alone * 1e3:.1f} ms, 16 of them {one * 1e3:.1f} ms, "
              f"everything {seconds * 1e3:.0f} ms", flush=True)  # fmt: skip
        base.expect(one < 3 * alone, "they go one after the other")
        box.log.heal()
        box.data.heal()
    box.away()


def sense_of(disk: blk.Disk, sector: int, count: int) -> str:
    """What a READ(10) of the device is answered, as sg_raw says it."""
    cdb = ["28", "00", *(f"{sector >> n & 255:02x}" for n in (24, 16, 8, 0)), "00",
           f"{count >> 8:02x}", f"{count & 255:02x}", "00"]  # fmt: skip
    done = subprocess.run(
        ["sg_raw", "-r", str(count * 512), "-o", "/dev/null", disk.node, *cdb],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def compare_and_write(disk: blk.Disk, model: Model) -> None:
    """Of a block that can't be read; its lock is given back, else the next would hang."""
    for at in (600, 610):
        old = bytes(model.bytes[at * 512 : (at + 1) * 512])
        new = blk.pattern("compared", 1)
        done = subprocess.run(
            ["sg_compare_and_write", "--in=-", f"--lba={at}", "--num=1", "--verbose", disk.node],
            input=old + new, capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        said = done.stderr.decode(errors="replace")
        if at == 600:
            base.equal(done.returncode, 3, f"COMPARE AND WRITE of a bad block: exit code; {said}")
        else:
            base.equal(done.returncode, 0, f"COMPARE AND WRITE of a good one: exit code; {said}")
            model.put(at, new)


def errors() -> None:
    base.step("an error is of the sectors that can't be read, and a medium error")
    box = Box(settings=NO_CACHE)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 1024, "at home")
        box.destaged()
        box.data.fail_writes()
        filled(disk, model, 128, 384, "in the log")  # more than two segments
        in_log_only(box, disk, model)
        box.log.fail_part(RING, RING + 100 * PER)
        errors = box.count("log_read_errors")
        with base.refused("a piece in the log", errno.ENODATA):
            disk.read(200, 8)
        base.expect(box.count("log_read_errors") > errors, "it is counted")
        with base.refused("of many pieces one in the log", errno.ENODATA):
            disk.read(0, 512)
        base.expect(disk.read(0, 128) == model.bytes[: 128 * 512], "before it")
        base.expect(disk.read(384, 640) == model.bytes[384 * 512 : 1024 * 512], "behind it")
        said = sense_of(disk, 100, 60)
        for word in ("Medium Error", "Unrecovered read error", "Info fld=0x80"):
            base.expect(word.lower() in said.lower(), f"no {word!r}: {said}")
        filled(disk, model, 128, 256, "anew, in NVRAM")
        base.expect(disk.read(0, 256) == model.bytes[: 256 * 512], "NVRAM over it")
        box.data.fail_part(600, 600)
        box.log.heal()
        base.expect(disk.read(100, 500) == model.bytes[100 * 512 : 600 * 512], "the log is back")
        with base.refused("a piece of the data disk", errno.ENODATA):
            disk.read(100, 501)
        said = sense_of(disk, 400, 300)
        base.expect("medium error" in said.lower(), said)
        base.expect(disk.read(601, 400) == model.bytes[601 * 512 : 1001 * 512], "behind it")
        box.says("log ok", "the log to take writes again")
        compare_and_write(disk, model)
        base.expect(box.count("read_errors") >= 4, "they are counted")
        box.data.heal()
        box.says("log ok, data ok", "the disks to work")
        box.destaged()
        model.check(disk, "with both disks back")
    box.away()


mixed("dram:battery")
mixed("lab")
inline()
bounced()
at_once()
errors()
base.step("done")
