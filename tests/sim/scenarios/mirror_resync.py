# SPDX-License-Identifier: GPL-2.0-only
"""Resync: full and partial, under load, interrupted in every way, and over a table reload."""

import errno
import random
import threading
import time

from locklab import base, blk, dm, mirror
from mirrorlab import SECTORS, Background, Pair

REGION = 64
REGIONS = SECTORS // REGION


def differ(pair: Pair) -> None:
    """The legs' contents, different everywhere, before the mirror knows."""
    with blk.Disk(pair.local.disk.node) as disk:
        disk.write(0, blk.pattern("local", 1024) * (SECTORS // 1024))


def written(pair: Pair, count: int) -> None:
    before = pair.count("writes")
    base.until(lambda: pair.count("writes") > before + count, f"{count} writes")


def first_sync() -> None:
    base.step("by default all is resynced from the local leg; status tells the way")
    pair = Pair("sync", "region_size", REGION, "resync_rate", 4096)
    differ(pair)
    pair.mirror.message("resync")
    status = pair.mirror.status()
    base.equal((status.health, status.action, status.regions), ("Aa", "resync", REGIONS), "status")
    base.until(lambda: pair.mirror.status().in_sync > REGIONS // 4, "a quarter")
    seconds = blk.timed(pair.mirror.in_sync)
    base.expect(base.REALTIME or seconds > 0.7, f"6 MiB at 4 MiB/s took {seconds:.3f} s")
    base.soon(seconds, 2, "6 MiB at 4 MiB/s")
    base.expect(pair.count("resynced") >= SECTORS, "too few sectors copied")
    pair.same()
    pair.close()


def under_load() -> None:
    base.step("resync under a load that verifies what it reads, in both directions")
    pair = Pair("nosync", "region_size", REGION, "resync_jobs", 4, latency_us=(30, 150))
    load = Background("verify", pair.mirror.node)
    for leg in ("remote", "local"):
        pair.mirror.message(f"fail {leg}")
        written(pair, 400)
        pair.mirror.message("recover")
        pair.mirror.in_sync()
        written(pair, 50)
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    pair.same()

    base.step("the same with overlapping, scribbled writes")
    load = Background("scribble", pair.mirror.node, span=4096)
    for _ in range(5):
        pair.mirror.message("fail remote")
        written(pair, 100)
        pair.mirror.message("recover")
        pair.mirror.in_sync()
    load.stop()
    pair.same()
    pair.close()


def interrupted() -> None:
    base.step("target dies in mid-resync, comes back; then suspended, resumed in mid-resync")
    pair = Pair("nosync", "region_size", REGION, "resync_rate", 2048, latency_us=(500, 1500))
    differ(pair)
    load = Background("verify", pair.mirror.node, depth=4)
    pair.mirror.message("resync")
    base.until(lambda: pair.mirror.status().in_sync > 20, "20 regions")
    pair.remote.gone()
    pair.mirror.wait("AD", "waiting")
    base.expect(pair.count("stale_remote") > REGIONS // 2, "what was not copied is stale still")
    pair.remote.well()
    pair.mirror.message("recover")
    base.equal(pair.mirror.status().action, "resync", "action")

    dm.suspend("mirror")
    status = pair.mirror.status()
    base.equal(status.action, "paused", "action")
    base.equal(pair.mirror.status().in_sync, status.in_sync, "regions in sync while suspended")
    dm.resume("mirror")
    dm.suspend("mirror", flush=False)
    dm.resume("mirror")
    base.equal(pair.mirror.status().action, "resync", "action")

    base.step("reload in mid-resync: it goes on where it was, nothing is forgotten")
    before = pair.mirror.status()
    dm.reload("mirror", mirror.table(pair.local.node, pair.remote.node,
              "nosync", "region_size", 128, "resync_rate", 2048))  # fmt: skip
    after = pair.mirror.status()
    base.equal(after.regions, SECTORS // 128, "regions of the new size")
    base.equal(after.health, "Aa", "health")
    stale_before = (before.regions - before.in_sync) * REGION
    stale_after = (after.regions - after.in_sync) * 128
    base.expect(stale_after >= stale_before - 4096, f"forgot: {stale_before} to {stale_after}")
    base.expect(stale_after < SECTORS, "started again")
    pair.mirror.in_sync()
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    pair.same()

    base.step("reload while a leg is dead: it stays dead")
    pair.mirror.message("fail remote")
    dm.reload("mirror", mirror.table(pair.local.node, pair.remote.node, "nosync"))
    base.equal(pair.mirror.status().health, "AD", "health")
    pair.mirror.message("recover")
    pair.mirror.in_sync()

    base.step("removed in mid-resync")
    dm.reload("mirror", mirror.table(pair.local.node, pair.remote.node, "sync",
              "resync_rate", 512, "resync_jobs", 8))  # fmt: skip
    pair.mirror.message("resync")
    base.until(lambda: pair.count("resynced"), "something copied")
    pair.close()


def missed_behind_the_resync() -> None:
    base.step(
        "a write misses the leg in a chunk that the resync has passed: the region isn't clean"
    )
    chunk, rate = 256, 256  # sectors, KiB/s: half a second between two chunks
    pair = Pair("nosync", "region_size", 4 * chunk, "resync_jobs", 1, "resync_rate", rate)
    pair.mirror.message("resync")
    base.until(lambda: pair.count("resynced") >= chunk, "the first chunk")
    pair.mirror.message("fail remote")
    with blk.Disk(pair.mirror.node) as disk:
        disk.write(0, blk.pattern("missed", 8))
    pair.mirror.message("recover")
    base.expect(pair.count("resynced") < 4 * chunk, "still within the region")
    base.until(lambda: pair.mirror.status().in_sync > 0, "a region")
    pair.mirror.message("resync_rate 0")
    pair.mirror.in_sync()
    pair.same()
    pair.close()


def grown() -> None:
    base.step("grown by a reload: only the new part is resynced")
    pair = Pair("nosync", "region_size", REGION, latency_us=(20, 50))
    half = SECTORS // 2
    words = ("region_size", REGION, "resync_pace", "full")
    legs = pair.local.node, pair.remote.node
    pair.mirror.remove()
    pair.mirror.node = dm.create("mirror", mirror.table(*legs, "nosync", *words, sectors=half))
    with blk.Disk(pair.local.disk.node) as disk:
        disk.write(half, blk.pattern("tail", 1024) * (half // 1024))
    load = Background("verify", pair.mirror.node, span=half)
    written(pair, 100)
    dm.reload("mirror", mirror.table(*legs, "sync", *words))
    pair.mirror.in_sync()
    base.equal(pair.count("resynced"), half, "sectors copied")
    load.stop()
    pair.same()
    pair.close()


def reloads_under_load() -> None:
    base.step("reloads, suspends and messages from several sides at once")
    pair = Pair("nosync", "region_size", REGION, latency_us=(10, 60))
    load = Background("verify", pair.mirror.node)
    stop = threading.Event()

    def nag() -> None:
        while not stop.is_set():
            for text in ("resync", "counters_reset"):
                try:
                    pair.mirror.message(text)
                except OSError as err:  # suspended, or the new table hasn't been started
                    base.equal(err.errno, errno.EBUSY, text)
            stop.wait(0.003)

    thread = threading.Thread(target=nag)
    thread.start()
    for turn in range(20):
        words = ("nosync", "region_size", REGION << turn % 3, "resync_jobs", 1 + turn % 5,
                 "resync_pace", "full")  # fmt: skip
        dm.reload("mirror", mirror.table(pair.local.node, pair.remote.node, *words))
        dm.suspend("mirror", flush=bool(turn % 2))
        dm.resume("mirror")
    stop.set()
    thread.join()
    pair.mirror.in_sync()
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    pair.same()
    pair.close()


def compared() -> None:
    base.step("resync_compare: only what differs is written, whichever way it is asked for")
    pair = Pair("nosync", "region_size", 1024, "resync_compare", "on", latency_us=(20, 50))
    load = Background("verify", pair.mirror.node, span=SECTORS // 2)
    written(pair, 200)
    with blk.Disk(pair.remote.disk.node) as disk:
        disk.write(SECTORS // 2 + 4100, blk.pattern("other", 24))
        disk.write(SECTORS - 1, blk.pattern("other", 1))
    pair.mirror.message("resync")
    pair.mirror.in_sync()
    base.equal(load.stop()[3:], (0, 0), "failed writes and reads")
    base.equal(pair.count("compared"), SECTORS, "sectors compared")
    copied = pair.count("resynced")
    # null_blk's physical block is 512 bytes; of a chunk all between the ends is copied
    base.equal(copied, 25, "sectors copied")
    base.equal(pair.count("equal"), SECTORS - copied, "equal sectors")
    pair.same()

    base.step("switched off and on; the target can't be read, which a write mends")
    pair.mirror.message("resync_compare off")
    pair.mirror.message("resync")
    pair.mirror.in_sync()
    base.equal(pair.count("compared"), SECTORS, "sectors compared")
    base.equal(pair.count("resynced") - copied, SECTORS, "sectors copied")
    with base.refused("a word that isn't one", kernel="neither off nor on"):
        pair.mirror.message("resync_compare maybe")
    with base.refused("a word that isn't one", kernel="neither full nor polite"):
        pair.mirror.message("resync_pace maybe")
    pair.mirror.message("resync_compare on")
    pair.mirror.message("resync_pace full")
    pair.remote.bad_reads(100, 103)
    pair.mirror.message("resync")
    pair.mirror.in_sync()
    pair.remote.well()
    pair.same()
    pair.close()


def hung(kind: str) -> None:
    base.step(f"the remote leg hangs below a chunk ({kind}): writes go on after remote_timeout")
    pair = Pair("nosync", "region_size", 4096, "remote_timeout", 2000, latency_us=(20, 50))
    differ(pair)
    dm.suspend(pair.remote.name, flush=False)
    pair.mirror.message(f"resync_compare {'on' if kind == 'compare' else 'off'}")
    pair.mirror.message("verify start" if kind == "verify" else "resync")
    base.until(lambda: pair.mirror.status().action != "idle", "it to begin")
    time.sleep(0.5)
    with blk.Disk(pair.mirror.node) as disk:
        # Half a second has gone, and the watch may be an eighth late.
        seconds = blk.timed(lambda: disk.write(0, blk.pattern("now", 256)))
        base.expect(base.REALTIME or seconds > 1, f"the write took {seconds:.3f} s")
        base.soon(seconds, 2.3, "the write")
    pair.mirror.wait("AD")
    with base.refused("recover while it hangs", errno.EBUSY):
        pair.mirror.message("recover")
    dm.suspend("mirror")
    dm.resume("mirror")
    dm.resume(pair.remote.name)
    base.until(lambda: recovers(pair), "it to come back")
    pair.mirror.in_sync()
    pair.mirror.message("resync")  # for what verify knows of
    pair.mirror.in_sync()
    pair.same()
    pair.close()


def recovers(pair: Pair) -> bool:
    try:
        pair.mirror.message("recover")
    except OSError:
        return False
    return True


def dirty_hour() -> None:
    base.step("an hour without the remote leg that dirties a hundredth: that is all that is copied")
    mib = 64
    pair = Pair("nosync", "region_size", 64, mib=mib, latency_us=(20, 50))
    rng = random.Random(base.SEED)
    pair.mirror.message("fail remote")
    with blk.Disk(pair.mirror.node) as disk:
        dirty = set(rng.sample(range((mib << 11) // 64), (mib << 11) // 64 // 100))
        for region in sorted(dirty) * 4:
            time.sleep(3600 / len(dirty) / 4)
            disk.write(region * 64 + rng.randrange(57), blk.pattern("hour", 8))
    base.equal(pair.count("stale_remote"), len(dirty), "stale regions")
    pair.mirror.message("recover")
    pair.mirror.in_sync()
    copied = pair.count("resynced")
    print(f"  {len(dirty)} regions of {64 * 512} bytes, {copied * 512} bytes copied", flush=True)
    base.expect(copied <= 1.1 * len(dirty) * 64, f"{copied} sectors copied")
    pair.same()
    pair.close()


first_sync()
under_load()
compared()
for chunk in ("resync", "compare", "verify"):
    hung(chunk)
dirty_hour()
interrupted()
missed_behind_the_resync()
grown()
reloads_under_load()
