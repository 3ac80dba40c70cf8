# SPDX-License-Identifier: GPL-2.0-only
"""A table reload that exchanges a leg: a leg that can't be taken never hangs the device."""

import errno
import json
import time

from locklab import base, blk, dm, mirror
from mirrorlab import META, Leg

legs = [Leg("llocal"), Leg("lremote"), Leg("lother")]
local, remote, other = (leg.node for leg in legs)
base.run(META, "create", "--local", local, "--remote", remote, "--region-size", "64")
sectors = int(json.loads(base.run(META, "verdict", local, remote))["data_len"])
device = mirror.Mirror(local, remote, "rejoin", 0, sectors=sectors)
device.in_sync()


def reload(a: str, b: str) -> None:
    dm.reload("mirror", mirror.table(a, b, "rejoin", 0, sectors=sectors))


with blk.Disk(device.node) as disk:
    disk.write(0, blk.pattern("first", 8))
    for a, b, health in ((local, other, "AD"), (other, remote, "DA")):
        base.step(f"{'local' if a == other else 'remote'} exchanged for a blank device")
        reload(a, b)
        base.equal(device.status().health, health, "health")
        base.equal(device.status().rest[6], "foreign", "why")
        what = blk.pattern(health, 8)
        disk.write(0, what)
        base.equal(disk.read(0, 8), what, "what was written since")
        base.expect(not any(blk.Disk(other, write=False).read(0, legs[2].disk.sectors)),
                    "the blank device was written")  # fmt: skip
        base.step("and back: what it missed is copied")
        reload(local, remote)
        device.in_sync()
        base.equal(disk.read(0, 8), what, "what was written since")

    base.step("swapped: refused before the table has gone")
    with base.refused("swapped legs", errno.EINVAL, kernel="are they swapped"):
        dm.load("mirror", mirror.table(remote, local, "rejoin", 0, sectors=sectors))
    disk.write(0, what)

    base.step("taken away, and given back")
    reload(local, "-")
    base.equal(device.status().health, "A-", "health")
    base.equal(device.status().rest[6], "absent", "why")
    disk.write(64, blk.pattern("away", 8))
    reload(local, remote)
    device.in_sync()

    base.step("exchanged for a new leg, made by join: all of it is copied")
    base.run(META, "join", "--source", legs[0].disk.node, "--leg", "remote", other)
    reload(local, other)
    device.in_sync()
    base.equal(disk.read(64, 8), blk.pattern("away", 8), "content")
    blk.same(local, other, sectors)

    base.step("the leg that was replaced is not taken back")
    reload(local, remote)
    base.equal(device.status().health, "AD", "health")
    # "foreign" at first, until the join has looked closer.
    base.until(lambda: device.status().rest[6] == "outdated", "why")

base.step("a leg that was failed by hand stays out, whatever table comes; recover brings it back")


def told(what: str) -> None:
    time.sleep(5)
    now = device.status()
    base.equal((now.health, now.rest[6]), ("AD", "told"), what)


# It tries every second to take dead legs back, but for this one.
eager = mirror.table(legs[0].node, other, "rejoin", 1, sectors=sectors)
dm.reload("mirror", eager)
device.in_sync()
device.message("fail remote")
told("failed")
dm.reload("mirror", eager)
told("after a reload")
dm.suspend("mirror")
dm.resume("mirror")
told("after a suspend")
device.message("recover remote")
device.in_sync()

base.step("the same of one that was dead when it was failed")
legs[2].gone()
with blk.Disk(device.node) as disk:
    disk.write(128, blk.pattern("gone", 8))
device.message("fail remote")
legs[2].well()
told("well again")
dm.reload("mirror", eager)
told("after a reload")
device.message("recover remote")
device.in_sync()

base.step("and of a place without a device")
dm.reload("mirror", mirror.table(legs[0].node, "-", "rejoin", 1, sectors=sectors))
device.message("fail remote")
base.equal(device.status().rest[6], "told", "why")
dm.reload("mirror", mirror.table(legs[0].node, "-", "rejoin", 2, sectors=sectors))
base.equal(device.status().rest[6], "told", "why, after a reload")
dm.reload("mirror", eager)
device.in_sync()
device.remove()
