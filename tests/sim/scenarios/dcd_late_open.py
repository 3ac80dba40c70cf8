# SPDX-License-Identifier: GPL-2.0-only
"""What an open does with a log that can't give all that it has: it takes seconds to say so for each
request, or it fails now and then. The power was cut, so the live part of the log is read.

  block     a block of what was written, with NVRAM and without: only what is there is lost
  sector    a sector of it, of writes of one sector each: those beside it are there
  segment   all that was written to a place
  rest      the log gives nothing from a place on: it isn't opened; once it is well nothing is lost
  data      the data disk gives nothing: it is asked whether it is the right one, all the same
  path      what is under way waits for 3 s and fails, the next errors come at once, then it is well
  random    one of five requests fails: nothing is lost for that
  late      three of a hundred fail, and all take 300 ms: nor for that
  info      whoever reads it meanwhile is told so within a second

Arguments: parts (all of them if there are none).
"""

from __future__ import annotations

import contextlib
import errno
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dcdlab import RING_START, SEGMENT, TOOL, Box
from faultlab import faults, mark
from locklab import base, blk, lio
from statelab import Beside

HELD = "destage_idle_ms=3600000,destage_low=98,destage_high=99,scrub_kib=0,read_cache_bytes=0"
LATE_MS = 7000
N, SIZE = 12, 96
# The data of the sixth place of the ring.
SIXTH = (RING_START + 5 * SEGMENT) // blk.SECTOR
BLOCK = (SIXTH + 40, SIXTH + 47)
NVRAMS = ("lab", "none")


def cut(nvram: str, size: int = SIZE, count: int = N) -> Box:
    """Each write has a place of the log to itself, if it isn't small."""
    box = Box(log_mib=4, nvram=nvram, nvram_bytes=4096 + 4 * SEGMENT, settings=HELD)
    with box.disk_until_cut() as disk:
        for n in range(count):
            disk.write(n * 128, blk.pattern(f"{n}", size))
            if size == SIZE:
                disk.flush()
                time.sleep(0.15)
    return box


def opened(box: Box, most: float) -> lio.Backstore:
    began = time.monotonic()
    store = box.open()
    took = time.monotonic() - began
    print(f"  opened in {took:.1f} s", flush=True)
    base.expect(took < most, f"the open took {took:.1f} s")
    return store


def lost(box: Box, store: lio.Backstore, size: int = SIZE, count: int = N) -> set[int]:
    """Of the writes; all others are right."""
    gone = set()
    with lio.look(store) as node, blk.Disk(node, write=False) as disk:
        for n in range(count):
            try:
                raw = disk.read(n * 128, size)
            except OSError:
                gone.add(n)
                continue
            base.expect(raw == blk.pattern(f"{n}", size), f"write {n} has other bytes")
    return gone


