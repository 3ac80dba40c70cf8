# SPDX-License-Identifier: GPL-2.0-only
"""`lockstep verify`: equal legs, rot on one of them, and what the exit codes say."""

import clilab
from clilab import good, refused
from locklab import base, blk, ram

one, two = ram.Ram("one", 16), ram.Ram("two", 16)
good("create", "m", one.node, two.node, "--yes")
clilab.in_sync()

base.step("equal legs")
refused(1, "verify", "status", "m", says=("not compared to the end",))
good("verify", "start", "m", "--wait")
good("verify", "status", "m")

base.step("a result stays, until the next run")
good("verify", "stop", "m")
said = good("verify", "status", "m")
base.equal(said.out, "m: everything was compared: no sector differed\n", "after a useless stop")
base.expect("verify has compared everything: equal" in good("status", "m").out, "status says so")

base.step("rot on the remote leg")
with blk.Disk(two.node) as disk:
    disk.write(24576, blk.pattern("rot", 8))
said = clilab.run("verify", "start", "m", "--check", "--wait")
base.equal(said.code, 1, f"exit code of a check: something differed ({said.text.strip()})")
refused(1, "verify", "status", "m", says=("8 sectors differed",))
with blk.Disk(two.node, write=False) as disk:
    base.expect(disk.read(24576, 8) == blk.pattern("rot", 8), "a check mended something")
said = clilab.run("verify", "start", "m", "--wait")
base.equal(said.code, 1, f"exit code: something differed ({said.text.strip()})")
base.expect("8 sectors differed" in said.out, f"how many differed: {said.out}")
clilab.in_sync()
base.equal(clilab.status()["verify"]["out_of_sync_sectors"], 8, "what status says")
length = int(clilab.examined(one.node)["data_len"])
blk.same(one.node, two.node, length)

base.step("it is started, and stopped before its end")
good("set", "m", "resync_rate=1024")
good("verify", "start", "m")
good("verify", "stop", "m")
clilab.wait(action="idle")
good("set", "m", "resync_rate=0")
refused(1, "verify", "status", "m", says=("not compared to the end",))

base.step("all of it again")
good("resync", "m", "--full")
told = clilab.in_sync()
base.expect(told["counters"]["resynced_sectors"] >= length, "everything was copied")

base.step("one leg is gone: nothing to compare")
good("fail", "m", "remote")
refused(1, "verify", "start", "m", says=("only legs in sync",))
good("stop", "m")
one.remove()
two.remove()
base.step("done")
