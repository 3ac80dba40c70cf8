# SPDX-License-Identifier: GPL-2.0-only
"""Eight mirrors whose remote legs are slices of one LUN, by one wire of 3 Mbit/s (256 kbit/s back),
each with 16 writers of 256 KiB, and nothing fails: no leg is given up.

Arguments: knobs of the module (test_NAME).
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire

PARAMETERS = Path("/sys/module/dm_lockstep/parameters")
MIRRORS, WRITERS, SECTORS = 8, 16, 512
MIB = 64
SECONDS = 40
# As Ansible sets them for such a wire: neither end ends a command that takes long.
SESSION = {
    "node.conn[0].timeo.noop_out_interval": "15", "node.conn[0].timeo.noop_out_timeout": "30",
    "node.session.err_timeo.abort_timeout": "60", "node.session.err_timeo.lu_reset_timeout": "60",
}  # fmt: skip
DATAOUT_S = 60


def made(node: str, n: int) -> mirror.Mirror:
    local = ram.Ram(f"l{n}", MIB).node
    remote = dm.create(f"r{n}", f"0 {MIB << 11} linear {node} {n * (MIB << 11)}")
    statelab.create(local, remote, "--assume-clean")
    length = statelab.super_of(local).data_sectors
    return mirror.Mirror(local, remote, "rejoin", 5, name=f"m{n}", sectors=length)


def write(node: str, name: str, ended: threading.Event) -> None:
    rng = random.Random(f"{base.SEED} {name}")
    data = blk.pattern(name, SECTORS)
    with blk.Disk(node) as disk:
        while not ended.wait(0.2):
            disk.write(rng.randrange((disk.sectors - SECTORS) // SECTORS) * SECTORS, data)


def main() -> None:
    for knob in sys.argv[1:]:
        base.put(PARAMETERS / knob, 1)
    line = wire.Wire("none")
    target = lio.Target(lio.iblock("leg", ram.Ram("far", MIB * MIRRORS).node))
    target.acl(iscsi.INITIATOR, dataout_timeout=DATAOUT_S)
    node = iscsi.Session(**SESSION).login()
    mirrors = [made(node, n) for n in range(MIRRORS)]
    line.profile("wan")
    ended = threading.Event()
    writers = [threading.Thread(target=write, args=(m.node, f"{m.name} {n}", ended))
               for m in mirrors for n in range(WRITERS)]  # fmt: skip
    for writer in writers:
        writer.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for m in mirrors:
            base.equal(m.status().health, "AA", f"the legs of {m.name}, of which all are well")
        time.sleep(0.25)
    ended.set()
    for writer in writers:
        writer.join()


main()
base.step("done")
