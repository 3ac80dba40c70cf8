# SPDX-License-Identifier: GPL-2.0-only
"""Another path of the only good leg's disk: nothing makes it the other leg, or one of another
mirror, --force or not, nor wipes it while the mirror runs."""

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


local, remote, spare = (Leg(name, mib=16) for name in ("llocal", "lremote", "lspare"))
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

base.step("nor wiped, nor is a word said for a disk in its place that the next command refuses")
refused(3, "wipe", other, "--yes", says=("the remote leg of m, which is in use", "another path"))
refused(3, "replace", "m", "remote", other, "--yes",
        says=("the only one that has everything", "re-add m local", "re-add m remote"))  # fmt: skip
refused(3, "fail", "m", "remote", says=("isn't in sync",))
for legs in ((other, spare.node), (spare.node, other)):
    refused(3, "create", "n", *legs, "--yes", "--force", "--force-local",
            says=("the remote leg of m, which is in use", "another path"))  # fmt: skip
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

base.step("with both in sync, by either path; once it is stopped nobody uses it")
for leg in (local, remote):
    path = dm.create("lthird", f"0 {leg.disk.sectors} linear {leg.disk.node} 0")
    refused(3, "wipe", path, "--yes", says=(f"the {leg.name[1:]} leg of m, which is in use",))
    dm.remove("lthird")
good("stop", "m")
good("wipe", other, "--yes")
refused(3, "wipe", remote.node, "--yes", says=("no leg of a mirror",))
base.step("done")
