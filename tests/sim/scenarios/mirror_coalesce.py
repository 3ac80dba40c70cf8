# SPDX-License-Identifier: GPL-2.0-only
"""Batches: what waits for what, what is merged, what is absorbed; an idle wire waits for nobody.

The remote leg takes 50 ms for everything and one batch may be on the way: so when a write comes
back tells which batch it was in.
"""

import errno
import random
import time

from locklab import base, blk, dm, pair
from mirrorlab import SECTORS, Background, Pair, load
from waitlab import TIMEOUT_MS, Waiting, bios, slow_pair

WRITES = 400


def idle() -> None:
    base.step("an idle wire: what it takes without batches")
    took: dict[int, list[float]] = {}
    with pair.pair("iblock", "lan") as both:
        for limit in (1, 32):
            device = pair.mirrored(both, "nosync", "coalesce", limit)
            with blk.Disk(device.node) as disk:
                disk.write(0, bytes(4096))
                took[limit] = []
                # The clock's readings are rounded, so a write begins at any moment of its tick.
                rng = random.Random("idle")
                for number in range(WRITES):
                    data = blk.pattern(f"{number}", 1 + number % 16)
                    fua = number % 10 == 9
                    time.sleep(rng.random() / 1000)
                    one = blk.timed(lambda: disk.write(number * 24, data, fua=fua))  # noqa: B023
                    took[limit].append(round(one * 1e6))
            device.remove()
    worse = max(b - a for a, b in zip(took[1], took[32], strict=True))
    print(f"  mean {sum(took[1]) / WRITES:.2f} us without, {sum(took[32]) / WRITES:.2f} us with; "
          f"the worst difference {worse} us", flush=True)  # fmt: skip
    # One microsecond is the rounding of the two clocks' readings.
    base.expect(worse <= 1, f"a write took {worse} us longer with batches")
    # Their rounding may be to one side, by when the two began.
    differs = (sum(took[32]) - sum(took[1])) / WRITES
    base.expect(differs <= 0.5, f"a write takes {differs:.2f} us longer with batches (mean)")


def comes_back() -> None:
    base.step("sealed when the batch on the way comes back")
    w = Waiting(slow_pair())
    w.write("a", 0)
    for number in range(3):
        w.write(f"b{number}", 1000 + 100 * number)
    w.end()
    w.first("a")
    w.second("b0", "b1", "b2")
    base.equal([w.legs.count(f) for f in ("batches", "batched", "merged")], [1, 3, 0], "counters")
    w.close()


def full() -> None:
    base.step("sealed when it is full; a lower limit by message seals what is too large")
    w = Waiting(slow_pair("coalesce", 4))
    w.write("a", 0)
    for number in range(4):
        w.write(f"b{number}", 1000 + 100 * number)
    w.write("c", 3000)
    w.end()
    w.first("a", *(f"b{number}" for number in range(4)))
    w.second("c")
    base.equal(w.legs.count("batches"), 2, "batches")
    w.close()

    w = Waiting(slow_pair())
    w.write("a", 0)
    for number in range(3):
        w.write(f"b{number}", 1000 + 100 * number)
    w.legs.mirror.message("coalesce 2")
    w.end()
    w.first("a", "b0", "b1", "b2")
    w.legs.mirror.message("coalesce 1")
    w.close()

    legs = Pair("nosync")
    for word in ("0", "33", "-1", "many"):
        with base.refused(f"coalesce {word}", errno.EINVAL, kernel="number of writes"):
            legs.mirror.message(f"coalesce {word}")
    legs.close()


def flushed() -> None:
    for what in ("FUA write", "absorbed FUA write", "flush", "nothing: off"):
        base.step(f"sealed by: {what}")
        w = Waiting(slow_pair(*(("coalesce", 1) if "off" in what else ())))
        w.write("a", 0)
        w.write("b", 1000)
        w.write("c", 1008)
        if what == "FUA write":
            w.write("d", 1016, fua=True)
        elif what == "absorbed FUA write":
            w.write("d", 1000, fua=True)
        elif what == "flush":
            w.go("d", w.disk.flush)
        w.end()
        w.first("a", "b", "c", *(["d"] if "d" in w.took else []))
        # FUA isn't put upon neighbours that didn't ask for it.
        base.equal(w.legs.count("merged"), 0 if "off" in what or "abs" in what else 1, "merged")
        w.close()


def merged() -> None:
    base.step("adjacent writes, in any order of arrival, are one bio for each leg")
    w = Waiting(slow_pair())
    w.write("a", 0)
    base.until(lambda: bios(w.legs.local) == 1, "a on the local leg")
    before = [bios(leg) for leg in (w.legs.local, w.legs.remote)]
    for sector in (1040, 1008, 1024, 1000, 1016, 2000):
        w.write(f"at {sector}", sector)
    w.write("at 1032", 1032, 3)  # with a hole of 5 sectors after it
    w.end()
    counts = [w.legs.count(f) for f in ("batches", "batched", "merged", "absorbed")]
    base.equal(counts, [1, 7, 4, 0], "batches, batched, merged, absorbed")
    after = [bios(leg) for leg in (w.legs.local, w.legs.remote)]
    # The local leg had "a" before; the remote one was still busy with it.
    base.equal([b - a for a, b in zip(before, after, strict=True)], [3, 4], "bios")
    for sector in (1040, 1008, 1024, 1000, 1016, 2000):
        w.holds(sector, f"at {sector}")
    w.holds(1032, "at 1032", 3)
    w.close()

    base.step("no bio is larger than one largest write")
    w = Waiting(slow_pair())
    w.write("a", 0)
    for number in range(5):
        w.write(f"large {number}", 1000 + 100 * number, 100)
    w.end()
    base.equal(w.legs.count("merged"), 2, "merged: twice two of 13 pages each, and one alone")
    for number in range(5):
        w.holds(1000 + 100 * number, f"large {number}", 100)
    w.close()


