# SPDX-License-Identifier: GPL-2.0-only
"""Two things are broken at once, each of which the DCD survives alone: nothing that is anywhere in
a good copy is lost, nothing older takes its place, no start is refused, and it comes to rest.

Args: the parts, of which without any all are run.
"""

from __future__ import annotations

import errno
import json
import subprocess
import threading
import time
from collections.abc import Callable

from dcdlab import SEGMENT, SITE, TOOL, Box, Model, filled
from locklab import base, blk, dm, lio, media

PER = SEGMENT // blk.SECTOR
HELD = "destage_idle_ms=3600000,destage_low=97,destage_high=99,read_cache_bytes=0"
INCOMPAT, LOST = 24, 2  # a byte of the superblock
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


def ends_of(view: str) -> dict[int, int]:
    """The sectors of the NVRAM's end records, by the entries they name."""
    with blk.Disk(view, write=False) as nv:
        return {int.from_bytes(nv.read(n, 1)[16:24], "little"): n for n in ENDS}


def dead_log_and_end() -> None:
    old, new = blk.pattern("older", 16), blk.pattern("newest", 16)
    for log_dead in (True, False):
        base.step("the newest record of the end can't be read" + ", and the log is gone" * log_dead)
        box = box_of(6)
        with box.disk_until_cut() as disk:
            disk.write(320, old)
            disk.write(640, old)
            disk.write(320, new)
        ends = ends_of(box.view)
        poison(ends[max(ends)])
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


