# SPDX-License-Identifier: GPL-2.0-only
"""Every order of a few events of a DCD around two overlapping writes, all judged by one oracle. The
arguments and what a history is: histories.py. Own words: nvram=lab|none|dram, ring=idle|full.

The disks are small: a lap of writes elsewhere (`lap`) fills the log once. At the end of each
history the disks are well, and everything that was acknowledged (with `dram`: and flushed, if the
power was cut) is there: by the LUN, on the data disk alone when all is destaged, and after another
power cut. Whatever a disk does, each write and each removal ends; once all is well nothing is
refused. Where the log's copy was damaged (`rot`), reads are errors, but never other bytes.

There is no LOGICAL UNIT RESET among the events: the kernel's loopback fabric answers GOOD to a
write that it has aborted (dcd_deadline.py has it, by iSCSI).
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import harmlab
import histories
from dcdworld import BAD_PLACE, HALF, LATE_MS, LONG_S, MUTE_MS, OWN, REFUSES, World
from histories import Refused
from locklab import base


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


def log_blinks(w: World) -> None:
    w.moment("log_blinks", w.box.log.fail, 0.05)


def log_away(w: World) -> None:
    w.moment("log_away", w.box.log.fail, 1)


def half_unread(w: World) -> None:
    """Half of the ring can't be read for a second."""
    w.moment("half_unread", lambda: w.box.log.unreadable(HALF), 1)


def log_bad_place(w: World) -> None:
    """One block of the ring takes writes, and can't be read."""
    w.bad_places = True
    w.fault("log", "log_bad_place", lambda: w.box.log.unreadable(BAD_PLACE))


def log_refuses(w: World) -> None:
    """Two blocks of the ring take no writes, and give what they had."""
    w.fault("log", "log_refuses", lambda: w.box.log.refuse(*REFUSES))


def super_bad(w: World) -> None:
    """A sector of the first copy of the log's superblock can't be read."""
    w.fault("log", "super_bad", lambda: w.box.log.unreadable((0, 0)))


def other_super_bad(w: World) -> None:
    w.fault("log", "super_bad", lambda: w.box.log.unreadable((8, 8)))


def log_refuses_late(w: World) -> None:
    """The log takes no writes, and takes its time to say so."""
    w.fault("log", "log_late", lambda: w.box.log.refuse_late(LATE_MS))


def log_fails_late(w: World) -> None:
    """Reads, too."""
    w.fault("log", "log_late", lambda: w.box.log.fail_late(LATE_MS))


def log_place_late(w: World) -> None:
    """Two blocks of the ring do so."""
    w.fault("log", "log_late", lambda: w.box.log.fail_late(LATE_MS, *REFUSES))


def log_mute(w: World) -> None:
    """Writes of the log don't return for so long that it is gone past, where that can be."""
    if w.box.nvram != "lab":
        raise Refused
    w.fault("log", "log_mute", lambda: w.box.log.slow_writes(MUTE_MS))
    time.sleep(MUTE_MS / 3000)


def log_hangs(w: World) -> None:
    w.hang("log")


def log_back(w: World) -> None:
    w.back("log")


def data_fails(w: World) -> None:
    w.fault("data", "data_fails", w.box.data.fail)


def data_bad(w: World) -> None:
    """A bad place where the writes overlap."""
    w.fault("data", "data_bad", lambda: w.box.data.fail_part(105, 105))


def data_fails_late(w: World) -> None:
    """Reads and writes."""
    w.fault("data", "data_late", lambda: w.box.data.fail_late(LATE_MS))


def data_place_late(w: World) -> None:
    """The same of a place where the writes overlap."""
    w.fault("data", "data_late", lambda: w.box.data.fail_late(LATE_MS, (104, 111)))


def wipes_fail(w: World) -> None:
    """The data disk's discards and zeroings do, and nothing else."""
    w.fault("data", "wipes_fail", lambda: w.box.data.discards("fail"))


def data_hangs(w: World) -> None:
    w.hang("data")


def data_back(w: World) -> None:
    w.back("data")


def rot(w: World) -> None:
    """A bit of the log's copies of sector 104."""
    if not harmlab.flip(w, harmlab.newest(w, 104)):
        raise Refused
    w.rotten = True
    w.trouble.add("rot")


def poison(w: World) -> None:
    """A media error of the NVRAM's copies of it."""
    if not harmlab.poison(w, harmlab.newest(w, 104)):
        raise Refused


def lose(w: World) -> None:
    """The power is cut, and neither has it when it is back."""
    if w.box.view == "none":
        raise Refused
    raw = harmlab.newest(w, 104)
    w.cut()
    if harmlab.flip(w, raw) + harmlab.poison(w, raw):
        w.rotten = True
        w.trouble.add("rot")
    w.open()


def slot_fails(w: World) -> None:
    harmlab.wear(w)


def header_bad(w: World) -> None:
    harmlab.header(w)


def newest_damaged(w: World) -> None:
    """What NVRAM says of the newest write, as a cut left it. It isn't taken for an end."""
    harmlab.line(w, 0)


def older_damaged(w: World) -> None:
    """The same of the one before it."""
    harmlab.line(w, 1)


def wound(w: World) -> None:
    """The power is cut when the destager has done its work, and the log doesn't say so yet. Then a
    bit of the log rots, under which the data disk has what is right."""
    harmlab.wound(w)
    w.open()


def forgets(w: World) -> None:
    """The NVRAM is one that may forget: it isn't taken."""
    harmlab.forgets(w)
    w.open()


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


def log_left(w: World) -> None:
    w.leave_log()


def of_log(event: Callable[[World], None]) -> Callable[[World], None]:
    """It is nothing when there is no log any more."""

    @functools.wraps(event)
    def unless_left(w: World) -> None:
        if w.left:
            raise Refused
        event(w)

    return unless_left


OF_LOG = [
    log_fails, log_unreadable, log_unwritable, log_hangs, log_back, rot, poison, lose, slot_fails,
    header_bad, newest_damaged, older_damaged, wound, forgets, recover, retire, older, grow,
    log_blinks, log_away, half_unread, log_bad_place, log_refuses, super_bad, other_super_bad,
    log_left, log_refuses_late, log_fails_late, log_place_late, log_mute,
]  # fmt: skip
EVENTS = [lap, flush, zero, discard, data_fails, data_bad, data_hangs, data_back, cut, again,
          data_fails_late, data_place_late, wipes_fail, *map(of_log, OF_LOG)]  # fmt: skip

# The kernel's own look for partitions asks a LUN for minutes that answers BUSY, as its data disk is
# late to fail. That whatever matters ends is the oracle's business.
base.put(Path("/proc/sys/kernel/hung_task_timeout_secs"), 0)
sys.exit(histories.main(World, EVENTS, LONG_S, OWN))
