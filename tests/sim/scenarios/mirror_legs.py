# SPDX-License-Identifier: GPL-2.0-only
"""Every way a leg can fail: what the application is told, what status tells, and the way back."""

import errno
import threading
import time
from collections.abc import Callable

from locklab import base, blk, dm
from mirrorlab import Background, Pair

REGION = 64


def written(pair: Pair, count: int) -> None:
    before = pair.count("writes")
    base.until(lambda: pair.count("writes") > before + count, f"{count} writes")


def fails(what: str, work: Callable[[], object]) -> None:
    try:
        work()
    except OSError as err:
        base.equal(err.errno, errno.EIO, what)
    else:
        raise base.Wrong(f"{what}: succeeded")


def lock_step() -> None:
    base.step("a write, a flush or a FUA write is acknowledged when the slower leg has it")
    pair = Pair("nosync", cache_mib=2)
    with blk.Disk(pair.mirror.node) as disk:
        for leg in (pair.local, pair.remote):
            leg.slow(30)
            for what, work in (
                ("write", lambda: disk.write(0, bytes(4096))),
                ("FUA write", lambda: disk.write(0, bytes(4096), fua=True)),
                ("flush", disk.flush),
            ):
                seconds = blk.timed(work)
                base.expect(seconds >= 0.03, f"{what} with a slow {leg.name}: took {seconds:.6f} s")
            leg.well()
    pair.close()


def large() -> None:
    base.step("large and odd I/O, in one piece for the application, healthy and degraded")
    pair = Pair("nosync", "region_size", REGION)
    data = blk.pattern("large", 3001)
    with blk.Disk(pair.mirror.node) as disk:
        for start in (0, 7, 4099):
            disk.write(start, data)
            base.equal(disk.read(start, 3001), data, f"3001 sectors at {start}")
        pair.mirror.message("fail remote")
        disk.write(8001, data)
        touched = (8001 + 3000) // REGION - 8001 // REGION + 1
        base.equal(pair.count("stale_remote"), touched, "stale")
        pair.mirror.message("recover")
        base.equal(disk.read(8001, 3001), data, "3001 sectors while they are resynced")
        pair.mirror.in_sync()
    pair.same()
    pair.close()


def remote_dies(policy: str) -> None:
    base.step(f"policy {policy}: remote writes fail")
    pair = Pair("nosync", "region_size", REGION, "policy", policy)
    events = dm.event("mirror")
    with blk.Disk(pair.mirror.node) as disk:
        disk.write(0, blk.pattern("before", 8))
        pair.remote.gone()
        new = blk.pattern("after", 8)
        if policy == "error":
            fails("a write that only one leg took", lambda: disk.write(1000, new))
            fails("the next one", lambda: disk.write(1000, new))
        else:
            disk.write(1000, new)
            base.equal(disk.read(1000, 8), new, "what was acknowledged")
        pair.mirror.wait("AD", "waiting")
        base.expect(dm.wait("mirror", events) > events, "no event")
        base.equal(pair.count("stale_remote"), 1, "stale regions")
        base.equal(pair.mirror.status().remote_errors, 1, "remote errors")
        base.equal(pair.mirror.status().local_errors, 0, "local errors")
        if policy == "degrade":
            disk.write(5000, new)
            disk.flush()
            base.equal(pair.count("stale_remote"), 2, "stale regions")

        with base.refused(
            "recover while the leg is still gone", errno.EIO, kernel="doesn't answer"
        ):
            pair.mirror.message("recover")
        base.equal(pair.mirror.status().health, "AD", "health")
        with base.refused("failing the last leg", errno.EBUSY, kernel="can't fail the local leg"):
            pair.mirror.message("fail local")
        pair.remote.well()
        stale = pair.count("stale_remote")
        pair.mirror.message("recover remote")
        pair.mirror.in_sync()
        base.equal(pair.count("resynced"), stale * REGION, "sectors copied: only what was stale")
        disk.write(1000, new)
    pair.same()
    pair.close()


def local_dies() -> None:
    base.step("local writes fail: the remote leg serves")
    pair = Pair("nosync", "region_size", REGION)
    with blk.Disk(pair.mirror.node) as disk:
        old, new = blk.pattern("old", 16), blk.pattern("new", 16)
        disk.write(0, old)
        pair.local.gone()
        disk.write(200, new)
        pair.mirror.wait("DA", "waiting")
        base.equal(disk.read(0, 16), old, "read from the remote leg")
        base.equal(disk.read(200, 16), new, "read from the remote leg")
        disk.flush()
        base.equal(pair.count("stale_local"), 1, "stale regions")

        base.step("then the remote leg fails too: errors, at once, and no leg is thrown away")
        pair.remote.gone()
        fails("write", lambda: disk.write(300, new))
        fails("read", lambda: disk.read(300, 16))
        base.equal(pair.mirror.status().health, "DA", "health")
        pair.remote.well()
        base.equal(disk.read(200, 16), new, "read, remote leg back")
        disk.write(300, new)

        base.step("local leg back: resync runs from remote to local")
        pair.local.well()
        pair.mirror.message("recover")
        pair.mirror.in_sync()
        base.equal(disk.read(200, 16), new, "read from the local leg")
        base.equal(disk.read(300, 16), new, "read from the local leg")
    pair.same()
    pair.close()


