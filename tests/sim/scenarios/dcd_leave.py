# SPDX-License-Identifier: GPL-2.0-only
"""A dead log is left for good while the LUN is in use (`leave_log=1`); one that works isn't.

What was acknowledged is on the data disk then, or a medium error and listed; every later write is
on the data disk, durable, before it is acknowledged; nothing ever brings the log back.

Args: the parts, of which without any all are run.
"""

from __future__ import annotations

import errno
import json
import random
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dcdlab import TOOL, Box, Model, filled, some_write
from locklab import base, blk, lio
from locklab.scsi import Lun, write_scattered
from poisonlab import HELD, box_of

AWAKE = "read_cache_bytes=0,destage_idle_ms=1"
LOST, END = 640, 704  # what only the log has
MANY = 400  # more places than are known one by one
INCOMPAT, RETIRED, LACKS = 24, 1, 4


def left(box: Box) -> None:
    box.says("log LEFT", "the log to be left")
    assert box.store
    base.equal(box.store.attribute("stat_log_left"), "1", "the attribute")
    base.expect("acknowledged writes are on the data disk" in box.info(), box.info())
    with lio.look(box.store, 1) as node:
        cache = Path(f"/sys/block/{Path(node).name}/queue/write_cache").read_text().strip()
        base.equal(cache, "write through", "the write cache, by what the LUN says")


def only_in_log(box: Box, disk: blk.Disk, places: int) -> None:
    for n in range(places):
        disk.write(16 * n, blk.pattern(f"place {n}", 8))
    for _ in range(2):  # so that no slot has it
        for at in range(9000, 9000 + 8 * 112, 112):
            disk.write(at, blk.pattern(f"slots {at}", 112))
    base.until(lambda: " 0 in use" in box.info(), "the log to have all")


def is_lost(disk: blk.Disk, model: Model, what: str) -> None:
    for at in range(LOST, END, 16):
        with base.refused(f"{what}: what only the log had", errno.ENODATA):
            disk.read(at, 16)
    for at in [*range(0, LOST, 16), *range(END, 6000, 16)]:
        want = bytes(model.bytes[at * blk.SECTOR : (at + 16) * blk.SECTOR])
        base.expect(disk.read(at, 16) == want, f"{what}: sectors {at} on are others")


def through(box: Box, model: Model, disk: blk.Disk) -> None:
    """Each write is durable on the data disk when it is acknowledged."""
    filled(disk, model, 2000, 2400, "through", 16)
    disk.zero(2100, 50)
    model.put(2100, bytes(50 * blk.SECTOR))
    disk.discard(2200, 64)
    model.put(2200, bytes(64 * blk.SECTOR))
    big = blk.pattern("a large one", 1600)
    disk.write(3000, big)
    model.put(3000, big)
    disk.flush()
    base.expect(box.count("through") > 20, box.info())
    base.expect(
        box.data.bytes(2000, 2600) == model.bytes[2000 * blk.SECTOR : 4600 * blk.SECTOR],
        "the data disk doesn't have what was acknowledged",
    )


def never_again(box: Box) -> None:
    """Neither the module nor the tools bring the log back, whatever it says by now."""
    box.log.heal()
    before = box.data.bytes(0, box.data.sectors)
    with base.refused("the old log", errno.EMEDIUMTYPE, kernel="was retired"):
        lio.Backstore("dcd", "bad", box.control())
    words = ["--data", box.data.node, "--log", box.log.node, "--nvram", box.view, "--json"]
    for verb, codes in (("recover", (1,)), ("retire", (0,))):
        done = subprocess.run([TOOL, verb, *words], capture_output=True, text=True, check=False)
        told = json.loads(done.stdout)
        base.expect(done.returncode in codes, f"{verb}: {done.returncode} {told}")
    base.expect(box.data.bytes(0, box.data.sectors) == before, "something came back")


