# SPDX-License-Identifier: GPL-2.0-only
"""Cells on the VM lab's two hosts: `bench/run --lab vm`. This is the primary's part.

The stack is the sim lab's, in real time and over the hosts' own wire: the same modelled disks, with
the same caches, mirrors and sessions on them. What is at the mirror site there is done by
cell/site.py in the other host. The two don't talk to each other, which would be counted on the
wire: the primary asks whoever started it (runner/vm.py) in a line of JSON, and reads the answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from cell import disks, drbd, mirrors, stack
from cell.connections import logged_in
from cell.order import LOCAL, NOWHERE, Absent, Order, Stack
from cell.stack import Built
from locklab import account, base, blk, dm, media, wire

LINK = "link0"
# Of 2 GiB: the modelled disks keep what is written to them in memory.
MOST_MIB = 1024
# With udev, which takes such a leg for a part of an array that it has to start.
NOT_HERE = {"md-behind": "udev would start its legs' array by itself"}
DRBD = "pair"  # its resource, at both ends
HERE, THERE = (wire.PRIMARY_IP, 7788), (wire.MIRROR_IP, 7788)


def why_not(order: Order) -> str | None:
    """Why a cell can't be had in the VM lab."""
    one = order.stack
    if why := NOT_HERE.get(one.software):
        return f"{one.software}: {why}"
    if order.workload == "nfs":
        return "nfs: it needs both sites in one kernel"
    if (mib := max(one.mib, one.mib + one.log_mib if one.cache != "none" else 0)) > MOST_MIB:
        return f"disks of {mib} MiB: the hosts have memory for {MOST_MIB}"
    return None


def sized(wanted: Stack) -> Stack:
    """With room for what the mirror keeps behind the data."""
    own = mirrors.OWN_MIB.get(wanted.software, 0)
    return dataclasses.replace(wanted, mib=wanted.mib + own)


def ask(what: str, **more: Any) -> Any:
    """Of the mirror site, or of the lab itself."""
    print(json.dumps({"ask": what, **more}), flush=True)
    answer = json.loads(sys.stdin.readline() or '{"error": "nobody answers"}')
    if "absent" in answer:
        raise Absent(answer["absent"])
    if "error" in answer:
        raise base.Wrong(answer["error"])
    return answer["told"]


class Pair(Built):
    """The stack with its mirror site in another host."""

    def differ_at(self) -> int | None:
        """As the stack's, each leg read by its own site; the first sector of the first MiB in which
        they differ."""
        sectors = dm.sectors(self.node)
        self.upper.close()
        far = ask("digests", sectors=sectors)
        with blk.Disk(self.legs["local"], write=False) as disk:
            near = blk.digests(disk, sectors)
        base.equal(len(near), len(far), "MiB of the legs that were read")
        differ = (mib for mib, (one, two) in enumerate(zip(near, far, strict=True)) if one != two)
        mib = next(differ, None)
        return None if mib is None else mib << 11


class _Link:
    def counters(self) -> dict[str, int]:
        return wire.counters(LINK)


class _Site:
    def counters(self) -> dict[str, int]:
        counted: dict[str, int] = ask("counters")
        return counted


@contextlib.contextmanager
def built(wanted: Stack) -> Iterator[Built]:
    with no_disks_left():
        if wanted.remote in (LOCAL, NOWHERE):
            with stack.built(wanted) as one:
                yield one
        else:
            with _pair(wanted) as one:
                yield one


@contextlib.contextmanager
def no_disks_left() -> Iterator[None]:
    """The next cell finds neither the modelled disks of this one nor their bytes."""
    yield
    for line in (media.CONTROL / "list").read_text().splitlines():
        name = line.split()[0]
        if dm.exists(name):
            dm.remove(name)
        media.forget(name)


@contextlib.contextmanager
def _pair(wanted: Stack) -> Iterator[Pair]:
    wanted = sized(wanted)
    with contextlib.ExitStack() as below:
        local = disks.disk(wanted, "local", wanted.mib)
        one = Pair(local, _Link(), legs={"local": local})
        below.callback(one.upper.close)
        if wanted.software == "drbd":
            one.node = one.upper.enter_context(_drbd(local, wanted.options))
        else:
            remote = below.enter_context(logged_in(wanted.connections))
            build = mirrors.MIRRORS[wanted.software]
            one.node = one.upper.enter_context(build(local, remote, wanted.options))
        one.status = lambda: mirrors.status(wanted.software)
        below.enter_context(_udev_at_rest())
        ask("wire", profile=wanted.remote, loss=wanted.loss_percent)
        packets = account.Packets(LINK)
        below.callback(packets.close)
        one.counted = [packets, _Site()]
        yield one
        ask("wire", profile="none", loss=0.0)  # what is still to do isn't the work


@contextlib.contextmanager
def _udev_at_rest() -> Iterator[None]:
    """It reads each device that somebody has opened for writing and closes: that isn't the work."""
    base.run("udevadm", "settle")
    base.run("udevadm", "control", "--stop-exec-queue")
    try:
        yield
    finally:
        base.run("udevadm", "control", "--start-exec-queue")


@contextlib.contextmanager
def _drbd(local: str, options: str) -> Iterator[str]:
    """The primary's end; the other one tries already."""
    drbd.ready()
    drbd.attach(DRBD, 0, local)
    try:
        drbd.connect(DRBD, HERE, THERE, drbd.net_options(options))
        with drbd.primary(minors=(0,)):
            yield drbd.NODE
    finally:
        drbd.down(DRBD)
