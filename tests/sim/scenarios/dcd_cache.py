# SPDX-License-Identifier: GPL-2.0-only
"""The read cache: what it has, what makes it stale, what it leaves to the disks, when it gives."""

import contextlib
import errno
import random
import threading
import time
from pathlib import Path

from dcdlab import SEGMENT, Box, Model, filled
from locklab import base, blk, faults

BLOCK = 8  # sectors
EDGE = 2048  # likewise, of a region
READERS = 4
ROUNDS = 50 if base.CHECKED else 120  # of each of them


class Delta:
    """By how much counters have grown since."""

    def __init__(self, box: Box, *names: str) -> None:
        self._box, self._before = box, {name: box.count(name) for name in names}

    def __call__(self, name: str) -> int:
        return self._box.count(name) - self._before[name]


def right(disk: blk.Disk, model: Model, first: int, count: int, what: str) -> None:
    want = model.bytes[first * blk.SECTOR : (first + count) * blk.SECTOR]
    base.expect(disk.read(first, count) == want, f"{what}: sectors from {first} on")


def put(disk: blk.Disk, model: Model, first: int, tag: str, count: int) -> None:
    data = blk.pattern(tag, count)
    disk.write(first, data)
    model.put(first, data)


def out_of_memory_slots(box: Box, disk: blk.Disk, model: Model) -> None:
    """What was written before is in no slot of the NVRAM any more."""
    filled(disk, model, 12000, 12000 + 5 * (SEGMENT // blk.SECTOR), "in the slots")
    base.until(lambda: " 0 in use" in box.info(), "all to be in the log")


def hits() -> None:
    base.step("what was read once is there: of the data disk, of the log, in any pieces")
    box = Box(data_mib=16)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 1024, "at home")
        box.destaged()
        now = Delta(box, "cache_hits", "cache_misses", "data_pieces", "log_pieces", "read_hops")
        for n in range(3):
            right(disk, model, 64, 64, f"read {n}")
        base.equal(
            (now("cache_hits"), now("cache_misses"), now("data_pieces")), (2, 1, 1), "pieces"
        )
        right(disk, model, 66, 3, "a part of a block")
        right(disk, model, 60, 70, "with what is at both sides")
        base.equal((now("cache_hits"), now("data_pieces")), (3, 2), "a miss goes on to its end")
        right(disk, model, 60, 70, "now all of it")
        right(disk, model, 203, 2, "some sectors of a block")
        right(disk, model, 205, 1, "others")
        right(disk, model, 203, 3, "all of them")
        base.equal((now("cache_hits"), now("data_pieces")), (5, 4), "blocks have parts")

        box.data.fail_writes()
        put(disk, model, 512, "in the log", 16)
        out_of_memory_slots(box, disk, model)
        now = Delta(box, "cache_hits", "log_pieces", "read_hops")
        for n in range(3):
            right(disk, model, 508, 24, f"log and data, read {n}")
        base.equal((now("log_pieces"), now("read_hops")), (1, 1), "the log is read once")
        base.expect(now("cache_hits") >= 6, "both are there")
        now = Delta(box, "cache_hits", "cache_destaged", "data_pieces", "log_pieces")
        box.data.heal()
        box.destaged()
        base.expect(now("cache_destaged") >= 2, "the log's blocks are the data disk's")
        right(disk, model, 508, 24, "destaged meanwhile")
        base.equal((now("data_pieces"), now("log_pieces")), (0, 0), "and are there still")
        model.check(disk, "in the end")
    box.away()


def stale() -> None:
    base.step("what is written over it is read at once, and after it was destaged")
    box = Box(data_mib=16)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 1024, "at home")
        box.destaged()
        model.check(disk, "kept")
        now = Delta(box, "cache_stale", "cache_hits")
        put(disk, model, 64, "a block", 8)
        put(disk, model, 83, "a sector", 1)
        put(disk, model, 100, "over two blocks", 9)
        disk.zero(200, 21)
        model.put(200, bytes(21 * blk.SECTOR))
        disk.discard(304, 100)
        model.put(304, bytes(100 * blk.SECTOR))
        for n in range(2):
            right(disk, model, 0, 512, f"not destaged yet, {n}")
        box.destaged()
        base.expect(now("cache_stale") >= 18, f"{now('cache_stale')} blocks are stale")
        for n in range(2):
            right(disk, model, 0, 512, f"destaged, {n}")
        base.expect(now("cache_hits") > 0, "the rest is there still")
        # The same blocks again and again: in NVRAM, in the log, on the data disk.
        for n in range(12):
            put(disk, model, 64 + n % 5, f"again {n}", 6)
            if n % 3 == 1:
                out_of_memory_slots(box, disk, model)
            right(disk, model, 56, 32, f"round {n}")
            if n % 3 == 2:
                box.destaged()
            right(disk, model, 56, 32, f"round {n}, again")
        model.check(disk, "in the end")
    box.away()