def dead() -> None:
    base.step("the log can't be read any more, and has what nobody else has")
    box = box_of(HELD)
    model = Model(box.data.sectors)
    log = base.KernelLog()
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 600, "destaged", 16)
        box.set("destage_idle_ms=1")
        box.destaged()
        box.set("destage_idle_ms=3600000")
        filled(disk, model, LOST, END, "only in the log", 16)
        filled(disk, model, 4096, 4096 + 8 * 112, "so that no slot has it", 112)
        filled(disk, model, 4096, 4096 + 8 * 112, "in NVRAM", 112)
        base.until(lambda: " 0 in use" in box.info(), "the log to have all of it")
        box.log.fail()
        box.set("destage_idle_ms=1")
        refused = 0
        for n in range(40):
            data = blk.pattern(f"past it {n}", 112)
            at = 4096 + 112 * (n % 8)
            try:
                disk.write(at, data)
            except OSError:
                refused += 1
                break
            model.put(at, data)
        base.expect(refused, "a write was to be refused: what only the log has stands in the way")
        for at in range(4096, 4096 + 9 * 112, 112):  # of those only some are lost
            try:
                got = disk.read(at, 112)
            except OSError:
                filled(disk, model, at, at, "", 112)
            else:
                model.put(at, got)
        box.set("leave_log=1")
        left(box)
        told = [line for line in log.new() if "LOST" in line]
        base.expect(any(f"64 sectors from {LOST} on" in line for line in told), f"{told}")
        filled(disk, model, 4096, 4096 + 9 * 112, "over whatever is lost there", 112)
        is_lost(disk, model, "left")
        through(box, model, disk)
        is_lost(disk, model, "written through")
        with Lun(disk.node) as lun:
            cdb, head = write_scattered([(0, 1), (16, 1)])
            answer = lun.command(cdb, head + bytes(1024))
            base.equal((answer.key, answer.asc), (5, 0x20), "a batch: no such command")
        box.set("leave_log=0")
        left(box)
    base.expect(
        box.data.bytes(0, LOST) == model.bytes[: LOST * blk.SECTOR]
        and box.data.bytes(END, 6000 - END) == model.bytes[END * blk.SECTOR : 6000 * blk.SECTOR],
        "after the cut the data disk lacks something that was acknowledged",
    )
    with blk.Disk(box.view, write=False) as nvram:
        for sector in (0, 4):
            base.equal(nvram.read(sector, 1)[INCOMPAT] & 5, RETIRED | LACKS, "the NVRAM's header")
    never_again(box)
    box.away()


def well() -> None:
    for nvram in ("lab", "none"):
        base.step(f"a log that works isn't left; NVRAM: {nvram}")
        box = Box(nvram=nvram, settings="scrub_kib=0")
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, 0, 640, "before", 16)
            with base.refused("a log that works", errno.EBUSY, kernel="only a dead one can"):
                box.set("leave_log=1,busy_after_ms=9000")
            base.expect("leave_log=0" in box.info() and "log ok" in box.info(), box.info())
            box.set("busy_after_ms=9001")
            filled(disk, model, 320, 960, "by the log", 16)
            box.destaged()
            with base.refused("an empty one", errno.EBUSY):
                box.set("leave_log=1")
        with box.disk("leave_log=1") as disk:
            base.expect("leave_log=0" in box.info() and "log ok" in box.info(), box.info())
            model.check(disk, "opened")
        box.away()


def again() -> None:
    for nvram in ("lab", "none", "dram:battery", "dram"):
        base.step(f"the log works again after it was asked for; NVRAM: {nvram}")
        box = Box(nvram=nvram, settings=HELD, nvram_bytes=4096 + 6 * 65536)
        model = Model(box.data.sectors)
        with box.disk_until_cut() as disk:
            filled(disk, model, 0, 3000, "before", 16)
            box.leave_log()
            filled(disk, model, 1000, 2000, "meanwhile", 16)
            left(box)
            model.check(disk, "left")
            through(box, model, disk)
            model.check(disk, "written through")
            base.equal(box.count("lost_sectors") + box.count("write_errors"), 0, box.info())
        base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk alone")
        for copy in (0, 8):
            base.equal(box.log.bytes(copy, 1)[INCOMPAT] & 5, RETIRED, "the superblock")
        never_again(box)
        box.away()


def unwritable() -> None:
    base.step("without an NVRAM that keeps its content a log that takes no writes isn't left")
    for nvram in ("none", "dram:battery"):
        box = Box(nvram=nvram, settings=HELD, nvram_bytes=4096 + 6 * 65536)
        model = Model(box.data.sectors)
        log = base.KernelLog()
        with box.disk() as disk:
            filled(disk, model, 0, 640, "before", 16)
            box.says(" 0 in use", "the log to have it")
            box.log.fail()
            box.set("leave_log=1")
            box.says("log FAILING", "it to be refused")
            box.log.fail_writes()
            base.expect(any("so it isn't" in line for line in log.new()), "why")
            model.check(disk, "as before")
            box.log.heal()
            box.set("destage_idle_ms=1")
            box.says("log ok", "the log to work again")
            base.expect("leave_log=0" in box.info(), "what was refused is still asked for")
            box.set("busy_after_ms=9000")
            time.sleep(10)
            box.says("log ok", "the log to be used")
            filled(disk, model, 320, 960, "on", 16)
        with box.disk() as disk:
            model.check(disk, "opened")
        box.away()


