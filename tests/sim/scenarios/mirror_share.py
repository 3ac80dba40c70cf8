# SPDX-License-Identifier: GPL-2.0-only
"""A resync beside 16 writers of 256 KiB on a slow wire (3 Mbit/s, 256 kbit/s back): what it has on
the way together with them makes no request so old that a leg looks like one that hangs.

Arguments: which leg is resynced, and words: knobs of the module (test_NAME), options of the mirror
(NAME=VALUE).

  remote  all of it is copied there
  local   that disk was away, and reads from the remote leg what it has missed

Neither leg is given up or silent, no small write that has to be durable takes longer than
LONGEST_S, and the resync gets on (with resync_compare=on all is equal, and nothing copied).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import statelab
from locklab import base, blk, iscsi, lio, mirror, ram, wire
from mirrorlab import FIELDS, Leg
from throttlelab import App, Run, legs, resynced

PARAMETERS = Path("/sys/module/dm_lockstep/parameters")
LONGEST_S = 3  # 1.0 to 2.3 by eight seeds
SECONDS = 60
MIB = 128
LARGE = App("16 writers of 256 KiB", 16, 0, 1.0, 5, 512)
HEALTH = {"remote": "Aa", "local": "aA"}


@contextmanager
def remote_to_resync(words: list[str]) -> Iterator[mirror.Mirror]:
    with legs("wan", "ram") as (local, remote):
        device = mirror.Mirror(local, remote, "nosync", *words)
        yield device
        device.remove()


@contextmanager
def local_to_resync(words: list[str]) -> Iterator[mirror.Mirror]:
    link = wire.Wire("none")
    target = lio.Target(lio.iblock("leg", ram.Ram("far", MIB).node))
    session = iscsi.Session()
    node = session.login()
    local = Leg("l", mib=MIB)
    statelab.meta("create", "--local", local.node, "--remote", node, "--name", "m",
                  "--assume-clean")  # fmt: skip
    length = statelab.super_of(local.node).data_sectors
    device = mirror.Mirror(local.node, node, "rejoin", 1, *words, sectors=length)
    local.gone()
    with blk.Disk(device.node) as disk:
        for mib in range(1, MIB - 2):
            disk.write(mib << 11, blk.pattern(f"missed {mib}", 8))
    base.until(lambda: device.status().health == "DA", "the local leg to be given up", 60)
    link.profile("wan")
    local.well()
    base.until(lambda: device.status().health == "aA", "the local leg to be back", 60)
    yield device
    device.remove()
    session.close()
    target.remove()
    link.close()


class Commits:
    """One small write after the other, each to be durable."""

    def __init__(self, node: str) -> None:
        self.longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(node,))
        self._thread.start()

    def _work(self, node: str) -> None:
        data = blk.pattern("commit", 8)
        with blk.Disk(node) as disk:
            while not self._stop.wait(0.1):
                took = blk.timed(lambda: disk.write(disk.sectors - 8, data, fua=True))
                self.longest = max(self.longest, took)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def main() -> None:
    leg, given = sys.argv[1], sys.argv[2:]
    words = [part for word in given if "=" in word for part in word.split("=")]
    for knob in (word for word in given if "=" not in word):
        base.put(PARAMETERS / knob, 1)
    make = {"remote": remote_to_resync, "local": local_to_resync}[leg]
    with make(words) as device:
        load = threading.Thread(target=Run, args=(device.node, LARGE))
        load.start()
        commits = Commits(device.node)
        time.sleep(5)
        if leg == "remote":
            device.message("resync")
        before, end = resynced(device), time.monotonic() + SECONDS
        while time.monotonic() < end:
            status = device.status()
            silent = status.rest[FIELDS.index("silent")]
            base.equal((status.health, silent), (HEALTH[leg], "-"), "the legs beside a resync")
            time.sleep(0.1)
        got = resynced(device) - before
        commits.end()
        print(f"  {leg}: longest commit {commits.longest:.2f} s, {got} KiB copied", flush=True)
        base.expect(commits.longest < LONGEST_S, f"a commit took {commits.longest:.2f} s")
        base.expect(got > 0 or "resync_compare=on" in given, "the resync doesn't get on")
        load.join()


main()
