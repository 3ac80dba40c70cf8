# SPDX-License-Identifier: GPL-2.0-only
"""A leg hangs under I/O of the mirror's own: map, superblocks, flushes, at start, at the end and in
between. Whatever doesn't need that leg goes on."""

import contextlib
import errno
import sys
import time
from collections.abc import Callable

from locklab import base, blk, dm, mirror, ram
from statelab import Beside, create, super_of
from statelegs import Pair

TIMEOUT_MS = 2000
IN_TIME = TIMEOUT_MS / 1000 * 9 / 8 + 0.5  # as watch.h says, and what else is done


def pair_of(*options: object, cache_mib: int = 0) -> Pair:
    return Pair("remote_timeout", TIMEOUT_MS, "rejoin", 1, *options, cache_mib=cache_mib)


def ends(what: str, work: Callable[[], object] | Beside, seconds: float) -> None:
    begun = time.monotonic()
    beside = work if isinstance(work, Beside) else Beside(work)
    beside.result(seconds)
    print(f"  {what}: ended after {time.monotonic() - begun:.3f} s", flush=True)


def local_map() -> None:
    base.step("the local leg hangs in a write of the map: fail it, and all goes on")
    pair = pair_of()
    pair.put(0)
    pair.local.set(map="lag:600000")
    write = Beside(lambda: pair.put(640))
    base.until(lambda: pair.count("map_writes") > 1, "the map is being written")
    time.sleep(0.1)  # until the leg's sender has handed it over
    ends("fail local", lambda: pair.message("fail local"), 1)
    ends("the write", write, 1)
    pair.wait("DA", "alone")
    pair.put(1024)
    with base.refused("recover while its map's page is out", errno.EBUSY):
        pair.message("recover")
    # An exchange of the table waits for what is delayed.
    ends("all comes back", pair.local.well, 700)
    pair.message("recover")
    pair.good_end("the local leg's map")
    pair.close()


def home_comes_back() -> None:
    base.step("the map is on its way home to the local leg, and hangs there")
    pair = pair_of("policy", "block")
    pair.put(0)
    pair.message("fail local")
    pair.wait("DA", "blocked")
    pair.local.set(map="stall:600000")  # it is read and flushed before
    recover = Beside(lambda: pair.message("recover"))
    base.until(lambda: pair.status().health == "AA" or recover.done, "together again")
    write = Beside(lambda: pair.put(640))
    time.sleep(1)
    ends("fail local", lambda: pair.message("fail local"), 1)
    pair.message("unblock")
    ends("the write", write, 1)
    ends("all comes back", pair.local.well, 700)
    pair.message("policy degrade")
    pair.message("recover")
    pair.good_end("home again")
    pair.close()


def suspended(cache_mib: int) -> None:
    base.step(f"the remote leg hangs when the mirror is suspended ({cache_mib} MiB of cache)")
    pair = pair_of(cache_mib=cache_mib)
    pair.put(0)
    pair.remote.hang()
    ends("suspend", lambda: dm.suspend("mirror"), 2 * IN_TIME)
    ends("resume", lambda: dm.resume("mirror"), IN_TIME)
    pair.wait("AD", "alone")
    base.equal(pair.word("why"), "timeout", "why")
    ends("a write", lambda: pair.put(640), 0.1)
    pair.remote.wake()
    pair.good_end("suspended")
    pair.close()


def removed() -> None:
    base.step("the remote leg hangs when the mirror is removed: it ends, and the log tells")
    pair = pair_of()
    pair.put(0)
    pair.remote.hang()
    log = base.KernelLog()
    ends("remove", pair.stop, 2 * IN_TIME)
    told = [line for line in log.new() if "has not answered all that was sent" in line]
    base.expect(told, "nothing in the log")
    pair.start()
    pair.wait("AD", "alone")
    base.equal(pair.word("why"), "draining", "why")
    pair.remote.wake()
    pair.good_end("removed")
    pair.close()