def taken_back() -> None:
    base.step("asked for while the data disk fails, taken back, and asked for again")
    box = box_of(HELD, slots=12)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 3000, "before", 16)
        box.data.fail_writes()
        box.leave_log()
        box.says("log LEAVING", "it to begin")
        filled(disk, model, 0, 160, "meanwhile", 16)
        box.says("data FAILING", "the data disk's failure")
        box.set("leave_log=0")
        box.data.heal()
        box.says("log ok", "the log to be used again")
        filled(disk, model, 160, 320, "by the log", 16)
        model.check(disk, "taken back")
    with box.disk() as disk:
        model.check(disk, "opened")
        box.leave_log()
        left(box)
        model.check(disk, "left")
    base.expect(box.data.bytes(0, box.data.sectors) == model.bytes, "the data disk alone")
    box.away()


class Writer(threading.Thread):
    """Writes its own places over and over; what is acknowledged before it is to stop counts."""

    def __init__(self, node: str, number: int) -> None:
        super().__init__(daemon=True)
        self._node, self._first = node, 2000 * number
        self.acked: dict[int, bytes] = {}
        self.last, self.longest, self.count, self.stopped = -1, 0.0, 0, False

    def run(self) -> None:
        with blk.Disk(self._node) as disk:
            while not self.stopped:
                self.last = self._first + 16 * (self.count * 7 % 100)
                data = blk.pattern(f"{self._first} {self.count}", 16)
                began = time.monotonic()
                disk.write(self.last, data)
                if self.stopped:
                    return
                self.longest = max(self.longest, time.monotonic() - began)
                self.acked[self.last] = data
                self.count += 1
                time.sleep(0.002)


def load() -> None:
    for life, nvram in enumerate(("lab", "lab", "none", "dram:battery")):
        base.step(f"four write meanwhile, to a slow data disk; NVRAM: {nvram}")
        box = Box(nvram=nvram, settings=HELD, nvram_bytes=4096 + 8 * 65536, log_mib=6)
        model = Model(box.data.sectors)
        with box.disk_until_cut() as disk:
            filled(disk, model, 8192, 8192 + 40 * 112, "in the log", 112)
            box.data.slow(4)
            writers = [Writer(disk.node, n) for n in range(4)]
            for one in writers:
                one.start()
            time.sleep(0.1)
            if life == 1:
                box.log.fail_writes()
                box.says("log FAILING", "the log to be dead")
                box.set("leave_log=1")
            else:
                box.leave_log()
            left(box)
            time.sleep(0.1)
            for one in writers:
                one.stopped = True
            base.equal(box.count("write_errors") + box.count("busy"), 0, box.info())
        for one in writers:
            one.join()
            one.acked.pop(one.last, None)  # a later one may be there
            for at, data in one.acked.items():
                base.expect(box.data.bytes(at, 16) == data, f"sectors {at} on were acknowledged")
        longest = max(one.longest for one in writers)
        print(f"  {sum(one.count for one in writers)} writes, longest {longest:.3f} s", flush=True)
        base.expect(longest < 2, f"a write took {longest:.3f} s")
        never_again(box)
        box.away()


def cut() -> None:
    """At any moment: before the marks nothing has happened, behind them the data disk has all."""
    before = behind = 0
    for life in range(24):
        rng = random.Random(f"leave {base.SEED} {life}")
        keeps = life % 3 > 0
        box = box_of(HELD, slots=8) if keeps else Box(nvram="none", settings=HELD)
        model = Model(box.data.sectors)
        with box.disk_until_cut() as disk:
            for n in range(rng.randrange(20, 200)):
                some_write(disk, model, rng, f"{life} {n}", within=3000)
            dead = keeps and rng.random() < 0.5  # else its superblock couldn't say it
            if not dead:
                box.data.slow(rng.choice((2, 10, 30)))
            box.leave_log()
            if dead:
                box.log.fail_writes()
            time.sleep(rng.random() * rng.choice((0.02, 0.2, 1.0)))
            for n in range(rng.randrange(0, 20)):
                some_write(disk, model, rng, f"{life} late {n}", within=3000)
        try:
            store = box.open()
        except OSError as err:
            base.equal(err.errno, errno.EMEDIUMTYPE, "why it isn't opened")
            base.expect(
                box.data.bytes(0, box.data.sectors) == model.bytes, f"life {life}: the data disk"
            )
            behind += 1
        else:
            with lio.look(store) as node, blk.Disk(node) as disk:
                model.check(disk, f"life {life}")
            box.close()
            before += 1
        box.away()
    print(f"  {before} cuts before the marks, {behind} behind them", flush=True)
    base.expect(before and behind, "all were of one kind")


