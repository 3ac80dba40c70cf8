# SPDX-License-Identifier: GPL-2.0-only
"""The host crashes after each durable step of a mirror's life: pictures of both legs are taken
while it goes through its transitions with slowed metadata, one for each change of what the legs say
of themselves. Each picture is assembled in every way there is: both legs, and each alone.

For each: who is the source is known from the superblocks (statelab.source_of); every write that was
acknowledged at that instant is there; both legs are in sync and alike in the end; a leg that isn't
whole refuses to go on alone, and one that does never hides that it did.
"""

import errno
import sys
from functools import partial

from locklab import base, dm
from statelab import LOCAL, REMOTE, SYNC, TARGET, Beside, content, source_of
from statelegs import Copies, Film, Pair

LEGS = (LOCAL, REMOTE)


def slowed(pair: Pair) -> None:
    """10 ms are more than Film looks away."""
    for leg in pair.legs.values():
        leg.set(map="slow:10", slots="slow:10")


def judge(copies: Copies, film: Film, what: str) -> None:
    kinds = {"alone": 0, "refused": 0}
    for number, (images, history) in enumerate(film.frames):
        where = f"{what}, picture {number}"
        copies.put(images)
        supers = dict(zip(LEGS, copies.supers(), strict=True))
        source = source_of(supers[LOCAL], supers[REMOTE])
        base.expect(source, f"{where}: no leg has the data: {supers}")
        device = copies.start()
        history.fork().check(content(device, history.sectors), f"{where}, both")
        copies.in_sync()
        copies.stop()
        one, two = copies.data()
        base.expect(one == two, f"{where}: the legs are alike in the end")
        history.fork().check(two, f"{where}, the remote leg in the end")
        base.equal([s.state for s in copies.supers()], [SYNC, SYNC], f"{where}: states")
        for leg in LEGS:
            copies.put(images)
            there = {LOCAL: leg == LOCAL, REMOTE: leg == REMOTE}
            if not supers[leg].whole:
                with base.refused(f"{where}, {leg} alone", errno.EINVAL,
                                  kernel="No leg here has all the data"):  # fmt: skip
                    copies.start(**there)
                kinds["refused"] += 1
                continue
            device = copies.start(**there)
            # One that another has outdone may be old; all else has what was acknowledged.
            if leg == source or supers[LOCAL].cur == supers[REMOTE].cur:
                history.fork().check(content(device, history.sectors), f"{where}, {leg} alone")
            copies.stop()
            kinds["alone"] += 1
            after = dict(zip(LEGS, copies.supers(), strict=True))
            went = after[leg].cur != supers[leg].cur
            base.expect(went or supers[leg].state == 2, f"{where}: {leg} went on in secret")
            # Then with the other one again: never a leg that lacks what the first one had.
            base.expect(source_of(*after.values()) in (leg, None), f"{where}: {leg} is outdone")
    base.expect(len(film.frames) > 3, f"{what}: only {len(film.frames)} pictures")
    print(f"  {len(film.frames)} pictures, {kinds}", flush=True)


def scene(what: str, clean: bool = True) -> tuple[Pair, Film, Copies]:
    base.step(what)
    pair = Pair(clean=clean)
    return pair, Film(pair), Copies(pair.sectors)


def done(pair: Pair, film: Film, copies: Copies, what: str) -> None:
    film.until(lambda: pair.status().action == "idle" and pair.remote.super.state != TARGET,
               "quiet")  # fmt: skip
    for leg in pair.legs.values():
        leg.well()
    pair.good_end(what)
    judge(copies, film, what)
    copies.close()
    pair.close()


def parted(leg: str) -> None:
    what = f"the {leg} leg fails, and is back"
    pair, film, copies = scene(what)
    pair.put(0)
    slowed(pair)
    pair.put(64)
    film.look()
    pair.legs[leg].gone()
    write = Beside(lambda: pair.put(128))
    film.until(lambda: write.done, "the write")
    write.result()
    pair.put(8)
    pair.put(640)
    film.look()
    pair.legs[leg].set(map="slow:10", slots="slow:10")
    film.until(lambda: pair.status().health == "AA", "in sync")
    film.look()
    done(pair, film, copies, what)


