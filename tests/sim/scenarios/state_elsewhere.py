# SPDX-License-Identifier: GPL-2.0-only
"""A host uses the remote leg by itself while the mirror's host knows nothing of it: its table is
suspended, or it sleeps as a virtual machine that is paused. What that host says on the leg isn't
overwritten when the mirror goes on: the leg is given up, and both histories are there.

Args: the part.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from locklab import base, blk, dm, mirror
from statelab import LOCAL, REMOTE, meta
from statelegs import TWO_MIRRORS, Pair

AT, THEIRS = 512, b"\xa5" * (8 << 9)


def used(pair: Pair) -> None:
    """By the other host: an acknowledged write, and a clean stop."""
    disk = pair.remote.disk
    base.put(TWO_MIRRORS, 1)
    node = dm.create("way", f"0 {disk.sectors} linear {disk.node} 0")
    there = dm.create("there", mirror.table("-", node, sectors=pair.sectors))
    with blk.Disk(there) as opened:
        opened.write(AT, THEIRS)
    for name in ("there", "way"):
        dm.remove(name)
    base.put(TWO_MIRRORS, 0)


def both_are_there(pair: Pair, seconds: float = 10) -> None:
    """The mirror goes on with the local leg; what was written elsewhere stays where it was."""
    pair.wait("AD", "alone", seconds)
    base.until(lambda: pair.word("why") == "diverged", f"why: {dm.status(pair.name)}", 10)
    pair.check("the local leg goes on")
    pair.stop()
    with blk.Disk(pair.remote.disk.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    with base.refused("a start", errno.EINVAL, kernel="Split brain"):
        pair.start()
    meta("resolve", "--keep", LOCAL, pair.local.node, pair.remote.node)
    pair.start()
    pair.good_end("resolved")
    pair.close()


def start() -> Pair:
    pair = Pair("rejoin", 1)
    pair.put(0)
    pair.clean()
    return pair


def suspended() -> None:
    base.step("the remote leg is used elsewhere while the table is suspended")
    pair = start()
    dm.suspend(pair.name)
    used(pair)
    dm.resume(pair.name)
    both_are_there(pair)


def asleep() -> None:
    base.step("the remote leg is used elsewhere while the host sleeps; then it writes")
    pair = start()
    used(pair)
    pair.put(256)
    both_are_there(pair, 70)


def stopped() -> None:
    base.step("the remote leg is used elsewhere while the host sleeps; then the mirror is stopped")
    pair = start()
    used(pair)
    pair.stop()
    with base.refused("a start", errno.EINVAL, kernel="Split brain"):
        pair.start()
    meta("resolve", "--keep", REMOTE, pair.local.node, pair.remote.node)
    pair.start()
    pair.in_sync()
    with blk.Disk(pair.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    pair.close()


def survives() -> None:
    base.step("the remote leg is used elsewhere while the host sleeps; then the local leg fails")
    pair = start()
    used(pair)
    pair.local.gone()
    with base.refused("a write", errno.EIO):
        pair.put(256)
    pair.stop()
    pair.local.well()
    with blk.Disk(pair.remote.disk.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    pair.start()
    pair.in_sync()
    with blk.Disk(pair.node, write=False) as disk:
        base.equal(disk.read(AT, 8), THEIRS, "what the other host has written")
    pair.close()


def put_back() -> None:
    base.step("while the table is suspended the remote leg is put back as it was once")
    pair = start()
    old = pair.remote.image()
    pair.put(256)
    pair.clean()
    dm.suspend(pair.name)
    pair.remote.put(old)
    dm.resume(pair.name)
    pair.wait("AD", "alone", 10)
    base.until(lambda: pair.word("why") == "outdated", f"why: {dm.status(pair.name)}", 10)
    pair.stop()
    with base.refused("a start", errno.EINVAL, kernel="is an older copy"):
        pair.start()
    meta("resolve", "--keep", LOCAL, pair.local.node, pair.remote.node)
    pair.start()
    pair.good_end("resolved")
    pair.close()


PARTS: dict[str, Callable[[], None]] = {
    one.__name__: one for one in (suspended, asleep, stopped, survives, put_back)
}
(part,) = base.words(1, PARTS)
PARTS[part]()
base.step("done")
