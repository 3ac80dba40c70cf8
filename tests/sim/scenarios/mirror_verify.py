# SPDX-License-Identifier: GPL-2.0-only
"""Verify: what it finds, beside a load, and what interrupts it."""

import time

from locklab import base, blk, dm, mirror
from mirrorlab import MIB, SECTORS, Background, Pair

REGION = 256
REGIONS = SECTORS // REGION


def progress(pair: Pair) -> int | None:
    """Regions compared, or None: there is no run."""
    word = pair.word("verify")
    return None if word == "-" else int(word.split("/")[0])


def ended(pair: Pair) -> None:
    base.until(lambda: progress(pair) == REGIONS, "the end of verify", 600)
    base.until(lambda: pair.mirror.status().action == "idle", "nothing to do")


def wait_repaired(pair: Pair, places: int) -> None:
    base.until(lambda: pair.count("repaired") == places, f"{places} repaired places")


def rot(node: str, sector: int, count: int) -> None:
    """Somebody, or the disk itself, changes what is there."""
    with blk.Disk(node) as disk:
        disk.write(sector, blk.pattern(f"rot {node} {sector}", count))


def equal_under_load() -> None:
    base.step("equal legs, beside a load: nothing is found, all is compared")
    pair = Pair("nosync", "region_size", REGION, latency_us=(50, 200))
    base.equal(pair.word("verify"), "-", "verify before the first run")
    for mode in ("verify", "scribble"):
        load = Background(mode, pair.mirror.node)
        before = pair.count("verified")
        pair.mirror.message("verify start")
        ended(pair)
        base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
        base.equal(pair.count("differing"), 0, "sectors that differ")
        base.equal(pair.count("verified") - before, SECTORS, "sectors compared")
    pair.same()
    pair.close()


