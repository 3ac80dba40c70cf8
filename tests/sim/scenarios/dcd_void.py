# SPDX-License-Identifier: GPL-2.0-only
"""Writes that come to places of NVRAM which neither keep anything nor can be mended.

Such a write isn't acknowledged where it was put; so nothing of it may count, whenever the power is
cut: what was there before it is. And it is acknowledged in the end, from another place.
args [PART...]
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from dcdlab import SITE, TOOL, Box, Model, filled
from locklab import base, blk, lio, media
from locklab.scsi import Lun, write_scattered
from poisonlab import (
    ENTRIES,
    FIRST,
    HELD,
    PAYLOAD,
    PER_SLOT,
    TABLE,
    box_of,
    clears,
    poison,
    sector_of,
    slot_of,
)  # fmt: skip

SIZE = 8  # sectors of a write
LIVES, LAPS, SLOTS = (3, 3, 12) if base.CHECKED else (10, 4, 12)
WRITERS, BATCHERS = 4, 2
OWN = 400  # sectors that are one writer's
SHARED = range(6000, 6200)
BATCH = 9  # places of a batcher's
PLACES = range(8000, 8000 + BATCHERS * BATCH * 16, 16)


class Late(threading.Thread):
    """Something that isn't waited for."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.good = False
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError):
            self.good = self._work() is not False

    def ended(self) -> bool:
        self.join(600)
        base.expect(not self.is_alive(), "a write hangs")
        return self.good


@contextlib.contextmanager
def until_cut(box: Box) -> Iterator[tuple[blk.Disk, list[Late]]]:
    """The LUN, and who writes there yet when the power is cut, at the end."""
    late: list[Late] = []
    store = box.open()
    with lio.look(store) as node, blk.Disk(node) as disk:
        yield disk, late
        media.cut(SITE, base.SEED)
        for thread in late:
            thread.ended()
    box.close()
    box.power_on()


def logged(box: Box) -> None:
    base.until(lambda: " 0 in use" in box.info(), "the log to have it all")


def nothing_lost(box: Box) -> None:
    base.equal((box.count("nvram_lost"), box.count("lost_ranges")), (0, 0), "lost")


def goes_on(box: Box, model: Model, what: str) -> None:
    """It opens, has what the model has, and so it is after more writes and another cut."""
    with until_cut(box) as (disk, _):
        nothing_lost(box)
        model.check(disk, what)
        filled(disk, model, 3000, 3400, f"after {what}", SIZE)
    with box.disk() as disk:
        nothing_lost(box)
        model.check(disk, "and once more")
        box.set("destage_idle_ms=1")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def next_place(box: Box, model: Model, sector: int) -> int:
    """Where NVRAM puts what comes behind the write that ended before this sector."""
    return sector_of(box, bytes(model.bytes[(sector - SIZE) * blk.SECTOR :])) + SIZE


def unmended(box: Box, number: int = 1) -> None:
    base.until(lambda: box.count("nvram_unmended") >= number, "the place to be found")
    time.sleep(0.001)


def batch(disk: blk.Disk, ranges: list[tuple[int, int]], data: bytes) -> bool:
    with Lun(disk.node) as lun:
        cdb, head = write_scattered(ranges)
        return lun.command(cdb, head + data).good


def older() -> None:
    for where in ("NVRAM", "the log"):
        base.step(f"over what is in {where}; cut before it is tried again")
        box = box_of(HELD)
        with until_cut(box) as (disk, late):
            model = Model(disk.sectors)
            filled(disk, model, 0, 64, "older", SIZE)
            if where == "the log":
                logged(box)
                filled(disk, model, 1000, 1000 + 3 * SIZE, "next", SIZE)
                at = next_place(box, model, 1000 + 3 * SIZE)
            else:
                at = next_place(box, model, 64)
            clears(box, False)
            poison(box, at + 3)
            box.log.slow(3000)
            late.append(Late(partial(disk.write, 16, blk.pattern("void", SIZE))))
            unmended(box)
            late.append(Late(partial(disk.write, 32, blk.pattern("behind", SIZE))))
            time.sleep(0.001)
            base.expect(not late[0].good, "it was acknowledged")
        goes_on(box, model, f"over {where}")


def batches() -> None:
    base.step("one of a batch; cut before it is tried again")
    ranges = [(16 * n, SIZE) for n in range(5)]
    data = blk.pattern("batch", 5 * SIZE)
    box = box_of(HELD)
    with until_cut(box) as (disk, late):
        model = Model(disk.sectors)
        filled(disk, model, 0, 5 * SIZE, "older", SIZE)
        at = next_place(box, model, 5 * SIZE)
        clears(box, False)
        poison(box, at + 2 * SIZE + 1)
        box.log.slow(3000)
        late.append(Late(partial(batch, disk, ranges, data)))
        unmended(box)
    goes_on(box, model, "a batch")
    base.step("and acknowledged from another place")
    box = box_of(HELD)
    with until_cut(box) as (disk, _):
        model = Model(disk.sectors)
        filled(disk, model, 0, 5 * SIZE, "older", SIZE)
        at = next_place(box, model, 5 * SIZE)
        clears(box, False)
        poison(box, at + 2 * SIZE + 1)
        base.expect(batch(disk, ranges, data), "refused")
        for n, (lba, size) in enumerate(ranges):
            model.put(lba, data[n * size * blk.SECTOR : (n + 1) * size * blk.SECTOR])
    goes_on(box, model, "a batch from another place")


