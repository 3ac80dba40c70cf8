# SPDX-License-Identifier: GPL-2.0-only
"""Another path of the only good leg's disk: nothing makes it the other leg, --force or not."""

import clilab
from clilab import good, refused
from locklab import base, blk, dm
from mirrorlab import Leg

NODE = "/dev/mapper/m"


def put(tag: str, sector: int) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(sector, blk.pattern(tag, 8))


def has(tag: str, sector: int) -> None:
    with blk.Disk(NODE, write=False) as disk:
        base.expect(disk.read(sector, 8) == blk.pattern(tag, 8), f"{tag!r} is there")


local, remote = Leg("llocal", mib=16), Leg("lremote", mib=16)
good("create", "m", local.node, remote.node, "--yes")
clilab.in_sync()
put("both", 0)
other = dm.create("lother", f"0 {remote.disk.sectors} linear {remote.disk.node} 0")
local.gone()
put("alone", 64)
clilab.wait(health="DA", standing="alone")

base.step("by its other path it isn't overwritten")
for force in ((), ("--force",)):
    refused(3, "replace", "m", "local", other, "--yes", *force,
            says=("of the remote leg", other, "--force or not"))  # fmt: skip
said = refused(3, "re-add", "m", "local", "--device", other, says=("It is the remote leg",))
base.expect("lockstep replace" not in said.text, f"a hint to overwrite it: {said.text}")
has("both", 0)
has("alone", 64)
put("still", 128)

base.step("nor in a mirror that is stopped")
good("stop", "m")
refused(3, "replace", "m", "local", other, "--lost", "--yes", "--force",
        says=("of the remote leg", other, "--force or not"))  # fmt: skip
local.well()
good("assemble", "m")
clilab.in_sync()
has("alone", 64)
has("still", 128)
good("stop", "m")
base.step("done")
