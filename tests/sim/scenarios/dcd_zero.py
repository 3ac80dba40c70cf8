# SPDX-License-Identifier: GPL-2.0-only
"""Discard, zeroes (UNMAP, WRITE SAME) and writes against a model, read from every place.

A sector can be in NVRAM, in the log, on the data disk, or known to be zero in each of them; every
round mixes them, and a read that crosses all of them is compared with the model.
"""

import random
from pathlib import Path

from dcdlab import Box, Model
from locklab import base, blk

ROUNDS = 12 if base.CHECKED else 60
FORGET = Path("/sys/module/dcd/parameters/test_forget_us")
LOAD_MS = 50
END = 4096  # sectors in use: small, so that everything overlaps


def act(disk: blk.Disk, model: Model, rng: random.Random, tag: str) -> str:
    first = rng.randrange(END)
    most = rng.choice((1, 8, 64, 300, 1500))
    count = min(rng.randint(1, most), END - first)
    kind = rng.choices(("write", "fua", "discard", "zero"), (6, 1, 2, 2))[0]
    if kind in ("write", "fua"):
        data = blk.pattern(tag, count)
        disk.write(first, data, fua=kind == "fua")
    else:
        data = bytes(count * blk.SECTOR)
        (disk.discard if kind == "discard" else disk.zero)(first, count)
    model.put(first, data)
    return kind


def reads(disk: blk.Disk, model: Model, rng: random.Random) -> None:
    for _ in range(20):
        first = rng.randrange(END)
        count = min(rng.choice((1, 7, 8, 100, 1000, 2048)), END - first)
        want = model.bytes[first * blk.SECTOR : (first + count) * blk.SECTOR]
        got = disk.read(first, count)
        if got != want:
            n = next(i for i in range(len(got)) if got[i] != want[i]) // blk.SECTOR
            raise base.Wrong(f"read of {count} at {first}: sector {first + n} isn't as the model's")


def churn(nvram: str) -> None:
    base.step(f"{nvram}: {ROUNDS} rounds of writes, discards and zeroes")
    rng = random.Random(f"zero {base.SEED} {nvram}")
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    done: dict[str, int] = {}
    held = False
    zeroes = discards = 0
    for session in range(3):
        cut = nvram == "lab" and session < 2
        with box.disk_until_cut() if cut else box.disk() as disk:
            for n in range(ROUNDS // 3):
                for step in range(rng.randint(1, 12)):
                    kind = act(disk, model, rng, f"{session} {n} {step}")
                    done[kind] = done.get(kind, 0) + 1
                if rng.random() < 0.4:
                    box.destaged()
                elif rng.random() < 0.3:
                    disk.flush()
                    base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
                held |= box.count("live") > 0
                reads(disk, model, rng)
            zeroes += box.count("zeroes")
            discards += box.count("discards")
            if rng.random() < 0.5:
                model.check(disk, "before the end")
        with box.disk() as disk:
            model.check(disk, f"after {'a cut' if cut else 'reopening'}")
    base.expect(zeroes, "WRITE SAME came")
    base.expect(discards, "UNMAP came")
    base.expect(held and len(done) == 4, f"not everything was tried: {done}")
    with box.disk() as disk:
        box.destaged()
    base.expect(
        box.data.bytes(0, END) == model.bytes[: END * blk.SECTOR], "the data disk has other bytes"
    )
    print(f"  {done}", flush=True)
    box.away()


def whole() -> None:
    base.step("the whole disk discarded, then used; more sectors than one entry's data could name")
    box = Box()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        disk.write(disk.sectors - 8, blk.pattern("last", 8))
        disk.write(0, blk.pattern("first", 8))
        box.destaged()
        disk.discard(0, disk.sectors)
        model.check(disk, "after the discard")
        disk.write(5000, blk.pattern("in the middle", 8))
        model.put(5000, blk.pattern("in the middle", 8))
        model.check(disk, "written to")
        box.destaged()
        model.check(disk, "destaged")
    with box.disk() as disk:
        model.check(disk, "reopened")
    box.away()


def write_same() -> None:
    base.step("WRITE SAME writes its block, zeroes or not, to each block of its range only")
    box = Box()
    with box.disk() as disk:
        data = blk.pattern("before", 16)
        disk.write(0, data)
        for block in (blk.pattern("the same", 1), bytes(512)):
            zeroes = box.count("zeroes")
            Path("/tmp/block").write_bytes(block)
            words = ("--16", "--lba=0", "--num=8", "--xferlen=512", "--in=/tmp/block")
            base.run("sg_write_same", *words, disk.node)
            base.expect(disk.read(0, 16) == 8 * block + data[4096:], "what it wrote")
            base.equal(box.count("zeroes") - zeroes, int(not any(block)), "records of zeroes")
    box.away()


def turns() -> None:
    base.step("writes have a turn between loads of zeroes that the index forgets")
    box = Box(data_mib=64)
    with box.disk() as disk:
        disk.discard(0, disk.sectors)
        base.put(FORGET, LOAD_MS * 1000)
        base.until(lambda: box.count("destaged_sectors"), "the zeroes to be on the data disk")
        took = blk.timed(lambda: disk.write(0, blk.pattern("between", 8)))
        rest = blk.timed(box.destaged)
        print(f"  {took * 1000:.0f} ms for a write, {rest * 1000:.0f} until all is forgotten")
        # It has its turn when the load that is being forgotten is, or the next.
        base.expect(took < 3 * LOAD_MS / 1000, "the write waited for many loads")
        base.expect(rest > 10 * LOAD_MS / 1000, "there were no loads to wait for")
        base.put(FORGET, 0)
    box.away()


write_same()
turns()
churn("dram:battery")
churn("lab")
whole()
base.step("done")
