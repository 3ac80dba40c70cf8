# SPDX-License-Identifier: GPL-2.0-only
"""A log disk that takes seconds to say that it can't read a block, which it takes writes for, or
doesn't return from reads at all. The log doesn't fill, nobody waits, nothing is lost that can be
read, and what comes late doesn't come over what was written since.

    dcd_late_read.py [PART...]
"""

import contextlib
import errno
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dcdlab import RING_START, SEGMENT, SITE, Box, Disk, Model, filled
from loadlab import SIZE, Load, small
from locklab import base, blk, dm, media
from poisonlab import HELD
from probelab import SOON

PARTS = (
    "errors", "few_slots", "away", "overtaken", "moved", "all_hang", "closed", "cut", "cut_held",
    "dead_log", "dead_log_closed", "leave", "leave_hung", "leave_all_hung",
    "pinned_closed", "pinned_dead",
)  # fmt: skip
SLOW_MS, MINUTE_MS = 7000, 60_000
HOURS_MS = 3_600_000
BUSY_AFTER = 10.0  # the default
UNCACHED = "read_cache_bytes=0"
ASLEEP, AWAKE = "destage_idle_ms=3600000", "destage_idle_ms=1"
RING, PER = RING_START // blk.SECTOR, SEGMENT // blk.SECTOR
FIRST = RING + PER, RING + 2 * PER - 1  # the place of segment 1, which is the first
SUPERBLOCKS = 0, 15
WHOLE = 112  # sectors of a write that fills a segment
AT = 4096  # what only the first segment has
BEFORE, FREE = 40960, 65536  # from these sectors on the others are


def close_in_time(what: Callable[[], None]) -> None:
    took = blk.timed(what)
    print(f"  the close took {took * 1000:.0f} ms", flush=True)
    base.expect(took < 3 * SOON, f"the close waits for the log: {took:.1f} s")


def good_end(box: Box, model: Model) -> None:
    with box.disk(AWAKE) as disk:
        model.check(disk, "opened again")
        box.destaged()
        model.check(disk, "destaged")
    same = box.data.bytes(0, box.data.sectors) == bytes(model.bytes)
    base.expect(same, "the data disk itself has other bytes")
    box.away()


def only_in_log(box: Box, model: Model, disk: blk.Disk) -> None:
    """With destage asleep: the first segment has it, and no slot any more."""
    filled(disk, model, AT, AT + SIZE, "late", SIZE)
    filled(disk, model, FREE, FREE + 16 * PER, "fill", SIZE)
    base.until(lambda: box.count("segments") >= 9, "it to be in the log only")


def hang(box: Box) -> None:
    """Reads of the first segment."""
    box.log.slow_reads_of(*FIRST, HOURS_MS)


def late(box: Box, model: Model, disk: blk.Disk) -> None:
    only_in_log(box, model, disk)
    hang(box)
    box.set(AWAKE)
    base.until(lambda: box.count("log_reads_late") > 0, "a read that is late", 20)


def lost_of(disk: blk.Disk, model: Model, size: int) -> int:
    """All is as it was written, or a medium error. How many such."""
    n = 0
    for at in range(0, disk.sectors, size):
        want = bytes(model.bytes[at * blk.SECTOR : (at + size) * blk.SECTOR])
        try:
            base.expect(disk.read(at, size) == want, f"sectors {at} on are others")
        except OSError as err:
            base.equal(err.errno, errno.ENODATA, f"reading sector {at}")
            n += 1
    return n


def places(box: Box, number: int) -> list[tuple[int, int]]:
    """One block of 4 KiB each, all round the ring, each in the middle of a segment."""
    apart = (box.log.sectors - RING) // (number + 1) // PER * PER
    return [(RING + (n + 1) * apart + 40, RING + (n + 1) * apart + 47) for n in range(number)]


def bad_places(
    number: int, slots: int, seconds: float, mib: int = 33, most: float = SOON
) -> None:
    box = Box(data_mib=64, log_mib=mib, nvram="lab", nvram_bytes=4096 + slots * SEGMENT,
              settings="read_cache_bytes=0")  # fmt: skip
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.log.fail_reads_late(SLOW_MS, *places(box, number))
        Load(disk, model, size=8).run(seconds, 0.00125, most)
        base.expect(box.count("log_reads_late") >= number, box.info())
        base.expect(box.count("read_back_late") > 0, box.info())
        base.equal(box.count("write_errors") + box.count("busy"), 0, "writes that were refused")
        base.expect("log FAILING" not in box.info(), box.info())
        lost = box.count("lost_places")
        base.expect(lost <= number, f"{lost} places are LOST, and {number} can't be read")
        box.log.heal()
        base.expect(lost_of(disk, model, 8) <= lost, "more is lost than was told")
    box.away()


