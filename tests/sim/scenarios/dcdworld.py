# SPDX-License-Identifier: GPL-2.0-only
"""The world that search_dcd.py turns over: a DCD with its disks and its LUN, what is wrong with
them, and what each sector may hold."""

from __future__ import annotations

import contextlib
import errno
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dcdlab import RING_START, SEGMENT, SITE, TOOL, Box, Disk, format_log
from histories import Refused
from locklab import base, blk, dm, lio, media
from statelab import Beside, History, Versions, sector

# The deadline of a command, the probing of a disk that failed and a destage have passed.
LONG_S = 4.0
# What a disk takes to say no that is late: longer than a command waits.
LATE_MS = 3000
# What a log that is gone past takes to answer a write.
MUTE_MS = 20_000
SETTINGS = "busy_after_ms=1500,destage_idle_ms=300,scrub_kib=0"
# With ring=full nothing is destaged that needn't be, and what is is read from the log.
HELD = "read_cache_bytes=0,destage_idle_ms=3600000,destage_low=85,destage_high=95"
LET_GO = "destage_idle_ms=300,destage_low=10,destage_high=20"
# In the data of the sixth place of 16.
HALF = (RING_START // blk.SECTOR, (RING_START + 8 * SEGMENT) // blk.SECTOR - 1)
_BAD = (RING_START + 5 * SEGMENT) // blk.SECTOR + 40
BAD_PLACE = (_BAD, _BAD + 7)
# Its header, and something of what it has.
REFUSES = tuple((at, at + 7) for at in (_BAD - 40, _BAD + 40))
# What is in one place of the log at most, in sectors; two are lost before it is known.
OF_A_PLACE = 2 * 64
# What the oracle looks at. The writes of a lap are in its second part.
LOOK, ELSEWHERE = 1024, 256
# Enough for three that fail, if two are to be left and one is to be written to the log.
SLOTS = 6
# After so long the kernel's own retries of a command have ended, too.
PATIENCE_S = 110
PLACES = range(96, 128)
ERRORS = (errno.EIO, errno.ENODATA)
# With these a log doesn't give what it has.
UNREAD = ("log_fails", "log_unreadable", "log_bad_place", "log_late")
# What no write is refused for.
BORNE = ("rot", "nvram", "super_bad", "log_blinks", "log_refuses")
BORNE_BY_NVRAM = ("log_unwritable", "half_unread", "log_bad_place", "log_mute")
# Unless the ring is full: its tail is held by a log that can't be read at all.
BORNE_WITH_ROOM = ("log_away",)
OWN = {"nvram": "lab", "ring": "idle"}


class World:
    def __init__(self) -> None:
        self.box = self._box()
        self.volatile = OWN["nvram"] == "dram"
        self.first = bytes(LOOK * blk.SECTOR)
        self.history, self.versions = History(LOOK), Versions()
        self.writes: list[Beside] = []
        self.zeroings: list[Beside] = []
        self.faults: dict[str, tuple[str, Callable[[], None]]] = {}
        self.hung: set[str] = set()
        self.rotten = False  # reads may be errors
        self.bad_places = False  # likewise, of what lies there
        self.full = False  # the log, for a while
        self.left = False  # the log, for good
        self.worn: set[str] = set()  # where the NVRAM has media errors
        self.trouble: set[str] = set()  # what was ever wrong
        self.node: str | None = None
        self._look = contextlib.ExitStack()
        self.open()

    @staticmethod
    def _box() -> Box:
        nvram = OWN["nvram"]
        settings = f"{SETTINGS},{HELD}" if OWN["ring"] == "full" else SETTINGS
        return Box(
            data_mib=1, data_spare_mib=1, log_mib=2, nvram=nvram, settings=settings,
            nvram_bytes=4096 + SLOTS * SEGMENT,
        )  # fmt: skip

    @property
    def disks(self) -> dict[str, Disk]:
        return {"data": self.box.data, "log": self.box.log}

    # Open and closed.

    @property
    def quiet(self) -> bool:
        """Nobody waits for an answer."""
        return all(one.done for one in (*self.writes, *self.zeroings))

    def still(self) -> bool:
        """The log is destaged by itself."""
        return False

    @property
    def well(self) -> bool:
        return not self.faults and not self.hung and not self.rotten

    @property
    def opens(self) -> bool:
        """No disk hinders it."""
        return not self.hung and all(why == "super_bad" for why, _ in self.faults.values())

    def open(self) -> None:
        """It may be refused while a disk is ill; not for what rot has lost."""
        try:
            store = self.box.open()
        except OSError as err:
            if self.left and not self.faults and not self.hung:
                base.equal(err.errno, errno.EMEDIUMTYPE, "with a log that was left")
                self.look_at_data("without the log that was left")
                self.format()
                self.left = False
                self.open()
                return
            if self.opens:
                raise base.Wrong(f"no disk hinders it, and it isn't opened: {err}") from err
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
        """As an admin closes it: not while a disk hangs, nor while nothing would keep what a DRAM
        has. So if the log fails, and has what is older than that: it would bring it back."""
        if self.hung or not self.node:
            raise Refused
        why = self.faults["log"][0] if "log" in self.faults else ""
        loses = why and ("data" in self.faults or (why in UNREAD and self.box.count("live")))
        if self.volatile and loses:
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
        if not history.issue(first, count, version):
            return False
        history.begin(first, count, version)
        try:
            with blk.Disk(node) as disk:
                what(disk)
        except OSError as err:
            base.expect(err.errno in ERRORS or self.node != node, f"a write: {err}")
            base.expect(
                self.node != node or not self.bears(),
                f"a write is refused for a bad place of a disk: {err}",
            )
            return False
        finally:
            history.end(version)
        history.ack(first, count, version, False)
        return True

    def bears(self) -> bool:
        """Whether no write is to be refused for all that was ever wrong."""
        borne = {*BORNE, *BORNE_BY_NVRAM, *(() if self.full else BORNE_WITH_ROOM)}
        if self.box.nvram == "lab" and self.trouble <= borne:
            return True
        return self.trouble <= {*BORNE, "data_bad"}

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
        self.full = True
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
            base.expect(err.errno == errno.EIO or self.node != node, f"a flush: {err}")
        else:
            self.history.flushed(begun)

    # Disks.

    def fault(self, name: str, why: str, what: Callable[[], None]) -> None:
        if name in self.faults or name in self.hung:
            raise Refused
        self.trouble.add(why)
        self.faults[name] = why, what
        what()

    def hang(self, name: str) -> None:
        if name in self.hung:
            raise Refused
        self.trouble.add(f"{name}_hangs")
        dm.suspend(name, flush=False)
        self.hung.add(name)

    def moment(self, why: str, what: Callable[[], None], seconds: float) -> None:
        """The log is ill so long, beside whoever writes, and has all that it had afterwards."""
        self.fault("log", why, what)
        time.sleep(seconds)
        self._well("log")

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
            self.disks[name].discards("good")
            self.disks[name].heal()
        if not self.node:
            base.until(self.disks[name].unused, "a closed disk to have answered")

    # The site.

    def cut(self) -> None:
        """Its power goes, with all that is under way, and comes back. Closed."""
        self.history.frozen = True
        media.cut(SITE, 1)
        for name in list(self.hung):
            dm.resume(name)
        self.hung.clear()
        for name in self.faults:
            self.disks[name].heal()  # what it holds is lost
        self._shut()
        self.writes_end("writes of a site without power")
        self.history.frozen = False
        if self.volatile and not self.left:
            self.history.acked = self.history.stable.copy()
        self.box.power_on()
        for _, fault in self.faults.values():
            fault()

    def tool(self, command: str) -> bool:
        """Whether it succeeded; it has to if all is well. `check` tells media errors, too, and what
        they may have cost: so do all others, when it is done."""
        words = ["--data", self.box.data.node, "--log", self.box.log.node]
        words += ["--nvram", self.box.view]
        done = subprocess.run([TOOL, command, *words], capture_output=True, text=True, check=False)
        good = done.returncode == 0 or (done.returncode == 3 and "header" in self.worn)
        base.expect(
            good or not self.well or (bool(self.worn) and command == "check"),
            f"dcd {command}: {done.stdout}{done.stderr}",
        )
        return good

    def empty(self, command: str) -> bool:
        """By a command that leaves nothing in the log. Closed before and after."""
        if not self.tool(command):
            return False
        self.look_at_data(f"dcd {command}")
        return True

    def older(self) -> None:
        """The data disk as it was when the log was formatted: it is told from the right one once
        something was written to that, over which nothing is in the log, and the log knows it: not
        of one that was dead when it was closed (witness.c)."""
        if not self.node or not self.well or "log ok" not in self.box.info():
            raise Refused
        self.write(0, 8)
        self.writes_end("a write elsewhere")
        self.destaged()
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

    def destaged(self) -> None:
        """Until it is opened again the ring isn't kept full."""
        if OWN["ring"] == "full":
            self.box.set(LET_GO)
        self.box.destaged()

    def grow(self) -> None:
        if not self.node or self.faults or self.hung or self.box.data.sectors != 2048:
            raise Refused
        if "log ok" not in self.box.info():  # which is to know of it
            raise Refused
        self.box.data.resize(4096)
        self.patient(lambda: self.box.set("grow=1"), "to grow")

    def leave_log(self) -> None:
        """For good. From then on every write goes through to the data disk."""
        if not self.node or not self.well or not self.quiet:
            raise Refused
        self.trouble.add("log_left")
        self.box.leave_log()
        self.box.says("log LEFT", "the log to be left")
        self.left = True

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
                damaged = self.rotten or self.bad_places
                base.expect(damaged and err.errno == errno.ENODATA, f"{what}: {err}")
                raw = b"".join(self._sector(disk, n, lost) for n in range(LOOK))
        by_place = len(lost) if self.bad_places and len(lost) <= OF_A_PLACE else 0
        base.expect(lost <= set(PLACES) or by_place, f"{what}: {sorted(lost)} are lost")
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
        if self.left:
            self._judge_left()
            return
        lost = self.look("all is well")
        self.no_more_lost()
        if lost or ((self.rotten or self.bad_places) and self.stays_damaged()):
            beyond = [(n, 1) for n in sorted(lost - {*PLACES})]
            for at, count in ((PLACES[0], len(PLACES)), *beyond):
                base.until(partial(self.written, at, count), "a write over what is lost")
        self.rotten = self.bad_places = False
        failing = self.box.count("bad_places") or "data ok" not in self.box.info()
        if OWN["ring"] == "full" and failing:
            # What the data disk didn't take is tried when something is destaged.
            self.box.set(LET_GO)
        # One that is slow to fail is asked as seldom.
        self.box.says("log ok, data ok", "the disks to be told well", 900)
        if self.worn and "header" not in self.worn and self.box.count("nvram_errors"):
            base.until(lambda: self.box.count("slots_retired"), "a bad slot to be retired")
        self.write(100, 12)
        self.writes_end("a last write")
        base.equal(len(self.look("the last write")), 0, "sectors lost at the end")
        self.destaged()
        self.look_at_data("destaged")
        self.write(98, 12)
        self.writes_end("a write before the cut")
        if self.volatile:
            self.flush(self.node)
        self.cut()
        self.tool("check")
        self.open()
        self.look("after a cut")

    def _judge_left(self) -> None:
        base.equal(len(self.look("without the log")), 0, "sectors that are lost")
        base.until(partial(self.written, 100, 12), "a write without the log")
        self.box.says("log LEFT, data ok", "the data disk to be told well", 900)
        self.look_at_data("written through")
        self.write(98, 12)
        self.writes_end("a write before the cut")
        self.cut()
        self.open()
        base.expect(not self.left, "a log that was left is opened")
        self.look("with a new log")

    def no_more_lost(self) -> None:
        """A place that can't be read loses what is there, until that is known: once."""
        if self.bad_places and self.box.nvram == "lab":
            lost = self.box.count("lost_places")
            base.expect(lost <= 1, f"lap after lap is lost by one bad place: {lost}")

    def log_works(self) -> None:
        base.until(lambda: "log FAILING" not in self.box.info(), "the log to work")

    def written(self, first: int, count: int) -> bool:
        """It may be refused until each disk that was ill has been tried again."""
        if OWN["ring"] == "full" and "FAILING" in self.box.info():
            self.box.set(LET_GO)
        self.write(first, count)
        self.writes_end("a write over what is lost")
        return self.history.acked[first] == self.versions.last

    def stays_damaged(self) -> bool:
        """With room in the log, what NVRAM has waits there, too, for a better log (lost.h)."""
        self.log_works()  # until then it isn't known
        time.sleep(LONG_S)
        return "log DAMAGED" in self.box.info()

    def let_go(self) -> None:
        """It went wrong: whoever waits is to end, or the script couldn't."""
        if self.box.store:
            print(self.box.info(), flush=True)
        for name in self.disks:
            with contextlib.suppress(OSError):
                self._well(name)
