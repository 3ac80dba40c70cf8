# SPDX-License-Identifier: GPL-2.0-only
"""Devices that go while the command, or the monitor, exchanges a table, or that go both. Args: the
part.

  reload    the only good leg is away just as the table is exchanged, for less than the command
            tries: the old table goes on
  monitor   likewise, for longer: the monitor has it go on
  lun       likewise, and of the old table a device is no more: the new one goes on
  both      one leg is filled from the other, and both get other devices
"""

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import clilab
from clilab import BY_PATH, good, refused
from locklab import base, blk, dm, iscsi, pair, wire
from mirrorlab import Leg
from statelab import Beside

CONFIG = Path("/etc/lockstep/m.toml")
NODE = "/dev/mapper/m"


def put(tag: str) -> None:
    with blk.Disk(NODE) as disk:
        disk.write(0, blk.pattern(tag, 8))


def goes_on(tag: str) -> None:
    write = Beside(lambda: put(tag))
    base.until(lambda: write.done, f"a write; {dm.status('m')[:60]}", 60)
    write.result()


def taken(tag: str) -> bool:
    try:
        put(tag)
    except OSError:
        return False
    return True


def again(leg: Leg) -> str:
    """The same disk as another device, by which the configuration names it."""
    node = dm.create(f"new{leg.name}", f"0 {leg.disk.sectors} linear {leg.disk.node} 0")
    CONFIG.write_text(CONFIG.read_text().replace(leg.node, node))
    return node


@contextmanager
def monitor() -> Iterator[None]:
    watch = subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "5"],
                             stdout=subprocess.DEVNULL)  # fmt: skip
    yield
    watch.terminate()
    watch.wait()


def away_amid_an_exchange(seconds: float) -> threading.Thread:
    """The local leg, from when the device is suspended on."""

    def blip() -> None:
        while not dm.suspended("m"):
            time.sleep(0.0005)
        local.gone()
        time.sleep(seconds)
        local.well()

    thread = threading.Thread(target=blip)
    thread.start()
    return thread


def another_lun() -> None:
    base.step("the LUN is another device, and the local leg is away as it is given back")
    session.logout()
    put("second")
    session.login()
    base.until(BY_PATH.exists, "the LUN's name")
    blip = away_amid_an_exchange(2)
    began = time.monotonic()
    back = Beside(lambda: good("re-add", "m", "remote"))
    blip.join()
    goes_on("third")
    took = time.monotonic() - began
    base.expect(took < 6, f"all I/O was held for {took:.1f} s")
    back.result()


part = base.words(1, ("reload", "monitor", "lun", "both"))[0]
local = Leg("llocal", mib=16)
if part == "lun":
    wire.Wire()
    site = pair.Site("iblock", 16)
    session = iscsi.Session()
    session.login()
    clilab.udev()
    base.until(BY_PATH.exists, "the LUN's name")
    node, far = str(BY_PATH), site.disks[0].node
else:
    remote = Leg("lremote", mib=16)
    node, far = remote.node, remote.disk.node
good("create", "m", local.node, node, "--yes")
clilab.in_sync()
put("first")
if part == "both":
    base.step("the local leg is filled from the remote one; both have other devices")
    good("set", "m", "resync_rate=20")
    good("fail", "m", "local")
    with blk.Disk(NODE) as disk:
        for at in range(0, 16384, 2048):
            disk.write(at, blk.pattern("filled", 8))
    good("re-add", "m", "local")
    clilab.wait(health="aA")
    put("second")
    local.gone()
    remote.gone()
    again(local)
    again(remote)
    with monitor():
        base.until(lambda: taken("third"), "the remote leg is back", 120)
        good("set", "m", "resync_rate=0")
        clilab.in_sync()
elif part == "lun":
    another_lun()
else:
    base.step("the remote leg is another device, and the local one is away as it is given back")
    remote.gone()
    put("second")
    again(remote)
    blip = away_amid_an_exchange(2 if part == "reload" else 45)
    if part == "reload":
        refused(1, "re-add", "m", "remote", says=("The old table goes on",))
        goes_on("third")
    with monitor():
        blip.join()
        base.until(lambda: dm.status("m")[:2] in ("Aa", "AA"), "both are back", 120)
        goes_on("third")
clilab.in_sync()
good("stop", "m")
for node in (local.disk.node, far):
    with blk.Disk(node, write=False) as disk:
        base.expect(disk.read(0, 8) == blk.pattern("third", 8), f"{node} has the last write")
base.step("done")
