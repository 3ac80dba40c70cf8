# SPDX-License-Identifier: GPL-2.0-only
"""A read that takes a disk longer than busy_after_ms: who tries again takes over what was given up
(read.h), if that is what a read that begins then would have.

  slow   each read takes a second, one after the other, and there are 30 readers: all get on
  fits   nothing was written since: the disk isn't asked again, whether it has answered by then
  both   of two that are kept one is stale
  stale  a part was written since, zeroed, written and destaged, or written when the log had been
         left: what is there now is read
  parked who waits for it, as other sectors of it are read, waits no longer then
  lives  writers and readers of the same ranges, with answers that are late, and versions

Arguments: the parts.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from dcdlab import SEGMENT, Box
from locklab import base, blk, lio, scsi
from locklab.iscsi import Session
from locklab.wire import Wire
from statelab import Beside

READERS, READ_MS, RUN_S = 30, 1000, 200
MIB = 2048  # sectors
AT, COUNT, PART = 4096, 64, 8  # sectors
FILL, FILLS = 65536, 112
DEADLINE_MS = 300
SLOW_MS = 60_000
RANGES, BLOCKS = 6, 8  # of 8 sectors each
LIFE_S = 20.0 if base.CHECKED else 60.0


def box_of(slots: int = 16, **more: Any) -> Box:
    return Box(
        nvram="lab", nvram_bytes=4096 + slots * SEGMENT, log_mib=32,
        settings="read_cache_bytes=0,destage_idle_ms=3600000", **more,
    )  # fmt: skip


def slow() -> None:
    base.step(f"{READERS} readers of a disk that has one read a second")
    box = box_of(data_mib=1024, data_model="ssd",
                 data_options={"read_us": str(READ_MS * 1000), "channels": "1"})  # fmt: skip
    over = threading.Event()
    times: list[float] = []
    errors: list[OSError] = []

    def read(node: str, number: int) -> None:
        n = 0
        with blk.Disk(node) as disk:
            while not over.is_set():
                at, n = (number * 7 + n * 131) % 1000 * MIB, n + 1
                try:
                    times.append(blk.timed(lambda at=at: disk.read(at, MIB)))  # type: ignore[misc]
                except OSError as err:
                    errors.append(err)

    with box.disk() as disk:
        threads = [threading.Thread(target=read, args=(disk.node, n)) for n in range(READERS)]
        for thread in threads:
            thread.start()
        time.sleep(RUN_S)
        over.set()
        for thread in threads:
            thread.join()
        longest, least = max(times), RUN_S * 1000 / READ_MS * 0.9
        print(f"  {len(times)} reads, the longest took {longest:.1f} s", flush=True)
        base.equal(errors, [], "errors")
        base.expect(len(times) >= least, f"{len(times)} reads, and not {least:.0f}")
        base.expect(longest < 1.5 * READERS * READ_MS / 1000, f"one took {longest:.1f} s")
        base.equal(box.count("reads_taken_over"), box.count("reads_given_up"), "taken over")
    box.away()


def to_data(box: Box) -> None:
    """All that is in the log, once."""
    box.set("destage_idle_ms=10")
    box.destaged()
    box.set("destage_idle_ms=3600000")


def given_up(box: Box, node: str) -> None:
    """A read that the data disk has done, and doesn't answer; nobody waits for it."""

    def read() -> None:
        with scsi.Lun(node) as lun:
            lun.command(bytes((0x28, 0, 0, 0, AT >> 8, AT & 255, 0, 0, COUNT, 0)),
                        expect=COUNT * blk.SECTOR, timeout_ms=SLOW_MS)  # fmt: skip

    box.data.hold_read(AT)
    thread = threading.Thread(target=read)
    thread.start()
    base.until(lambda: box.data.held() == 1, "the read to come")
    before = box.count("reads_given_up")
    with scsi.Lun(node) as lun:
        lun.reset()
        thread.join()
        lun.command(bytes(6))  # is told of the reset
    base.until(lambda: box.count("reads_given_up") > before, "it to be given up")


