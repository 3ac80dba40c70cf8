# SPDX-License-Identifier: GPL-2.0-only
"""`lockstep create` and `wipe`: what is refused, what is kept, what is overwritten."""

import os
from pathlib import Path

import clilab
from clilab import good, refused
from locklab import base, blk, dm, ram

CONFIG = Path("/etc/lockstep/m.toml")
YES = ("--yes",)


def untouched(*disks: ram.Ram) -> None:
    """Nothing was written."""
    for disk in disks:
        with blk.Disk(disk.node, write=False) as it:
            base.expect(not any(it.read(0, disk.sectors)), f"{disk.node} is as blank as it was")
    base.expect(not CONFIG.exists() and not dm.exists("m"), "there is no mirror")


def blank(disk: ram.Ram) -> None:
    with blk.Disk(disk.node) as it:
        it.zero(0, disk.sectors)


def gone() -> None:
    good("stop", "m")
    CONFIG.unlink()


def asks(a: ram.Ram, b: ram.Ram) -> None:
    base.step("it asks, and does nothing without a yes")
    refused(3, "create", "m", a.node, b.node, says=("IS OVERWRITTEN", "no terminal", "--yes"))
    said = clilab.run("create", "m", a.node, b.node, stdin="y\n")
    base.equal(said.code, 3, "a pipe that says y is no terminal")
    untouched(a, b)
    base.step("what is in use is never touched")
    for flags in (YES, ("--yes", "--force")):
        held = os.open(b.node, os.O_RDWR | os.O_EXCL)
        refused(3, "create", "m", a.node, b.node, *flags, says=(b.node, "in use"))
        os.close(held)
    untouched(a, b)
    refused(1, "create", "m", a.node, "/dev/nosuch", *YES, says=("/dev/nosuch",))
    refused(3, "create", "m", a.node, a.node, *YES, says=("same device",))
    untouched(a, b)


def two_blank_disks(a: ram.Ram, b: ram.Ram) -> None:
    base.step("two blank disks")
    good("create", "m", a.node, b.node, *YES, "--policy", "block")
    clilab.in_sync()
    told = clilab.status()
    base.equal((told["policy"], told["exit_code"]), ("block", 0), "the new mirror")
    refused(3, "create", "m", a.node, b.node, "--yes", "--force", says=("already",))
    refused(3, "create", "n", a.node, b.node, "--yes", "--force", says=("in use",))
    refused(3, "wipe", a.node, *YES, says=("in use",))
    gone()
    base.step("a leg is not given away without --force")
    refused(3, "create", "n", b.node, a.node, *YES, says=("leg of the lockstep mirror 'm'",))
    refused(3, "wipe", a.node, says=("no terminal",))
    for leg in (a, b):
        good("wipe", leg.node, *YES)
        refused(3, "wipe", leg.node, *YES, says=("no leg of a mirror",))
        refused(1, "examine", leg.node, says=("blank",))
    good("create", "m", b.node, a.node, *YES, "--assume-clean")
    base.equal(clilab.status()["health"], "AA", "identical legs")
    gone()
    good("wipe", a.node, *YES)
    good("wipe", b.node, *YES)


def no_signature(a: ram.Ram, b: ram.Ram) -> None:
    base.step("data that no signature names")
    blank(a)
    blank(b)
    with blk.Disk(b.node) as it:
        it.write(b.sectors - 1, bytes([7]) * 512)
    refused(3, "create", "m", a.node, b.node, *YES, says=("copy it to", "--force"))
    with blk.Disk(a.node) as it:
        it.write(8, blk.pattern("raw", 8))
    refused(3, "create", "m", a.node, b.node, *YES, says=(b.node, "no signature names", "--force"))
    refused(3, "create", "m", b.node, a.node, *YES, "--force",
            says=(b.node, "at its end", "--force-local"))  # fmt: skip
    with blk.Disk(b.node, write=False) as it:
        base.expect(it.read(b.sectors - 1, 1) == bytes([7]) * 512, "it is still there")
    good("create", "m", a.node, b.node, *YES, "--force")
    clilab.in_sync()
    gone()
    with blk.Disk(b.node, write=False) as it:
        base.expect(it.read(8, 8) == blk.pattern("raw", 8), "LOCAL's content is kept and copied")
    for leg in (a, b):
        good("wipe", leg.node, *YES)


def a_file_system(a: ram.Ram, b: ram.Ram) -> None:
    base.step("the data is on the wrong leg")
    blank(a)
    blank(b)
    base.run("mkfs.ext4", "-q", b.node)
    refused(3, "create", "m", a.node, b.node, *YES, says=("ext4", "copy it to"))
    base.run("fsck.ext4", "-fn", b.node)
    base.step("a file system that would be cut")
    blank(b)
    base.run("mkfs.ext4", "-q", "-b", "1024", a.node)
    where = base.made(Path("/run/fs"))
    base.run("mount", a.node, str(where))
    (where / "file").write_bytes(blk.pattern("file", 100))
    base.run("umount", str(where))
    for flags in ((), ("--force",), ("--keep-data",)):
        said = refused(3, "create", "m", a.node, b.node, *YES, *flags, says=("shrink it by",))
    base.run("fsck.ext4", "-fn", a.node)
    many = int(said.err.split("shrink it by ")[1].split()[0])
    base.step(f"shrunk by {many} sectors, as it said, it is kept")
    base.run("fsck.ext4", "-fp", a.node)
    base.run("resize2fs", a.node, f"{a.sectors - many}s")
    refused(3, "create", "m", a.node, b.node, *YES, says=("ext4", "--keep-data"))
    good("create", "m", a.node, b.node, *YES, "--keep-data")
    clilab.in_sync()
    base.run("fsck.ext4", "-fn", "/dev/mapper/m")
    base.run("mount", "/dev/mapper/m", str(where))
    base.expect((where / "file").read_bytes() == blk.pattern("file", 100), "the file's content")
    refused(1, "stop", "m", says=("in use", "mounted on"))
    base.run("umount", str(where))
    gone()
    blk.same(a.node, b.node, int(clilab.examined(a.node)["data_len"]))
    base.step("a remote leg with a file system needs --force")
    good("wipe", a.node, *YES)
    good("wipe", b.node, *YES)
    refused(3, "create", "m", a.node, b.node, *YES, "--keep-data", says=("ext4", "--force"))
    blank(a)
    good("create", "m", a.node, b.node, *YES, "--force")
    clilab.in_sync()
    with blk.Disk("/dev/mapper/m", write=False) as it:
        base.expect(not any(it.read(0, 4096)), "the old file system is gone")
    gone()


first, second = ram.Ram("first", 16), ram.Ram("second", 16)
asks(first, second)
two_blank_disks(first, second)
no_signature(first, second)
a_file_system(first, second)
for one in (first, second):
    one.remove()
base.step("done")
