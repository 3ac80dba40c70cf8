# SPDX-License-Identifier: GPL-2.0-only
"""bench/run --lab here, on a machine of its own: devices in use are refused, others are used."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "dm-target/lockstep"))

from cell import here, main
from cell.order import Absent, Order, Stack
from locklab import base, blk, dm
from locklab.ram import Ram

MIB = 64
# A partition of 16 MiB.
MBR = bytes(446) + struct.pack("<B3xB3xII", 0, 0x83, 2048, 32768) + bytes(48) + b"\x55\xaa"


@contextlib.contextmanager
def refused(says: str) -> Iterator[None]:
    try:
        yield
    except here.Unfit as err:
        base.expect(says in str(err), f"the refusal doesn't say {says!r}: {err}")
        print(f"  refused: {err}")
        return
    raise base.Wrong(f"accepted, has to be refused: {says}")


def wiped(disk: Ram) -> None:
    with blk.Disk(disk.node) as one:
        one.zero(0, one.sectors)


def refusals(one: Ram, two: Ram) -> None:
    here.check([one.node, two.node], MIB)
    with refused("there is no such device"):
        here.check(["/dev/nothing"], MIB)
    with refused("is no block device"):
        here.check(["/dev/null"], MIB)
    with refused(f"has {MIB} MiB, {MIB + 1} are needed"):
        here.check([one.node], MIB + 1)
    with refused("are one device"):
        here.check([one.node, one.node], MIB)

    base.run("mkfs.ext4", "-q", one.node)
    with refused("has a signature on it: ext4"):
        here.check([one.node], MIB)
    Path("/tmp/m").mkdir()
    base.run("mount", one.node, "/tmp/m")
    with refused("is mounted on /tmp/m"):
        here.check([two.node, one.node], MIB)
    base.run("umount", "/tmp/m")

    base.run("mkswap", one.node)
    base.run("swapon", one.node)
    with refused("is swapped on"):
        here.check([one.node], MIB)
    base.run("swapoff", one.node)
    wiped(one)

    dm.create("held", f"0 2048 linear {one.node} 0")
    with refused("(held)"):
        here.check([one.node], MIB)
    dm.remove("held")

    blk.partition(one.node, blk.ADDED, 2048, 32768)
    with refused("has partitions: "):
        here.check([one.node], MIB)
    blk.partition(one.node, blk.DELETED, 2048, 32768)
    with blk.Disk(one.node) as disk:
        disk.write(0, MBR)
    with refused("has a signature on it: dos"):
        here.check([one.node], MIB)
    wiped(one)
    here.check([one.node, two.node], MIB)


def works(one: Ram, two: Ram) -> None:
    mib = MIB // 2
    mark = blk.pattern("untouched", 8)
    for disk in (one, two):
        with blk.Disk(disk.node) as node:
            node.write(mib << 11, mark)
    wanted = {"rw": "randwrite", "iodepth": 4, "number_ios": 200}
    for software in ("none", "lockstep", "md"):
        stack = here.stack_of(Stack(software=software, mib=mib, remote="wan"), [one.node, two.node])
        result = main.carried_out(Order("fio", stack, wanted, 3))
        base.equal(result["write"]["count"], 200, f"writes by {software}")
        base.expect(result["cost"]["remote_writes"] > 0, f"{software}: nothing reached the second")
        if software != "none":
            base.equal(result["legs_differ_at"], None, f"{software}: the legs")
            base.expect(result["cost"]["local_writes"] > 0, f"{software}: none on the first")
        here.check([one.node, two.node], MIB, signatures=False)  # it is all given back
    for disk in (one, two):
        with blk.Disk(disk.node) as node:
            base.equal(node.read(mib << 11, 8), mark, f"{disk.node} behind what was to be used")
    stack = here.stack_of(Stack(mib=mib), [one.node])
    try:
        main.carried_out(Order("fio", stack, wanted, 3))
    except Absent as err:
        base.expect("needs two devices" in str(err), str(err))
    else:
        raise base.Wrong("a mirror on one device")


def broken_off(one: Ram, two: Ram) -> None:
    """By SIGTERM, in the middle of the work: the devices are given back."""
    stack = here.stack_of(Stack(mib=MIB // 2), [one.node, two.node])
    work = {"rw": "randwrite", "rate_iops": 100, "time_based": 1, "runtime": 3600}
    order = Order("fio", stack, work, 3)
    env = os.environ | {"PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen([sys.executable, main.__file__, order.text()], env=env) as cell:
        base.until(lambda: dm.exists("bench-local"), "the stack")
        time.sleep(30)
        base.equal(cell.poll(), None, "the cell's end")
        cell.terminate()
    base.equal(cell.returncode, 128 + signal.SIGTERM, "the cell's exit code")
    base.expect(not dm.exists("bench-local"), "the mapping is still there")
    here.check([one.node, two.node], MIB, signatures=False)


def scenario() -> None:
    disks = Ram("one", MIB), Ram("two", MIB)
    refusals(*disks)
    works(*disks)
    broken_off(*disks)


scenario()
