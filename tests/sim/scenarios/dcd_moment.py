# SPDX-License-Identifier: GPL-2.0-only
"""The log is away for a moment: for 50 ms all that it is asked for fails at once, and then it works
again. Whoever writes meanwhile may have to wait, and is not refused.

read-only-*: it takes no writes for good, and for 100 ms it can't be read either, half of it or all.
rests, says_lost, closed: likewise, one place of it, for seconds; and what is found then.

Args: the parts, of which without any all are run.
"""

import threading
import time
from collections.abc import Callable
from functools import partial

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk
from poisonlab import HELD

WRITERS, OWN = 4, 512  # sectors
MOMENT_S = 0.05
UNREAD_S = 0.1
LOAD_S = 6.0
WHOLE = 112  # sectors of a write that fills a segment
RING = RING_START // blk.SECTOR


class Writer(threading.Thread):
    """Writes on at places of its own, and knows what was acknowledged there."""

    def __init__(self, node: str, number: int, stop: threading.Event) -> None:
        super().__init__()
        self.acknowledged: dict[int, str] = {}
        self.refused: list[OSError] = []
        self._node, self._number, self._end = node, number, stop
        self.start()

    def run(self) -> None:
        n = 0
        with blk.Disk(self._node) as disk:
            while not self._end.is_set():
                n += 1
                first = OWN * self._number + 8 * (n % (OWN // 8))
                tag = f"{self._number} {n}"
                try:
                    disk.write(first, blk.pattern(tag, 8))
                except OSError as err:
                    self.refused.append(err)
                    self.acknowledged.pop(first, None)
                else:
                    self.acknowledged[first] = tag
                time.sleep(0.001)


def away_for_a_moment(box: Box, disk: blk.Disk, times: int) -> None:
    stop = threading.Event()
    writers = [Writer(disk.node, n, stop) for n in range(WRITERS)]
    blips, errors = box.count("log_blips"), box.count("log_read_errors")
    for _ in range(times):
        time.sleep(0.2)
        box.log.fail()
        time.sleep(MOMENT_S)
        box.log.heal()
    time.sleep(1)
    stop.set()
    for writer in writers:
        writer.join()
    met = box.count("log_blips") - blips + box.count("log_read_errors") - errors
    refused = [err for writer in writers for err in writer.refused]
    base.expect(not refused, f"{len(refused)} writes were refused: {refused[:1]} {box.info()}")
    base.expect(met > 0, f"nobody has met it: {box.info()}")
    base.expect("log ok" in box.info(), box.info())
    for writer in writers:
        for first, tag in writer.acknowledged.items():
            base.equal(disk.read(first, 8), blk.pattern(tag, 8), f"sector {first}")


def idle(nvram: str) -> None:
    base.step(f"{nvram}: the log is away for a moment, five times")
    box = Box(nvram=nvram)
    with box.disk() as disk:
        away_for_a_moment(box, disk, 5)
        base.equal(box.count("log_write_errors"), 0, "writes to the log that were given up")
    box.away()


def full(nvram: str) -> None:
    base.step(f"{nvram}: the same, with a log that is nearly full")
    box = Box(nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT,
              settings=f"{HELD},busy_after_ms=1500")  # fmt: skip
    with box.disk() as disk:
        for n in range(400):
            disk.write(8 * (512 + n), blk.pattern(f"fill {n}", 8))
            if box.count("free") <= 1:
                break
            time.sleep(0.12)
        base.expect(box.count("free") <= 1, f"a log that is nearly full: {box.info()}")
        away_for_a_moment(box, disk, 5)
    box.away()


def read_only(what: str) -> None:
    base.step(f"lab: the log takes no writes any more, and {what} of it can't be read for a moment")
    box = Box(nvram="lab", settings=f"{HELD},read_cache_bytes=0")
    model = Model(box.data.sectors)
    end = box.log.sectors
    with box.disk() as disk:
        filled(disk, model, WRITERS * OWN, WRITERS * OWN + 2000, "in the log", 16)
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        first = {"half": RING + 2 * SEGMENT // blk.SECTOR, "all": 0}[what]
        last = {"half": RING + (end - RING) // 2, "all": end - 1}[what]
        box.log.refuse_and_break(first, last)
        stop = threading.Event()
        writers = [Writer(disk.node, n, stop) for n in range(WRITERS)]
        box.says("log FAILING", "the log to be found dead")
        base.until(lambda: box.count("log_read_errors"), "a read that fails")
        time.sleep(UNREAD_S)
        box.log.refuse((0, end - 1))
        time.sleep(LOAD_S)
        stop.set()
        for writer in writers:
            writer.join()
        refused = [err for writer in writers for err in writer.refused]
        base.expect(not refused, f"{len(refused)} writes were refused: {refused[:1]} {box.info()}")
        base.expect(box.count("bypass_rounds") > 0, f"nothing went past the log: {box.info()}")
        base.equal(box.count("lost_places"), 0, "places that were given up")
        box.log.heal()
        box.says("log ok", "the log to work again")
        for writer in writers:
            for at, tag in writer.acknowledged.items():
                model.put(at, blk.pattern(tag, 8))
        model.check(disk, "with the log back")
    box.away()


def small(nvram: str) -> tuple[Box, Model]:
    box = Box(nvram=nvram, data_mib=8, log_mib=4, nvram_bytes=4096 + 8 * SEGMENT,
              settings=f"{HELD},scrub_kib=0")  # fmt: skip
    return box, Model(box.data.sectors)


def refused_but_for(box: Box, place: int) -> None:
    """The log takes no writes, and that place of the ring can't be read."""
    first = RING + place * SEGMENT // blk.SECTOR
    box.log.refuse_and_break(first, first + SEGMENT // blk.SECTOR - 1)


def readable(box: Box) -> None:
    box.log.refuse((0, box.log.sectors - 1))


def rotten(box: Box, disk: blk.Disk, model: Model) -> None:
    """A sector of the log is damaged; the log takes no writes, and a place can't be read."""
    filled(disk, model, 4096, 4096 + 20 * WHOLE, "in the log", WHOLE)
    base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
    box.log.rot(bytes(model.bytes[(4096 + 2 * WHOLE) << 9 :][:512]))
    refused_but_for(box, 6)


def says_lost() -> None:
    base.step("lab: likewise for 2 s, while four write: what is lost takes no more than a slot")
    box, model = small("lab")
    with box.disk() as disk:
        rotten(box, disk, model)
        stop = threading.Event()
        writers = [Writer(disk.node, n, stop) for n in range(WRITERS)]
        base.until(lambda: box.count("lost_places"), "what is lost to be found")
        time.sleep(2)
        readable(box)
        time.sleep(LOAD_S)
        stop.set()
        for writer in writers:
            writer.join()
        refused = [err for writer in writers for err in writer.refused]
        base.expect(not refused, f"{len(refused)} writes were refused: {refused[:1]} {box.info()}")
        base.expect(box.count("bypass_rounds") > 0, f"nothing went past the log: {box.info()}")
        box.log.heal()
        base.until(lambda: "log FAILING" not in box.info(), "the log to work again")
        for writer in writers:
            for at, tag in writer.acknowledged.items():
                base.equal(disk.read(at, 8), blk.pattern(tag, 8), f"sector {at}")
    box.away()


def rests() -> None:
    base.step("lab: past a dead log that has lost a place, one that can't be read for 6 s is found")
    box, model = small("lab")
    with box.disk() as disk:
        rotten(box, disk, model)
        for n in range(6):  # each write asks for a round
            if n == 3:
                base.equal(box.count("bypass_rounds"), 0, "rounds past the log, before")
                readable(box)
            filled(disk, model, 0, 8, f"past it {n}", 8)
            time.sleep(2)
        base.expect(box.count("bypass_rounds") > 0, "no round has ended past the log")
        filled(disk, model, 1024, 1024 + 8 * WHOLE, "then", WHOLE)
        box.log.heal()
        base.until(lambda: "log FAILING" not in box.info(), "the log to work again")
        for first, count in (0, 8), (1024, 8 * WHOLE):
            same = disk.read(first, count) == bytes(model.bytes[first << 9 :][: count << 9])
            base.expect(same, f"what was written at {first}")
    box.away()


def closed() -> None:
    base.step("dram:battery: closed while a dead log can't be read for a moment: nothing is lost")
    box, model = small("dram:battery")
    with box.disk() as disk:
        filled(disk, model, 4096, 4096 + 20 * WHOLE, "in the log", WHOLE)
        filled(disk, model, 0, 64, "old", 8)
        filled(disk, model, 8192, 8192 + 10 * WHOLE, "more", WHOLE)
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log")
        refused_but_for(box, 3)
        filled(disk, model, 0, 64, "new", 8)
        time.sleep(2.5)
        later = threading.Timer(0.5, lambda: readable(box))
        later.start()
    later.join()
    box.log.heal()
    with box.disk() as disk:
        model.check(disk, "opened again")
    box.away()


def dead() -> None:
    base.step("dram:battery: a log that stays away is dead soon, and works again when it is back")
    box = Box()
    with box.disk() as disk:
        box.log.fail()
        began = time.monotonic()
        disk.write(0, blk.pattern("in NVRAM", 8))
        box.says("log FAILING", "the failure to be seen")
        base.expect(time.monotonic() - began < 4, "it took too long")
        box.log.heal()
        box.says("log ok", "the log to work again")
        base.equal(disk.read(0, 8), blk.pattern("in NVRAM", 8), "what was acknowledged")
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    **{nvram: partial(idle, nvram) for nvram in ("dram:battery", "dram", "none", "lab")},
    **{f"full-{nvram}": partial(full, nvram) for nvram in ("lab", "dram:battery")},
    **{f"read-only-{what}": partial(read_only, what) for what in ("half", "all")},
    "rests": rests,
    "says_lost": says_lost,
    "closed": closed,
    "dead": dead,
}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
