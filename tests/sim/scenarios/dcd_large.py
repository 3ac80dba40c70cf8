# SPDX-License-Identifier: GPL-2.0-only
"""A DCD with many small ranges in its log: closed, opened again with all of them, and discarded.

The kernel's maple tree (7.3) crashed when all of it, or a large part, was given away while
readers were still allowed for: at a close, and by a discard.
"""

from dcdlab import Box
from locklab import base

LOAD = "/lockstep/build/bin/mirror-load"
WRITES = 24_000

base.step(f"{WRITES} small ranges, closed and opened again")
box = Box(data_mib=512, log_mib=192, nvram_bytes=16 << 20)
with box.disk() as disk:
    assert box.store
    base.put(box.store.path / "control", "destage_low=98,destage_idle_ms=3600000")
    base.run(LOAD, "stream", disk.node, str(disk.sectors), "32", str(WRITES), str(base.SEED))
    live = box.count("live")
    base.equal(box.count("destaged_sectors"), 0, "nothing is destaged: all of it is in the index")
with box.disk() as disk:
    base.expect(box.count("live") >= live, f"all is there again: {box.info()}")
    assert box.store
    base.put(box.store.path / "control", "destage_low=98,destage_idle_ms=3600000")
    base.run("blkdiscard", disk.node)
    base.expect(box.count("discards") > 0, "discards came")
    for at in range(0, disk.sectors, disk.sectors // 50):
        base.equal(any(disk.read(at, 8)), False, f"sector {at} is zero")
box.away()
base.step("done")
