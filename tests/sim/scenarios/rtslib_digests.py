# SPDX-License-Identifier: GPL-2.0-only
"""A digest LUN by targetcli and targetctl: create, save, restore in any order, delete."""

import json
import re
from pathlib import Path

import rtslib_host as host
from digestlab import expected
from locklab import base, blk, dm, lio, ram, wire

disk_, log = ram.Ram("disk", 8), ram.Ram("log", 16)
data = dm.create("data", f"0 8192 linear {disk_.node} 0")
base.run(host.DCD_TOOL, "format", "--data", data, "--log", log.node, "--nvram", "none")
host.prepare()
host.install()
link = wire.Wire()


def shows(path: str) -> None:
    with lio.look(host.CORE / "dcd_0/z") as node, blk.Disk(node) as disk:
        disk.write(0, blk.pattern(path, 16))
        disk.write(disk.sectors - 8, blk.pattern("key", 8))
        want = expected(disk.read(0, disk.sectors))
    with lio.look(host.CORE / path) as node, blk.Disk(node, write=False) as disk:
        base.expect(disk.read(0, disk.sectors) == want, "another digest LUN")


base.step("refused, with the reason")
for words, says in (
    (("digests_of=z",), "no dcd device of that name is enabled"),
    (("digests_of=z", "data=/dev/data"), "can't be together with data"),
    ((), "data= is missing"),
):
    tried = host.program("targetcli", "/backstores/dcd", "create", "name=a", *words)
    base.expect(tried.rc != 0 and says in tried.text, f"{words}: {tried}")
base.equal(host.objects(), [], "left of them")

base.step("create, look, save")
host.create("z", data=data, log=log.node, nvram="dram:battery", nvram_bytes="1M")
host.create("a", digests_of="z")
shows("dcd_1/a")
listed = host.targetcli("ls")
base.expect(re.search(r"o- a \.+ \[digests of z \(\S+\) write-thru deactivated\]", listed), listed)
info = host.targetcli("/backstores/dcd/a", "info")
base.expect("digests_of: z" in info, info)
host.targetcli("saveconfig")
saved = host.saved()
by_name = {so["name"]: so for so in saved["storage_objects"]}
base.equal(by_name["a"]["digests_of"], "z", "saved")

base.step("restored, whichever comes first in the file; with the same serial number")
copy = Path("/tmp/copy.json")
for order in ("az", "za"):
    saved["storage_objects"] = [by_name[name] for name in order]
    copy.write_text(json.dumps(saved))
    host.good("targetctl", "clear")
    base.equal(host.objects(), [], "left after targetctl clear")
    said = host.good("targetctl", "restore", str(copy), netns=wire.NETNS)
    base.equal(said, "", "complaints of targetctl restore")
    base.equal(host.objects(), ["dcd_0/z", "dcd_1/a"], "restored")
    serial = (host.CORE / "dcd_1/a/wwn/vpd_unit_serial").read_text()
    base.expect(by_name["a"]["wwn"] in serial, f"{serial} isn't {by_name['a']['wwn']}")
    shows("dcd_1/a")

base.step("the data disk grows: the object and its digest LUN follow, no other size is taken")
dm.reload("data", f"0 12288 linear {disk_.node} 0")
said = host.targetcli("/backstores/dcd/z", "grow")
base.expect("6.0MiB now" in said, said)
shows("dcd_1/a")
listed = host.targetcli("/backstores/dcd", "ls")
base.expect("6.0MiB" in listed and "4.0MiB" not in listed, listed)
dm.reload("data", f"0 8192 linear {disk_.node} 0")
tried = host.program("targetcli", "/backstores/dcd/z", "grow")
base.expect(tried.rc != 0 and "can't be made smaller" in tried.text, f"{tried}")
dm.reload("data", f"0 12288 linear {disk_.node} 0")
host.targetcli("saveconfig")
host.good("targetctl", "clear")
dm.reload("data", f"0 14336 linear {disk_.node} 0")
again = host.saved()
host.good("targetctl", "restore", netns=wire.NETNS)
base.equal(host.objects(), [], "restored with a disk that has grown meanwhile")
for so in again["storage_objects"]:
    so |= {"grow": 1} if so["name"] == "z" else {}
copy.write_text(json.dumps(again))
host.good("targetctl", "restore", str(copy), netns=wire.NETNS)
listed = host.targetcli("/backstores/dcd", "ls")
base.expect(listed.count("7.0MiB") == 1 and "digests of z" in listed, listed)
host.targetcli("saveconfig")
base.expect("grow" not in json.dumps(host.saved()), "it isn't saved")

base.step("the DCD is deleted first: nothing fails but reads")
host.targetcli("/backstores/dcd", "delete", "z")
listed = host.targetcli("ls")
base.expect("digests of z" in listed, listed)
host.good("targetctl", "save", str(copy))
host.targetcli("/backstores/dcd", "delete", "a")
base.equal(host.objects(), [], "left at the end")
