# SPDX-License-Identifier: GPL-2.0-only
"""A dead log is left (`leave_log=1`) while four write all over a disk that is much slower than they
are. That takes a while, and none of their writes waits for long meanwhile.

    dcd_leave_load.py [PART...]

blip: the data disk is away for a moment just then.

In the end the power is cut: what was acknowledged is on the data disk.
"""

import random
import threading
import time

from dcdlab import SEGMENT, Box
from locklab import base, blk

LOG_MIB, DATA_MIB, SLOTS = 64, 512, 32
WRITERS, BLOCK = 4, 8
HALF = 0.5  # of the log: so much is live
BEFORE_S, LEFT_S = 5, 120
AWAY_S = 0.3
LONGEST_S = 2.0


class Writer(threading.Thread):
    """Its own blocks, at random."""

    def __init__(self, node: str, number: int) -> None:
        super().__init__(daemon=True)
        self._node, self._number = node, number
        self.acked: dict[int, bytes] = {}
        self.last, self.longest, self.stopped = -1, 0.0, False

    def run(self) -> None:
        rng = random.Random(f"{base.SEED} {self._number}")
        with blk.Disk(self._node) as disk:
            while not self.stopped:
                block = WRITERS * rng.randrange(8, disk.sectors // BLOCK // WRITERS)
                self.last = BLOCK * (block + self._number)
                data = blk.pattern(f"{self._number} {len(self.acked)} {rng.random()}", BLOCK)
                began = time.monotonic()
                disk.write(self.last, data)
                if self.stopped:
                    return
                self.longest = max(self.longest, time.monotonic() - began)
                self.acked[self.last] = data


def left(how: str) -> None:
    base.step(f"{how}: a dead log is left while four write to a spindle")
    box = Box(nvram="lab", nvram_bytes=4096 + SLOTS * SEGMENT, log_mib=LOG_MIB, data_mib=DATA_MIB,
              data_model="spindle", settings="scrub_kib=0")  # fmt: skip
    with box.disk_until_cut() as disk:
        writers = [Writer(disk.node, n) for n in range(WRITERS)]
        for one in writers:
            one.start()
        segments = int(box.info().split("log segments ")[1].split()[0])
        base.until(lambda: box.count("live") > HALF * segments, "the log to be full", 300)
        time.sleep(BEFORE_S)
        for one in writers:
            one.longest = 0.0
        before = sum(len(one.acked) for one in writers)
        print(f"  {box.count('live')} of {segments} segments are live", flush=True)
        if how == "blip":
            box.data.fail()
            threading.Timer(AWAY_S, box.data.heal).start()
        box.leave_log()
        began = time.monotonic()
        base.until(lambda: "log LEFT" in box.info(), "the log to be left", LEFT_S)
        took = time.monotonic() - began
        time.sleep(1)
        for one in writers:
            one.stopped = True
        longest = max(one.longest for one in writers)
        base.equal(box.count("write_errors") + box.count("busy"), 0, box.info())
        count = sum(len(one.acked) for one in writers) - before
        print(f"  left in {took:.1f} s; {count} writes, longest {longest:.3f} s", flush=True)
    for one in writers:
        one.join()
        one.acked.pop(one.last, None)  # a later one may be there
        for at, data in one.acked.items():
            base.expect(box.data.bytes(at, BLOCK) == data, f"sectors {at} on were acknowledged")
    base.expect(longest < LONGEST_S, f"a write took {longest:.1f} s")
    box.away()


HOW = ("load", "blip")
for word in base.words(1, HOW) or HOW:
    left(word)
base.step("done")
