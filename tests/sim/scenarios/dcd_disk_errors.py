# SPDX-License-Identifier: GPL-2.0-only
"""A DCD whose data disk fails and comes back: what was acknowledged stays, nothing hangs."""

import errno
import threading
import time

from dcdlab import SEGMENT, Box, Model, filled
from locklab import base, blk

BLIP = 4  # seconds: more than a moment


def close_while_data_fails(nvram: str) -> None:
    base.step(f"{nvram}: closed while the data disk fails, the log has it all")
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 256, "destaged")
        disk.flush()
        box.destaged()
        box.data.fail()
        filled(disk, model, 128, 384, "in the log")
        disk.flush()
        box.says("data FAILING", "the failure to be seen")
        filled(disk, model, 256, 300, "in NVRAM only, then closed")
        if nvram == "dram":
            disk.flush()
    box.data.heal()
    with box.disk() as disk:
        model.check(disk, "after reopening")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def fail_and_come_back() -> None:
    base.step("the data disk fails until the log is full: writes fail then, and none hangs")
    box = Box()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 64, "before")
        box.data.fail()
        log = base.KernelLog()
        failed = 0
        for n in range(160):  # the ring takes about 80
            at = n * 32
            data = blk.pattern(f"while failing {n}", 32)
            try:
                disk.write(at, data)
            except OSError as err:
                base.equal(err.errno, errno.EIO, "the error of a write with the log full")
                failed += 1
                model.put(at, disk_now(disk, at, 32, data, model))
            else:
                model.put(at, data)
        base.expect(failed, "writes fail when the log is full and the data disk fails")
        base.expect(failed < 90, f"{failed} of 160 writes failed: the log's room isn't used")
        lines = log.new()
        base.expect(any("can't destage to" in line for line in lines), f"a message: {lines}")
        base.expect("data FAILING" in box.info(), box.info())
        base.expect(box.count("data_errors") > 0, "the errors are counted")
        log = base.KernelLog()
        box.data.heal()
        box.says("data ok", "destage to resume by itself")
        box.destaged()
        lines = log.new()
        base.expect(any("works again" in line for line in lines), f"a message: {lines}")
        filled(disk, model, 0, 64, "after")
        model.check(disk, "after the data disk came back")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def disk_now(disk: blk.Disk, at: int, count: int, new: bytes, model: Model) -> bytes:
    """After a failed write: each sector has its old or its new bytes, nothing else."""
    # Below the failing disk only what is in NVRAM or the log can be read.
    out = b""
    for n in range(count):
        old = bytes(model.bytes[(at + n) * blk.SECTOR : (at + n + 1) * blk.SECTOR])
        try:
            now = disk.read(at + n, 1)
        except OSError:
            now = old
        mine = new[n * blk.SECTOR : (n + 1) * blk.SECTOR]
        base.expect(now in (old, mine), f"sector {at + n} after a failed write")
        out += now
    return out


def one_bad_place() -> None:
    base.step("one bad place of the data disk: reads of it fail, and of nothing else")
    box = Box()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 512, "all")
        box.destaged()
        box.data.fail_part(100, 101)
        with base.refused("read of a bad place", errno.ENODATA):
            disk.read(96, 16)
        base.expect(box.count("read_errors") > 0, "the error is counted")
        base.expect(disk.read(104, 8) == blk.pattern("all 64", 64)[40 * 512 : 48 * 512], "others")
        data = blk.pattern("anew", 8)
        disk.write(96, data)
        model.put(96, data)
        base.expect(disk.read(96, 8) == data, "what was written there anew")
        box.data.heal()
        model.check(disk, "after repair")
    box.away()


def flush_fails() -> None:
    base.step("a flush of the data disk fails and its cache is lost: all is copied again")
    box = Box(data_options={"flush": "lie"})
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.data.fail_flush()
        for n in range(8):  # a write each
            filled(disk, model, 100 * n, 100 * n + 64, "copied, not flushed")
        box.says("data FAILING", "the failing flush to be seen")
        base.expect(box.data.bytes(0, 800) == model.bytes[: 800 * blk.SECTOR], "it was copied")
        box.data.replug()
        base.expect(box.data.bytes(0, 800) != model.bytes[: 800 * blk.SECTOR], "some of it is lost")
        box.says("data ok", "destage to resume")
        box.destaged()
        model.check(disk, "after the second copy")
    box.away()


