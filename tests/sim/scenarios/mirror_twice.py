# SPDX-License-Identifier: GPL-2.0-only
"""Two mirrors of one host on one leg, which they reach by two devices, as a LUN by two portals: the
second one is refused, whenever it would have the leg. (registry.h)

    mirror_twice.py [PART...]
"""

import errno

from latelab import Late, Ways
from locklab import base, blk, dm, mirror
from mirrorlab import FIELDS

OTHER = "other"


def second(late: Late, *, local: bool = True, remote: bool = True) -> str:
    """The table of another mirror on the same legs, each by its other device."""
    nodes = [leg.nodes[1] if there else "-"
             for leg, there in zip(late.legs, (local, remote), strict=True)]  # fmt: skip
    return mirror.table(*nodes, "rejoin", 1, sectors=late.sectors)


def why(name: str) -> tuple[str, str]:
    now = mirror.parse(dm.status(name))
    return now.health, now.rest[FIELDS.index("why")]


def refused(late: Late, what: str) -> None:
    for there in ({}, {"local": False}, {"remote": False}):
        with base.refused(f"{what}, {there}", errno.EBUSY, kernel=f"is a leg of {late.name}"):
            dm.create(OTHER, second(late, **there))


def loaded() -> None:
    base.step("a second mirror's table is refused while the first one runs, or is suspended")
    late = Late()
    late.write(0, "first")
    refused(late, "while it runs")
    dm.suspend(late.name)
    refused(late, "while it is suspended")
    dm.resume(late.name)
    late.write(0, "newer")
    late.holds(0, "newer")
    dm.remove(late.name)
    dm.create(OTHER, second(late))
    dm.remove(OTHER)
    late.node = dm.create(late.name, late.table())
    late.close()


def started() -> None:
    base.step("both have been loaded before one of them runs: the second one can't be started")
    late = Late()
    table = late.table()
    dm.remove(late.name)
    for name in (late.name, OTHER):
        dm.create(name, f"0 {late.sectors} error")
    dm.load(late.name, table)
    dm.load(OTHER, second(late))
    # A table that has never run has no leg.
    for first, then in ((late.name, OTHER), (OTHER, late.name)):
        dm.suspend(first)
        dm.resume(first)
        dm.suspend(then)
        with base.refused(f"{then} beside {first}", errno.EBUSY, kernel=f"is a leg of {first}"):
            dm.resume(then)
        dm.load(first, f"0 {late.sectors} error")
        dm.suspend(first)
        dm.resume(first)
        dm.resume(then)
        base.equal(why(then)[0], "AA", f"health of {then}")
        dm.load(then, f"0 {late.sectors} error")
        dm.suspend(then)
        dm.resume(then)
        dm.load(late.name, table)
        dm.load(OTHER, second(late))
    dm.remove(OTHER)
    late.close()


def joins() -> None:
    base.step("a leg that another mirror has got meanwhile doesn't come back before that has gone")
    late = Late()
    late.write(0, "first")
    dm.message(late.name, "fail remote")
    late.write(0, "newer")
    # Read-only, or it would have a history of its own.
    dm.create(OTHER, second(late, local=False), readonly=True)
    with base.refused("recover", errno.EINVAL, kernel=f"is a leg of {OTHER}"):
        dm.message(late.name, "recover")
    base.equal(why(late.name), ("AD", "taken"), "health and why")
    dm.remove(OTHER)
    late.in_sync()
    late.holds(0, "newer")
    late.close()


def reloads() -> None:
    base.step("a reload brings such a leg: the mirror goes on without it, until it is free")
    late = Late()
    spare = dm.create("spare", f"0 {late.legs[1].disk.sectors} linear {late.legs[1].disk.node} 0")
    late.write(0, "first")
    dm.message(late.name, "fail remote")
    dm.create(OTHER, second(late, local=False), readonly=True)
    log = base.KernelLog()
    dm.reload(late.name, late.table().replace(late.legs[1].nodes[0], spare))
    said = [line for line in log.new() if f"is a leg of {OTHER}" in line]
    base.expect(said, "nothing in the log")
    base.equal(why(late.name), ("AD", "taken"), "health and why")
    late.write(0, "newer")
    dm.remove(OTHER)
    late.in_sync()
    late.holds(0, "newer")
    base.step("and a reload of one mirror to the other devices of both its legs is none")
    late.used = [1, 1]
    dm.reload(late.name, late.table())
    late.in_sync()
    late.write(64, "newest")
    late.holds(64, "newest")
    dm.remove("spare")
    late.close()


def dead() -> None:
    base.step("a dead leg is nobody's: another mirror may have it, and then it has diverged")
    late = Late()
    dm.message(late.name, "fail remote")
    late.write(0, "first")
    node = dm.create(OTHER, second(late, local=False))
    with blk.Disk(node) as disk:
        disk.write(64, blk.pattern("theirs", 8))
    with base.refused("the leg that is in use", errno.EBUSY, kernel=f"is a leg of {late.name}"):
        dm.create("third", second(late, remote=False))
    with base.refused("recover", errno.EINVAL, kernel="can't come back"):
        dm.message(late.name, "recover")
    base.equal(why(late.name), ("AD", "diverged"), "health and why")
    dm.remove(OTHER)
    late.close()


def memory_only() -> None:
    base.step("without metadata nothing is known of a leg but its device")
    legs = (Ways("a"), Ways("b"))
    nodes = [dm.create(f"m{way}", mirror.table(*(leg.nodes[way] for leg in legs), "nosync"))
             for way in range(2)]  # fmt: skip
    for n in range(len(nodes)):
        dm.remove(f"m{n}")
    for leg in legs:
        leg.close()


PARTS = {
    "loaded": loaded,
    "started": started,
    "joins": joins,
    "reloads": reloads,
    "dead": dead,
    "memory_only": memory_only,
}
for part in base.words(1, PARTS) or PARTS:
    PARTS[part]()
base.step("done")
