# SPDX-License-Identifier: GPL-2.0-only
"""A read-only table stands by while another host has the mirror, and is made a writable one then.

  crash    that one has crashed amid a write, which only its local leg has: the legs are the same
  local    it has lost its local leg, and stopped, or crashed: the table is refused
  remote   likewise its remote one
  unread   the leg that it went on with can't be read just then: likewise
  given_up nor could it for a while before
  drains   likewise, and what it had asked that leg for is under way yet
  demoted  the wire fails as one host's table becomes a read-only one, and the other site goes on
  split    likewise before, so both have said that they went on: neither is overwritten
  blocked  likewise, and nothing was acknowledged without the other leg
  dead_before  one host's leg is dead before its table only reads: it stays so
  target   likewise, and it misses what the other one has, which doesn't say that it is alone
  foreign  likewise, and it has come back as another mirror's
  hung     likewise, and it hangs when the table is made a writable one: nobody asks it
  told     it was failed by hand while its table only read: it is looked at again

Arguments: parts (all of them if there are none).
"""

from __future__ import annotations

import contextlib
import threading

from locklab import base, blk, dm, mirror, ram
from statelab import LOCAL, REMOTE, SYNC, TARGET, Beside, create
from statelegs import TWO_MIRRORS, Leg, Pair

AT = 512
PATIENT = ("remote_timeout", 60000, "local_timeout", 2000)
THEIRS = blk.pattern("theirs", 8)


def there_now(leg: Leg) -> bytes:
    return leg.image()[AT * blk.SECTOR : (AT + 8) * blk.SECTOR]


class Standby:
    """Two hosts: the mirror of the other one is "there", this one's table is read-only."""

    def __init__(self) -> None:
        self.pair = pair = Pair(*PATIENT, "rejoin", 1)
        pair.put(0)
        pair.in_sync()
        pair.stop()
        base.put(TWO_MIRRORS, 1)
        self.ways = [self._way(leg, "linear") for leg in pair.legs.values()]
        nodes = [dm.create(f"way{leg.name}", way) for leg, way in self.both()]
        self.there = dm.create("there", mirror.table(*nodes, *PATIENT, sectors=pair.sectors))
        dm.create(pair.name, pair.table(), readonly=True)

    @staticmethod
    def _way(leg: Leg, how: str) -> str:
        return f"0 {leg.disk.sectors} {how}" + (f" {leg.disk.node} 0" if how == "linear" else "")

    def both(self) -> list[tuple[Leg, str]]:
        return list(zip(self.pair.legs.values(), self.ways, strict=True))

    def lose(self, leg: Leg) -> None:
        """The other host's way to it."""
        dm.load(f"way{leg.name}", self._way(leg, "error"))
        if not dm.suspended(f"way{leg.name}"):
            dm.suspend(f"way{leg.name}", flush=False)
        dm.resume(f"way{leg.name}")

    def becomes_writable(self) -> None:
        dm.load(self.pair.name, self.pair.table())
        dm.suspend(self.pair.name)
        dm.resume(self.pair.name)

    def end(self) -> None:
        if dm.exists("there"):
            dm.remove("there")
        self.pair.close()
        for leg, _ in self.both():
            dm.remove(f"way{leg.name}")
        base.put(TWO_MIRRORS, 0)


def crash() -> None:
    base.step("a read-only table, whose mirror crashes on another host, is made a writable one")
    it = Standby()
    pair = it.pair

    def write() -> None:
        with contextlib.suppress(OSError), blk.Disk(it.there) as disk:
            disk.write(AT, THEIRS)

    dm.suspend(f"way{pair.remote.name}", flush=False)
    writer = threading.Thread(target=write)
    writer.start()
    base.until(lambda: there_now(pair.local) == THEIRS, "the local leg to have it")
    it.lose(pair.remote)
    it.lose(pair.local)
    writer.join()
    size = pair.sectors * blk.SECTOR
    base.expect(pair.local.image()[:size] != pair.remote.image()[:size], "the legs are alike yet")
    it.becomes_writable()
    pair.in_sync()
    base.expect(pair.local.image()[:size] == pair.remote.image()[:size], "the legs differ")
    it.end()


def refused(it: Standby, what: str) -> None:
    try:
        it.becomes_writable()
    except OSError as err:
        print(f"  {what}: {err.strerror}", flush=True)
        return
    raise base.Wrong(f"{what}: it goes on with {dm.status(it.pair.name)}")