def local_cache_is_lost() -> None:
    base.step("a dead local leg with a volatile cache is believed where nothing is unflushed")
    pair = Pair("nosync", "region_size", REGION, cache_mib=4)
    with blk.Disk(pair.mirror.node) as disk:
        disk.write(0, blk.pattern("cached", 8))
        pair.mirror.message("fail local")
        base.equal(pair.count("stale_local"), 1, "stale regions")
        pair.mirror.message("recover")
        pair.mirror.in_sync()
        time.sleep(61)
        base.until(lambda: pair.count("dirty") == 0, "the map to be clean")
        pair.mirror.message("fail local")
        base.equal(pair.count("stale_local"), 0, "stale regions, all flushed long ago")
        pair.mirror.message("recover")
        pair.mirror.in_sync()
    pair.close()


def read_errors() -> None:
    base.step("read error of the local leg: the remote leg's data, and the leg stays")
    pair = Pair("nosync", "region_size", REGION)
    with blk.Disk(pair.mirror.node) as disk:
        data = blk.pattern("data", 64)
        disk.write(64, data)
        pair.local.bad_reads(70, 72)
        base.equal(disk.read(64, 64), data, "read over bad sectors")
        base.equal(pair.count("failovers"), 1, "failovers")
        # the caller's, and the repair's own of the two physical blocks
        base.until(lambda: pair.count("repaired") == 2, "the repair")
        base.equal(pair.count("read_errors_local"), 3, "read errors")
        base.equal(pair.mirror.status().health, "AA", "health")

        base.step("a stale region is never read: EIO instead of old data")
        pair.mirror.message("fail remote")
        disk.write(64, blk.pattern("newer", 64))  # this mends dust's bad sectors
        pair.local.bad_reads(70, 70)
        fails("read whose only good leg fails", lambda: disk.read(64, 64))
        base.equal(disk.read(80, 8), blk.pattern("newer", 64)[16 * 512 : 24 * 512], "other sectors")

        base.step("an unreadable source: resync does the rest and says stalled")
        disk.write(1000, data)
        log = base.KernelLog()
        pair.mirror.message("recover")
        status = pair.mirror.wait("Aa", "stalled")
        base.equal(status.regions - status.in_sync, 1, "regions left")
        pair.mirror.message("recover")
        pair.mirror.wait("Aa", "stalled")
        said = [line for line in log.new() if ": resync: local leg " in line]
        base.equal(len(said), 1, f"lines of the log about the region: {said}")
        first, last = said[0].partition("sectors ")[2].split()[:3:2]
        base.expect(64 <= int(first) <= 70 <= int(last) <= 127, f"the place: {said}")
        with base.refused("failing the leg that alone has a region", errno.EBUSY):
            pair.mirror.message("fail local")

        base.step("the sole holder of a region fails a write elsewhere: EIO, and it stays")
        pair.local.disk.bad(64, 127)  # or the resync, woken by the next mark, would copy it now
        pair.local.fail_writes()
        fails("write that only the target has", lambda: disk.write(3008, data))
        base.equal(pair.mirror.status().health, "Aa", "health")
        base.equal(pair.count("stale_local"), 0, "stale on the local leg")
        base.expect(pair.count("stale_remote") >= 1, "nothing stale on the remote leg")
        fails("write to the region only the local leg has", lambda: disk.write(64, data))

        pair.local.well()
        pair.local.disk.good(64, 127)
        pair.mirror.message("resync")
        pair.mirror.in_sync()
    pair.same()
    pair.close()


def over_a_border() -> None:
    base.step("a read of regions that one leg has, and of its bad sector between them")
    pair = Pair("nosync", "region_size", REGION, "resync_rate", 1, "resync_least", 0)
    with blk.Disk(pair.mirror.node) as disk:
        disk.write(REGION, data := blk.pattern("data", 2 * REGION))
        pair.mirror.message("fail remote")
        disk.write(REGION, newer := blk.pattern("newer", REGION))
        disk.write(3 * REGION, newer)
        pair.local.bad_reads(2 * REGION + 3, 2 * REGION + 3)
        pair.mirror.message("recover")
        base.equal(pair.mirror.status().health, "Aa", "health")
        all_three = newer + data[REGION * blk.SECTOR :] + newer
        base.equal(disk.read(REGION, 3 * REGION), all_three, "read over the borders")
        base.until(lambda: pair.count("repaired") == 1, "the repair")
        pair.mirror.message("resync_rate 0")
        pair.mirror.in_sync()
    pair.same()
    pair.close()


