# SPDX-License-Identifier: GPL-2.0-only
"""The local leg was away for a moment, and is back, while the application reads what it can from
the remote one, by a wire on which each answer may take longer than a join waits for one. The leg
comes back nevertheless: by itself, or by `re-add`, each 15 s, with rejoin 0.

Args: the policy, readers, sectors of each read, seconds in which it has to be whole; [re-add].
"""

import contextlib
import sys
import time

from locklab import base, blk, dm
from slowlab import Readers, Site
from statelab import Beside

AWAY_S = 20

policy = sys.argv[1]
readers, part, most_s = map(int, sys.argv[2:5])
readds = sys.argv[5:] == ["re-add"]
site = Site()
local = site.locals[0]
m = site.mirror(0, "policy", policy, "rejoin", 0 if readds else 5)
site.slow()


def write() -> None:
    with blk.Disk(m.node) as disk:
        disk.write(0, blk.pattern("b", 8))


base.step(f"policy {policy}: the local leg is away, {readers} readers of {part} sectors")
local.gone()
writing = Beside(write)
base.until(lambda: m.status().health == "DA", "the remote leg alone", 60)
reading = Readers(m.name, readers, part)
time.sleep(AWAY_S)
local.well()
base.step("it is well again")
began = time.monotonic()
while (m.status().health, m.status().action) != ("AA", "idle"):
    base.expect(time.monotonic() - began < most_s, f"in sync: {dm.status(m.name)}")
    if readds:
        with contextlib.suppress(OSError):
            m.message("recover local")
    time.sleep(15 if readds else 1)
print(f"  in sync after {time.monotonic() - began:.1f} s", flush=True)
base.until(lambda: writing.done, "the write to end")
reading.end()
base.step("done")
