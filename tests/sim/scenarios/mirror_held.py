# SPDX-License-Identifier: GPL-2.0-only
"""A way holds what the primary sends, for longer than its commands are waited for, and delivers it
then: behind newer writes, which came by another session. Args: the part.

pages   dm-multipath has sent them again by other paths. They arrive late, as LIO has its own 15
        and 30 s for a session that is silent; but nothing else does in their place.
lease   dm-multipath, and LIO gives a session up before its commands fail: nothing arrives.
other   without dm-multipath: the leg comes back by another session. Likewise.

`lease` and `other` take a second word, `open`: LIO has its own times.
"""

import sys
import threading
import time

from locklab import base, blk, dm
from pathlab import MPATH, Pair

PLACES = range(6)
PART = 64  # sectors between them
HELD_S = 20
# LIO's two times, and the initiator's replacement_timeout, which has to be more than both.
NOPIN_S, PATIENCE_S = 3, 7


def data(version: int, place: int) -> bytes:
    return blk.pattern(f"{version} {place}", 8)


def write(pair: Pair, version: int) -> None:
    """All places at once, so each path gets some of them."""

    def one(place: int) -> None:
        with blk.Disk(pair.node) as disk:
            disk.write(PART * place, data(version, place))

    writers = [threading.Thread(target=one, args=(place,)) for place in PLACES]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def found(node: str) -> list[int | None]:
    """Which version of its own each place has."""
    with blk.Disk(node, write=False) as disk:
        raw = [disk.read(PART * place, 8) for place in PLACES]
    return [
        next((v for v in range(3) if raw[place] == data(v, place)), None) for place in PLACES
    ]


part, *more = sys.argv[1:]
base.expect(part in ("pages", "lease", "other") and more in ([], ["open"]), f"args: {sys.argv}")
leased = part != "pages" and not more
pair = Pair(15, PATIENCE_S if part != "pages" else 2, NOPIN_S if leased else 0)
site = pair.site
if part == "other":
    dm.reload("mirror", pair.table(site.paths[0]))
    dm.remove(MPATH)
write(pair, 0)
base.step(f"{part}: a way holds what is sent for {HELD_S} s")
site.wires[0].hold(HELD_S)
threading.Timer(HELD_S + 2, lambda: site.wires[0].mend("lan")).start()
write(pair, 1)
if part == "other":
    base.until(lambda: pair.is_("AD", "alone"), "the leg to be given up", 60)
    dm.reload("mirror", pair.table(site.paths[1]))
    pair.wait("AA", "together")
write(pair, 2)
time.sleep(2 * HELD_S)
base.equal(found(site.local.node), [2] * len(PLACES), "the local leg's")
there = found(site.disk.node)
print(f"  the remote leg has {there}", flush=True)
if part == "pages":
    base.expect(None not in there, "a place has what belongs elsewhere")
    base.expect(1 in there, "nothing was late")
else:
    base.equal(there, [2] * len(PLACES), "the remote leg's")
base.step("done")
