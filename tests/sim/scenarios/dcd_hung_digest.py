# SPDX-License-Identifier: GPL-2.0-only
"""Digests of a DCD whose data disk doesn't answer: whoever asks for them is answered in time, or at
once if he doesn't want it any more, and the DCD is closed as ever.

    dcd_hung_digest.py [PART...]
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import time
from collections.abc import Iterator

from dcdlab import SEGMENT, Box
from digestlab import view
from locklab import base, blk, dm, lio, scsi
from probelab import SOON

PARTS = ("deadline", "reset", "closed", "taken_away")
HOURS_MS = 3_600_000
DEADLINE_MS = 2000
KEY = bytes(range(1, 33))


class ReadOnly(scsi.Lun):
    def __init__(self, node: str) -> None:
        self._fd = os.open(node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


class Lab:
    """A digest LUN that somebody reads, and the data disk's reads hang."""

    def __init__(self) -> None:
        self.box = Box(nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, settings="read_cache_bytes=0")
        self.store = self.box.open("busy_after_ms=0")
        with lio.look(self.store) as node, blk.Disk(node) as disk:
            disk.write(disk.sectors - 1, bytes(512 - len(KEY)) + KEY)
        self.box.destaged()
        self.shown = view("v", "d")
        self.look = contextlib.ExitStack()
        self.node = self.look.enter_context(lio.look(self.shown, 1))
        self.answers: list[scsi.Answer | OSError] = []
        self.box.data.slow_reads(HOURS_MS)
        threading.Thread(target=self._read, daemon=True).start()
        time.sleep(0.1)
        base.expect(not self.answers, "the data disk doesn't answer")

    def _read(self) -> None:
        try:
            with ReadOnly(self.node) as lun:
                cdb = struct.pack(">BBIBHB", 0x28, 0, 8, 0, 1, 0)
                self.answers.append(lun.command(cdb, expect=512))
        except OSError as err:
            self.answers.append(err)

    def answered(self, seconds: float, what: str) -> None:
        base.until(lambda: self.answers, f"the reader to be answered: {what}", seconds)

    def away(self) -> None:
        self.look.close()
        self.shown.remove()
        self.box.data.heal()
        if self.box.store:
            self.box.close()
        base.until(lambda: dm.opens(self.box.data.name) == 0, "the data disk in nobody's use")
        self.box.away()


@contextlib.contextmanager
def lab(text: str) -> Iterator[Lab]:
    base.step(text)
    one = Lab()
    yield one
    one.away()


def ends(what: str, work: threading.Thread, seconds: float) -> None:
    began = time.monotonic()
    work.start()
    work.join(seconds)
    base.expect(not work.is_alive(), f"{what} waits for a disk that hangs")
    print(f"  {what} took {(time.monotonic() - began) * 1000:.0f} ms", flush=True)


def deadline() -> None:
    with lab("the deadline") as one:
        one.box.set(f"busy_after_ms={DEADLINE_MS}")
        base.until(lambda: one.box.count("reads_given_up"), "it to be given up", 3)
        one.box.data.heal()
        one.answered(5, "when the disk works again")
        base.expect(isinstance(one.answers[0], scsi.Answer) and one.answers[0].good, "digests")


def reset() -> None:
    with lab("LOGICAL UNIT RESET of the digest LUN") as one:
        with ReadOnly(one.node) as lun:
            ends("the reset", threading.Thread(target=lun.reset, daemon=True), SOON)
        one.answered(SOON, "as it was reset")


def closed() -> None:
    with lab("the DCD is closed") as one:
        ends("the close", threading.Thread(target=one.box.close, daemon=True), 3 * SOON)
        one.answered(2 * SOON, "as its DCD is gone")


def taken_away() -> None:
    with lab("the digest LUN is taken away") as one:
        one.box.set(f"busy_after_ms={DEADLINE_MS}")  # loopback waits for its commands first
        ends("that", threading.Thread(target=one.look.close, daemon=True), 3 * SOON)


for part in base.words(1, PARTS) or PARTS:
    globals()[part]()
base.step("done")
