# SPDX-License-Identifier: GPL-2.0-only
"""A part of the log can't be read for a second, beside writers that keep most of the ring in use.
The log has all of it afterwards, so nothing of what was acknowledged is given up.

Args: none.
"""

import random
import threading
import time

from dcdlab import SEGMENT, Box
from locklab import base, blk

WRITERS = 8
PART = 4096  # sectors of the log
RING = 2048  # its first one

box = Box(data_mib=256, data_model="spindle", data_options={"write_cache": "off"}, log_mib=17,
          nvram="lab", nvram_bytes=4096 + 8 * SEGMENT, settings="read_cache_bytes=0")  # fmt: skip
stop = threading.Event()
acknowledged: dict[int, str] = {}


def write_on(node: str, number: int, blocks: int) -> None:
    rng = random.Random(f"{base.SEED} {number}")
    n = 0
    with blk.Disk(node) as disk:
        while not stop.is_set():
            n += 1
            first = 8 * (number * blocks + rng.randrange(blocks))
            disk.write(first, blk.pattern(f"{number} {n}", 8))
            acknowledged[first] = f"{number} {n}"


with box.disk() as disk:
    base.step("writers fill most of the ring")
    blocks = disk.sectors // 8 // WRITERS
    writers = [threading.Thread(target=write_on, args=(disk.node, n, blocks))
               for n in range(WRITERS)]  # fmt: skip
    for writer in writers:
        writer.start()
    base.until(lambda: box.count("live") > 200, "a ring that is nearly full", 600)
    base.step("a part of the log can't be read for a second")
    middle = RING + (box.log.sectors - RING) // 2
    errors = box.count("log_read_errors")
    box.log.unreadable((middle, middle + PART - 1))
    time.sleep(1)
    box.log.heal()
    base.expect(box.count("log_read_errors") > errors, "somebody has met it")
    stop.set()
    for writer in writers:
        writer.join()
    base.until(lambda: not box.count("live") or box.count("lost_places"), "all destaged", 600)
    base.equal(box.count("lost_places"), 0, "places that were given up")
    for first, tag in sorted(acknowledged.items()):
        base.equal(disk.read(first, 8), blk.pattern(tag, 8), f"sector {first}")
box.away()
base.step("done")
