# SPDX-License-Identifier: GPL-2.0-only
"""What targetcli tells of dcd objects that aren't at their best, and whether it is true."""

import re
from pathlib import Path

import rtslib_host as host
from locklab import base, blk, lio, ram

data, log = ram.Ram("data", 32), ram.Ram("log", 16)
base.run(host.DCD_TOOL, "format", "--data", data.node, "--log", log.node, "--nvram", "none")
host.prepare()
host.install()


def line(name: str) -> str:
    listed = host.targetcli("/backstores/dcd", "ls")
    found = re.search(rf"o- {name} \.+ \[(.*)\]", listed)
    base.expect(found, listed)
    return found.group(1) if found else ""


base.step("an object that isn't enabled yet")
raw = base.made(base.made(host.CORE / "dcd_7") / "raw")
base.expect("not enabled" in line("raw"), line("raw"))
host.targetcli("/backstores/dcd", "delete", "raw")
base.equal(host.hbas(), [], "left")

base.step("write-back and write-thru are what the LUN says of its cache")
for nvram, word, cache in (
    ("dram", "write-back", "write back"),
    ("dram:battery", "write-thru", "write through"),
):
    store = lio.dcd("v", data.node, log.node, nvram, "nvram_bytes=1048576")
    with lio.look(store) as node:
        (kind,) = Path(f"/sys/block/{Path(node).name}/device/scsi_disk").glob("*/cache_type")
        base.equal(kind.read_text().strip(), cache, f"cache of the LUN with nvram={nvram}")
    base.expect(word in line("v"), line("v"))
    host.targetcli("/backstores/dcd", "delete", "v")

base.step("nvram_bytes left out")
host.create("v", data=data.node, log=log.node, nvram="dram:battery")
host.targetcli("saveconfig")
(saved,) = host.saved()["storage_objects"]
base.equal(saved["nvram_bytes"], 0, "nvram_bytes saved")
host.targetcli("clearconfig", "confirm=True")
host.targetcli("restoreconfig")

base.step("the size is the LUN's, whatever the disk's node is now")
Path(data.node).rename("/dev/elsewhere")
base.expect("(32.0MiB)" in line("v"), line("v"))
Path("/dev/elsewhere").rename(data.node)
base.expect("(32.0MiB)" in line("v"), line("v"))

base.step("the log disk fails")
base.expect("FAIL" not in line("v"), line("v"))
log.bad(0, log.sectors - 1)
with lio.look(store) as node, blk.Disk(node) as disk:
    disk.write(0, blk.pattern("last", 64))
    base.until(lambda: "log FAIL" in store.info(), "the failure of the log disk")
base.expect(line("v").endswith("A DISK FAILS: see info"), line("v"))
info = host.targetcli("/backstores/dcd/v", "info")
base.expect("log FAIL" in info, info)
host.targetcli("/backstores/dcd", "delete", "v")
base.step("done")
