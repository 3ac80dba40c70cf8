# SPDX-License-Identifier: GPL-2.0-only
"""Tables that end while something else still works in them, or looks at them: for two CPUs.

Arguments: a part (all of them), and how many tables it ends (default 40). It measures no time, and
passes on one CPU, too, where it races little.
  removes   several devices, of which one at a time may have the legs, made and removed all the time
  reloads   one under load whose table is exchanged, with rivals for its legs beside it
  lingers   tables are removed with writes that are out, which return while others are made
  log       as many regions are wanted as there is room for, while the limit and the table change
"""

from __future__ import annotations

import contextlib
import errno
import json
import random
import sys
import threading
import time
from collections.abc import Callable

from latelab import PARAMETERS, draining
from locklab import base, blk, dm, mirror
from mirrorlab import META, Background, Leg

MIB = 4
LOG_MIB = 128
RIVALS = 3
# What is refused while somebody else has the legs, or is about to.
TAKEN = (errno.EBUSY, errno.ENXIO, errno.EINVAL, errno.EIO)


class Beside:
    """Threads that each do something over and over until stop(), which tells how often."""

    def __init__(self, *works: Callable[[random.Random], object]) -> None:
        self._stop = threading.Event()
        self._failed: list[BaseException] = []
        self.turns = [0] * len(works)
        self._threads = [
            threading.Thread(target=self._run, args=(n, work), daemon=True)
            for n, work in enumerate(works)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int, work: Callable[[random.Random], object]) -> None:
        rng = random.Random(f"race {base.SEED} {number}")
        try:
            while not self._stop.is_set():
                work(rng)
                self.turns[number] += 1
        except BaseException as err:  # raised again by stop()
            self._failed.append(err)

    def check(self) -> None:
        if self._failed:
            raise self._failed[0]

    def stop(self) -> list[int]:
        self._stop.set()
        for thread in self._threads:
            thread.join(600)
            base.expect(not thread.is_alive(), "a thread hangs")
        self.check()
        return self.turns


class Legs:
    def __init__(self) -> None:
        self.both = [
            Leg("llocal", mib=MIB, latency_us=50), Leg("lremote", mib=MIB, latency_us=200),
        ]  # fmt: skip
        self.nodes = [leg.node for leg in self.both]

    def table(self, rng: random.Random, *more: object, patience_ms: int = 0) -> str:
        """Of core mode, which knows nothing of an earlier table of another device: if that one has
        given a leg up the legs differ. So without `patience_ms` no leg is given up."""
        words = (
            "nosync", "region_size", rng.choice((8, 64)), "coalesce", rng.choice((1, 2, 8)),
            "remote_timeout", patience_ms, *more,
        )  # fmt: skip
        return mirror.table(*self.nodes, *words)

    def same(self) -> None:
        local, remote = self.both
        blk.same(local.disk.node, remote.disk.node)

    def close(self) -> None:
        for leg in self.both:
            # What lingers has them open for a moment more than it drains.
            base.until(lambda: dm.opens(leg.name) == 0, f"{leg.name} in nobody's use")  # noqa: B023
            leg.close()


