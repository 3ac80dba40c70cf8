# SPDX-License-Identifier: GPL-2.0-only
"""Reads that a disk of the DCD doesn't answer: each is answered with BUSY in time, or ended at once
when it is aborted, and nothing else waits for them.

    dcd_hung_read.py [PART...]

logs, log_zone: the log disk's; all others: the data disk's.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box
from locklab import base, blk, dm, lio, scsi, wire
from locklab.iscsi import Session
from probelab import PROBED, SOON, Probe, timed

PARTS = (
    "deadline", "reset", "abort", "logout", "lost", "disable", "compare", "mixed", "many",
    "bound", "logs", "log_zone", "closed",
)  # fmt: skip
HERE, THERE = (f"{wire.mirror_ip(n)}:{lio.PORT}" for n in range(2))
HUNG = 32 << 11  # from this sector of the data disk on it doesn't answer reads
IN_LOG = 16 << 11
COUNT = 64  # reads that wait
MANY = 200  # of them: more than there are workers that read the log
DEPTH = 400
HOURS_MS = 3_600_000
DEADLINE_MS = 2000
LEAST_MS = 7000  # SG_IO's shortest timeout
SLOW = 60_000  # longer than anything here


def read(lun: scsi.Lun, at: int, sectors: int, timeout_ms: int) -> scsi.Answer:
    cdb = struct.pack(">BBIBHB", 0x28, 0, at, 0, sectors, 0)
    return lun.command(cdb, expect=sectors * blk.SECTOR, timeout_ms=timeout_ms)


def compare(lun: scsi.Lun, at: int, timeout_ms: int) -> scsi.Answer:
    cdb = struct.pack(">BBQBBBBBB", 0x89, 0, at, 0, 0, 0, 1, 0, 0)
    return lun.command(cdb, bytes(2 * blk.SECTOR), timeout_ms=timeout_ms)


class Reads:
    """Reads at once, each in a thread, of places one behind the other. With their answers."""

    def __init__(self, node: str, first: int, count: int = COUNT, *, sectors: int = 8,
                 timeout_ms: int = SLOW) -> None:  # fmt: skip
        self.answers: dict[int, scsi.Answer | OSError] = {}
        self._what = (node, sectors, timeout_ms)
        self._threads = [
            threading.Thread(target=self._one, args=(first + n * sectors,), daemon=True)
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _one(self, at: int) -> None:
        node, sectors, timeout_ms = self._what
        try:
            with scsi.Lun(node) as lun:
                self.answers[at] = read(lun, at, sectors, timeout_ms)
        except OSError as err:
            self.answers[at] = err

    def end(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        left = sum(thread.is_alive() for thread in self._threads)
        base.expect(not left, f"{left} reads still wait")

    def all_good(self, want: bytes) -> None:
        for at, answer in self.answers.items():
            base.expect(isinstance(answer, scsi.Answer) and answer.good, f"at {at}: {answer}")
            assert isinstance(answer, scsi.Answer)
            base.expect(answer.data in want, f"at {at}: other bytes")


class Lab:
    """A DCD, and two sessions: one that works, one that looks, at a place of the data disk."""

    def __init__(self, nvram: str = "lab", cache: bool = False, mib: int = 64) -> None:
        self.box = Box(
            nvram=nvram, nvram_bytes=4096 + 8 * SEGMENT, log_mib=8, data_mib=mib,
            settings="" if cache else "read_cache_bytes=0",
        )  # fmt: skip
        self.store = self.box.open("busy_after_ms=0")
        self.target = lio.Target(self.store, portals=(HERE, THERE))
        base.put(self.target.tpg / "attrib/default_cmdsn_depth", DEPTH)
        self.session = Session(
            (HERE, THERE), node__session__cmds_max="512", node__session__queue_depth=str(DEPTH)
        )
        self.node = self.session.login_by(HERE)
        probed = self.session.login_by(THERE)
        with blk.Disk(self.node) as disk:
            self.there = blk.pattern("there", COUNT * 8)
            disk.write(HUNG, self.there)
            disk.write(PROBED, blk.pattern("probed", 1))
            self.box.destaged()
        self.box.data.slow_reads_of(HUNG, self.box.data.sectors - 1, HOURS_MS)
        self.probe = Probe(probed)
        self.probe.start()

    def deadline(self, ms: int) -> None:
        self.box.set(f"busy_after_ms={ms}")

    def waiting(self, timeout_ms: int = SLOW) -> Reads:
        """That the data disk has been asked for."""
        pieces = self.box.count("data_pieces")
        reads = Reads(self.node, HUNG, timeout_ms=timeout_ms)
        base.until(lambda: self.box.count("data_pieces") >= pieces + COUNT, "the reads to come")
        return reads

    def works(self) -> None:
        """Of the same session: a write, a read of it, and one of the data disk."""
        with blk.Disk(self.node) as disk:
            timed("a write", lambda: disk.write(0, blk.pattern("beside", 8)), SOON)
            base.expect(disk.read(0, 8) == blk.pattern("beside", 8), "what was written")
            timed("a read", lambda: disk.read(PROBED, 1), SOON)

    def close(self, probe: bool = True) -> None:
        if probe:
            self.probe.end()
        given_up, parked = self.box.count("reads_given_up"), self.box.count("reads_parked")
        print(f"  {given_up} reads were given up, {parked} parked", flush=True)
        self.box.data.heal()
        self.box.log.heal()
        self.session.close()
        self.target.remove()
        with lio.look(self.store) as node, blk.Disk(node) as disk:
            base.expect(disk.read(HUNG, COUNT * 8) == self.there, "what was there, in the end")
        self.box.close()
        base.until(lambda: dm.opens(self.box.data.name) == 0, "the data disk in nobody's use")
        self.box.away()


@contextlib.contextmanager
def lab(text: str, *, probe: bool = True, cache: bool = False) -> Iterator[Lab]:
    base.step(text)
    one = Lab(cache=cache)
    yield one
    one.close(probe)


def deadline() -> None:
    for cache in (False, True):
        with lab(f"the deadline: BUSY for all, which the host tries again; cache: {cache}",
                 cache=cache) as one:  # fmt: skip
            one.deadline(DEADLINE_MS)
            reads = one.waiting()
            one.works()
            base.until(lambda: one.box.count("reads_given_up") >= COUNT,
                       "all to be given up", DEADLINE_MS / 1000 + SOON)  # fmt: skip
            one.works()
            one.box.data.heal()
            reads.end(DEADLINE_MS / 1000 + SOON)
            reads.all_good(one.there)


def reset() -> None:
    with lab("LOGICAL UNIT RESET") as one:
        reads = one.waiting()
        with scsi.Lun(one.node) as lun:
            timed("the reset", lun.reset, SOON)
        reads.end(SOON)
        one.works()


def abort() -> None:
    with lab("ABORT TASK") as one:
        reads = one.waiting(LEAST_MS)
        # open-iscsi gives a command more time once; the block layer looks once a second.
        reads.end(2 * LEAST_MS / 1000 + 2 * SOON)
        done = int((one.store.path / "statistics/scsi_tgt_dev/aborts_complete").read_text())
        base.equal(done, COUNT, "commands that the target has aborted")
        one.works()


def logout() -> None:
    with lab("logout, which the host does when its commands have ended") as one:
        reads = one.waiting()
        one.deadline(DEADLINE_MS)
        timed("the logout", lambda: one.session.logout_by(HERE), DEADLINE_MS / 1000 + SOON)
        reads.end(SOON)
        timed("login", lambda: one.session.login_by(HERE), 2 * SOON)
        one.works()


def lost() -> None:
    with lab("the session is lost and comes back") as one:
        reads = one.waiting()
        WIRES[0].cut()
        base.until(lambda: not one.session.up_by(HERE), "the host to notice")
        reads.end(30)
        WIRES[0].mend("lan")
        back = lambda: base.until(lambda: one.session.up_by(HERE), "a session")  # noqa: E731
        timed("the way back", back, 10 * SOON)
        one.works()


def disable() -> None:
    with lab("the target is disabled, then the LUN taken away", probe=False) as one:
        reads = one.waiting()
        enable = one.target.tpg / "enable"
        timed("disabling", lambda: base.put(enable, 0), SOON)
        base.put(enable, 1)
        reads.end(30)
        base.until(lambda: one.session.up_by(HERE), "a session")
        reads = one.waiting()
        timed("taking it away", lambda: one.target.drop(0), SOON)
        reads.end(SLOW / 1000 + 10)
        one.target.add(one.store, 0)


def compare_and_write() -> None:
    with lab("COMPARE AND WRITE: what it compares with isn't answered") as one:
        answers: list[scsi.Answer] = []

        def work(at: int) -> None:
            with scsi.Lun(one.node) as lun:
                answers.append(compare(lun, at, SLOW))

        work(PROBED + 1)
        base.expect(answers[-1].good, f"at another place: {answers[-1]}")

        pieces = one.box.count("data_pieces")
        threads = [threading.Thread(target=work, args=(HUNG + n,), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        base.until(lambda: one.box.count("data_pieces") > pieces, "the read")
        one.works()
        with scsi.Lun(one.node) as lun:
            timed("the reset", lun.reset, SOON)
        for thread in threads:
            thread.join(SOON)
        base.expect(not any(thread.is_alive() for thread in threads), "they are over")
        # The core ended such a one as if it had been executed: a warning, and its lock was given
        # back by who didn't have it.
        work(PROBED + 1)
        base.equal(answers[-1].why, (6, 0x29, 3), "the next one is told of the reset")
        work(PROBED + 1)
        base.expect(answers[-1].good, f"and the one behind it: {answers[-1]}")


def mixed() -> None:
    with lab("a read of the log and of what isn't answered: the log's tail goes on") as one:
        box = one.box
        base.put(one.store.path / "control", "destage_idle_ms=3600000")
        with blk.Disk(one.node) as disk:
            disk.write(HUNG - 8, blk.pattern("in the log", 8))
            for n in range(10):  # so that it is in no slot any more
                disk.write(IN_LOG + n * 112, blk.pattern(f"fill {n}", 112))
            hops, pieces = box.count("log_pieces"), box.count("data_pieces")
            reads = Reads(one.node, HUNG - 8, 1, sectors=16)
            base.until(lambda: box.count("log_pieces") > hops
                       and box.count("data_pieces") > pieces, "the read to be at both")  # fmt: skip
            for n in range(300):  # 16 MiB, of 7
                took = blk.timed(lambda: disk.write(IN_LOG + n % 40 * 112, blk.pattern("w", 112)))  # noqa: B023
                base.expect(took < SOON, f"a write took {took:.3f} s")
        with scsi.Lun(one.node) as lun:
            lun.reset()
        reads.end(SOON)


def many() -> None:
    base.step("the host tries again for half a minute: the disk isn't asked for the same once more")
    one = Lab()
    one.deadline(1000)
    reads = Reads(one.node, HUNG, MANY, sectors=192)
    base.until(lambda: one.box.count("busy") >= MANY, "all to be answered once")
    time.sleep(30)
    one.probe.end()
    taken_over = one.box.count("reads_taken_over")
    given_up = one.box.count("reads_given_up") - taken_over
    base.expect(given_up <= MANY, f"{given_up} reads were given up")
    base.expect(taken_over > 0, "the host has tried them again")
    with scsi.Lun(one.node) as lun:
        lun.reset()
    reads.end(SOON)
    one.works()
    reads = Reads(one.node, HUNG, MANY, sectors=192)
    one.box.data.heal()
    reads.end(60)
    reads.all_good(one.there + bytes(192 * blk.SECTOR))
    one.close(probe=False)


def given_up(one: Lab, first: int, count: int) -> None:
    """So many reads of 512 KiB."""
    before = one.box.count("data_pieces")
    reads = Reads(one.node, first, count, sectors=1024)
    base.until(lambda: one.box.count("data_pieces") >= before + count, "the reads to come")
    with scsi.Lun(one.node) as lun:
        lun.reset()
        reads.end(SOON)
        read(lun, 0, 1, SLOW)  # is told of the reset


def bound() -> None:
    base.step("reads are given up, 70 MiB: others go on; a 16th of memory: they wait, too")
    one = Lab(mib=512)
    one.probe.end()
    given_up(one, HUNG, 140)
    one.works()
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            most_kib = int(line.split()[1]) // 16
    given_up(one, HUNG + 140 * 1024, most_kib // 512 - 140 + 1)
    one.deadline(DEADLINE_MS)
    late = Reads(one.node, PROBED, 1)
    base.until(lambda: one.box.count("reads_parked") > 0, "a read to be parked")
    base.equal(late.answers, {}, "answers")
    with blk.Disk(one.node) as disk:
        timed("a write", lambda: disk.write(0, blk.pattern("beside", 8)), SOON)
    one.box.data.heal()
    late.end(SOON)
    late.all_good(blk.pattern("probed", 1) + bytes(8 * blk.SECTOR))
    one.close(probe=False)


def logs() -> None:
    base.step(f"{MANY} reads wait for the log: flushes go on, and other reads; then they are ended")
    one = Lab("dram")
    base.put(one.store.path / "control", "destage_idle_ms=3600000")
    with blk.Disk(one.node) as disk:
        for n in range(MANY):
            disk.write(IN_LOG + n * 8, blk.pattern(f"log {n}", 8))
        for n in range(20):  # so that it is in no slot any more
            disk.write(n * 112, blk.pattern(f"fill {n}", 112))
        disk.flush()
        one.box.log.slow_reads(HOURS_MS)
        hops = one.box.count("read_hops")
        reads = Reads(one.node, IN_LOG, MANY)
        base.until(lambda: one.box.count("read_hops") >= hops + MANY, "the reads to come")
        one.works()
        timed("a flush", disk.flush, SOON)
        with scsi.Lun(one.node) as lun:
            timed("the reset", lun.reset, SOON)
        reads.end(SOON)
        timed("a flush", disk.flush, SOON)
        timed("a write with FUA", lambda: disk.write(0, bytes(512), fua=True), SOON)
    one.close()


def log_zone() -> None:
    base.step(f"{MANY} reads wait for a part of the log: others of the log go on")
    one = Lab("dram")
    base.put(one.store.path / "control", "destage_idle_ms=3600000")
    with blk.Disk(one.node) as disk:
        for n in range(MANY):
            disk.write(IN_LOG + n * 8, blk.pattern(f"log {n}", 8))
        disk.flush()
        # Behind them, and in no slot any more.
        first = RING_START // blk.SECTOR + MANY * 16
        well = IN_LOG + MANY * 8
        for n in range(20):
            disk.write(well + n * 112, blk.pattern(f"fill {n}", 112))
        disk.flush()
        one.box.log.slow_reads_of(0, first, HOURS_MS)
        hops = one.box.count("read_hops")
        reads = Reads(one.node, IN_LOG, MANY)
        base.until(lambda: one.box.count("read_hops") >= hops + MANY, "the reads to come")
        last = blk.pattern("fill 10", 112)
        timed("a read of the log",
              lambda: base.equal(disk.read(well + 10 * 112, 112), last, "what is there"),
              SOON)  # fmt: skip
        base.expect(one.box.count("read_hops") > hops + MANY, "it was in the log")
        with scsi.Lun(one.node) as lun:
            lun.reset()
        reads.end(SOON)
    one.close()


def closed() -> None:
    base.step("the LUN is closed with reads that were given up")
    one = Lab()
    reads = one.waiting()
    one.probe.end()
    with scsi.Lun(one.node) as lun:
        lun.reset()
    reads.end(SOON)
    one.session.close()
    one.target.remove()
    timed("the close", one.box.close, 3 * SOON)
    base.expect(dm.opens(one.box.data.name) > 0, "the data disk is in use")
    one.box.data.heal()
    base.until(lambda: dm.opens(one.box.data.name) == 0, "the data disk in nobody's use")
    with one.box.disk() as disk:
        base.expect(disk.read(HUNG, COUNT * 8) == one.there, "what was there")
    one.box.away()


WIRES = [wire.Wire("lan", number=n) for n in range(2)]
WORK: dict[str, Callable[[], None]] = {name: globals()[name] for name in PARTS if name != "compare"}
WORK["compare"] = compare_and_write
for part in base.words(1, PARTS) or PARTS:
    WORK[part]()
base.step("done")
