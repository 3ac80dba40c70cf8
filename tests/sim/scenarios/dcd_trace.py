# SPDX-License-Identifier: GPL-2.0-only
"""The DCD's tracepoints: each one is seen, in the order in which things happen."""

import errno
from pathlib import Path

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk, dm

TRACING = Path("/sys/kernel/tracing")
EVENTS = (
    "leave", "piece", "done", "entry", "commit", "batch", "destage", "round", "disk",
    "recovery", "cache", "ranges", "bad_sum", "scrub", "lost", "nvram_bad", "late",
    "log_late", "moved",
)  # fmt: skip


def seen(event: str, text: str = "") -> list[str]:
    lines = (TRACING / "trace").read_text().splitlines()
    return [line for line in lines if f" dcd_{event}: " in line and text in line]


def first(event: str, text: str) -> float:
    lines = seen(event, text)
    base.expect(lines, f"no event dcd_{event} with {text!r}")
    return float(lines[0].split(f" dcd_{event}: ")[0].split()[-1].rstrip(":"))


base.equal(
    sorted(p.name for p in (TRACING / "events/dcd").iterdir() if p.is_dir()),
    sorted(f"dcd_{name}" for name in EVENTS), "the tracepoints",
)  # fmt: skip
base.put(TRACING / "events/dcd/enable", "1")
box = Box(nvram="dram")
model = Model(box.data.sectors)

base.step("a write's way")
with box.disk() as disk:
    disk.write(800, blk.pattern("traced", 8))
    disk.flush()
    box.destaged()
    order = [
        first("entry", "800 + 8"), first("done", "write 800 + 8 error 0"),
        first("commit", "entries 1 bytes 12288 error 0"), first("done", "flush"),
        first("destage", "800 + 8 error 0"), first("batch", "loads 1 "),
        first("round", "error 0"),
    ]  # fmt: skip
    base.equal(order, sorted(order), "the order")
    disk.write(800, blk.pattern("traced", 8))
    disk.zero(808, 8)
    disk.read(800, 24)
    for piece in ("800+8 from nvram", "808+8 from zeroes", "816+8 from data"):
        first("piece", piece)
    disk.read(816, 8)
    first("piece", "816+8 from cache")
    disk.write(816, blk.pattern("over it", 8))
    disk.flush()
    box.destaged()
    first("cache", "816 of the data disk: stale")
    base.equal(len(seen("recovery", "next segment 1 ")), 1, "recovery of a fresh log")

    base.step("errors and their end")
    box.data.fail()
    disk.write(900, bytes(4096), fua=True)
    base.expect(seen("done", "write fua 900 + 8 error 0"), "FUA is told")
    box.says("data FAILING", "the data disk's failure")
    first("disk", "data disk error -5")
    first("destage", "900 + 8 error -5")
    first("round", "error -5")
    with base.refused("a read", errno.ENODATA):
        disk.read(4000, 8)
    first("piece", "4000+8 from data")
    first("done", "read 4000 + 8 error -61")
    box.log.fail_writes()
    disk.write(1000, bytes(4096))
    box.says("log FAILING", "the log's failure")
    first("commit", "error -5")
    first("disk", "log disk error -5")
    box.data.heal()
    box.log.heal()
    box.says("log ok, data ok", "both to work again")
    first("disk", "data disk error 0")
    first("disk", "log disk error 0")
    first("round", "past the log, error 0")
    filled(disk, model, 0, 64, "the end")

    base.step("a write that is late")
    box.data.fail_late(7000, (2000, 2007))
    filled(disk, model, 2000, 2008, "late", 8)
    disk.flush()
    base.until(lambda: seen("late", "2000 writes 1"), "the write to be late", 10)
    box.data.heal()
    box.destaged()
box.away()

base.step("a read of the log that is late")
box = Box(nvram="lab", settings="destage_idle_ms=3600000")
with box.disk() as disk:
    filled(disk, model, 0, 2048, "in the log")
    box.log.slow_reads(7000)
    box.set("destage_idle_ms=1")
    base.until(lambda: seen("log_late", "reads "), "a read to be late", 10)
    box.log.heal()
    box.destaged()
box.away()

base.step("a bad block of the log")
box = Box(nvram="none")
with box.disk() as disk:
    at = (RING_START + 5 * SEGMENT) // blk.SECTOR
    box.log.fail_part(at, at + 7)
    filled(disk, model, 0, 640, "round the ring")
    base.expect(len(seen("moved", f"block {at // 8} spare 0")) == 1, "it isn't moved")
box.away()

base.step("a media error")
box = Box(nvram="lab")
with box.disk() as disk:
    disk.write(800, blk.pattern("traced", 8))
    dm.message("nv", f"poison 0 {box.nvram_bytes // blk.SECTOR}")
    with base.refused("a read", errno.ENODATA):
        disk.read(800, 8)
    first("nvram_bad", "8 sectors at or behind byte ")
base.put(TRACING / "events/dcd/enable", "0")
box.away()
base.step("done")
