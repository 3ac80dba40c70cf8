# SPDX-License-Identifier: GPL-2.0-only
"""A digest LUN by targetcli and targetctl: create, save, restore in any order, delete."""

import json
import re
from pathlib import Path

import rtslib_host as host
from digestlab import expected
from locklab import base, blk, lio, ram, wire

data, log = ram.Ram("data", 4), ram.Ram("log", 16)
base.run(host.DCD_TOOL, "format", "--data", data.node, "--log", log.node, "--nvram", "none")
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
host.create("z", data=data.node, log=log.node, nvram="dram:battery", nvram_bytes="1M")
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

base.step("the DCD is deleted first: nothing fails but reads")
host.targetcli("/backstores/dcd", "delete", "z")
listed = host.targetcli("ls")
base.expect("digests of z" in listed, listed)
host.good("targetctl", "save", str(copy))
host.targetcli("/backstores/dcd", "delete", "a")
base.equal(host.objects(), [], "left at the end")
