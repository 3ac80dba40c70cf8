# SPDX-License-Identifier: GPL-2.0-only
"""How much a crash of the primary leaves to resync: a bound that doesn't depend on what is written.

The arguments name the parts (PARTS at the end); a word test_NAME switches that knob of the module
on. The legs are sparse disks in memory; a crash is an instant from which on both fail everything,
so that what they say of themselves is what a power cut at that instant leaves.
"""

from __future__ import annotations

import errno
import itertools
import json
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS, META, ZEROES, Background, Beside, Leg, load

PARAMETERS = Path("/sys/module/dm_lockstep/parameters")
TIB16 = 16 << 20  # MiB
WRITES = 8000
LIMIT_MIB = 4096  # the default (dirty-map.h)


class Mirror:
    """Two legs with metadata, and the mirror on them."""

    def __init__(
        self, mib: int, *, region: int = 0, cache_mib: int = 0, zeroes: bool = False,
        latency_us: tuple[int, int] = (100, 400),
    ) -> None:  # fmt: skip
        local, remote = latency_us
        self.legs = [Leg("llocal", mib=mib, latency_us=local, cache_mib=cache_mib, zeroes=zeroes),
                     Leg("lremote", mib=mib, latency_us=remote, zeroes=zeroes)]  # fmt: skip
        self.nodes = [leg.node for leg in self.legs]
        words = ["--region-size", str(region)] if region else []
        base.run(META, "create", "--local", self.nodes[0], "--remote", self.nodes[1],
                 "--assume-clean", *words)  # fmt: skip
        told = self.verdict()
        self.sectors, self.region = int(told["data_len"]), int(told["region_size"])

    def verdict(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(base.run(META, "verdict", *self.nodes))
        return told

    def start(self, *options: object) -> None:
        self.device = mirror.Mirror(*self.nodes, *(options or ("rejoin", 5)), sectors=self.sectors)
        self.node = self.device.node

    def word(self, field: str) -> str:
        return self.device.status().rest[FIELDS.index(field)]

    def count(self, field: str) -> int:
        return int(self.word(field))

    def log(self) -> tuple[int, int]:
        """MiB that the log names, and may name."""
        now, most = self.word("log").split("/")[:2]
        return int(now), int(most)

    def crash(self) -> None:
        for leg in self.legs:
            leg.gone()

    def boot(self) -> None:
        """After a crash: what is left of the mirror goes, the legs are as they were then."""
        self.device.remove()
        for leg in self.legs:
            leg.well()

    def left(self) -> int:
        """MiB that would be resynced now, by the legs themselves."""
        return int(self.verdict()["dirty_regions"]) * self.region >> 11

    def close(self) -> None:
        self.device.remove()
        for leg in self.legs:
            leg.close()


def crashed(pair: Mirror, depth: int) -> int:
    """A load of random writes, cut off; MiB left."""
    stream = Background("stream", pair.node, span=pair.sectors, depth=depth)
    base.until(lambda: pair.count("writes") > WRITES, "writes")
    pair.crash()
    stream.stop()
    pair.boot()
    return pair.left()


def bound() -> None:
    base.step("16 TiB, random writes, a crash")
    pair = Mirror(TIB16)
    for depth in (1, 64):
        pair.start()
        base.equal(pair.log()[1], LIMIT_MIB, "MiB that the log may name")
        left = crashed(pair, depth)
        print(f"  {depth} in flight: {left} MiB left after {WRITES} writes", flush=True)
        base.expect(left <= LIMIT_MIB, f"{left} MiB are left to resync")
        base.expect(left > LIMIT_MIB // 2, f"the log had room, and only {left} MiB are in it")
        # What is stale is what is resynced.
        pair.start("resync_rate", 1)
        stale = pair.count("stale_remote") * pair.region >> 11
        base.expect(left - 16 <= stale <= left, f"{stale} MiB are stale")
        pair.device.remove()
        # Not 4 GiB through a disk in memory.
        base.run(META, "create", "--force", "--local", pair.nodes[0], "--remote", pair.nodes[1],
                 "--assume-clean")  # fmt: skip
    pair.start()
    pair.close()


def setting() -> None:
    base.step("dirty_limit: in the table, by message, after a crash")
    pair = Mirror(1 << 20, region=2048)
    pair.start("dirty_limit", 256)
    base.equal(pair.log(), (0, 256), "MiB named, and at most")
    left = crashed(pair, 16)
    base.expect(128 < left <= 256, f"{left} MiB are left to resync")
    pair.start("dirty_limit", 256, "resync_compare", "on")
    pair.device.in_sync()
    base.equal(pair.count("compared") >> 11, left, "MiB that the resync compared")
    blk.same(pair.legs[0].node, pair.legs[1].node, 1 << 16)

    base.step("lowered, raised, refused")
    for mib in (512, 64, 1024):
        pair.device.message(f"dirty_limit {mib}")
        base.expect(f"dirty_limit {mib}" in dm.table("mirror"), "the table tells it")
        load("stream", pair.node, 3000, span=pair.sectors)
        base.until(lambda mib=mib: pair.log()[0] <= mib, "within the limit", 90)  # type: ignore[misc]
        base.equal(pair.log()[1], mib, "MiB at most")
    for bad in ("dirty_limit", "dirty_limit 0", "dirty_limit much", "dirty_limit -1"):
        with base.refused(bad):
            pair.device.message(bad)
    pair.device.message(f"dirty_limit {LIMIT_MIB}")
    base.expect("dirty_limit" not in dm.table("mirror"), "the table tells the default")
    base.equal(pair.log()[1], 3968, "MiB at most: so many regions the log can name")
    pair.device.message("dirty_limit 64")
    base.until(lambda: not pair.count("dirty"), "idle regions clean", 200)
    pair.crash()
    pair.boot()
    base.equal(pair.left(), 0, "MiB left of a mirror at rest")
    pair.start()
    pair.close()


def costs() -> None:
    base.step("metadata writes")
    pair = Mirror(TIB16)
    for depth, most in ((1, 1.01), (16, 0.5), (128, 0.12)):
        pair.start()
        load("stream", pair.node, WRITES, span=pair.sectors, depth=depth)
        spent = pair.count("map_writes") / WRITES
        print(f"  16 TiB, {depth} in flight: {spent:.3f} pages for each write", flush=True)
        base.expect(spent <= most, f"{spent} pages for each write")
        base.equal(pair.count("cleaned"), 0, "times that a tick cleaned")
        pair.device.remove()
    base.step("what fits into the log is marked once")
    pair.start()
    span = (LIMIT_MIB // 4) << 11
    load("stream", pair.node, WRITES, span=span, depth=16)
    base.expect(pair.count("map_writes") <= span // pair.region, "a page for each region at most")
    marked = pair.count("marked")
    load("stream", pair.node, WRITES, span=span, depth=16, seed=7)
    base.equal(pair.count("marked"), marked, "marks of what is marked")
    pair.close()


def crowded() -> None:
    """More regions are wanted at once than there is room for: each write gets on."""
    base.step("a log of 34 MiB, and 256 writes in flight")
    pair = Mirror(1 << 16, region=2048)
    pair.start("dirty_limit", 1)
    base.equal(pair.log()[1], 34, "MiB: the largest request has room")
    load("stream", pair.node, 4000, span=pair.sectors, depth=256)
    base.expect(pair.log()[0] <= 34, "more is named")

    base.step("writes that need two regions, all of whose first ones fill the log")
    pair.legs[1].hang()
    disk = blk.Disk(pair.node)
    data = blk.pattern("two", 16)
    # 34 regions are held by writes that hang; each of the others needs one of them besides.
    held = [Beside(lambda n=n: disk.write(2 * n * 2048 + 64, data))  # type: ignore[misc]
            for n in range(34)]  # fmt: skip
    base.until(lambda: pair.log()[0] == 34, "the log is full")
    wait = [Beside(lambda n=n: disk.write(2 * n * 2048 + 2040, data))  # type: ignore[misc]
            for n in range(34)]  # fmt: skip
    base.until(lambda: pair.word("log").endswith("/full"), "they wait")
    pair.legs[1].wake()
    for one in held + wait:
        one.result()
    disk.close()
    base.until(lambda: not pair.word("log").endswith("/full"), "nobody waits")
    pair.close()


def held() -> None:
    """The map is held for a moment, as metadata move, while a write waits for room."""
    base.step("it gets on as soon as there is room")
    pair = Mirror(1 << 16, region=2048)
    pair.start("dirty_limit", 1)
    pair.legs[1].hang()
    busy = [Beside(lambda at=at: put(pair.node, {at * 2048: blk.pattern("busy", 8)}))  # type: ignore[misc]
            for at in range(34)]  # fmt: skip
    base.until(lambda: pair.log()[0] == 34, "the log is full")
    late = Beside(lambda: put(pair.node, {40 * 2048: blk.pattern("late", 8)}))
    base.until(lambda: pair.word("log").endswith("/full"), "it waits")
    more, local = ram.Ram("more", 64), pair.legs[0].disk
    pair.legs[0].table(f"0 {local.sectors} linear {local.node} 0\n"
                       f"{local.sectors} {more.sectors} linear {more.node} 0")  # fmt: skip
    pair.device.message("grow")
    pair.legs[1].wake()
    begun = time.monotonic()
    for one in [*busy, late]:
        one.result()
    took = time.monotonic() - begun
    print(f"  it took {took:.3f} s", flush=True)
    base.soon(took, 2, "the write that waits for room")
    pair.close()
    more.remove()


def returned() -> None:
    """A request for regions that the log names though they are clean, and as many new ones as there
    is room for."""
    base.step("a discard takes more than the room that is left, and a crash then")
    pair = Mirror(96, region=2048, zeroes=True)
    pair.start("dirty_limit", 1, "rejoin", 0, *ZEROES)
    base.equal(pair.log(), (0, 34), "MiB named, and at most")
    put(pair.node, {at * 2048: blk.pattern(f"before {at}", 8) for at in range(90)})
    base.until(lambda: not pair.count("dirty"), "idle regions clean", 200)
    # When less than a quarter is free, the first ten are cleaned; so half is.
    put(pair.node, {at * 2048: blk.pattern(f"after {at}", 8) for at in range(20, 47)})
    time.sleep(1)
    base.equal(pair.log()[0], 27, "MiB named: clean ones stay so")
    pair.legs[1].hang()
    disk = blk.Disk(pair.node)
    # 17 new ones, those ten, and 5 that are dirty.
    discard = Beside(lambda: disk.discard(3 * 2048, 32 * 2048))
    with blk.Disk(pair.legs[0].node, write=False) as local:
        base.until(lambda: not any(local.read(34 * 2048, 8)), "the local leg has it")
    pair.crash()
    with base.refused("a discard that is cut off", errno.EIO):
        discard.result()
    disk.close()
    pair.boot()
    base.expect(pair.left() >= 32, f"{pair.left()} MiB are left to resync of 32")
    pair.start(*ZEROES)
    pair.device.in_sync()
    blk.same(pair.nodes[0], pair.nodes[1], pair.sectors)
    pair.close()


def large() -> None:
    """Cleaning by halves never made room for it: it waited until it got its bits in the map."""
    base.step("a request that needs more than half of the log, which is full of idle regions")
    pair = Mirror(128, region=64, zeroes=True)
    pair.start("dirty_limit", 1, "rejoin", 0, *ZEROES)
    base.equal(pair.log(), (0, 32), "MiB named, and at most")
    put(pair.node, {at * 64: blk.pattern(f"before {at}", 8) for at in range(1200, 2200)})
    with blk.Disk(pair.node) as disk:
        begun = time.monotonic()
        disk.discard(0, 1024 * 64)
        took = time.monotonic() - begun
    print(f"  it took {took:.3f} s", flush=True)
    base.soon(took, 0.5, "the discard")
    base.equal(pair.log(), (32, 32), "MiB named, and at most")
    base.until(lambda: not pair.count("dirty"), "idle regions clean", 200)
    pair.close()


def end_of_map(pair: Mirror) -> int:
    return pair.legs[0].disk.sectors - 16 - 32


def after_a_bad_suspend(pair: Mirror, first: int, last: int, regions: list[int]) -> None:
    """These sectors of the local leg can't be written at a suspend, and it stays, as a leg that
    has to. What is written after the resume is dirty all the same."""
    pair.legs[0].disk.bad(first, last)
    dm.suspend("mirror")
    pair.legs[0].disk.good(first, last)
    dm.resume("mirror")
    base.equal(pair.device.status().health, "AA", "health")
    # All that its page of the log names from now on.
    put(pair.node, {50 * pair.region: blk.pattern("another", 8)})
    pair.legs[1].hang()
    disk = blk.Disk(pair.node)
    data = blk.pattern("after", 8)
    writes = [Beside(lambda at=at: disk.write(at * pair.region, data))  # type: ignore[misc]
              for at in regions]  # fmt: skip
    with blk.Disk(pair.legs[0].node, write=False) as local:
        for at in regions:
            base.until(lambda at=at: local.read(at * pair.region, 8) == data,  # type: ignore[misc]
                       "the local leg has it")  # fmt: skip
    pair.crash()
    for write in writes:
        with base.refused("a write that is cut off", errno.EIO):
            write.result()
    disk.close()
    pair.boot()
    left = int(pair.verdict()["dirty_regions"])
    base.expect(left > len(regions), f"{left} regions are left to resync")
    pair.start()
    pair.device.in_sync()
    blk.same(pair.nodes[0], pair.nodes[1], (max(regions) + 1) * pair.region)
    pair.close()


def suspended() -> None:
    """A suspend cleans the map and the log; what it got done, and what not, is known at the resume.

    A leg's metadata at its end: map, log of 32 sectors, superblocks of 16.
    """
    base.put(PARAMETERS / "test_suspend_keeps", 1)
    base.step("the log can't be written")
    pair = Mirror(96, region=2048)
    pair.start("rejoin", 0)
    put(pair.node, {at * 2048: blk.pattern(f"before {at}", 8) for at in range(8)})
    after_a_bad_suspend(pair, end_of_map(pair), end_of_map(pair) + 31, list(range(8)))

    base.step("the second page of the map can't be written")
    pair = Mirror(1100, region=64)
    pair.start("rejoin", 0)
    pages = -(-(pair.legs[0].disk.sectors // 64) // (3968 * 8))
    base.equal(pages, 2, "pages of the map")
    pair.device.message("fail remote")
    put(pair.node, {at * 64: blk.pattern(f"before {at}", 8) for at in (5, 7, 3968 * 8 + 3)})
    pair.device.message("recover")
    pair.device.in_sync()
    after_a_bad_suspend(pair, end_of_map(pair) - 8, end_of_map(pair) - 1, [5, 7])


def put(node: str, written: dict[int, bytes]) -> None:
    with blk.Disk(node) as disk:
        for at, data in written.items():
            disk.write(at, data)
        disk.flush()


def parted() -> None:
    """A leg is away with a full log; what the log named and became stale stays dirty."""
    base.step("alone with a full log, and a crash then")
    pair = Mirror(512, region=2048, cache_mib=8)
    pair.start("dirty_limit", 64)
    rng = random.Random(base.SEED)
    places = [rng.randrange(pair.sectors // 2048) * 2048 for _ in range(100)]
    put(pair.node, {at: blk.pattern(f"before {n}", 8) for n, at in enumerate(places)})
    pair.device.message("fail remote")
    more = [rng.randrange(pair.sectors // 2048) * 2048 for _ in range(100)]
    written = {at: blk.pattern(f"alone {n}", 8) for n, at in enumerate(places + more)}
    put(pair.node, written)
    pair.crash()
    pair.boot()
    pair.start("dirty_limit", 64, "resync_rate", 2000)
    base.step("the resync, with a load that needs the log")
    stream = Background("stream", pair.node, span=pair.sectors, depth=16)
    base.until(lambda: pair.count("resynced") > 8 << 11, "8 MiB", 600)
    stream.stop()
    pair.device.message("resync_rate 0")
    pair.device.message("fail remote")
    put(pair.node, dict(list(written.items())[:50]))
    pair.device.message("recover")
    stream = Background("stream", pair.node, span=pair.sectors, depth=16, seed=9)
    pair.device.in_sync()
    stream.stop()
    pair.device.message("verify check")
    base.until(lambda: pair.word("verify").split("/")[0] == pair.word("verify").split("/")[-1],
               "verified", 900)  # fmt: skip
    base.equal(pair.count("differing"), 0, "sectors that differ")
    base.until(lambda: not pair.count("dirty"), "idle regions clean", 200)
    pair.close()


def pages() -> None:
    base.step("4 TiB in regions of 32 KiB, the local disk takes 8 ms: each page of the map changes")
    pair = Mirror(4 << 20, region=64, latency_us=(8000, 400))
    pair.start("resync_rate", 1000)
    table = mirror.table(*pair.nodes, "resync_rate", 1000, sectors=pair.sectors)
    ended, longest = threading.Event(), [0.0]

    def writes() -> None:
        with blk.Disk(pair.node) as disk:
            for n in itertools.count():
                if ended.wait(0.02):
                    return
                at = n * 7919 * 64 % pair.sectors
                longest.append(blk.timed(lambda: disk.write(at, blk.pattern("beside", 8))))  # noqa: B023

    writer = Beside(writes)
    for name, what in (
        ("a full resync", lambda: pair.device.message("resync")),
        ("a new table", lambda: dm.reload("mirror", table)),
    ):
        took = blk.timed(what)
        time.sleep(2)
        print(f"  {name}: {took:.2f} s, the longest write {max(longest):.2f} s", flush=True)
        base.expect(max(took, *longest) < 6, f"{name} holds what is beside it")
    ended.set()
    writer.result()
    pair.close()


PARTS = {
    "pages": pages,
    "bound": bound, "setting": setting, "costs": costs, "crowded": crowded, "held": held,
    "returned": returned, "suspended": suspended, "parted": parted, "large": large,
}  # fmt: skip

for word in sys.argv[1:]:
    if word.startswith("test_"):
        base.put(PARAMETERS / word, 1)
names = base.words(1, [*PARTS, *(w for w in sys.argv if w.startswith("test_"))])
for name in [n for n in names if n in PARTS] or PARTS:
    PARTS[name]()
base.step("done")