def some_writes(node: str, rng: random.Random, count: int) -> None:
    """Several at a time, of any kind."""
    with blk.Disk(node) as disk:

        def one(seed: int) -> None:
            mine = random.Random(seed)
            for _ in range(count):
                at = mine.randrange((MIB << 11) - 16)
                with contextlib.suppress(OSError):
                    if mine.random() < 0.1:
                        disk.flush()
                    elif mine.random() < 0.1:
                        disk.read(at, 8)
                    else:
                        disk.write(at, blk.pattern(f"{seed}", 8), fua=mine.random() < 0.3)

        threads = [threading.Thread(target=one, args=(rng.getrandbits(32),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def removed(name: str) -> None:
    """As soon as nobody has it open: who looks for new disks may just look at it."""

    def gone() -> bool:
        try:
            dm.remove(name)
        except OSError as err:
            base.expect(err.errno == errno.EBUSY, f"remove {name}: {err}")
            return False
        return True

    base.until(gone, f"{name} removed", 60)


def made(name: str, table: str) -> str | None:
    try:
        return dm.create(name, table)
    except OSError as err:
        base.expect(err.errno in TAKEN, f"create {name}: {err}")
        return None


def look(_: random.Random) -> None:
    """At whatever there is now."""
    draining()
    for name in ("mirror", *(f"rival{n}" for n in range(RIVALS))):
        with contextlib.suppress(OSError):
            dm.status(name)
            dm.table(name)
    time.sleep(0.001)


def removes(lives: int) -> None:
    base.step("several devices on the same legs are made and removed all the time")
    legs = Legs()
    ended = [0] * RIVALS

    def life(number: int) -> Callable[[random.Random], object]:
        name = f"rival{number}"

        def one(rng: random.Random) -> None:
            node = made(name, legs.table(rng))
            if not node:
                time.sleep(0.001)
                return
            some_writes(node, rng, rng.randint(1, 4))
            if rng.random() < 0.3:
                with contextlib.suppress(OSError):
                    dm.reload(name, legs.table(rng))
            removed(name)
            ended[number] += 1

        return one

    beside = Beside(*(life(n) for n in range(RIVALS)), look)
    while sum(ended) < lives:
        time.sleep(0.1)
        beside.check()
    beside.stop()
    legs.same()
    legs.close()
    print(f"  {sum(ended)} tables ended", flush=True)


def reloads(lives: int) -> None:
    base.step("a table under load is exchanged, and others would have its legs")
    legs = Legs()
    rng = random.Random(f"reloads {base.SEED}")
    device = mirror.Mirror(*legs.nodes, "nosync", "region_size", 64, "remote_timeout", 0)
    load = Background("verify", device.node, span=MIB << 11, depth=16)

    def rival(mine: random.Random) -> None:
        base.expect(not made("rival0", legs.table(mine)), "two mirrors have the same legs")

    def messages(mine: random.Random) -> None:
        text = mine.choice(
            ("fail remote", "recover", "recover", "verify start", "coalesce 1", "coalesce 8",
             "memory_kib 1024", "memory_kib 0", "resync_pace full", "resync_pace polite")
        )  # fmt: skip
        with contextlib.suppress(OSError):
            dm.message("mirror", text)
        time.sleep(mine.random() / 50)

    beside = Beside(rival, messages, look)
    for _ in range(lives):
        dm.reload("mirror", legs.table(rng, "resync_pace", "full"))
        time.sleep(rng.random() / 50)
        beside.check()
    print(f"  {lives} tables ended, beside {beside.stop()}", flush=True)
    device.message("resync_pace full")

    def synced() -> bool:
        with contextlib.suppress(OSError):
            device.message("recover")
        status = device.status()
        return (status.health, status.action) == ("AA", "idle")

    base.until(synced, "in sync", 120)
    _, _, _, bad_writes, bad_reads = load.stop()
    base.equal((bad_writes, bad_reads), (0, 0), "failed writes and reads")
    legs.same()
    device.remove()
    legs.close()


def lingers(lives: int) -> None:
    base.step("tables that are removed with writes out, which return while others are made")
    legs = Legs()
    rng = random.Random(f"lingers {base.SEED}")

    def table(mine: random.Random) -> str:
        return legs.table(mine, patience_ms=50)

    def rival(mine: random.Random) -> None:
        # It may find that the leg drains, and take none of it before it has.
        if made("rival1", table(mine)):
            removed("rival1")
            time.sleep(mine.random() / 2)

    beside = Beside(rival, look)
    ended = 0
    while ended < lives:
        beside.check()
        node = made("rival0", table(rng))
        if not node:
            continue
        legs.both[1].hang()
        some_writes(node, rng, rng.randint(1, 3))
        wake = threading.Timer(rng.random() / 5, legs.both[1].wake)
        wake.start()
        # Then the table's end takes time, and others look at it meanwhile.
        base.put(PARAMETERS / "test_remove_waits", rng.choice((0, 1)))
        removed("rival0")
        wake.join()
        ended += 1
    base.put(PARAMETERS / "test_remove_waits", 0)
    turns = beside.stop()
    base.until(lambda: not draining(), "nothing drains")
    legs.close()
    print(f"  {ended} tables ended with writes out, beside {turns}", flush=True)


def log(lives: int) -> None:
    base.step("an activity log that is full all the time")
    legs = [Leg("llocal", mib=LOG_MIB, latency_us=50), Leg("lremote", mib=LOG_MIB, latency_us=200)]
    nodes = [leg.node for leg in legs]
    base.run(META, "create", "--local", nodes[0], "--remote", nodes[1], "--assume-clean",
             "--region-size", "2048")  # fmt: skip
    sectors = int(json.loads(base.run(META, "verdict", *nodes))["data_len"])

    def table(limit: int) -> str:
        words = ("rejoin", 5, "dirty_limit", limit, "resync_pace", "full", "remote_timeout", 200)
        return mirror.table(*nodes, *words, sectors=sectors)

    rng = random.Random(f"log {base.SEED}")
    node = dm.create("mirror", table(34))

    def messages(mine: random.Random) -> None:
        text = mine.choice(("dirty_limit 34", "dirty_limit 64", "dirty_limit 100", "fail remote",
                            "recover", "recover", "resync"))  # fmt: skip
        with contextlib.suppress(OSError):
            dm.message("mirror", text)
        time.sleep(mine.random() / 20)

    for life in range(lives):
        load = Background("stream", node, span=sectors, depth=64, seed=life + 1)
        beside = Beside(messages, look)
        for _ in range(rng.randint(1, 4)):
            time.sleep(rng.random() / 10)
            dm.reload("mirror", table(rng.choice((34, 64, 100))))
        crash = rng.random() < 0.5
        if crash:
            for leg in legs:
                leg.gone()
        beside.stop()
        load.stop()
        removed("mirror")
        for leg in legs:
            leg.well()
        node = dm.create("mirror", table(34))
        base.until(lambda: mirror.parse(dm.status("mirror")).health == "AA", "both legs", 60)
        base.until(lambda: mirror.parse(dm.status("mirror")).action == "idle", "in sync", 600)
        blk.same(nodes[0], nodes[1], sectors)
    removed("mirror")
    for leg in legs:
        leg.close()
    print(f"  {lives} crashes and ends", flush=True)


PARTS = {"removes": removes, "reloads": reloads, "lingers": lingers, "log": log}
base.expect(PARAMETERS.exists(), "the module is loaded")
for part in base.words(1, [*PARTS, *(w for w in sys.argv[2:3] if w.isdigit())])[:1] or PARTS:
    PARTS[part](int(sys.argv[2]) if len(sys.argv) > 2 else 40)
base.step("done")
