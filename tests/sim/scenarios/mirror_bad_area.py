# SPDX-License-Identifier: GPL-2.0-only
"""An area of the local disk can't be read, in each of so many mirrors on it. Eight readers are
there at once (of each of several mirrors one), by a wire that carries 256 kbit/s back, and beside
them somebody writes: the remote legs, which alone have that area, aren't given up for the queue of
the host's own second tries, and mend the local ones.

Args: remote_timeout, ms; mirrors; hangs: the first one's remote leg does, and has no timeout.
"""

import sys
import threading
import time
from functools import partial

from locklab import base, blk, dm, mirror
from slowlab import Site
from statelab import Beside

MIRRORS = int(sys.argv[2])
HANGS = sys.argv[3:] == ["hangs"]
READERS, PART = 8 // MIRRORS, 128
BAD = READERS * PART  # sectors, the first ones
TURNS = 3

site = Site(MIRRORS)
mirrors = [
    site.mirror(n, "rejoin", 5, "remote_timeout", int(sys.argv[1])) for n in range(MIRRORS)
]


def data(m: mirror.Mirror, number: int) -> bytes:
    return blk.pattern(f"acknowledged {m.name} {number}", PART)


def read(m: mirror.Mirror, first: int) -> None:
    with blk.Disk(m.node, write=False) as disk:
        for turn in range(TURNS):
            number = (first + turn) % READERS
            base.expect(disk.read(number * PART, PART) == data(m, number), f"part {number}")


def write(m: mirror.Mirror, over: threading.Event) -> None:
    with blk.Disk(m.node) as disk:
        while not over.is_set():
            disk.write(BAD, blk.pattern("beside", 8))
            time.sleep(1)


for m in mirrors:
    with blk.Disk(m.node) as disk_:
        for number in range(READERS):
            disk_.write(number * PART, data(m, number))
site.slow()
base.step(f"the local disk can't read {BAD} sectors of each mirror")
for leg in site.locals:
    leg.bad_reads(0, BAD - 1)
hung = mirrors[: int(HANGS)]
for m in hung:
    base.step(f"the remote leg of {m.name} hangs")
    dm.message(m.name, "remote_timeout 0")
    dm.suspend("r0", flush=False)
held = [Beside(partial(read, m, 0)) for m in hung]
for m in hung:
    base.until(lambda: m.status().local_errors, "the reader to be tried again")  # noqa: B023
mirrors = mirrors[len(hung) :]
over = threading.Event()
writing = [Beside(partial(write, m, over)) for m in mirrors]
reading = [Beside(partial(read, m, first)) for m in mirrors for first in range(READERS)]
for one in reading:
    base.until(lambda: one.done, "a reader to end", 1200)  # noqa: B023
    one.result()
over.set()
for one in writing:
    base.until(lambda: one.done, "a writer to end")  # noqa: B023
    one.result()
for one in held:
    base.expect(not one.done, "a leg that hangs has answered")
    dm.resume("r0")
    base.until(lambda: one.done, "the reader that was held to end", 60)  # noqa: B023
    one.result()
for m in hung + mirrors:
    base.equal((m.status().health, m.status().action), ("AA", "idle"), m.name)
base.step("done")
