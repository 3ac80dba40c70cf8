# SPDX-License-Identifier: GPL-2.0-only
"""A command of many parts, each in time, takes longer than any request may wait: it is done at its
first try.

    dcd_in_parts.py [same|unmap...]
"""

from __future__ import annotations

import struct
import time

from dcdlab import SEGMENT, Box
from locklab import base, blk, scsi
from poisonlab import box_of

PATIENCE_MS = 1000
PATTERN = b"\xa5" * blk.SECTOR
MOST = 65535  # sectors, as the LUN says
RANGES, EACH = 32, 8


def done(lun: scsi.Lun, box: Box, what: str, cdb: bytes, data: bytes) -> None:
    began = time.monotonic()
    answer = lun.command(cdb, data, timeout_ms=20000)
    took = time.monotonic() - began
    print(f"  {what}: {took:.1f} s, BUSY {box.count('busy')} times", flush=True)
    base.expect(answer.good, f"{what} isn't done: status {answer.status} {answer.why}")
    base.expect(took > 1.5 * PATIENCE_MS / 1000, f"{what} was fast: this shows nothing")


def same() -> None:
    base.step("a WRITE SAME of a pattern, as long as the LUN takes, on spindles")
    box = Box(nvram="lab", data_mib=48, log_mib=8, nvram_bytes=4096 + 16 * SEGMENT,
              data_model="spindle", log_model="spindle")  # fmt: skip
    with box.disk(f"busy_after_ms={PATIENCE_MS}") as disk, scsi.Lun(disk.node) as lun:
        cdb = struct.pack(">BBQIBB", 0x93, 0, 0, MOST, 0, 0)
        done(lun, box, "WRITE SAME", cdb, PATTERN)
        base.expect(disk.read(0, MOST) == PATTERN * MOST, "the pattern isn't there")
    box.away()


def unmap() -> None:
    base.step("an UNMAP of many ranges past a log that has been left, by a slow data disk")
    box = box_of(f"busy_after_ms={PATIENCE_MS}")
    with box.disk() as disk, scsi.Lun(disk.node) as lun:
        box.leave_log()
        box.says("log LEFT", "the log to be left")
        disk.write(0, PATTERN * (2 * RANGES * EACH))
        box.data.slow(50)
        listed = b"".join(struct.pack(">QI4x", 2 * EACH * n, EACH) for n in range(RANGES))
        data = struct.pack(">HH4x", len(listed) + 6, len(listed)) + listed
        cdb = struct.pack(">BBIBHB", 0x42, 0, 0, 0, len(data), 0)
        done(lun, box, "UNMAP", cdb, data)
        want = (bytes(EACH * blk.SECTOR) + PATTERN * EACH) * RANGES
        base.expect(disk.read(0, 2 * RANGES * EACH) == want, "other than the ranges' zeroes")
    box.data.heal()
    box.away()


PARTS = {"same": same, "unmap": unmap}
for name in base.words(1, PARTS) or PARTS:
    PARTS[name]()
base.step("done")
