# SPDX-License-Identifier: GPL-2.0-only
"""The leg that keeps the map dies, the other one can't be written, so the parting fails; and the
first one comes back. Whose map counts then, and who looks after the marks?

Args: the part.
"""

import errno
import time
from pathlib import Path

from locklab import base, blk, dm
from statelab import LOCAL, Beside, content
from statelegs import Copies, Pair

SLOW_WAIT = Path("/sys/module/dm_lockstep/parameters/test_slow_wait")


def fails_to_part(pair: Pair, both: bool) -> None:
    """A write of a region that is marked fails, so the local leg misses it. The remote leg doesn't
    take the superblock; or it dies, too, before it has."""
    if both:
        pair.remote.set(slots="slow:300")
        pair.local.gone()
        write = Beside(lambda: pair.put(0))
        base.until(lambda: pair.word("standing") == "parting", "parting", 10)
        pair.remote.gone()
        with base.refused("a write that the remote leg alone has", errno.EIO):
            write.result()
        return
    pair.remote.set(slots="nowrite")
    pair.local.gone()
    with base.refused("a write that the remote leg alone has", errno.EIO):
        pair.put(0)


def returned(then: str) -> None:
    base.step("the home is back and has missed a write, while the other leg can't be written yet")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    fails_to_part(pair, then == "both")
    pair.local.well()
    time.sleep(10)  # it is tried every second; whether it comes back before the other is all one
    pair.remote.well()
    pair.in_sync(200)
    time.sleep(70)  # two ticks: all is clean
    pair.same()

    if then == "crash":
        base.step("the primary crashes with a write in flight")
        pair.remote.set(data="slow:600000")
        Beside(lambda: pair.put(640))
        time.sleep(1)
    else:
        base.step("the remote leg goes, the local one goes on alone, the primary crashes")
        pair.remote.gone()
        for at in (640, 768, 896):
            pair.put(at, fua=True)
        pair.wait("AD", "alone")
    history = pair.history.fork()
    copies = Copies(pair.sectors)
    copies.put([pair.local.image(), pair.remote.image()])
    node = copies.start()
    copies.in_sync()
    one, two = copies.data()
    if then != "crash":
        dm.message("copy", f"fail {LOCAL}")
        history.check(content(node, pair.sectors), "read of the remote leg, the local one is lost")
    base.expect(one == two, "the legs differ in sync")


def stopped() -> None:
    base.step("a mark sees that its home is dead just as that is coming back")
    pair = Pair("remote_timeout", 2000, "rejoin", 0)
    pair.put(0)
    pair.remote.set(slots="nowrite")
    pair.local.gone()
    with base.refused("a write", errno.EIO):
        pair.put(640)
    pair.local.set(slots="lag:300")
    recover = Beside(lambda: pair.message("recover"))
    time.sleep(0.1)  # the parting has failed once more, and the leg is being looked at
    base.put(SLOW_WAIT, 1000)
    write = Beside(lambda: pair.put(640))
    recover.result()
    time.sleep(2)
    pair.local.well()
    pair.remote.well()
    base.put(SLOW_WAIT, 0)
    base.until(lambda: write.done, "the write of a region that wasn't marked", 300)
    write.result()


def unread() -> None:
    base.step("the remote leg hangs, and the block that the local leg is asked for can't be read")
    pair = Pair("remote_timeout", 2000, "rejoin", 1)
    pair.put(0)
    node, end = pair.local.disk.node, pair.local.disk.sectors
    dm.reload("llocal", f"0 {end - 16} linear {node} 0\n"
                        f"{end - 16} 1 flakey {node} {end - 16} 0 3600 1 error_reads\n"
                        f"{end - 15} 15 linear {node} {end - 15}")  # fmt: skip
    pair.remote.hang()
    begun = time.monotonic()
    write = Beside(lambda: pair.put(0))
    base.until(lambda: write.done, "the write, which the local leg has", 60)
    base.expect(time.monotonic() - begun < 3, "within remote_timeout and a second")
    write.result()
    pair.remote.wake()
    with blk.Disk(pair.node) as disk:
        disk.read(0, 8)


PARTS = {
    "alone": lambda: returned("alone"),
    "both": lambda: returned("both"),
    "crash": lambda: returned("crash"),
    "stopped": stopped,
    "unread": unread,
}
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
