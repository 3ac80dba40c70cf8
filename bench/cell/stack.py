# SPDX-License-Identifier: GPL-2.0-only
"""Builds a cell's stack in the sim lab, and takes it down.

Disks, cache, target, wire, session, mirror, in this order; every part is new in each boot, so what
one cell writes can't have been there before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cell import mirrors
from cell.caches import CACHES, Site
from cell.connections import connected
from cell.disks import disk
from cell.order import LOCAL, NOWHERE, Stack
from locklab import account, base, blk, count, dm, wire


@dataclass
class Built:
    """The stack as the work sees it."""

    node: str
    link: count.Counted | None = None
    site: Site | None = None
    legs: dict[str, str] = field(default_factory=dict)  # by name, for what is counted
    over_iscsi: bool = True  # the remote leg, if there is a site
    status: Callable[[], str] = str  # the mirror's own words; none if it has none
    counted: list[count.Counted] = field(default_factory=list)
    upper: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)  # the mirror

    def snapshot(self) -> dict[str, int]:
        """All counters in one flat table; the difference of two is what the work cost.

        Of a leg over iSCSI the target's own count (scsi_write and so on) is what was written: the
        kernel at the primary doesn't count WRITE SCATTERED, which passes its block layer by.
        """
        disks = dict(self.legs)
        if self.site and self.over_iscsi:
            disks.pop("remote", None)
        found = count.snapshot(self.link, None, disks)
        if self.site:
            found |= counted(self.site)
        for each in self.counted:
            found |= each.counters()
        return found

    def differ_at(self) -> int | None:
        """Takes the mirror down; the first sector in which its legs differ. An error if a leg was
        lost before."""
        sectors = dm.sectors(self.node)  # behind them the mirror has its own
        self.upper.close()
        with contextlib.ExitStack() as stack:
            far = self.legs["remote"]
            if self.site and self.over_iscsi:
                far = stack.enter_context(self.site.look())
            return blk.difference(self.legs["local"], far, sectors)


def counted(site: Site) -> dict[str, int]:
    """What is counted at the mirror site."""
    found = count.snapshot(store=site.store, disks={f"site_{k}": v for k, v in site.disks.items()})
    return found | {f"cache_{key}": value for key, value in site.told().items()}


def wired(stack: Stack) -> wire.Wire:
    """Not shaped yet: the login isn't part of the work."""
    link = wire.Wire()
    if stack.mtu != 1500:
        base.run("ip", "link", "set", "v0", "mtu", str(stack.mtu))
        base.run("ip", "-n", "mirror", "link", "set", "v1", "mtu", str(stack.mtu))
    return link


@contextlib.contextmanager
def built(stack: Stack) -> Iterator[Built]:
    stack = dataclasses.replace(stack, mib=stack.mib + mirrors.OWN_MIB.get(stack.software, 0))
    below = contextlib.ExitStack()
    local = disk(stack, "local", stack.mib)
    one = Built(local, legs={"local": local})
    if stack.remote == NOWHERE:
        yield one
        return
    if stack.remote == LOCAL:
        remote = disk(stack, "second", stack.mib)
    else:
        link = one.link = wired(stack)
        below.callback(link.close)
        one.site = below.enter_context(CACHES[stack.cache](stack))
        one.over_iscsi = stack.software not in mirrors.WITHOUT_ISCSI
        if one.over_iscsi:
            remote = below.enter_context(connected(one.site.store, stack.connections))
        else:
            remote = below.enter_context(one.site.look())
        link.profile(stack.remote, stack.loss_percent)
        packets, commands = account.Packets("v0"), account.Commands()
        for each in (packets, commands):
            below.callback(each.close)
        one.counted = [packets, commands]
    one.legs["remote"] = remote
    one.node = one.upper.enter_context(
        mirrors.MIRRORS[stack.software](local, remote, stack.options)
    )
    one.status = lambda: mirrors.status(stack.software)
    yield one
    one.upper.close()
    below.close()
