# SPDX-License-Identifier: GPL-2.0-only
"""Hot blocks: writes that wait for the range of one on the way are absorbed by the first of them.
So however many there are take two round trips; and nobody else pays for it.

The remote leg takes 50 ms for everything, and nothing waits for a batch: writes that don't overlap
go out at once.
"""

import errno
import os
import time
from pathlib import Path

from locklab import base, blk, dm
from mirrorlab import SECTORS, Leg, Pair, load
from waitlab import TIMEOUT_MS, Waiting, slow_pair

HOT = 1000
MANY = 20
PIPELINE = 64
TRACING = Path("/sys/kernel/tracing")


def hot_pair(*options: object, zeroes: bool = False, cache_mib: int = 0) -> Pair:
    return slow_pair(*options, pipeline=PIPELINE, zeroes=zeroes, cache_mib=cache_mib)


def counted(w: Waiting, *fields: str) -> list[int]:
    return [w.legs.count(field) for field in fields]


def names_of(number: int) -> list[str]:
    return [f"w{one}" for one in range(number)]


def many() -> None:
    base.step(f"{MANY} writes of one block behind one that is on the way: two round trips")
    w = Waiting(hot_pair())
    w.write("a", HOT)
    for name in names_of(MANY):
        w.write(name, HOT)
    w.write("beside", HOT + 8)
    w.end()
    w.first("a", "beside")
    w.second(*names_of(MANY))
    base.equal(counted(w, "waited", "absorbed", "absorbed_waiting", "saved"),
               [1, MANY - 1, MANY - 1, (MANY - 1) * 4096], "counters")  # fmt: skip
    w.holds(HOT, f"w{MANY - 1}")  # in the order of arrival: the last one
    w.holds(HOT + 8, "beside")
    w.close()


def parts() -> None:
    base.step("what lies within the one that waits, in order of arrival; the rest waits for itself")
    w = Waiting(hot_pair())
    w.write("a", HOT, 8)
    w.write("wide", HOT, 24)
    w.write("in", HOT + 8, 9)
    w.write("inner", HOT + 9, 1)
    w.write("out", HOT + 20, 8)  # sticks out: waits for wide
    w.write("end", HOT + 22, 6)  # within out, not within wide
    w.write("both", HOT + 21, 2)  # within either: the one that is granted first
    w.write("first", HOT, 1)
    w.write("wider", HOT - 8, 64)  # around all: waits for all
    w.write("late", HOT + 40, 1)  # within that one only
    w.end()
    w.first("a")
    w.second("wide", "in", "inner", "first", "both")
    w.trips(3, "out", "end")
    w.trips(4, "wider", "late")
    base.equal(counted(w, "waited", "absorbed_waiting"), [3, 6], "waited, absorbed")
    wider = blk.pattern("wider", 64)
    base.equal(w.disk.read(HOT - 8, 64), wider[: 48 * 512] + blk.pattern("late", 1)
               + wider[49 * 512 :], "wider, with late in it")  # fmt: skip
    w.close()

    base.step("the same without the one around them: each byte is the last writer's")
    w = Waiting(hot_pair())
    w.write("a", HOT, 8)
    w.write("wide", HOT, 24)
    w.write("in", HOT + 8, 9)
    w.write("inner", HOT + 9, 1)
    w.write("first", HOT, 1)
    w.write("again", HOT + 9, 1)
    w.end()
    wide = blk.pattern("wide", 24)
    within = blk.pattern("in", 9)
    base.equal(w.disk.read(HOT, 24),
               blk.pattern("first", 1) + wide[512 : 8 * 512] + within[:512]
               + blk.pattern("again", 1) + within[2 * 512 :] + wide[17 * 512 :],
               "wide, and what it has absorbed")  # fmt: skip
    w.second("wide", "in", "inner", "first", "again")
    w.close()


def nobody_starves() -> None:
    base.step("who overlaps a part of a hot block has his turn, however many writes follow")
    w = Waiting(hot_pair(zeroes=True))
    w.write("a", HOT)
    w.write("b", HOT)
    w.write("part", HOT + 4, 8)
    w.write("c", HOT)  # b's, and before part
    w.go("zero", lambda: w.disk.zero(HOT, 16))
    for name in names_of(4):
        w.write(name, HOT)
    base.until(lambda: "b" in w.took, "b")
    for number in range(4, 8):  # b is on the way no more: behind part and zero
        w.write(f"w{number}", HOT)
    w.end()
    w.second("b", "c", *names_of(4))
    w.trips(3, "part")
    base.expect(w.took["zero"] < min(w.took[f"w{number}"] for number in range(4, 8)),
                f"the zeroing was overtaken by what came after b: {w.took}")  # fmt: skip
    w.holds(HOT, "w7")
    base.equal(w.disk.read(HOT + 8, 8), bytes(4096), "zeroes")
    w.close()


