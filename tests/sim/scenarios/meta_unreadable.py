# SPDX-License-Identifier: GPL-2.0-only
"""One sector of a leg's metadata can't be read: the mirror starts, exchanges its table, and takes
the leg back. What that sector could have said is resynced.

Args: the sector (slot0, slot1, map, log), and the leg.
"""

import subprocess

from locklab import base, blk, dm, mirror
from mirrorlab import META, Leg
from statelab import create, super_of

MIB = 8
what, which = base.words(1, ("slot0", "slot1", "map", "log", "local", "remote"))
legs = {name: Leg(f"l{name}", mib=MIB) for name in ("local", "remote")}
nodes = [leg.node for leg in legs.values()]
create(*nodes, "--assume-clean")
leg, super_ = legs[which], super_of(legs[which].node)
end = leg.disk.sectors
bad = {"slot0": end - 16, "slot1": end - 8, "map": super_.map_start, "log": end - 16 - 32}[what]
table = mirror.table(*nodes, "rejoin", 1, "remote_timeout", 2000, sectors=super_.data_sectors)


def breaks() -> None:
    """A write to it makes it right again."""
    leg.table(f"0 {end} dust {leg.disk.node} 0 512")
    dm.message(leg.name, f"addbadblock {bad}")
    dm.message(leg.name, "enable")


def health() -> str:
    return mirror.parse(dm.status("mirror")).health


def goes_on(node: str, at: int) -> None:
    with blk.Disk(node) as disk:
        disk.write(at, blk.pattern(f"{at}", 8))
        base.expect(disk.read(at, 8) == blk.pattern(f"{at}", 8), "what was written")
    base.until(lambda: health() == "AA", f"in sync: {dm.status('mirror')}", 60)


base.step(f"{what} of the {which} leg can't be read at a start")
breaks()
told = subprocess.run([META, "verdict", *nodes], capture_output=True, text=True, check=False)
base.equal(told.returncode, 0, f"exit code of lockstep-meta: {told.stderr}")
device = dm.create("mirror", table)
goes_on(device, 0)

base.step("when the table is exchanged")
breaks()
dm.reload("mirror", table)
goes_on(device, 640)

base.step("when the leg comes back")
dm.message("mirror", f"fail {which}")
goes_alone = blk.pattern("alone", 8)
with blk.Disk(device) as disk_:
    disk_.write(1280, goes_alone)
breaks()
dm.message("mirror", "recover")
goes_on(device, 1920)

dm.remove("mirror")
blk.same(nodes[0], nodes[1], super_.data_sectors)
base.step("done")
