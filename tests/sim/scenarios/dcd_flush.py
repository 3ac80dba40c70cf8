# SPDX-License-Identifier: GPL-2.0-only
"""What a power cut may take, by kind of NVRAM: nothing, or with plain dram what wasn't flushed."""

import subprocess
import time
from pathlib import Path

from dcdlab import Box, Model, filled
from locklab import base, blk, dm
from locklab.scsi import ILLEGAL_REQUEST, Answer, Lun, write_scattered


def cache(node: str) -> str:
    """What the kernel believes of the LUN's cache, from its WCE bit."""
    return Path(f"/sys/block/{Path(node).name}/queue/write_cache").read_text().strip()


def wce() -> None:
    base.step("WCE is true for plain dram only")
    for nvram, want in (
        ("dram", "write back"), ("dram:battery", "write through"), ("lab", "write through")
    ):  # fmt: skip
        box = Box(nvram=nvram)
        with box.disk() as disk:
            base.equal(cache(disk.node), want, f"write cache with {nvram}")
        box.away()


def states(disk: blk.Disk, tags: dict[int, list[str]], what: str) -> list[int]:
    """For each place which of its writes is there, -1: none (zeroes)."""
    found = []
    for at, names in tags.items():
        data = disk.read(at, 8)
        choices = [bytes(4096), *(blk.pattern(name, 8) for name in names)]
        base.expect(data in choices, f"{what}: sector {at} has bytes that nobody wrote")
        found.append(choices.index(data) - 1)
    return found


def dram_cut() -> None:
    base.step("dram: a cut takes what wasn't flushed, nothing that was; FUA is durable by itself")
    box = Box(nvram="dram", nvram_bytes=4096 + 16 * 65536)
    places = range(0, 800, 8)
    with box.disk_until_cut() as disk:
        for at in places:
            disk.write(at, blk.pattern(f"old {at}", 8))
        disk.flush()
        base.expect(box.count("flushes") > 0, "the flush came to the DCD")
        for at in places:
            disk.write(at, blk.pattern(f"new {at}", 8), fua=at % 80 == 0)
    with box.disk() as disk:
        tags = {at: [f"old {at}", f"new {at}"] for at in places}
        found = states(disk, tags, "after the cut")
        base.expect(all(n >= 0 for n in found), f"flushed writes are lost: {found}")
        fua = [n for at, n in zip(places, found, strict=True) if at % 80 == 0]
        base.expect(all(n == 1 for n in fua), f"FUA writes are lost: {fua}")
        rest = sum(n == 0 for n in found)
        # The control: were nothing ever lost here, the flush above would prove nothing.
        base.expect(rest > 0, "not one unflushed write was lost: there was no cut")
        print(f"  {rest} of {len(found)} unflushed writes were lost", flush=True)
    box.away()


def discards_too() -> None:
    base.step("dram: flushed discards and zeroes stay as well")
    box = Box(nvram="dram")
    with box.disk_until_cut() as disk:
        disk.write(0, blk.pattern("there", 64))
        disk.flush()
        disk.discard(0, 16)
        disk.zero(32, 16)
        disk.flush()
    with box.disk() as disk:
        want = bytearray(blk.pattern("there", 64))
        want[: 16 * 512] = bytes(16 * 512)
        want[32 * 512 : 48 * 512] = bytes(16 * 512)
        base.expect(disk.read(0, 64) == want, "after the cut")
    box.away()


def nvram_cut() -> None:
    base.step("an NVRAM that keeps: a cut takes nothing, flushed or not")
    box = Box(nvram="lab")
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        filled(disk, model, 0, 512, "before")
        filled(disk, model, 100, 300, "not flushed")
        disk.zero(120, 40)
        model.put(120, bytes(40 * 512))
    with box.disk() as disk:
        model.check(disk, "after the cut")
        box.destaged()
        model.check(disk, "from the data disk")
    box.away()


def destaged_between() -> None:
    """The log lets go of a flushed write when its successor is in memory only: not before that
    is durable, too."""
    base.step("dram: a flushed write is there until what is written over it is durable")
    for successor in ("write", "discard"):
        box = Box(nvram="dram", nvram_bytes=4096 + 16 * 65536)
        with box.disk_until_cut() as disk:
            assert box.store
            base.put(box.store.path / "control", "destage_idle_ms=10")
            disk.write(0, blk.pattern("at home", 8))
            box.destaged()
            disk.write(0, blk.pattern("flushed", 8))
            disk.flush()
            if successor == "write":
                disk.write(0, blk.pattern("over it", 8))
            else:
                disk.discard(0, 8)
            # Simulated: the destager has been by (10 ms), the slot isn't sealed yet (100 ms).
            time.sleep(0.06)
        with box.disk() as disk:
            now = disk.read(0, 8)
            after = blk.pattern("over it", 8) if successor == "write" else bytes(4096)
            base.expect(now in (blk.pattern("flushed", 8), after),
                        f"neither the flushed write nor the {successor} over it")  # fmt: skip
        box.away()