def blip() -> None:
    for nvram, ms in (("lab", 100), ("lab", 2000), ("none", 300)):
        base.step(f"a log gives nothing for {ms} ms when it is left; NVRAM: {nvram}")
        box = Box(nvram=nvram, settings=HELD, nvram_bytes=4096 + 6 * 65536)
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, 0, 600, "only in the log", 16)
            filled(disk, model, 4096, 4096 + 8 * 112, "so that no slot has it", 112)
            base.until(lambda: " 0 in use" in box.info(), "the log to have all")  # noqa: B023
            box.log.fail("1 error_reads")
            box.set("leave_log=1")
            time.sleep(ms / 1000)
            box.log.heal()
            left(box)
            base.equal(box.count("lost_sectors"), 0, "sectors that are lost")
            model.check(disk, "left")
        box.away()


def beside() -> None:
    base.step("a log gives nothing for 100 ms when it is left, and somebody writes")
    box = Box(nvram="lab", settings=HELD, nvram_bytes=4096 + 16 * 65536)
    with box.disk() as disk:
        only_in_log(box, disk, 40)
        writer = Writer(disk.node, 1)
        box.log.fail("1 error_reads")
        box.set("leave_log=1")
        writer.start()
        time.sleep(0.1)
        box.log.heal()
        left(box)
        time.sleep(0.1)
        writer.stopped = True
        writer.join()
        base.equal(box.count("lost_sectors"), 0, "sectors that are lost")
        print(f"  {writer.count} writes, longest {writer.longest:.3f} s", flush=True)
        base.expect(writer.longest < 1, f"a write took {writer.longest:.3f} s")
    box.away()


def many() -> None:
    base.step(f"a log is dead that has {MANY} places, and somebody writes while it is left")
    box = Box(nvram="lab", settings=HELD, nvram_bytes=4096 + 8 * 65536, log_mib=8)
    with box.disk() as disk:
        only_in_log(box, disk, MANY)
        box.log.fail()
        box.set("leave_log=1")
        writer = Writer(disk.node, 4)
        writer.start()
        left(box)
        time.sleep(0.1)
        writer.stopped = True
        writer.join()
        base.expect(box.count("lost_sectors") > 0, "what only the log had is lost")
        print(f"  {writer.count} writes, longest {writer.longest:.3f} s", flush=True)
        base.equal(box.count("busy") + box.count("write_errors"), 0, "writes that were refused")
        base.expect(writer.longest < 8, f"a write took {writer.longest:.3f} s")
    box.away()


def slow(places: int, ms: int) -> None:
    base.step(f"each request of a dead log with {places} places fails after {ms} ms; one writes")
    box = Box(nvram="lab", settings=f"{HELD},busy_after_ms=0", nvram_bytes=4096 + 8 * 65536,
              log_mib=8)  # fmt: skip
    with box.disk() as disk:
        only_in_log(box, disk, places)
        box.log.fail_late(ms)
        box.set("leave_log=1")
        writer = Writer(disk.node, 4)
        writer.start()
        base.until(lambda: "log LEFT" in box.info(), "the log to be left", 100)
        time.sleep(0.1)
        writer.stopped = True
        writer.join()
        base.expect(box.count("lost_sectors") > 0, "what only the log had is lost")
        print(f"  {writer.count} writes, longest {writer.longest:.3f} s", flush=True)
        box.log.heal()
    box.away()


def ended(slow_ms: int) -> None:
    base.step(f"closed while it waits for what the log may give, which fails after {slow_ms} ms")
    box = Box(nvram="lab", settings=HELD, nvram_bytes=4096 + 8 * 65536, log_mib=8)

    def in_time(close: Callable[[], None]) -> None:
        took = blk.timed(close)
        print(f"  the close took {took:.3f} s", flush=True)
        base.expect(took < 2 + slow_ms / 60, f"the close waits for the log: {took:.1f} s")

    with box.disk_closed_by(in_time) as disk:
        only_in_log(box, disk, MANY)
        disk.write(0, blk.pattern("in NVRAM", 8))
        box.log.fail_late(slow_ms) if slow_ms else box.log.fail()
        box.set("leave_log=1")
        rounds = box.count("rounds")
        base.until(lambda: box.count("rounds") > rounds, "a round")
    box.log.heal()
    with box.disk() as disk:
        base.expect(disk.read(0, 8) == blk.pattern("in NVRAM", 8), "what was in NVRAM")
        for n in range(1, MANY):
            base.expect(disk.read(16 * n, 8) == blk.pattern(f"place {n}", 8), f"place {n}")
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    "dead": dead, "well": well, "again": again, "unwritable": unwritable,
    "taken_back": taken_back, "load": load, "cut": cut, "blip": blip, "beside": beside,
    "many": many, "slow": partial(slow, 20, 1500), "slow_many": partial(slow, MANY, 300),
    "ended": partial(ended, 0), "ended_slow": partial(ended, 300),
}  # fmt: skip
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
