# SPDX-License-Identifier: GPL-2.0-only
"""Everybody in the DCD at once, for two CPUs: writers, readers of slots, log and data disk, the
destager, whoever changes its settings, and its end.

Arguments: nvram (dram, lab or none; all of them), and lives (default 3). It measures no time. Each
life is from open to close; what was acknowledged is there in all later ones.
  - nothing is cached, so reads come from the log, by way of the checksums (sums.h); those are
    forgotten now and then, so that readers and the destager read them from the log again
  - the ring is small, the data disk slow: the forecast (turn.h) is made and used all the time
"""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from pathlib import Path

from dcdlab import SEGMENT, Box
from locklab import base, blk, lio

OWNERS = 4
BLOCK = 8  # sectors, of which each owner has two
SPAN = 4096  # sectors
ROUNDS = 60
FORGET = Path("/sys/module/dcd/parameters/test_forget_sums")
SETTINGS = (
    "destage_idle_ms=1", "destage_idle_ms=50", "destage_low=0", "destage_low=50",
    "destage_depth=1", "destage_depth=16", "read_cache_bytes=0", "read_cache_bytes=131072",
)  # fmt: skip


class Owner:
    """Knows what its own sectors hold, from one life to the next."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._mine: dict[int, bytes] = {}
        self._rng = random.Random(f"dcd race {base.SEED} {number}")
        self.wrong = ""
        self.reads = self.writes = 0

    def _write(self, disk: blk.Disk) -> None:
        rng = self._rng
        first = rng.randrange(SPAN // BLOCK) * BLOCK + 2 * self._number
        kind = rng.choices(("write", "zero", "discard"), (12, 1, 1))[0]
        self.writes += 1
        data = bytes(1024)
        if kind == "write":
            data = blk.pattern(f"{self._number} {self.writes}", 2)
            disk.write(first, data, fua=rng.random() < 0.1)
        elif kind == "zero":
            disk.zero(first, 2)
        else:
            disk.discard(first, 2)
        self._mine[first], self._mine[first + 1] = data[:512], data[512:]

    def _read(self, disk: blk.Disk) -> None:
        count = self._rng.choice((2, 8, 8, 16, 64, 128))
        first = self._rng.randrange(SPAN - count)
        got = disk.read(first, count)
        self.reads += 1
        for n in range(count):
            at = first + n
            if at % BLOCK // 2 != self._number:
                continue
            if got[n * 512 : n * 512 + 512] != self._mine.get(at, bytes(512)):
                self.wrong = f"owner {self._number}: sector {at} isn't what was written"

    def works(self, node: str) -> None:
        try:
            with blk.Disk(node) as disk:
                for _ in range(ROUNDS):
                    for _ in range(self._rng.choice((1, 2, 6))):
                        self._write(disk)
                    self._read(disk)
                    if self.wrong:
                        return
        except OSError as err:
            self.wrong = f"owner {self._number}: {err}"


def meddle(box: Box, stop: threading.Event, seed: str) -> None:
    rng = random.Random(seed)
    while not stop.is_set():
        box.set(rng.choice(SETTINGS))
        base.put(FORGET, rng.choice((0, 0, 1)))
        box.info()
        time.sleep(rng.random() / 50)


def strays(node: str) -> None:
    """A reader that doesn't care whether anybody is there still."""
    rng = random.Random(node)
    with contextlib.suppress(OSError, base.Wrong), blk.Disk(node, write=False) as disk:
        while True:
            disk.read(rng.randrange(SPAN - 8), 8)


def life(box: Box, owners: list[Owner], number: int) -> None:
    store = box.open("destage_idle_ms=1,destage_low=10,read_cache_bytes=0,scrub_kib=4096")
    stop = threading.Event()
    with lio.look(store) as node:
        works = [threading.Thread(target=o.works, args=(node,), daemon=True) for o in owners]
        beside = threading.Thread(
            target=meddle, args=(box, stop, f"meddle {base.SEED} {number}"), daemon=True
        )
        for thread in (*works, beside):
            thread.start()
        for thread in works:
            thread.join(1200)
            base.expect(not thread.is_alive(), "an owner hangs")
        stop.set()
        beside.join(60)
        base.expect(not beside.is_alive(), "the control hangs")
        for owner in owners:
            base.expect(not owner.wrong, owner.wrong)
        log_pieces, again = box.count("log_pieces"), box.count("logged_again")
        base.equal(box.count("bad_sums"), 0, "wrong checksums")
        readers = [threading.Thread(target=strays, args=(node,), daemon=True) for _ in range(3)]
        for thread in readers:
            thread.start()
        time.sleep(0.02)
    for thread in readers:
        thread.join(60)
        base.expect(not thread.is_alive(), "a stray reader hangs")
    box.close()
    print(f"  life {number}: {log_pieces} reads of the log, {again} logged again", flush=True)


def lives(nvram: str, count: int) -> None:
    base.step(f"{nvram}: {count} lives")
    box = Box(
        data_mib=8, data_model="spindle", nvram=nvram, nvram_bytes=4096 + 3 * SEGMENT,
    )  # fmt: skip
    owners = [Owner(n) for n in range(OWNERS)]
    for number in range(count):
        life(box, owners, number)
    box.away()


KINDS = {"dram": "dram:battery", "lab": "lab", "none": "none"}
kinds = base.words(1, [*KINDS, *(w for w in sys.argv[2:3] if w.isdigit())])[:1]
for kind in kinds or KINDS:
    lives(KINDS[kind], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
base.step("done")