def dead_between() -> None:
    """The same with a log that fails once, and is told at its first superblock that it works."""
    base.step("dram: what is over a flushed write when the log dies goes past it, too")
    box = Box(nvram="dram", nvram_bytes=4096 + 16 * 65536)
    with box.disk_until_cut() as disk:
        disk.write(0, blk.pattern("at home", 8))
        box.destaged()
        disk.write(0, blk.pattern("flushed", 8))
        disk.flush()
        box.data.slow(5)
        dm.suspend(box.log.name)
        disk.write(1000, blk.pattern("fills a slot, for the log", 112))
        disk.write(0, blk.pattern("over it, in the slot that is open", 8))
        knob = Path("/sys/module/dcd/parameters/test_no_blips")
        base.put(knob, 1)  # else nobody tells that the log fails before it has failed for a while
        box.log.fail_writes()
        began = time.monotonic()
        box.says("log FAILING", "the log's failure to be seen")
        box.log.heal()
        box.says("log ok", "the log to work again")
        base.expect(time.monotonic() - began < 0.09, "slower than the slot is sealed by itself")
        base.put(knob, 0)
    with box.disk() as disk:
        found = disk.read(0, 8)
        may = [blk.pattern(tag, 8) for tag in ("flushed", "over it, in the slot that is open")]
        base.expect(found in may, "neither the flushed write nor the one over it")
    box.away()


def sense(node: str) -> str:
    """What TEST UNIT READY is answered."""
    words = ["sg_raw", node, *["00"] * 6]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).lower()


def look_again(node: str, want: str) -> None:
    for how in ("changed", "good"):
        told = "mode parameters changed" in sense(node)
        base.equal(told, how == "changed", f"told that the cache is {want} now")
    base.put(Path(f"/sys/block/{Path(node).name}/device/rescan"), 1)
    base.equal(cache(node), want, "the cache after a rescan")


def battery() -> None:
    base.step("the battery fails: the initiators are told, and from then on flushes count")
    box = Box(nvram="dram:battery", nvram_bytes=4096 + 16 * 65536)
    model = Model(box.data.sectors)
    with box.disk_until_cut() as disk:
        assert box.store
        control = box.store.path / "control"
        base.put(control, "battery=0,destage_low=49")
        look_again(disk.node, "write back")
        base.put(control, "battery=1")
        look_again(disk.node, "write through")
        filled(disk, model, 0, 256, "while it works")
        base.put(control, "battery=1")
        base.expect("changed" not in sense(disk.node), "told of no change")
        begin = time.monotonic()
        base.put(control, "battery=0")
        base.until(lambda: " 0 in use" in box.info(), "all to be in the log, without a flush")
        took = time.monotonic() - begin
        base.expect(took < 0.05, f"that took {took:.3f} s: nobody did it at once")
        look_again(disk.node, "write back")
        filled(disk, model, 256, 512, "flushed")
        disk.flush()
        base.expect(box.count("flushes") > 0, "the flush came to the DCD")
        disk.write(512, blk.pattern("not flushed", 8))
    with box.disk() as disk:
        now = disk.read(512, 8)
        base.equal(now, bytes(4096), "what wasn't flushed (the control)")
        model.check(disk, "after the cut")
    box.away()


def scattered_fua(node: str) -> Answer:
    """Of one block, after what the LUN has to tell first."""
    cdb, head = write_scattered([(100, 1)], flags=0x08)
    with Lun(node) as lun:
        lun.command(bytes(6))
        return lun.command(cdb, head + blk.pattern("scattered", 1))


def not_looked() -> None:
    """Linux keeps what it knows of the cache until it is told to look again."""
    base.step("the battery works again: FUA of who hasn't looked since is no error")
    box = Box(nvram="dram:battery")
    with box.disk() as disk:
        refused = scattered_fua(disk.node)
        base.equal(refused.why, (ILLEGAL_REQUEST, 0x24, 0), "FUA where none was ever (the control)")
        box.set("battery=0")
        look_again(disk.node, "write back")
        disk.write(0, blk.pattern("volatile", 8), fua=True)
        base.equal(box.count("fua"), 1, "FUA came")
        box.set("battery=1")
        for n in range(3):
            disk.write(8 * n, blk.pattern(f"not volatile {n}", 8), fua=True)
        base.equal(box.count("fua"), 4, "and comes still")
        told = scattered_fua(disk.node)
        base.expect(told.good, f"WRITE SCATTERED with FUA: {told}")
        for n in range(3):
            base.expect(disk.read(8 * n, 8) == blk.pattern(f"not volatile {n}", 8), f"write {n}")
        base.equal(cache(disk.node), "write back", "what the kernel believes")
    box.away()


wce()
battery()
not_looked()
dram_cut()
destaged_between()
dead_between()
discards_too()
nvram_cut()
base.step("done")
