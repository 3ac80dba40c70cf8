# SPDX-License-Identifier: GPL-2.0-only
"""A DCD whose log disk fails and comes back: NVRAM goes to the data disk, or writes are refused."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk, lio
from locklab.iscsi import Session
from locklab.wire import Wire

RING = RING_START // blk.SECTOR
PER = SEGMENT // blk.SECTOR
KNOBS = Path("/sys/module/dcd/parameters")


def says(text: str, work: Callable[[], None]) -> None:
    """The kernel says it meanwhile."""
    log = base.KernelLog()
    work()
    lines: list[str] = []

    def said() -> bool:
        lines.extend(log.new())
        return any(text in line for line in lines)

    try:
        base.until(said, f"{text!r} in the kernel's log")
    except base.Wrong as err:
        raise base.Wrong(f"{err}: {lines}") from None


def nvram_goes_on(cut: bool) -> None:
    base.step(f"an NVRAM that keeps: writes go on without the log, then {'cut' if cut else 'end'}")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk_until_cut() if cut else box.disk() as disk:
        filled(disk, model, 0, 640, "in the log, and overwritten later")
        base.expect(box.count("live") > 0, "the log has some of it")

        def lose() -> None:
            box.log.fail_writes()
            filled(disk, model, 256, 2048, "four times the NVRAM")

        says("going on from NVRAM to the data disk", lose)
        base.expect("log FAILING" in box.info(), box.info())
        base.expect(box.count("bypass_rounds") > 0, "NVRAM went to the data disk")
        base.expect(box.count("write_errors") == 0, "no write failed")
        disk.flush()
        if cut:
            filled(disk, model, 64, 128, "NVRAM only")
        else:
            model.check(disk, "without the log")
            says("works again", box.log.heal)
            base.expect("log ok" in box.info(), box.info())
            segments = box.count("segments")
            filled(disk, model, 128, 640, "in the log again")
            base.expect(box.count("segments") > segments, "the log is used")
            model.check(disk, "with the log back")
    with box.disk() as disk:
        model.check(disk, "after reopening")
        filled(disk, model, 300, 400, "and it goes on")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def copied_past_the_log() -> None:
    base.step("a read copies from a slot while that goes past the dead log, and is used again")
    parameter = KNOBS / "test_copy_us"
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    got: list[bytes] = []

    def read(node: str) -> None:
        with blk.Disk(node, write=False) as again:
            got.append(again.read(0, 8))

    store = box.open()
    wire, target, session = Wire("lan"), lio.Target(store), Session()
    far = session.login()  # it has a thread of its own in the target
    with lio.look(store) as node, blk.Disk(node) as disk:
        box.log.fail_writes()
        filled(disk, model, 1000, 1200, "so that it is seen")
        box.says("log FAILING", "the failure to be seen")
        filled(disk, model, 0, 8, "copied")
        reads, rounds = box.count("reads"), box.count("bypass_rounds")
        base.put(parameter, 300_000)
        reader = threading.Thread(target=read, args=(far,))
        reader.start()
        base.until(lambda: box.count("reads") > reads, "the read to begin")
        base.put(parameter, 0)
        filled(disk, model, 2000, 2000 + 10 * 112, "in the slots again", 112)
        base.expect(box.count("bypass_rounds") > rounds, "nothing went past the log")
        reader.join()
        base.expect(got == [model.bytes[: 8 * blk.SECTOR]], "the read has other bytes")
        box.log.heal()
        box.says("log ok", "the log to work again")
    session.close()
    target.remove()
    wire.close()
    box.close()
    box.away()


def both_fail() -> None:
    base.step("log and data disk fail: writes are refused when NVRAM is full, and none hangs")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 64, "before")
        box.destaged()
        box.log.fail()
        box.data.fail()
        taken = 0
        with base.refused("a write with nothing left", errno.EIO):
            for n in range(64):
                data = blk.pattern(f"last {n}", 16)
                disk.write(1000 + 16 * n, data)
                model.put(1000 + 16 * n, data)
                taken += 1
        base.expect(taken >= 3 * 112 // 16 - 1, f"only {taken} writes were taken before")
        base.expect(disk.read(1000, 16) == blk.pattern("last 0", 16), "read from NVRAM")
        with base.refused("a read from the data disk", errno.ENODATA):
            disk.read(0, 8)
    box.data.heal()
    box.log.heal()
    with box.disk() as disk:
        got = disk.read(1000 + 16 * taken, 16)
        base.expect(not any(got) or got == blk.pattern(f"last {taken}", 16), "the refused write")
        model.put(1000 + 16 * taken, got)
        model.check(disk, "kept in NVRAM while it was closed")
    box.away()


def battery_refuses() -> None:
    base.step("dram: what is acknowledged goes to the data disk, no more is taken until it is told")
    for nvram in ("dram:battery", "dram"):
        box = Box(nvram=nvram)
        model = Model(box.data.sectors)
        with box.disk() as disk:
            filled(disk, model, 0, 64, "in the log")
            disk.flush()
            box.log.fail_writes()
            filled(disk, model, 32, 96, "in NVRAM when the log dies")
            if nvram == "dram":
                with base.refused("flush with the log dead", errno.EIO):
                    disk.flush()
                base.expect(box.count("flush_errors") > 0, "it is counted")
            box.says("log FAILING", "the failure to be seen")
            with base.refused("a write with the log dead", errno.EIO):
                disk.write(0, bytes(4096))
            base.expect(box.count("write_errors") > 0, "it is counted")
            model.check(disk, f"{nvram}, without the log")
            says("works again", box.log.heal)
            filled(disk, model, 200, 300, "taken again")
            disk.flush()
            model.check(disk, f"{nvram}, with the log back")
        with box.disk() as disk:
            model.check(disk, f"{nvram}, reopened")
        box.away()


def battery_flush() -> None:
    base.step("dram:battery, a dead log: SYNCHRONIZE CACHE fails while anything is in NVRAM only")
    box = Box(nvram="dram:battery")
    model = Model(box.data.sectors)
    with box.disk() as disk:
        # The LUN has no volatile cache, so the kernel's own flushes end above it.
        base.run("sg_sync", str(disk.node))
        box.data.fail_writes()
        box.log.fail_writes()
        filled(disk, model, 0, 8, "in NVRAM when the log dies", 8)
        box.says("log FAILING", "the failure to be seen")
        try:
            base.run("sg_sync", str(disk.node))
        except base.Wrong as err:
            print("  refused as it has to be: SYNCHRONIZE CACHE", flush=True)
            base.expect("sg_sync" in str(err), str(err))
        else:
            raise base.Wrong("SYNCHRONIZE CACHE was answered")
        box.data.heal()
        box.log.heal()
        box.says("log ok", "the log to work again")
        base.run("sg_sync", str(disk.node))
        model.check(disk, "with the disks back")
    box.away()


def battery_closes() -> None:
    base.step("dram:battery closed with the log dead: all is on the data disk, and it says so")
    box = Box()
    model = Model(box.data.sectors)

    def whole() -> None:
        with box.disk() as disk:
            filled(disk, model, 0, 200, "in the log, then")
            box.log.fail_writes()
            filled(disk, model, 100, 150, "over it, in NVRAM")

    says("would bring older data back", whole)
    base.expect(
        box.data.bytes(0, 200) == model.bytes[: 200 * blk.SECTOR], "the data disk has everything"
    )
    box.away()


def bad_place(nvram: str) -> None:
    base.step(f"{nvram}: a bad place in the ring is passed over, each time round")
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.log.fail_part(RING + 5 * PER, RING + 6 * PER - 1)
        refused = 0
        for n in range(120):
            data = blk.pattern(f"round {n}", 80)
            try:
                disk.write(80 * (n % 40), data)
            except OSError as err:
                base.equal(err.errno, errno.EIO, "the error")
                refused += 1
                box.says("log ok", "the log to work again")
                disk.write(80 * (n % 40), data)
            model.put(80 * (n % 40), data)
        base.expect(box.count("log_write_errors") >= 2, "the bad place was met")
        base.expect(not refused or nvram != "lab", f"{refused} writes were refused")
        box.says("log ok", "the log to work")
        model.check(disk, "past the bad place")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def unreadable() -> None:
    base.step("a part of the log that counts can't be read: reads fail, the rest goes home")
    box = Box()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.data.fail()  # so that all stays in the log
        filled(disk, model, 0, 560, "in five segments")
        disk.write(4000, bytes(512))
        box.says("data FAILING", "the data disk's failure")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        box.log.fail_part(RING + 2 * PER, RING + 3 * PER - 1)

        def come_back() -> None:
            box.data.heal()

        says("can't read", come_back)
        base.until(lambda: box.count("destaged_sectors") >= 300, "what can be read to go home")
        with base.refused("a read of the lost part", errno.ENODATA):
            model.check(disk, "the whole")
        base.expect(disk.read(0, 64) == blk.pattern("in five segments 0", 64), "what is home")
        disk.write(8000, blk.pattern("goes on", 8))
        model.put(8000, blk.pattern("goes on", 8))
        says("readable again", box.log.heal)
        box.destaged()
        model.check(disk, "after all")
    box.away()


def recovery_without_log() -> None:
    base.step("after a cut the log can't be written: recovery from NVRAM to the data disk")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 256, "in the log")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        box.log.fail_writes()
        box.data.fail_writes()
        filled(disk, model, 200, 400, "NVRAM only")
    box.log.fail_writes()
    with box.disk() as disk:
        base.expect("log FAILING" in box.info(), box.info())
        model.check(disk, "recovered without the log")
        base.until(lambda: box.count("bypass_rounds") > 0, "NVRAM to go to the data disk")
        filled(disk, model, 2000, 2100, "goes on")
        says("works again", box.log.heal)
        model.check(disk, "with the log back")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def ends_at_a_bad_place() -> None:
    base.step("the log ends at a bad place: NVRAM knows that it is the end")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 280, "two and a half segments")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        segments = box.count("segments")
        box.data.fail()
        disk.write(0, blk.pattern("NVRAM", 8))
        model.put(0, blk.pattern("NVRAM", 8))
    bad = 1 + segments  # the first one is 1
    box.log.fail_part(RING + bad * PER, RING + (bad + 1) * PER - 1)
    with box.disk() as disk:
        model.check(disk, "opened")
        box.says("log ok", "the log to begin anew behind it")
        filled(disk, model, 1000, 3000, "goes on")
        model.check(disk, "after going on")
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def comes_back(nvram: str, bad_log_place: bool = False, cut: bool = False) -> None:
    base.step(f"{nvram}: the log fails once, the data disk has a bad place for good")
    box = Box(nvram=nvram)
    model = Model(box.data.sectors)
    with box.disk_until_cut() if cut else box.disk() as disk:
        box.data.fail_part(100, 101)
        filled(disk, model, 96, 112, "over the bad place", 16)
        box.says("data FAILING", "the bad place to be met")
        box.log.fail_writes()
        filled(disk, model, 1000, 1008, "acknowledged", 8)
        box.says("log FAILING", "the log's failure to be seen")
        log = base.KernelLog()
        if bad_log_place:
            segments = box.count("segments") + 1
            box.log.fail_part(RING + segments * PER, RING + (segments + 1) * PER - 1)
            base.until(lambda: box.count("log_write_errors") > 3, "the log to be tried again")
            lines = [line for line in log.new() if "works again" in line]
            base.expect(not lines, f"it doesn't: {lines}")
        says("works again", box.log.heal)
        base.expect("log ok" in box.info(), box.info())
        filled(disk, model, 2000, 2640, "taken again")
        base.expect("data FAILING" in box.info(), f"the bad place is still there: {box.info()}")
        model.check(disk, "with the log back")
        filled(disk, model, 1000, 1064, "over what went past the log")
    box.data.heal()
    with box.disk() as disk:
        model.check(disk, "after reopening")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def dies_again() -> None:
    base.step("the log fails, works, fails again before the destager came by: no mark is left")
    box = Box(nvram="lab", nvram_bytes=4096 + 16 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.data.fail_part(100, 101)
        filled(disk, model, 96, 112, "over the bad place", 16)
        box.says("data FAILING", "the bad place to be met")
        box.log.fail_writes()
        filled(disk, model, 1000, 1008, "past the log", 8)
        box.says("log FAILING", "the log's failure to be seen")
        says("works again", box.log.heal)
        box.data.heal()
        rounds, bypasses = box.count("rounds"), box.count("bypass_rounds")
        filled(disk, model, 2000, 2560, "in the log")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        base.equal(box.count("rounds"), rounds, "rounds of the destager meanwhile")
        box.log.fail_writes()
        filled(disk, model, 2400, 2800, "past the log again")
        base.until(lambda: box.count("bypass_rounds") > bypasses, "NVRAM to go past it")
        model.check(disk, "without the log")
        says("works again", box.log.heal)
        filled(disk, model, 1000, 1400, "in the log again")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def close_tries_the_log() -> None:
    base.step("closed right after the log came back, with a bad place: the log gets it all")
    box = Box()
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 3000, 3008, "in the log", 8)
        box.data.fail_part(100, 101)
        filled(disk, model, 96, 112, "over the bad place", 16)
        box.says("data FAILING", "the bad place to be met")
        box.log.fail_writes()
        filled(disk, model, 3000, 3008, "past the log", 8)
        filled(disk, model, 96, 112, "in NVRAM only", 16)
        box.says("log FAILING", "the log's failure to be seen")
        base.until(
            lambda: box.data.bytes(3000, 8) == blk.pattern("past the log 3000", 8),
            "a part to go past the log",
        )
        box.log.heal()
    box.data.heal()
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def half_lost() -> None:
    base.step("closed while the log fails and a place of the data disk: it says what the log has")
    box = Box()
    model = Model(box.data.sectors)

    def half() -> None:
        with box.disk() as disk:
            box.data.fail_part(100, 101)
            box.log.fail_writes()
            filled(disk, model, 96, 112, "in NVRAM", 16)
            filled(disk, model, 200, 216, "in NVRAM", 16)
            box.says("log FAILING", "the log's failure to be seen")

    says("may bring older data back", half)
    base.expect(box.data.bytes(200, 16) == blk.pattern("in NVRAM 200", 16), "what could be saved")
    box.away()


def recovery_half_way() -> None:
    base.step("the log fails in the middle of a recovery, the data disk in a place; the log heals")
    box = Box(nvram="lab", nvram_bytes=4096 + 6 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 64, "in the log")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        segments = box.count("segments")
        box.log.fail_writes()
        box.data.fail_writes()
        filled(disk, model, 32, 330, "three slots")
    box.data.fail_part(100, 101)
    bad = segments + 2  # the first one is 1, so it is the second of those
    box.log.fail_part(RING + bad * PER, RING + (bad + 1) * PER - 1)
    with box.disk() as disk:
        base.expect("log FAILING" in box.info(), box.info())
        says("works again", box.log.heal)
        model.check(disk, "with the log back")
        filled(disk, model, 2000, 3000, "goes on")
        model.check(disk, "going on")
    box.data.heal()
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def gap_of_what_is_home(cut: bool) -> None:
    base.step("a part of the log can't be read, and NVRAM knows that it is on the data disk")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk_until_cut() if cut else box.disk() as disk:
        box.data.fail()
        filled(disk, model, 0, 1600, "in the log")
        box.says("data FAILING", "the data disk's failure")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        box.log.fail_writes()
        filled(disk, model, 4000, 4008, "past the log", 8)
        box.says("log FAILING", "the log's failure to be seen")
        box.data.heal()
        box.destaged()
        filled(disk, model, 5000, 5008, "in NVRAM only", 8)
        box.data.fail()
    box.data.heal()
    log = base.KernelLog()
    box.log.fail_part(RING + 5 * PER, RING + 7 * PER - 1)
    with box.disk() as disk:
        base.expect(any("can't read segment 5" in line for line in log.new()), "it says so")
        model.check(disk, "opened")
        filled(disk, model, 100, 2000, "goes on")
        model.check(disk, "going on")
        box.says("log ok", "the log to work past the place")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def newest_copy(raw: blk.Disk) -> int:
    """The sector of the superblock that counts."""
    return max((0, 8), key=lambda at: int.from_bytes(raw.read(at, 1)[56:64], "little"))


def gap_past_the_log() -> None:
    base.step("an old superblock is all that there is: what isn't in the log is on the data disk")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        box.data.fail()
        filled(disk, model, 0, 400, "in the log")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        with blk.Disk(box.log.node, write=False) as raw:
            old = raw.read(newest_copy(raw), 1)
        box.log.fail_writes()
        filled(disk, model, 200, 208, "past the log", 8)
        box.says("log FAILING", "the log's failure to be seen")
        box.data.heal()
        filled(disk, model, 200, 1400, "past the log")
        box.says("live 0", "all to be on the data disk")
        says("works again", box.log.heal)
        box.data.fail()
        filled(disk, model, 0, 300, "in the log again")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        filled(disk, model, 300, 308, "NVRAM", 8)
    # As if a log that works again had told it to one copy, and that is damaged.
    with blk.Disk(box.log.node) as raw:
        newest = newest_copy(raw)
        raw.write(newest, bytes(512))
        raw.write(8 - newest, old)
    log = base.KernelLog()
    for time in ("first", "second"):
        with box.disk() as disk:
            told = any("going on there" in line for line in log.new())
            base.equal(told, time == "first", "it says that it passes over a part")
            model.check(disk, f"the {time} time")
            filled(disk, model, 100, 2000, f"goes on {time}")
            model.check(disk, "going on")
    box.away()


def closed_past_the_log() -> None:
    base.step("an NVRAM that keeps, closed without the log: it says that the data disk has it all")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)

    def past() -> None:
        with box.disk() as disk:
            box.log.fail_writes()
            filled(disk, model, 0, 200, "past the log")

    says("all data are on", past)
    base.expect(box.data.bytes(0, 200) == model.bytes[: 200 * blk.SECTOR], "and it has")
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


def main() -> None:
    # Of a bad place that can be moved dcd_spare.py tells.
    base.put(KNOBS / "test_never_move", 1)
    gap_of_what_is_home(cut=False)
    gap_of_what_is_home(cut=True)
    gap_past_the_log()
    closed_past_the_log()
    comes_back("lab")
    comes_back("dram:battery")
    comes_back("lab", bad_log_place=True)
    comes_back("lab", cut=True)
    dies_again()
    close_tries_the_log()
    half_lost()
    recovery_half_way()
    recovery_without_log()
    ends_at_a_bad_place()
    nvram_goes_on(cut=False)
    nvram_goes_on(cut=True)
    copied_past_the_log()
    both_fail()
    battery_refuses()
    battery_flush()
    battery_closes()
    bad_place("lab")
    bad_place("dram:battery")
    unreadable()
    base.step("done")


main()
