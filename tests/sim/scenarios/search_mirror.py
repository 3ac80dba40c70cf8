# SPDX-License-Identifier: GPL-2.0-only
"""Every order of a few events of a mirror around two overlapping writes, all judged by one oracle.
The arguments and what a history is: histories.py; own words: queue=none|few,
cache=off|on|trust|local, policy=degrade|block|error, log=default|small, size=same|more,
map=one|many (searchlab).
At the end of each everything that was held anywhere arrives, as late as it can
(searchlab.World.judge).

The oracle: no acknowledged write is lost; what both legs hold is the same once they say that they
are in sync, and stays the same when what is late arrives; every write, read, message,
suspend and removal ends; once all is well the mirror is in sync again.
"""

from __future__ import annotations

import errno
import sys
import time

import histories
import searchdisks
import searchlab
from histories import Refused, needless
from locklab import base, dm
from searchdisks import REQUESTS
from searchlab import MIRROR, OWN, TIMEOUT_MS, World
from statelab import LOCAL, REMOTE, SLOT_SECTORS, SLOTS

TICK_S = 30
# A time-out and a rejoin have passed.
LONG_S = 2.5
# What a leg takes to say no that is late, and what it takes when it isn't waited for any more.
LATE_MS, TOO_LATE_MS = TIMEOUT_MS - 40, TIMEOUT_MS + 50


def hang(w: World) -> None:
    """The session that the mirror uses holds everything from now on."""
    w.hang(w.way)


def back(w: World) -> None:
    """The way that the mirror uses is well again."""
    w.again(w.way)


def old_back(w: World) -> None:
    """The other way is: what it held arrives."""
    w.again(w.other_way)


def fails(w: World) -> None:
    w.fail(w.way)


def other_fails(w: World) -> None:
    """The way that a new table may bring takes no writes."""
    w.fail(w.other_way)


def gone(w: World) -> None:
    """The session is given up: what it held has failed."""
    w.drop(w.way)


def local_fails(w: World) -> None:
    w.fail(w.wire)


def late(w: World) -> None:
    """It takes no writes, and its time to say so."""
    w.fail_late(w.way, LATE_MS)


def too_late(w: World) -> None:
    w.fail_late(w.way, TOO_LATE_MS)


def local_late(w: World) -> None:
    w.fail_late(w.wire, LATE_MS)


def local_too_late(w: World) -> None:
    w.fail_late(w.wire, TOO_LATE_MS)


def local_dies_late(w: World) -> None:
    """Nor can it be read."""
    w.fail_late(w.wire, LATE_MS, reads=True)


def local_hangs(w: World) -> None:
    w.hang(w.wire)


def local_unread(w: World) -> None:
    """One sector can't be read, in the superblock's first slot."""
    w.hide_super(w.wire)


def unread(w: World) -> None:
    w.hide_super(w.way)


def local_map_unread(w: World) -> None:
    """A sector of the map can't be, or of the activity log."""
    w.hide_map(w.wire)


def map_unread(w: World) -> None:
    w.hide_map(w.way)


def local_log_unread(w: World) -> None:
    w.hide_log(w.wire)


def bad_place(w: World) -> None:
    """Both writes are to have a sector that the local leg can't read."""
    w.fail_place(w.wire, w.origin + 105, 1, "error_reads")


def local_unsaid(w: World) -> None:
    """The leg doesn't take its superblock any more: what is to be said on both isn't."""
    w.fail_end(w.wire, SLOTS)


def unsaid(w: World) -> None:
    w.fail_end(w.way, SLOTS)


def local_half_said(w: World) -> None:
    """Or one slot of it, and not the other."""
    w.fail_end(w.wire, SLOT_SECTORS)


def half_said(w: World) -> None:
    w.fail_end(w.way, SLOT_SECTORS)


def blink(w: World) -> None:
    """The local leg is away for a moment, and the remote one takes no superblock then."""
    w.blink(SLOTS)


def half_blink(w: World) -> None:
    """Or one slot of it, and not the other."""
    w.blink(SLOT_SECTORS)


def rest(w: World) -> None:
    """The cleaner comes by twice."""
    time.sleep(2 * TICK_S + 5)


def see(w: World) -> None:
    w.see()


def local_back(w: World) -> None:
    if w.local_bad:
        raise Refused
    w.again(w.wire)


def one_hangs(w: World) -> None:
    w.stick(w.way, 96, 32)


def flush_hangs(w: World) -> None:
    w.keep_flushes(w.way)


def other_way(w: World) -> None:
    """re-add: the same leg by its other session, as a reload."""
    exchange(w, w.other_way)


def reload(w: World) -> None:
    exchange(w, w.way)


def both_ways(w: World) -> None:
    """Both legs are the same by other devices."""
    exchange(w, w.other_way, w.other_wire)


def wire_only(w: World) -> None:
    exchange(w, w.way, w.other_wire)