def as_it_is(late: bool, change: Callable[[Box, blk.Disk], bytes], again: int) -> None:
    """Whether it is asked `again`; `late`: the disk hasn't answered yet."""
    box = box_of(data_mib=64)
    with box.disk() as disk:
        disk.write(AT, blk.pattern("old", COUNT))
        to_data(box)
        given_up(box, disk.node)
        want = change(box, disk)
        pieces, got = box.count("data_pieces"), []
        if not late:
            box.data.let_go()
        thread = threading.Thread(target=lambda: got.append(disk.read(AT, COUNT)))
        thread.start()
        if late:
            base.until(lambda: box.count("reads_taken_over") + box.count("reads_parked") > 0,
                       "the read to wait for it")  # fmt: skip
            box.data.let_go()
        thread.join()
        base.expect(got == [want], "other data than what is there")
        base.equal(box.count("data_pieces") > pieces, bool(again), "whether it is asked again")
        base.expect(again or box.count("reads_taken_over") == 1, "it isn't taken over")
    box.away()


def nothing(_: Box, __: blk.Disk) -> bytes:
    return blk.pattern("old", COUNT)


def written(_: Box, disk: blk.Disk, data: bytes = blk.pattern("new", PART)) -> bytes:
    old = blk.pattern("old", COUNT)
    disk.write(AT + PART, data)
    return old[: PART * blk.SECTOR] + data + old[2 * PART * blk.SECTOR :]


def zeroed(box: Box, disk: blk.Disk) -> bytes:
    disk.zero(AT + PART, PART)
    want = written(box, disk, bytes(PART * blk.SECTOR))
    disk.zero(AT + PART, PART)
    return want


def destaged(box: Box, disk: blk.Disk) -> bytes:
    want = written(box, disk)
    to_data(box)
    return want


def left(box: Box, disk: blk.Disk) -> bytes:
    """What is written then isn't in the index."""
    box.leave_log()
    box.says("log LEFT", "the log to be left")
    return written(box, disk)


def fits() -> None:
    base.step("what was given up is taken over")
    as_it_is(False, nothing, again=0)
    as_it_is(True, nothing, again=0)


def both() -> None:
    base.step("of two that are kept the one is taken over that is as it should be")
    box = box_of(data_mib=64)
    with box.disk() as disk:
        disk.write(AT, blk.pattern("old", COUNT))
        to_data(box)
        given_up(box, disk.node)
        want = written(box, disk)
        box.data.let_go()
        given_up(box, disk.node)
        box.data.let_go()
        pieces = box.count("data_pieces")
        base.expect(disk.read(AT, COUNT) == want, "other data than what is there")
        base.equal(box.count("data_pieces"), pieces, "what the disk was asked for by then")
    box.away()


def stale() -> None:
    base.step("what was given up, and isn't there any more, is read anew")
    for change in (written, zeroed, destaged, left):
        as_it_is(False, change, again=1)
        as_it_is(True, change, again=1)


def parked() -> None:
    base.step("who waits for what was given up goes on when that is taken over")
    box = box_of(data_mib=64)
    with box.disk() as disk:
        given_up(box, disk.node)
        beside = Beside(lambda: disk.read(AT + PART, COUNT))
        base.until(lambda: box.count("reads_parked") == 1, "another one to wait for it")
        again = Beside(lambda: disk.read(AT, COUNT))
        base.until(lambda: box.count("reads_taken_over") == 1, "it to be taken over")
        base.until(lambda: beside.done, "the other one, of what the disk answers", 2)
        base.expect(not again.done, "the disk has answered too early")
        box.data.let_go()
        base.until(lambda: again.done, "the answer", 2)
        beside.result()
        again.result()
    box.away()


