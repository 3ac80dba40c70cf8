# SPDX-License-Identifier: GPL-2.0-only
"""The world that search_mirror.py turns over: a mirror with metadata over two legs whose disks hang
and fail (searchdisks), what is written and read through it, and the oracle.

The media lose no acknowledged write in a power cut, so the oracle knows each sector's newest
version exactly. With OWN["cache"] "on" the remote medium has a volatile cache: the mirror writes
through it, so the oracle is the same; with "trust" it is told not to, which is a control.

OWN["policy"] is the mirror's, at each start. With OWN["log"] "small" its activity log names two
regions. OWN["queue"] "few", OWN["size"] "more" and OWN["map"] "many" are the disks' `few`, `larger`
and `many`. The history's first sector is the disks' `origin`, so with `many` its writes lie where
two pages of the map meet.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from histories import Refused, needless
from locklab import base, blk, dm, mirror
from mirrorlab import FIELDS
from searchdisks import WAYS, WIRES, Disks
from statelab import (
    LOCAL,
    REMOTE,
    Beside,
    History,
    Versions,
    content,
    meta,
    sector,
    source_of,
    version_in,
)

MIRROR, TAKEOVER = "mirror", "takeover"
# Short, as simulated time costs what happens in it: each rejoin of a dead leg is I/O.
TIMEOUT_MS, REJOIN_S = 100, 1
# The oracle looks at what the writes of a history may reach.
LOOK = 128
OWN = {"queue": "none", "cache": "off", "policy": "degrade", "log": "default", "size": "same",
       "map": "one"}  # fmt: skip
CACHED = {"off": set[str](), "on": {REMOTE}, "trust": {REMOTE}, "local": {LOCAL}}
# What a write or a read may end with; the last: the mirror was just removed, to be made anew.
NO_ANSWER = (errno.EIO, errno.ENXIO, errno.ENOENT)
LOG_SLOTS = Path("/sys/module/dm_lockstep/parameters/test_log_slots")


class World(Disks):
    def __init__(self) -> None:
        if OWN["log"] == "small":
            base.put(LOG_SLOTS, 2)
        super().__init__(
            few=OWN["queue"] == "few", cached=CACHED[OWN["cache"]], larger=OWN["size"] == "more",
            many=OWN["map"] == "many",
        )  # fmt: skip
        self.sectors = self.super_of(LOCAL).data_sectors
        self.history = History(LOOK)
        self.versions = Versions()
        self.writes: list[Beside] = []
        self.reads: list[Beside] = []
        self.suspended = False
        self.blocks = OWN["policy"] != "degrade"  # writes may wait, whatever is well
        self.failed_writes = 0
        self.saw_failed = False
        self.node = dm.create(MIRROR, self.table())
        self._first = {leg: self.image(leg, self.tail) for leg in (LOCAL, REMOTE)}

    # The mirror.

    @property
    def nobody_answers(self) -> bool:
        """A leg hangs, and the other one hangs, too, or can't stand in: what is out there holds a
        suspend, as it does on any disk."""
        ways = (self.wire, self.way)
        hangs = [name in self.holding for name in ways]
        if not any(hangs) or not self.there():
            return False
        now = self.status()
        legs = zip(hangs, ways, (now.local, now.remote), strict=True)
        return all(hung or way in self.failing or leg != "A" for hung, way, leg in legs)

    @property
    def local_bad(self) -> bool:
        """The local leg takes no writes, or no superblock."""
        return self.wire in self.refusing

    @property
    def resume_waits(self) -> bool:
        """A resume has to write a superblock, which no leg takes now: one hangs, and the other one
        is bad, or hangs, too."""
        return self.nobody_answers or (self.local_bad and self.way in self.holding)

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

    def still(self) -> bool:
        """Nothing is under way, no leg is away, and the cleaner comes by later than `~` waits."""
        ended = all(one.done for one in self.writes + self.reads)
        if self.holding or not self.there() or not ended:
            return False
        now = self.status()
        return (now.health, now.action) == ("AA", "idle")

    def word(self, field: str) -> str:
        return self.status().rest[FIELDS.index(field)]

    def message(self, text: str) -> None:
        """May be refused, and may wait for a leg to join again: for a try under way and then for
        its own, 10 s each (join.h)."""
        if not self.there():
            raise Refused
        with contextlib.suppress(OSError):
            self.patient(lambda: dm.message(MIRROR, text), text, 22)

    def policy(self, word: str) -> None:
        needless(self.there() and self.word("policy") == word)
        self.message(f"policy {word}")

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
        self._begin(first, count, version, lambda disk: disk.write(self.origin + first, data))

    def zero(self, first: int, count: int) -> None:
        """Likewise."""
        version = self.versions.next()
        self.history.zeroes.add(version)
        self._begin(first, count, version, lambda disk: disk.zero(self.origin + first, count))

    def fill(self, first: int, count: int) -> None:
        """Where the oracle doesn't look, but the legs have to be alike."""
        data = b"".join(sector(self.versions.next(), first + n) for n in range(count))
        node, at = self.node, self.origin + first

        def work() -> None:
            with contextlib.suppress(OSError), blk.Disk(node) as disk:
                disk.write(at, data)

        self.writes.append(Beside(work))

    def _begin(
        self, first: int, count: int, version: int, what: Callable[[blk.Disk], object]
    ) -> None:
        history = self.history
        history.issue(first, count, version)
        history.begin(first, count, version, within=True)
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
            finally:
                history.end(version)

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
                    data = disk.read(self.origin + first, count)
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
        self.history.check(content(self.node, LOOK, self.origin), "seen")

    # Events that take both sites apart.

    def local_well(self) -> None:
        """No table starts on a local leg that can't be written: an admin sees to that first."""
        if self.local_bad:
            self.mend(self.wire)

    def blink(self, sectors: int) -> None:
        """The local leg fails for a moment, in which there is a write, and the end of the remote
        one for a longer one: it can't say that it is alone, or only half-way."""
        if not self.there() or self.suspended or self.local_bad or self.holding:
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

    def lose_local(self, *, power: bool) -> None:
        """A write fails on both legs: the remote one takes no data for a moment, and the local disk
        has lost its power for one; or it is lost for good, as far as the mirror can know. What was
        under way may have got to the local one only, which the remote one misses then."""
        if not all(one.done for one in self.writes):
            raise Refused
        if not self.there() or self.suspended or self.local_bad or self.holding or self.blocks:
            raise Refused
        if self.way in self.refusing or self.status().health != "AA":
            raise Refused
        self.fail(self.way)
        if power:
            self.local_power_off()
        else:
            for wire in WIRES:
                self.drop(wire)
        self.write(112, 8)
        base.until(lambda: self.writes[-1].done, f"a write: {dm.status(MIRROR)}")
        if power:
            self.local_power_on()
        self.mend(self.way)
        if power:
            return
        base.until(lambda: self.status().local == "D" and self.word("standing") == "alone",
                   f"the remote leg goes on: {dm.status(MIRROR)}")  # fmt: skip
        for wire in WIRES:
            self.mend(wire)

    @property
    def room(self) -> int:
        """What both legs have room for."""
        return min(s.map_start for s in self.supers())

    def older(self, leg: str) -> None:
        """A stop, and a leg is put back as it was when the mirror was first started, all zeroes: no
        start takes it, unless it has the same as now. It is what it was then, and is taken."""
        bad = self.holding | self.refusing | self.unread
        much = self.grown or self.origin  # to be put back
        if not self.there() or self.suspended or self.local_bad or bad or much:
            raise Refused
        now = self.status()
        if (now.health, now.action) != ("AA", "idle"):
            raise Refused
        try:
            self.remove()
        except OSError:  # a write has it open
            raise Refused from None
        newest, first = self.image(leg), self._first[leg]
        data = newest[: -len(first)]
        self.put(leg, bytes(len(data)) + first)
        try:
            self.node = dm.create(MIRROR, self.table())
        except OSError:
            self.put(leg, newest)
            self.assemble()
        else:
            base.expect(not any(data), f"an older copy of the {leg} leg is taken")

    def swapped(self) -> None:
        """A table has the legs in each other's place: it is refused, and nothing has happened."""
        if not self.there():
            raise Refused
        table = self.table()
        wire, way = f"/dev/mapper/{self.wire}", self.nodes[self.way]
        words = [{wire: way, way: wire}.get(word, word) for word in table.split(" ")]
        try:
            dm.load(MIRROR, " ".join(words))
        except OSError:
            return
        raise base.Wrong("a table with swapped legs is taken")

    def crash(self) -> None:
        """Of the primary's power, with what was written and read through it."""
        self.primary_off()
        self.history.frozen = True
        if self.suspended:
            self.resume()
        with contextlib.suppress(OSError):
            dm.message(MIRROR, "policy error")
        self.writes_end("writes of a host that is gone", 60)
        self.reads_end("reads of a host that is gone", 60)
        self.remove()
        self.primary_on()
        self.history.frozen = False

    def remove(self) -> None:
        self.patient(lambda: dm.remove(MIRROR), "the end of the mirror")

    def assemble(self) -> None:
        """As the legs say; both branches of a split brain are never there in these histories."""
        if self.wire in self.unread:
            self.mend(self.wire)
        supers = self.supers()
        source = source_of(*supers)
        base.expect(source, f"one of the legs has the data: {supers}")
        self.sectors = max(s.data_sectors for s in supers)
        self.blocks |= OWN["policy"] != "degrade"
        self.node = dm.create(MIRROR, self.table())
        self.history.check(content(self.node, LOOK, self.origin), f"assembled from {source}")

    def _start_again(self) -> None:
        """An admin sees to it first that both legs can be used."""
        self.mend(self.wire)
        if self.way in self.holding:
            self.way = self.other_way
        if self.way in self.holding | self.refusing | self.unread:
            self.mend(self.way)
        self.assemble_patiently()

    def assemble_patiently(self) -> None:
        """It may be refused as long as something is still out to a leg that may have all."""
        try:
            self.assemble()
        except OSError as err:
            base.equal(err.errno, errno.EBUSY, "a start while the leg that has all still drains")
            for name in (*WIRES, *WAYS):
                self.mend(name)
            self.assemble()

    def take_over(self) -> None:
        """The mirror site goes on by itself, if it may, and gives the data back. What the primary
        has read of a write that failed it needn't have (lockstep(8), policy)."""
        if self.saw_failed:
            raise Refused
        local, remote = self.supers()
        if not remote.whole:
            return
        if source_of(local, remote) == LOCAL and local.cur != remote.cur:
            # It is an outdated copy, and an admin who takes it all the same is told so.
            return
        with self.shown() as nodes:
            self._taken_over(nodes, remote.data_sectors)

    def _taken_over(self, nodes: list[str], sectors: int) -> None:
        history = self.history.fork()
        node = dm.create(TAKEOVER, mirror.table("-", nodes[1], sectors=sectors))
        history.check(content(node, LOOK, self.origin), "taken over")
        version = self.versions.next()
        history.issue(104, 2, version)
        with blk.Disk(node) as disk:
            disk.write(self.origin + 104, b"".join(sector(version, 104 + n) for n in range(2)))
        history.ack(104, 2, version, True)
        dm.remove(TAKEOVER)
        self.history = history
        if source_of(*self.supers()) is None:
            meta("resolve", "--keep", REMOTE, *nodes)

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
        """Both media and the oracle, which knows what is below LOOK, at a quiet moment."""
        look = self.sectors if self.grown and not self.origin else 512
        one, two = (content(self.media[leg], look, self.origin) for leg in (LOCAL, REMOTE))
        self.history.check(one[: LOOK * 512], f"{when}: the local medium")
        self.history.check(two[: LOOK * 512], f"{when}: the remote medium", settle=False)
        if one != two:
            at = next(n for n in range(look) if one[n * 512 :][:512] != two[n * 512 :][:512])
            raise base.Wrong(f"{when}: the legs differ, first in sector {at}")

    def judge(self) -> None:
        """Whatever is still on its way comes back as late as it can."""
        if self.suspended:
            if self.resume_waits:
                self._resumed()  # or not, but it ends
                self.mend(self.way)
                self.mend(self.wire)
            self.resume()
        if not self.there():
            self._start_again()
        # The local leg has all, so who hangs holds nobody.
        local_bad = self.local_bad or self.wire in self.hung
        if not (self.blocks or local_bad) and self.status().health[0] == "A":
            self.writes_end("writes while a way hangs")
        # Under another policy a write may wait for the leg that hangs.
        self.message("policy degrade")
        without = self.status().local == "D" and self.word("standing") == "alone"
        if self.wire in self.hung and without and not self.holding & set(WAYS):
            self.reads_end("reads while the local leg hangs")
        self.mend(self.wire)
        if self.way not in self.hung:
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
        self.close_disks()
