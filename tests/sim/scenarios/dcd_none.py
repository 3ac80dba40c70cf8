# SPDX-License-Identifier: GPL-2.0-only
"""A DCD without NVRAM: a write is acknowledged when the log has it (report after complete).

With the argument `refused` only what was refused when the log failed.
"""

import errno
import threading
import time
from functools import partial
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk, dm, lio
from statelab import Beside

NVRAM_BYTES = 4096 + 4 * SEGMENT


def cut() -> None:
    base.step("the LUN has no volatile cache: a cut takes nothing that was acknowledged")
    box = Box(nvram="none", nvram_bytes=NVRAM_BYTES)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        cache = Path(f"/sys/block/{Path(disk.node).name}/queue/write_cache").read_text().strip()
        base.equal(cache, "write through", "WCE")
        filled(disk, model, 0, 512, "before", 8)
        filled(disk, model, 100, 300, "over it")
        disk.zero(120, 40)
        model.put(120, bytes(40 * 512))
        disk.discard(400, 16)
        model.put(400, bytes(16 * 512))
    with box.disk() as disk:
        model.check(disk, "after the cut")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


class Write(threading.Thread):
    def __init__(self, node: str, sector: int, data: bytes) -> None:
        super().__init__()
        self._node, self._sector, self._data = node, sector, data
        self.error: OSError | None = None

    def run(self) -> None:
        with blk.Disk(self._node) as disk:
            try:
                disk.write(self._sector, self._data)
            except OSError as err:
                self.error = err


def writes(disk: blk.Disk, model: Model, count: int) -> list[Write]:
    """So many at a time, 8 sectors each."""
    out = []
    for n in range(count):
        data = blk.pattern(f"at a time {n}", 8)
        model.put(1000 + 8 * n, data)
        out.append(Write(disk.node, 1000 + 8 * n, data))
        out[-1].start()
    return out


def groups() -> None:
    base.step("while the log disk hangs nothing is acknowledged; what came meanwhile goes together")
    box = Box(nvram="none", nvram_bytes=NVRAM_BYTES)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 64, "before")
        segments = box.count("segments")
        dm.suspend(box.log.name)
        going = writes(disk, model, 12)
        base.until(lambda: box.count("writes") >= 12, "all to be submitted")
        base.expect(all(write.is_alive() for write in going), "acknowledged without the log")
        dm.resume(box.log.name)
        for write in going:
            write.join(600)
            base.expect(not write.is_alive() and write.error is None, f"{write.error}")
        more = box.count("segments") - segments
        base.expect(1 <= more <= 3, f"12 writes at a time made {more} segments")
        model.check(disk, "in the end")
    box.away()


def log_fails(cut_too: bool) -> None:
    base.step(f"the log fails: writes are refused{', then a cut' if cut_too else ''}")
    box = Box(nvram="none", nvram_bytes=NVRAM_BYTES)
    model = Model(box.data.sectors)
    with box.disk_until_cut() if cut_too else box.disk() as disk:
        filled(disk, model, 0, 512, "in the log")
        box.data.fail_writes()
        box.log.fail_writes()
        for n in range(3):
            with base.refused(f"write {n} that the log can't have", errno.EIO):
                disk.write(100 + 8 * n, blk.pattern(f"refused {n}", 8))
        base.expect("log FAILING" in box.info(), box.info())
        base.expect(box.count("write_errors") >= 3, "they are counted")
        # Nothing acknowledged is in memory only: SYNCHRONIZE CACHE has nothing to do.
        base.run("sg_sync", disk.node)
        if not cut_too:
            box.data.heal()
            box.log.heal()
            box.says("log ok", "the log to work again")
            settle(disk, model)
            filled(disk, model, 200, 300, "taken again")
            model.check(disk, "with the log back")
    if cut_too:
        box.log.heal()
    with box.disk() as disk:
        settle(disk, model)
        model.check(disk, "reopened")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def settle(disk: blk.Disk, model: Model) -> None:
    """A refused write is there or not; then the model has it so."""
    for n in range(3):
        now = disk.read(100 + 8 * n, 8)
        old = bytes(model.bytes[(100 + 8 * n) * 512 : (108 + 8 * n) * 512])
        base.expect(now in (old, blk.pattern(f"refused {n}", 8)), f"refused write {n}")
        model.put(100 + 8 * n, now)


def closed_without_log() -> None:
    base.step("closed while both disks fail: what was acknowledged is there")
    box = Box(nvram="none", nvram_bytes=NVRAM_BYTES)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 512, "in the log")
        box.data.fail_writes()
        box.log.fail_writes()
        for n in range(3):
            with base.refused(f"write {n}", errno.EIO):
                disk.write(100 + 8 * n, blk.pattern(f"refused {n}", 8))
    box.data.heal()
    box.log.heal()
    with box.disk() as disk:
        settle(disk, model)
        model.check(disk, "reopened")
    box.away()


