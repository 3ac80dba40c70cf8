# SPDX-License-Identifier: GPL-2.0-only
"""The world that search_mirror.py turns over: a mirror with metadata, its local medium at the
primary, its remote medium at the mirror site, and two ways to that, as two sessions are. To the
local medium there are two wires, as two paths of a multipath disk are.

A way, as a wire, is a dm device. While it hangs it holds what was sent by it; when it is mended,
that arrives at the medium, however late and whatever has come by the other way meanwhile: so does a
session that reconnects. With OWN["queue"] "few" each way is a SCSI disk over that device whose
queue has four requests: whoever submits to one that hangs waits. What a way holds is lost only when
its host loses its power. The media lose no acknowledged write in a power cut, so the oracle knows
each sector's newest version exactly. With OWN["cache"] "on" the remote medium has a volatile cache:
the mirror writes through it, so the oracle is the same; with "trust" it is told not to, which is a
control. The ways lead to a port of the mirror site then, so that what a session sends again after a
power cut reaches the medium, such as a flush that was held.

OWN["policy"] is the mirror's, at each start. With OWN["log"] "small" its activity log names two
regions. With OWN["size"] "more" the media are twice as large as what of them is shown at first.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from histories import Refused
from locklab import base, blk, dm, lio, media, mirror
from locklab.media import MIRROR_SITE, PRIMARY_SITE
from mirrorlab import FIELDS
from statelab import (
    LOCAL,
    REMOTE,
    SLOTS,
    Beside,
    History,
    Super,
    Versions,
    content,
    create,
    meta,
    sector,
    source_of,
    superblock,
    version_in,
)

MIB = 1
SECTORS = MIB << 11
MEDIA = {LOCAL: "p-medium", REMOTE: "m-medium"}
SITES = {LOCAL: PRIMARY_SITE, REMOTE: MIRROR_SITE}
WIRES, WAYS, PORT = ("wl", "wm"), ("wa", "wb"), "mp"
MIRROR, TAKEOVER = "mirror", "takeover"
# Short, as simulated time costs what happens in it: each rejoin of a dead leg is I/O.
TIMEOUT_MS, REJOIN_S = 100, 1
# A request that hangs is older than any timeout; mending its way ends it.
NEVER_MS = 3_600_000
# The oracle looks at what the writes of a history may reach.
LOOK = 128
OWN = {"queue": "none", "cache": "off", "policy": "degrade", "log": "default", "size": "same"}
# What a write or a read may end with; the last: the mirror was just removed, to be made anew.
NO_ANSWER = (errno.EIO, errno.ENXIO, errno.ENOENT)
LOG_SLOTS = Path("/sys/module/dm_lockstep/parameters/test_log_slots")
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


def end() -> None:
    """Of the script: nothing is left of it."""
    _kept.close()
    for way in _disks:
        dm.remove(way)


class World:
    def __init__(self) -> None:
        self._turn = 0
        self._port = False
        self._hung: set[str] = set()
        self._keeps: set[str] = set()  # some of what they get
        self.failing: set[str] = set()  # take no writes
        self.unsaid: set[str] = set()  # take no superblock
        self._size = SECTORS
        if OWN["log"] == "small":
            base.put(LOG_SLOTS, 2)
        self.wire, self.way = WIRES[0], WAYS[0]
        self.media: dict[str, str] = {}
        for leg in (LOCAL, REMOTE):
            media.forget(MEDIA[leg])
            self._power_on(leg)
        self._make_legs()
        self._port = OWN["cache"] != "off"
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
            if OWN["queue"] == "few":
                self.nodes[way] = _disk(way)
        self.sectors = self._super(LOCAL).data_sectors
        self.history = History(LOOK)
        self.versions = Versions()
        self.writes: list[Beside] = []
        self.reads: list[Beside] = []
        self.suspended = False
        self.blocks = OWN["policy"] != "degrade"  # writes may wait, whatever is well
        self.local_bad = False
        self.failed_writes = 0
        self.saw_failed = False
        self.node = dm.create(MIRROR, self.table())

    # Devices.

    def _make_legs(self) -> None:
        """lockstep-meta's work is the same each time: it is done once."""
        at = SECTORS - SLOTS - 40
        if not _tails:
            with self._shown() as nodes:
                create(*nodes, "--assume-clean")
                for node in nodes:
                    with blk.Disk(node) as disk:
                        _tails.append(disk.read(at, SLOTS + 40))
        else:
            for node, tail in zip(self.media.values(), _tails, strict=True):
                with blk.Disk(node) as disk:
                    disk.write(at, tail, fua=True)

    @contextlib.contextmanager
    def _shown(self) -> Iterator[list[str]]:
        """Both media, for a moment, as large as the ways show them."""
        if OWN["size"] == "same":
            yield list(self.media.values())
            return
        names = [f"shown-{leg}" for leg in MEDIA]
        yield [dm.create(name, self._linear(leg)) for name, leg in zip(names, MEDIA, strict=True)]
        for name in names:
            dm.remove(name)

    def _super(self, leg: str) -> Super:
        with blk.Disk(self.media[leg], write=False) as disk:
            found = superblock(disk.read(self._size - SLOTS, SLOTS))
        assert found, f"{leg} has a superblock"
        return found

    def _supers(self) -> list[Super]:
        return [self._super(leg) for leg in (LOCAL, REMOTE)]

    def _power_on(self, leg: str) -> None:
        self._turn += 1
        cache = "on" if leg == REMOTE and OWN["cache"] != "off" else "off"
        words = f"4 site {SITES[leg]} write_cache {cache}"
        self.media[leg] = dm.create(
            f"{MEDIA[leg]}{self._turn}",
            f"0 {SECTORS << (OWN['size'] == 'more')} media {MEDIA[leg]} ram null {words}",
        )

    def _below(self, leg: str) -> str:
        """What a leg's devices lead to."""
        return f"/dev/mapper/{PORT}" if leg == REMOTE and self._port else self.media[leg]

    def _linear(self, leg: str) -> str:
        return f"0 {self._size} linear {self._below(leg)} 0"

    def _set(self, name: str, table: str) -> None:
        """What a hung one holds goes by the new table."""
        dm.load(name, table)
        if name not in self._hung:
            dm.suspend(name, flush=False)
        self._hung.discard(name)
        self._keeps.discard(name)
        self.failing.discard(name)
        self.unsaid.discard(name)
        dm.resume(name)

    def hang(self, name: str) -> None:
        if name in self._hung:
            raise Refused
        dm.suspend(name, flush=False)
        self._hung.add(name)

    def hangs(self, name: str) -> bool:
        return name in self._hung

    def local_well(self) -> None:
        """No table starts on a local leg that can't be written: an admin sees to that first."""
        if self.local_bad:
            self.mend(self.wire)
            self.local_bad = False

    def mend(self, name: str) -> None:
        self._set(name, self._linear(LOCAL if name in WIRES else REMOTE))

    def fail(self, name: str) -> None:
        """Writes fail, what was held too. Reads don't: so the leg isn't just away."""
        node = self._below(LOCAL if name in WIRES else REMOTE)
        self._set(name, f"0 {self._size} flakey {node} 0 0 36000 1 error_writes")
        self.failing.add(name)

    def drop(self, name: str) -> None:
        """Nothing gets there, what was held is gone."""
        node = self._below(LOCAL if name in WIRES else REMOTE)
        self._set(name, f"0 {self._size} flakey {node} 0 0 36000")
        self.failing.add(name)

    def stick(self, name: str, first: int, sectors: int) -> None:
        """Writes to these sectors never return; all else does."""
        node = self._below(LOCAL if name in WIRES else REMOTE)
        end = first + sectors
        lines = [f"{first} {sectors} delay {node} {first} 0 {node} {first} {NEVER_MS}",
                 f"{end} {self._size - end} linear {node} {end}"]  # fmt: skip
        if first:
            lines.insert(0, f"0 {first} linear {node} 0")
        self._set(name, "\n".join(lines))
        self._keeps.add(name)

    def fail_end(self, name: str, sectors: int, how: str = "error_writes") -> None:
        """The first or the only sectors of so many at the end, where the superblock is: its two
        slots (SLOTS), or the second (SLOT_SECTORS). The rest is as it was made."""
        if name in self._hung:
            raise Refused
        node = self._below(LOCAL if name in WIRES else REMOTE)
        start = self._size - sectors
        bad = 1 if how == "error_reads" else sectors
        lines = [f"0 {start} linear {node} 0",
                 f"{start} {bad} flakey {node} {start} 0 36000 1 {how}"]  # fmt: skip
        if bad < sectors:
            lines.append(f"{start + bad} {sectors - bad} linear {node} {start + bad}")
        self._set(name, "\n".join(lines))
        if how == "error_writes":
            self.unsaid.add(name)

    def blink(self, sectors: int) -> None:
        """The local leg fails for a moment, in which there is a write, and the end of the remote
        one for a longer one: it can't say that it is alone, or only half-way."""
        if not self.there() or self.suspended or self.local_bad or self._hung | self._keeps:
            raise Refused
        if self.status().health != "AA":
            raise Refused
        self.fail_end(self.way, sectors)
        self.fail(self.wire)
        self.write(112, 8)
        base.until(lambda: self.writes[-1].done, f"a write: {dm.status(MIRROR)}")
        self.mend(self.wire)
        try:
            base.until(lambda: "D" not in self.status().health, "a leg that misses nothing",
                       3 * REJOIN_S)  # fmt: skip
        except base.Wrong:
            # Before it is a target the other one has to take the map (life.h).
            now = self.status()
            if now.in_sync == now.regions:
                raise
        self.mend(self.way)

    def keep_flushes(self, name: str) -> None:
        """Flushes never return; all else does."""
        node = self._below(LOCAL if name in WIRES else REMOTE)
        at_once = f"{node} 0 0 {node} 0 0"
        self._set(name, f"0 {self._size} delay {at_once} {node} 0 {NEVER_MS}")
        self._keeps.add(name)

    @property
    def nobody_answers(self) -> bool:
        """A leg hangs, and the other one hangs, too, or can't stand in: what is out there holds a
        suspend, as it does on any disk."""
        ways = (self.wire, self.way)
        hangs = [name in self._hung | self._keeps for name in ways]
        if not any(hangs) or not self.there():
            return False
        now = self.status()
        legs = zip(hangs, ways, (now.local, now.remote), strict=True)
        return all(hung or way in self.failing or leg != "A" for hung, way, leg in legs)

    @property
    def other_wire(self) -> str:
        return WIRES[1 - WIRES.index(self.wire)]

    @property
    def other_way(self) -> str:
        return WAYS[1 - WAYS.index(self.way)]

    # The mirror.

    def table(self, way: str | None = None, wire: str | None = None) -> str:
        return mirror.table(
            f"/dev/mapper/{wire or self.wire}", self.nodes[way or self.way],
            "remote_timeout", TIMEOUT_MS, "local_timeout", TIMEOUT_MS, "rejoin", REJOIN_S,
            "resync_pace", "full",
            *(("policy", OWN["policy"]) if OWN["policy"] != "degrade" else ()),
            *(("remote_cache", "trust") if OWN["cache"] == "trust" else ()), sectors=self.sectors,
        )  # fmt: skip

    def there(self) -> bool:
        return dm.exists(MIRROR)

    def status(self) -> mirror.Status:
        return mirror.parse(dm.status(MIRROR))

    def word(self, field: str) -> str:
        return self.status().rest[FIELDS.index(field)]

    def message(self, text: str) -> None:
        """May be refused, and may wait for a leg: to join again, for 10 s (join.h)."""
        if not self.there():
            raise Refused
        with contextlib.suppress(OSError):
            self.patient(lambda: dm.message(MIRROR, text), text, 11)

    def patient(self, work: Callable[[], object], what: str, seconds: float = 10) -> None:
        """Whatever a leg does, an administrator's word ends."""
        beside = Beside(work)
        try:
            base.until(lambda: beside.done, what, seconds)
        except base.Wrong as err:
            raise base.Wrong(f"{err}; {dm.status(MIRROR)}") from None
        beside.result()

    def resume(self) -> None:
        """Refused while a leg hasn't answered, which it does in time or never."""
        base.until(self._resumed, "to be resumed", 10)
        self.suspended = False

    def _resumed(self) -> bool:
        try:
            self.patient(lambda: dm.resume(MIRROR), "resume")
        except OSError as err:
            base.equal(err.errno, errno.EBUSY, "a resume")
            return False
        return True

    # Writes.

    def write(self, first: int, count: int) -> None:
        """Begun; it ends when it can."""
        version = self.versions.next()
        data = b"".join(sector(version, first + n) for n in range(count))
        self._begin(first, count, version, lambda disk: disk.write(first, data))

    def zero(self, first: int, count: int) -> None:
        """Likewise."""
        version = self.versions.next()
        self.history.zeroes.add(version)
        self._begin(first, count, version, lambda disk: disk.zero(first, count))

    def fill(self, first: int, count: int) -> None:
        """Where the oracle doesn't look, but the legs have to be alike."""
        data = b"".join(sector(self.versions.next(), first + n) for n in range(count))
        node = self.node

        def work() -> None:
            with contextlib.suppress(OSError), blk.Disk(node) as disk:
                disk.write(first, data)

        self.writes.append(Beside(work))

    def _begin(
        self, first: int, count: int, version: int, what: Callable[[blk.Disk], object]
    ) -> None:
        history = self.history
        history.issue(first, count, version)
        node = self.node

        def work() -> None:
            try:
                with blk.Disk(node) as disk:
                    what(disk)
            except OSError as err:
                base.expect(err.errno in NO_ANSWER, f"a write: {err}")
                self.failed_writes += 1
            else:
                history.ack(first, count, version, True)

        self.writes.append(Beside(work))

    def writes_end(self, what: str, seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        for one in self.writes:
            base.until(partial(getattr, one, "done"), what, max(0.0, end - time.monotonic()))
            one.result()
        self.writes.clear()

    def look(self, first: int, count: int) -> None:
        """A read, begun; what it gets is no older than what was acknowledged by now."""
        history, node = self.history, self.node
        acked = history.acked[first : first + count]

        def work() -> None:
            try:
                with blk.Disk(node, write=False) as disk:
                    data = disk.read(first, count)
            except OSError as err:
                base.expect(err.errno in NO_ANSWER, f"a read: {err}")
                return
            for n in range(count):
                at, raw = first + n, data[n * 512 : n * 512 + 512]
                ever = {v for v in history.ever[at] if v >= acked[n]}
                version = version_in(raw, 0)
                if not any(raw):
                    legal = bool(history.zeroes & ever)
                else:
                    legal = raw == sector(version, at) and version in ever
                base.expect(legal, f"a read: sector {at} holds version {version}, of {ever}")

        self.reads.append(Beside(work))

    def reads_end(self, what: str, seconds: float = 10) -> None:
        for one in self.reads:
            base.until(partial(getattr, one, "done"), what, seconds)
            one.result()
        self.reads.clear()

    def see(self) -> None:
        """A read when every write has ended, maybe with an error: what it gets stays. Not if the
        leg that is left can't say that it is (standing.h)."""
        ended = all(one.done for one in self.writes)
        if not ended or not self.there() or self.suspended or self.nobody_answers:
            raise Refused
        if self.word("standing") == "parting":
            raise Refused
        try:
            self.patient(self._see, "a read")
        except OSError:
            raise Refused from None
        self.saw_failed |= self.failed_writes > 0

    def _see(self) -> None:
        self.history.check(content(self.node, LOOK), "seen")

    # Events that take both sites apart.

    def grow(self) -> None:
        """The media show all that they have, where nothing in between keeps its size."""
        if self._hung or self.grown or self._port or _disks or OWN["size"] == "same":
            raise Refused
        self._size = SECTORS << 1
        for name in (*WIRES, *WAYS):
            self.mend(name)

    @property
    def grown(self) -> bool:
        return self._size > SECTORS

    @property
    def room(self) -> int:
        """What both legs have room for."""
        return min(s.map_start for s in self._supers())


    def crash(self) -> None:
        """The primary's power goes, and what it had under way by any way with it."""
        for name in (*WAYS, *WIRES):
            self._set(name, f"0 {self._size} flakey {self._below(REMOTE)} 0 0 36000")
        self.history.frozen = True
        media.cut(SITES[LOCAL], 1)
        if self.suspended:
            self.resume()
        with contextlib.suppress(OSError):
            dm.message(MIRROR, "policy error")
        self.writes_end("writes of a host that is gone", 60)
        self.reads_end("reads of a host that is gone", 60)
        self.remove()
        old = self.media[LOCAL]
        self._power_on(LOCAL)
        for name in (*WAYS, *WIRES):
            self.mend(name)
        dm.remove(old.rpartition("/")[2])
        self.history.frozen = False

    def remove(self) -> None:
        self.patient(lambda: dm.remove(MIRROR), "the end of the mirror")

    def assemble(self) -> None:
        """As the legs say; both branches of a split brain are never there in these histories."""
        supers = self._supers()
        source = source_of(*supers)
        base.expect(source, f"one of the legs has the data: {supers}")
        self.sectors = max(s.data_sectors for s in supers)
        self.blocks |= OWN["policy"] != "degrade"
        self.node = dm.create(MIRROR, self.table())
        self.history.check(content(self.node, LOOK), f"assembled from {source}")

    def take_over(self) -> None:
        """The mirror site goes on by itself, if it may, and gives the data back. What the primary
        has read of a write that failed it needn't have (lockstep(8), policy)."""
        if self.saw_failed:
            raise Refused
        local, remote = self._supers()
        if not remote.whole:
            return
        if source_of(local, remote) == LOCAL and local.cur != remote.cur:
            # It is an outdated copy, and an admin who takes it all the same is told so.
            return
        with self._shown() as nodes:
            self._taken_over(nodes, remote.data_sectors)

    def _taken_over(self, nodes: list[str], sectors: int) -> None:
        history = self.history.fork()
        node = dm.create(TAKEOVER, mirror.table("-", nodes[1], sectors=sectors))
        history.check(content(node, LOOK), "taken over")
        version = self.versions.next()
        history.issue(104, 2, version)
        with blk.Disk(node) as disk:
            disk.write(104, b"".join(sector(version, 104 + n) for n in range(2)))
        history.ack(104, 2, version, True)
        dm.remove(TAKEOVER)
        self.history = history
        if source_of(*self._supers()) is None:
            meta("resolve", "--keep", REMOTE, *nodes)

    def cut_mirror_site(self) -> None:
        """Its power goes and comes back. What was on the way is sent again by who still waits."""
        if self._port:
            self._cut_behind_port()
            return
        hung = set(self._hung)
        for way in WAYS:
            if way not in self._hung:
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
            if way not in self._hung:
                self.mend(way)
        dm.remove(old.rpartition("/")[2])

    # The verdict.

    def settle(self, what: str, seconds: float = 30) -> bool:
        """Back in sync by the way that the mirror has? If not, the other has to be well first."""

        def synced() -> bool:
            now = self.status()
            if "told" in now.rest or now.action == "stalled":
                with contextlib.suppress(OSError):
                    dm.message(MIRROR, "recover" if "told" in now.rest else "resync")
            return (now.health, now.action) == ("AA", "idle")

        try:
            base.until(synced, what, seconds)
        except base.Wrong:
            return False
        return True

    def alike(self, when: str) -> None:
        """Both media and the oracle, at a quiet moment."""
        look = self.sectors if self.grown else 512
        one, two = (content(self.media[leg], look) for leg in (LOCAL, REMOTE))
        self.history.check(one, f"{when}: the local medium")
        self.history.check(two, f"{when}: the remote medium", settle=False)
        if one != two:
            at = next(n for n in range(look) if one[n * 512 :][:512] != two[n * 512 :][:512])
            raise base.Wrong(f"{when}: the legs differ, first in sector {at}")

    def judge(self) -> None:
        """Whatever is still on its way comes back as late as it can."""
        if self.suspended:
            way_hangs = self.way in self._hung | self._keeps
            if self.nobody_answers or (self.local_bad and way_hangs):
                self._resumed()  # or not, but it ends
                self.mend(self.way)
                self.mend(self.wire)
            self.resume()
        if not self.there():
            self.assemble()
        # The local leg has all, so who hangs holds nobody.
        local_bad = self.local_bad or self.wire in self._hung
        if not (self.blocks or local_bad) and self.status().health[0] == "A":
            self.writes_end("writes while a way hangs")
        # Under another policy a write may wait for the leg that hangs.
        self.message("policy degrade")
        without = self.status().local == "D" and self.word("standing") == "alone"
        if self.wire in self._hung and without and not self._hung & set(WAYS):
            self.reads_end("reads while the local leg hangs")
        self.mend(self.wire)
        if self.way not in self._hung:
            self.mend(self.way)
        # A write that is still waiting may be about to find out that the leg hangs.
        time.sleep(3 * TIMEOUT_MS / 1000)
        if self.settle("in sync while a way still hangs", 6):
            self.writes_end("writes of a mirror in sync")
        # One that had waited for room in the map may have found out just now.
        if self.settle("still in sync", 0):
            self.alike("in sync")
            self.write(100, 12)
            self.writes_end("a write of a mirror in sync")
        for name in (*WIRES, *WAYS):
            self.mend(name)
        if not self.settle("in sync"):
            raise base.Wrong(f"everything is well, and it isn't in sync: {dm.status(MIRROR)}")
        self.writes_end("writes once all is well")
        self.reads_end("reads once all is well")
        time.sleep(0.05)
        self.alike("all that was late has come")
        self.write(100, 12)
        self.writes_end("a last write")
        base.expect(self.status().health == "AA", f"in sync to the end: {dm.status(MIRROR)}")
        self.alike("the end")

    def let_go(self) -> None:
        """It went wrong: whoever waits for a leg is to end, or the script couldn't."""
        print(f"status: {dm.status(MIRROR) if dm.exists(MIRROR) else 'no mirror'}", flush=True)
        for name in (*WIRES, *WAYS):
            with contextlib.suppress(OSError):
                self.mend(name)
        with contextlib.suppress(OSError):
            dm.resume(MIRROR)

    def close(self) -> None:
        self.remove()
        for wire in WIRES:
            dm.remove(wire)
        for way in WAYS:
            if way in _disks:
                self._set(way, f"0 {self._size} error")
            else:
                dm.remove(way)
        if self._port:
            dm.remove(PORT)
        for node in self.media.values():
            dm.remove(node.rpartition("/")[2])