def alone(name: str, how: str, unread: bool = False) -> None:
    """The other host goes on without this leg, and ends."""
    base.step(f"the mirror has gone on without its {name} leg, and {how}")
    it = Standby()
    lost, good = it.pair.legs[name], it.pair.legs[REMOTE if name == LOCAL else LOCAL]
    it.lose(lost)
    with blk.Disk(it.there) as disk:
        disk.write(AT, THEIRS, fua=True)
    if how == "crashed":
        it.lose(good)
    dm.remove("there")
    if unread:
        good.gone()
    refused(it, "a table that stood by is made a writable one")
    good.well()
    anew(it)


def anew(it: Standby) -> None:
    refused(it, "once all is well")
    dm.remove(it.pair.name)
    it.pair.start()
    with blk.Disk(it.pair.node) as disk:
        base.expect(disk.read(AT, 8) == THEIRS, "what was acknowledged isn't there")
    it.pair.in_sync()
    it.pair.same()
    it.end()


def local() -> None:
    for how in ("stopped", "crashed"):
        alone(LOCAL, how)


def remote() -> None:
    for how in ("stopped", "crashed"):
        alone(REMOTE, how)


def gives_up(*, drains: bool) -> None:
    """By the table that stands by, as the way to it hung."""
    base.step("a table that stands by has given up the leg with which another host goes on")
    it = Standby()
    lost, good = it.pair.legs[REMOTE], it.pair.legs[LOCAL]
    good.hang()
    it.lose(lost)
    with blk.Disk(it.there) as disk:
        disk.write(AT, THEIRS, fua=True)

    def read() -> None:
        with contextlib.suppress(OSError), blk.Disk(it.pair.node, write=False) as disk:
            disk.read(AT, 8)

    reader = threading.Thread(target=read)
    reader.start()
    base.until(lambda: it.pair.status().health == "DA", "the leg to be given up")
    dm.remove("there")
    if drains:
        refused(it, "while that is under way")
    good.wake()
    reader.join()
    anew(it)


def given_up() -> None:
    gives_up(drains=False)


def drains() -> None:
    gives_up(drains=True)


def becomes_read_only(pair: Pair) -> None:
    dm.load(pair.name, pair.table(), readonly=True)
    dm.suspend(pair.name)
    dm.resume(pair.name)


def demotes(policy: str, *, writes: bool = False, said: bool = False) -> None:
    """One host's wire to the other site fails, and its table only reads from then on; the other
    site goes on, as its admin says. `said`: the first one has said before that it does."""
    pair = Pair(*PATIENT, "rejoin", 1, "policy", policy)
    pair.put(0)
    pair.put(AT)
    pair.in_sync()
    base.put(TWO_MIRRORS, 1)
    far = pair.remote

    def write() -> None:
        with contextlib.suppress(OSError), blk.Disk(pair.node) as disk:
            disk.write(64, blk.pattern("held", 8), fua=True)

    writer = threading.Thread(target=write)
    dm.load(pair.name, pair.table(), readonly=True)
    if writes:
        far.gone()
        writer.start()
        base.until(lambda: pair.status().health == "AD", "the leg to be given up")
    if said:
        far.gone()
    dm.suspend(pair.name)
    far.gone()
    dm.resume(pair.name)
    if writes:
        writer.join()
    way = dm.create("way", f"0 {far.disk.sectors} linear {far.disk.node} 0")
    there = dm.create("there", mirror.table("-", way, *PATIENT, sectors=pair.sectors))
    with blk.Disk(there) as disk:
        disk.write(AT, THEIRS, fua=True)
    dm.remove("there")
    dm.remove("way")
    far.well()
    dm.load(pair.name, pair.table())
    if not dm.suspended(pair.name):
        dm.suspend(pair.name)
    if said:
        dm.resume(pair.name)
        pair.wait("AD", "alone")
        pair.check("split")
        base.until(lambda: pair.word("why") == "diverged", "the split brain to be told")
        base.expect(there_now(far) == THEIRS, "the other site's history is overwritten")
    else:
        try:
            dm.resume(pair.name)
        except OSError as err:
            print(f"  a writable table: {err.strerror}", flush=True)
        else:
            raise base.Wrong(f"a writable table: it goes on with {dm.status(pair.name)}")
        dm.remove(pair.name)
        pair.start()
        with blk.Disk(pair.node) as disk:
            base.expect(disk.read(AT, 8) == THEIRS, "what was acknowledged isn't there")
        pair.in_sync()
        pair.same()
    pair.close()
    base.put(TWO_MIRRORS, 0)


def demoted() -> None:
    base.step("the wire fails as a table becomes a read-only one, and the other site goes on")
    demotes("degrade")


def split() -> None:
    base.step("likewise before that, and both say that they went on")
    demotes("degrade", said=True)


