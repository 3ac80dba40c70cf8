# SPDX-License-Identifier: GPL-2.0-only
"""The name of the only good leg leads to another disk, as when a target renumbers its LUNs: neither
the monitor nor `re-add` goes on with what that has, whatever it says of itself. Args: what it is.

  foreign  a leg of another mirror that has gone on alone; the other leg of this one is dead
  filled   likewise; the other one is being filled
  older    the leg that was replaced once, whose superblock says that it is in sync
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import clilab
from clilab import good, refused
from locklab import base, blk, dm
from mirrorlab import Leg

LINK = Path("/dev/lun0")
NODE = "/dev/mapper/m"


def put(tag: str, name: str = "m", at: int = 0) -> None:
    with blk.Disk(f"/dev/mapper/{name}") as disk:
        disk.write(at, blk.pattern(tag, 8))


def named(leg: Leg, now: Leg) -> None:
    """The configuration names a leg by a name that leads to `now`."""
    conf = Path("/etc/lockstep/m.toml")
    conf.write_text(conf.read_text().replace(leg.node, str(LINK)))
    LINK.unlink(missing_ok=True)
    LINK.symlink_to(now.node)


def other_mirror() -> Leg:
    one, two = Leg("blocal", mib=16), Leg("bremote", mib=16)
    good("create", "n", one.node, two.node, "--yes")
    clilab.in_sync("n")
    one.gone()
    put("of another mirror", "n")
    clilab.wait("n", health="DA", standing="alone")
    good("stop", "n")
    one.well()
    return two


def read(node: str = NODE, sectors: int = 8) -> bytes:
    with blk.Disk(node, write=False) as disk:
        return disk.read(0, sectors)


def stays_out(leg: Leg, strange: Leg, health: str, code: int, says: str) -> None:
    """The leg's device is gone, and its name leads to the strange one."""
    before = read(strange.disk.node, strange.disk.sectors)
    named(leg, leg)
    leg.gone()
    named(leg, strange)
    with base.refused("a write while the leg is gone"):
        put("nobody takes it")
    watch = subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "5"],
                             stdout=subprocess.DEVNULL)  # fmt: skip
    time.sleep(30)
    watch.terminate()
    watch.wait()
    refused(code, "re-add", "m", "remote", says=(says,))
    base.expect(not dm.suspended("m"), "the device isn't left suspended")
    base.equal(dm.status("m").split()[0], health, "the legs")
    with base.refused("a read without a good leg"):
        read()
    with base.refused("a write without a good leg"):
        put("nobody takes it")
    now = read(strange.disk.node, strange.disk.sectors)
    base.expect(now == before, "nothing is written to the strange disk")

    base.step("the leg itself is there again")
    named(leg, leg)
    leg.well()


def made() -> tuple[Leg, Leg]:
    legs = Leg("llocal", mib=16), Leg("lremote", mib=16)
    good("create", "m", *(leg.node for leg in legs), "--yes")
    clilab.in_sync()
    return legs


def foreign() -> None:
    strange = other_mirror()
    local, remote = made()
    local.gone()
    put("newest")
    clilab.wait(health="DA", standing="alone")
    stays_out(remote, strange, "DA", 3, "is a leg of another mirror")
    local.well()


def filled() -> None:
    strange = other_mirror()
    _, remote = made()
    good("set", "m", "resync_rate=20")
    good("fail", "m", "local")
    for at in range(0, 16384, 2048):
        put("newest", at=at)
    good("re-add", "m", "local")
    clilab.wait(health="aA")
    stays_out(remote, strange, "aA", 3, "belong to different mirrors")
    good("set", "m", "resync_rate=0")


def older() -> None:
    local, strange = made()
    good("fail", "m", "remote")
    remote = Leg("lnew", mib=16)
    good("replace", "m", "remote", remote.node, "--yes")
    clilab.in_sync()
    put("newest")
    good("set", "m", "policy=error")
    local.gone()
    with base.refused("a write that one leg can't take"):
        put("refused", at=64)
    stays_out(remote, strange, "DA", 1, "none of those that the last table had")
    local.well()


PARTS: dict[str, Callable[[], None]] = {"foreign": foreign, "filled": filled, "older": older}
(part,) = base.words(1, PARTS)
PARTS[part]()
clilab.in_sync()
base.expect(read() == blk.pattern("newest", 8), "what was written by this mirror")
good("stop", "m")
base.step("done")
