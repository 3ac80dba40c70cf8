# SPDX-License-Identifier: GPL-2.0-only
"""The only good leg gets another device, as a LUN does by a new session. The kernel can't take it
for dead, since nobody stands in; yet `re-add` and the monitor give it back. Args: what the other
leg is, filled or dead.
"""

import subprocess
import time
from pathlib import Path

import clilab
from clilab import good, refused
from locklab import base, blk, dm, ram
from mirrorlab import Leg

CONFIG = Path("/etc/lockstep/m.toml")
NODE = "/dev/mapper/m"


def put(tag: str) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(0, blk.pattern(tag, 8))


def has(tag: str, node: str = NODE) -> None:
    with blk.Disk(node, write=False) as disk:
        base.expect(disk.read(0, 8) == blk.pattern(tag, 8), f"{node} has {tag!r}")


def fails() -> None:
    try:
        put("nobody takes it")
    except OSError:
        return
    raise base.Wrong("a write was taken, and no good leg is there")


def alias(name: str, disk: ram.Ram) -> str:
    """Another device that is the same disk."""
    return dm.create(name, f"0 {disk.sectors} linear {disk.node} 0")


def vanish(name: str, disk: ram.Ram) -> None:
    """The device only fails from now on."""
    dm.load(name, f"0 {disk.sectors} error")
    dm.suspend(name, flush=False)
    dm.resume(name)


def device_now() -> Path:
    return Path(clilab.status()["legs"]["remote"]["device"])


filled = base.words(1, ("filled", "dead")) == ["filled"]
local, remote = Leg("llocal", mib=16), Leg("lremote", mib=16)
spare, older = ram.Ram("spare", 16), ram.Ram("older", 16)
good("create", "m", local.node, remote.node, "--yes")
clilab.in_sync()
put("older")
with blk.Disk(remote.disk.node, write=False) as disk, blk.Disk(older.node) as copy:
    copy.write(0, disk.read(0, disk.sectors))
if filled:
    base.step("the local leg has another disk, and is filled from the remote one")
    good("fail", "m", "local")
    good("set", "m", "resync_rate=20")
    good("replace", "m", "local", spare.node, "--yes")
    put("newer")
    clilab.wait(health="aA")
else:
    base.step("the local disk is dead")
    local.gone()
    put("newer")
    clilab.wait(health="DA", standing="alone")
second, third = alias("second", remote.disk), alias("third", remote.disk)

base.step("while its device answers the remote leg stays where it is")
refused(3, "re-add", "m", "remote", "--device", second, says=("remote leg isn't dead",))
has("newer")

base.step("it is another device now: re-add")
remote.gone()
fails()
refused(3, "re-add", "m", "remote", "--device", older.node, says=("can't be the remote leg",))
base.expect(device_now().samefile(remote.node), f"the remote leg is {device_now()}")
good("re-add", "m", "remote", "--device", second)
base.expect(device_now().samefile(second), f"the remote leg is {device_now()}")
has("newer")
put("newest")

base.step("once more: the monitor")
watch = subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "5"],
                         stdout=subprocess.DEVNULL)  # fmt: skip
CONFIG.write_text(CONFIG.read_text().replace(second, third))
time.sleep(30)
base.expect(device_now().samefile(second), f"the remote leg is {device_now()}, and second answers")
vanish("second", remote.disk)
fails()
base.until(lambda: device_now().samefile(third), "what the monitor gives back")
watch.terminate()
watch.wait()
has("newest")
put("last")

if filled:
    good("set", "m", "resync_rate=0")
else:
    local.well()
clilab.in_sync()
good("stop", "m")
for node in (spare.node if filled else local.disk.node, remote.disk.node):
    has("last", node)
base.step("done")