def table() -> None:
    """The entry itself can't be kept."""
    ranges = [(16 * n, SIZE) for n in range(6)]
    data = blk.pattern("batch", 6 * SIZE)
    for what, before, works in (
        ("the entry", ENTRIES, False), ("the entry", ENTRIES, True), ("the first entry", 0, True),
        ("a batch's", ENTRIES - 3, False), ("a batch's", ENTRIES - 3, True),
    ):  # fmt: skip
        base.step(f"{what}; {'tried again' if works else 'cut before it is tried again'}")
        box = box_of(HELD)
        with until_cut(box) as (disk, late):
            model = Model(disk.sectors)
            filled(disk, model, 0, 160, "older", SIZE)
            logged(box)
            filled(disk, model, 1000, 1000 + max(before, 1) * SIZE, "next", SIZE)
            first = slot_of(next_place(box, model, 1000 + SIZE))
            if not before:  # in the slot that comes then
                logged(box)
                first += PER_SLOT
            clears(box, False)
            poison(box, first + TABLE + bool(before))
            if not works:
                box.log.slow(3000)
            if what == "a batch's":
                late.append(Late(partial(batch, disk, ranges, data)))
            else:
                late.append(Late(partial(disk.write, 0, data)))
            unmended(box)
            time.sleep(0.5 if works else 0.001)
            base.equal(late[0].good, works, "acknowledged")
            for n in range(works * len(ranges)):
                part = data[n * SIZE * blk.SECTOR : (n + 1) * SIZE * blk.SECTOR]
                model.put(ranges[n][0] if what == "a batch's" else n * SIZE, part)
        goes_on(box, model, what)


class Writer(threading.Thread):
    """Writes what is its own, one thing after the other, and what is everybody's."""

    def __init__(self, node: str, number: int, name: str, cut: threading.Event) -> None:
        super().__init__(daemon=True)
        self._node, self._number, self._name, self._cut = node, number, name, cut
        self.sure: dict[int, bytes] = {}  # sector: what was acknowledged before the cut
        self.maybe: dict[int, set[bytes]] = {}  # later ones

    def run(self) -> None:
        rng = random.Random(f"void {base.SEED} {self._name}")
        with blk.Disk(self._node) as disk:
            while not self._cut.is_set():
                own = rng.random() < 0.7
                count = rng.choice((1, 2, 3, 8, 8, 24, 90, 150))
                first, size = (self._number * OWN, OWN) if own else (SHARED[0], len(SHARED))
                at = first + rng.randrange(size - count)
                zero = rng.random() < 0.15
                data = (
                    bytes(count * blk.SECTOR)
                    if zero
                    else blk.pattern(f"{self._name} {rng.random()}", count)
                )
                each = [data[n : n + blk.SECTOR] for n in range(0, len(data), blk.SECTOR)]
                if own:
                    for n, sector in enumerate(each):
                        self.maybe.setdefault(at + n, set()).add(sector)
                try:
                    if zero and own:
                        disk.zero(at, count)
                    elif zero:
                        disk.discard(at, count)
                    else:
                        disk.write(at, data)
                except OSError:
                    continue
                if own and not self._cut.is_set():
                    for n, sector in enumerate(each):
                        self.sure[at + n] = sector
                        self.maybe[at + n].clear()


class Batcher(threading.Thread):
    """Writes the same places again and again, together."""

    def __init__(self, node: str, number: int, first: int, cut: threading.Event) -> None:
        super().__init__(daemon=True)
        self._node, self._number, self._cut = node, number, cut
        self.places = list(PLACES[number::BATCHERS])
        self.tag = self.acknowledged = first

    def block(self, tag: int) -> bytes:
        return f"{self._number} {tag}".encode().ljust(blk.SECTOR, b".")

    def run(self) -> None:
        with blk.Disk(self._node) as disk:
            while not self._cut.is_set():
                self.tag += 1
                data = self.block(self.tag) * len(self.places)
                good = batch(disk, [(place, 1) for place in self.places], data)
                if good and not self._cut.is_set():
                    self.acknowledged = self.tag


