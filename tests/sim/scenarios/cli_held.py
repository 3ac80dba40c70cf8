# SPDX-License-Identifier: GPL-2.0-only
"""policy block: the session is lost, and a write is held; the LUN is back as another device, and
the write is acknowledged. Args: who brings the device: re-add, monitor; or hangs: the monitor
looks at the device, which doesn't answer, and nobody who has the writes go on waits for that.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import clilab
from clilab import good
from locklab import base, blk, dm
from mirrorlab import Leg
from statelab import Beside

CONFIG = Path("/etc/lockstep/m.toml")
AT = 64


def write() -> None:
    with blk.Disk("/dev/mapper/m") as disk:
        disk.write(AT, blk.pattern("held", 8))


(who,) = base.words(1, ("re-add", "monitor", "hangs"))
local, remote = Leg("llocal", mib=16), Leg("lremote", mib=16)
good("create", "m", local.node, remote.node, "--yes")
clilab.in_sync()
good("set", "m", "policy=block")
remote.gone()
base.step("a write is held")
held = Beside(write)
clilab.wait(health="AD", standing="blocked")
base.expect(not held.done, "the write has ended")
base.step(f"the LUN is another device now: {who}")
other = dm.create("lother", f"0 {remote.disk.sectors} linear {remote.disk.node} 0")
if who == "re-add":
    good("re-add", "m", "remote", "--device", other)
    base.until(lambda: held.done, "the held write to end", 60)
else:
    CONFIG.write_text(CONFIG.read_text().replace(remote.node, other))
    if who == "hangs":
        dm.suspend("lother", flush=False)
    with subprocess.Popen([clilab.COMMAND, "monitor", "m", "--interval", "5"]) as monitor:
        if who == "hangs":
            time.sleep(20)  # the monitor is at it
            good("unblock", "m")
            base.until(lambda: held.done, "the held write to end", 1)
            fails = Beside(lambda: good("fail", "m", "remote"))
            time.sleep(5)
            base.expect(not fails.done, "fail waits for the monitor, to look again")
            dm.resume("lother")
            fails.result()
            time.sleep(20)
            base.equal(clilab.status()["legs"]["remote"]["reason"], "told", "why the leg is dead")
            good("re-add", "m", "remote")
        base.until(lambda: held.done, "the held write to end", 60)
        monitor.terminate()
held.result()
clilab.in_sync()
with blk.Disk("/dev/mapper/m", write=False) as disk:
    base.equal(disk.read(AT, 8), blk.pattern("held", 8), "what was held")
good("stop", "m")
base.step("done")