def errors() -> None:
    base.step(f"8 blocks of the log can't be read, after {SLOW_MS} ms each, under load")
    bad_places(8, 16, 100)


def few_slots() -> None:
    base.step("4 such blocks, and an NVRAM that can keep two of what is written there")
    bad_places(4, 5, 60, 9, BUSY_AFTER)


def away() -> None:
    base.step("reads of the log return after 20 s, good ones: nothing is lost")
    box, model = small(settings=UNCACHED)
    with box.disk(ASLEEP, "scrub_kib=0") as disk:
        late(box, model, disk)
        reads = box.count("log_reads_late")
        Load(disk, model, first=FREE, size=8).run(20, 0.01)
        base.equal(box.count("log_reads_late"), reads, "reads of it, as one is under way")
        box.log.heal()
        box.destaged()
        base.equal(box.count("lost_places") + box.count("log_read_errors"), 0, "errors")
        base.equal(box.count("busy"), 0, "writes that were refused")
        model.check(disk, "destaged")
    good_end(box, model)


def overtaken() -> None:
    base.step("what comes late isn't over what was written and destaged since")
    box, model = small(settings=UNCACHED)
    with box.disk(ASLEEP) as disk:
        late(box, model, disk)
        filled(disk, model, AT, AT + SIZE // 2, "over it", SIZE // 2)
        want = bytes(model.bytes[AT * blk.SECTOR : (AT + SIZE // 2) * blk.SECTOR])
        base.until(lambda: box.data.bytes(AT, SIZE // 2) == want, "it to be destaged")
        base.expect(box.count("live") > 0, "what is late holds the tail")
        box.log.heal()
        box.destaged()
        model.check(disk, "destaged")
    good_end(box, model)


def moved() -> None:
    base.step("a read of the log hangs while its place is written with something else")
    box, model = small(settings=UNCACHED)
    got: list[bytes | OSError] = []

    def read() -> None:
        with blk.Disk(disk.node, write=False) as mine:
            try:
                got.append(mine.read(AT, SIZE))
            except OSError as err:
                got.append(err)

    with box.disk(ASLEEP, "busy_after_ms=0", "scrub_kib=0") as disk:
        only_in_log(box, model, disk)
        hang(box)
        pieces = box.count("log_pieces")
        thread = threading.Thread(target=read)
        thread.start()
        base.until(lambda: box.count("log_pieces") > pieces, "the read")
        # All of its segment: so the tail needs no read of it.
        filled(disk, model, AT, AT + SIZE, "late, once more", SIZE)
        filled(disk, model, FREE, FREE + 16 * PER, "fill, once more", SIZE)
        box.set(AWAKE)
        laps = 3 * box.log.sectors // PER
        filled(disk, model, FREE, FREE + laps * PER, "laps", PER - 16)
        base.expect(not got, "the read waits yet")
        box.log.heal()
        thread.join(20)
        want = bytes(model.bytes[AT * blk.SECTOR : (AT + SIZE) * blk.SECTOR])
        base.expect(got and got[0] == want, f"the read got something else: {got[0]!r:.60}")
        base.equal(box.count("log_moved"), 1, "reads that asked once more")
        base.equal(box.count("bad_sums"), 0, "ranges that are taken for damaged")
    good_end(box, model)


def all_hang() -> None:
    base.step("the log takes writes, and returns from no read at all, for half a minute")
    box, model = small(settings=UNCACHED)
    with box.disk(ASLEEP) as disk:
        only_in_log(box, model, disk)
        box.log.slow_reads(HOURS_MS)
        box.set(AWAKE)
        Load(disk, model, first=FREE, size=8).run(30, 0.05)
        base.expect(box.count("log_reads_late") > 0, box.info())
        base.equal(box.count("write_errors") + box.count("busy"), 0, "writes that were refused")
        box.log.heal()
        box.destaged()
        base.equal(box.count("lost_places"), 0, "places that are LOST")
        model.check(disk, "destaged")
    good_end(box, model)


def users_of_module() -> int:
    return int(Path("/sys/module/dcd/refcnt").read_text())


def free(disk: Disk) -> None:
    base.until(lambda: dm.opens(disk.name) == 0, "the disk in nobody's use")


def closed() -> None:
    base.step("reads of the log don't return, and the LUN is closed")
    box, model = small(settings=UNCACHED)
    with box.disk_closed_by(close_in_time, ASLEEP) as disk:
        late(box, model, disk)
        before = users_of_module()
    base.equal(users_of_module(), before + 1, "users of the module, as of what is left")
    with base.refused("to open it again", errno.EBUSY, kernel="it is in use"):
        box.open()
    box.log.heal()
    free(box.log)
    base.until(lambda: users_of_module() == before, "the module")
    good_end(box, model)


def cut() -> None:
    base.step("reads of the log don't return, and the power is cut")
    box, model = small(settings=UNCACHED)
    with box.disk(ASLEEP) as disk:
        late(box, model, disk)
        Load(disk, model, first=FREE).run(5, 0.02)
        media.cut(SITE, base.SEED)
    box.log.heal()
    free(box.log)
    box.power_on()
    good_end(box, model)


def cut_held() -> None:
    base.step("what isn't read holds the tail where it is, all before is free, and power is cut")
    box, model = small(settings=UNCACHED)
    with box.disk(ASLEEP) as disk:
        filled(disk, model, BEFORE, BEFORE + 12 * PER, "before", SIZE)
        only_in_log(box, model, disk)
        base.until(lambda: box.count("segments") >= 20, "the rest to be in the log")
        live = box.count("live")
        data = blk.pattern(f"late {AT}", SIZE)
        at = box.log.bytes(0, box.log.sectors).index(data) // blk.SECTOR
        first = at - (at - RING) % PER
        box.log.slow_reads_of(first, first + PER - 1, HOURS_MS)
        box.set(AWAKE)
        base.until(lambda: box.count("log_reads_late") > 0, "a read that is late", 20)
        base.until(lambda: box.count("live") < live - 8, "the tail to move as far as that")
        filled(disk, model, BEFORE, BEFORE + 4 * PER, "over it", SIZE)
        Load(disk, model, first=FREE).run(5, 0.02)
        base.expect(box.count("live") > 0, "it is where it was")
        media.cut(SITE, base.SEED)
    box.log.heal()
    free(box.log)
    box.power_on()
    good_end(box, model)


def past_the_log(box: Box, model: Model, disk: blk.Disk) -> None:
    late(box, model, disk)
    box.log.fail_writes_and_hang(*FIRST, HOURS_MS)
    filled(disk, model, FREE, FREE + 10 * SIZE, "past the log", SIZE)
    box.says("log FAILING", "the log's end")


def dead_log() -> None:
    base.step("reads of the log don't return, and it takes no writes: then it works again")
    box, model = small(settings=UNCACHED)
    with box.disk(ASLEEP, "busy_after_ms=500") as disk:
        past_the_log(box, model, disk)
        time.sleep(60)
        box.log.heal()
        filled(disk, model, FREE, FREE + 100 * SIZE, "past the log, too", SIZE)
        box.says("log ok, data ok", "both disks to work")
        box.destaged()
        base.equal(box.count("lost_places"), 0, "places that are LOST")
        model.check(disk, "destaged")
    good_end(box, model)


def dead_log_closed() -> None:
    base.step("reads of the log don't return, it takes no writes, and the LUN is closed")
    box, model = small(settings=UNCACHED)
    with box.disk_closed_by(close_in_time, ASLEEP, "busy_after_ms=500") as disk:
        past_the_log(box, model, disk)
    box.log.heal()
    free(box.log)
    good_end(box, model)


def leaves(seconds: float, model: Model, box: Box, disk: blk.Disk) -> None:
    began = time.monotonic()
    box.set("leave_log=1")
    base.until(lambda: "log LEFT" in box.info(), "the log to be left", seconds)
    print(f"  it took {time.monotonic() - began:.0f} s", flush=True)
    base.expect(lost_of(disk, model, 8) > 0, "what only the log had is lost")
    at = FREE + 8 * PER
    same = disk.read(at, SIZE) == blk.pattern(f"fill {at}", SIZE)
    base.expect(same, "what it could give isn't there")


def leave() -> None:
    base.step(f"a log is left of which a segment can't be read, after {SLOW_MS} ms each time")
    box, model = small(settings=UNCACHED)
    with box.disk(ASLEEP) as disk:
        only_in_log(box, model, disk)
        box.log.fail_reads_late(SLOW_MS, SUPERBLOCKS, FIRST)
        leaves(90, model, box, disk)
        box.log.heal()
    box.away()


def leave_hung() -> None:
    base.step("a log is left that doesn't return from reads of a segment; then it is closed")
    box, model = small(settings=UNCACHED)
    with box.disk_closed_by(close_in_time, ASLEEP) as disk:
        only_in_log(box, model, disk)
        box.log.fail_writes_and_hang(*FIRST, HOURS_MS)
        box.set(AWAKE)
        filled(disk, model, FREE, FREE + 10 * SIZE, "past the log", SIZE)
        box.says("log FAILING", "the log's end")
        leaves(180, model, box, disk)
    base.expect(dm.opens(box.log.name) > 0, "the log is in use")
    box.log.heal()
    free(box.log)
    box.away()


def leave_all_hung() -> None:
    held = f"{UNCACHED},{ASLEEP},destage_low=98,destage_high=99,scrub_kib=0"
    for nvram in ("lab", "dram:battery"):
        base.step(f"{nvram}: a log that returns from no read is left, with more than may be late")
        box, model = small(nvram, held)
        with box.disk_closed_by(close_in_time) as disk:
            filled(disk, model, FREE, FREE + 270 * SIZE, "fill", SIZE)
            box.says(" 0 in use", "the log to have all")
            box.log.slow_reads(HOURS_MS)
            box.set("leave_log=1")
            began = time.monotonic()
            box.says("log LEFT", "the log to be left")
            print(f"  it took {time.monotonic() - began:.0f} s", flush=True)
            base.expect(lost_of(disk, model, SIZE) > 200, "what only the log had is lost")
            disk.write(0, blk.pattern("through", 8))
        box.log.heal()
        free(box.log)
        box.away()


def pinned_closed() -> None:
    base.step("no slot can keep any more of what isn't read back, nor get rid of it: it is closed")
    box = Box(data_mib=64, log_mib=5, nvram="lab", nvram_bytes=4096 + 6 * SEGMENT,
              settings=f"{UNCACHED},scrub_kib=0,destage_low=98,destage_high=99")  # fmt: skip
    model = Model(box.data.sectors)
    with box.disk_closed_by(close_in_time, ASLEEP) as disk:
        filled(disk, model, FREE, FREE + 24 * WHOLE, "in places that can't be read", WHOLE)
        box.says(" 0 in use", "the log to have all")
        box.log.fail("1 error_reads")
        for at in range(FREE, FREE + 24 * WHOLE, WHOLE):
            with contextlib.suppress(OSError):
                disk.read(at, 8)
        base.expect(box.count("doubted") > 8, box.info())
        box.log.heal()
        box.set(AWAKE)
        box.destaged()
        for _ in range(2):
            filled(disk, model, FREE, FREE + 20 * WHOLE, "up to the ring's end", WHOLE)
            box.destaged()
        box.data.fail_writes()
        box.log.slow_reads(HOURS_MS)
        filled(disk, model, 0, 5 * WHOLE, "read back late", WHOLE)
        base.until(lambda: box.count("read_back_late") > 3, "half of the slots to be pinned")
        time.sleep(0.5)
    box.data.heal()
    box.log.heal()
    free(box.log)
    good_end(box, model)


class Filler(threading.Thread):
    """Writes whole segments, over and over, at twenty places of its own; the longest one's time."""

    def __init__(self, node: str, number: int, stop: threading.Event) -> None:
        super().__init__()
        self.longest = 0.0
        self._node, self._number, self._end = node, number, stop
        self.start()

    def run(self) -> None:
        n = 0
        with blk.Disk(self._node) as disk:
            while not self._end.is_set():
                at = (200 + 20 * self._number + n % 20) * WHOLE // 2
                data = blk.pattern(f"{self._number} {n}", WHOLE)
                self.longest = max(self.longest, blk.timed(partial(disk.write, at, data)))
                time.sleep(0.01)
                n += 1


def pinned_dead() -> None:
    base.step("a commit waits for a slot that it may pin; meanwhile the log is dead")
    box = Box(data_mib=16, log_mib=3, nvram="lab", nvram_bytes=4096 + 6 * SEGMENT,
              settings=f"{HELD},scrub_kib=0")  # fmt: skip
    with box.disk() as disk:
        filled(disk, Model(box.data.sectors), 0, 26 * WHOLE, "in places that can't be read", WHOLE)
        box.says(" 0 in use", "the log to have all")
        box.log.unreadable((RING, box.log.sectors - 1))
        box.set("destage_idle_ms=1,destage_low=1,destage_high=2")
        time.sleep(1.5)
        base.expect(box.count("doubted") > 8, box.info())
        box.log.heal()
        box.destaged()
        box.set("destage_idle_ms=3600000,destage_low=98,destage_high=99")
        box.log.slow_reads_of(RING, box.log.sectors - 1, MINUTE_MS)
        box.data.slow(1500)
        stop = threading.Event()
        fillers = [Filler(disk.node, n, stop) for n in range(3)]
        time.sleep(1.25)
        box.log.refuse_and_slow_reads(RING, MINUTE_MS)
        box.data.heal()
        box.says("log FAILING", "the log to be dead")
        time.sleep(BUSY_AFTER + 1)
        stop.set()
        box.log.heal()
        for filler in fillers:
            filler.join()
        longest = max(filler.longest for filler in fillers)
        print(f"  the longest write took {longest:.1f} s", flush=True)
        base.expect(longest < BUSY_AFTER, f"a write took {longest:.1f} s")
    box.away()


for part in base.words(1, PARTS) or PARTS:
    globals()[part]()
base.step("done")
