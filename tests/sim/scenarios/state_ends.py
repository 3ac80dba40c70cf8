# SPDX-License-Identifier: GPL-2.0-only
"""What comes in between the last steps: of a join, of a resume, of a reload that was refused; and
messages and writes to a mirror that only reads; what is held when it is suspended without a flush.

Args: the part.
"""

import contextlib
import errno
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from locklab import base, blk, dm
from statelab import LOCAL, REMOTE, TARGET, Beside, content, create
from statelegs import Leg, Pair

SLOW_WAIT = Path("/sys/module/dm_lockstep/parameters/test_slow_wait")
SLOW_CLOSE = Path("/sys/module/dm_lockstep/parameters/test_slow_close")


def flush(pair: Pair) -> None:
    with blk.Disk(pair.node) as disk:
        disk.flush()


def joins() -> None:
    base.step("a flush fails on the source while it is about to say that both are in sync")
    pair = Pair("remote_timeout", 30000, "rejoin", 1, cache_mib=1)
    pair.message("fail remote")
    pair.wait("AD", "alone")
    pair.local.set(slots="slow:1000")
    recover = Beside(lambda: pair.message("recover"))
    base.until(lambda: pair.status().health == "Aa", "the remote leg is the target", 30)
    time.sleep(0.5)  # the first slot is on its way
    pair.local.set(slots="slow:1000", data="nowrite")
    with base.refused("a flush that fails on the source", errno.EIO):
        flush(pair)
    pair.local.set(slots="slow:1000")
    recover.result()
    time.sleep(10)
    base.expect(pair.status().health != "AA" or pair.remote.super.state != TARGET,
                f"a leg that is in sync says that it is a target: {dm.status(pair.name)}")
    pair.local.well()
    pair.in_sync()

    base.step("the local leg goes: the remote one can stand in")
    pair.put(0)
    pair.local.gone()
    pair.put(0)
    pair.local.well()
    pair.good_end("back again")


def resumes() -> None:
    base.step("a resume finds the map's home gone; a mark comes while the parting is half way")
    pair = Pair("remote_timeout", 30000, "rejoin", 0)
    pair.put(0)
    dm.suspend(pair.name)
    pair.local.gone()
    pair.remote.set(map="slow:200")
    base.put(SLOW_WAIT, 3000)
    dm.resume(pair.name)
    write = Beside(lambda: pair.put(640))
    time.sleep(10)  # longer than the parting and the mark take
    base.put(SLOW_WAIT, 0)
    pair.remote.well()
    base.until(lambda: write.done, "the write of a region that wasn't marked", 60)
    write.result()
    pair.local.well()
    pair.message("recover")
    pair.good_end("back again")


def reloads() -> None:
    base.step("a table without the source of a resync is refused, and then comes the right one")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.local.gone()
    pair.put(0, 80)
    pair.wait("DA", "alone")
    pair.message("resync_rate 1")
    pair.local.well()
    pair.wait("aA", "together")
    with base.refused("a target alone", errno.EINVAL):
        dm.reload(pair.name, pair.table(remote="-"))
    read = Beside(lambda: pair.check("what waits for a table that can be started"))
    for _ in range(2):  # the second one takes over from one that may have failed, too
        dm.load(pair.name, pair.table())
        with contextlib.suppress(OSError):
            dm.resume(pair.name)
    base.until(lambda: read.done, "a read that waits for the table", 60)
    read.result()
    pair.good_end("the right table")


def reads() -> None:
    base.step("no message makes a read-only mirror write")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    pair.stop()
    before = [leg.image() for leg in pair.legs.values()]
    dm.create(pair.name, pair.table(), readonly=True)
    for text in ("resync", "verify start", "grow", "dirty_limit 1", "policy block", "recover",
                 "fail remote", "unblock", "recover"):  # fmt: skip
        with contextlib.suppress(OSError):
            pair.message(text)
        now = [leg.image() for leg in pair.legs.values()]
        base.expect(now == before, f"{text!r} has written to a leg")
    pair.check("read only")
    pair.stop()
    pair.start()
    pair.good_end("it may write again")


def opened() -> None:
    base.step("a read-only table comes while a device on top has the mirror open for writing")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    top = dm.create("top", f"0 {pair.sectors} linear {pair.node} 0")
    for told in (False, True):
        if told:
            pair.message("fail remote")
            pair.put(64)  # dirty from now on
        dm.load(pair.name, pair.table(), readonly=True)
        dm.suspend(pair.name)
        before = [leg.image() for leg in pair.legs.values()]
        dm.resume(pair.name)
        with blk.Disk(top) as disk:
            for at in (64, 640):
                write = Beside(partial(disk.write, at, blk.pattern("refused", 8)))
                with base.refused(f"a write to sector {at}", errno.EIO):
                    write.result(10)
            Beside(disk.flush).result(10)
        base.expect([leg.image() for leg in pair.legs.values()] == before, "a leg was written")
        pair.check("read only", top)
        dm.reload(pair.name, pair.table())
        pair.put(640)
    dm.remove("top")
    pair.message("recover")
    pair.good_end("it may write again")


