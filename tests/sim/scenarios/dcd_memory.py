# SPDX-License-Identifier: GPL-2.0-only
"""What was committed to the log stays readable in memory until its slot is used again."""

import errno

from dcdlab import SEGMENT, Box, Model, filled
from locklab import base, blk

SLOTS = 8
SIZE = 112  # sectors of a write that fills a segment


def committed(box: Box) -> None:
    base.until(lambda: " 0 in use" in box.info(), "all to be in the log")


def recent(nvram: str) -> None:
    base.step(f"{nvram}: the newest segments are read from memory, older ones from the log")
    box = Box(nvram=nvram, nvram_bytes=4096 + SLOTS * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        box.data.fail_writes()  # so that all stays in the log
        filled(disk, model, 0, 20 * SIZE, "twenty segments", SIZE)
        committed(box)
        before = box.count("memory_reads")
        box.log.fail()
        base.expect(
            disk.read(17 * SIZE, 3 * SIZE) == model.bytes[17 * SIZE * 512 : 20 * SIZE * 512],
            "three segments with the log unreadable",
        )
        base.expect(box.count("memory_reads") >= before + 3, "they are counted")
        # The control: the log is unreadable indeed, and what it alone has shows it.
        with base.refused("an older segment", errno.ENODATA):
            disk.read(2 * SIZE, 8)
        box.log.heal()
        model.check(disk, "from memory and from the log")
        box.data.heal()
        box.says("data ok", "the data disk to work")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def overwritten() -> None:
    base.step("slots go round under reads: none shows another segment's bytes")
    box = Box(nvram="lab", nvram_bytes=4096 + 4 * SEGMENT)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        for n in range(60):
            at = n * 37 % 20 * SIZE
            data = blk.pattern(f"round {n}", SIZE)
            disk.write(at, data)
            model.put(at, data)
            for back in (0, 1, 2, 5):
                at = max(n - back, 0) * 37 % 20 * SIZE
                want = model.bytes[at * 512 : (at + SIZE) * 512]
                base.expect(disk.read(at, SIZE) == want, f"write {n}, {back} before it")
        base.expect(box.count("memory_reads") >= 60, "the newest write, each time")
        model.check(disk, "all")
    box.away()


recent("dram:battery")
recent("lab")
overwritten()
base.step("done")