def resumed() -> None:
    base.step("the remote leg hangs when the mirror is resumed")
    pair = pair_of()
    pair.put(0)
    dm.suspend("mirror")
    pair.remote.hang()
    ends("resume", lambda: dm.resume("mirror"), IN_TIME)
    ends("a write", lambda: pair.put(640), 0.1)
    pair.wait("AD", "alone")
    base.equal(pair.word("why"), "timeout", "why")
    pair.remote.wake()
    pair.good_end("resumed")
    pair.close()


def reloaded() -> None:
    base.step("the remote leg hangs under a new table: it goes on without it")
    pair = pair_of()
    pair.put(0)
    dm.load("mirror", pair.table())
    dm.suspend("mirror")
    pair.remote.hang()
    ends("resume", lambda: dm.resume("mirror"), IN_TIME)
    ends("a write", lambda: pair.put(640), 0.1)
    pair.wait("AD", "alone")
    pair.remote.wake()
    pair.good_end("reloaded")
    pair.close()


def started() -> None:
    base.step("the remote leg hangs when the mirror is started: refused, and the log says why")
    pair = pair_of()
    pair.put(0)
    pair.stop()
    dm.create("mirror", f"0 {pair.sectors} error")
    dm.load("mirror", pair.table())
    pair.remote.hang()
    log = base.KernelLog()
    dm.suspend("mirror")

    def resume() -> None:
        with base.refused("the start", errno.EINVAL):
            dm.resume("mirror")

    ends("the start", resume, IN_TIME)
    told = log.new()
    base.expect(any("has not answered" in line for line in told), f"the log says {told}")
    with base.refused("a start while it drains", errno.EBUSY, kernel="hasn't answered"):
        dm.resume("mirror")
    pair.remote.wake()

    def again() -> bool:
        try:
            dm.resume("mirror")
        except OSError as err:
            base.equal(err.errno, errno.EBUSY, "while it drains")
            return False
        return True

    base.until(again, "the next start", 1)
    pair.good_end("started")
    pair.close()


def joined(suspend: bool) -> None:
    word = "suspend" if suspend else "a deadline"
    base.step(f"a leg that is being made the target hangs: {word} ends that")
    pair = pair_of()
    pair.put(0)
    pair.remote.gone()
    pair.put(0)
    pair.wait("AD", "alone")
    supers = pair.count("super_writes")
    pair.remote.set(slots="stall:600000")
    time.sleep(3)  # it is read, flushed, and then written
    base.equal((pair.word("why"), pair.count("super_writes")), ("failed", supers), "in the join")
    if suspend:
        ends("suspend", lambda: dm.suspend("mirror"), 0.5)
        ends("resume", lambda: dm.resume("mirror"), 0.5)
    base.until(lambda: pair.word("why") == "draining", "the join has ended", 20)
    with base.refused("recover", errno.EBUSY, kernel="hasn't answered"):
        pair.message("recover")
    ends("a write", lambda: pair.put(640), 0.1)
    pair.remote.well()
    pair.good_end("joined")
    pair.close()


def somebody_elses() -> None:
    """The target dies while a chunk for it is read, and another disk is in its place when a join
    looks at it: it gets nothing."""
    base.step("a chunk isn't written to what a join has not judged yet")
    local, remote, foreign = (ram.Ram(name, 8) for name in ("l", "r", "f"))
    size = local.sectors
    dm.create("ll", f"0 {size} linear {local.node} 0")
    dm.create("lr", f"0 {size} linear {remote.node} 0")

    def becomes(name: str, table: str) -> None:
        dm.load(name, table)
        dm.suspend(name, flush=False)
        dm.resume(name)

    nodes = ["/dev/mapper/ll", "/dev/mapper/lr"]
    create(*nodes, "--assume-clean")
    options = ("resync_jobs", 1, "resync_pace", "full", "rejoin", 0)
    node = dm.create("mirror", mirror.table(*nodes, *options,
                                            sectors=super_of(nodes[0]).data_sectors))  # fmt: skip
    dm.message("mirror", "fail remote")
    with blk.Disk(node) as disk:
        disk.write(0, blk.pattern("mine", 64))
    becomes("ll", f"0 {size} delay {local.node} 0 4000 {local.node} 0 0")
    dm.message("mirror", "recover")
    time.sleep(0.5)  # the chunk is being read from the local leg
    becomes("lr", f"0 {size} error")
    with blk.Disk(node) as disk:
        disk.write(4096, blk.pattern("alone", 8))
    theirs = blk.pattern("theirs", 64)
    with blk.Disk(foreign.node) as disk:
        disk.write(0, theirs)
    becomes("lr", f"0 {size} delay {foreign.node} 0 4000 {foreign.node} 0 0")

    def recover() -> None:
        with base.refused("recover of a disk without metadata", errno.EINVAL):
            dm.message("mirror", "recover")

    Beside(recover).result(60)
    time.sleep(1)
    with blk.Disk(foreign.node) as disk:
        base.equal(disk.read(0, 64), theirs, "the foreign disk")
    for name in ("mirror", "lr", "ll"):
        dm.remove(name)
    for disk_ in (local, remote, foreign):
        disk_.remove()