def held_absorbs_nothing() -> None:
    base.step("a write that is on its way absorbs nothing, nor does a zeroing that waits")
    w = Waiting(hot_pair(zeroes=True))
    w.write("a", HOT)
    w.go("zero", lambda: w.disk.zero(HOT, 8))
    w.write("b", HOT)
    w.end()
    w.first("a")
    base.expect(w.took["b"] > w.took["zero"], f"{w.took}")
    base.equal(counted(w, "waited", "absorbed"), [2, 0], "waited, absorbed")
    w.holds(HOT, "b")
    w.close()


def off() -> None:
    base.step("coalesce 1: each goes by itself; set while they wait, for those that come later")
    w = Waiting(hot_pair("coalesce", 1))
    for name in names_of(4):
        w.write(name, HOT)
    w.end()
    for number, name in enumerate(names_of(4), 1):
        w.trips(number, name)
    base.equal(counted(w, "waited", "absorbed"), [3, 0], "waited, absorbed")
    w.close()

    w = Waiting(hot_pair())
    for name in names_of(3):
        w.write(name, HOT)
    w.legs.mirror.message("coalesce 1")
    w.write("w3", HOT)
    w.end()
    w.trips(2, "w1", "w2")
    w.trips(3, "w3")
    base.equal(counted(w, "waited", "absorbed"), [2, 1], "waited, absorbed")
    w.close()


def queued(leg: Leg) -> list[tuple[str, int]]:
    """Flags and sector of all that was sent to the leg since it is traced."""
    number = os.stat(leg.node).st_rdev
    mark = f" block_bio_queue: {os.major(number)},{os.minor(number)} "
    lines = (TRACING / "trace").read_text().splitlines()
    words = [line.split(mark)[1].split() for line in lines if mark in line]
    return [(flags, int(sector)) for flags, sector, *_ in words]


def flags() -> None:
    base.step("the write that absorbs one with FUA has FUA on both legs; what is traced")
    w = Waiting(hot_pair(cache_mib=2))
    w.write("a", HOT)
    w.write("b", HOT)
    base.until(lambda: w.legs.count("waited") == 1, "b waits")
    events = [TRACING / "events" / event / "enable"
              for event in ("block/block_bio_queue", "lockstep/lockstep_absorbed")]  # fmt: skip
    for event in events:
        base.put(event, 1)
    w.write("c", HOT + 1, 1, fua=True)
    w.write("d", HOT + 1, 1)
    w.end()
    for event in events:
        base.put(event, 0)
    w.second("b", "d")
    w.trips(3, "c")  # the kernel flushes after it, which is another one
    base.equal(counted(w, "fua", "absorbed", "flushes"), [1, 2, 1], "FUA, absorbed, flushes")
    for leg in (w.legs.local, w.legs.remote):
        base.equal([sector for flags, sector in queued(leg) if flags.startswith("WF")], [HOT],
                   f"sectors written with FUA on {leg.name}")  # fmt: skip
    told = f"{HOT + 1} + 1 by that at {HOT}, which waits for its range"
    base.equal((TRACING / "trace").read_text().count(told), 2, told)
    w.holds(HOT + 1, "d", 1)
    w.close()


def into_a_batch() -> None:
    base.step("one that has absorbed joins a batch, absorbs there, and goes with it")
    w = Waiting(slow_pair())
    w.write("a", HOT)
    w.write("b", HOT, 24)
    w.write("c", HOT + 1, 1)
    w.write("d", HOT + 2, 1)
    base.until(lambda: "a" in w.took, "a")  # b is on the way, alone
    w.write("e", HOT)
    w.write("f", 3000, 16)  # in the open batch
    w.write("g", HOT + 1, 1)  # waits in e
    w.write("h", 3001, 1)  # in f
    base.until(lambda: "b" in w.took, "b")  # f's batch is on the way, e in the open one
    w.write("i", HOT + 2, 1)
    w.end()
    w.second("b", "c", "d")
    w.trips(3, "f", "h")
    w.trips(4, "e", "g", "i")
    base.equal(counted(w, "absorbed", "absorbed_waiting"), [5, 3], "absorbed, by one that waited")
    e, g, i = blk.pattern("e", 8), blk.pattern("g", 1), blk.pattern("i", 1)
    base.equal(w.disk.read(HOT, 8), e[:512] + g + i + e[1536:], "e, with g and i in it")
    f, h = blk.pattern("f", 16), blk.pattern("h", 1)
    base.equal(w.disk.read(3000, 16), f[:512] + h + f[1024:], "f, with h in it")
    w.close()


def refused(w: Waiting, name: str, sector: int = HOT, count: int = 8) -> None:
    """Under way; to fail."""
    data = blk.pattern(name, count)

    def fails() -> None:
        try:
            w.disk.write(sector, data)
        except OSError as err:
            base.equal(err.errno, errno.EIO, f"{name}: errno")
        else:
            raise base.Wrong(f"{name} was acknowledged")

    w.go(name, fails)


