# SPDX-License-Identifier: GPL-2.0-only
"""Builds a cell's stack in the sim lab, and takes it down.

Disks, cache, target, wire, session, mirror, in this order; every part is new in each boot, so what
one cell writes can't have been there before it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cell.caches import CACHES, Site
from cell.disks import disk
from cell.mirrors import MIRRORS
from cell.order import LOCAL, NOWHERE, Absent, Stack
from locklab import base, blk, count, dm, iscsi, lio, wire

# A burst of 128 writes is many seconds of a slow wire: the initiator's ping behind them, a
# command's own time limit (30 s) and the target's for a command's data (3 s) would each take that
# for a dead link, and the mirror would go on alone.
PATIENT = {"node.conn[0].timeo.noop_out_interval": "0", "node.conn[0].timeo.noop_out_timeout": "0"}
COMMAND_SECONDS = 600
DATA_SECONDS = 60  # the most that LIO takes
INITIATOR = "iqn.2026-11.org.lockstep:primary"


@dataclass
class Built:
    """The stack as the work sees it."""

    node: str
    link: wire.Wire | None = None
    site: Site | None = None
    legs: dict[str, str] = field(default_factory=dict)  # by name, for what is counted
    status: Callable[[], str] = str  # the mirror's own words; none if it has none
    upper: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)  # the mirror

    def snapshot(self) -> dict[str, int]:
        """All counters in one flat table; the difference of two is what the work cost."""
        found = count.snapshot(self.link, self.site.store if self.site else None, self.legs)
        if self.site:
            found |= count.snapshot(disks={f"site_{k}": v for k, v in self.site.disks.items()})
            found |= {f"cache_{key}": value for key, value in self.site.told().items()}
        return found

    def differ_at(self) -> int | None:
        """Takes the mirror down; the first sector in which its legs differ. An error if a leg was
        lost before."""
        self.upper.close()
        with contextlib.ExitStack() as stack:
            far = stack.enter_context(self.site.look()) if self.site else self.legs["remote"]
            return blk.difference(self.legs["local"], far)


@contextlib.contextmanager
def patient_target(store: lio.Backstore) -> Iterator[None]:
    """The target, with an access list of its own: only there the time limit can be set."""
    target = lio.Target(store)
    acl = base.made(target.tpg / "acls" / INITIATOR)
    base.put(acl / "attrib/dataout_timeout", DATA_SECONDS)
    lun = base.made(acl / "lun_0")
    (lun / "lun").symlink_to(target.tpg / "lun/lun_0")
    yield
    (lun / "lun").unlink()
    lun.rmdir()
    acl.rmdir()
    target.remove()


@contextlib.contextmanager
def connected(stack: Stack) -> Iterator[str]:
    """A session to the target by that many connections; the node of the LUN."""
    if stack.connections != 1:
        raise Absent(f"{stack.connections} connections: not built yet")
    session = iscsi.Session(**PATIENT)
    node = session.login()
    base.put(Path("/sys/block") / Path(node).name / "device/timeout", COMMAND_SECONDS)
    yield node
    session.close()


def wired(stack: Stack) -> wire.Wire:
    """Not shaped yet: the login isn't part of the work."""
    link = wire.Wire()
    if stack.mtu != 1500:
        base.run("ip", "link", "set", "v0", "mtu", str(stack.mtu))
        base.run("ip", "-n", "mirror", "link", "set", "v1", "mtu", str(stack.mtu))
    return link


@contextlib.contextmanager
def built(stack: Stack) -> Iterator[Built]:
    below = contextlib.ExitStack()
    local = disk(stack, "local", stack.mib)
    one = Built(local, legs={"local": local})
    if stack.remote == NOWHERE:
        yield one
        return
    if stack.remote == LOCAL:
        remote = disk(stack, "second", stack.mib)
    else:
        one.link = wired(stack)
        below.callback(one.link.close)
        one.site = below.enter_context(CACHES[stack.cache](stack))
        below.enter_context(patient_target(one.site.store))
        remote = below.enter_context(connected(stack))
        one.link.profile(stack.remote)
    one.legs["remote"] = remote
    one.node = one.upper.enter_context(MIRRORS[stack.software](local, remote, stack.options))
    if one.node.startswith("/dev/mapper/"):
        one.status = lambda: dm.status(Path(one.node).name)
    yield one
    one.upper.close()
    below.close()
