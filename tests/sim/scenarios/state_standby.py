# SPDX-License-Identifier: GPL-2.0-only
"""A read-only table stands by while another host has the mirror. That one crashes amid a write,
which only its local leg has, and a writable table takes over: the legs are the same then.
"""

import contextlib
import threading

from locklab import base, blk, dm, mirror
from statelegs import TWO_MIRRORS, Leg, Pair

AT = 512
PATIENT = ("remote_timeout", 60000)
THEIRS = blk.pattern("theirs", 8)


def there_now(leg: Leg) -> bytes:
    return leg.image()[AT * blk.SECTOR : (AT + 8) * blk.SECTOR]


def way(leg: str, to: str) -> None:
    """Of the other host, to a leg."""
    dm.load(leg, to)
    dm.suspend(leg, flush=False)
    dm.resume(leg)


base.step("a read-only table, whose mirror crashes on another host, is made a writable one")
pair = Pair(*PATIENT, "rejoin", 1)
pair.put(0)
pair.in_sync()
pair.stop()
base.put(TWO_MIRRORS, 1)
ways = [
    dm.create(f"way{leg.name}", f"0 {leg.disk.sectors} linear {leg.disk.node} 0")
    for leg in (pair.local, pair.remote)
]
there = dm.create("there", mirror.table(*ways, *PATIENT, sectors=pair.sectors))
dm.create(pair.name, pair.table(), readonly=True)


def write() -> None:
    with contextlib.suppress(OSError), blk.Disk(there) as disk:
        disk.write(AT, THEIRS)


dm.suspend(f"way{pair.remote.name}", flush=False)
writer = threading.Thread(target=write)
writer.start()
base.until(lambda: there_now(pair.local) == THEIRS, "the local leg to have it")
dm.load(f"way{pair.remote.name}", f"0 {pair.remote.disk.sectors} error")
dm.resume(f"way{pair.remote.name}")
way(f"way{pair.local.name}", f"0 {pair.local.disk.sectors} error")
writer.join()
size = pair.sectors * blk.SECTOR
base.expect(pair.local.image()[:size] != pair.remote.image()[:size], "the legs are the same yet")
dm.load(pair.name, pair.table())
dm.suspend(pair.name)
dm.resume(pair.name)
pair.in_sync()
base.expect(pair.local.image()[:size] == pair.remote.image()[:size], "the legs differ")
dm.remove("there")
base.step("done")
