# SPDX-License-Identifier: GPL-2.0-only
"""Seeded lives of a mirror without metadata: legs fail, hang and come back, it is told things,
suspended, loaded anew, grown, and their tables exchange devices. What was acknowledged is there at
the end, on both legs.

Args: how many lives, the first seed.
"""

from __future__ import annotations

import contextlib
import errno
import random
import sys
import threading
import time

from locklab import base, dm, mirror
from mirrorlab import Leg
from statelab import LOCAL, REMOTE, History, Versions, Writers, content

LARGE, SMALL = 4096, 1024  # sectors
WRITERS = 3
EVENTS = 14
KINDS = (
    "gone", "fail_writes", "well", "well", "hang", "wake", "wake", "fail", "fail", "recover",
    "recover", "resync", "suspend", "noflush", "resume", "resume", "reload", "reload", "policy",
    "verify", "grow", "grow", "grow",
)  # fmt: skip
EXCHANGES = ("exchange", "exchange", "swap")  # of each other life
MESSAGES = {"resync": "resync", "verify": "verify start"}


def leg_of(leg: Leg) -> str:
    """What is done to the leg is done to this device of it, too."""
    return f"0 {leg.disk.sectors} linear {leg.node} 0"


class Life:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"core {seed}")
        self.kinds = KINDS + EXCHANGES if seed % 2 else KINDS
        self.told: list[str] = []
        self.legs = {
            LOCAL: Leg("llocal", mib=2, cache_mib=rng.choice((0, 0, 1))),
            REMOTE: Leg("lremote", mib=2),
        }
        self.ways = {name: (leg.node, dm.create(f"way-{name}", leg_of(leg)))
                     for name, leg in self.legs.items()}  # fmt: skip
        self.hung: set[str] = set()
        self.lock, self.timer = threading.Lock(), threading.Timer(0, self.wake)
        self.mode = rng.choice(("sync", "nosync"))
        self.policy = rng.choice(("degrade", "degrade", "block", "error"))
        self.sectors = SMALL
        self.suspended = False
        self.history = History(SMALL)
        self.history.acked = [0] * SMALL
        node = dm.create("mirror", self.table())
        self.writers = Writers(node, self.history, Versions(), seed=seed, writers=WRITERS,
                               pause=(0.002, 0.05))  # fmt: skip
        self.node = node

    def table(self) -> str:
        words = (self.mode, "region_size", 64, "rejoin", self.rng.choice((0, 1, 1)),
                 "remote_timeout", 2000, "local_timeout", self.rng.choice((0, 2000)),
                 "policy", self.policy)  # fmt: skip
        nodes = [ways[0] for ways in self.ways.values()]
        return mirror.table(*nodes, *words, sectors=self.sectors)

    def wake(self) -> None:
        with self.lock:
            for name in self.hung:
                self.legs[name].wake()
            self.hung.clear()

    def hang(self, name: str) -> None:
        """One at a time, and not for good: a suspend may wait for it."""
        if self.hung:
            return
        self.legs[name].hang()
        self.hung.add(name)
        self.timer = threading.Timer(self.rng.choice((1, 4, 15)), self.wake)
        self.timer.start()

    def suspend(self, *, flush: bool) -> None:
        if not self.suspended:
            dm.suspend("mirror", flush=flush)
        self.suspended = True

    def resume(self) -> None:
        if self.suspended:
            dm.resume("mirror")
        self.suspended = False

    def reload(self) -> None:
        dm.load("mirror", self.table())
        self.suspend(flush=self.rng.random() < 0.5)
        if self.rng.random() < 0.8:
            self.resume()

    def exchange(self, name: str) -> None:
        """Another device of a leg that misses nothing; else the table's word would count."""
        if self.suspended:
            return
        self.suspend(flush=True)
        if mirror.parse(dm.status("mirror")).health[list(self.ways).index(name)] == "A":
            before = self.ways[name]
            self.ways[name] = before[::-1]
            try:
                dm.load("mirror", self.table())
            except OSError:
                self.ways[name] = before
                raise
        if self.rng.random() < 0.8:
            self.resume()

    def swap(self) -> None:
        before = self.ways
        self.ways = dict(reversed(before.items()))
        try:
            self.reload()
        except OSError as err:
            if err.errno == errno.EINVAL:  # refused
                self.ways = before
            raise

    def do(self, what: str, name: str) -> None:
        if what in ("gone", "fail_writes", "well"):
            if name not in self.hung:
                getattr(self.legs[name], what)()
        elif what == "hang":
            self.hang(name)
        elif what == "wake":
            self.wake()
        elif what in ("fail", "recover"):
            dm.message("mirror", f"{what} {name}")
        elif what in MESSAGES:
            dm.message("mirror", MESSAGES[what])
        elif what == "policy":
            dm.message("mirror", f"policy {self.rng.choice(('degrade', 'block', 'error'))}")
        elif what in ("suspend", "noflush"):
            self.suspend(flush=what == "suspend")
        elif what == "resume":
            self.resume()
        elif what == "exchange":
            self.exchange(name)
        elif what == "swap":
            self.swap()
        else:
            if what == "grow":
                self.sectors = min(self.sectors + self.rng.choice((64, 512, 100)), LARGE)
            self.reload()

    def event(self) -> None:
        what, name = self.rng.choice(self.kinds), self.rng.choice((LOCAL, REMOTE))
        self.told.append(f"{what} {name}")
        try:
            self.do(what, name)
        except OSError as err:
            self.told.append(f"({err.errno})")
        time.sleep(self.rng.choice((0, 0.01, 0.1, 0.7, 3)))

    def resumed(self) -> bool:
        try:
            self.resume()
        except OSError as err:
            if err.errno == errno.EINVAL:  # what sync says isn't so any more
                self.mode = "nosync"
                dm.load("mirror", self.table())
        return not self.suspended

    def there(self) -> bool:
        with contextlib.suppress(OSError):
            dm.message("mirror", "recover")
        now = mirror.parse(dm.status("mirror"))
        return (now.health, now.action) == ("AA", "idle")

    def end(self) -> None:
        self.timer.cancel()
        self.wake()
        for leg in self.legs.values():
            leg.well()
        base.until(self.resumed, "a resume", 60)
        base.until(self.there, "in sync", 120)
        acked = self.writers.acked
        base.until(lambda: self.writers.acked > acked + 10, "writes go on", 60)
        self.writers.stop()
        base.until(self.there, "in sync", 120)
        self.history.check(content(self.node, SMALL), "the mirror")
        one, two = (content(leg.disk.node, self.sectors) for leg in self.legs.values())
        dm.remove("mirror")
        base.expect(one == two, "the legs differ")
        for name, leg in self.legs.items():
            dm.remove(f"way-{name}")
            leg.close()


count, begin = (int(word) for word in sys.argv[1:3])
for seed in range(begin, begin + count):
    life = Life(seed)
    try:
        for _ in range(EVENTS):
            life.event()
        life.end()
    except (base.Wrong, OSError) as err:
        how = f"life {seed}, {life.mode} {life.policy}: {' '.join(life.told)}"
        raise base.Wrong(f"{how}: {err}") from err
base.step("done")
