# SPDX-License-Identifier: GPL-2.0-only
"""Large reads of what was written at random, and is only in the log yet: each needs hundreds of
places of a spindle. They have it in turns (read.h): all end, and small ones don't wait for them.

  many    more of them at once than the disk has done by busy_after_ms
  beside  likewise, and smaller reads of the log, and of the data disk
  on      likewise, and who has read an area goes on with another one
  hung    one is of places that don't answer: others have their turn all the same

Arguments: the parts.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Iterator

from dcdlab import RING_START, SEGMENT, Box
from locklab import base, blk

PIECE, FEW, READ = 8, 128, 2048  # sectors
READERS = 28
# One write between each two, so that what is read together is far apart.
FILL, FILLS_AT = 160, 256 << 11
SPARE = 1200 << 11  # never written
HANGS_MS = 60_000
# What the first of many takes, and a place of the spindle, with some to spare.
FIRST_S, SMALL_S = 2.0, 2.0
# A read itself, and DCD_TURN_STALL.
TURN_S = 1.0
# Of readers that go on: for so long, and what one waits, which is a round of them and what is done
# twice, as its time was over amid it.
ON_S, ROUND_S = 80.0, 40.0


class Scattered:
    """A DCD whose log has READERS times a MiB, each of 4 KiB pieces all over it."""

    def __init__(self) -> None:
        self.box = Box(nvram="lab", data_mib=1408, data_model="spindle", log_mib=4600,
                       log_model="spindle", nvram_bytes=4096 + 64 * SEGMENT)  # fmt: skip
        self._over = threading.Event()

    @contextlib.contextmanager
    def open(self, areas: int, *, ordered: bool = False) -> Iterator[blk.Disk]:
        """It is never idle, so that all stays in the log. `ordered`: an area is behind another."""
        with self.box.disk() as disk:
            places = list(range(0, areas * READ, PIECE))
            if not ordered:
                random.Random(base.SEED).shuffle(places)
            writer = threading.Thread(target=self._always, args=(disk.node,))
            writer.start()
            threads = [threading.Thread(target=self._write, args=(disk.node, places[n::16]))
                       for n in range(16)]  # fmt: skip
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            yield disk
            self._over.set()
            writer.join()
        self.box.away()

    def _write(self, node: str, places: list[int]) -> None:
        with blk.Disk(node) as disk:
            for place in places:
                disk.write(place, blk.pattern(f"at {place}", PIECE))
                at = FILLS_AT + place // PIECE * FILL % (900 << 11)
                disk.write(at, blk.pattern("fill", FILL))

    def _always(self, node: str) -> None:
        with blk.Disk(node) as disk:
            while not self._over.is_set():
                disk.write(FILLS_AT - PIECE, blk.pattern("always", PIECE))
                time.sleep(0.05)


class Reader(threading.Thread):
    """One area, and how long its read took."""

    def __init__(self, node: str, area: int) -> None:
        super().__init__()
        self.took, self.error = 0.0, ""
        self._node, self._area = node, area
        self.start()

    def run(self) -> None:
        began, first = time.monotonic(), self._area * READ
        with blk.Disk(self._node) as disk:
            try:
                got = disk.read(first, READ)
                want = b"".join(blk.pattern(f"at {n}", PIECE)
                                for n in range(first, first + READ, PIECE))  # fmt: skip
                self.error = "" if got == want else "other data"
            except OSError as error:
                self.error = str(error)
        self.took = time.monotonic() - began


def ended(readers: list[Reader]) -> list[float]:
    for reader in readers:
        reader.join()
        base.equal(reader.error, "", "what a large read ended with")
    times = sorted(reader.took for reader in readers)
    print(f"  {len(times)} large reads: {', '.join(f'{t:.1f}' for t in times)} s", flush=True)
    return times


def many() -> None:
    base.step(f"{READERS} large reads at once of what is all over the log")
    one = Scattered()
    with one.open(READERS) as disk:
        times = ended([Reader(disk.node, area) for area in range(READERS)])
        base.expect(times[0] < FIRST_S, f"the first one took {times[0]:.1f} s")
        base.expect(times[-1] > 10, "they are to take longer than busy_after_ms")
        base.expect(one.box.count("read_turns") > 0, "some are to have waited")
        given_up = one.box.count("reads_given_up")
        base.expect(given_up <= 3, f"{given_up} were given up while the log was at them")


def beside() -> None:
    base.step("smaller reads beside them, of the log and of the data disk")
    one = Scattered()
    rng = random.Random(base.SEED)
    with one.open(READERS) as disk:
        readers = [Reader(disk.node, area) for area in range(READERS)]
        worst = dict.fromkeys(("a page of the log", "64 KiB of the log", "the data disk"), 0.0)
        while any(reader.is_alive() for reader in readers):
            for (what, old), at, sectors in zip(worst.items(), (
                rng.randrange(READERS * READ // PIECE) * PIECE,
                rng.randrange(READERS * READ // FEW) * FEW,
                SPARE + rng.randrange(1000) * PIECE,
            ), (PIECE, FEW, PIECE), strict=True):  # fmt: skip
                began = time.monotonic()
                disk.read(at, sectors)
                worst[what] = max(old, time.monotonic() - began)
            time.sleep(0.05)
        print(f"  the longest: {worst}", flush=True)
        ended(readers)
        for what, took in worst.items():
            base.expect(took < SMALL_S, f"a read of {what} took {took:.1f} s")


def on() -> None:
    base.step(f"{READERS} that read one area after the other")
    one = Scattered()
    counts, longest = [0] * READERS, [0.0] * READERS
    with one.open(READERS) as disk:
        until = time.monotonic() + ON_S

        def go_on(n: int) -> None:
            while time.monotonic() < until:
                reader = Reader(disk.node, (n + counts[n]) % READERS)
                reader.join()
                base.equal(reader.error, "", "what a large read ended with")
                counts[n] += 1
                longest[n] = max(longest[n], reader.took)

        threads = [threading.Thread(target=go_on, args=(n,)) for n in range(READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"  reads of each: {counts}; the longest took {max(longest):.1f} s", flush=True)
        base.expect(one.box.count("busy") > 0, "their time is to be over now and then")
        base.expect(max(longest) < ROUND_S, f"one waited {max(longest):.1f} s, others less")


def hung() -> None:
    base.step("a large read of places of the log that don't answer, and others")
    one = Scattered()
    with one.open(4, ordered=True) as disk:
        # The first area is in the first of the segments, and with the fills it is 21 MiB there.
        first = RING_START // blk.SECTOR
        one.box.log.slow_reads_of(first, first + (16 << 11), HANGS_MS)
        hangs = Reader(disk.node, 0)
        time.sleep(0.2)
        times = ended([Reader(disk.node, area) for area in (2, 3)])
        base.expect(times[-1] < 2 * TURN_S, f"a large read waited {times[-1]:.1f} s for another")
        one.box.log.heal()
        ended([hangs])


parts = {part.__name__: part for part in (many, beside, on, hung)}
for name in base.words(1, list(parts)) or parts:
    parts[name]()
base.step("done")
