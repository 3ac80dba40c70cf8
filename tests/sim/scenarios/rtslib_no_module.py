# SPDX-License-Identifier: GPL-2.0-only
"""The kernel module isn't loaded (a new kernel, say): restoring says so, and nothing that was
saved gets lost; once it is there, everything comes back.
"""

import os
import shutil
from pathlib import Path

import rtslib_host as host
from locklab import base, lio, ram, wire

MODULES = Path(f"/lockstep/build/modules/uml-{os.environ['LAB_KERNEL']}")
data, log, other = ram.Ram("data", 32), ram.Ram("log", 16), ram.Ram("other", 16)
base.run(host.DCD_TOOL, "format", "--data", data.node, "--log", log.node, "--nvram", "none")
host.prepare()
host.install()
link = wire.Wire()


def refused(what: str, *words: str, stdin: str = "") -> None:
    before = host.SAVED.read_bytes()
    said = host.program(*words, stdin=stdin)
    base.expect(said.rc != 0, f"{what}: was done: {said.text}")
    last = said.text.strip().splitlines()[-1]
    for text in ("saveconfig.json is not overwritten", "dcd storage objects m,",
                 "target_core_dcd isn't loaded"):  # fmt: skip
        base.expect(text in last, f"{what}: doesn't say {text!r}: {said.text}")
    base.equal(host.SAVED.read_bytes(), before, f"{what}: the saved file")
    print(f"  {what}: {last}", flush=True)


base.step("systemd understands the drop-in (what it does at boot is seen in the VM lab)")
said = host.good("systemd-analyze", "verify", "rtslib-fb-targetctl.service")
# It looks at whatever the unit is ordered by; the lab's kernel has no IPv6.
complaints = [line for line in said.splitlines() if "does not support IPv6" not in line]
base.equal(complaints, [], "complaints of systemd-analyze verify")

base.step("a configuration is saved; then a boot without the module")
host.create("m", data=data.node, log=log.node, nvram="dram:battery", nvram_bytes="1M")
host.targetcli("/backstores/block", "create", "name=b", f"dev={other.node}")
host.export("/backstores/dcd/m", "/backstores/block/b")
host.targetcli("saveconfig")
whole = host.saved()
host.good("targetctl", "clear")
base.run("rmmod", "target_core_dcd")

base.step("restoring says what is missing, and restores the rest")
said = host.good("targetctl", "restore", netns=wire.NETNS)
base.expect("StorageObject m: dcd m: the kernel module target_core_dcd isn't loaded and can't be:"
            in said, said)  # fmt: skip
base.equal(host.objects(), ["iblock_0/b"], "restored")
luns = Path(f"/sys/kernel/config/target/iscsi/{lio.IQN}/tpgt_1/lun")
base.equal([lun.name for lun in luns.iterdir()], ["lun_1"], "LUNs")
print("  " + said.replace("\n", "\n  ").strip(), flush=True)
listed = host.targetcli("ls")
base.expect("o- dcd" in listed and "o- b " in listed, listed)

base.step("nothing saves over it")
refused("targetctl save", "targetctl", "save")
refused("targetcli saveconfig", "targetcli", "saveconfig")
refused("leaving an interactive targetcli", "targetcli", stdin="ls\nexit\n")
refused("one object", "targetcli", "/backstores/block/b", "saveconfig")
refused("delete and save", "targetcli", "/backstores/block", "delete", "b", "save=True")

base.step("another file may be written, and one that names no dcd object")
elsewhere = Path("/tmp/elsewhere.json")
for _ in range(2):
    host.good("targetctl", "save", str(elsewhere))
base.equal(host.saved(elsewhere)["storage_objects"], [], "saved elsewhere")

base.step("creating by hand says so too")
said = host.program("targetcli", "/backstores/dcd", "create", "m", data.node, log.node, "dram").text
base.expect("dcd m: the kernel module target_core_dcd isn't loaded" in said, said)
base.equal(host.hbas(), [], "left in configfs")

base.step("the module is found by modprobe: restoring loads it, all is back")
there = Path("/lib/modules") / os.uname().release / "updates"
there.mkdir(parents=True)
for name in ("dcd", "target_core_dcd"):
    shutil.copy(MODULES / f"{name}.ko", there)
base.run("depmod", "-A")
base.equal(host.good("targetctl", "restore", netns=wire.NETNS), "", "complaints")
host.targetcli("saveconfig")
base.equal(host.saved(), whole, "saved again")
host.good("targetctl", "clear")
base.step("done")
