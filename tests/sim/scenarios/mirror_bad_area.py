# SPDX-License-Identifier: GPL-2.0-only
"""An area of the local disk can't be read. Eight readers are there at once, by a wire that carries
256 kbit/s back, and beside them somebody writes: the remote leg, which alone has that area, isn't
given up for the queue of the mirror's own second tries, and mends the local one.

Args: remote_timeout, ms.
"""

import sys
import threading
import time
from functools import partial

from locklab import base, blk
from slowlab import Site
from statelab import Beside

READERS, PART = 8, 128
BAD = READERS * PART  # sectors, the first ones
TURNS = 3

site = Site()
local = site.locals[0]
m = site.mirror(0, "rejoin", 5, "remote_timeout", int(sys.argv[1]))


def data(number: int) -> bytes:
    return blk.pattern(f"acknowledged {number}", PART)


def read(first: int) -> None:
    with blk.Disk(m.node, write=False) as disk:
        for turn in range(TURNS):
            number = (first + turn) % READERS
            base.expect(disk.read(number * PART, PART) == data(number), f"part {number}")


def write(over: threading.Event) -> None:
    with blk.Disk(m.node) as disk:
        while not over.is_set():
            disk.write(BAD, blk.pattern("beside", 8))
            time.sleep(1)


with blk.Disk(m.node) as disk_:
    for number in range(READERS):
        disk_.write(number * PART, data(number))
site.slow()
base.step(f"the local disk can't read {BAD} sectors")
local.bad_reads(0, BAD - 1)
over = threading.Event()
writing = Beside(lambda: write(over))
reading = [Beside(partial(read, first)) for first in range(READERS)]
for one in reading:
    base.until(lambda: one.done, "a reader to end", 1200)  # noqa: B023
    one.result()
over.set()
base.until(lambda: writing.done, "the writer to end")
writing.result()
base.equal((m.status().health, m.status().action), ("AA", "idle"), "the mirror")
base.step("done")