class Blocks:
    """What may be in each block: any version from the last that was acknowledged on."""

    def __init__(self) -> None:
        self.begun = [0] * RANGES * BLOCKS
        self.acked = [0] * RANGES * BLOCKS

    @staticmethod
    def data(block: int, version: int) -> bytes:
        if version % 5 == 0:
            return bytes(PART * blk.SECTOR)
        return blk.pattern(f"{block} {version}", PART)

    def write(self, disk: blk.Disk, block: int) -> None:
        self.begun[block] += 1
        version = self.begun[block]
        if version % 5:
            disk.write(AT + block * PART, self.data(block, version))
        else:
            disk.zero(AT + block * PART, PART)
        self.acked[block] = version

    def read(self, disk: blk.Disk, part: int) -> None:
        mine = range(part * BLOCKS, (part + 1) * BLOCKS)
        least = [self.acked[block] for block in mine]
        got = disk.read(AT + part * BLOCKS * PART, BLOCKS * PART)
        for n, block in enumerate(mine):
            one = got[n * PART * blk.SECTOR : (n + 1) * PART * blk.SECTOR]
            may_be = range(least[n], self.begun[block] + 1)
            has = [v for v in range(self.begun[block] + 1) if one == self.data(block, v)]
            base.expect(any(v in may_be for v in has),
                        f"block {block} has version {has}, and not one of {may_be}")  # fmt: skip


@contextlib.contextmanager
def over_iscsi(box: Box) -> Iterator[str]:
    wire, target, session = Wire("lan"), lio.Target(box.open()), Session()
    yield session.login()
    session.close()
    target.remove()
    wire.close()
    box.close()


def lives() -> None:
    base.step("ranges that are read and written, beside a data disk that answers late")
    rng = random.Random(f"taken over {base.SEED}")
    box = box_of(2, data_mib=64)
    box.settings = f"read_cache_bytes=0,destage_idle_ms=20,busy_after_ms={DEADLINE_MS}"
    blocks, over, wrong, reads = Blocks(), threading.Event(), [], [0]

    def work(node: str, number: int, writes: bool) -> None:
        own = random.Random(f"{base.SEED} {number} {writes}")
        try:
            with blk.Disk(node) as disk:
                while not over.is_set():
                    if writes:  # each has blocks of its own
                        blocks.write(disk, own.randrange(RANGES * BLOCKS // 3) * 3 + number)
                        time.sleep(own.choice((0.001, 0.05, 0.6)))
                    else:
                        blocks.read(disk, own.randrange(RANGES))
                        reads[0] += 1
                        time.sleep(0.01)
        except (OSError, base.Wrong) as err:
            wrong.append(err)

    # By iSCSI: a reset ends what tcm_loop has as if it had been done.
    with over_iscsi(box) as node:
        threads = [threading.Thread(target=work, args=(node, n, writes))
                   for writes, count in ((True, 3), (False, 6)) for n in range(count)]  # fmt: skip
        for thread in threads:
            thread.start()
        end = time.monotonic() + LIFE_S
        while time.monotonic() < end and not wrong:
            box.log.heal()
            for _ in range(rng.randrange(3)):
                box.data.hold_read(AT + rng.randrange(RANGES * BLOCKS * PART))
                time.sleep(rng.choice((0.001, 0.1)))
            if rng.random() < 0.2:  # in no slot any more, but in the log, which may be late
                box.set(f"destage_idle_ms={rng.choice((20, 3_600_000))}")
                with blk.Disk(node) as disk:
                    for n in range(16):
                        disk.write(FILL + n * FILLS, blk.pattern("fill", FILLS))
                box.log.slow_reads(rng.choice((0, DEADLINE_MS // 2, 2 * DEADLINE_MS)))
            if rng.random() < 0.3:  # who tries again comes late, and there is what nobody waits for
                with scsi.Lun(node) as lun:
                    lun.reset()
            time.sleep(rng.choice((0.1, 0.35, 0.5, 1.2)))
            box.data.let_go()
        over.set()
        box.log.heal()
        box.data.let_go()
        for thread in threads:
            thread.join()
        taken = box.count("reads_taken_over")
        late = box.count("read_hops")
        print(f"  {reads[0]} reads, {late} of the log, {taken} were taken over", flush=True)
        for error in wrong:
            raise error
        base.expect(taken > 0, "none was taken over")
    box.away()


PARTS: dict[str, Callable[[], None]] = {
    "slow": slow, "fits": fits, "both": both, "stale": stale, "parked": parked, "lives": lives,
}  # fmt: skip
for name in base.words(1, tuple(PARTS)) or PARTS:
    PARTS[name]()
base.step("done")