class Reading(threading.Thread):
    def __init__(self, node: str, first: int, count: int) -> None:
        super().__init__()
        self._node, self._first, self._count = node, first, count
        self.got = b""

    def run(self) -> None:
        with blk.Disk(self._node, write=False) as disk:
            self.got = disk.read(self._first, self._count)


def race(kind: str) -> None:
    base.step(f"{kind}: an answer of the data disk that is older than what was destaged since")
    box = Box(data_mib=16, settings="destage_idle_ms=1")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 64, "old")
        box.destaged()
        old = bytes(model.bytes[: 16 * blk.SECTOR])
        # One read: its first block is read at once, but it ends with its second one.
        box.data.slow_reads_of(8, 15, 5000)
        now = Delta(box, "cache_late", "cache_misses")
        reading = Reading(disk.node, 0, 16)
        reading.start()
        base.until(lambda: now("cache_misses") == 1, "the read to be under way")
        if kind == "write":
            put(disk, model, 0, "new", 8)
        elif kind == "zero":
            disk.zero(0, 8)
            model.put(0, bytes(4096))
        else:
            disk.discard(0, 8)
            model.put(0, bytes(4096))
        box.destaged()
        base.expect(reading.is_alive(), "the read has ended before the race")
        reading.join(60)
        base.expect(reading.got == old, "it has the old bytes, as it may")
        box.data.heal()
        for n in range(2):
            right(disk, model, 0, 64, f"afterwards, {n}")
        base.equal(now("cache_late"), 2, "blocks that came late")
    box.away()


def race_at_an_edge() -> None:
    base.step("likewise, over two of the regions that have a time, the first one in memory")
    box = Box(data_mib=16, settings="destage_idle_ms=1")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, EDGE, EDGE + 64, "old", 64)
        box.destaged()
        filled(disk, model, EDGE - 8, EDGE, "before it", 8)
        box.destaged()
        right(disk, model, EDGE - 8, 8, "it is in the cache")
        box.data.slow_reads_of(EDGE + 8, EDGE + 15, 5000)
        now = Delta(box, "cache_late", "cache_misses")
        reading = Reading(disk.node, EDGE - 8, 24)
        reading.start()
        base.until(lambda: now("cache_misses") == 1, "the read to be under way")
        put(disk, model, EDGE, "new", 8)
        box.destaged()
        base.expect(reading.is_alive(), "the read has ended before the race")
        reading.join(60)
        box.data.heal()
        for n in range(2):
            right(disk, model, EDGE - 8, 64, f"at the edge, {n}")
        base.equal(now("cache_late"), 2, "blocks that came late")
    box.away()


def sequences() -> None:
    base.step("a long sequence leaves nothing but its beginning, and takes what it finds")
    box = Box(data_mib=16)
    model = Model(box.data.sectors)
    rng = random.Random(f"sequences {base.SEED}")
    with box.disk() as disk:
        filled(disk, model, 0, 8192, "at home", 128)
        box.destaged()
        right(disk, model, 6000, 8, "a block in its way")
        now = Delta(box, "cache_misses", "cache_bypassed", "cache_hits", "data_pieces")
        for at in range(0, 8192, 128):
            right(disk, model, at, 128, "sequence")
        base.equal((now("cache_misses"), now("cache_hits")), (8, 0), "of the first 512 KiB")
        base.equal(now("cache_bypassed"), 56, "reads that went by")
        base.expect(used(box) < 600 << 10, f"{used(box)} bytes kept")
        for at in range(0, 4096, 128):  # two, and random reads between them
            right(disk, model, at, 128, "sequence")
            right(disk, model, at + 4096, 128, "another one")
            right(disk, model, rng.randrange(1023) * BLOCK, BLOCK, "a random one")
        base.expect(now("cache_bypassed") >= 56 + 40, f"{now('cache_bypassed')} went by")
        base.equal(now("cache_hits") >= 8, True, "what is there is used")
        before = used(box)
        right(disk, model, 2000, 1100, "one that is long by itself")
        base.equal(used(box), before, "bytes kept")
        model.check(disk, "all")
    box.away()