def told(box: Box) -> list[int]:
    """What the command says of it."""
    words = ["--data", box.data.node, "--log", box.log.node, "--nvram", box.view, "--json"]
    began = time.monotonic()
    done = subprocess.run([TOOL, "check", *words], capture_output=True, text=True, check=False)
    print(f"  checked in {time.monotonic() - began:.1f} s", flush=True)
    return sorted({one["sector"] // 128 for one in json.loads(done.stdout)["lost"]})


def bad(what: str, first: int, last: int, checked: float) -> None:
    for nvram in NVRAMS:
        base.step(f"{nvram}: {what} can't be read, and takes 7 s to say so")
        box = cut(nvram)
        box.log.fail_reads_late(LATE_MS, (first, last))
        began = time.monotonic()
        listed = told(box)
        base.expect(time.monotonic() - began < checked, "the check took long")
        gone = lost(box, opened(box, 30))
        base.equal(len(gone), 1, "writes that are lost")
        base.equal(listed, sorted(gone), "what the command says")
        box.close()
        box.away()


def block() -> None:
    bad("a block", *BLOCK, 120)


def segment() -> None:
    bad("what a place has", BLOCK[0], SIXTH + 127, 900)


def sector() -> None:
    base.step("a sector can't be read, and the writes beside it have one sector each")
    box = cut("none", 1, 40)
    raw = blk.pattern("20", 1)
    found = box.log.bytes(0, box.log.sectors).find(raw) // blk.SECTOR
    box.log.fail_reads_late(LATE_MS, (found, found))
    base.equal(told(box), [20], "what the command says")
    base.equal(lost(box, opened(box, 30), 1, 40), {20}, "what is lost")
    box.close()
    box.away()


def rest() -> None:
    base.step("nothing of the ring can be read from a place on")
    for nvram in NVRAMS:
        box = cut(nvram)
        box.log.fail_reads_late(LATE_MS, (SIXTH, box.log.sectors - 1))
        began = time.monotonic()
        try:
            box.open()
        except OSError as err:
            print(f"  refused in {time.monotonic() - began:.1f} s: {err}", flush=True)
        else:
            raise base.Wrong("a log that gives nothing is opened")
        base.expect(time.monotonic() - began < 120, "the refusal took long")
        box.log.heal()
        base.equal(lost(box, opened(box, 5)), set(), "what is lost")
        box.close()
        box.away()


def data() -> None:
    base.step("the data disk gives nothing, or not what it had last, and takes 7 s to say so")
    box = Box(nvram="lab", settings="destage_idle_ms=1,scrub_kib=0", log_mib=4)
    with box.disk() as disk:
        for n in range(64):
            disk.write(n * 128, blk.pattern(f"{n}", SIZE))
        box.destaged()
    box.data.fail_late(LATE_MS, (0, 64 * 128 - 1))
    opened(box, 50)
    box.close()
    box.data.fail_late(LATE_MS)
    began = time.monotonic()
    with base.refused("a disk that gives nothing", errno.EIO, kernel="the end of the data disk"):
        box.open()
    base.expect(time.monotonic() - began < 50, "it took longer than an open may")
    box.data.heal()
    opened(box, 1)
    box.close()
    box.away()


def path() -> None:
    for nvram in NVRAMS:
        base.step(f"{nvram}: the log's path breaks while it is opened, and is whole after 3 s")
        box = cut(nvram)
        box.log.slow_reads(20)
        beside = Beside(partial(breaks, box))
        store = opened(box, 10)
        beside.result()
        base.equal(lost(box, store), set(), "what is lost")
        box.close()
        box.away()


def breaks(box: Box) -> None:
    time.sleep(0.06)
    box.log.stall(3000, 5, reads=True)


def random() -> None:
    for nvram in NVRAMS:
        base.step(f"{nvram}: one of five requests for the log fails while it is opened")
        refused = 0
        for _ in range(25):
            box = cut(nvram)
            mark(box.log.node, True)
            faults(20)
            try:
                store = box.open()
            except OSError:
                refused += 1
            faults(0)
            mark(box.log.node, False)
            if not box.store:
                store = box.open()
            base.equal(lost(box, store), set(), "what is lost")
            box.close()
            box.away()
        print(f"  {refused} of 25 opens were refused", flush=True)


def late() -> None:
    base.step("three of a hundred reads of the log fail while it is opened, and all are slow")
    gone = 0
    for _ in range(40):
        box = cut("lab", count=24)
        box.log.slow_reads(300)
        mark(box.log.medium, True)
        faults(3)
        with contextlib.suppress(OSError):
            box.open()
        faults(0)
        mark(box.log.medium, False)
        box.log.heal()
        gone += len(lost(box, box.store or box.open(), count=24))
        box.close()
        box.away()
    base.equal(gone, 0, "what is lost")


def info() -> None:
    base.step("who reads info while it is opened")
    box = cut("lab")
    box.log.fail_reads_late(LATE_MS, BLOCK)
    beside = Beside(lambda: opened(box, 30))
    path = Path("/sys/kernel/config/target/core/dcd_0/d/info")
    time.sleep(1)
    said, longest = "", 0.0
    while not beside.done:
        began = time.monotonic()
        said += path.read_text()
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.2)
    beside.result()
    base.expect(longest < 1.5, f"info took {longest:.1f} s")
    base.expect("is being opened" in said and "log segments" in path.read_text(), said)
    box.close()
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (block, sector, segment, rest, data, path, random, late, info)
}
base.put(Path("/proc/sys/kernel/hung_task_timeout_secs"), 0)
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
base.step("done")
