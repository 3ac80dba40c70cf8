# SPDX-License-Identifier: GPL-2.0-only
"""One sector of the disk that is copied from can't be read: what is said of it, what mends it, and
what is left when that disk is lost before."""

from pathlib import Path

import clilab
from clilab import good, refused
from locklab import base, blk
from mirrorlab import Leg

NODE = "/dev/mapper/m"
BAD = 9000
DATA = blk.pattern("data", 8)


def put(node: str, sector: int) -> None:
    with blk.Disk(node) as disk:
        disk.write(sector, DATA)


def has(node: str, sector: int) -> None:
    with blk.Disk(node, write=False) as disk:
        base.expect(disk.read(sector, 8) == DATA, f"the data is at {sector} of {node}")


local, remote, spare = (Leg(f"l{name}", mib=16) for name in ("local", "remote", "spare"))
put(local.node, 0)
log = base.KernelLog()

base.step("it is told, and mended by a write")
local.bad_reads(BAD, BAD)
good("create", "m", local.node, remote.node, "--region-size", "32K", "--yes")
clilab.wait(health="Aa", action="stalled")
said = [line for line in log.new() if ": resync: local leg " in line]
base.equal(len(said), 1, f"lines of the log: {said}")
base.expect("stalled" in clilab.run("status", "m").out, "status says it")
put(NODE, BAD // 8 * 8)
clilab.in_sync()

base.step("the disk is lost before that: nothing takes the other one for a leg that has all")
good("fail", "m", "remote")
put(NODE, BAD // 64 * 64 + 16)
local.bad_reads(BAD, BAD)
good("re-add", "m", "remote")
clilab.wait(health="Aa", action="stalled")
good("stop", "m")
Path("/etc/lockstep/m.toml").unlink()
way = ("Only if that leg is lost for good", f"lockstep wipe {remote.node}")
for run in ((), ("--run",)):
    refused(3, "assemble", "m", "--local", "-", "--remote", remote.node, *run, "--yes", says=way)

base.step("what it has can be salvaged")
good("wipe", remote.node, "--yes")
good("create", "n", remote.node, spare.node, "--force-local", "--yes")
clilab.in_sync("n")
has("/dev/mapper/n", 0)
has("/dev/mapper/n", BAD // 8 * 8)
good("stop", "n")
base.step("done")
