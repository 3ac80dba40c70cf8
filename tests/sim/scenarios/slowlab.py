# SPDX-License-Identifier: GPL-2.0-only
"""Mirrors whose remote legs are slices of one LUN, by a wire that carries 256 kbit/s back: what
eight readers ask for at once is on its way for longer than remote_timeout.
"""

from __future__ import annotations

import random
import threading
import time
from functools import partial

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import FIELDS, Leg
from statelab import Beside

MIB = 8


class Site:
    """The devices of @count mirrors; the wire is fast until slow()."""

    def __init__(self, count: int = 1) -> None:
        self.line = wire.Wire("none")
        self._disk = ram.Ram("mdata", count * MIB)
        self._target = lio.Target(lio.iblock("leg", self._disk.node))
        self._session = iscsi.Session(**{"node.session.timeo.replacement_timeout": "120"})
        node = self._session.login()
        self.locals = [Leg(f"l{n}", mib=MIB) for n in range(count)]
        self.remotes = [
            dm.create(f"r{n}", f"0 {MIB << 11} linear {node} {n * (MIB << 11)}")
            for n in range(count)
        ]

    def slow(self) -> None:
        self.line.profile("wan")

    def mirror(self, n: int, *options: str | int) -> mirror.Mirror:
        """Made, started, and in sync."""
        legs = self.locals[n].node, self.remotes[n]
        statelab.create(*legs, "--assume-clean")
        return mirror.Mirror(*legs, *options, name=f"m{n}", sectors=data_sectors(legs[0]))


def data_sectors(leg: str) -> int:
    return statelab.super_of(leg).data_sectors


def status(name: str) -> mirror.Status:
    return mirror.parse(dm.status(name))


def lose_local(leg: Leg, name: str) -> None:
    """The mirror of that name goes on with what only its remote leg has."""
    leg.gone()
    with blk.Disk(f"/dev/mapper/{name}") as disk:
        disk.write(8, blk.pattern("without it", 8))

    def alone() -> bool:
        now = status(name)
        return now.health == "DA" and now.rest[FIELDS.index("standing")] == "alone"

    base.until(alone, "the remote leg alone", 60)


class Readers:
    """So many read at random places, @part sectors each, until end()."""

    def __init__(self, name: str, count: int = 8, part: int = 128) -> None:
        self.done = 0
        self._over = threading.Event()
        self._node, self._part = f"/dev/mapper/{name}", part
        self._all = [Beside(partial(self._read, seed)) for seed in range(count)]

    def _read(self, seed: int) -> None:
        rng = random.Random(seed)
        with blk.Disk(self._node, write=False) as disk:
            while not self._over.is_set():
                disk.read(rng.randrange((disk.sectors - self._part) // 8) * 8, self._part)
                self.done += 1
                time.sleep(0.05)  # a read of the local leg takes no time

    def end(self) -> None:
        self._over.set()
        for one in self._all:
            base.until(lambda: one.done, "a reader to end", 600)  # noqa: B023
            one.result()
