# SPDX-License-Identifier: GPL-2.0-only
"""A disk of the DCD is away for some seconds, and works again: that is found soon, however long the
destager's round takes that is under way, and no write is refused any more. Meanwhile an NVRAM that
keeps its content takes writes until it is full of them.

Args: the parts.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dcdlab import RING_START, SEGMENT, Box, Model
from locklab import base, blk

AWAY = 3.0
HALF = 0.45  # of the log: so much is live
SOON = 6  # seconds: a little more than a dead log isn't asked for
SLOW_MS = 200  # so a round takes half a minute
PAUSE = 0.05
SLOW_SEAL = 2.0  # what the clock lets a slot be open, when there is little room
BLOCK = 8  # sectors
LARGE = 112  # likewise: a segment each
BAD_BLOCKS, MANY = 1200, 400  # four times what there are spares for; writes behind them
WRITERS = 4
WAITED = 1.0  # seconds: a write that took longer has waited


@dataclass
class Write:
    at: float  # seconds since the disk was away
    took: float
    refused: bool


class Writer:
    """Writes blocks anywhere, and keeps what has to be there."""

    def __init__(self, box: Box, disk: blk.Disk, *, block: int = BLOCK) -> None:
        self._block = block
        self._disk, self._rng, self._n = disk, random.Random(base.SEED), 0
        self._refused: set[int] = set()
        self._begin = 0.0
        self.model = Model(box.data.sectors)
        self.writes: list[Write] = []

    def put(self, at: int | None = None) -> Write:
        self._n += 1
        if at is None:
            at = self._rng.randrange(self._disk.sectors // self._block) * self._block
        data = blk.pattern(f"{self._n}", self._block)
        began = time.monotonic()
        try:
            self._disk.write(at, data)
        except OSError:
            self._refused.add(at)  # what is there now nobody has promised
        else:
            self._refused.discard(at)
            self.model.put(at, data)
        took = time.monotonic() - began
        self.writes.append(Write(began - self._begin, took, at in self._refused))
        return self.writes[-1]

    def go_on(self, until: Callable[[], bool], seconds: float, pause: float = PAUSE) -> None:
        """From now on, once in a while."""
        self.writes, self._begin = [], time.monotonic()
        while not until():
            base.expect(time.monotonic() < self._begin + seconds, f"no end after {seconds} s")
            self.put()
            time.sleep(pause)

    def check(self, what: str) -> None:
        for at in sorted(self._refused):
            self.put(at)
        self.model.check(self._disk, what)

    def refused(self, since: float) -> list[Write]:
        return [write for write in self.writes if write.refused and write.at > since]

    def waited(self) -> list[Write]:
        return [write for write in self.writes if write.took > WAITED]


def half_full(box: Box, writer: Writer) -> None:
    """Then the destager's round takes long."""
    segments = int(box.info().split("log segments ")[1].split()[0])
    while box.count("live") < HALF * segments:
        writer.put()


def log_away(nvram: str, *, seconds: float = AWAY, reads: bool = False) -> None:
    base.step(f"{nvram}: the log takes no writes for {seconds} s, in a round of half a minute")
    box = Box(data_mib=64, nvram=nvram, nvram_bytes=4096 + 64 * SEGMENT, log_mib=16)
    with box.disk() as disk:
        writer = Writer(box, disk)
        half_full(box, writer)
        box.data.slow(SLOW_MS)
        (box.log.fail if reads else box.log.fail_writes)()
        threading.Timer(seconds, box.log.heal).start()
        began = time.monotonic()
        writer.go_on(lambda: "log FAILING" in box.info(), seconds)
        first = writer.writes
        writer.go_on(lambda: "log ok" in box.info(), 120)
        took = time.monotonic() - began - seconds
        base.expect(took < SOON, f"it worked for {took:.1f} s before that was found")
        writer.writes = [*first, *writer.writes]
        if nvram == "lab":
            base.equal(writer.refused(0), [], "writes that were refused")
            base.equal(writer.waited(), [], "writes that have waited")
        after = len(writer.writes)
        writer.go_on(lambda: len(writer.writes) > after, 30)
        base.equal(writer.refused(0), [], "writes that were refused afterwards")
        box.data.heal()
        writer.check("log away")
    with box.disk() as disk:
        writer.model.check(disk, "opened again")
    box.away()


