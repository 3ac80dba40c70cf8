# SPDX-License-Identifier: GPL-2.0-only
"""A leg's device grows while the mirror runs: the metadata stay where they are."""

import json

from locklab import base, blk, dm, mirror, ram
from mirrorlab import META, Leg

legs = [Leg("llocal"), Leg("lremote")]
disks = [ram.Ram(f"{leg.name}more", 1) for leg in legs]
both = (legs[0].node, legs[1].node)
base.run(META, "create", "--local", both[0], "--remote", both[1], "--region-size", "64")
sectors = int(json.loads(base.run(META, "verdict", *both))["data_len"])
device = mirror.Mirror(*both, "rejoin", 0, sectors=sectors)
device.in_sync()

base.step("both devices grow; what is written afterwards is found again")
for leg, more in zip(legs, disks, strict=True):
    table = f"0 {leg.disk.sectors} linear {leg.disk.node} 0\n"
    table += f"{leg.disk.sectors} {more.sectors} linear {more.node} 0"
    dm.load(leg.name, table)
    dm.suspend(leg.name, flush=False)
    dm.resume(leg.name)
with blk.Disk(device.node) as disk:
    disk.write(0, blk.pattern("grown", 64))
    device.message("fail remote")
    disk.write(4096, blk.pattern("alone", 64))
base.step("a table reload finds the metadata where they are")
dm.reload("mirror", device.table)
base.equal(device.status().health, "AD", "health after the reload")
device.message("recover")
device.in_sync()
device.remove()
for leg, more in zip(legs, disks, strict=True):
    base.expect(more.node and not any(blk.Disk(more.node).read(0, more.sectors)),
                f"{leg.name}: something was written at the new end")  # fmt: skip

base.step("on devices of the old size the mirror is as it was")
for leg in legs:
    leg.well()
device = mirror.Mirror(*both, sectors=sectors)
base.equal(device.status().health, "AA", "health")
base.equal(device.status().in_sync, device.status().regions, "regions in sync")
device.remove()
blk.same(legs[0].disk.node, legs[1].disk.node, sectors)
