# SPDX-License-Identifier: GPL-2.0-only
"""What the command must not do by guess: take an older leg for the current one, write a leg of
another mirror, undo what the administrator has said.
"""

import subprocess
import time
from functools import partial
from pathlib import Path

import clilab
from clilab import good, refused
from locklab import base, blk, dm, mirror, ram
from mirrorlab import Leg

CONFIG = Path("/etc/lockstep/m.toml")
NODE = "/dev/mapper/m"


def put(tag: str) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(0, blk.pattern(tag, 64))


def has(tag: str, node: str = NODE) -> None:
    with blk.Disk(node, write=False) as disk:
        base.expect(disk.read(0, 64) == blk.pattern(tag, 64), f"{node} has {tag!r}")


def image(node: str) -> bytes:
    with blk.Disk(node, write=False) as disk:
        return disk.read(0, disk.sectors)


def older_leg(local: Leg, remote: Leg) -> None:
    base.step("only the remote leg has the newest writes: a replace of it takes nothing by guess")
    put("newer")
    good("fail", "m", "local")
    put("newest")
    good("stop", "m")
    spare = ram.Ram("spare", 16)
    before = [image(node) for node in (local.node, remote.node, spare.node)]
    refused(3, "replace", "m", "remote", spare.node, "--yes", says=("remote",))
    refused(3, "replace", "m", "remote", remote.node, "--yes", "--force", says=("remote",))
    after = [image(node) for node in (local.node, remote.node, spare.node)]
    base.expect(before == after, "nothing was written")
    good("assemble", "m")
    clilab.in_sync()
    has("newest")
    good("stop", "m")
    has("newest", local.disk.node)
    spare.remove()


def other_mirrors_legs(local: Leg, remote: Leg) -> None:
    base.step("the configuration names another mirror's legs: none of them is written")
    one, two = Leg("other1", mib=16), Leg("other2", mib=16)
    good("create", "x", one.node, two.node, "--yes")
    clilab.in_sync("x")
    good("stop", "x")
    kept = CONFIG.read_text()
    CONFIG.write_text(kept.replace(local.node, one.node).replace(remote.node, two.node))
    spare = ram.Ram("spare", 16)
    nodes = [one.node, two.node, spare.node]
    refuse = partial(refused, 3, says=("belong to another mirror",))
    before = [image(node) for node in nodes]
    refuse("assemble", "m")
    refuse("grow", "m", "--yes")
    refuse("replace", "m", "remote", spare.node, "--yes")
    base.expect(before == [image(node) for node in nodes], "nothing was written")
    for legs in ((one.node, "-"), ("-", two.node)):  # a split brain of theirs
        dm.create("alone", mirror.table(*legs, sectors=clilab.examined(one.node)["data_len"]))
        dm.remove("alone")
    before = [image(node) for node in nodes]
    refuse("resolve", "m", "--keep", "local", "--yes")
    base.expect(before == [image(node) for node in nodes], "nothing was written")
    CONFIG.write_text(kept)
    good("resolve", "x", "--keep", "local", "--yes")
    one.close()
    two.close()
    spare.remove()


def told(remote: Leg) -> None:
    base.step("what was failed by hand isn't given back by the monitor, as another device neither")
    good("assemble", "m")
    clilab.in_sync()
    good("fail", "m", "remote")
    watch = subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "2"],
                             stdout=subprocess.DEVNULL)  # fmt: skip
    time.sleep(15)
    base.equal(watch.poll(), None, "the monitor's exit code")
    base.equal(clilab.status()["health"], "AD", "health with the monitor")
    size, disk = remote.disk.sectors, remote.disk.node
    node = dm.create("newnumber", f"0 {size} linear {disk} 0")
    kept = CONFIG.read_text()
    CONFIG.write_text(kept.replace(remote.node, node))
    time.sleep(15)
    base.equal(clilab.status()["health"], "AD", "health with another device")
    base.step("the same monitor gives back what wasn't failed by hand")
    good("re-add", "m")
    clilab.in_sync()
    CONFIG.write_text(kept)
    dm.load("newnumber", f"0 {size} error")
    dm.suspend("newnumber", flush=False)
    dm.resume("newnumber")
    put("on the local leg")
    base.until(lambda: clilab.status()["health"] == "AA", "what the monitor gave back")
    now = clilab.status()["legs"]["remote"]["device"]
    base.expect(Path(now).samefile(remote.node), f"the remote leg is {remote.node}: {now}")
    watch.terminate()
    watch.wait()
    clilab.in_sync()
    good("stop", "m")
    dm.remove("newnumber")


local, remote = Leg("llocal", mib=16), Leg("lremote", mib=16)
good("create", "m", local.node, remote.node, "--yes")
clilab.in_sync()
older_leg(local, remote)
other_mirrors_legs(local, remote)
told(remote)
base.step("done")
