# SPDX-License-Identifier: GPL-2.0-only
"""Every order of a few events around two overlapping writes, each judged by the same oracle.

    search_mirror.py EVENTS [SHARD SHARDS] [only=NAME,NAME] [every=N]

A history is the writes W1 and W2, which overlap, and up to EVENTS events (the functions below)
before, between and behind them. After each event the world goes on at once, or after as long as
it takes a time-out and a rejoin to pass (`~` behind its name). At the end everything that was held
anywhere arrives, as late as it can (searchlab.World.judge).

The oracle: no acknowledged write is lost; what both legs hold is the same once they say that they
are in sync, and stays the same when what is late arrives; every write, message, suspend and removal
ends; once all is well the mirror is in sync again.

SHARD of SHARDS: each history belongs to one of them. only: histories of these events alone. every:
one of N, so that a short run sees all kinds. The last line says how many there were, and how much
simulated time they took. A history that fails is told as `W1 hang~ W2 other_way`, which is also an
argument: the script then runs that one.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator

from locklab import base, dm
from searchlab import MIRROR, WIRE, Refused, World

# A time-out and a rejoin have passed.
LONG_S = 2.5

Event = Callable[[World], None]
WRITES = {"W1": (100, 8), "W2": (104, 8)}


def hang(w: World) -> None:
    """The session that the mirror uses holds everything from now on."""
    w.hang(w.way)


def back(w: World) -> None:
    """The way that the mirror uses is well again."""
    w.mend(w.way)


def old_back(w: World) -> None:
    """The other way is: what it held arrives."""
    w.mend(w.other_way)


def fails(w: World) -> None:
    w.fail(w.way)


def gone(w: World) -> None:
    """The session is given up: what it held has failed."""
    w.drop(w.way)


def local_fails(w: World) -> None:
    w.fail(WIRE)
    w.local_bad = True


def one_hangs(w: World) -> None:
    w.stick(w.way, 96, 32)


def other_way(w: World) -> None:
    """re-add: the same leg by its other session, as a reload."""
    exchange(w, w.other_way)


def reload(w: World) -> None:
    exchange(w, w.way)


def exchange(w: World, way: str) -> None:
    if w.suspended or not w.there():
        raise Refused
    w.local_well()
    try:
        w.patient(lambda: dm.load(MIRROR, w.table(way)), "a new table")
    except OSError:  # the leg can't be read
        raise Refused from None
    w.patient(lambda: dm.suspend(MIRROR), "suspend for the new table")
    try:
        w.patient(lambda: dm.resume(MIRROR), "resume with the new table")
    except OSError as err:
        raise base.Wrong(f"a table on these legs can't be started: {err}") from err
    w.way = way


def anew(w: World) -> None:
    """Removed, and made again on the same leg by the other way."""
    if w.suspended or not w.there():
        raise Refused
    w.local_well()
    try:
        w.patient(lambda: dm.remove(MIRROR), "removal")
    except OSError:  # a write has it open
        raise Refused from None
    w.way = w.other_way
    w.assemble()


def discard(w: World) -> None:
    """A zeroing that overlaps both writes: no part of it may be undone by what is late."""
    w.zero(102, 4)


def suspend(w: World) -> None:
    if w.suspended:
        w.patient(lambda: dm.resume(MIRROR), "resume")
    else:
        w.patient(lambda: dm.suspend(MIRROR), "suspend")
    w.suspended = not w.suspended


def fail(w: World) -> None:
    w.message("fail remote")


def recover(w: World) -> None:
    w.message("recover")


def resync(w: World) -> None:
    w.message("resync")


def verify(w: World) -> None:
    w.message("verify start")


def block(w: World) -> None:
    w.message("policy block")


def unblock(w: World) -> None:
    w.message("policy degrade")


def mirror_cut(w: World) -> None:
    w.cut_mirror_site()


def primary_cut(w: World) -> None:
    if not w.there():
        raise Refused
    w.crash()
    w.assemble()


def take_over(w: World) -> None:
    if not w.there():
        raise Refused
    w.crash()
    w.take_over()
    w.assemble()


EVENTS: dict[str, Event] = {
    one.__name__: one
    for one in (
        hang, back, old_back, fails, gone, local_fails, one_hangs, other_way, reload, anew,
        discard, suspend, fail, recover, resync, verify, block, unblock, mirror_cut, primary_cut,
        take_over,
    )
}  # fmt: skip


def histories(most: int, names: list[str]) -> Iterator[tuple[str, ...]]:
    """Fewer events first. The waits are part of a history, and of its name."""
    timed = [name + wait for name in names for wait in ("", "~")]
    for count in range(most + 1):
        for events in itertools.product(timed, repeat=count):
            for one, two in itertools.combinations_with_replacement(range(count + 1), 2):
                yield (*events[:one], "W1", *events[one:two], "W2", *events[two:])


def run(history: tuple[str, ...]) -> str:
    """`passed`, or `void` if an event couldn't happen where it stands."""
    world = World()
    try:
        return live(world, history)
    except (base.Wrong, OSError):
        world.let_go()
        raise


def live(world: World, history: tuple[str, ...]) -> str:
    outcome = "passed"
    for word in history:
        name = word.rstrip("~")
        if name in WRITES:
            world.write(*WRITES[name])
        else:
            try:
                EVENTS[name](world)
            except Refused:
                outcome = "void"
                break
        time.sleep(LONG_S if word.endswith("~") else 0.001)
    world.judge()
    world.close()
    return outcome


def main() -> int:
    told = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    plain = [word for word in sys.argv[1:] if "=" not in word]
    unknown = [name for name in told if name not in ("only", "every")]
    base.expect(not unknown, f"no {unknown}; known: only, every")
    if "W1" in plain:
        known = {*WRITES, *EVENTS}
        base.expect(all(word.rstrip("~") in known for word in plain), f"known: {sorted(known)}")
        print(run(tuple(plain)), flush=True)
        return 0
    most, shard, shards = (int(word) for word in (*plain, *("0", "0", "1")[len(plain) :]))
    names = told["only"].split(",") if "only" in told else list(EVENTS)
    base.expect(set(names) <= set(EVENTS), f"known: {sorted(EVENTS)}")
    every = int(told.get("every", "1"))
    began = time.monotonic()
    tally = {"passed": 0, "void": 0}
    for number, history in enumerate(histories(most, names)):
        if number % every or number // every % shards != shard:
            continue
        try:
            tally[run(history)] += 1
        except (base.Wrong, OSError) as err:
            raise base.Wrong(f"history {' '.join(history)}: {err}") from err
    print(f"{tally['passed']} histories passed, {tally['void']} void, "
          f"{time.monotonic() - began:.0f} s simulated")  # fmt: skip
    return 0


sys.exit(main())