def blocked() -> None:
    for policy in ("block", "error"):
        base.step(f"likewise, beside a write, by policy {policy}")
        demotes(policy, writes=True)


def flips(pair: Pair) -> None:
    """Its table only reads for a while."""
    becomes_read_only(pair)
    becomes_writable(pair)


def becomes_writable(pair: Pair) -> None:
    dm.load(pair.name, pair.table())
    dm.suspend(pair.name)
    beside = Beside(lambda: dm.resume(pair.name))
    base.until(lambda: beside.done, "a writable table", 1)
    beside.result()


def dead_before() -> None:
    for how in ("told", "failed"):
        base.step(f"a leg that was {how} before a table only read is so afterwards")
        pair = Pair(*PATIENT, "rejoin", 0)
        pair.put(0)
        pair.in_sync()
        if how == "told":
            pair.message("fail local")
        else:
            pair.local.gone()
            pair.put(8)
        pair.wait("DA", "alone")
        flips(pair)
        pair.wait("DA", "alone")
        pair.put(16)
        pair.local.well()
        pair.message("recover local")
        pair.good_end(how)
        pair.close()


def target() -> None:
    for how in ("gone", "told", "hangs"):
        base.step(f"the remote leg is {how} amid its resync, and a table only reads then")
        pair = Pair("remote_timeout", 2000, "rejoin", 1, "resync_rate", 1)
        pair.in_sync()
        pair.put(0)
        crashed = [leg.image() for leg in pair.legs.values()]
        pair.stop()
        for leg, image in zip(pair.legs.values(), crashed, strict=True):
            leg.put(image)
        pair.start()
        base.equal(pair.status().health, "Aa", "a resync")
        if how == "gone":
            pair.remote.gone()
        elif how == "hangs":
            pair.remote.hang()
        else:
            pair.message("fail remote")
        pair.put(8)
        base.equal([leg.super.state for leg in pair.legs.values()], [SYNC, TARGET], "the legs")
        flips(pair)
        pair.put(16)
        if how == "hangs":
            pair.remote.wake()
        pair.remote.well()
        pair.message("resync_rate 0")
        pair.message("recover")
        pair.good_end(how)
        pair.close()


def foreign() -> None:
    for name in (LOCAL, REMOTE):
        base.step(f"the {name} leg comes back as another mirror's, and a table only reads then")
        pair = Pair("remote_timeout", 2000, "rejoin", 1)
        pair.put(0)
        pair.in_sync()
        leg = pair.legs[name]
        leg.gone()
        pair.put(8)
        spare = ram.Ram("spare", 1)
        nodes = (leg.disk.node, spare.node)
        create(*(nodes if name == LOCAL else reversed(nodes)), "--assume-clean", "--force")
        leg.well()
        base.until(lambda: pair.word("why") == "foreign", "it to be known")  # noqa: B023
        flips(pair)
        pair.put(16)
        pair.check("foreign")
        pair.close()
        spare.remove()


def hung() -> None:
    for name in (LOCAL, REMOTE):
        base.step(f"the {name} leg is failed by hand, and hangs when the table has only read")
        pair = Pair("rejoin", 0)
        pair.put(0)
        pair.in_sync()
        pair.message(f"fail {name}")
        pair.put(8)
        pair.legs[name].hang()
        flips(pair)
        pair.put(16)
        pair.legs[name].wake()
        pair.message("recover")
        pair.good_end(name)
        pair.close()


def told() -> None:
    """While it only read: no leg says so."""
    base.step("a leg is failed by hand in a table that only reads")
    pair = Pair(*PATIENT)
    pair.put(0)
    pair.in_sync()
    becomes_read_only(pair)
    pair.message("fail local")
    pair.wait("DA", "alone")
    becomes_writable(pair)
    pair.put(8)
    pair.good_end("told")
    pair.close()
    base.step("likewise, and another host goes on with it alone")
    it = Standby()
    it.pair.message("fail local")
    it.pair.wait("DA", "alone")
    it.lose(it.pair.remote)
    with blk.Disk(it.there) as disk:
        disk.write(AT, THEIRS, fua=True)
    dm.remove("there")
    anew(it)


def unread() -> None:
    for name in (LOCAL, REMOTE):
        alone(name, "stopped", unread=True)


PARTS = {part.__name__: part for part in (
    crash, local, remote, unread, given_up, drains, demoted, split, blocked, dead_before,
    target, foreign, hung, told,
)}  # fmt: skip

for part in base.words(1, list(PARTS)) or PARTS:
    PARTS[part]()
base.step("done")