def by_bytes() -> None:
    slots, fit = 16, (SEGMENT >> 12) - 4
    base.step(f"lab: a dead log, in a round of two minutes; {slots} slots take {fit} writes each")
    box = Box(data_mib=64, nvram="lab", nvram_bytes=4096 + slots * SEGMENT, log_mib=16)
    with box.disk() as disk:
        writer = Writer(box, disk)
        half_full(box, writer)
        box.data.slow(5 * SLOW_MS)
        box.log.fail_writes()
        rounds = box.count("rounds")
        writer.go_on(lambda: bool(writer.waited()), 120, SLOW_SEAL / 6)
        base.expect(box.count("rounds") < rounds + 3, "the rounds are too short for this")
        want, got = (slots - 2) * fit, len(writer.writes)
        base.expect(got > want, f"NVRAM is full after {got} writes, not {want}")
        box.data.heal()
        box.log.heal()
        box.says("log ok", "the log to work")
        writer.check("by bytes")
    box.away()


def both() -> None:
    slots, writes = 64, 400
    base.step(f"lab: log and data disk are away: {slots} slots take {writes} writes, some a slot")
    box = Box(nvram="lab", nvram_bytes=4096 + slots * SEGMENT, log_mib=8, data_mib=32)
    with box.disk() as disk:
        writer = Writer(box, disk)
        box.log.fail_writes()
        writer.put()
        box.says("log FAILING", "its failure")
        box.data.fail_writes()
        writer.go_on(lambda: len(writer.writes) == writes, 120)
        base.equal(writer.refused(0), [], "writes that were refused")
        box.log.heal()
        box.data.heal()
        box.says("log ok", "the log to work")
        writer.check("both away")
    box.away()


def both_blip(log_dead: bool) -> None:
    seconds = 0.3 if log_dead else 0.6
    base.step(f"lab: the data disk is away for {seconds} s, {log_dead=}; 8 slots, which fill up")
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, log_mib=8)
    with box.disk() as disk:
        writer = Writer(box, disk, block=LARGE)
        for _ in range(30):
            writer.put()
        box.destaged()
        box.log.fail_writes()
        if log_dead:
            writer.put()
            box.says("log FAILING", "its failure")
        box.data.fail()

        def back() -> None:
            box.data.heal()
            if not log_dead:
                box.log.heal()

        threading.Timer(seconds, back).start()
        writer.go_on(lambda: len(writer.writes) > 300, 60, PAUSE / 2)
        base.equal(len(writer.refused(0)), 0, "writes that were refused")
        box.log.heal()
        box.says("log ok", "the log to work")
        writer.check("both away for a moment")
    box.away()


def zone() -> None:
    base.step("dram: some places of the log refuse writes for good, and there aren't spares enough")
    box = Box(data_mib=64, log_mib=16, nvram="dram", nvram_bytes=4096 + 8 * SEGMENT)
    first = RING_START // blk.SECTOR + 20 * SEGMENT // blk.SECTOR
    with box.disk() as disk:
        writer = Writer(box, disk)
        box.log.refuse((first, first + 8 * BAD_BLOCKS - 1))
        writer.go_on(lambda: "log FAILING" in box.info(), 120)
        # It goes by place after place, each at the end of a round.
        writer.go_on(lambda: sum(not write.refused for write in writer.writes) > MANY, 120)
        box.log.heal()
        box.says("log ok", "the log to work")
        writer.check("zone")
    box.away()


def idle() -> None:
    base.step("lab: past a dead log what little is in NVRAM gets to the data disk without more")
    box = Box(nvram="lab")
    with box.disk() as disk:
        writer = Writer(box, disk)
        box.log.fail_writes()
        for _ in range(3):
            writer.put()
        box.says("log FAILING", "its failure")
        box.destaged()
        time.sleep(SOON)
        alone = box.data.bytes(0, box.data.sectors)
        base.expect(alone == writer.model.bytes, "the data disk lacks something")
        rounds = box.count("rounds")
        time.sleep(60)
        base.expect(box.count("rounds") < rounds + 15, "rounds without end")
    box.away()