def no_blip(box: Box) -> None:
    """It fails for longer than for a moment, in which it is tried each half of a second."""
    rounds = box.count("rounds")
    time.sleep(BLIP)
    rounds = box.count("rounds") - rounds
    base.expect(rounds <= 2 * BLIP, f"{rounds} rounds in a second, or some")


def tried_in_its_time() -> None:
    base.step("a failing data disk isn't tried at the rate of the writes")
    box = Box()
    with box.disk() as disk:
        box.data.fail()
        for n in range(220):  # above the low watermark
            disk.write(8 * n, blk.pattern(f"{n}", 8))
        box.says("data FAILING", "the failure to be seen")
        no_blip(box)
        rounds, begin = box.count("rounds"), time.monotonic()
        for n in range(100):
            disk.write(8 * n, blk.pattern(f"again {n}", 8))
            time.sleep(0.02)
        rounds, took = box.count("rounds") - rounds, time.monotonic() - begin
        print(f"  {rounds} rounds in {took:.1f} s", flush=True)
        base.expect(rounds <= 1 + took / 4, f"{rounds} rounds in {took:.1f} s")
        box.data.heal()
        box.says("data ok", "it to work again")
        box.destaged()
    box.away()


def zeroes_in_their_time() -> None:
    for how in ("fail_flush", "fail_writes", "fail"):
        base.step(f"nor is it tried without a pause for zeroes: {how}")
        box = Box()
        with box.disk() as disk:
            getattr(box.data, how)()
            disk.zero(0, 128)
            base.until(lambda: box.count("data_errors") > 0, "the failure to be seen")  # noqa: B023
            no_blip(box)
            rounds = box.count("rounds")
            time.sleep(1)
            rounds = box.count("rounds") - rounds
            base.expect(rounds <= 1, f"{rounds} rounds in a second")
            box.data.heal()
            box.destaged()
            box.says("data ok", "it to work again")
        box.away()


def slow_after_failure() -> None:
    base.step("a slow data disk that failed once: its destage is preempted, then a burst comes")
    box = Box(
        data_mib=64,
        data_model="spindle",
        data_options={"write_cache": "off", "spread": "on"},
        log_mib=9,
        nvram_bytes=4096 + 8 * SEGMENT,
    )
    refused: list[OSError] = []

    def burst(node: str, n: int) -> None:
        with blk.Disk(node) as disk:
            for i in range(100):
                at = n * 8000 + (i * 37 % 70) * 112
                try:
                    disk.write(at, blk.pattern(f"burst {n} {i}", 112))
                except OSError as err:
                    refused.append(err)
                    return

    with box.disk() as disk:
        for n in range(400):
            disk.write(100000 + n * 24, blk.pattern(f"far apart {n}", 8))
        box.data.fail()
        disk.write(8, blk.pattern("one more", 8))
        box.says("data FAILING", "the failure to be seen")
        rounds = box.count("rounds")
        box.data.heal()
        base.until(lambda: box.count("rounds") > rounds, "destage to resume")
        preempted = box.count("preempted")
        for n in range(40):  # never idle, never urgent
            disk.write(24 + n * 8, blk.pattern("now and then", 8))
            time.sleep(0.2)
        base.expect(box.count("preempted") > preempted, f"it is preempted: {box.info()}")
        base.expect("data ok" in box.info(), box.info())
        threads = [threading.Thread(target=burst, args=(disk.node, n)) for n in range(16)]
        waits = box.count("waits_for_room")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        base.expect(box.count("waits_for_room") > waits, "the burst fills the log")
        base.expect(not refused, f"both disks work: {refused}")
    box.away()


def bad_places() -> None:
    base.step("more bad places than a walk takes: what is behind them goes home nevertheless")
    box = Box()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.data.fail_part(0, 999)
        for n in range(40):
            filled(disk, model, 16 * n, 16 * n + 8, "apart")
        filled(disk, model, 4000, 4064, "behind")
        base.until(
            lambda: box.data.bytes(4000, 64) == blk.pattern("behind 4000", 64), "it to go home"
        )
        box.data.heal()
        box.destaged()
        model.check(disk, "after repair")
    box.away()


close_while_data_fails("dram:battery")
close_while_data_fails("dram")
fail_and_come_back()
one_bad_place()
tried_in_its_time()
zeroes_in_their_time()
slow_after_failure()
bad_places()
flush_fails()
base.step("done")
