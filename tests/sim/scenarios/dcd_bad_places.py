# SPDX-License-Identifier: GPL-2.0-only
"""Bad places of the data disk under load: the ring isn't filled, nobody refused, nothing lost.

Args: the parts, of which without any all are run.
"""

import concurrent.futures
import random

from dcdlab import SEGMENT, Box, Model, filled
from locklab import base, blk

PARTS = ((100, 107), (5000, 5040), (9001, 9001))
RING = 32  # MiB


def load(disk: blk.Disk, model: Model, rng: random.Random, mib: float, tag: str) -> None:
    """So much, at random, over everything."""
    left, n = int(mib * 2048), 0
    while left > 0:
        count = 8 * rng.choice((1, 1, 2, 8))
        first = 8 * rng.randrange((disk.sectors - count) // 8)
        n += 1
        data = blk.pattern(f"{tag} {n}", count)
        disk.write(first, data)
        model.put(first, data)
        left -= count


def over_them(disk: blk.Disk, model: Model, tag: str) -> None:
    for first, last in PARTS:
        filled(disk, model, first // 8 * 8, (last // 8 + 1) * 8, tag, 16)


def goes_on(box: Box, disk: blk.Disk, model: Model, what: str) -> None:
    for first, last in PARTS:
        want = bytes(model.bytes[first * blk.SECTOR : (last + 1) * blk.SECTOR])
        base.expect(disk.read(first, last + 1 - first) == want, f"{what}: sectors {first} on")
    free = box.count("free")
    print(f"  {what}: {free} segments free, {box.count('logged_again')} logged again", flush=True)
    base.expect(free > (RING << 20) // SEGMENT // 4, f"{what}: the ring fills up: {box.info()}")


def under_load(nvram: str) -> None:
    base.step(f"{nvram}: three bad places under a load of four times the ring, a cut, once more")
    rng = random.Random(f"bad places {base.SEED} {nvram}")
    box = Box(data_mib=16, log_mib=RING + 1, nvram=nvram, nvram_bytes=4096 + 16 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk_until_cut() if nvram != "dram:battery" else box.disk() as disk:
        box.data.fail_parts(*PARTS)
        over_them(disk, model, "over the bad places")
        load(disk, model, rng, 4 * RING, "load")
        over_them(disk, model, "over the bad places, again")
        load(disk, model, rng, RING, "more")
        goes_on(box, disk, model, "under load")
        base.expect("data FAILING" in box.info(), box.info())
        base.expect(box.count("bad_places") >= 3, box.info())
        stuck = box.count("stuck_sectors")
        base.expect(0 < stuck <= 16 + 48 + 8, f"{stuck} sectors are said to be stuck")
        base.expect(box.count("write_errors") + box.count("busy") == 0, "writes were refused")
    box.data.fail_parts(*PARTS)
    with box.disk() as disk:
        for first, last in PARTS:
            want = bytes(model.bytes[first * blk.SECTOR : (last + 1) * blk.SECTOR])
            base.expect(disk.read(first, last + 1 - first) == want, f"sectors {first} on, opened")
        load(disk, model, rng, 2 * RING, "opened")
        goes_on(box, disk, model, "opened again")
        box.data.heal()
        box.destaged()
        base.expect("data ok" in box.info() and box.count("stuck_sectors") == 0, box.info())
        base.expect(box.count("bad_mended") > 0, box.info())
        model.check(disk, "mended")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk has others")
    box.away()


def zeroes() -> None:
    base.step("zeroes and discards over a bad place")
    rng = random.Random(f"bad places {base.SEED} zeroes")
    box = Box(data_mib=16, log_mib=RING + 1, nvram="lab", nvram_bytes=4096 + 16 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, disk.sectors, "before", 512)
        box.destaged()
        box.data.fail_parts((1003, 1010), (20000, 20300))
        disk.zero(512, 2048)
        model.put(512, bytes(2048 * blk.SECTOR))
        disk.discard(16384, 8192)
        model.put(16384, bytes(8192 * blk.SECTOR))
        for n in range(12):
            load(disk, model, rng, RING / 4, f"over zeroes {n}")
            disk.zero(1000, 16)
            model.put(1000, bytes(16 * blk.SECTOR))
            disk.discard(19968, 512)
            model.put(19968, bytes(512 * blk.SECTOR))
        base.expect(box.count("free") > 128, f"the ring fills up: {box.info()}")
        base.expect(disk.read(1000, 16) == bytes(16 * blk.SECTOR), "zeroes over a bad place")
        base.expect(disk.read(19968, 512) == bytes(512 * blk.SECTOR), "a discard over one")
        box.data.heal()
        box.destaged()
        model.check(disk, "mended")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk has others")
    box.away()


def scattered() -> None:
    base.step("small ones all over a slow disk, found when the ring is nearly full")
    box = Box(data_mib=64, log_mib=17, nvram="lab", nvram_bytes=4096 + 8 * SEGMENT)
    with box.disk() as disk:
        apart = disk.sectors // 60 // 8 * 8
        parts = [(n * apart + 64, n * apart + 71) for n in range(60)]
        box.data.fail_parts(*parts, slow_ms=100)
        for first, _ in parts:
            disk.write(first, blk.pattern(f"over {first}", 8))

        def writer(number: int) -> int:
            rng = random.Random(f"{base.SEED} {number}")
            with blk.Disk(disk.node) as mine:
                for n in range(400):
                    count = 8 * rng.choice((1, 1, 2, 8))
                    first = 8 * rng.randrange((mine.sectors - count) // 8)
                    if not any(first <= last and at < first + count for at, last in parts):
                        mine.write(first, blk.pattern(f"{number} {n}", count))
            return number

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(writer, range(8)))
        base.expect(box.count("stuck_ranges") == 60, box.info())
        base.expect(box.count("write_errors") + box.count("busy") == 0, box.info())
        for first, _ in parts:
            base.expect(disk.read(first, 8) == blk.pattern(f"over {first}", 8), f"sector {first}")
        box.data.heal()
        box.destaged()
    box.away()


def too_many() -> None:
    base.step("more than the bound: what is above it stays, the ring fills, writes are refused")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.data.fail_parts((0, 999))
        filled(disk, model, 0, 1000, "a thousand sectors", 8)
        refused = 0
        for n in range(200):
            data = blk.pattern(f"others {n}", 64)
            try:
                disk.write(2000 + 64 * (n % 50), data)
            except OSError:
                refused += 1
                data = disk.read(2000 + 64 * (n % 50), 64)
            model.put(2000 + 64 * (n % 50), data)
        base.expect(refused, "the ring has room for everything?")
        stuck = box.count("stuck_sectors")
        print(f"  {refused} refused, {stuck} sectors stuck", flush=True)
        base.expect(0 < stuck <= 32 * 128 // 16, "the bound")
        box.data.heal()
        box.destaged()
        model.check(disk, "mended")
    box.away()


ALL = {
    "lab": lambda: under_load("lab"),
    "none": lambda: under_load("none"),
    "battery": lambda: under_load("dram:battery"),
    "zeroes": zeroes,
    "scattered": scattered,
    "many": too_many,
}
for name in base.words(1, ALL) or ALL:
    ALL[name]()
base.step("done")
