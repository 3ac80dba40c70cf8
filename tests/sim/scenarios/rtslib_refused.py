# SPDX-License-Identifier: GPL-2.0-only
"""Wrong arguments to targetcli: one clear error, nothing left in configfs, no disk touched."""

import hashlib
from pathlib import Path

import rtslib_host as host
from locklab import base, media, ram

NVRAM = "lab:nv"
data, log = ram.Ram("data", 32), ram.Ram("log", 16)
small, raw, plain = ram.Ram("small", 16), ram.Ram("raw", 16), ram.Ram("plain", 16)
nodes = [data.node, log.node, small.node, raw.node, media.nvram("nv", 1024),
         media.nvram("foreign", 1024), plain.node]  # fmt: skip
base.run(host.DCD_TOOL, "format", "--data", small.node, "--log", raw.node, "--nvram", nodes[5])
with open(raw.node, "wb") as file:
    file.write(bytes(1 << 20))  # that log is gone, its NVRAM is a foreign one from here
base.run(host.DCD_TOOL, "format", "--data", data.node, "--log", log.node, "--nvram", nodes[4])
base.run(host.DCD_TOOL, "format", "--data", data.node, "--log", plain.node, "--nvram", "none")
host.prepare()
host.install()


def contents() -> dict[str, str]:
    return {node: hashlib.sha256(Path(node).read_bytes()).hexdigest() for node in nodes}


untouched = contents()
Path("/tmp/log-link").symlink_to(log.node)
Path("/tmp/file").write_text("not a disk\n")


def refused(what: str, says: str, *, words: tuple[str, ...] = (), **changed: str | None) -> None:
    before = (host.objects(), host.hbas())
    settings: dict[str, str | None] = {
        "name": "m", "data": data.node, "log": log.node, "nvram": NVRAM,
        "nvram_bytes": "1048576", **changed,
    }  # fmt: skip
    arguments = [f"{key}={value}" for key, value in settings.items() if value is not None]
    said = host.program("targetcli", "/backstores/dcd", "create", *arguments, *words)
    base.expect(said.rc != 0, f"{what}: was accepted: {said.text}")
    base.equal(said.text.count(says), 1, f"{what}: how often {says!r} is in {said.text!r}")
    base.equal(said.text.strip().count("\n"), 0, f"{what}: lines after the first in {said.text!r}")
    base.equal((host.objects(), host.hbas()), before, f"{what}: configfs afterwards")
    print(f"  {what}: {said.text.strip()}", flush=True)


base.step("arguments")
refused("no log", "log= is missing: data, log and nvram are needed", log=None)
refused("unknown parameter", "sync", words=("sync=1",))
refused("relative path", "data=data: not an absolute path", data="data")
refused("missing data disk", "data=/dev/nothere: No such file", data="/dev/nothere")
refused("missing log disk", "log=/dev/nothere: No such file", log="/dev/nothere")
refused("a file as log", "log=/tmp/file: not a block device", log="/tmp/file")
refused("a comma", "no comma", log="/dev/log,nvram=dram")
refused("a name that can't be", "name", name="a/b")
refused("nvram_bytes isn't a number", "many", nvram_bytes="many")

base.step("devices that don't fit, in the kernel's words")
refused("same device twice", "/dev/data is both data and log disk", log=data.node)
refused("same device by another name", "/dev/log is both", data="/dev/log", log="/tmp/log-link")
refused("unknown kind of nvram", 'no NVRAM type "flash"', nvram="flash:/dev/x")
refused("unknown battery", 'only "dram" and "dram:battery" exist', nvram="dram:bat")
refused("nvram that isn't there", "nvram=lab:nothere: can't open it", nvram="lab:nothere")
refused("nvram too small", "is too small", log=plain.node, nvram="dram", nvram_bytes="64k")
refused("another log's nvram", "doesn't belong to the log", nvram="lab:foreign")
refused("a log made for an nvram, with dram", "together with an NVRAM", nvram="dram")
refused("unformatted log", "no valid DCD log: `dcd format` makes one", log=raw.node)
refused("wrong data disk", "wrong data disk?", data=small.node)
refused("another set's uuid as serial number", f"this set is {host.set_uuid(log.node)}",
        words=(f"wwn={host.set_uuid(plain.node)}",))  # fmt: skip
# Said before the kernel opens the set: it would write the log's contents to the data disk.
refused("the same, before the kernel is asked", "the uuid of another set", nvram="lab:nothere",
        words=(f"wwn={host.set_uuid(plain.node)}",))  # fmt: skip
base.equal(contents(), untouched, "contents of the disks")
# The kernel finds that out with the set open, which the log is told.
refused("serial number too long", "too l", words=(f"wwn={'x' * 300}",))

base.step("this set's uuid as serial number, however it is written, is none of that")
own = host.set_uuid(log.node)
for wwn in (own, own.upper()):
    host.create("m", data=data.node, log=log.node, nvram=NVRAM, nvram_bytes=1048576, wwn=wwn)
    host.targetcli("/backstores/dcd", "delete", "m")

base.step("what is in use")
host.create("m", data=data.node, log=log.node, nvram=NVRAM, nvram_bytes=1048576)
refused("an object of that name", "exists")
refused("disks of another object", "it is in use", name="n")
host.targetcli("/backstores/dcd", "delete", "m")

base.step("one of two superblocks is damaged: the set's uuid is what the kernel takes")
base.run(host.DCD_TOOL, "format", "--force", "--data", data.node, "--log", log.node,
         "--nvram", nodes[4])  # fmt: skip
own = host.set_uuid(log.node)
with open(log.node, "r+b") as superblocks:
    superblocks.seek(4096 + 32)  # the second one's uuid
    superblocks.write(bytes.fromhex("5a" * 16))
refused("the damaged one's", f"this set is {own}:", words=(f"wwn={'5a' * 16}",))
host.create("m", data=data.node, log=log.node, nvram=NVRAM, nvram_bytes=1048576, wwn=own)
host.targetcli("/backstores/dcd", "delete", "m")
base.equal((host.objects(), host.hbas()), ([], []), "left at the end")
base.step("done")