def exchanged(parts: bool) -> None:
    """As after a login by other portals, at both sites."""
    base.step("a new table has both legs by other devices"
              + ", and the one before still says that its leg is alone" * parts)  # fmt: skip
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    ends = {}
    for leg, own in pair.legs.items():
        size, below = own.disk.sectors, own.disk.node
        bad = leg == "remote" and not parts
        ends[leg] = (f"x{leg}", f"0 {size} linear {below} 0")
        dm.create(f"x{leg}", f"0 {size} flakey {below} 0 0 36000 1 error_writes" if bad
                  else ends[leg][1])  # fmt: skip
    dm.suspend(pair.name)
    if parts:
        pair.local.set(slots="slow:3000")
        told = Beside(lambda: pair.message("fail remote"))
        time.sleep(0.5)
    dm.load(pair.name, pair.table(local="/dev/mapper/xlocal", remote="/dev/mapper/xremote"))
    Beside(lambda: dm.resume(pair.name)).result(60)
    pair.put(64)
    if not parts:
        pair.wait("AD", "alone")
        for name, table in ends.values():
            dm.reload(name, table)
    else:
        told.result()
        pair.in_sync()
        time.sleep(5)
        # It dies for good, and is back at the next start.
        dm.reload("xlocal", f"0 {pair.local.disk.sectors} error")
        pair.put(64)
        pair.wait("DA", "alone")
        pair.stop()
        dm.reload(*ends["local"])
        pair.start(local="/dev/mapper/xlocal", remote="/dev/mapper/xremote")
    pair.good_end("by other devices")
    for name, _ in ends.values():
        dm.remove(name)


def smaller() -> None:
    base.step("a new table has a leg by a device that is too small yet")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    size, below = pair.remote.disk.sectors, pair.remote.disk.node
    dm.create("xremote", f"0 {size - 8} linear {below} 0")
    dm.reload(pair.name, pair.table(remote="/dev/mapper/xremote"))
    pair.put(0)
    pair.wait("AD", "alone")
    dm.reload("xremote", f"0 {size} linear {below} 0")
    pair.in_sync()
    pair.good_end("by a device that was too small")
    dm.remove("xremote")


def requeues() -> None:
    base.step("policy block: what is held goes back to dm in a noflush suspend, and waits there")
    pair = Pair("remote_timeout", 200, "rejoin", 1, "policy", "block")
    pair.put(0)
    pair.remote.hang()
    writes = [Beside(partial(pair.put, at)) for at in (0, 64, 640)]
    pair.wait("AD", "blocked")
    base.put(SLOW_CLOSE, 1000)  # as long as another target of the table may take
    held = pair.count("held")
    dm.suspend(pair.name, flush=False)
    base.put(SLOW_CLOSE, 0)
    base.expect(not any(write.done for write in writes), "none has ended")
    more = pair.count("held") - held
    print(f"  held {more} times more", flush=True)
    base.expect(more < 5000, "dm and the mirror were busy with nothing else")
    dm.resume(pair.name)
    base.expect(not any(write.done for write in writes), "none has ended")
    pair.remote.wake()
    for write in writes:
        write.result(60)
    pair.good_end("requeued")


def unsaid(dead: str) -> None:
    base.step(f"the {dead} leg died and nobody could say so, it is well again; then a new table")
    pair = Pair("remote_timeout", 2000, "rejoin", 0)
    pair.put(0)
    legs = dict(pair.legs)
    gone = legs.pop(dead)
    (bad,) = legs.values()
    bad.set(slots="nowrite")
    gone.gone()
    with base.refused("a write that only one leg has", errno.EIO):
        pair.put(0)
    print(f"  {dm.status(pair.name)}", flush=True)
    gone.well()
    dm.load(pair.name, pair.table())
    dm.suspend(pair.name)
    dm.resume(pair.name)
    pair.put(64)
    bad.well()
    pair.message("recover")
    pair.good_end("the new table")


def unsaid_late() -> None:
    base.step("a leg died, and what says so is still on its way to the other one; then a new table")
    pair = Pair("remote_timeout", 500, "rejoin", 1)
    pair.put(0)
    pair.clean()
    dm.load(pair.name, pair.table())
    pair.remote.set(slots="stall:5000")
    pair.local.set(slots="nowrite")
    dm.suspend(pair.name)
    pair.local.well()
    with base.refused("a start without the leg that may say that it is alone", errno.EBUSY):
        dm.resume(pair.name)
    pair.remote.well()
    base.until(partial(resumed, pair), "a start with that leg", 30)
    pair.put(64)
    pair.good_end("the new table")


