# SPDX-License-Identifier: GPL-2.0-only
"""The disks of search_mirror.py's world: the media of both legs, and the devices by which the
mirror has them, which hang and fail. A world is a pair of them, with a mirror over it (searchlab).

A way, as a wire, is a dm device. While it hangs it holds what was sent by it; when it is mended,
that arrives at the medium, however late and whatever has come by the other way meanwhile: so does a
session that reconnects. `few`: each way is a SCSI disk over that device whose queue has four
requests: whoever submits to one that hangs waits. What a way holds is lost only when its host loses
its power. The media lose no acknowledged write in a power cut, but with `cached` the remote medium
has a volatile cache. The ways lead to a port of the mirror site then, so that what a session sends
again after a power cut reaches the medium, such as a flush that was held. `larger`: the media are
twice as large as what of them is shown at first. `many`: they are so large that the map has two
pages, and what is between those is `origin`, for a history to lie around.

Each time a World is made its media are; but the SCSI disks stay until end().
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from histories import Refused, needless
from locklab import base, blk, dm, lio, media
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from statelab import (
    LOCAL,
    LOG_SECTORS,
    MAP_PAGE,
    PAGE,
    REMOTE,
    SLOTS,
    Super,
    create,
    superblock,
)

MIB = 1
SECTORS = MIB << 11
EDGE = 104  # the sector of a history that is the first one of the map's second page
MEDIA = {LOCAL: "p-medium", REMOTE: "m-medium"}
SITES = {LOCAL: PRIMARY_SITE, REMOTE: MIRROR_SITE}
WIRES, WAYS, PORT, ERRORS = ("wl", "wm"), ("wa", "wb"), "mp", "errors"
# A request that hangs is older than any timeout; mending its way ends it.
NEVER_MS = 3_600_000
REQUESTS = 4
_tails: list[bytes] = []
_disks: dict[str, str] = {}  # of each way, and what keeps them
_kept = contextlib.ExitStack()


def _disk(way: str) -> str:
    """The disk over a way's device. It stays until the end of the script, and so does the way."""
    if way not in _disks:
        store = lio.iblock(way, f"/dev/mapper/{way}")
        _kept.callback(store.remove)
        node = _kept.enter_context(lio.look(store, len(_disks)))
        device = Path("/sys/block", Path(node).name)
        base.put(device / "device/timeout", 3600)
        base.put(device / "queue/scheduler", "none")
        base.put(device / "queue/nr_requests", REQUESTS)
        _disks[way] = node
    return _disks[way]


def _leg(name: str) -> str:
    """Whose a way or a wire is."""
    return LOCAL if name in WIRES else REMOTE


def end() -> None:
    """Of the script: nothing is left of it."""
    _kept.close()
    for way in _disks:
        dm.remove(way)


