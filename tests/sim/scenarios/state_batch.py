# SPDX-License-Identifier: GPL-2.0-only
"""Writes in a batch, and in a batch that is on its way, when the remote leg is lost under policy
block: held, each of them, until there is a way out; and batches while there is no memory.

The remote leg takes 50 ms, one batch may be on the way: so what comes meanwhile is in the open one,
and the fourth write of it seals it (coalesce 4).
"""

import errno
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from locklab import base, faults
from statelab import SYNC, Beside, Writers, content
from statelegs import Pair

SLOW_MS = 50
TIMEOUT_MS = 2000
LIMIT = 4
# The first is on the way by itself. The last lies in one that waits, and is absorbed.
OPEN = [(0, 8), (64, 8), (72, 8), (128, 24), (136, 4)]
SEALED = [*OPEN, (200, 8), (640, 8)]


def pair_of(policy: str) -> Pair:
    pair = Pair("remote_timeout", TIMEOUT_MS, "rejoin", 1, "policy", policy, "coalesce", LIMIT,
                "coalesce_pipeline", 1)  # fmt: skip
    for at, count in {*OPEN, *SEALED}:  # so that no write waits for the map
        pair.put(at, count)
    pair.remote.set(data=f"lag:{SLOW_MS}")
    return pair


def begin(pair: Pair, places: Sequence[tuple[int, int]]) -> list[Beside]:
    """The writes, each under way before the next."""
    beside = []
    for at, count in places:
        seen = pair.count("writes")
        beside.append(Beside(partial(pair.put, at, count)))
        base.until(lambda: pair.count("writes") > seen, f"a write to {at}")  # noqa: B023
    return beside


def lose(pair: Pair, how: str) -> None:
    """What is on its way is lost with it: it fails, or it hangs if that began before."""
    if how == "breaks":
        pair.remote.disk.bad(0, pair.remote.disk.sectors - 1)
    elif how == "is failed by hand":
        pair.message("fail remote")


def unblock(pair: Pair, writes: list[Beside], _how: str) -> None:
    pair.message("unblock")
    pair.wait("AD", "alone")
    for one in writes:
        one.result(5)


def fail_held(pair: Pair, writes: list[Beside], _how: str) -> None:
    pair.message("fail_held")
    for one in writes:
        with base.refused("a held write", errno.EIO):
            one.result(5)
    base.equal(pair.word("standing"), "blocked", "standing")


def link_back(pair: Pair, writes: list[Beside], how: str) -> None:
    back(pair, how)
    pair.wait("AA", "together")
    for one in writes:
        one.result(5)


def back(pair: Pair, how: str) -> None:
    if how == "hangs":
        pair.remote.wake()
    elif how == "breaks":
        pair.remote.disk.good(0, pair.remote.disk.sectors - 1)
    pair.remote.well()
    if how == "is failed by hand":
        pair.message("recover")


def held(how: str, places: Sequence[tuple[int, int]],
         end: Callable[[Pair, list[Beside], str], None]) -> None:  # fmt: skip
    what = "an open batch" if places is OPEN else "a batch on its way"
    base.step(f"policy block, the remote leg {how} with {what}; then {end.__name__}")
    pair = pair_of("block")
    generation = pair.local.super.cur
    if how == "hangs":
        pair.remote.well()
        pair.remote.hang()
    counts = [pair.count(field) for field in ("batches", "absorbed")]
    writes = begin(pair, places)
    sealed = places is SEALED
    base.equal([pair.count("batches"), pair.count("absorbed")],
               [counts[0] + sealed, counts[1] + 1], "batches sealed, writes absorbed")  # fmt: skip
    lose(pair, how)
    pair.wait("AD", "blocked")
    time.sleep(10)
    base.equal([one.done for one in writes], [False] * len(writes), "writes that came back")
    # Of what is in flight either may be seen, and neither is the truth yet.
    pair.history.fork().check(content(pair.node, pair.sectors), "reads go on")
    base.equal((pair.local.super.cur, pair.local.super.state), (generation, SYNC),
               "generation: nobody goes on alone")  # fmt: skip
    late = Beside(lambda: pair.put(1000))
    time.sleep(1)
    base.expect(not late.done, "a new write is held, too")
    end(pair, [*writes, late], how)
    if end is not link_back:
        back(pair, how)
    pair.good_end(end.__name__)
    pair.close()


def one_that_is_late() -> None:
    base.step("a write that comes back from the local leg when all is blocked: held, too")
    pair = pair_of("block")
    pair.local.set(data="slow:500")
    pair.remote.gone()
    first = Beside(lambda: pair.put(0))
    time.sleep(0.3)
    second = Beside(lambda: pair.put(64))
    pair.wait("AD", "blocked")
    base.expect(pair.count("held") == 1, "the second one is still on its way")
    time.sleep(10)
    base.equal([first.done, second.done], [False, False], "acknowledged")
    pair.local.well()
    link_back(pair, [first, second], "lost")
    pair.good_end("one that is late")
    pair.close()


def without_memory(what: str, shortage: Callable[[], AbstractContextManager[None]]) -> None:
    for how in ("comes back", "hangs", "breaks", "is failed by hand"):
        base.step(f"{what} with a batch open, and the remote leg {how}")
        pair = pair_of("degrade")
        before = [pair.count(field) for field in ("punted", "batches")]
        with shortage():
            # More than any reserve holds: those at the end wait for those in front.
            writers = Writers(pair.node, pair.history, pair.versions, seed=f"{what} {how}",
                              writers=12, pause=(0.0001, 0.001), fua=0.05, flush=0.02)  # fmt: skip
            base.until(lambda: writers.acked > 30, "some writes")  # noqa: B023
            if how == "hangs":
                pair.remote.hang()
            lose(pair, how)
            if how != "comes back":
                pair.wait("AD", "alone")
            seen = writers.acked
            base.until(lambda: writers.acked > seen + 60, "more writes")  # noqa: B023
            writers.stop()
        base.equal(writers.failed, 0, "failed writes")
        done = [pair.count(f) - n for f, n in zip(("punted", "batches"), before, strict=True)]
        print(f"  waited for memory, batches: {done}", flush=True)
        base.expect(min(done) > 0, "nothing was tried")
        back(pair, how)
        pair.good_end(what)
        pair.close()


for how, places, end in itertools.product(
    ("hangs", "breaks", "is failed by hand"), (OPEN, SEALED), (unblock, fail_held, link_back)
):
    held(how, places, end)
one_that_is_late()
without_memory("no free memory", faults.no_memory)
without_memory("every pool down to its reserve", faults.empty_pools)
base.step("done")