def told(pair: Pair, silent: str, least: float, most: float) -> None:
    """The status line says so, by an event, within that time from now on."""
    begun, event = time.monotonic(), dm.event("mirror")
    base.until(lambda: pair.word("silent") == silent, f"silent: {silent}", 60)
    took = time.monotonic() - begun
    base.until(lambda: dm.event("mirror") > event, "an event", 1)
    base.expect(least <= took <= most, f"told after {took:.3f} s")
    print(f"  silent: {silent}: told after {took:.3f} s", flush=True)


def sole_leg(refilled: bool) -> None:
    """It can't be given up, so all that needs it waits: whoever looks has to see that."""
    base.step(f"the only good leg hangs{' while the other one is refilled' * refilled}: it is told")
    pair = pair_of()
    pair.put(0)
    pair.message("fail local")
    pair.put(0)
    if refilled:
        pair.local.set(data="stall:5000")
        pair.message("recover local")
        base.until(lambda: pair.status().health == "aA", "it is being refilled")
    base.equal(pair.word("silent"), "-", "silent legs before")
    pair.remote.hang()
    write = Beside(lambda: pair.put(640))
    told(pair, "remote", TIMEOUT_MS / 1000, IN_TIME)
    base.equal(pair.status().health, "aA" if refilled else "DA", "health")
    base.expect(not write.done, "a write was acknowledged by nobody")
    pair.remote.wake()
    told(pair, "-", 0, 1.5)
    ends("the write", write, 10)
    if not refilled:
        pair.message("recover local")
    pair.local.well()
    pair.good_end("the only good leg")
    pair.close()


def sole_suspended(part: str) -> None:
    """It has answered until then; no caller's I/O is out, so nobody but the suspend needs it."""
    base.step(f"the only good leg begins to hang in the suspend itself, in its {part}")
    pair = pair_of("local_timeout", TIMEOUT_MS)
    pair.put(0)
    pair.message("fail remote")
    pair.put(640)
    pair.local.set(**{part: "stall:600000"})
    ends("suspend", lambda: dm.suspend("mirror"), 2 * IN_TIME)
    with base.refused("a resume that would be overtaken", errno.EBUSY, kernel="hasn't answered"):
        dm.resume("mirror")
    ends("all comes back", pair.local.well, 700)
    ends("resume", lambda: dm.resume("mirror"), 1)
    pair.put(1280)
    pair.message("recover remote")
    pair.good_end("suspended with one leg")
    pair.close()


def sole_told(text: str) -> None:
    """dm waits for a message before it suspends; who brings it waits for the leg."""
    base.step(f"{text}, while the only good leg hangs; then a suspend")
    pair = pair_of("local_timeout", TIMEOUT_MS)
    pair.put(0)
    pair.message("fail remote")
    pair.put(640)
    pair.local.hang()
    message = Beside(lambda: pair.message(text))
    base.until(lambda: pair.word("silent") == "local", "silent: local", 10)
    ends("suspend", lambda: dm.suspend("mirror"), 2 * IN_TIME)
    base.until(lambda: message.done, f"{text} ends", 1)
    with contextlib.suppress(OSError):
        message.result()
    pair.local.wake()
    base.until(resumes, "all has come back, and it is resumed", 60)
    pair.put(1280)
    with contextlib.suppress(OSError):
        pair.message("recover remote")
    pair.good_end(text)
    pair.close()


