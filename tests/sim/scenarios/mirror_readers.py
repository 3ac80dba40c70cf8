# SPDX-License-Identifier: GPL-2.0-only
"""The local leg was away for a moment, and is back, while the application reads what it can from
the remote one, by a wire that carries 256 kbit/s back: each answer takes longer than a join waits
for one. The leg comes back nevertheless: by itself, or by `re-add`, each 15 s, with rejoin 0.

Args: the policy, readers, sectors of each read, seconds in which it has to be whole; [re-add].
"""

import contextlib
import random
import sys
import threading
import time
from functools import partial

import statelab
from locklab import base, blk, dm, iscsi, lio, mirror, ram, wire
from mirrorlab import Leg
from statelab import Beside

MIB = 8
AWAY_S = 20

policy = sys.argv[1]
readers, sectors, most_s = map(int, sys.argv[2:5])
readds = sys.argv[5:] == ["re-add"]
line = wire.Wire("none")
disk = ram.Ram("mdata", MIB)
target = lio.Target(lio.iblock("leg", disk.node))
session = iscsi.Session(**{"node.session.timeo.replacement_timeout": "120"})
remote = session.login()
local = Leg("llocal", mib=MIB)
statelab.create(local.node, remote, "--assume-clean")
size = statelab.super_of(local.node).data_sectors
line.profile("wan")
m = mirror.Mirror(
    local.node, remote, "policy", policy, "rejoin", 0 if readds else 5, name="mirror", sectors=size
)


def write() -> None:
    with blk.Disk(m.node) as disk:
        disk.write(0, blk.pattern("b", 8))


def read(seed: int) -> None:
    rng = random.Random(seed)
    with blk.Disk(m.node, write=False) as disk:
        while not over.is_set():
            disk.read(rng.randrange((size - sectors) // 8) * 8, sectors)
            time.sleep(0.05)  # a read of the local leg takes no time


over = threading.Event()
base.step(f"policy {policy}: the local leg is away, {readers} readers of {sectors} sectors")
local.gone()
writing = Beside(write)
base.until(lambda: m.status().health == "DA", "the remote leg alone", 60)
reading = [Beside(partial(read, seed)) for seed in range(readers)]
time.sleep(AWAY_S)
local.well()
base.step("it is well again")
began = time.monotonic()
while (m.status().health, m.status().action) != ("AA", "idle"):
    base.expect(time.monotonic() - began < most_s, f"in sync: {dm.status('mirror')}")
    if readds:
        with contextlib.suppress(OSError):
            dm.message("mirror", "recover local")
    time.sleep(15 if readds else 1)
print(f"  in sync after {time.monotonic() - began:.1f} s", flush=True)
base.until(lambda: writing.done, "the write to end")
over.set()
for one in reading:
    base.until(lambda: one.done, "a reader to end", 120)  # noqa: B023
    one.result()
base.step("done")