def data_away(nvram: str, *, full: bool = False, seconds: float = 0.3) -> None:
    how = "with a full ring" if full else "the ring fills afterwards"
    base.step(f"{nvram}: the data disk is away for {seconds} s; {how}")
    box = Box(nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT, log_mib=3)
    with box.disk("destage_low=97,destage_high=98,destage_idle_ms=3600000") as disk:
        writer = Writer(box, disk, block=LARGE)
        while box.count("free") > 6:
            writer.put()
        box.data.fail()
        if full:
            threading.Timer(seconds, box.data.heal).start()
        box.set("destage_low=10,destage_high=50,destage_idle_ms=500")  # it is urgent now
        if not full:
            time.sleep(seconds)
            box.data.heal()
        for _ in range(500):
            writer.put()
        base.equal(writer.refused(0), [], "writes that were refused")
        slowest = max(write.took for write in writer.writes)
        base.expect(slowest < max(2 * seconds, 2), f"a write waited {slowest:.1f} s")
        writer.check("data away")
    box.away()


def amid() -> None:
    base.step("lab: the data disk is away for a second in a round that has been going on for ten")
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, log_mib=8, data_mib=64,
              data_model="spindle")  # fmt: skip
    stop = threading.Event()
    longest = [0.0] * WRITERS

    def write_on(number: int) -> None:
        rng = random.Random(f"{base.SEED} {number}")
        with blk.Disk(box_node) as mine:
            while not stop.is_set():
                at = BLOCK * rng.randrange(mine.sectors // BLOCK - BLOCK)
                took = blk.timed(partial(mine.write, at, blk.pattern(f"{number}", 64)))
                longest[number] = max(longest[number], took)

    with box.disk() as disk:
        box_node = disk.node
        writers = [threading.Thread(target=write_on, args=(n,)) for n in range(WRITERS)]
        for writer in writers:
            writer.start()
        time.sleep(10)
        rounds = box.count("rounds")
        box.data.blink(10, 1)
        time.sleep(20)
        stop.set()
        for writer in writers:
            writer.join()
        print(f"  {box.count('rounds') - rounds} rounds", flush=True)
        base.expect(max(longest) < 3, f"a write waited {max(longest):.1f} s")
        base.equal(box.count("write_errors"), 0, "writes that were refused")
        box.data.heal()
    box.away()


def data_dead() -> None:
    base.step("lab: the data disk fails for long, the ring is full: writes are refused")
    box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, log_mib=3)
    with box.disk() as disk:
        writer = Writer(box, disk)
        box.data.fail()
        while not writer.put().refused:
            pass
        first = writer.writes[-1].took
        base.expect(first < SOON, f"the first one after {first:.1f} s")
        writer.go_on(lambda: len(writer.writes) > 100, 60)
        base.expect(len(writer.refused(0)) > 90, "writes are taken")
        base.expect(max(write.took for write in writer.writes) < SOON, "a write waits for nothing")
        box.data.heal()
        box.says("data ok", "the data disk to work")
        writer.check("data dead")
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    "log-lab": lambda: log_away("lab"),
    "log-lab-blip": lambda: log_away("lab", seconds=1),
    "log-lab-reads": lambda: log_away("lab", reads=True),
    "log-dram:battery": lambda: log_away("dram:battery"),
    "log-none": lambda: log_away("none"),
    "bytes": by_bytes,
    "idle": idle,
    "both": both,
    "both-blip": lambda: both_blip(log_dead=False),
    "both-blip-dead": lambda: both_blip(log_dead=True),
    "zone": zone,
    "amid": amid,
    "data-lab": lambda: data_away("lab"),
    "data-none": lambda: data_away("none"),
    "data-dram:battery": lambda: data_away("dram:battery"),
    "data-full": lambda: data_away("lab", full=True),
    "data-long": lambda: data_away("lab", seconds=4),
    "data-dead": data_dead,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