class Life:
    """A DCD whose NVRAM gets worse, in places that have nothing which counts."""

    def __init__(self, number: int) -> None:
        self.box = box_of(slots=SLOTS)
        self.rng = random.Random(f"life {base.SEED} {number}")
        self.number = number
        self.tags = [0] * BATCHERS
        self.unmended = self.taken_back = 0
        self.spoiled: set[int] = set()  # slots

    def spoil(self) -> None:
        """Nothing is in NVRAM only."""
        rng = self.rng
        logged(self.box)
        clears(self.box, rng.random() < 0.1)
        for _ in range(rng.randrange(1, 4)):
            number = rng.randrange(SLOTS)
            if len(self.spoiled) > SLOTS - 5:
                number = rng.choice(sorted(self.spoiled))
            self.spoiled.add(number)
            slot = FIRST + number * PER_SLOT
            if rng.random() < 0.4:
                poison(self.box, slot + TABLE + rng.randrange(3))
            else:
                at = PAYLOAD + rng.randrange(PER_SLOT - PAYLOAD - 8)
                poison(self.box, slot + at, rng.choice((1, 1, 8)))

    def lap(self, lap: int) -> None:
        box, rng, cut = self.box, self.rng, threading.Event()
        under_load = rng.random() < 0.75
        box.settings = rng.choice(("", HELD, "destage_idle_ms=1,destage_low=0,destage_high=1"))
        store = box.open()
        with lio.look(store) as node, blk.Disk(node) as disk:
            for n in range(BATCHERS):
                batcher = Batcher(node, n, self.tags[n], cut)
                for place in batcher.places:
                    disk.write(place, batcher.block(self.tags[n]))
            self.spoil()
            way = rng.random()
            if way < 0.5:
                box.log.slow(rng.choice((1, 20, 300)))
            elif way < 0.65:
                box.log.fail_writes()
            before = disk.read(0, PLACES[-1] + 1)
            writers = [Writer(node, n, f"{self.number} {lap} {n}", cut) for n in range(WRITERS)]
            batchers = [Batcher(node, n, self.tags[n], cut) for n in range(BATCHERS)]
            threads = [*writers, *batchers]
            for thread in threads:
                thread.start()
            most = time.monotonic() + 0.5 * rng.random()
            while not box.count("nvram_unmended") and time.monotonic() < most:
                time.sleep(0.0002)
            time.sleep(rng.choice((0.0, 0.001, 0.01, 0.1)) * rng.random())
            self.unmended += box.count("nvram_unmended")
            self.taken_back += box.count("taken_back")
            cut.set()
            if under_load:
                media.cut(SITE, rng.randrange(1 << 30))
            for thread in threads:
                thread.join(600)
                base.expect(not thread.is_alive(), "a writer hangs")
            image = b"" if under_load else disk.read(0, PLACES[-1] + 1)
            if not under_load:
                media.cut(SITE, rng.randrange(1 << 30))
        box.close()
        box.power_on()
        if rng.random() < 0.2:
            base.run(TOOL, "recover", "--data", box.data.node, "--log", box.log.node, "--nvram",
                     box.view)  # fmt: skip
        with box.disk() as disk:
            nothing_lost(box)
            after = disk.read(0, PLACES[-1] + 1)
            if not under_load:
                base.expect(image == after, "the NVRAM's order is not the index's")
            for writer in writers:
                self.check(before, after, writer)
            for n, batcher in enumerate(batchers):
                self.check_batch(after, batcher)
                self.tags[n] = batcher.tag
            box.set("destage_idle_ms=1")
            box.destaged()
            base.expect(disk.read(0, PLACES[-1] + 1) == after, "from the data disk")

    @staticmethod
    def check(before: bytes, after: bytes, writer: Writer) -> None:
        for sector, later in writer.maybe.items():
            part = slice(sector * blk.SECTOR, (sector + 1) * blk.SECTOR)
            may = {writer.sure.get(sector, before[part])} | later
            base.expect(after[part] in may, f"sector {sector} has other bytes")

    @staticmethod
    def check_batch(after: bytes, batcher: Batcher) -> None:
        found = {
            after[p * blk.SECTOR : (p + 1) * blk.SECTOR].rstrip(b".").decode()
            for p in batcher.places
        }
        what = f"{batcher.acknowledged} acknowledged, {batcher.tag} begun: {found}"
        base.expect(len(found) == 1, f"a part of a batch is there: {what}")
        tag = int(found.pop().split()[1])
        base.expect(batcher.acknowledged <= tag <= batcher.tag, what)


def lives() -> None:
    base.step(f"{LIVES} lives with several writers")
    unmended = taken_back = 0
    for number in range(LIVES):
        life = Life(number)
        for lap in range(LAPS):
            life.lap(lap)
        unmended += life.unmended
        taken_back += life.taken_back
        life.box.away()
    print(f"  {unmended} places not mended, {taken_back} entries taken back", flush=True)
    base.expect(unmended >= LIVES and taken_back > LIVES, "too little of it happened")


PARTS = {"older": older, "batches": batches, "table": table, "lives": lives}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
