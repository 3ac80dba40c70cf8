# SPDX-License-Identifier: GPL-2.0-only
"""Both sites put together: local leg, wire, mirror site's target, session, lockstep mirror."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import base, iscsi, lio, mirror, ram, wire

DCD_TOOL = "/lockstep/build/bin/dcd"
# The checked kernel is ten times slower.
LEG_MIB = 8 if base.CHECKED else 32
NVRAM_BYTES = 1 << 20


@dataclass
class Site:
    """The mirror site: a backstore of either kind on plain disks, exported."""

    kind: str
    mib: int = LEG_MIB
    store: lio.Backstore = field(init=False)
    disks: list[ram.Ram] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        data = self._disk("mdata", self.mib)
        if self.kind == "iblock":
            self.store = lio.iblock("leg", data)
        else:
            log = self._disk("mlog", 16)
            base.run(DCD_TOOL, "format", "--data", data, "--log", log, "--nvram", "none")
            self.store = lio.dcd("leg", data, log, "dram:battery", f"nvram_bytes={NVRAM_BYTES}")
        self.target = lio.Target(self.store)

    def close(self) -> None:
        self.target.remove()
        self.store.remove()
        for disk in self.disks:
            disk.remove()

    def _disk(self, name: str, mib: int) -> str:
        self.disks.append(ram.Ram(name, mib))
        return self.disks[-1].node


@dataclass
class Pair:
    wire: wire.Wire
    site: Site
    session: iscsi.Session
    local: ram.Ram
    remote: str


@contextlib.contextmanager
def pair(
    kind: str = "iblock", profile: str = "lan", mib: int = LEG_MIB, **settings: str
) -> Iterator[Pair]:
    """Everything below the mirror. `kind`: iblock or dcd; settings are iSCSI's (dots as __).

    At the end everything is taken down; a scenario whose link is cut then waits for timeouts."""
    link = wire.Wire()
    site = Site(kind, mib)
    session = iscsi.Session(**settings)
    remote = session.login()
    link.profile(profile)
    local = ram.Ram("local", mib)
    yield Pair(link, site, session, local, remote)
    session.close()
    site.close()
    local.remove()
    link.close()


def mirrored(both: Pair, *options: object) -> mirror.Mirror:
    return mirror.Mirror(both.local.node, both.remote, *options)
