# SPDX-License-Identifier: GPL-2.0-only
"""A parting that fails half-way, one that is tried again and again, one that doesn't end: what
comes after it.

Args: the part.
"""

import contextlib
import errno
import functools
import os
import signal
import threading
import time
from collections.abc import Callable

from locklab import base, blk, dm
from statelab import ALONE, META, SLOT_SECTORS, Beside, Super, superblock, tail
from statelegs import Copies, Leg, Pair


def second_slot_fails(leg: Leg) -> None:
    disk, end = leg.disk.node, leg.disk.sectors
    start = end - SLOT_SECTORS
    dm.reload(leg.name, f"0 {start} linear {disk} 0\n"
                        f"{start} {SLOT_SECTORS} flakey {disk} {start} 0 3600 1"
                        " error_writes")  # fmt: skip


def half_way(then: str) -> None:
    base.step("the remote leg takes one slot of the superblock in which it is alone")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    second_slot_fails(pair.remote)
    pair.local.gone()
    with base.refused("a write of a region that isn't marked, so no leg gets it", errno.EIO):
        pair.put(640)
    base.equal(pair.remote.super.state, ALONE, "the remote leg, half-way")
    if then == "waits":
        pair.remote.set(slots="nowrite")
        pair.local.well()
        with base.refused("the local leg is well, the remote one contradicts it", errno.EIO):
            pair.message("recover")
        pair.wait("DA", "parting")
        pair.remote.well()
        pair.good_end("the remote leg is well, too")
        return
    pair.local.well()
    pair.in_sync()
    pair.remote.well()
    pair.put(640, fua=True)

    base.step("the remote leg goes, and the local one goes on alone")
    pair.remote.gone()
    pair.put(704, fua=True)
    pair.wait("AD", "alone")
    if then == "crash":
        base.step("the primary crashes")
        copies = Copies(pair.sectors)
        copies.put([pair.local.image(), pair.remote.image()])
        node = copies.start()
        copies.in_sync()
        pair.check("after the crash", node)
        return
    if then == "takeover":
        base.step("the other site takes over with the remote leg")
        copies = Copies(pair.sectors)
        copies.put([pair.local.image(), pair.remote.image()])
        says = base.run(META, "verdict", "-", "/dev/xremote")
        base.expect("missing here" in says, f"a write is missing there, and nobody says so: {says}")
        return
    pair.remote.well()
    pair.good_end("back again")


def tried_again(writers: int) -> None:
    base.step(f"the parting fails, and {writers} writers go on; the leg that was away is well")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    pair.remote.set(slots="nowrite", map="slow:5")
    pair.local.gone()
    stop = threading.Event()

    def work(at: int) -> None:
        with blk.Disk(pair.node) as disk:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    disk.write(at, bytes(4096))
                    time.sleep(0.01)

    threads = [Beside(functools.partial(work, 640 + 64 * n)) for n in range(writers)]
    pair.wait("DA", "parting")
    time.sleep(5)  # all of them have failed many times
    pair.local.well()
    pair.wait("AA", "together", 10)
    stop.set()
    for thread in threads:
        thread.result()
    pair.remote.well()
    pair.in_sync()
    pair.same()


def slots(leg: Leg) -> tuple[Super, Super]:
    last = tail(leg.disk.node)
    middle = len(last) // 2
    one, two = superblock(2 * last[:middle]), superblock(2 * last[middle:])
    assert one and two
    return one, two


def told_while_suspended(how: str, ms: int) -> None:
    """Reads take as long, too, if it lags."""
    base.step(f"a suspended mirror is told to part, and its leg takes {ms} ms for a slot")
    pair = Pair("remote_timeout", 2000, "rejoin", 0)
    pair.put(0)
    dm.suspend("mirror")
    pair.local.set(slots=f"{how}:{ms}")
    before = pair.local.super.seq
    pair.message("fail remote")
    base.equal(pair.local.super.seq, before, "the leg's superblock: the message didn't wait")

    base.step("another table starts before that has ended")
    dm.load("mirror", pair.table())
    if ms > 30000:
        # It ends after as long as a leg without a timeout may take that nobody watches.
        with base.refused("the start beside what a parting has sent", errno.EBUSY,
                          kernel="hasn't answered all"):  # fmt: skip
            dm.resume("mirror")
        base.until(starts, "the start once that has come", 60)
    else:
        start = Beside(lambda: dm.resume("mirror"))
        while not start.done:
            no_two_writers(pair)
        start.result()
    pair.wait("AD", "alone")
    pair.local.well()
    pair.put(704)
    pair.message("recover")
    pair.good_end("the table after")


def unread() -> None:
    base.step("a suspended mirror is told to part, and its leg takes 25 s to be read, too")
    pair = Pair("remote_timeout", 30000, "rejoin", 0)
    pair.put(0)
    dm.suspend("mirror")
    pair.remote.all("lag:25000")
    with contextlib.suppress(OSError):
        pair.message("fail local")
    dm.load("mirror", pair.table())
    with base.refused("the start beside what a parting has yet to send", errno.EBUSY,
                      kernel="resume once more"):  # fmt: skip
        dm.resume("mirror")
    pair.remote.well()
    base.until(starts, "the start once the parting has ended", 120)
    pair.put(704)
    pair.message("recover")
    pair.good_end("the table after")


def no_two_writers(pair: Pair) -> None:
    one, two = slots(pair.local)
    base.expect(one == two or one.seq != two.seq, "the slots differ under one number")
    time.sleep(0.05)


def killed() -> None:
    base.step("a suspended mirror is told to part; who resumes another table is killed meanwhile")
    pair = Pair("remote_timeout", 2000, "rejoin", 0)
    pair.put(0)
    dm.suspend("mirror")
    pair.local.set(slots="stall:5000")
    pair.message("fail remote")
    dm.load("mirror", pair.table())
    child = os.fork()
    if not child:
        with contextlib.suppress(OSError):
            dm.resume("mirror")
        os._exit(0)
    time.sleep(0.5)
    os.kill(child, signal.SIGKILL)
    until = time.monotonic() + 12
    while time.monotonic() < until:
        no_two_writers(pair)
    base.equal(os.WTERMSIG(os.waitpid(child, 0)[1]), signal.SIGKILL, "who was killed ended by")
    dm.resume("mirror")
    pair.wait("AD", "alone")
    pair.local.well()
    pair.put(704)
    pair.message("recover")
    pair.good_end("the table after")


def starts() -> bool:
    try:
        dm.resume("mirror")
    except OSError as err:
        base.equal(err.errno, errno.EBUSY, "while the leg drains")
        return False
    return True


PARTS: dict[str, Callable[[], None]] = {
    "told": lambda: told_while_suspended("stall", 5000),
    "endless": lambda: told_while_suspended("stall", 40000),
    "unread": unread,
    "killed": killed,
    "writers": lambda: tried_again(4),
    "waits": lambda: half_way("waits"),
    "back": lambda: half_way("back"),
    "crash": lambda: half_way("crash"),
    "takeover": lambda: half_way("takeover"),
}
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