def created() -> None:
    what = "a new leg is filled"
    pair, film, copies = scene(what, clean=False)
    pair.stop()
    slowed(pair)
    start = Beside(pair.start)
    film.until(lambda: start.done, "start")
    start.result()
    pair.put(0)
    film.until(lambda: pair.status().health == "AA", "in sync")
    done(pair, film, copies, what)


def failed_in_resync(leg: str) -> None:
    what = f"the {leg} leg is the target and fails again in its resync"
    pair, film, copies = scene(what)
    pair.put(0)
    pair.message(f"fail {leg}")
    for at in range(0, 1024, 64):
        pair.put(at)
    slowed(pair)
    pair.message("resync_rate 200")
    recover = Beside(lambda: pair.message("recover"))
    film.until(lambda: recover.done, "recover")
    film.until(lambda: pair.count("resynced") > 256, "some are copied")
    pair.legs[leg].gone()
    write = Beside(lambda: pair.put(16))
    film.until(lambda: write.done, "the write")
    write.result()
    film.look()
    pair.legs[leg].set(map="slow:10", slots="slow:10")
    pair.message("resync_rate 0")
    film.until(lambda: pair.status().health == "AA", "in sync")
    done(pair, film, copies, what)


def survivor_in_resync() -> None:
    what = "the source of a resync is parted from its target, and both are there again"
    pair, film, copies = scene(what)
    pair.put(0)
    pair.message("fail remote")
    pair.put(0)
    slowed(pair)
    pair.message("recover")
    film.until(lambda: pair.status().health == "AA", "in sync")
    # At the very end of it: the target is SYNC, the source has just forgotten to be alone.
    pair.message("fail remote")
    write = Beside(lambda: pair.put(0))
    film.until(lambda: write.done, "the write")
    write.result()
    film.look()
    pair.message("recover")
    film.until(lambda: pair.status().health == "AA", "in sync again")
    done(pair, film, copies, what)


def blocked(leg: str) -> None:
    what = f"policy block, the {leg} leg: held, then unblocked, then the leg is back"
    pair, film, copies = scene(what)
    pair.put(0)
    pair.message("policy block")
    slowed(pair)
    pair.legs[leg].gone()
    write = Beside(lambda: pair.put(64))
    film.until(lambda: pair.word("standing") == "blocked", "blocked")
    base.expect(not write.done, "it is held")
    film.look()
    unblock = Beside(lambda: pair.message("unblock"))
    film.until(lambda: write.done and unblock.done, "the write")
    write.result()
    film.look()
    pair.legs[leg].set(map="slow:10", slots="slow:10")
    film.until(lambda: pair.status().health == "AA", "in sync")
    done(pair, film, copies, what)


def cleaned() -> None:
    what = "dirty, and clean after a while; suspended and resumed"
    pair, film, copies = scene(what)
    slowed(pair)
    for at in (0, 640, 1280):
        write = Beside(partial(pair.put, at))
        film.until(partial(getattr, write, "done"), "the write")
        film.look()
    film.until(lambda: pair.count("dirty") == 0, "clean", 100, 0.25)
    pair.put(320)
    film.look()
    suspend = Beside(lambda: dm.suspend("mirror"))
    film.until(lambda: suspend.done, "suspended")
    resume = Beside(lambda: dm.resume("mirror"))
    film.until(lambda: resume.done, "resumed")
    film.look()
    done(pair, film, copies, what)


SCENES = {
    "parted_remote": lambda: parted(REMOTE),
    "parted_local": lambda: parted(LOCAL),
    "created": created,
    "failed_in_resync_remote": lambda: failed_in_resync(REMOTE),
    "failed_in_resync_local": lambda: failed_in_resync(LOCAL),
    "survivor_in_resync": survivor_in_resync,
    "blocked": lambda: blocked(REMOTE),
    "blocked_local": lambda: blocked(LOCAL),
    "cleaned": cleaned,
}

for name in sys.argv[1:] or SCENES:
    SCENES[name]()
base.step("done")