def bound() -> None:
    base.step("its bound is kept, what was read last is kept, and the bound may change")
    box = Box(data_mib=16, settings="read_cache_bytes=1048576")
    model = Model(box.data.sectors)
    rng = random.Random(f"bound {base.SEED}")
    with box.disk() as disk:
        filled(disk, model, 0, 16384, "at home", 128)
        box.destaged()
        hot = [rng.randrange(2000) * BLOCK for _ in range(20)]
        now = Delta(box, "cache_evicted")
        for n in range(1200):
            right(disk, model, rng.randrange(16384 // BLOCK) * BLOCK, BLOCK, f"read {n}")
            right(disk, model, hot[n % len(hot)], BLOCK, f"hot read {n}")
            if n % 50 == 0:
                base.expect(used(box) <= 1 << 20, f"{used(box)} bytes")
        base.expect(used(box) > 1000 << 10, f"only {used(box)} bytes")
        base.expect(now("cache_evicted") > 500, "blocks have to go")
        now = Delta(box, "data_pieces")
        for at in hot:
            right(disk, model, at, BLOCK, "hot")
        base.equal(now("data_pieces"), 0, "what was read last stays")
        box.set("read_cache_bytes=0")
        base.equal(used(box), 0, "bytes, switched off")
        for at in hot:
            right(disk, model, at, BLOCK, "without")
        base.equal((used(box), now("data_pieces")), (0, len(hot)), "all from the disk")
        box.set(f"read_cache_bytes={4 << 20}")
        for n in range(2):
            right(disk, model, 0, 512, f"on again, {n}")
        base.expect(used(box) > 500 << 9, "and is filled")
        with base.refused("no number", errno.EINVAL):
            box.set("read_cache_bytes=many")
    box.away()


def used(box: Box) -> int:
    assert box.store
    return int(box.store.attribute("stat_cache_used"))


def shrinks() -> None:
    base.step("the kernel wants memory: it is given back, and for a while no more is taken")
    box = Box(data_mib=16)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 8192, "at home", 128)
        box.destaged()
        for at in range(0, 8192, 16):
            right(disk, model, at * 5 % 8192, 8, "fill")
        full = used(box)
        base.expect(full > 1 << 20, f"{full} bytes")
        now = Delta(box, "cache_shrunk", "cache_nomem")
        for _ in range(20):
            base.put(Path("/proc/sys/vm/drop_caches"), 2)
        base.expect(now("cache_shrunk") > 0 and used(box) < full // 2, f"{used(box)} of {full}")
        left = used(box)
        right(disk, model, 4099, 20, "now")
        base.expect(used(box) <= left and now("cache_nomem") > 0, "nothing is taken")
        time.sleep(1.5)
        right(disk, model, 4099, 20, "later")
        base.expect(used(box) > left, "taken again")
        model.check(disk, "all")
    box.away()


def errors() -> None:
    base.step("reads that fail leave nothing; without memory they are done all the same")
    box = Box(data_mib=16)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 2048, "at home")
        box.destaged()
        right(disk, model, 96, 8, "kept")
        before = used(box)
        box.data.fail_part(100, 200)
        for _ in range(2):
            with base.refused("a bad place", errno.ENODATA):
                disk.read(104, 64)
        base.equal(used(box), before, "bytes")
        right(disk, model, 96, 8, "what is there needs no disk")
        box.data.heal()
        right(disk, model, 64, 256, "healed")
        box.data.fail_part(100, 200)
        right(disk, model, 64, 256, "kept meanwhile")
        box.data.heal()
        now = Delta(box, "cache_nomem")
        with faults.no_memory(every=3):
            for n in range(100):
                right(disk, model, 300 + n * 16, 8 + n % 32, f"without memory, {n}")
        base.expect(now("cache_nomem") > 0, "memory was always there: nothing was tested")
        model.check(disk, "all")
    box.away()


class Owner(threading.Thread):
    """Reads anything, writes its own sectors (two in a row of each block) and knows them."""

    def __init__(self, node: str, number: int, sectors: int) -> None:
        super().__init__()
        self._node, self._number, self._sectors = node, number, sectors
        self._mine: dict[int, bytes] = {}
        self.wrong = ""
        self.reads = 0

    def _write(self, disk: blk.Disk, rng: random.Random, n: int) -> None:
        first = rng.randrange(self._sectors // BLOCK) * BLOCK + 2 * self._number
        kind = rng.choices(("write", "zero", "discard"), (8, 1, 1))[0]
        data = blk.pattern(f"{self._number} {n}", 2) if kind == "write" else bytes(1024)
        if kind == "write":
            disk.write(first, data)
        elif kind == "zero":
            disk.zero(first, 2)
        else:
            disk.discard(first, 2)
        self._mine[first], self._mine[first + 1] = data[:512], data[512:]

    def _read(self, disk: blk.Disk, rng: random.Random) -> None:
        count = rng.choice((1, 2, 8, 8, 8, 8, 16, 40))
        first = rng.randrange(self._sectors - count)
        if rng.random() < 0.7:  # the hot part
            first = first % 256
        got = disk.read(first, count)
        self.reads += 1
        for n in range(count):
            sector = first + n
            if sector % BLOCK // 2 != self._number:
                continue
            if got[n * 512 : n * 512 + 512] != self._mine.get(sector, bytes(512)):
                self.wrong = f"{self._number}: sector {sector} isn't what was written"
                return

    def run(self) -> None:
        rng = random.Random(f"cache {base.SEED} {self._number}")
        with blk.Disk(self._node) as disk:
            for n in range(ROUNDS):
                if self.wrong:
                    return
                self._write(disk, rng, n)
                for _ in range(rng.choice((1, 2, 6))):
                    self._read(disk, rng)
                if rng.random() < 0.05:
                    time.sleep(rng.random() / 10)  # destage gets somewhere


def shared(nvram: str) -> None:
    base.step(f"{nvram}: {READERS} readers and writers of the same blocks, destaged all the time")
    box = Box(
        data_mib=16, data_model="spindle", nvram=nvram, nvram_bytes=4096 + 3 * SEGMENT,
        settings="destage_idle_ms=1,destage_low=0,read_cache_bytes=262144",
    )  # fmt: skip
    with box.disk() as disk:
        names = ("cache_hits", "cache_late", "cache_stale", "cache_evicted", "cache_destaged")
        now = Delta(box, *names)
        owners = [Owner(disk.node, n, 2048) for n in range(READERS)]
        for owner in owners:
            owner.start()
        for owner in owners:
            owner.join(3600)
            base.expect(not owner.is_alive() and not owner.wrong, owner.wrong or "hangs")
            base.expect(owner.reads > ROUNDS, "it has ended too early")
        told = ", ".join(f"{now(name)} {name}" for name in names)
        print(f"  {sum(owner.reads for owner in owners)} reads; {told}", flush=True)
        for name in names[:1] if base.CHECKED else names[:4]:
            base.expect(now(name) > 0, f"no {name}: little was tested")
    box.away()


def removed() -> None:
    base.step("the LUN goes away while blocks are being read")
    box = Box(data_mib=16)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 4096, "at home")
        box.destaged()
        box.data.slow_reads_of(0, 4095, 300)
        stop = threading.Event()

        def read(first: int) -> None:
            with contextlib.suppress(OSError):
                n = 0
                while not stop.is_set():
                    disk.read((first + 16 * n) % 4088, 8)
                    n += 1

        threads = [threading.Thread(target=read, args=(512 * n,)) for n in range(6)]
        now = Delta(box, "cache_misses")
        for thread in threads:
            thread.start()
        base.until(lambda: now("cache_misses") >= 6, "reads to be under way")
    stop.set()
    for thread in threads:
        thread.join(60)
        base.expect(not thread.is_alive(), "a reader hangs")
    box.data.heal()
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


hits()
stale()
for kind in ("write", "zero", "discard"):
    race(kind)
race_at_an_edge()
sequences()
bound()
shrinks()
errors()
shared("dram:battery")
shared("lab")
removed()
base.step("done")