def bad_places_of_each() -> None:
    base.step("a read of a bad sector of one leg, and in its last block the other one's")
    pair = Pair("nosync", "region_size", REGION)
    with blk.Disk(pair.mirror.node) as disk:
        disk.write(0, data := blk.pattern("data", 72))
        pair.local.bad_reads(0, 0)
        pair.remote.bad_reads(64, 64)
        base.equal(disk.read(0, 72), data, "read of what neither leg has whole")
    pair.close()


def both_fail_one_write() -> None:
    base.step("a write fails on both legs: EIO, no leg given up, and the resync makes them alike")
    pair = Pair("nosync", "region_size", REGION)
    pair.remote.slow(2)
    with blk.Disk(pair.mirror.node) as disk:
        pair.local.disk.bad(512, 519)
        pair.remote.disk.bad(512, 519)
        fails("write", lambda: disk.write(512, blk.pattern("x", 8)))
        base.equal(pair.mirror.status().health, "Aa", "health")
        pair.local.disk.good(512, 519)
        pair.remote.disk.good(512, 519)
        pair.mirror.message("resync")
        pair.mirror.in_sync()
    pair.same()
    pair.close()


def in_flight() -> None:
    base.step("the remote leg is failed with writes in flight, and is back when they are")
    pair = Pair("nosync", "region_size", REGION)
    pair.remote.slow(50)
    disk = blk.Disk(pair.mirror.node)
    data = blk.pattern("slow", 8)
    threads = [threading.Thread(target=disk.write, args=(n * 128, data)) for n in range(8)]
    for thread in threads:
        thread.start()
    base.until(lambda: pair.count("writes") == 8, "8 writes under way")
    pair.mirror.message("fail remote")
    pair.mirror.message("recover")
    for thread in threads:
        thread.join()
    pair.mirror.in_sync()
    disk.close()
    pair.remote.well()
    pair.same()
    pair.close()


def late_error() -> None:
    base.step("a late error of a write sent before the leg was failed: counted, but no new death")
    pair = Pair("nosync", "region_size", REGION)
    pair.remote.slow(500)
    pair.remote.disk.bad(512, 519)
    log = base.KernelLog()
    disk = blk.Disk(pair.mirror.node)
    thread = threading.Thread(target=disk.write, args=(512, blk.pattern("late", 8)))
    thread.start()
    base.until(lambda: pair.count("writes") == 1, "the write under way")
    time.sleep(0.1)  # What the leg's sender still has when the leg is failed is never sent.
    pair.mirror.message("fail remote")
    thread.join()
    base.equal(pair.count("late"), 0, "late errors")
    base.until(lambda: pair.mirror.status().remote_errors, "the late error")
    base.equal(pair.count("late"), 1, "late errors")
    pair.remote.disk.good(512, 519)
    pair.mirror.message("recover")
    pair.mirror.in_sync()
    base.equal(sum("is dead" in line for line in log.new()), 1, "deaths of the remote leg")
    disk.close()
    pair.remote.well()
    pair.same()
    pair.close()


def flush_fails() -> None:
    base.step("a flush fails on the remote leg only: it is given up, the flush is done")
    pair = Pair("nosync", "region_size", REGION, cache_mib=2)
    with blk.Disk(pair.mirror.node) as disk:
        pair.remote.fail_writes()
        disk.flush()
        pair.mirror.wait("AD")
        pair.remote.well()
        pair.mirror.message("recover")
        pair.mirror.in_sync()
    pair.close()


def under_load() -> None:
    base.step("legs die and come back under a load that verifies what it reads")
    pair = Pair("nosync", "region_size", REGION, latency_us=(20, 200))
    load = Background("verify", pair.mirror.node)
    for leg, other in ((pair.remote, "AD"), (pair.local, "DA"), (pair.remote, "AD")):
        written(pair, 300)
        leg.gone()
        pair.mirror.wait(other)
        written(pair, 300)
        leg.well()
        pair.mirror.message("recover")
        pair.mirror.in_sync()
    _, _, _, bad_writes, bad_reads = load.stop()
    base.equal((bad_writes, bad_reads), (0, 0), "failed writes, failed reads")
    pair.same()
    pair.close()


lock_step()
large()
remote_dies("degrade")
remote_dies("error")
local_dies()
local_cache_is_lost()
read_errors()
over_a_border()
bad_places_of_each()
both_fail_one_write()
in_flight()
late_error()
flush_fails()
under_load()
