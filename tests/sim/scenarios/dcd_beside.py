# SPDX-License-Identifier: GPL-2.0-only
"""Writers of 4 KiB beside what takes a DCD over a hard disk long: no write takes longer than
LONGEST_S.

    full    the log fails, and has data in it that take the hard disk a minute
    left    likewise, and is to be left then
    large   likewise, beside 32 writers without a pause, with an NVRAM of 128 MiB
    hung    the log was left, discards of the data disk hang, and 4 GB of the LUN are discarded
    pieces  the log fails, and has 2,500 pieces of 4 MiB of zeroes in it
    leave   the log is to be left, and all of the LUN is discarded, over and over, in one session
            with the writers, which has 32 commands at a time
    crowd   half of the LUN is discarded likewise, and its log has as many pieces as it can
"""

import contextlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from dcdlab import Box
from locklab import base, blk

LONGEST_S = 6
SECONDS = 45
LARGE_SECONDS, LARGE_SLOTS, LARGE_WRITERS = 200, 512, 32
SLOTS, WRITERS = 64, 4
MIB = 2048  # sectors
SIZES = {"full": (128, 4096), "left": (256, 2048), "large": (256, 2048), "hung": (64, 6000),
         "pieces": (64, 20000), "leave": (64, 4096), "crowd": (16, 32768)}  # fmt: skip
TAGS, MANY_TAGS = "32", "128"


class Writers:
    """Each 100 a second at most; to sectors from @first on, and no zeroes, where @stride says where
    those are."""

    def __init__(self, node: str, stride: int = 0, pause: float = 0.01, first: int = 0) -> None:
        self.longest, self.pause, self.first = 0.0, pause, first
        self._began: dict[int, float] = {}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(node, n, stride))
                         for n in range(LARGE_WRITERS if part == "large" else WRITERS)]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def _work(self, node: str, number: int, stride: int) -> None:
        rng = random.Random(f"{base.SEED} {number}")
        data = blk.pattern(f"{number}", 8)
        with blk.Disk(node) as disk:
            while not self._ended.wait(self.pause):
                at = rng.randrange(self.first // 8, disk.sectors // 8) * 8
                if stride:
                    at = at // stride * stride + stride // 2 + rng.randrange(stride // 16) * 8
                self._began[number] = time.monotonic()
                disk.write(min(at, disk.sectors - 8), data)
                took = time.monotonic() - self._began.pop(number)
                self.longest = max(self.longest, took)

    def waiting(self) -> float:
        return max((time.monotonic() - began for began in [*self._began.values()]), default=0)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def hard_disk() -> Iterator[tuple[Box, blk.Disk]]:
    log_mib, data_mib = SIZES[part]
    segment = (256 if log_mib >= 64 else 64) << 10
    model = "ssd" if part == "hung" else "spindle"
    slots = LARGE_SLOTS if part == "large" else SLOTS
    box = Box(nvram="lab", nvram_bytes=4096 + slots * segment, log_mib=log_mib, data_mib=data_mib,
              data_model=model, settings="scrub_kib=0",
              data_options={"write_cache": "off", "spread": "on"})  # fmt: skip
    with box.disk() as disk:
        tags = MANY_TAGS if part == "hung" else TAGS
        base.put(Path("/sys/block", Path(disk.node).name, "device/queue_depth"), tags)
        base.put(Path("/sys/block", Path(disk.node).name, "queue/scheduler"), "none")
        yield box, disk
    box.away()


def none_takes_long(writers: Writers) -> None:
    writers.longest = 0.0
    end = time.monotonic() + (LARGE_SECONDS if part == "large" else SECONDS)
    while time.monotonic() < end:
        time.sleep(0.5)
        base.expect(writers.waiting() < LONGEST_S, f"a write waits for {writers.waiting():.1f} s")
    print(f"  longest write {writers.longest:.2f} s", flush=True)
    base.expect(writers.longest < LONGEST_S, f"a write took {writers.longest:.1f} s")


def full() -> None:
    with hard_disk() as (box, disk):
        writers = Writers(disk.node, pause=0)
        segments = int(box.info().split("log segments ")[1].split()[0])
        base.until(lambda: box.count("live") > segments * 45 // 100, "the log to be full", 600)
        writers.pause = 0 if part == "large" else 0.005
        time.sleep(2)
        box.log.fail_writes()
        box.says("log FAILING", "the log to be dead")
        if part != "full":
            box.set("leave_log=1")
        none_takes_long(writers)
        if part == "large":
            box.says("log LEFT", "the log to be left")
        box.log.heal()
        writers.end()


def hung() -> None:
    with hard_disk() as (box, disk):
        box.leave_log()
        box.says("log LEFT", "the log to be left")
        box.data.hold_discards()
        end = 4000 * MIB
        other = threading.Thread(target=discard, args=(disk.node, end))
        writers = Writers(disk.node, first=end)
        other.start()
        none_takes_long(writers)
        box.data.let_go()
        other.join()
        writers.end()


def pieces() -> None:
    stride = 8 * MIB
    with hard_disk() as (box, disk):
        for at in range(0, disk.sectors - stride, stride):
            disk.discard(at, stride // 2)
        writers = Writers(disk.node, stride)
        time.sleep(5)
        box.log.fail_writes()
        box.says("log FAILING", "the log to be dead")
        none_takes_long(writers)
        box.log.heal()
        writers.end()


def discard(node: str, end: int) -> None:
    with blk.Disk(node) as disk:
        disk.discard(0, end)


def discards(node: str, half: bool, ended: threading.Event) -> None:
    with blk.Disk(node) as disk:
        first = disk.sectors // 2 if half else 0
        while not ended.wait(0.05):
            disk.discard(first, disk.sectors - first)


def one_session() -> None:
    with hard_disk() as (box, disk):
        if part == "crowd":
            for at in range(0, disk.sectors // 2 - 2 * MIB, 2 * MIB):
                disk.discard(at, MIB)
        writers, ended, before = Writers(disk.node), threading.Event(), box.count("discards")
        others = threading.Thread(target=discards, args=(disk.node, part == "crowd", ended))
        others.start()
        base.until(lambda: box.count("discards") > before, "the first of the discards")
        if part == "leave":
            box.leave_log()
        none_takes_long(writers)
        ended.set()
        others.join()
        writers.end()


(part,) = base.words(1, SIZES)
base.step(part)
{"leave": one_session, "crowd": one_session, "pieces": pieces, "hung": hung}.get(part, full)()
base.step("done")