def changed(view: str, at: int, line: bytes) -> None:
    """64 bytes of the NVRAM, at this byte."""
    with blk.Disk(view) as nv:
        raw = bytearray(nv.read(at // blk.SECTOR, 1))
        raw[at % blk.SECTOR : at % blk.SECTOR + len(line)] = line
        nv.write(at // blk.SECTOR, bytes(raw))


def entry_in(view: str, number: int) -> int:
    """The byte of the NVRAM where this entry is, in a slot's first 8 lines."""
    with blk.Disk(view, write=False) as nv:
        for slot in range(8, nv.sectors, PER):
            table = nv.read(slot + 8, 1)
            for line in range(0, blk.SECTOR, 64):
                if int.from_bytes(table[line : line + 8], "little") == number:
                    return (slot + 8) * blk.SECTOR + line
    raise base.Wrong(f"no slot has entry {number}")


def end_and_newest() -> None:
    base.step("the newest end record and the newest entry are damaged: what may be missing is told")
    box = box_of(6)
    with box.disk_until_cut() as disk:
        for n in range(5):
            disk.write(320, blk.pattern(f"number {n}", 16))
    ends = ends_of(box.view)
    newest = max(ends)
    changed(box.view, entry_in(box.view, newest), bytes(64))
    changed(box.view, ends[newest] * blk.SECTOR + 16, b"\xff" * 8)
    log = base.KernelLog()
    with box.disk_until_cut() as disk:
        told = [line for line in log.new() if "acknowledged writes may be missing" in line]
        base.expect(len(told) == 1, f"it isn't said that the newest write may be missing: {told}")
        base.expect(f"up to 32 acknowledged writes may be missing behind entry {newest - 1}" in
                    told[0], told[0])  # fmt: skip
        has(disk, 320, blk.pattern("number 3", 16), "the newest that is left")
    base.equal(set(ends_of(box.view)), {newest - 1}, "what both records say from then on")
    log = base.KernelLog()
    with box.disk() as disk:
        told = [line for line in log.new() if "may be missing" in line]
        base.equal(told, [], "told once more")
        disk.write(320, blk.pattern("goes on", 16))
    box.away()


def past_the_log(how: str) -> None:
    base.step(f"a write went past a dead log, and its place in NVRAM turns bad: {how}")
    box = box_of(6)
    old, new, stuck = (blk.pattern(word, 16) for word in ("old", "new", "stuck"))
    with box.disk_until_cut() as disk:
        disk.write(1000, old)
        base.until(lambda: " 0 in use" in box.info(), "the old one to be in the log")
        box.data.fail_part(100, 101)  # so no round comes to its end, and NVRAM's header says less
        box.log.fail_writes()
        disk.write(96, stuck)
        disk.write(1000, new)
        box.says("data FAILING", "the bad place to be met")
        rounds = box.count("rounds")
        base.until(lambda: box.count("rounds") > rounds + 1, "another round")
        base.expect(box.data.bytes(1000, 16) == new, "it isn't on the data disk")
        base.equal(box.count("bypass_rounds"), 0, "rounds that came to their end")
    poison(place(box.view, new), 16)
    if how == "tools":
        words = ("--data", box.data.node, "--log", box.log.node, "--nvram", box.view)
        base.run(TOOL, "recover", *words)
        base.expect(box.data.bytes(1000, 16) == new, "an older version is on the data disk")
        base.expect(box.data.bytes(96, 16) == stuck, "what wasn't on the data disk is now")
        box.away()
        return
    if how == "the log is dead":
        box.log.fail_writes()
    with box.disk() as disk:
        has(disk, 1000, new, "what the data disk has")
        has(disk, 96, stuck, "what NVRAM has")
        box.log.heal()
        box.says("log ok", "the log to work")
        has(disk, 1000, new, "with the log")
        base.equal(box.count("nvram_lost"), 0, "sectors that are told lost")
    with box.disk() as disk:
        has(disk, 1000, new, "opened again")
        box.set("destage_idle_ms=1")
        box.destaged()
    base.expect(box.data.bytes(1000, 16) == new, "destaged")
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


def lost_of(box: Box, model: Model, disk: blk.Disk, count: int) -> list[int]:
    """So many sectors, each a write, that are in the log alone."""
    for n in range(count):
        filled(disk, model, 640 + 2 * n, 641 + 2 * n, "a sector", 1)
    filled(disk, model, 8192, 8192 + 10 * 112, "so that no slot has them", 112)
    return [640 + 2 * n for n in range(count)]


def spoil(model: Model, sectors: list[int]) -> None:
    with blk.Disk("/dev/mapper/log-medium") as medium:
        log = bytearray(medium.read(0, medium.sectors))
        for sector in sectors:
            at = log.find(bytes(model.bytes[sector * blk.SECTOR : (sector + 1) * blk.SECTOR]))
            base.expect(at > 0, "the log doesn't have it")
            log[at + 7] ^= 4
        for at in range(0, medium.sectors, 512):
            medium.write(at, bytes(log[at * blk.SECTOR : (at + 512) * blk.SECTOR]))


def all_but(disk: blk.Disk, model: Model, lost: list[int], what: str) -> None:
    """The lost ones are medium errors; everything else is there."""
    for sector in lost:
        with base.refused(f"{what}: sector {sector}", errno.ENODATA):
            disk.read(sector, 1)
    known = set(lost)
    for at in range(0, disk.sectors, 64):
        if known.isdisjoint(range(at, at + 64)):
            has(disk, at, bytes(model.bytes[at * blk.SECTOR : (at + 64) * blk.SECTOR]), what)
            continue
        for sector in set(range(at, at + 64)) - known:
            data = bytes(model.bytes[sector * blk.SECTOR : (sector + 1) * blk.SECTOR])
            has(disk, sector, data, what)


def burst(disk: blk.Disk, model: Model, rings: int, tag: str) -> None:
    """So many times all of the log, and more than any NVRAM has."""
    for n in range(rings * 32):
        filled(disk, model, 16384 + 112 * (n % 120), 16384 + 112 * (n % 120 + 1), f"{tag} {n}", 112)


def lost_and_dead_log() -> None:
    for count, slots in ((1, 3), (70, 8)):
        base.step(f"{count} places are lost, {slots} slots, and the log dies")
        box = box_of(slots)
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, 640, 1024, "older", 64)
            box.set("destage_idle_ms=1")
            box.destaged()
            box.set("destage_idle_ms=3600000")
            lost = lost_of(box, model, disk, count)
        spoil(model, lost)
        box.settings = "read_cache_bytes=0,destage_idle_ms=1"
        with box.disk_until_cut() as disk:
            base.equal(box.count("lost_sectors"), count, box.info())
            box.log.fail_writes()
            burst(disk, model, 2, "past it")
            box.says("log FAILING", "the log to be found dead")
            all_but(disk, model, lost, "past it")
            base.equal(box.count("write_errors") + box.count("data_errors"), 0, box.info())
        base.step("the power was cut, and the log is dead when it is opened")
        box.log.fail_writes()
        for turn in ("opened", "opened again"):
            with box.disk() as disk:
                all_but(disk, model, lost, turn)
                burst(disk, model, 2, turn)
                for sector in [lost.pop() for _ in range(len(lost) // 3)]:
                    filled(disk, model, sector, sector + 1, f"over it, {turn}", 1)
                all_but(disk, model, lost, f"{turn}, some written over")
                base.equal(box.count("write_errors") + box.count("data_errors"), 0, box.info())
        for verb in (("check",), ("recover", "--salvage", "--dry-run")):
            log = box.log.node if verb[0] == "check" else "none"
            words = ("--data", box.data.node, "--log", log, "--nvram", box.view, "--json")
            run = [TOOL, *verb, *words]
            done = subprocess.run(run, stdout=subprocess.PIPE, text=True, check=False)
            told = json.loads(done.stdout)
            listed = {item["sector"] + n for item in told["lost"] for n in range(item["sectors"])}
            base.equal(sorted(listed), lost, f"what {verb[0]} lists")
        base.step("the log works again")
        box.log.heal()
        with box.disk() as disk:
            all_but(disk, model, lost, "with a good log")
            burst(disk, model, 2, "with a good log")
            all_but(disk, model, lost, "and written to")
        for copy in (0, 1):
            base.equal(box.log.bytes(copy * 8, 1)[INCOMPAT], LOST, "what the superblocks say")
        with box.disk() as disk:
            all_but(disk, model, lost, "once more")
            for sector in lost:
                filled(disk, model, sector, sector + 1, "over it", 1)
            box.destaged()
            all_but(disk, model, [], "all written over")
        box.away()


def lost_and_dead_log_small() -> None:
    base.step("two slots are too few for that: writes are refused, and told why; it stays lost")
    box = box_of(2)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        lost = lost_of(box, model, disk, 1)
    spoil(model, lost)
    box.settings = "read_cache_bytes=0,destage_idle_ms=1"
    log = base.KernelLog()
    with box.disk() as disk:
        box.log.fail_writes()
        box.data.slow(40)  # so that the writer is faster
        refused = -1
        for n in range(400):
            data = blk.pattern(f"{n}", 112)
            try:
                disk.write(16384 + 112 * (n % 2), data)
            except OSError:
                refused = n
                break
            model.put(16384 + 112 * (n % 2), data)
        base.expect(refused > 0, f"all were taken? {box.info()}")
        model.put(16384 + 112 * (refused % 2), disk.read(16384 + 112 * (refused % 2), 112))
        told = any("the NVRAM has no room to say once more" in line for line in log.new())
        base.expect(told, "why writes are refused")
        base.equal(box.count("data_errors"), 0, box.info())
        box.data.heal()
        all_but(disk, model, lost, "refused")
    with box.disk() as disk:
        all_but(disk, model, lost, "opened")
    box.log.heal()
    with box.disk() as disk:
        burst(disk, model, 2, "with a good log")
        all_but(disk, model, lost, "with a good log")
    box.away()


def lost_and_dead_log_mended() -> None:
    base.step("some is lost, the log dies and works again while it is open, over and over")
    box = box_of(6, "read_cache_bytes=0,destage_idle_ms=3600000,destage_low=97,destage_high=99")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        lost = lost_of(box, model, disk, 20)
    spoil(model, lost)
    box.settings = "read_cache_bytes=0,destage_idle_ms=1"
    for life in range(4):
        with box.disk_until_cut() as disk:
            for turn in range(3):
                box.log.fail_writes()
                burst(disk, model, 1, f"life {life}, past it {turn}")
                box.says("log FAILING", "the log to be found dead")
                box.log.heal()
                base.until(lambda: "log FAILING" not in box.info(), "the log to work again")
                burst(disk, model, 1, f"life {life}, by it {turn}")
            all_but(disk, model, lost, f"life {life}")
            if life % 2:
                box.log.fail_writes()
                burst(disk, model, 1, f"life {life}, at last")
        with box.disk() as disk:
            all_but(disk, model, lost, f"life {life}, after the cut")
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    "log_and_slot": log_and_slot,
    "bad_place_and_nvram": bad_place_and_nvram,
    "bad_place_and_worn_nvram": bad_place_and_worn_nvram,
    "dead_log_and_end": dead_log_and_end,
    "end_and_newest": end_and_newest,
    "past_the_log": lambda: past_the_log("opened"),
    "past_a_dead_log": lambda: past_the_log("the log is dead"),
    "past_the_log_tools": lambda: past_the_log("tools"),
    "dead_log_and_header": dead_log_and_header,
    "lost_and_dead_log": lost_and_dead_log,
    "lost_and_dead_log_small": lost_and_dead_log_small,
    "lost_and_dead_log_mended": lost_and_dead_log_mended,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
