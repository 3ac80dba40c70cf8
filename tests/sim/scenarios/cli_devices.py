# SPDX-License-Identifier: GPL-2.0-only
"""What the command finds on a device and who it says uses it: real signatures, real users."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import clilab
from locklab import base, blk, dm, ram
from lockstep import device  # clilab knows where it is


def signs(node: str) -> list[tuple[str, int | None]]:
    return sorted((sign.kind, sign.end) for sign in device.signs(device.look(node)))


def blank(node: str) -> None:
    with blk.Disk(node) as disk:
        disk.zero(0, disk.sectors)


def carries(disk: ram.Ram) -> None:
    base.step("what it carries")
    node, end = disk.node, disk.sectors
    base.equal(signs(node), [], "a blank disk")
    base.expect(not device.has_data(device.look(node)), "a blank disk has no data")
    with blk.Disk(node) as it:
        it.write(end - 1, bytes([1]) * 512)
    base.expect(device.has_data(device.look(node)), "one byte at the end is data")
    blank(node)
    base.run("mkfs.ext4", "-q", "-b", "1024", node, "10240")
    base.equal(signs(node), [("ext4", 20480)], "ext4 of 10 MiB")
    base.run("mkfs.ext4", "-q", "-F", node)
    base.equal(signs(node), [("ext4", end)], "ext4 on all of it")
    blank(node)
    base.run("mkswap", node)
    base.equal([kind for kind, _ in signs(node)], ["swap"], "swap")
    base.run("swapon", node)
    base.equal(device.uses(device.look(node)), [f"{disk.name} is swapped on"], "swap in use")
    base.run("swapoff", node)
    blank(node)
    with blk.Disk(node) as it:
        entry = struct.pack("<B3sB3sII", 0, b"", 0x83, b"", 2048, end - 2048)
        it.write(0, bytes(446) + entry + bytes(48) + b"\x55\xaa")
    base.equal(signs(node), [("dos", None)], "a partition table")
    blank(node)
    base.run("mdadm", "--create", "/dev/md7", "--run", "--level=1", "--raid-devices=2",
             "--metadata=1.0", "--assume-clean", node, "missing")  # fmt: skip
    base.expect("part of md7" in "".join(device.uses(device.look(node))), "a member of an array")
    base.run("mdadm", "--stop", "/dev/md7")
    base.equal([kind for kind, _ in signs(node)], ["linux_raid_member"], "md at the end of it")
    blank(node)


def used(disk: ram.Ram) -> None:
    base.step("who uses it")
    node = disk.node
    base.equal(device.uses(device.look(node)), [], "nobody uses it")
    base.run("mkfs.ext4", "-q", node)
    where = base.made(Path("/run/fs"))
    base.run("mount", node, str(where))
    said = device.uses(device.look(node))
    base.equal(said, [f"{disk.name} is mounted on {where}"], "mounted")
    base.run("umount", str(where))
    dm.create("on", f"0 2048 linear {node} 0")
    base.equal(device.uses(device.look(node)), [f"{disk.name} is part of dm-0 (on)"], "below dm")
    dm.remove("on")
    held = os.open(node, os.O_RDWR | os.O_EXCL)
    base.expect("held by" in device.uses(device.look(node))[0], "opened exclusively")
    os.close(held)
    base.equal(device.uses(device.look(node)), [], "nobody uses it any more")
    blank(node)


def names() -> None:
    base.step("names")
    for wrong, code in (("/dev/nosuch", 1), ("/dev/null", 3), ("/etc/passwd", 3)):
        clilab.refused(code, "examine", wrong, says=(wrong,))


def units() -> None:
    base.step("systemd takes the units")
    where = Path("/etc/systemd/system")
    for unit in Path("/lockstep/dm-target/lockstep/systemd").iterdir():
        shutil.copy(unit, where)
    shutil.copy(clilab.COMMAND, "/usr/sbin/lockstep")
    names = [f"{name}@m.{kind}" for name, kind in (
        ("lockstep", "service"), ("lockstep-monitor", "service"), ("lockstep-verify", "service"),
        ("lockstep-verify", "timer"))]  # fmt: skip
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *names],
                          capture_output=True, text=True, check=False)  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "lockstep" in line]
    base.equal((done.returncode, said), (0, []), "systemd-analyze verify")


one = ram.Ram("one", 16)
carries(one)
used(one)
names()
units()
one.remove()
base.step("done")