def sole_removed() -> None:
    base.step("the only good leg, without a timeout, begins to hang when the mirror is removed")
    pair = pair_of()
    pair.put(0)
    pair.message("fail remote")
    pair.put(640)
    pair.local.hang()
    ends("remove", pair.stop, 3 * 10)  # two looks of 10 s
    with base.refused("a start before it has answered", errno.EBUSY, kernel="hasn't answered"):
        pair.start()
    pair.local.wake()
    pair.start()
    pair.good_end("removed with one leg")
    pair.close()


def both_suspended() -> None:
    base.step("both legs begin to hang in the suspend: neither is given up for the other")
    pair = pair_of("local_timeout", TIMEOUT_MS)
    pair.put(0)
    for leg in (pair.local, pair.remote):
        leg.hang()
    ends("suspend", lambda: dm.suspend("mirror"), 3 * IN_TIME)
    for leg in (pair.remote, pair.local):
        leg.wake()
    base.until(resumes, "resume, as soon as what was late has come", 1)
    base.equal(pair.status().health, "AA", "health")
    pair.put(640)
    pair.good_end("suspended with two legs")
    pair.close()


def never_given_up() -> None:
    base.step("a leg without a timeout hangs: it stays, and is told after 10 s")
    pair = pair_of()
    pair.put(0)
    pair.local.hang()
    write = Beside(lambda: pair.put(640))
    told(pair, "local", 9.9, 10 * 9 / 8 + 10)  # it is looked at every 10 s
    base.equal(pair.status().health, "AA", "health")
    ends("fail local", lambda: pair.message("fail local"), 5)
    base.equal(pair.word("silent"), "-", "a dead leg isn't silent: it is dead")
    ends("the write", write, 1)
    pair.local.wake()
    base.until(lambda: recovers(pair), "recover local")
    pair.good_end("the leg without a timeout")
    pair.close()


def grown() -> None:
    base.step("the only leg left hangs in a parting: grow doesn't wait for its end")
    pair = pair_of()
    pair.put(0)
    pair.local.set(slots="stall:600000")
    ends("fail remote", lambda: pair.message("fail remote"), 3.5)
    base.equal(pair.word("standing"), "parting", "standing")

    def grow() -> None:
        with base.refused("grow", errno.EBUSY, kernel="not now"):
            pair.message("grow")

    ends("grow", grow, 3.5)
    ends("all comes back", pair.local.well, 700)
    pair.message("grow")
    pair.message("recover remote")
    pair.good_end("grown")
    pair.close()


