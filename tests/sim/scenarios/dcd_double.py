# SPDX-License-Identifier: GPL-2.0-only
"""Two things are broken at once, each of which the DCD survives alone: nothing that is anywhere in
a good copy is lost, nothing older takes its place, no start is refused, and it comes to rest.

Args: the parts, of which without any all are run.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable

from dcdlab import SEGMENT, SITE, TOOL, Box, Model, filled
from locklab import base, blk, dm, lio, media

PER = SEGMENT // blk.SECTOR
HELD = "destage_idle_ms=3600000,destage_low=97,destage_high=99,read_cache_bytes=0"
ENDS = (2, 6)  # sectors of NVRAM with the number of the newest entry, each


def box_of(slots: int, settings: str = HELD) -> Box:
    return Box(
        data_mib=16, log_mib=3, nvram="lab", nvram_bytes=4096 + slots * SEGMENT, settings=settings
    )


def poison(first: int, sectors: int = 1) -> None:
    dm.message("nv", f"poison {first} {sectors}")


def place(node: str, data: bytes) -> int:
    with blk.Disk(node, write=False) as disk:
        at = disk.read(0, disk.sectors).find(data[: blk.SECTOR])
    base.expect(at > 0, f"{node} doesn't have it")
    return at // blk.SECTOR


def has(disk: blk.Disk, first: int, data: bytes, what: str) -> None:
    base.expect(disk.read(first, len(data) // blk.SECTOR) == data, f"{what}: sectors {first} on")


def log_and_slot() -> None:
    base.step("one write is damaged in the log, another one in the slot that has the same segment")
    box = box_of(6)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 320, "some", 16)
    here, there = (bytes(model.bytes[n * blk.SECTOR : (n + 1) * blk.SECTOR]) for n in (64, 80))
    with blk.Disk("/dev/mapper/log-medium") as medium:
        at = place(medium.node, here)
        raw = bytearray(medium.read(at, 1))
        raw[7] ^= 4
        medium.write(at, bytes(raw))
    poison(place(box.view, there))
    with box.disk() as disk:
        model.check(disk, "opened")
        base.equal(box.count("lost_sectors"), 0, box.info())
    box.away()


def worn_slots(box: Box, first: int, slots: int) -> None:
    """All of these but their first sectors, which can't be mended."""
    dm.message("nv", "unclearable 1")
    for slot in range(first, first + slots):
        poison(8 + slot * PER + 16, PER - 16)


def bad_place_and_nvram() -> None:
    base.step("what a bad place is to have is logged again into an NVRAM that is bad there")
    box = box_of(8)
    model = Model(box.data.sectors)
    data = blk.pattern("acknowledged", 8)
    with box.disk() as disk:
        filled(disk, model, 29968, 30032, "old", 16)
        box.set("destage_idle_ms=1")
        box.destaged()
        box.set("destage_idle_ms=3600000")
        box.data.fail_part(30000, 30007)
        disk.write(30000, data)
        filled(disk, model, 4096, 4096 + 14 * 112, "behind it", 112)
        disk.flush()
        time.sleep(2)
        worn_slots(box, 0, 5)
        box.set("destage_idle_ms=1")
        time.sleep(8)
        has(disk, 30000, data, "while it is open")
    with box.disk() as disk:
        has(disk, 30000, data, "opened again")
    box.away()


def bad_place_and_worn_nvram() -> None:
    base.step("the same, and no slot is good any more: it comes to rest, and ends")
    box = box_of(6)
    model = Model(box.data.sectors)
    data = blk.pattern("acknowledged", 8)
    with box.disk() as disk:
        box.data.fail_part(320, 327)
        disk.write(320, data)
        filled(disk, model, 4096, 4096 + 14 * 112, "behind it", 112)
        time.sleep(1)
        worn_slots(box, 0, 6)
        with base.refused("a write"):
            disk.write(0, bytes(4096))
        box.set("destage_idle_ms=1")
        time.sleep(2)
        has(disk, 320, data, "while it is open")
        before = box.count("rounds")
        time.sleep(10)
        rounds = box.count("rounds") - before
        base.expect(rounds < 100, f"{rounds} rounds in 10 s")
    box.away()


def dead_log_and_end() -> None:
    old, new = blk.pattern("older", 16), blk.pattern("newest", 16)
    for log_dead in (True, False):
        base.step("the newest record of the end can't be read" + ", and the log is gone" * log_dead)
        box = box_of(6)
        with box.disk_until_cut() as disk:
            disk.write(320, old)
            disk.write(640, old)
            disk.write(320, new)
        with blk.Disk(box.view, write=False) as nv:
            numbers = {int.from_bytes(nv.read(n, 1)[16:24], "little"): n for n in ENDS}
        poison(numbers[max(numbers)])
        log = "none" if log_dead else box.log.node
        words = ("--data", box.data.node, "--log", log, "--nvram", box.view, "--salvage", "--json")
        done = subprocess.run(
            [TOOL, "recover", *words], capture_output=True, text=True, check=False
        )
        told = json.loads(done.stdout)
        print(f"  exit code {done.returncode}, {told['state']}", flush=True)
        newest = box.data.bytes(320, 16) == new
        base.expect(newest or done.returncode != 0, "an older version, and not a word of it")
        base.expect(
            newest or not log_dead or not any(box.data.bytes(320, 16)), "an older version is there"
        )
        box.away()


class Writer(threading.Thread):
    """Over and over, until told to stop; what is acknowledged then is known."""

    def __init__(self, disk: blk.Disk) -> None:
        super().__init__(daemon=True)
        self._disk = disk
        self.acked: dict[int, bytes] = {}
        self.last = -1
        self.stopped = False

    def run(self) -> None:
        number = 0
        while not self.stopped:
            self.last = 112 * (number % 140)
            data = blk.pattern(f"{number}", 112)
            try:
                self._disk.write(self.last, data)
            except OSError:
                return
            if not self.stopped:
                self.acked[self.last] = data
            number += 1


def dead_log_and_header() -> None:
    base.step("past a dead log, a copy of the NVRAM's header turns bad: slots are used again by it")
    for life in range(4):
        box = box_of(6, "read_cache_bytes=0,destage_idle_ms=1")
        with lio.look(box.open()) as node, blk.Disk(node) as disk:
            for n in range(40):
                disk.write(16 * n, blk.pattern(f"before {n}", 16))
            box.destaged()
            box.log.fail_writes()
            for n in range(40):
                disk.write(16 * n, blk.pattern(f"past {n}", 16))
            box.says("log FAILING", "the log's end")
            poison(0)
            box.data.slow(30)
            writer = Writer(disk)
            writer.start()
            time.sleep(1.5 + 0.037 * life)
            writer.stopped = True
            media.cut(SITE, base.SEED)
            writer.join()
        box.close()
        box.power_on()
        writer.acked.pop(writer.last, None)
        with box.disk() as disk:
            for at, data in writer.acked.items():
                has(disk, at, data, f"life {life}")
        print(f"  {len(writer.acked)} places", flush=True)
        base.expect(writer.acked, "nothing was written")
        box.away()


PARTS: dict[str, Callable[[], None]] = {
    "log_and_slot": log_and_slot,
    "bad_place_and_nvram": bad_place_and_nvram,
    "bad_place_and_worn_nvram": bad_place_and_worn_nvram,
    "dead_log_and_end": dead_log_and_end,
    "dead_log_and_header": dead_log_and_header,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
