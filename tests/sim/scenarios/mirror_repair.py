# SPDX-License-Identifier: GPL-2.0-only
"""Read repair: what is mended, what isn't and why, and when a leg is given up for it."""

import contextlib
import errno

from locklab import base, blk, dm
from mirrorlab import SECTORS, Background, Leg, Pair

PLACES = 20  # REPAIR_BAD_MAX
DATA = blk.pattern("repair", 1024) * (SECTORS // 1024)


def filled(*options: object) -> Pair:
    pair = Pair("nosync", "region_size", 64, *options, latency_us=(50, 200))
    with blk.Disk(pair.mirror.node) as disk:
        for sector in range(0, SECTORS, 2048):
            disk.write(sector, DATA[sector * 512 : (sector + 2048) * 512])
    return pair


def reads(pair: Pair, sector: int, count: int) -> None:
    with blk.Disk(pair.mirror.node, write=False) as disk:
        want = DATA[sector * 512 : (sector + count) * 512]
        base.expect(disk.read(sector, count) == want, f"wrong data at {sector}")


def becomes(pair: Pair, field: str, count: int) -> None:
    base.until(lambda: pair.count(field) >= count, f"{field} {count}")
    base.equal(pair.count(field), count, field)


def stays_bad(leg: Leg, *places: int) -> None:
    """Reads of 8 sectors at these places fail, and go on failing after good writes."""
    lines, at = [], 0
    for place in (*places, None):
        end = leg.disk.sectors if place is None else place
        if end > at:
            lines.append(f"{at} {end - at} linear {leg.disk.node} {at}")
        if place is not None:
            lines.append(f"{place} 8 flakey {leg.disk.node} {place} 0 3600 1 error_reads")
            at = place + 8
    leg.table("\n".join(lines))


def mended() -> None:
    base.step("a bad sector is mended by the first read of it; the next one finds it on its leg")
    pair = filled()
    pair.local.bad_reads(3001, 3003)
    reads(pair, 2900, 256)
    becomes(pair, "repaired", 1)
    base.equal(pair.count("failovers"), 1, "failovers")
    reads(pair, 2900, 256)
    base.equal(pair.count("failovers"), 1, "failovers after the repair")
    with blk.Disk(pair.local.node, write=False) as disk:
        base.expect(disk.read(3000, 8) == DATA[3000 * 512 : 3008 * 512], "what was written")

    base.step("the last sectors; a read of many bad places; nothing else is written")
    pair.local.bad_reads(SECTORS - 1, SECTORS - 1)
    reads(pair, SECTORS - 4, 4)
    becomes(pair, "repaired", 2)
    pair.local.bad_reads(0, 63)
    reads(pair, 0, 64)
    becomes(pair, "repaired", 10)
    base.equal((pair.mirror.status().health, pair.count("repairs_failed")), ("AA", 0), "status")
    pair.local.well()
    pair.same()
    pair.close()


def both() -> None:
    base.step("a bad sector of each leg in one read: it comes from both, and both are mended")
    pair = filled()
    pair.local.bad_reads(3001, 3003)
    pair.remote.bad_reads(3020, 3020)
    reads(pair, 2900, 256)
    becomes(pair, "repaired", 2)
    pair.same()
    pair.close()


def compared() -> None:
    base.step("verify doesn't call equal what can't be repaired, nor leaves out what is beside it")
    pair = filled()
    stays_bad(pair.local, 5000)
    with blk.Disk(pair.remote.disk.node) as disk:
        disk.write(5064, blk.pattern("rot", 8))
    pair.mirror.message("verify check")
    all_of_it = f"{SECTORS // 64}/{SECTORS // 64}"
    base.until(lambda: pair.word("verify") == all_of_it, "the end")
    base.equal(pair.count("differing"), 16, "sectors that differ or can't be read")
    pair.close()


def under_load() -> None:
    base.step("places go bad again and again beside a load that verifies what it reads")
    pair = filled()
    load = Background("verify", pair.mirror.node, span=2048)
    for turn in range(10):
        pair.local.bad_reads(turn * 128, turn * 128 + 40)
        before = pair.count("writes")
        base.until(lambda b=before: pair.count("writes") > b + 300, "some writes")  # type: ignore[misc]
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    base.expect(pair.count("repaired") > 0, "nothing was repaired")
    base.equal(pair.mirror.status().health, "AA", "health")
    pair.local.well()
    pair.same()
    pair.close()


def stays() -> None:
    base.step("a sector that stays bad: the leg stays, in sync; the place is tried once")
    pair = filled()
    stays_bad(pair.local, 800)
    reads(pair, 800, 8)
    becomes(pair, "repairs_failed", 1)
    for _ in range(5):
        reads(pair, 800, 8)
    becomes(pair, "repairs_dropped", 5)
    base.equal(pair.count("repairs_failed"), 1, "failed repairs")
    base.equal(pair.mirror.status().health, "AA", "health")
    base.equal(pair.count("stale_local"), 0, "stale regions")

    base.step(f"{PLACES} such places within the hour: the leg is given up")
    places = [800 + 64 * n for n in range(PLACES)]
    stays_bad(pair.local, *places)
    for n, place in enumerate(places[1:], 2):
        base.equal(pair.mirror.status().health, "AA", f"health before place {n}")
        reads(pair, place, 8)
        becomes(pair, "repairs_failed", n)
    pair.mirror.wait("DA")
    for place in places:
        reads(pair, place, 8)
    pair.local.well()
    pair.mirror.message("recover")
    pair.mirror.in_sync()
    pair.same()
    pair.close()


def broken() -> None:
    base.step("the repair's write fails: the leg is given up as by any write")
    pair = filled()
    pair.local.disk.bad(640, 640)
    reads(pair, 640, 8)
    pair.mirror.wait("DA")
    base.equal((pair.count("repairs_failed"), pair.count("repaired")), (1, 0), "repairs")
    reads(pair, 640, 8)
    pair.local.disk.good(640, 640)
    pair.mirror.message("recover")
    pair.mirror.in_sync()
    pair.same()

    base.step("the other leg can't stand in: the leg stays, stale data is never taken")
    pair.mirror.message("resync_rate 64")
    pair.mirror.message("resync")
    pair.local.bad_reads(SECTORS - 64, SECTORS - 57)
    with base.refused("a read that nobody can serve", errno.EIO):
        reads(pair, SECTORS - 64, 8)
    base.equal(pair.mirror.status().local, "A", "the source's health")
    base.equal(pair.count("repaired"), 0, "repaired from a stale copy")
    pair.local.well()
    pair.mirror.message("resync_rate 0")
    pair.mirror.in_sync()
    pair.same()
    pair.close()


def lies() -> None:
    base.step("what was written reads back as something else: the region isn't read from there")
    pair = filled()
    dm.create("bad", f"0 {pair.local.disk.sectors} dust {pair.local.disk.node} 0 512")
    dm.message("bad", "addbadblock 1600")
    dm.message("bad", "enable")
    size = pair.local.disk.sectors
    pair.local.table(f"0 1600 linear /dev/mapper/bad 0\n"
                     f"1600 8 flakey /dev/mapper/bad 1600 0 3600 5 corrupt_bio_byte 32 r 7 0\n"
                     f"1608 {size - 1608} linear /dev/mapper/bad 1608")  # fmt: skip
    pair.mirror.message("resync_rate 1")
    log = base.KernelLog()
    reads(pair, 1600, 8)
    becomes(pair, "repairs_failed", 1)
    base.expect(any("reads back something else" in line for line in log.new()), "the log")
    base.equal(pair.mirror.status().local, "a", "health of the leg that lies")
    reads(pair, 1600, 8)
    pair.local.well()
    dm.remove("bad")
    pair.mirror.message("resync_rate 0")
    pair.mirror.in_sync()
    pair.same()
    pair.close()


def in_between() -> None:
    base.step("suspended, reloaded, failed and removed while places are being repaired")
    pair = filled()
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(blk.Disk(pair.mirror.node, write=False))
        for turn in range(8):
            first = 256 * turn
            pair.local.bad_reads(first, first + 255)
            base.expect(disk.read(first, 256) == DATA[first * 512 : (first + 256) * 512], "data")
            if turn % 4 == 0:
                dm.suspend("mirror")
                dm.resume("mirror")
            elif turn % 4 == 1:
                dm.reload("mirror", pair.mirror.table)
            elif turn % 4 == 2:
                pair.mirror.message("fail remote")
                pair.local.well()
                pair.mirror.message("recover")
                pair.mirror.in_sync()
            else:
                pair.mirror.message("resync")
                pair.local.well()
                pair.mirror.in_sync()
    pair.local.well()
    pair.same()
    pair.local.bad_reads(0, 255)
    reads(pair, 0, 256)
    pair.close()


mended()
both()
compared()
under_load()
stays()
broken()
lies()
in_between()
