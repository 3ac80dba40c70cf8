# SPDX-License-Identifier: GPL-2.0-only
"""The remote leg by three sessions of three wires, dm-multipath on top, the mirror on that.

multipathd's part is played here: a path that has failed is reinstated when its session is back.
"""

from __future__ import annotations

import os
import re

from locklab import base, count, dm, iscsi, lio, ram, wire
from statewire import Mirrored

PATHS = 3
MIB = 4
MPATH = "mpath"
# A dead link is noticed after 2 + 2 s (iscsi.SETTINGS); then commands on that path fail after
# PATIENCE_S.
PATIENCE_S = 2
FAILOVER_S = 2 + 2 + PATIENCE_S + 2
PORTALS = [f"{wire.mirror_ip(number)}:{lio.PORT}" for number in range(PATHS)]


class Site:
    def __init__(self, patience_s: int, nopin_s: int) -> None:
        """nopin_s: LIO's nopin_timeout, and its nopin_response_timeout; 0: its own 15 and 30."""
        self.wires = [wire.Wire(number=number) for number in range(PATHS)]
        self.disk = ram.Ram("mdata", MIB)
        self.target = lio.Target(lio.iblock("leg", self.disk.node), portals=PORTALS)
        if nopin_s:
            self.target.acl(iscsi.INITIATOR, nopin_timeout=nopin_s, nopin_response_timeout=nopin_s)
        self.session = iscsi.Session(
            PORTALS, **{"node.session.timeo.replacement_timeout": str(patience_s)}
        )
        self.session.login()
        for one in self.wires:
            one.profile("lan")
        self.paths = [self._node(portal) for portal in PORTALS]
        self.local = ram.Ram("local", MIB)
        self.remote = dm.create(MPATH, table(self.paths))

    @staticmethod
    def _node(portal: str) -> str:
        found = iscsi.disk_of(portal)
        base.expect(found, f"a disk by {portal}")
        return f"/dev/{found}"

    def alive(self) -> list[bool]:
        """As dm-multipath has it: MAJOR:MINOR A or F of each path."""
        states = dict(re.findall(r"(\d+:\d+) ([AF])", dm.status(MPATH)))
        return [states[number(node)] == "A" for node in self.paths]

    def cut(self, *numbers: int) -> None:
        for one in numbers:
            self.wires[one].cut()

    def mend(self, *numbers: int) -> None:
        for one in numbers:
            self.wires[one].mend("lan")
        for one in numbers:
            base.until(lambda: self.session.up_by(PORTALS[one]), f"session {one}")  # noqa: B023
            dm.message(MPATH, f"reinstate_path {number(self.paths[one])}")

    def requests(self) -> list[int]:
        return [count.disk(node)["writes"] for node in self.paths]

    def login_anew(self, one: int) -> None:
        """The path's session is closed and made again, its disk may be another one."""
        self.session.logout_by(PORTALS[one])
        self.paths[one] = self.session.login_by(PORTALS[one])


def table(nodes: list[str]) -> str:
    """Round robin over all, a request each."""
    paths = " ".join(f"{node} 1" for node in nodes)
    return f"0 {MIB << 11} multipath 0 0 1 1 round-robin 0 {len(nodes)} 1 {paths}"


def number(node: str) -> str:
    device = os.stat(node).st_rdev
    return f"{os.major(device)}:{os.minor(device)}"


class Pair(Mirrored):
    def __init__(self, timeout_s: int, patience_s: int = PATIENCE_S, nopin_s: int = 0) -> None:
        self.site = Site(patience_s, nopin_s)
        super().__init__(self.site.local.node, self.site.remote, self.site.disk.node,
                         "remote_timeout", timeout_s * 1000, "rejoin", 2)  # fmt: skip
