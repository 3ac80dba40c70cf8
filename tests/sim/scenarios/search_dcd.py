# SPDX-License-Identifier: GPL-2.0-only
"""Every order of a few events of a DCD around two overlapping writes, all judged by one oracle. The
arguments and what a history is: histories.py. Own words: nvram=lab|none|dram.

The disks are small: a lap of writes elsewhere (`lap`) fills the log once. At the end of each
history the disks are well, and everything that was acknowledged (with `dram`: and flushed, if the
power was cut) is there: by the LUN, on the data disk alone when all is destaged, and after another
power cut. Whatever a disk does, each write and each removal ends; once all is well nothing is
refused. Where the log's copy was damaged (`rot`), reads are errors, but never other bytes.

There is no LOGICAL UNIT RESET among the events: the kernel's loopback fabric answers GOOD to a
write that it has aborted (dcd_deadline.py has it, by iSCSI).
"""

from __future__ import annotations

import contextlib
import errno
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import histories
from dcdlab import SITE, TOOL, Box, Disk, format_log
from histories import Refused
from locklab import base, blk, dm, lio, media
from statelab import Beside, History, Versions, sector

# The deadline of a command, the probing of a disk that failed and a destage have passed.
LONG_S = 4.0
SETTINGS = "busy_after_ms=1500,destage_idle_ms=300,scrub_kib=0"
# What the oracle looks at. The writes of a lap are in its second part.
LOOK, ELSEWHERE = 1024, 256
# After so long the kernel's own retries of a command have ended, too.
PATIENCE_S = 110
PLACES = range(96, 128)
ERRORS = (errno.EIO, errno.ENODATA)
OWN = {"nvram": "lab"}