def unread(how: Callable[[Leg], object]) -> None:
    for name in (LOCAL, REMOTE):
        base.step(f"both legs have everything; the {name} one fails amid an exchange of the table")
        pair = Pair("remote_timeout", 2000, "local_timeout", 2000, "rejoin", 1)
        for at in range(0, 1024, 64):
            pair.put(at)
        dm.load(pair.name, pair.table())
        dm.suspend(pair.name, flush=False)
        leg = pair.legs[name]
        how(leg)
        base.until(partial(resumed, pair), "a start without that leg", 30)
        pair.wait("DA" if name == LOCAL else "AD", "alone", 30)
        pair.put(64)
        pair.put(1280)
        pair.check("the new table")
        if how == Leg.hang:
            leg.wake()
        leg.well()
        pair.good_end("that leg is back")
        pair.close()


def half(how: str) -> None:
    for anew in (False, True):
        base.step(f"amid an exchange of the table the leg to be kept can't be read, and what the"
                  f" other one says is {how}; then all is well, {anew=}")  # fmt: skip
        pair = Pair("remote_timeout", 2000, "local_timeout", 2000, "rejoin", 1)
        for at in range(0, 1024, 64):
            pair.put(at)
        dm.load(pair.name, pair.table())
        dm.suspend(pair.name, flush=False)
        pair.local.gone()
        pair.remote.set(slots=how)
        with contextlib.suppress(OSError):
            dm.resume(pair.name)
            raise base.Wrong("it is resumed with no leg")
        pair.local.well()
        pair.remote.well()
        if anew:
            dm.load(pair.name, pair.table())
        base.until(partial(resumed, pair), "a start with both legs", 30)
        pair.put(64)
        pair.in_sync()
        pair.good_end("both legs")
        pair.close()


def answers() -> None:
    """By the kernel's parameter a write fails with another error than EIO."""
    base.step("a leg takes no writes when the mirror is resumed")
    pair = Pair("remote_timeout", 2000, "local_timeout", 2000, "rejoin", 1)
    pair.put(0)
    dm.suspend(pair.name)
    pair.local.set(slots="nowrite")
    dm.resume(pair.name)
    pair.put(64)
    pair.wait("DA", "alone")
    pair.local.well()
    pair.in_sync()

    base.step("a target takes half of what it is to say at the end")
    pair.message("fail remote")
    pair.put(0)
    pair.remote.set(slots="slow:1000")
    recover = Beside(lambda: pair.message("recover"))
    base.until(lambda: pair.status().health == "Aa", "the remote leg is the target", 30)
    pair.remote.set(slots="half")
    recover.result()
    pair.wait("AD", "alone")
    pair.remote.well()
    pair.good_end("both legs")
    pair.close()


def strange() -> None:
    for good in (LOCAL, REMOTE):
        base.step(f"in the place of the {good} leg, which alone is left, comes another mirror's")
        other = {LOCAL: Leg("xlocal"), REMOTE: Leg("xremote")}
        create(*(leg.node for leg in other.values()), "--assume-clean")
        pair = Pair("remote_timeout", 2000, "rejoin", 1)
        dead = pair.remote if good == LOCAL else pair.local

        def table(node: str, good: str = good, pair: Pair = pair) -> str:
            return pair.table(local=node) if good == LOCAL else pair.table(remote=node)

        pair.put(0)
        dead.gone()
        pair.put(64)
        word = "none of those that the last"
        with base.refused("a table with it", errno.EINVAL, kernel=word):
            dm.load(pair.name, table(other[good].node))
        dead.well()
        pair.in_sync()
        base.step("it comes while both are left, and the other one fails before the resume")
        dm.load(pair.name, table(other[good].node))
        dead.gone()
        pair.put(64)
        dm.suspend(pair.name, flush=False)
        with base.refused("its resume", errno.EINVAL, kernel=word):
            dm.resume(pair.name)
        base.step("that leg itself comes by another device")
        again = dm.create("again", f"0 {dead.disk.sectors} linear {pair.legs[good].node} 0")
        dm.load(pair.name, table(again))
        dm.resume(pair.name)
        pair.check("the new table")
        dead.well()
        pair.good_end("both legs")
        dm.remove("again")
        for leg in (*pair.legs.values(), *other.values()):
            leg.close()


