# SPDX-License-Identifier: GPL-2.0-only
"""Hundreds of commands wait for a log disk that hangs: none waits without end, and each can be
aborted, whatever it is. What is over was never done, and isn't done later.

Parts, all without arguments: deadline, reset, abort, logout, lost, disable, drop, none, flush; and
once, once_fua, once_left: one command that compares and writes, which would find its own data if it
were done twice.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Iterator

from dcdlab import SEGMENT, Box
from locklab import base, blk, dm, lio, scsi, wire
from locklab.iscsi import Session
from probelab import PROBED, SOON, Probe, timed

SIZE = 112  # sectors of a write that fills a segment
HERE, THERE = (f"{wire.mirror_ip(n)}:{lio.PORT}" for n in range(2))
COUNT = 200  # commands that wait
PLACE = 4096  # where, one sector each
DEADLINE_MS = 2000
LEAST_MS = 7000  # SG_IO's shortest timeout
SLOW = 60_000  # longer than anything here
PARTS = ("deadline", "reset", "abort", "logout", "lost", "disable", "drop", "none", "flush", "once",
         "once_fua", "once_left")  # fmt: skip


def write(lun: scsi.Lun, n: int, timeout_ms: int) -> scsi.Answer:
    cdb = struct.pack(">BBIBHB", 0x2A, 0, PLACE + n, 0, 1, 0)
    return lun.command(cdb, blk.pattern(f"late {n}", 1), timeout_ms=timeout_ms)


def compare(lun: scsi.Lun, n: int, timeout_ms: int, fua: bool = False) -> scsi.Answer:
    cdb = struct.pack(">BBQBBBBBB", 0x89, 8 if fua else 0, PLACE + n, 0, 0, 0, 1, 0, 0)
    data = before()[n * 512 : n * 512 + 512] + blk.pattern(f"late {n}", 1)
    return lun.command(cdb, data, timeout_ms=timeout_ms)


def unmap(lun: scsi.Lun, n: int, timeout_ms: int) -> scsi.Answer:
    data = struct.pack(">HH4xQI4x", 22, 16, PLACE + n, 1)
    return lun.command(struct.pack(">BBIBHB", 0x42, 0, 0, 0, len(data), 0), data,
                       timeout_ms=timeout_ms)  # fmt: skip


def same(lun: scsi.Lun, n: int, timeout_ms: int) -> scsi.Answer:
    cdb = struct.pack(">BBQIBB", 0x93, 0, PLACE + n, 1, 0, 0)
    return lun.command(cdb, blk.pattern(f"late {n}", 1), timeout_ms=timeout_ms)


def scattered(lun: scsi.Lun, n: int, timeout_ms: int) -> scsi.Answer:
    cdb, head = scsi.write_scattered([(PLACE + n, 1)])
    return lun.command(cdb, head + blk.pattern(f"late {n}", 1), timeout_ms=timeout_ms)


def before() -> bytes:
    return blk.pattern("before", COUNT)


KINDS = (write, compare, write, unmap, write, same, write, scattered)


class Waiting:
    """Commands of all kinds that can't be done now. With what each was answered, and when."""

    def __init__(self, node: str, timeout_ms: int, count: int = COUNT) -> None:
        self.answers: dict[int, scsi.Answer | OSError] = {}
        self.took: dict[int, float] = {}
        self._node, self._timeout_ms = node, timeout_ms
        self._threads = [
            threading.Thread(target=self._one, args=(n,), daemon=True) for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _one(self, n: int) -> None:
        began = time.monotonic()
        try:
            with scsi.Lun(self._node) as lun:
                self.answers[n] = KINDS[n % len(KINDS)](lun, n, self._timeout_ms)
        except OSError as err:
            self.answers[n] = err
        self.took[n] = time.monotonic() - began

    def end(self, seconds: float) -> None:
        """All have ended by then."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        left = [n for n, thread in enumerate(self._threads) if thread.is_alive()]
        kinds = sorted({KINDS[n % len(KINDS)].__name__ for n in left})
        base.expect(not left, f"{len(left)} commands still wait ({', '.join(kinds)})")

    def said(self) -> set[tuple[int, int]]:
        """Status and the host's word, of each."""
        return {(a.status, a.host) for a in self.answers.values() if isinstance(a, scsi.Answer)}


class Filler(threading.Thread):
    """Writes of whole segments by sd, until NVRAM is full and one waits. None may fail."""

    def __init__(self, node: str, count: int) -> None:
        super().__init__(daemon=True)
        self._node, self._count = node, count
        self.error: OSError | None = None

    def run(self) -> None:
        with blk.Disk(self._node) as disk:
            for n in range(self._count):
                try:
                    disk.write(n % 16 * SIZE, blk.pattern(f"segment {n}", SIZE))
                except OSError as err:
                    self.error = err
                    return


class Lab:
    """A DCD whose log hangs, its NVRAM full, and two sessions: one that works, one that looks."""

    def __init__(self, nvram: str = "lab", fill: bool = True) -> None:
        size = 4096 + 8 * SEGMENT
        self.box = Box(nvram=nvram, nvram_bytes=size, log_mib=8)
        self.store = self.box.open("busy_after_ms=0")
        self._local = contextlib.ExitStack()
        local = self._local.enter_context(lio.look(self.store))
        self.target = lio.Target(self.store, portals=(HERE, THERE))
        base.put(self.target.tpg / "attrib/default_cmdsn_depth", 2 * COUNT)
        self.session = Session(
            (HERE, THERE), node__session__cmds_max="512", node__session__queue_depth=str(2 * COUNT)
        )
        self.node = self.session.login_by(HERE)
        probed = self.session.login_by(THERE)
        with blk.Disk(local) as disk:
            disk.write(PLACE, before())
            disk.write(PROBED, blk.pattern("probed", 1))
        dm.suspend(self.box.log.name)
        self.filler = Filler(local, 24 if fill else 1)
        if fill:
            self.filler.start()
            base.until(lambda: self.box.count("waits_for_room") > 0, "a write to wait")
        self._waiting: Waiting | None = None
        self.probe = Probe(probed)
        self.probe.start()

    def _commands(self) -> int:
        return int((self.store.path / "statistics/scsi_lu/num_cmds").read_text())

    def waiting(self, timeout_ms: int = SLOW, count: int = COUNT) -> Waiting:
        now = self._commands()
        waiting = Waiting(self.node, timeout_ms, count)
        base.until(lambda: self._commands() >= now + count, f"{count} commands to come")
        self._waiting = waiting
        return waiting

    def deadline(self, ms: int) -> None:
        self.box.set(f"busy_after_ms={ms}")

    @property
    def good(self) -> set[int]:
        """Commands that were answered as done: zeroes find room between writes that don't."""
        answers = self._waiting.answers if self._waiting else {}
        return {n for n, a in answers.items() if isinstance(a, scsi.Answer) and a.good}

    def busy(self, count: int) -> None:
        """So many commands, which have just come, are answered with BUSY in time: by the engine,
        but for those that compare, of which one gets there."""
        compares = count // len(KINDS)
        busy = lambda: self.box.count("busy") >= count - compares - len(self.good)  # noqa: E731
        try:
            base.until(busy, f"{count} answers BUSY", DEADLINE_MS / 1000 + SOON)
        except base.Wrong as err:
            raise base.Wrong(f"{err}; info: {self.box.info()}") from None

    def works(self) -> None:
        """A command of the session that works is answered at once."""
        with scsi.Lun(self.node) as lun:
            took = blk.timed(lambda: lun.command(bytes(6)))
        base.expect(took < SOON, f"TEST UNIT READY took {took:.3f} s")

    def close(self, probe: bool = True, changed: bool = False) -> None:
        if probe:
            self.probe.end()
        busy, unwanted = self.box.count("busy"), self.box.count("unwanted")
        print(f"  {busy} waits took too long, {unwanted} weren't wanted any more", flush=True)
        dm.resume(self.box.log.name)
        if self.filler.ident:
            self.filler.join(100)
            base.expect(not self.filler.is_alive(), "sd's writes don't come to their end")
        base.expect(self.filler.error is None, f"sd's write failed: {self.filler.error}")
        self.session.close()
        self.target.remove()
        self._local.close()
        if not changed:
            with lio.look(self.store) as node, blk.Disk(node) as disk:
                now, was = disk.read(PLACE, COUNT), before()
                done = {n for n in range(COUNT) if now[n * 512 :][:512] != was[n * 512 :][:512]}
                base.equal(done - self.good, set(), "commands done although their wait was ended")
        self.box.close()
        self.box.away()


@contextlib.contextmanager
def lab(text: str, **options: object) -> Iterator[Lab]:
    base.step(text)
    one = Lab()
    yield one
    one.close(**options)  # type: ignore[arg-type]


def deadline() -> None:
    with lab("the deadline: BUSY for all, which the host tries again", changed=True) as one:
        one.deadline(DEADLINE_MS)
        waiting = one.waiting()
        one.busy(COUNT)
        # From now on the host sends them one by one, until one is answered with GOOD.
        dm.resume(one.box.log.name)
        waiting.end(DEADLINE_MS / 1000 + SOON)
        base.equal(waiting.said(), {(0, 0)}, "status and the host's word")


def reset() -> None:
    with lab("LOGICAL UNIT RESET") as one:
        waiting = one.waiting()
        with scsi.Lun(one.node) as lun:
            timed("the reset", lun.reset, SOON)
        waiting.end(SOON)
        one.works()


def abort() -> None:
    with lab("ABORT TASK") as one:
        waiting = one.waiting(LEAST_MS, 16)
        # open-iscsi gives a command more time once; the block layer looks once a second.
        waiting.end(2 * LEAST_MS / 1000 + 2 * SOON)
        aborted = 16 - len(one.good)
        # Some may have found room.
        said = waiting.said() | {(0, 0)}
        base.equal(said, {(0, 0), (0, scsi.TIMED_OUT)}, "status and the host's word")
        done = int((one.store.path / "statistics/scsi_tgt_dev/aborts_complete").read_text())
        base.equal(done, aborted, "commands that the target has aborted")
        base.expect(aborted > 10, f"{aborted} commands")
        one.works()


def logout() -> None:
    with lab("logout, which the host does when its commands have ended") as one:
        waiting = one.waiting()
        one.deadline(DEADLINE_MS)
        timed("the logout", lambda: one.session.logout_by(HERE), DEADLINE_MS / 1000 + SOON)
        waiting.end(SOON)
        timed("login", lambda: one.session.login_by(HERE), 2 * SOON)


def lost() -> None:
    with lab("the session is lost and comes back") as one:
        waiting = one.waiting()
        WIRES[0].cut()
        base.until(lambda: not one.session.up_by(HERE), "the host to notice")
        waiting.end(30)
        WIRES[0].mend("lan")
        back = lambda: base.until(lambda: one.session.up_by(HERE), "a session")  # noqa: E731
        timed("the way back", back, 10 * SOON)
        one.works()


def disable() -> None:
    with lab("the target is disabled", probe=False) as one:
        waiting = one.waiting()
        enable = one.target.tpg / "enable"
        timed("disabling", lambda: base.put(enable, 0), SOON)
        base.put(enable, 1)
        waiting.end(30)


def drop() -> None:
    with lab("the LUN is taken away", probe=False) as one:
        waiting = one.waiting()
        timed("that", lambda: one.target.drop(0), SOON)
        waiting.end(SLOW / 1000 + 10)
        one.target.add(one.store, 0)


def none() -> None:
    base.step("without NVRAM: what is placed waits for the log; a reset, and the deadline")
    one = Lab("none", fill=False)
    waiting = one.waiting(count=64)
    with scsi.Lun(one.node) as lun:
        timed("the reset", lun.reset, SOON)
    waiting.end(SOON)
    one.works()  # and is told of the reset: who isn't comes again only when none is under way
    one.deadline(DEADLINE_MS)
    waiting = one.waiting(count=64)
    one.busy(64)
    dm.resume(one.box.log.name)
    waiting.end(DEADLINE_MS / 1000 + SOON)
    one.close(changed=True)


def flush() -> None:
    base.step("a volatile write cache: SYNCHRONIZE CACHE waits for the log")
    one = Lab("dram", fill=False)
    with blk.Disk(one.node) as disk:
        disk.write(0, blk.pattern("volatile", 8))
        one.deadline(DEADLINE_MS)
        with scsi.Lun(one.node) as lun:
            sync = struct.pack(">BBIBHB", 0x35, 0, 0, 0, 0, 0)
            answer = lun.command(sync, timeout_ms=DEADLINE_MS + 1000)
            base.equal((answer.status, answer.host), (scsi.BUSY, 0), "answer")
            one.deadline(0)
            late = threading.Thread(target=lambda: lun.command(sync), daemon=True)
            late.start()
            base.until(lambda: one.box.count("flushes") > 2, "a flush to wait")
            with scsi.Lun(one.node) as other:
                timed("the reset", other.reset, SOON)
            late.join(SOON)
            base.expect(not late.is_alive(), "a flush that was aborted")
    one.close()


def only(how: str, nvram: str) -> None:
    """The disk that is to have it answers after the deadline: nobody is told to try again."""
    base.step(f"COMPARE AND WRITE, nobody else: {how}")
    size = 4096 + 8 * SEGMENT
    box = Box(nvram=nvram, nvram_bytes=size, settings=f"busy_after_ms={DEADLINE_MS}")
    hold = threading.Timer(DEADLINE_MS / 1000 + SOON, dm.resume, (box.log.name,))
    with box.disk() as disk, scsi.Lun(disk.node) as lun:
        disk.write(PLACE, before())
        if how == "left":
            box.leave_log()
            box.says("log LEFT", "the log to be left")
            box.data.hold_write(PLACE)
            hold = threading.Timer(DEADLINE_MS / 1000 + SOON, box.data.let_go)
        else:
            dm.suspend(box.log.name)
        hold.start()
        answer = compare(lun, 0, SLOW, fua=how == "fua")
        hold.join()
        busy = box.count("busy")
        base.expect(answer.good, f"{how}: sense {answer.why}, {busy} answers BUSY before it")
        base.expect(not busy, f"{how}: {busy} answers BUSY")
        base.equal(disk.read(PLACE, 1), blk.pattern("late 0", 1), f"{how}: the block")
    box.away()


def once() -> None:
    only("none", "none")


def once_fua() -> None:
    only("fua", "dram")


def once_left() -> None:
    only("left", "lab")


WIRES = [wire.Wire("lan", number=n) for n in range(2)]
for part in base.words(1, PARTS) or PARTS:
    globals()[part]()
base.step("done")
