# SPDX-License-Identifier: GPL-2.0-only
"""A leg is being resynced, and the other one, its source, takes no more writes, or hangs: as soon
as nothing is left to copy the target takes over. Before, nobody could say that both are in sync,
for the source has to say it first, and every write failed for good.

Args: the part.
"""

from __future__ import annotations

import errno
import time
from contextlib import suppress

from locklab import base, blk, dm
from otherhost import used
from statelab import LOCAL, REMOTE, meta
from statelegs import Copies, Film, Leg, Pair

SYNC, ALONE, TARGET = 1, 2, 3
SOON = 15  # seconds
PLACES = range(0, 1536, 64)


def resyncing(*options: object, source: str = LOCAL) -> tuple[Pair, Leg, Leg]:
    """The source went on alone, and the other leg is a target that lacks most of it yet."""
    pair = Pair("remote_timeout", 2000, "rejoin", 1, "resync_rate", 200, *options)
    leg, target = pair.legs[source], pair.legs[REMOTE if source == LOCAL else LOCAL]
    pair.put(0)
    target.gone()
    for at in PLACES:
        pair.put(at)
    base.equal((pair.word("standing"), leg.super.state), ("alone", ALONE), "what it says alone")
    target.well()
    health = "Aa" if source == LOCAL else "aA"
    base.until(lambda: pair.status().health == health, "a target", 30)
    base.equal(target.super.state, TARGET, "the target's state")
    return pair, leg, target


def gone_alone(pair: Pair, source: str = LOCAL) -> None:
    pair.wait("DA" if source == LOCAL else "AD", "alone", 120)


def put_soon(pair: Pair, at: int) -> None:
    """Acknowledged at last: until the target has everything it may fail."""
    end = time.monotonic() + 120
    while True:
        with suppress(OSError):
            pair.put(at)
            return
        base.expect(time.monotonic() < end, f"writes fail for good: {dm.status(pair.name)}")
        time.sleep(0.5)


def writes(source: str = LOCAL) -> None:
    base.step(f"the {source} leg takes no more writes, and the application goes on")
    pair, leg, _ = resyncing(source=source)
    leg.all("nowrite")
    put_soon(pair, 1600)
    gone_alone(pair, source)
    pair.check("all that was acknowledged")
    base.step("and it takes writes again")
    leg.well()
    pair.good_end("resynced the other way")
    pair.close()


def idle() -> None:
    base.step("nobody writes: the superblock is what the local leg doesn't take")
    pair, leg, _ = resyncing()
    leg.all("nowrite")
    gone_alone(pair)
    pair.put(1600)
    base.step("only reads of it work, and the remote leg goes, too: nothing is acknowledged")
    pair.remote.gone()
    with base.refused("a write", errno.EIO), blk.Disk(pair.node) as disk:
        disk.write(1600, bytes(8 << 9))
    pair.remote.well()
    leg.well()
    pair.good_end("both are back")
    pair.close()


def hangs() -> None:
    pair, leg, _ = resyncing("local_timeout", 2000)
    base.step("all is copied, and the local leg hangs")
    leg.set(slots="slow:8000")
    base.until(lambda: pair.status().in_sync == pair.status().regions, "all copied", 120)
    leg.hang()
    began = time.monotonic()
    put_soon(pair, 1600)
    base.expect(time.monotonic() - began < SOON, f"{time.monotonic() - began:.1f} s")
    gone_alone(pair)
    leg.wake()
    leg.well()
    pair.good_end("it answers again")
    pair.close()


def held() -> None:
    base.step("policy block: the target says that it has everything, and writes are held")
    pair, leg, remote = resyncing("policy", "degrade")
    pair.message("policy block")
    leg.all("nowrite")
    pair.wait("DA", "blocked", 120)
    base.equal(remote.super.state, ALONE, "what the remote leg says")
    leg.well()
    pair.good_end("and it is back")
    pair.close()


def late() -> None:
    base.step("the target can't say it, either, for a while")
    pair, leg, remote = resyncing()
    leg.all("nowrite")
    remote.set(slots="nowrite", map="nowrite")
    base.until(lambda: pair.status().health == "DA", "given up", 120)
    with base.refused("a write", errno.EIO), blk.Disk(pair.node) as disk:
        disk.write(1600, bytes(8 << 9))
    base.equal(remote.super.state, TARGET, "what the remote leg says")
    remote.well()
    gone_alone(pair)
    pair.put(1600)
    leg.well()
    pair.good_end("both are back")
    pair.close()


def crash() -> None:
    base.step("the primary's power is cut at each step of it")
    pair, leg, remote = resyncing()
    film = Film(pair)
    remote.set(map="slow:20", slots="slow:20")
    leg.all("nowrite")

    def over() -> bool:
        with suppress(OSError):
            pair.put(1600)
        return pair.word("standing") == "alone"

    film.until(over, "alone", 120)
    pair.put(1600)
    film.look()
    states = set()
    copies = Copies(pair.sectors)
    for images, history in film.frames:
        copies.put(images)
        state = tuple(s.state for s in copies.supers())
        states.add(state)
        node = copies.start()
        copies.in_sync()
        with blk.Disk(node, write=False) as disk:
            history.check(disk.read(0, pair.sectors), f"after a crash at {state}")
        copies.stop()
        one, two = copies.data()
        base.expect(one == two, f"the legs differ after a crash at {state}")
    copies.close()
    base.equal({(ALONE, TARGET), (ALONE, ALONE)} <= states, True, f"states seen: {states}")
    leg.well()
    pair.good_end("the mirror itself")
    pair.close()


def elsewhere() -> None:
    base.step("another host goes on with the source that was left")
    pair, leg, _ = resyncing()
    leg.all("nowrite")
    put_soon(pair, 1600)
    gone_alone(pair)
    used(pair, leg)
    leg.well()
    base.until(lambda: pair.word("why") == "diverged", f"why: {dm.status(pair.name)}", SOON)
    pair.check("the remote leg goes on")
    pair.stop()
    with base.refused("a start", errno.EINVAL, kernel="contradict each other"):
        pair.start()
    meta("resolve", "--keep", REMOTE, pair.local.node, pair.remote.node)
    pair.start()
    pair.good_end("resolved")
    pair.close()


PARTS = {
    "writes": writes, "remote": lambda: writes(REMOTE), "idle": idle, "hangs": hangs,
    "held": held, "late": late, "crash": crash, "elsewhere": elsewhere,
}  # fmt: skip
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