def stale() -> None:
    base.step("the local leg alone has everything, and a table that couldn't be started is between")
    pair = Pair("remote_timeout", 2000, "local_timeout", 2000, "rejoin", 1)
    for at in range(0, 1024, 64):
        pair.put(at)
    pair.remote.gone()
    pair.put(0)
    pair.wait("AD", "alone")
    pair.remote.well()
    end = pair.local.disk.sectors
    there = {leg: f"0 {end} linear {pair.legs[leg].disk.node} 0" for leg in (LOCAL, REMOTE)}
    remote = dm.create("again", there[REMOTE])
    dm.load(pair.name, pair.table(remote=remote))
    dm.suspend(pair.name, flush=False)
    pair.local.gone()
    with base.refused("a start without it"):
        dm.resume(pair.name)
    base.step("the next one has both by other devices, and the local one can't be read yet")
    local = dm.create("other", f"0 {end} error")
    dm.load(pair.name, pair.table(local=local, remote=remote))
    with base.refused("a start without it", errno.EBUSY, kernel="alone has what was acknowledged"):
        dm.resume(pair.name)
    dm.reload("other", there[LOCAL])
    dm.resume(pair.name)
    pair.check("the new table")
    pair.in_sync()
    pair.put(64)
    pair.stop()
    pair.history.check(content(pair.local.disk.node, pair.sectors), "the local disk")
    pair.history.check(content(pair.remote.disk.node, pair.sectors), "the remote disk")
    for name in ("again", "other"):
        dm.remove(name)
    pair.close()


def parted(first: str) -> None:
    base.step(f"a table with the {first} leg alone, and then one with the other alone")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)

    def alone(leg: str) -> None:
        gone = pair.table(remote="-") if leg == LOCAL else pair.table(local="-")
        dm.load(pair.name, gone)
        dm.suspend(pair.name, flush=False)
        dm.resume(pair.name)

    alone(first)
    pair.put(0)
    (other,) = set(pair.legs) - {first}
    with base.refused("the other one alone", errno.EINVAL, kernel="none of those"):
        alone(other)
    dm.load(pair.name, pair.table())
    with contextlib.suppress(OSError):  # it is suspended, if it wasn't the load that was refused
        dm.suspend(pair.name, flush=False)
    dm.resume(pair.name)
    pair.good_end("both")
    pair.close()


def forgets() -> None:
    """The disk hangs while only the mirror writes to it, and comes back by a reset. The new table
    has it by another device, so it doesn't go by the memory of the table before."""
    base.step("a new table goes on without a leg that hangs, and that loses what its cache had")
    pair = Pair("remote_timeout", 2000, "rejoin", 1, cache_mib=1)
    log = base.KernelLog()
    flush(pair)
    pair.clean()
    old = pair.local.image()
    for at in range(0, 512, 64):
        pair.put(at)
    again = dm.create("again", f"0 {pair.local.disk.sectors} linear {pair.local.node} 0")
    dm.load(pair.name, pair.table(local=again))
    pair.local.hang()
    base.until(lambda: "not answered" in "".join(log.new()), "a leg that says nothing", 100)
    dm.suspend(pair.name, flush=False)
    base.until(partial(resumed, pair), "a start without that leg", 30)
    pair.put(1024)
    with blk.Disk(pair.local.disk.node) as disk:
        disk.write(0, old[: 512 * blk.SECTOR])
    dm.load(pair.local.name, f"0 {pair.local.disk.sectors} error")
    pair.local.wake()
    time.sleep(0.5)  # what was on its way fails
    pair.local.well()
    pair.in_sync()
    pair.check("both legs")
    pair.good_end("both legs")
    dm.remove("again")
    pair.close()


def resumed(pair: Pair) -> bool:
    try:
        dm.resume(pair.name)
    except OSError as err:
        base.equal(err.errno, errno.EBUSY, "a resume")
        return False
    return True


PARTS: dict[str, Callable[[], None]] = {
    "joins": joins,
    "resumes": resumes,
    "reloads": reloads,
    "reads": reads,
    "opened": opened,
    "requeues": requeues,
    "unsaid_local": lambda: unsaid("local"),
    "unsaid_remote": lambda: unsaid("remote"),
    "unsaid_late": unsaid_late,
    "unread": lambda: unread(Leg.gone),
    "unread_slots": lambda: unread(lambda leg: leg.set(slots="error")),
    "unread_hangs": lambda: unread(Leg.hang),
    "half": lambda: half("half"),
    "half_late": lambda: half("stall:4000"),
    "answers": answers,
    "parted_local": lambda: parted(LOCAL),
    "parted_remote": lambda: parted(REMOTE),
    "forgets": forgets,
    "strange": strange,
    "stale": stale,
    "smaller": smaller,
    "exchanged": lambda: exchanged(parts=False),
    "exchanged_parting": lambda: exchanged(parts=True),
}
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