def refused(closed: bool) -> None:
    how = "closed" if closed else "a cut"
    base.step(f"the log fails for a while, {how}: the data disk is known again all the same")
    box = Box(nvram="none", nvram_bytes=NVRAM_BYTES, settings="destage_idle_ms=100")
    model = Model(box.data.sectors)
    with box.disk() if closed else box.disk_until_cut() as disk:
        filled(disk, model, 104, 112, "what is checked at the next start")
        box.destaged()
        box.log.fail_writes()
        for n in range(3):
            with base.refused(f"write {n} that the log can't have", errno.EIO):
                disk.write(100 + 8 * n, blk.pattern(f"refused {n}", 8))
        time.sleep(10)
    box.log.heal()
    with box.disk() as disk:
        settle(disk, model)
        model.check(disk, "reopened")
    box.away()


def left_amid_a_round() -> None:
    base.step("the log's places take no writes, it is to be left, and a cut comes before it is")
    box = Box(nvram="none", data_mib=64, log_mib=16, nvram_bytes=NVRAM_BYTES)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 224, "what is checked at the next start", 8)
        box.set("destage_idle_ms=50")
        box.destaged()
        box.set("destage_idle_ms=3600000,destage_low=98,destage_high=99")
        for at in range(20000, 39200, 32):
            filled(disk, model, at, at + 8, "for a round that takes long", 8)
        box.data.slow_writes(400)
        rounds = box.count("rounds")
        box.set("destage_idle_ms=1")
        base.until(lambda: box.count("rounds") > rounds, "a round", 10)
        box.log.refuse((16, box.log.sectors - 1))  # all but its superblocks
        data = blk.pattern("refused", 224)
        writes = [Beside(partial(disk.write, at, data[at * 512 : (at + 8) * 512]))
                  for at in range(0, 224, 8)]  # fmt: skip
        for write in writes:
            with base.refused("a write that the log can't have", errno.EIO):
                write.result()
        box.set("leave_log=1")
        base.until(lambda: any(box.data.bytes(at, 8) == data[at * 512 : (at + 8) * 512]
                               for at in range(0, 224, 8)),
                   "one of those to be on the data disk", 60)  # fmt: skip
    box.log.heal()
    box.data.heal()
    with box.disk() as disk:
        disk.write(0, data)
        model.put(0, data)
        model.check(disk, "reopened")
    box.away()


def past_the_log() -> None:
    base.step("while the log fails what it has comes to the data disk all the same")
    box = Box(nvram="none", nvram_bytes=NVRAM_BYTES, settings="destage_idle_ms=3600000")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 200, 500, "in the log")
        box.log.fail_writes()
        with base.refused("a write that the log can't have", errno.EIO):
            disk.write(100, blk.pattern("refused 0", 8))
        base.until(lambda: box.data.bytes(200, 300) == bytes(model.bytes[200 * 512 : 500 * 512]),
                   "the data disk to have it", 30)  # fmt: skip
        box.log.heal()
        box.says("log ok", "the log to work again")
        settle(disk, model)
        filled(disk, model, 100, 124, "taken again")
    with box.disk() as disk:
        model.check(disk, "reopened")
    box.away()


def blind() -> None:
    for what, error in (("unreadable", errno.EIO), ("damaged", errno.EUCLEAN)):
        base.step(f"the last segment but one is damaged at its end, the last one's header {what}")
        box = Box(nvram="none", data_mib=16, settings="destage_idle_ms=3600000,scrub_kib=0")
        data = [blk.pattern(f"{n}", 112) for n in range(4)]
        with box.disk_until_cut() as disk:
            for n, part in enumerate(data):
                disk.write(n * 256, part, fua=True)
        log = box.log.bytes(0, box.log.sectors)
        start, last = (log.find(part[: blk.SECTOR]) // blk.SECTOR for part in data[-2:])
        header = last - (last - RING_START // blk.SECTOR) % (SEGMENT // blk.SECTOR)
        with blk.Disk(box.log.node) as raw:
            raw.write(start + 104, bytes(8 * blk.SECTOR))
            was = raw.read(header, 1)
            if what == "damaged":
                raw.write(header, was[:40] + bytes([was[40] ^ 1]) + was[41:])
            raw.flush()
        if what == "unreadable":
            box.log.unreadable((header, header + 7))
        with base.refused("a log that ends so", error):
            box.open()
        box.log.heal()
        with blk.Disk(box.log.node) as raw:
            raw.write(header, was)
            raw.flush()
        store = box.open()
        with lio.look(store) as node, blk.Disk(node) as disk:
            base.expect(disk.read(3 * 256, 112) == data[3], "the last write isn't there")
        box.close()
        box.away()


def other_buffer() -> None:
    base.step("it is the same log as with dram: neither has an NVRAM that keeps anything")
    box = Box(nvram="none", nvram_bytes=NVRAM_BYTES)
    model = Model(box.data.sectors)
    for nvram in ("none", "dram", "dram:battery", "none"):
        box.nvram = nvram
        with box.disk() as disk:
            model.check(disk, f"opened with {nvram}")
            box.data.fail_writes()
            filled(disk, model, 0, 512, f"written with {nvram}")
            disk.flush()
        box.data.heal()
    with base.refused("settings of none", errno.EINVAL, kernel="has no settings"):
        box.nvram = "none:x"
        box.open()
    box.away()


if not base.words(1, ["refused"]):
    cut()
    groups()
    log_fails(cut_too=False)
    log_fails(cut_too=True)
    closed_without_log()
    past_the_log()
    blind()
    other_buffer()
refused(closed=False)
refused(closed=True)
left_amid_a_round()
base.step("done")