class World:
    def __init__(self) -> None:
        self.box = self._box()
        self.volatile = OWN["nvram"] == "dram"
        self.first = bytes(LOOK * blk.SECTOR)
        self.history, self.versions = History(LOOK), Versions()
        self.writes: list[Beside] = []
        self.zeroings: list[Beside] = []
        self.faults: dict[str, Callable[[], None]] = {}
        self.hung: set[str] = set()
        self.rotten = False
        self.trouble: set[str] = set()  # what was ever wrong
        self.node: str | None = None
        self._look = contextlib.ExitStack()
        self.open()

    @staticmethod
    def _box() -> Box:
        nvram = OWN["nvram"]
        return Box(data_mib=1, data_spare_mib=1, log_mib=2, nvram=nvram, settings=SETTINGS)

    @property
    def disks(self) -> dict[str, Disk]:
        return {"data": self.box.data, "log": self.box.log}

    # Open and closed.

    @property
    def well(self) -> bool:
        return not self.faults and not self.hung and not self.rotten

    def open(self) -> None:
        """It may be refused while a disk is ill; not for what rot has lost."""
        try:
            store = self.box.open()
        except OSError as err:
            if not self.faults and not self.hung:
                raise base.Wrong(f"all is well, and it isn't opened: {err}") from err
            return
        self.node = self._look.enter_context(lio.look(store))
        # So the kernel gives a command up that is answered BUSY before it calls the hang a bug.
        base.put(Path("/sys/block", Path(self.node).name, "device/timeout"), 2)

    def close(self) -> None:
        self._shut()
        self.box.away()

    def _shut(self) -> None:
        if self.node:
            self.node = None
            self.patient(self._look.close, "the LUN's end")
            self.patient(self.box.close, "the DCD's end")

    def leave(self) -> None:
        """As an admin closes it: not while a disk hangs."""
        if self.hung or not self.node:
            raise Refused
        self._shut()
        self.writes_end("writes to a LUN that is gone")

    def patient(self, work: Callable[[], object], what: str) -> None:
        beside = Beside(work)
        base.until(lambda: beside.done, what, PATIENCE_S)
        beside.result()

    # Writes.

    def write(self, first: int, count: int) -> None:
        version = self.versions.next()
        data = b"".join(sector(version, first + n) for n in range(count))
        self.begin(first, count, version, lambda disk: disk.write(first, data))

    def begin(
        self, first: int, count: int, version: int, what: Callable[[blk.Disk], object]
    ) -> None:
        """Begun; it ends when it can."""
        if not self.node:
            raise Refused
        self.writes.append(Beside(partial(self._one, self.node, first, count, version, what)))

    def _one(
        self, node: str, first: int, count: int, version: int, what: Callable[[blk.Disk], object]
    ) -> bool:
        history = self.history
        history.issue(first, count, version)
        try:
            with blk.Disk(node) as disk:
                what(disk)
        except OSError as err:
            base.expect(err.errno in ERRORS or self.node != node, f"a write: {err}")
            well = self.node == node and self.trouble <= {"data_bad", "rot"}
            base.expect(not well, f"a write is refused for a bad place of a disk: {err}")
            return False
        history.ack(first, count, version, False)
        return True

    def beside(self, work: Callable[[str], object]) -> None:
        if not self.node:
            raise Refused
        self.writes.append(Beside(partial(work, self.node)))

    def zero(self, first: int, count: int, what: Callable[[blk.Disk], object]) -> None:
        """A zeroing or a discard."""
        version = self.versions.next()
        self.history.zeroes.add(version)
        self.begin(first, count, version, what)
        self.zeroings.append(self.writes.pop())

    def writes_end(self, what: str) -> None:
        for some in (self.writes, self.zeroings):
            for one in some:
                base.until(partial(getattr, one, "done"), what, PATIENCE_S)
                one.result()
            some.clear()

    def lap(self, node: str) -> None:
        """One write a segment; the log has 16. It ends with the first that is refused."""
        for at in 2 * list(range(ELSEWHERE, LOOK, 64)):
            version = self.versions.next()
            data = b"".join(sector(version, at + n) for n in range(64))
            if not self._one(node, at, 64, version, partial(blk.Disk.write, sector=at, data=data)):
                return

    def flush(self, node: str) -> None:
        begun = self.history.flush_begins()
        try:
            with blk.Disk(node) as disk:
                disk.flush()
        except OSError as err:
            base.expect(err.errno == errno.EIO, f"a flush: {err}")
        else:
            self.history.flushed(begun)

    # Disks.

    def fault(self, name: str, why: str, what: Callable[[], None]) -> None:
        if name in self.faults or name in self.hung:
            raise Refused
        self.trouble.add(why)
        self.faults[name] = what
        what()

    def hang(self, name: str) -> None:
        if name in self.hung:
            raise Refused
        self.trouble.add(f"{name}_hangs")
        dm.suspend(name, flush=False)
        self.hung.add(name)

    def back(self, name: str) -> None:
        if name not in self.hung and name not in self.faults:
            raise Refused
        self._well(name)

    def _well(self, name: str) -> None:
        """What was held goes its way."""
        if name in self.hung:
            dm.resume(name)
            self.hung.discard(name)
        if self.faults.pop(name, None):
            self.disks[name].heal()

    def rot(self) -> None:
        """A bit of the log's copies of sector 104, wherever they are."""
        version = self.history.acked[104]
        raw = sector(version, 104) if version else b""
        if "log" in self.hung or not version or version in self.history.zeroes:
            raise Refused
        with blk.Disk("/dev/mapper/log-medium") as medium:
            log = medium.read(0, medium.sectors)
            at = log.find(raw)
            if at < 0:
                raise Refused
            while at >= 0:
                medium.write(at // 512, bytes([raw[0] ^ 4]) + raw[1:])
                at = log.find(raw, at + 512)
        self.rotten = True
        self.trouble.add("rot")

    # The site.

    def cut(self) -> None:
        """Its power goes, with all that is under way, and comes back. Closed."""
        self.history.frozen = True
        media.cut(SITE, 1)
        for name in list(self.hung):
            dm.resume(name)
        self.hung.clear()
        self._shut()
        self.writes_end("writes of a site without power")
        self.history.frozen = False
        if self.volatile:
            self.history.acked = self.history.stable.copy()
        self.box.power_on()
        for fault in self.faults.values():
            fault()

    def tool(self, command: str) -> bool:
        """Whether it succeeded; it has to if all is well."""
        words = ["--data", self.box.data.node, "--log", self.box.log.node]
        words += ["--nvram", self.box.view]
        done = subprocess.run([TOOL, command, *words], capture_output=True, text=True, check=False)
        base.expect(
            done.returncode == 0 or not self.well, f"dcd {command}: {done.stdout}{done.stderr}"
        )
        return done.returncode == 0

    def empty(self, command: str) -> bool:
        """By a command that leaves nothing in the log. Closed before and after."""
        if not self.tool(command):
            return False
        self.look_at_data(f"dcd {command}")
        return True

    def older(self) -> None:
        """The data disk as it was when the log was formatted: it is told from the right one once
        something was written to that, over which nothing is in the log."""
        if not self.well:
            raise Refused
        self.write(0, 8)
        self.writes_end("a write elsewhere")
        self.box.destaged()
        self.leave()
        raw = self.box.data.bytes(0, LOOK)
        with blk.Disk(self.box.data.node) as disk:
            disk.write(0, self.first)
            try:
                self.box.open()
            except OSError as err:
                base.equal(err.errno, errno.EMEDIUMTYPE, "with an older data disk")
            else:
                self.box.close()
                raise base.Wrong("an older data disk is taken for the right one")
            disk.write(0, raw)
            disk.flush()

    def grow(self) -> None:
        if not self.node or self.faults or self.hung or self.box.data.sectors != 2048:
            raise Refused
        self.box.data.resize(4096)
        self.patient(lambda: self.box.set("grow=1"), "to grow")

    def format(self) -> None:
        format_log(self.box.data.node, self.box.log.node, self.box.view, "--force")
        self.first = self.box.data.bytes(0, LOOK)

    # The verdict.

    def look(self, what: str) -> set[int]:
        """By the LUN; returns the sectors that are lost, which only rot explains."""
        assert self.node
        lost: set[int] = set()
        with blk.Disk(self.node, write=False) as disk:
            try:
                raw = disk.read(0, LOOK)
            except OSError as err:
                base.expect(self.rotten and err.errno == errno.ENODATA, f"{what}: {err}")
                raw = b"".join(self._sector(disk, n, lost) for n in range(LOOK))
        base.expect(lost <= set(PLACES), f"{what}: {sorted(lost)} are lost")
        self.history.check(raw, what)
        return lost

    def _sector(self, disk: blk.Disk, n: int, lost: set[int]) -> bytes:
        try:
            return disk.read(n, 1)
        except OSError as err:
            base.equal(err.errno, errno.ENODATA, f"sector {n}")
            lost.add(n)
            version = self.history.acked[n]
            return bytes(512) if version in self.history.zeroes else sector(version, n)

    def look_at_data(self, what: str) -> None:
        self.history.check(self.box.data.bytes(0, LOOK), f"{what}: the data disk")

    def judge(self) -> None:
        # sd sends a WRITE SAME or an UNMAP that is answered BUSY again for 3 to 12 minutes, and no
        # other command meanwhile.
        if self.hung and all(one.done for one in self.zeroings):
            self.writes_end("writes while a disk hangs")
        for name in self.disks:
            self._well(name)
        if not self.node:
            self.open()
        assert self.node
        self.writes_end("writes once all is well")
        lost = self.look("all is well")
        if lost:
            self.write(PLACES[0], len(PLACES))
            self.writes_end("a write over what is lost")
        self.rotten = False
        self.box.says("log ok, data ok", "the disks to be told well")
        self.write(100, 12)
        self.writes_end("a last write")
        base.equal(len(self.look("the last write")), 0, "sectors lost at the end")
        self.box.destaged()
        self.look_at_data("destaged")
        self.write(98, 12)
        self.writes_end("a write before the cut")
        if self.volatile:
            self.flush(self.node)
        self.cut()
        self.tool("check")
        self.open()
        self.look("after a cut")

    def let_go(self) -> None:
        """It went wrong: whoever waits is to end, or the script couldn't."""
        if self.box.store:
            print(self.box.info(), flush=True)
        for name in self.disks:
            with contextlib.suppress(OSError):
                self._well(name)


def lap(w: World) -> None:
    w.beside(w.lap)


def flush(w: World) -> None:
    w.beside(w.flush)


def zero(w: World) -> None:
    w.zero(102, 4, lambda disk: disk.zero(102, 4))


def discard(w: World) -> None:
    w.zero(96, 16, lambda disk: disk.discard(96, 16))


def log_fails(w: World) -> None:
    w.fault("log", "log_fails", w.box.log.fail)


def log_unreadable(w: World) -> None:
    w.fault("log", "log_unreadable", lambda: w.box.log.fail("1 error_reads"))


def log_unwritable(w: World) -> None:
    w.fault("log", "log_unwritable", w.box.log.fail_writes)


def log_hangs(w: World) -> None:
    w.hang("log")


def log_back(w: World) -> None:
    w.back("log")


def data_fails(w: World) -> None:
    w.fault("data", "data_fails", w.box.data.fail)


def data_bad(w: World) -> None:
    """A bad place where the writes overlap."""
    w.fault("data", "data_bad", lambda: w.box.data.fail_part(105, 105))


def data_hangs(w: World) -> None:
    w.hang("data")


def data_back(w: World) -> None:
    w.back("data")


def rot(w: World) -> None:
    w.rot()


def cut(w: World) -> None:
    w.cut()
    w.open()


def recover(w: World) -> None:
    """The power is cut, and the log is emptied before the module has it again."""
    w.cut()
    w.empty("recover")
    w.open()


def again(w: World) -> None:
    w.leave()
    w.open()


def retire(w: World) -> None:
    """Taken out of service, looked at without it, and put in again with a new log."""
    w.leave()
    if w.empty("retire"):
        w.format()
    w.open()


def older(w: World) -> None:
    w.older()
    w.open()


def grow(w: World) -> None:
    w.grow()


EVENTS = [
    lap, flush, zero, discard, log_fails, log_unreadable, log_unwritable, log_hangs,
    log_back, data_fails, data_bad, data_hangs, data_back, rot, cut, recover, again, retire, older,
    grow,
]  # fmt: skip

sys.exit(histories.main(World, EVENTS, LONG_S, OWN))
