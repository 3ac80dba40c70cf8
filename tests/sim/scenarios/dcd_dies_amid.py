# SPDX-License-Identifier: GPL-2.0-only
"""The log dies by a superblock that the destager writes, while a segment's write is under way that
is done in the end; and the data disk has a bad place, so that the round fails, and the log, which
works again, is asked at once.
"""

import os
import threading
import time
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk, dm

SUPERS, LATE = "supers", "supers-late"
SLOTS = 16  # sectors of both copies
REFUSAL_MS = 700
BAD = 4096
PLACE = SEGMENT // blk.SECTOR


def under_way(name: str) -> int:
    """Writes that the device hasn't answered."""
    minor = os.minor(os.stat(f"/dev/mapper/{name}").st_rdev)
    return int(Path(f"/sys/block/dm-{minor}/inflight").read_text().split()[1])


def write(disk: blk.Disk, model: Model, over: threading.Event) -> None:
    n = 0
    while not over.is_set():
        filled(disk, model, 8192 + 32 * (n * 7 % 500), 8224 + 32 * (n * 7 % 500), f"newer {n}", 32)
        time.sleep(0.004)
        n += 1


box = Box(data_mib=32, log_mib=5, nvram="lab", nvram_bytes=4096 + 6 * SEGMENT,
          settings="destage_idle_ms=1,destage_batch_kib=256,busy_after_ms=60000")  # fmt: skip
model = Model(box.data.sectors)
medium = box.log.medium
dm.create("bad", f"0 {SLOTS} error")
dm.create(LATE, f"0 {SLOTS} delay {medium} 0 0 /dev/mapper/bad 0 {REFUSAL_MS} {medium} 0 0")
well = f"0 {SLOTS} linear {medium} 0"
dm.create(SUPERS, well)
at, rest = f"{medium} {SLOTS}", box.log.sectors - SLOTS
dm.reload(
    box.log.name,
    f"0 {SLOTS} linear /dev/mapper/{SUPERS} 0\n{SLOTS} {rest} delay {at} 0 {at} 4 {at} 0",
)
with box.disk() as disk:
    filled(disk, model, 0, BAD, "old", 512)
    box.destaged()
    box.data.fail_parts((BAD, BAD + 7), slow_ms=5)
    filled(disk, model, BAD, BAD + 8, "over a bad place", 8)
    base.until(lambda: box.count("stuck_ranges") == 1, "it to be known")
    base.step("the superblock is refused late, beside the write of a segment")
    dm.reload(SUPERS, f"0 {SLOTS} linear /dev/mapper/{LATE} 0")
    over = threading.Event()
    writer = threading.Thread(target=write, args=(disk, model, over))
    writer.start()
    # As soon as what is stuck has to be logged again.
    base.until(lambda: under_way(SUPERS), "a superblock to be under way")
    segment = box.count("segments") + 1
    segments = (box.log.sectors - RING_START // blk.SECTOR) // PLACE
    box.log.hold_write(RING_START // blk.SECTOR + segment % segments * PLACE)
    base.until(box.log.held, "a segment's write to be under way", 0.5)
    dm.reload(SUPERS, well)
    time.sleep(1)
    box.log.let_go()
    over.set()
    writer.join()
    box.says("log ok", "the log to work again")
    time.sleep(5)
    filled(disk, model, 128, 1024, "behind it", 64)
    model.check(disk, "all of it")
    box.data.heal()
    box.destaged()
with box.disk() as disk:
    model.check(disk, "opened again")
base.step("done")