def errors() -> None:
    base.step("all that was absorbed fails with the write that it is part of, and only that")
    w = Waiting(hot_pair())
    w.write("a", HOT)
    base.until(lambda: w.disk.read(HOT, 8) == blk.pattern("a", 8), "a on the local leg")
    for leg in (w.legs.local, w.legs.remote):
        leg.disk.bad(HOT + 8, HOT + 8)
    refused(w, "b", HOT, 9)
    refused(w, "c", HOT + 1, 1)
    refused(w, "d")
    w.write("well", 3000)
    w.end()
    w.second("b", "c", "d")
    base.equal(counted(w, "absorbed_waiting"), [2], "absorbed")
    for leg in (w.legs.local, w.legs.remote):
        leg.disk.good(HOT + 8, HOT + 8)
    w.legs.mirror.in_sync()
    w.close()

    base.step("policy error: none of them is acknowledged from one leg")
    w = Waiting(hot_pair("policy", "error"))
    refused(w, "a")
    for name in names_of(5):
        refused(w, name)
    w.legs.mirror.message("fail remote")
    w.end()
    base.expect(max(w.took.values()) < 0.5, f"{w.took}")
    base.equal(counted(w, "absorbed_waiting"), [4], "absorbed")
    recover(w)
    w.close()


def recover(w: Waiting) -> None:
    w.legs.remote.well()
    w.legs.recovers()


def leg_lost(how: str, policy: str) -> None:
    base.step(f"policy {policy}: the remote leg {how} while they wait")
    w = Waiting(hot_pair("policy", policy))
    if how == "hangs":
        w.legs.remote.well()
        w.legs.remote.hang()
    w.write("a", HOT)
    w.write("wide", HOT, 24)
    for number in range(10):
        w.write(f"w{number}", HOT + number, 2)
    w.write("out", HOT + 20, 8)
    w.write("end", HOT + 22, 6)
    if how == "is failed by hand":
        w.legs.mirror.message("fail remote")
    elif how == "breaks":
        w.legs.remote.disk.bad(0, SECTORS - 1)
    base.until(lambda: w.legs.mirror.status().remote == "D", "its death")
    if policy == "block":
        w.write("more", HOT + 1, 1)
        time.sleep(20)
        done = set(w.took)
        base.equal(done, set(), "acknowledged while it was on one leg only")
    else:
        base.until(lambda: len(w.took) == 14, "all of them are acknowledged")
        most = TIMEOUT_MS / 1000 * 9 / 8 if how == "hangs" else 0.5
        base.expect(max(w.took.values()) < most, f"{w.took}")
    if how == "hangs":
        w.legs.remote.wake()
    if how == "breaks":
        w.legs.remote.disk.good(0, SECTORS - 1)
    recover(w)
    w.end()
    wide, ends = blk.pattern("wide", 24), blk.pattern("end", 6)
    want = b"".join(blk.pattern(f"w{number}", 2)[:512] for number in range(10))
    want += blk.pattern("w9", 2)[512:] + wide[11 * 512 : 20 * 512]
    want += blk.pattern("out", 8)[: 2 * 512] + ends
    if policy == "block":
        want = want[:512] + blk.pattern("more", 1) + want[1024:]
    base.equal(w.disk.read(HOT, 28), want, "each byte is the last writer's")
    base.equal(counted(w, "absorbed_waiting"), [12 if policy == "block" else 11], "absorbed")
    w.close()


def suspended() -> None:
    base.step("policy block: suspended without flush while they are held: dm has all of them again")
    w = Waiting(hot_pair("policy", "block"))
    w.legs.mirror.message("fail remote")
    w.write("a", HOT)
    for name in names_of(5):
        w.write(name, HOT)
    dm.suspend("mirror", flush=False)
    dm.resume("mirror")
    base.equal(len(w.took), 0, "acknowledged meanwhile")
    recover(w)
    w.end()
    base.expect(w.disk.read(HOT, 8) in [blk.pattern(name, 8) for name in ("a", *names_of(5))],
                "one of them")  # fmt: skip
    w.close()


def under_load(limit: int, pipeline: int) -> None:
    base.step(f"loads on few blocks, coalesce {limit}, {pipeline} on the way")
    count = 300 if base.CHECKED else 5000
    legs = Pair("nosync", "coalesce", limit, "coalesce_pipeline", pipeline, latency_us=(50, 900),
                cache_mib=2)  # fmt: skip
    load("scribble", legs.mirror.node, count, span=256, depth=64)
    legs.same()
    said = {f: legs.count(f) for f in ("writes", "waited", "absorbed", "absorbed_waiting")}
    print(f"  {said}", flush=True)
    base.expect(said["absorbed_waiting"], "nothing was tried")
    legs.close()


many()
parts()
nobody_starves()
held_absorbs_nothing()
off()
flags()
into_a_batch()
errors()
for policy in ("degrade", "block"):
    for how in ("hangs", "is failed by hand", "breaks"):
        leg_lost(how, policy)
suspended()
under_load(8, 8)
under_load(32, 1)
