# SPDX-License-Identifier: GPL-2.0-only
"""Two legs with metadata on disks in memory, each part of which can be slowed or broken by itself,
and copies of their content that are assembled as a crash would have left them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from locklab import base, blk, dm, mirror, ram
from mirrorlab import FIELDS
from statelab import (
    LOCAL,
    REMOTE,
    SLOT_SECTORS,
    SLOTS,
    History,
    Super,
    Versions,
    content,
    create,
    sector,
    super_of,
)

MAP_SECTORS = 40  # a page of bits, and the activity log
TWO_MIRRORS = Path("/sys/module/dm_lockstep/parameters/test_two_mirrors")


class Leg:
    """A disk of one MiB below a dm device of three parts: data, map, slots."""

    def __init__(self, name: str, *, mib: int = 1, cache_mib: int = 0) -> None:
        self.disk = ram.Ram(f"{name}disk", mib, cache_mib=cache_mib)
        self.name = name
        end = self.disk.sectors
        starts = [0, end - SLOTS - MAP_SECTORS, end - SLOTS, end]
        self._parts = dict(zip(("data", "map", "slots"), pairwise(starts),
                               strict=True))  # fmt: skip
        self.node = dm.create(name, self._table({}))

    def set(self, **how: str) -> None:
        """What the named parts are: linear, error, nowrite (writes fail), half (so do those behind
        the first slot), slow:MS (writes and flushes), stall:MS (writes only), lag:MS (reads, too).
        """
        dm.load(self.name, self._table(how))
        dm.suspend(self.name, flush=False)
        dm.resume(self.name)

    def well(self) -> None:
        self.set()

    def gone(self) -> None:
        self.set(data="error", map="error", slots="error")

    def all(self, how: str) -> None:
        self.set(data=how, map=how, slots=how)

    def hang(self) -> None:
        """Whatever is sent stays on its way until wake()."""
        dm.suspend(self.name, flush=False)

    def wake(self) -> None:
        dm.resume(self.name)

    def image(self) -> bytes:
        with blk.Disk(self.disk.node, write=False) as disk:
            return disk.read(0, disk.sectors)

    def put(self, image: bytes) -> None:
        with blk.Disk(self.disk.node) as disk:
            disk.write(0, image)

    @property
    def super(self) -> Super:
        return super_of(self.disk.node)

    def close(self) -> None:
        dm.remove(self.name)
        self.disk.remove()

    def _table(self, how: dict[str, str]) -> str:
        lines = []
        for part, (start, end) in self._parts.items():
            word, _, number = how.get(part, "linear").partition(":")
            node = self.disk.node
            if word == "half":
                lines.append(f"{start} {SLOT_SECTORS} linear {node} {start}")
                start, word = start + SLOT_SECTORS, "nowrite"
            rest = {
                "linear": f"linear {node} {start}",
                "error": "error",
                "nowrite": f"flakey {node} {start} 0 3600 1 error_writes",
                "slow": f"delay {node} {start} 0 {node} {start} {number}",
                "stall": f"delay {node} {start} 0 {node} {start} {number} {node} {start} 0",
                "lag": f"delay {node} {start} {number}",
            }[word]
            lines.append(f"{start} {end - start} {rest}")
        return "\n".join(lines)


class Pair:
    """Two legs, made with lockstep-meta, the mirror on them, and what it has to hold."""

    def __init__(self, *options: object, clean: bool = True, name: str = "mirror",
                 cache_mib: int = 0) -> None:  # fmt: skip
        self.name = name
        self.legs = {LOCAL: Leg("llocal", cache_mib=cache_mib), REMOTE: Leg("lremote",
                     cache_mib=cache_mib)}  # fmt: skip
        self.local, self.remote = self.legs.values()
        create(self.local.node, self.remote.node, *(["--assume-clean"] if clean else []))
        self.sectors = self.local.super.data_sectors
        self.options = options or ("remote_timeout", 2000, "rejoin", 1)
        self.history = History(self.sectors)
        self.versions = Versions()
        self.start()

    def table(self, *, local: str | None = None, remote: str | None = None,
              options: tuple[object, ...] | None = None) -> str:  # fmt: skip
        return mirror.table(local or self.local.node, remote or self.remote.node,
                            *(self.options if options is None else options),
                            sectors=self.sectors)  # fmt: skip

    def start(self, *, local: str | None = None, remote: str | None = None) -> None:
        self.node = dm.create(self.name, self.table(local=local, remote=remote))

    def stop(self) -> None:
        dm.remove(self.name)

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status(self.name))

    def word(self, field: str) -> str:
        return self.status().rest[FIELDS.index(field)]

    def count(self, field: str) -> int:
        return int(self.word(field))

    def message(self, text: str) -> None:
        dm.message(self.name, text)

    def wait(self, health: str, standing: str, seconds: float = 60) -> None:
        def there() -> bool:
            now = self.status()
            return (now.health, now.rest[FIELDS.index("standing")]) == (health, standing)

        try:
            base.until(there, f"{health} {standing}", seconds)
        except base.Wrong as err:
            raise base.Wrong(f"{err}; status is {dm.status(self.name)!r}") from None

    def in_sync(self, seconds: float = 60) -> None:
        self.wait("AA", "together", seconds)
        base.until(lambda: self.status().action == "idle", "idle")

    def clean(self) -> None:
        """Nothing is dirty: a suspend writes no more than that the legs are stopped."""
        dirty = FIELDS.index("dirty")
        base.until(lambda: self.status().rest[dirty] == "0", "a cleaner that comes by twice", 70)

    def same(self) -> None:
        blk.same(self.local.disk.node, self.remote.disk.node, self.sectors)

    def put(self, at: int, count: int = 8, *, fua: bool = False) -> None:
        """One write that has to succeed."""
        version = self.versions.next()
        self.history.issue(at, count, version)
        with blk.Disk(self.node) as disk:
            disk.write(at, b"".join(sector(version, at + n) for n in range(count)), fua=fua)
        self.history.ack(at, count, version, fua)

    def check(self, what: str, node: str | None = None) -> None:
        self.history.check(content(node or self.node, self.sectors), what)

    def good_end(self, what: str) -> None:
        """In sync, what was acknowledged is there, the legs are alike and say so."""
        self.in_sync()
        self.check(what)
        self.stop()
        self.same()
        for name, leg in self.legs.items():
            base.equal((leg.super.state, leg.super.active), (1, False), f"{what}: {name} leg")
        self.check(f"{what}: the remote leg itself", self.remote.disk.node)

    def close(self) -> None:
        if dm.exists(self.name):
            self.stop()
        for leg in self.legs.values():
            leg.close()


class Film:
    """Copies of both legs, one for each change of what they say of themselves.

    For legs whose metadata are slowed (`set(map="slow:20", slots="slow:20")`): then no two steps
    fall between two looks.
    """

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._tails = b""
        self.frames: list[tuple[list[bytes], History]] = []

    def look(self) -> None:
        nodes = [leg.disk.node for leg in self._pair.legs.values()]
        now = b"".join(self._tail(node) for node in nodes)
        if now == self._tails:
            return
        history = self._pair.history.fork()
        images = [leg.image() for leg in self._pair.legs.values()]
        again = b"".join(image[-(SLOTS + MAP_SECTORS) * 512 :] for image in images)
        self._tails = again
        self.frames.append((images, history))

    def until(self, true: Callable[[], object], what: str, seconds: float = 60,
              pause: float = 0.004) -> None:  # fmt: skip
        end = time.monotonic() + seconds
        self.look()
        while not true():
            time.sleep(pause)
            self.look()
            base.expect(time.monotonic() < end, f"waited {seconds} s in vain for: {what}")

    @staticmethod
    def _tail(node: str) -> bytes:
        with blk.Disk(node, write=False) as disk:
            return disk.read(disk.sectors - SLOTS - MAP_SECTORS, SLOTS + MAP_SECTORS)


class Copies:
    """Disks on which pictures of legs are assembled, as after a crash at that instant. The mirror
    itself may run on: the host of the copies knows nothing of it."""

    def __init__(self, sectors: int) -> None:
        base.put(TWO_MIRRORS, 1)
        self._legs = [ram.Ram(f"x{leg}", 1) for leg in (LOCAL, REMOTE)]
        self._sectors = sectors

    def put(self, images: list[bytes]) -> None:
        for leg, image in zip(self._legs, images, strict=True):
            with blk.Disk(leg.node) as disk:
                disk.write(0, image)

    def start(self, *, local: bool = True, remote: bool = True) -> str:
        nodes = [leg.node if there else "-"
                 for leg, there in zip(self._legs, (local, remote), strict=True)]  # fmt: skip
        return dm.create("copy", mirror.table(*nodes, sectors=self._sectors))

    def in_sync(self) -> None:
        def there() -> bool:
            now = mirror.parse(dm.status("copy"))
            return (now.health, now.action) == ("AA", "idle")

        base.until(there, "the copy in sync")

    def stop(self) -> None:
        dm.remove("copy")

    def data(self) -> list[bytes]:
        return [content(leg.node, self._sectors) for leg in self._legs]

    def supers(self) -> list[Super]:
        return [super_of(leg.node) for leg in self._legs]

    def close(self) -> None:
        base.put(TWO_MIRRORS, 0)
        for leg in self._legs:
            leg.remove()
