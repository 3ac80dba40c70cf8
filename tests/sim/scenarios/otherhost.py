# SPDX-License-Identifier: GPL-2.0-only
"""Another host that uses the legs of a mirror, which knows nothing of it. It reaches them by
devices of its own; in this lab it is the same kernel, which is told so (TWO_MIRRORS).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from locklab import base, blk, dm, mirror
from statelab import LOCAL, REMOTE, SLOTS, meta
from statelegs import MAP_SECTORS, TWO_MIRRORS, Leg, Pair

AT, THEIRS = 512, b"\xa5" * (8 << 9)  # what used() writes
LOOKED = 6  # seconds after which the mirror writes no page of a map before it has looked
SETTLES = 1.37  # nothing of the mirror's begins then: "rejoin" is 1


@contextmanager
def other_host(pair: Pair, *legs: Leg) -> Iterator[str]:
    """Its mirror of these legs alone, stopped at the end. OSError if its start is refused."""
    base.put(TWO_MIRRORS, 1)
    ways = {}
    for leg in legs:
        disk = leg.disk
        ways[leg] = dm.create(f"way{leg.name}", f"0 {disk.sectors} linear {disk.node} 0")
    nodes = [ways.get(leg, "-") for leg in pair.legs.values()]
    try:
        there = dm.create("there", mirror.table(*nodes, sectors=pair.sectors))
        try:
            yield there
        finally:
            dm.remove("there")
    finally:
        for leg in legs:
            dm.remove(f"way{leg.name}")
        base.put(TWO_MIRRORS, 0)


def used(pair: Pair, *legs: Leg) -> None:
    """It writes to these legs, or to the remote one if none is named, and stops cleanly."""
    with other_host(pair, *(legs or (pair.remote,))) as there, blk.Disk(there) as disk:
        disk.write(AT, THEIRS)


def metadata(leg: Leg) -> bytes:
    """The leg's map, then its superblock."""
    with blk.Disk(leg.disk.node, write=False) as disk:
        return disk.read(disk.sectors - SLOTS - MAP_SECTORS, SLOTS + MAP_SECTORS)


def resolve(pair: Pair, first: str) -> str:
    """After a split brain: the leg that is kept, `first` if it has all of the data."""
    for keep in (first, REMOTE if first == LOCAL else LOCAL):
        try:
            meta("resolve", "--keep", keep, pair.local.node, pair.remote.node)
        except base.Wrong:
            continue
        return keep
    raise base.Wrong("neither leg can be kept")