def finds() -> None:
    base.step("what differs is counted to the sector, told with its place, and mended")
    pair = Pair("nosync", "region_size", REGION, latency_us=(50, 200))
    load = Background("verify", pair.mirror.node, span=SECTORS // 4)
    places = ((SECTORS // 2, 1), (SECTORS // 2 + 300, 8), (SECTORS - 3, 3))
    for sector, count in places:
        rot(pair.remote.disk.node, sector, count)
    with blk.Disk(pair.remote.disk.node, write=False) as disk:
        rotten = [disk.read(*place) for place in places]
    pair.mirror.message("verify check")
    ended(pair)
    base.equal(pair.count("differing"), 12, "sectors that differ, as a check counts them")
    told = (pair.mirror.status().health, pair.count("resynced"))
    base.equal(told, ("AA", 0), "health, and what was copied: a check mends nothing")
    with blk.Disk(pair.remote.disk.node, write=False) as disk:
        base.expect([disk.read(*place) for place in places] == rotten, "a check wrote to a leg")
    log = base.KernelLog()
    pair.mirror.message("verify start")
    ended(pair)
    lines = [line for line in log.new() if "verify: the legs differ in" in line]
    base.equal(len(lines), len(places), f"places in the log: {lines}")
    for (sector, count), line in zip(places, lines, strict=True):
        text = f"differ in {count} sectors from {sector} to {sector + count - 1}"
        base.expect(text in line, f"no {text!r} in {line!r}")
    base.equal(pair.count("differing"), 12, "sectors that differ")
    # A region is copied once more if another one was marked meanwhile.
    base.expect(pair.count("resynced") <= 6 * REGION, "more than the regions was copied")
    pair.mirror.in_sync()
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    pair.same()

    base.step("rot on the local leg: what is read counts, the legs become equal; then nothing more")
    rot(pair.local.disk.node, 1000, 2)
    with blk.Disk(pair.mirror.node) as disk:
        shown = disk.read(1000, 2)
        pair.mirror.message("verify start")
        ended(pair)
        base.equal(pair.count("differing"), 2, "sectors that differ")
        base.expect(disk.read(1000, 2) == shown, "what the mirror shows has changed")
    pair.same()
    pair.mirror.message("verify start")
    ended(pair)
    base.equal(pair.count("differing"), 0, "sectors that differ in the next run")
    pair.close()


def interrupted() -> None:
    base.step("interrupted by each thing in turn: it keeps its place, and finds what is behind it")
    pair = Pair("nosync", "region_size", REGION, latency_us=(50, 200))
    rot(pair.remote.disk.node, SECTORS - 8, 8)
    pair.mirror.message("resync_rate 2048")
    pair.mirror.message("verify start")
    with base.refused("a second start", kernel="runs already"):
        pair.mirror.message("verify start")
    with base.refused("a word that isn't one", kernel="none of start, check, stop"):
        pair.mirror.message("verify now")

    def some_more() -> int:
        before = progress(pair) or 0
        base.until(lambda: (progress(pair) or 0) > before + 2, "some more regions")
        base.equal(pair.mirror.status().action, "verify", "action")
        return progress(pair) or 0

    at = some_more()
    dm.suspend("mirror")
    base.equal(pair.mirror.status().action, "paused", "action")
    time.sleep(1)
    base.expect(at <= (progress(pair) or 0) <= at + 1, "the place while it is suspended")
    dm.resume("mirror")

    at = some_more()
    pair.mirror.message("fail remote")
    time.sleep(0.1)
    base.equal(pair.mirror.status().action, "waiting", "action with a dead leg")
    with blk.Disk(pair.mirror.node) as disk:
        disk.write(0, blk.pattern("missed", 8))
    base.expect((progress(pair) or 0) >= at, "it lost its place")
    pair.mirror.message("recover")
    pair.mirror.wait("AA")

    at = some_more()
    pair.mirror.message("resync")
    base.until(lambda: pair.mirror.status().action == "resync", "the resync goes first")
    base.expect((progress(pair) or 0) >= at, "it lost its place")
    pair.mirror.message("resync_rate 0")
    ended(pair)
    base.equal(pair.count("differing"), 0, "what the full resync had mended")
    pair.same()

    base.step("stopped, started again, ended by a reload, removed in the middle")
    pair.mirror.message("resync_rate 2048")
    pair.mirror.message("verify start")
    some_more()
    pair.mirror.message("verify stop")
    base.equal((progress(pair), pair.mirror.status().action), (None, "idle"), "stopped")
    pair.mirror.message("verify stop")
    pair.mirror.message("verify start")
    some_more()
    dm.reload("mirror", mirror.table(pair.local.node, pair.remote.node, "nosync", "region_size",
                                     REGION, "resync_rate", 2048))  # fmt: skip
    base.equal(progress(pair), None, "a run after a reload")
    pair.mirror.message("verify start")
    some_more()
    pair.close()


def unreadable() -> None:
    base.step("what can't be read from a leg is repaired, on either, and verify goes on")
    pair = Pair("nosync", "region_size", REGION, latency_us=(50, 200))
    with blk.Disk(pair.mirror.node) as disk:
        disk.write(0, blk.pattern("all", 1024) * (SECTORS // 1024))
    for repaired, leg in ((1, pair.remote), (2, pair.local)):
        leg.bad_reads(5000, 5002)
        pair.mirror.message("verify start")
        ended(pair)
        wait_repaired(pair, repaired)
        base.equal(pair.count("differing"), 0, "sectors that differ")
        base.equal(pair.mirror.status().health, "AA", "health")
        with blk.Disk(leg.node, write=False) as disk:
            disk.read(5000, 8)
        leg.well()
    pair.same()

    base.step("a leg that dies in the middle of it")
    load = Background("verify", pair.mirror.node, depth=4)
    pair.mirror.message("resync_rate 4096")
    pair.mirror.message("verify start")
    time.sleep(0.3)
    pair.remote.gone()
    pair.mirror.wait("AD")
    pair.remote.well()
    pair.mirror.message("recover")
    pair.mirror.message("resync_rate 0")
    ended(pair)
    base.equal(pair.count("differing"), 0, "sectors that differ")
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    pair.mirror.in_sync()
    pair.same()
    pair.close()


def pace() -> None:
    base.step("alone it reads as fast as the legs let it")
    pair = Pair("nosync", latency_us=(100, 1000))
    began = time.monotonic()
    pair.mirror.message("verify start")
    base.until(lambda: pair.word("verify") == f"{MIB}/{MIB}", "the end")
    seconds = time.monotonic() - began
    base.expect(seconds < 2, f"{MIB} MiB: {seconds:.3f} s")
    print(f"  {MIB} MiB in {seconds:.3f} s, legs of 0.1 and 1 ms", flush=True)
    pair.close()


equal_under_load()
finds()
interrupted()
unreadable()
pace()
