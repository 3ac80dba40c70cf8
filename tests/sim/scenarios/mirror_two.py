# SPDX-License-Identifier: GPL-2.0-only
"""Two mirrors by one session of a wire that carries 256 kbit/s back, and the local disk below both
dies. The application reads from the one what it can. The other one gets another local disk: its new
table starts, though no answer comes within remote_timeout.
"""

import random
import threading
import time
from functools import partial

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import FIELDS, Leg
from statelab import Beside

MIB = 8
READERS, PART = 8, 128
# Each metadata I/O of the start waits for what the readers have asked for before it.
MOST_S = 600

line = wire.Wire("none")
disk = ram.Ram("mdata", 2 * MIB)
target = lio.Target(lio.iblock("leg", disk.node))
session = iscsi.Session(**{"node.session.timeo.replacement_timeout": "120"})
node = session.login()
legs = [Leg(f"l{n}", mib=MIB) for n in range(2)]
remotes = [dm.create(f"r{n}", f"0 {MIB << 11} linear {node} {n * (MIB << 11)}") for n in range(2)]
for leg, remote in zip(legs, remotes, strict=True):
    statelab.create(leg.node, remote, "--assume-clean")
size = statelab.super_of(legs[0].node).data_sectors
line.profile("wan")
one, other = (
    mirror.Mirror(legs[n].node, remotes[n], "rejoin", 5, name=f"m{n}", sectors=size)
    for n in range(2)
)


def alone(m: mirror.Mirror) -> bool:
    now = m.status()
    return now.health == "DA" and now.rest[FIELDS.index("standing")] == "alone"


def read(seed: int, over: threading.Event) -> None:
    rng = random.Random(seed)
    with blk.Disk(other.node, write=False) as disk:
        while not over.is_set():
            disk.read(rng.randrange((size - PART) // 8) * 8, PART)


def resumes() -> bool:
    try:
        dm.resume("m0")
    except OSError:
        return False
    return True


base.step("the local disk below both dies")
for leg in legs:
    leg.gone()
for m in (one, other):
    with blk.Disk(m.node) as at:
        at.write(8, blk.pattern("without it", 8))
for m in (one, other):
    base.until(lambda: alone(m), "the remote leg alone", 60)  # noqa: B023
over = threading.Event()
reading = [Beside(partial(read, seed, over)) for seed in range(READERS)]
time.sleep(20)
base.step("another local disk for the one that isn't read")
new = Leg("new", mib=MIB)
statelab.meta("join", "--no-search", "--source", remotes[0], "--leg", "local", new.node)
dm.load("m0", mirror.table(new.node, remotes[0], sectors=size))
dm.suspend("m0", flush=False)
began = time.monotonic()
# As the monitor does.
while not resumes():
    base.expect(time.monotonic() - began < MOST_S, f"no start: {dm.status('m0')}")
    time.sleep(10)
print(f"  started after {time.monotonic() - began:.0f} s", flush=True)
with blk.Disk(one.node) as at:
    at.write(16, blk.pattern("goes on", 8))
over.set()
for reader in reading:
    base.until(lambda: reader.done, "a reader to end")  # noqa: B023
    reader.result()
base.step("done")