def exchange(w: World, way: str, wire: str | None = None) -> None:
    if w.suspended or not w.there() or w.nobody_answers:
        raise Refused
    wire = wire or w.wire
    remote_bad = w.status().remote != "A" or {w.way, way} & (w.holding | w.refusing)
    if wire == w.wire and remote_bad:
        w.local_well()
    elif wire in w.refusing and remote_bad:
        raise Refused  # nor is one brought that takes no writes, if it is the only one
    w.blocks |= OWN["policy"] != "degrade"
    try:
        w.patient(lambda: dm.load(MIRROR, w.table(way, wire)), "a new table")
    except OSError:  # the leg can't be read
        raise Refused from None
    w.patient(lambda: dm.suspend(MIRROR), "suspend for the new table")
    no_other = w.status().local != "A"
    try:
        w.patient(lambda: dm.resume(MIRROR), "resume with the new table")
    except OSError as err:
        # The only leg that has all doesn't answer, or may still get what the old devices hold.
        held = {w.wire, w.way, wire, way} & w.holding if err.errno == errno.EBUSY else set()
        if not no_other or not (held or way in w.refusing):
            raise base.Wrong(f"a table on these legs can't be started: {err}") from err
        for name in (way, *held):
            w.mend(name)
        w.resume()
    w.wire, w.way = wire, way


def swapped(w: World) -> None:
    w.swapped()


def older(w: World) -> None:
    w.older(REMOTE)


def local_older(w: World) -> None:
    w.older(LOCAL)


def stop(w: World) -> None:
    """Removed, suspended or not. It is started at the end."""
    if not w.there():
        raise Refused
    try:
        w.remove()
    except OSError:  # a write has it open
        raise Refused from None
    w.suspended = False


def anew(w: World) -> None:
    """Removed, and made again on the same leg by the other way. No mirror starts on legs in sync
    of which one takes no writes, but in the place of one that runs; nor on one whose newest
    superblock can't be read."""
    if w.suspended or not w.there() or w.nobody_answers:
        raise Refused
    if w.other_way in w.refusing | w.hung | w.unread:
        raise Refused
    if w.wire in w.hung and w.status().local != "A":
        raise Refused  # a leg that can't be looked at has to be left out of the table
    w.local_well()
    try:
        w.patient(lambda: dm.remove(MIRROR), "removal")
    except OSError:  # a write has it open
        raise Refused from None
    drains, w.way = w.way in w.hung, w.other_way
    if w.blocks and drains:
        w.assemble_patiently()  # no leg has said that it goes on without the other one
    else:
        w.assemble()


def discard(w: World) -> None:
    """A zeroing that overlaps both writes: no part of it may be undone by what is late."""
    w.zero(102, 4)


def crowd(w: World) -> None:
    """More writes elsewhere than a queue of few requests has."""
    for first in range(0, 2 * REQUESTS * 8, 8):
        w.write(first, 8)


def elsewhere(w: World) -> None:
    """More regions than a small activity log names."""
    for first in range(192, 448, 64):
        w.fill(first, 8)


def look(w: World) -> None:
    w.look(100, 12)


def grow_legs(w: World) -> None:
    """The devices are larger, and the metadata move to their ends."""
    if w.suspended or not w.there():
        raise Refused
    now = w.status()
    if (now.health, now.action) != ("AA", "idle"):
        raise Refused  # a leg that is away would need an admin
    w.grow()
    w.message("grow")
    base.expect(w.room > w.sectors, f"both legs have more room: {dm.status(MIRROR)}")


def grow_table(w: World) -> None:
    """And the mirror gets longer."""
    if w.suspended or not w.there() or not w.grown or w.sectors == w.room:
        raise Refused
    had, w.sectors = w.sectors, w.room
    try:
        exchange(w, w.way)
    except Refused:
        w.sectors = had
        raise


def suspend(w: World) -> None:
    if not w.there() or w.nobody_answers:
        raise Refused
    if w.suspended:
        if w.resume_waits:
            raise Refused
        w.resume()
    else:
        w.patient(lambda: dm.suspend(MIRROR), "suspend")
        w.suspended = True


def fail(w: World) -> None:
    w.message("fail remote")


def fail_local(w: World) -> None:
    w.message("fail local")


def recover(w: World) -> None:
    needless(w.still())
    w.message("recover")


def resync(w: World) -> None:
    w.message("resync")


def verify(w: World) -> None:
    w.message("verify start")


def block(w: World) -> None:
    w.policy("block")
    w.blocks = True


def unblock(w: World) -> None:
    w.policy("degrade")
    w.blocks = False


def alone(w: World) -> None:
    w.message("unblock")


def fail_held(w: World) -> None:
    w.message("fail_held")


def mirror_cut(w: World) -> None:
    w.cut_mirror_site()


def primary_cut(w: World) -> None:
    if not w.there() or OWN["cache"] == "local":
        raise Refused  # what isn't flushed goes with the host's power
    w.crash()
    w.assemble()


def burns(w: World) -> None:
    w.lose_local(power=False)


def local_power(w: World) -> None:
    if OWN["cache"] != "local":
        raise Refused
    w.lose_local(power=True)


def take_over(w: World) -> None:
    if not w.there() or OWN["cache"] == "local":
        raise Refused
    w.crash()
    w.take_over()
    w.assemble()


EVENTS = [
    hang, back, old_back, fails, other_fails, gone, local_fails, local_hangs, local_back, one_hangs,
    flush_hangs, other_way, reload, both_ways, anew, discard, crowd, suspend, fail, fail_local,
    recover, resync, verify, block, unblock, mirror_cut, primary_cut, take_over, elsewhere, look,
    grow_legs, grow_table, alone, fail_held, local_unread, unread, local_unsaid, unsaid,
    local_half_said, half_said, blink, half_blink, rest, see, wire_only, local_map_unread,
    map_unread, local_log_unread, bad_place, swapped, older, local_older, stop, burns,
    local_power, late, too_late, local_late, local_too_late, local_dies_late,
]  # fmt: skip

code = histories.main(World, EVENTS, LONG_S, searchlab.OWN)
searchdisks.end()
sys.exit(code)
