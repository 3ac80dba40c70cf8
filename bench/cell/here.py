# SPDX-License-Identifier: GPL-2.0-only
"""Cells on the user's own devices: `bench/run --lab here --device LOCAL [--device REMOTE]`.

The first MIB of each device are used, by a linear mapping, and overwritten; the rest isn't touched.
The devices, and the wire to the second one, are taken as they are: a cell that wants something
built on them (a cache, several connections) or a workload that makes file systems is a gap.

A device that is mounted, swapped on, held by the kernel or a program, or that has partitions or a
signature on it is refused; so is one that is read only or too small. Needs root.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from cell import mirrors
from cell.order import HERE, Absent, Order, Stack
from cell.stack import Built
from locklab import blk, dm
from lockstep import device
from lockstep.errors import Failed, Refused

# What has to be loaded, by the software's name.
MODULES = {"none": "", "lockstep": "dm_lockstep", "dm-mirror": "dm_mirror", "md": "md_mod"}
WORKLOADS = ("fio", "replay")
NAMES = ("bench-local", "bench-remote")


class Unfit(Exception):
    """A device that mustn't or can't be used: which, and why."""


def check(given: Sequence[str], mib: int, *, signatures: bool = True) -> None:
    """Raises Unfit. Without `signatures` what an earlier cell wrote isn't looked at."""
    numbers: dict[str, str] = {}
    for name in given:
        try:
            one = device.look(name)
            if why := device.uses(one):
                raise Unfit(f"{name} is in use: {'; '.join(why)}")
            if device.read_only(one):
                raise Unfit(f"{name} is read only")
            if parts := sorted(part.parent.name for part in one.sysfs.glob("*/partition")):
                raise Unfit(f"{name} has partitions: {', '.join(parts)}")
            if signatures and (signs := device.signs(one)):
                raise Unfit(
                    f"{name} has a signature on it: {', '.join(map(str, signs))}; if nothing of it "
                    f"is needed, remove it: wipefs --all {name}"
                )
        except (Failed, Refused) as err:
            raise Unfit(str(err)) from None
        if one.sectors < mib << 11:
            raise Unfit(f"{name} has {one.sectors >> 11} MiB, {mib} are needed")
        if one.number in numbers:
            raise Unfit(f"{name} and {numbers[one.number]} are one device")
        numbers[one.number] = name


def why_not(order: Order) -> str | None:
    """Why a cell can't be had here; the order is that of the sim lab."""
    stack = order.stack
    if stack.software not in MODULES:
        return f"--lab here doesn't set up {stack.software}"
    if stack.cache != "none" or stack.connections > 1:
        return "--lab here takes the devices as they are: no cache, no connections are set up"
    if order.workload not in WORKLOADS:
        return f"--lab here runs {' and '.join(WORKLOADS)}, not {order.workload}"
    return None


def stack_of(stack: Stack, devices: Sequence[str]) -> Stack:
    """The same on these devices: what was built of models is what the devices are."""
    plain = Stack()
    return Stack(
        software=stack.software, options=stack.options, mib=stack.mib, remote=HERE,
        devices=tuple(devices), media=plain.media, mtu=plain.mtu,
    )  # fmt: skip


@contextlib.contextmanager
def built(stack: Stack) -> Iterator[Built]:
    """Takes everything down again, whatever happens."""
    need = MODULES[stack.software]
    if need and not loaded(need):
        raise Absent(f"the module {need} can't be loaded: {stack.software} isn't installed here")
    if stack.software != "none" and len(stack.devices) < 2:
        raise Absent(f"{stack.software} needs two devices, one was given (--device)")
    check(stack.devices, stack.mib, signatures=False)
    with contextlib.ExitStack() as below:
        nodes = []
        for name, node in zip(NAMES, stack.devices, strict=False):
            nodes.append(dm.create(name, f"0 {stack.mib << 11} linear {node} 0"))
            below.callback(dm.remove, name)
            with blk.Disk(nodes[-1]) as disk:
                disk.zero(0, disk.sectors)  # so that equal legs are equal from the start
        legs = dict(zip(("local", "remote"), nodes, strict=False))
        one = Built(nodes[-1], legs=legs, over_iscsi=False)
        below.callback(one.upper.close)
        if len(nodes) > 1:
            build = mirrors.MIRRORS[stack.software]
            one.node = one.upper.enter_context(build(nodes[0], nodes[1], stack.options))
            one.status = lambda: mirrors.status(stack.software)
        yield one


def loaded(module: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(["modprobe", "--quiet", module], check=False)
    return (Path("/sys/module") / module).exists()
