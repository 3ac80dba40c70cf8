# SPDX-License-Identifier: GPL-2.0-only
"""Commits to regions that are clean, each of which waits for its mark in the dirty map, beside many
writers over the WAN: none takes longer than LONGEST_S.

Args: the part.
    grow    the legs' devices have grown, and their metadata are moved
    resync  the local leg was away, and is resynced: the remote leg has the map
"""

import random
import threading
import time

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import Leg

LONGEST_S = {"grow": 5, "resync": 12}  # resync: 5.8 to 11.7 by eight seeds
WRITERS = {"grow": 64, "resync": 128}
MIB, MORE = 512, 64
REGION = 2048  # sectors
HOT = 32 << 11
PAUSE_S = 0.2


class Commits:
    """Each to another region, behind those that the writers write to."""

    def __init__(self, node: str, writers: int) -> None:
        self.longest = 0.0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(node, n))
                         for n in range(writers)]  # fmt: skip
        self._threads.append(threading.Thread(target=self._commit, args=(node,)))
        for thread in self._threads:
            thread.start()

    def _write(self, node: str, number: int) -> None:
        rng, data = random.Random(f"{base.SEED} {number}"), blk.pattern(f"{number}", 8)
        with blk.Disk(node) as disk:
            while not self._over.is_set():
                disk.write(rng.randrange(HOT // 8) * 8, data)

    def _commit(self, node: str) -> None:
        data = blk.pattern("commit", 8)
        with blk.Disk(node) as disk:
            for at in range(HOT + REGION, disk.sectors, REGION):
                if self._over.wait(PAUSE_S):
                    break
                began = time.monotonic()
                disk.write(at, data, fua=True)
                self.longest = max(self.longest, time.monotonic() - began)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def created(local: str, remote: str) -> mirror.Mirror:
    statelab.meta("create", "--local", local, "--remote", remote, "--name", "m",
                  "--assume-clean", "--region-size", str(REGION))  # fmt: skip
    sectors = statelab.super_of(local).data_sectors
    return mirror.Mirror(local, remote, "rejoin", 5, sectors=sectors)


def beside(commits: Commits, what: str, ends: bool = False) -> None:
    if ends:  # what is under way counts, too
        commits.end()
    print(f"  {what}: {commits.longest:.2f} s", flush=True)
    longest = LONGEST_S[part]
    base.expect(commits.longest < longest, f"{what}, a commit took {commits.longest:.1f} s")
    commits.longest = 0.0


def grow(remote: str) -> None:
    legs = {"loc": ram.Ram("near", MIB + MORE).node, "rem": remote}
    small, large = (
        {name: f"0 {mib << 11} linear {node} 0" for name, node in legs.items()}
        for mib in (MIB, MIB + MORE)
    )
    device = created(dm.create("loc", small["loc"]), dm.create("rem", small["rem"]))
    for name, table in large.items():
        dm.reload(name, table)
    link.profile("wan")
    commits = Commits(device.node, WRITERS[part])
    time.sleep(40)
    beside(commits, "before")
    device.message("grow")
    time.sleep(10)
    beside(commits, "while it grows", ends=True)
    device.remove()


def resync(remote: str) -> None:
    local = Leg("l", mib=MIB + MORE)
    device = created(local.node, remote)
    link.profile("wan")
    commits = Commits(device.node, WRITERS[part])
    time.sleep(40)
    beside(commits, "together")
    local.gone()
    base.until(lambda: device.status().health == "DA", "the local leg's death", 60)
    time.sleep(3)
    local.well()
    base.until(lambda: device.status().health == "aA", "the local leg to be back", 60)
    commits.longest = 0.0
    time.sleep(150)
    base.equal(device.status().health, "aA", "the legs")
    beside(commits, "while the local leg is resynced", ends=True)
    device.remove()


(part,) = base.words(1, LONGEST_S)
base.step(part)
link = wire.Wire("none")
target = lio.Target(lio.iblock("leg", ram.Ram("far", MIB + MORE).node))
session = iscsi.Session()
{"grow": grow, "resync": resync}[part](session.login())
base.step("done")