def absorbed() -> None:
    base.step("what lies within a write that waits replaces its bytes; acknowledged together")
    w = Waiting(slow_pair())
    w.write("a", 0)
    w.write("b", 1000, 24)
    w.write("c", 1004, 9)
    w.write("d", 1005, 1)
    w.write("e", 1020, 8)  # sticks out: waits for the range
    w.write("f", 1000, 24)  # all of it: e hasn't been acknowledged, so it may overtake e
    w.write("g", 1003, 1)
    w.end()
    w.first("a")
    w.second("b", "c", "d", "f", "g")
    base.equal(w.legs.count("absorbed"), 4, "absorbed")
    base.equal(w.legs.count("saved"), (9 + 1 + 24 + 1) * 512, "bytes saved")
    base.equal(w.legs.count("waited"), 1, "waited for the range")
    base.equal(w.legs.count("writes"), 7, "writes")
    base.equal(w.disk.read(1000, 20), (blk.pattern("f", 24)[: 3 * 512] + blk.pattern("g", 1)
               + blk.pattern("f", 24)[4 * 512 : 20 * 512]), "f, with g in it")  # fmt: skip
    w.holds(1020, "e")
    w.close()


def other_kinds() -> None:
    base.step("a zeroing waits for the range of a write that waits, and isn't absorbed")
    w = Waiting(slow_pair(zeroes=True))
    w.write("a", 0)
    w.write("b", 1000)
    w.go("zero", lambda: w.disk.zero(1000, 8))
    w.end()
    w.second("b")
    base.equal(w.disk.read(1000, 8), bytes(4096), "zeroes")
    base.equal([w.legs.count(f) for f in ("zeroes", "absorbed")], [1, 0], "zeroings, absorbed")
    w.close()


def leg_dies(how: str) -> None:
    base.step(f"the remote leg {how} with a batch open")
    w = Waiting(slow_pair())
    if how == "hangs":
        w.legs.remote.well()
        w.legs.remote.hang()
    w.write("a", 0)
    for sector in (1000, 1008, 2000):
        w.write(f"at {sector}", sector)
    w.write("again", 1000)
    if how == "is failed by hand":
        w.legs.mirror.message("fail remote")
    elif how == "breaks":
        w.legs.remote.disk.bad(0, SECTORS - 1)
    w.end()
    most = TIMEOUT_MS / 1000 * 9 / 8 if how == "hangs" else 0.5
    base.expect(max(w.took.values()) < most, f"{w.took}")
    base.until(lambda: w.legs.mirror.status().remote == "D", "its death")
    for sector, name in ((0, "a"), (1000, "again"), (1008, "at 1008"), (2000, "at 2000")):
        w.holds(sector, name)
    w.write("later", 3000)
    w.write("later still", 3008)
    if how == "hangs":
        w.legs.remote.wake()
    if how == "breaks":
        w.legs.remote.disk.good(0, SECTORS - 1)
    w.legs.remote.well()
    w.legs.recovers()
    w.close()


def under_load(limit: int, pipeline: int) -> None:
    base.step(f"loads that overlap and that verify, coalesce {limit}, {pipeline} on the way")
    count = 300 if base.CHECKED else 3000
    legs = Pair("nosync", "coalesce", limit, "coalesce_pipeline", pipeline, latency_us=(50, 900),
                cache_mib=2)  # fmt: skip
    load("scribble", legs.mirror.node, count, span=512, depth=64)
    legs.same()
    _, _, _, bad_writes, bad_reads = load("verify", legs.mirror.node, count, span=2048, depth=64)
    base.equal((bad_writes, bad_reads), (0, 0), "failed writes, failed reads")
    said = {f: legs.count(f) for f in ("writes", "batches", "batched", "merged", "absorbed")}
    print(f"  {said}", flush=True)
    # A random load seldom has neighbours in one batch: merged() has them by arrangement.
    for field in ("batches", "absorbed"):
        base.expect(said[field], f"no {field}: nothing was tried")
    legs.same()
    legs.close()


def limit_changes() -> None:
    base.step("the limit changes under a load, and the table is exchanged")
    legs = Pair("nosync", "coalesce_pipeline", 1, latency_us=(20, 500))
    background = Background("verify", legs.mirror.node, span=SECTORS // 4, depth=64)
    for limit in (1, 32, 2, 8, 1, 32):
        legs.mirror.message(f"coalesce {limit}")
        before = legs.count("writes")
        base.until(lambda: legs.count("writes") > before + 100, "100 writes")  # noqa: B023
    dm.suspend("mirror")
    dm.resume("mirror")
    _, _, _, bad_writes, bad_reads = background.stop()
    base.equal((bad_writes, bad_reads), (0, 0), "failed writes, failed reads")
    legs.same()
    legs.close()


idle()
comes_back()
full()
flushed()
merged()
absorbed()
other_kinds()
leg_dies("hangs")
leg_dies("is failed by hand")
leg_dies("breaks")
under_load(32, 1)
under_load(8, 4)
under_load(2, 2)
limit_changes()