class Disks:
    def __init__(self, *, few: bool, cached: set[str], larger: bool, many: bool) -> None:
        self._cached, self._larger = cached, larger
        self._turn = 0
        self._port = False
        self._small = self._size = MAP_PAGE * 3 // 2 if many else SECTORS
        self._map_at = PAGE if many else 0
        self.origin = MAP_PAGE - EDGE if many else 0
        # The slots, the activity log, and the map.
        self.tail = SLOTS + LOG_SECTORS + PAGE + self._map_at
        self.hung: set[str] = set()
        self.keeps: set[str] = set()  # some of what they get
        self.failing: set[str] = set()  # take no writes
        self.unsaid: set[str] = set()  # take no superblock
        self.unread: set[str] = set()  # some of them can't be read
        self.wire, self.way = WIRES[0], WAYS[0]
        self.media: dict[str, str] = {}
        for leg in (LOCAL, REMOTE):
            media.forget(MEDIA[leg])
            self._power_on(leg)
        self._make_legs()
        self._port = REMOTE in cached
        if self._port:
            dm.create(PORT, f"0 {self._size} linear {self.media[REMOTE]} 0")
        for wire in WIRES:
            dm.create(wire, self._linear(LOCAL))
        self.nodes = {}
        for way in WAYS:
            if way in _disks:
                self.mend(way)
            else:
                self.nodes[way] = dm.create(way, self._linear(REMOTE))
            if few:
                self.nodes[way] = _disk(way)

    def _make_legs(self) -> None:
        """lockstep-meta's work is the same each time: it is done once."""
        if not _tails:
            with self.shown() as nodes:
                create(*nodes, "--assume-clean")
            _tails.extend(self.image(leg, self.tail) for leg in MEDIA)
        else:
            for leg, tail in zip(MEDIA, _tails, strict=True):
                self.put(leg, tail)

    def image(self, leg: str, sectors: int = 0) -> bytes:
        """Of a medium's last sectors, or of all of it, as the ways show it."""
        count = sectors or self._size
        with blk.Disk(self.media[leg], write=False) as disk:
            return disk.read(self._size - count, count)

    def put(self, leg: str, image: bytes) -> None:
        """Likewise, at the end."""
        with blk.Disk(self.media[leg]) as disk:
            disk.write(self._size - len(image) // 512, image)
            disk.flush()

    @contextlib.contextmanager
    def shown(self) -> Iterator[list[str]]:
        """Both media, for a moment, as large as the ways show them."""
        if not self._larger:
            yield list(self.media.values())
            return
        names = [f"shown-{leg}" for leg in MEDIA]
        yield [dm.create(name, self._linear(leg)) for name, leg in zip(names, MEDIA, strict=True)]
        for name in names:
            dm.remove(name)

    def super_of(self, leg: str) -> Super:
        with blk.Disk(self.media[leg], write=False) as disk:
            found = superblock(disk.read(self._size - SLOTS, SLOTS))
        assert found, f"{leg} has a superblock"
        return found

    def supers(self) -> list[Super]:
        return [self.super_of(leg) for leg in (LOCAL, REMOTE)]

    def _power_on(self, leg: str) -> None:
        self._turn += 1
        cache = "on" if leg in self._cached else "off"
        words = f"4 site {SITES[leg]} write_cache {cache}"
        self.media[leg] = dm.create(
            f"{MEDIA[leg]}{self._turn}",
            f"0 {self._small << self._larger} media {MEDIA[leg]} ram null {words}",
        )

    def _below(self, leg: str) -> str:
        """What a leg's devices lead to."""
        return f"/dev/mapper/{PORT}" if leg == REMOTE and self._port else self.media[leg]

    def _linear(self, leg: str) -> str:
        return f"0 {self._size} linear {self._below(leg)} 0"

    def _set(self, name: str, table: str) -> None:
        """What a hung one holds goes by the new table."""
        dm.load(name, table)
        if name not in self.hung:
            dm.suspend(name, flush=False)
        self.hung.discard(name)
        self.keeps.discard(name)
        self.failing.discard(name)
        self.unsaid.discard(name)
        self.unread.discard(name)
        dm.resume(name)

    def hang(self, name: str) -> None:
        if name in self.hung:
            raise Refused
        dm.suspend(name, flush=False)
        self.hung.add(name)

    def mend(self, name: str) -> None:
        self._set(name, self._linear(_leg(name)))

    def again(self, name: str) -> None:
        """If it was well all the time that is nothing."""
        needless(name not in self.holding | self.refusing | self.unread)
        self.mend(name)

    def fail(self, name: str) -> None:
        """Writes fail, what was held too. Reads don't: so the leg isn't just away."""
        node = self._below(_leg(name))
        self._set(name, f"0 {self._size} flakey {node} 0 0 36000 1 error_writes")
        self.failing.add(name)

    def fail_late(self, name: str, ms: int, *, reads: bool = False) -> None:
        """Writes and flushes fail after such a time, reads too or not at all. What was held is
        done at once."""
        if name in self.hung:
            raise Refused
        table = f"0 {self._size} error"
        if dm.exists(ERRORS):
            dm.reload(ERRORS, table)
        else:
            dm.create(ERRORS, table)
        bad, well = f"/dev/mapper/{ERRORS} 0 {ms}", f"{self._below(_leg(name))} 0 0"
        self._set(name, f"0 {self._size} delay {bad if reads else well} {bad} {bad}")
        self.failing.add(name)
        self.keeps.add(name)
        if reads:
            self.unread.add(name)

    def drop(self, name: str) -> None:
        """Nothing gets there, what was held is gone."""
        node = self._below(_leg(name))
        self._set(name, f"0 {self._size} flakey {node} 0 0 36000")
        self.failing.add(name)

    def stick(self, name: str, first: int, sectors: int) -> None:
        """Writes to these sectors of the history never return; all else does."""
        node = self._below(_leg(name))
        first += self.origin
        end = first + sectors
        lines = [f"{first} {sectors} delay {node} {first} 0 {node} {first} {NEVER_MS}",
                 f"{end} {self._size - end} linear {node} {end}"]  # fmt: skip
        if first:
            lines.insert(0, f"0 {first} linear {node} 0")
        self._set(name, "\n".join(lines))
        self.keeps.add(name)

    def fail_place(self, name: str, first: int, sectors: int, how: str) -> None:
        """These sectors can't be read, or not be written. All others can."""
        if name in self.hung:
            raise Refused
        node = self._below(_leg(name))
        end = first + sectors
        lines = [f"0 {first} linear {node} 0",
                 f"{first} {sectors} flakey {node} {first} 0 36000 1 {how}"]  # fmt: skip
        if end < self._size:
            lines.append(f"{end} {self._size - end} linear {node} {end}")
        self._set(name, "\n".join(lines))
        if how == "error_reads":
            self.unread.add(name)

    def fail_end(self, name: str, sectors: int) -> None:
        """The sectors at the end, where the superblock is, take no writes: its two slots (SLOTS),
        or the second (SLOT_SECTORS)."""
        self.fail_place(name, self._size - sectors, sectors, "error_writes")
        self.unsaid.add(name)

    def hide_super(self, name: str) -> None:
        """A sector of the superblock's first slot can't be read."""
        self.fail_place(name, self._size - SLOTS, 1, "error_reads")

    def hide_log(self, name: str) -> None:
        """The first sector of the activity log."""
        self.fail_place(name, self._size - SLOTS - LOG_SECTORS, 1, "error_reads")

    def hide_map(self, name: str) -> None:
        """The first sector of the map's last page."""
        start = self.super_of(_leg(name)).map_start
        self.fail_place(name, start + self._map_at, 1, "error_reads")

    def keep_flushes(self, name: str) -> None:
        """Flushes never return; all else does."""
        node = self._below(_leg(name))
        at_once = f"{node} 0 0 {node} 0 0"
        self._set(name, f"0 {self._size} delay {at_once} {node} 0 {NEVER_MS}")
        self.keeps.add(name)

    @property
    def holding(self) -> set[str]:
        """What hangs, wholly or in part."""
        return self.hung | self.keeps

    @property
    def refusing(self) -> set[str]:
        """What takes no writes, or no superblock."""
        return self.failing | self.unsaid

    @property
    def other_wire(self) -> str:
        return WIRES[1 - WIRES.index(self.wire)]

    @property
    def other_way(self) -> str:
        return WAYS[1 - WAYS.index(self.way)]

    def grow(self) -> None:
        """The media show all that they have, where nothing in between keeps its size."""
        if self.hung or self.grown or self._port or _disks or not self._larger:
            raise Refused
        self._size = self._small << 1
        for name in (*WIRES, *WAYS):
            self.mend(name)

    @property
    def grown(self) -> bool:
        return self._size > self._small

    def primary_off(self) -> None:
        """Its power goes, and what it had under way by any way with it."""
        for name in (*WAYS, *WIRES):
            self.drop(name)
        media.cut(SITES[LOCAL], 1)

    def primary_on(self) -> None:
        old = self.media[LOCAL]
        self._power_on(LOCAL)
        for name in (*WAYS, *WIRES):
            self.mend(name)
        dm.remove(old.rpartition("/")[2])

    def local_power_off(self) -> None:
        """The local disk's, and not its host's: what it had in its cache is lost."""
        media.cut(SITES[LOCAL], 1)
        for name in WIRES:
            self.drop(name)

    def local_power_on(self) -> None:
        old = self.media[LOCAL]
        self._power_on(LOCAL)
        for name in WIRES:
            self.mend(name)
        dm.remove(old.rpartition("/")[2])

    def cut_mirror_site(self) -> None:
        """Its power goes and comes back. What was on the way is sent again by who still waits."""
        if self._port:
            self._cut_behind_port()
            return
        hung = set(self.hung)
        for way in WAYS:
            if way not in self.hung:
                self.hang(way)
        media.cut(SITES[REMOTE], 1)
        old = self.media[REMOTE]
        self._power_on(REMOTE)
        for way in WAYS:
            if way in hung:
                dm.load(way, self._linear(REMOTE))  # for its end; it goes on to hang
                dm.resume(way)
                dm.suspend(way, flush=False)
            else:
                self.mend(way)
        dm.remove(old.rpartition("/")[2])

    def _cut_behind_port(self) -> None:
        dm.suspend(PORT, flush=False)
        media.cut(SITES[REMOTE], 1)
        old = self.media[REMOTE]
        self._power_on(REMOTE)
        dm.load(PORT, f"0 {self._size} linear {self.media[REMOTE]} 0")
        dm.resume(PORT)
        for way in WAYS:
            if way not in self.hung:
                self.mend(way)
        dm.remove(old.rpartition("/")[2])

    def close_disks(self) -> None:
        for wire in WIRES:
            dm.remove(wire)
        for way in WAYS:
            if way in _disks:
                self._set(way, f"0 {self._size} error")
            else:
                dm.remove(way)
        if self._port:
            dm.remove(PORT)
        if dm.exists(ERRORS):
            dm.remove(ERRORS)
        for node in self.media.values():
            dm.remove(node.rpartition("/")[2])