def both(first: str) -> None:
    """Whoever answers first goes on, whichever was the first to be late."""
    base.step(f"both legs hang, and the {first} one comes back")
    pair = Pair("remote_timeout", TIMEOUT_MS, "local_timeout", TIMEOUT_MS // 2, "rejoin", 1)
    other = "remote" if first == "local" else "local"
    legs = {"local": pair.local, "remote": pair.remote}
    pair.put(0)
    for leg in legs.values():
        leg.hang()
    write = Beside(lambda: pair.put(640))
    base.until(lambda: pair.word("silent") == "local,remote", "both are silent", 10)
    base.equal((pair.status().health, pair.word("standing")), ("AA", "together"), "neither is out")
    with base.refused("fail local", errno.EBUSY, kernel="the remote leg doesn't answer"):
        pair.message("fail local")
    legs[first].wake()
    ends("the write", write, 2 * IN_TIME)
    pair.wait("AD" if first == "local" else "DA", "alone", 2 * IN_TIME)
    ends("another write", lambda: pair.put(1024), 1)
    legs[other].wake()
    pair.good_end("both hung")
    pair.close()


def asked_and_removed() -> None:
    base.step("a question that is never answered keeps its leg away, and holds nobody")
    pair = Pair("remote_timeout", TIMEOUT_MS, "local_timeout", TIMEOUT_MS, "rejoin", 1)
    pair.put(0)
    pair.remote.hang()
    write = Beside(lambda: pair.put(0))
    time.sleep(0.1)  # until the local leg has it
    pair.local.hang()
    base.until(lambda: pair.word("silent") == "remote", "the local leg didn't answer", 10)
    pair.remote.wake()
    ends("the write", write, 1)
    pair.wait("DA", "alone", 2 * IN_TIME)
    ends("remove", pair.stop, IN_TIME)
    pair.start()
    pair.wait("DA", "alone")
    base.equal(pair.word("why"), "draining", "why")
    pair.local.wake()
    pair.good_end("asked and removed")
    pair.close()


def one_fails(hangs: str) -> None:
    """The leg that hangs isn't given up for one that has nothing but errors."""
    base.step(f"the {hangs} leg hangs, and the other one fails all that it is asked")
    pair = Pair("remote_timeout", TIMEOUT_MS, "local_timeout", TIMEOUT_MS, "rejoin", 1)
    legs = {"local": pair.local, "remote": pair.remote}
    pair.put(0)  # region 0 is marked: its next write needs no map
    legs.pop(hangs).hang()
    fails = next(iter(legs.values()))
    fails.gone()
    write = Beside(lambda: pair.put(0))
    base.until(lambda: pair.word("silent") == hangs, f"{hangs} is silent", 10)
    base.equal(pair.status().health, "AA", "neither is out")
    {"local": pair.local, "remote": pair.remote}[hangs].wake()
    ends("the write", write, 1)
    pair.wait("AD" if hangs == "local" else "DA", "alone")
    fails.well()
    pair.good_end("one failed")
    pair.close()


def answers_slowly(ms: int) -> None:
    """By then its answer is looked for once in a second: it comes just after such a look."""
    base.step(f"the remote leg hangs, and the local one takes {ms} ms to answer a question")
    pair = pair_of()
    pair.put(0)  # region 0 is marked: its next write needs no map
    pair.local.set(slots=f"lag:{ms}")
    pair.remote.hang()
    write = Beside(lambda: pair.put(0))
    # The question, a look, and what a parting reads and writes.
    ends("the write", write, IN_TIME + 1.5 + 6 * ms / 1000)
    pair.wait("AD", "alone", 1)
    pair.local.well()
    pair.remote.wake()
    pair.good_end("answered slowly")
    pair.close()


def resumes() -> bool:
    try:
        dm.resume("mirror")
    except OSError as err:
        base.equal(err.errno, errno.EBUSY, "while a leg hasn't answered")
        return False
    return True


def recovers(pair: Pair) -> bool:
    try:
        pair.message("recover local")
    except OSError as err:
        base.equal(err.errno, errno.EBUSY, "while it drains")
        return False
    return True


SCENES: dict[str, Callable[[], None]] = {
    "local_map": local_map,
    "home_comes_back": home_comes_back,
    "suspended": lambda: suspended(0),
    "suspended_cache": lambda: suspended(1),
    "removed": removed,
    "resumed": resumed,
    "reloaded": reloaded,
    "started": started,
    "somebody_elses": somebody_elses,
    "joined": lambda: joined(suspend=False),
    "joined_suspend": lambda: joined(suspend=True),
    "sole_leg": lambda: sole_leg(refilled=False),
    "sole_leg_refills": lambda: sole_leg(refilled=True),
    "sole_suspended_slots": lambda: sole_suspended("slots"),
    "sole_suspended_map": lambda: sole_suspended("map"),
    "sole_told_resync": lambda: sole_told("resync"),
    "sole_told_recover": lambda: sole_told("recover"),
    "sole_removed": sole_removed,
    "both_suspended": both_suspended,
    "never_given_up": never_given_up,
    "grown": grown,
    "both_local": lambda: both("local"),
    "both_remote": lambda: both("remote"),
    "asked_and_removed": asked_and_removed,
    "answers_slowly_1010": lambda: answers_slowly(1010),
    "answers_slowly_2000": lambda: answers_slowly(2000),
    "one_fails_local": lambda: one_fails("local"),
    "one_fails_remote": lambda: one_fails("remote"),
}

for scene in sys.argv[1:] or SCENES:
    SCENES[scene]()
base.step("done")
