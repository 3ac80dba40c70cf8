# SPDX-License-Identifier: GPL-2.0-only
"""The leg that is copied from takes no more writes: what lockstep(8) says to do then, done."""

import time
from pathlib import Path

import clilab
from clilab import good, refused
from locklab import base, blk
from mirrorlab import Leg

NODE = "/dev/mapper/m"
PLACES = (0, 4096, 30000)


def data(sector: int) -> bytes:
    return blk.pattern(f"data at {sector}", 8)


def has_all(node: str) -> None:
    with blk.Disk(node, write=False) as disk:
        for sector in PLACES:
            base.expect(disk.read(sector, 8) == data(sector), f"{node} has the data at {sector}")


local, remote, spare = (Leg(f"l{name}", mib=16) for name in ("local", "remote", "spare"))
with blk.Disk(local.node) as disk:
    for sector in PLACES:
        disk.write(sector, data(sector))
log = base.KernelLog()

base.step("while it is copied from, the disk begins to refuse writes")
good("create", "m", local.node, remote.node, "--resync-rate", "2048", "--yes")
local.fail_writes()
good("set", "m", "resync_rate=0")
time.sleep(60)
base.expect(any("takes no superblock" in line for line in log.new()), "the log tells it")
clilab.wait(health="Aa")
try:
    with blk.Disk(NODE) as disk:
        disk.write(0, blk.pattern("nobody takes it", 8))
except OSError:
    pass
else:
    raise base.Wrong("a write was taken that the source refuses")

base.step("it can't be mended: what the other leg has becomes a new mirror")
good("stop", "m")
good("wipe", remote.node, "--yes")
has_all(remote.node)
refused(3, "create", "m", remote.node, spare.node, "--force-local", "--yes",
        says=("there is a mirror m already", "remove that file"))  # fmt: skip
Path("/etc/lockstep/m.toml").unlink()
good("create", "m", remote.node, spare.node, "--force-local", "--yes")
clilab.in_sync()
has_all(NODE)
good("stop", "m")
has_all(spare.node)
base.step("done")
