# SPDX-License-Identifier: GPL-2.0-only
"""The log is found dead while a segment is on its way to it, which it takes long for. Writes go on,
past the log, and call for the committer again and again: what has its slot in that commit stays
there until it has come to its end, and nothing that was acknowledged is lost.
"""

import time

from dcdlab import RING_START, SEGMENT, Box, Model, filled
from locklab import base, blk
from poisonlab import HELD

RING = RING_START // blk.SECTOR
SLOTS = 64
SIZE = 112  # sectors: all of a slot's payload
DAWDLES_MS = 1500
PAUSE_S = 0.02


def main() -> None:
    base.step("a commit dawdles, and the log takes no superblock")
    nvram_bytes = 4096 + SLOTS * SEGMENT
    box = Box(data_mib=16, log_mib=16, nvram="lab", nvram_bytes=nvram_bytes, settings=HELD)
    model = Model(box.data.sectors)
    with box.disk() as disk:
        filled(disk, model, 0, 8 * SIZE, "in the log", SIZE)
        base.until(lambda: "0 in use" in box.info(), "all to be in the log")
        box.log.refuse_and_dawdle((0, 15), (RING, box.log.sectors - 1), DAWDLES_MS)
        filled(disk, model, 8 * SIZE, 10 * SIZE, "a commit that dawdles", SIZE)
        box.set("destage_idle_ms=1")
        # The slots are used again and again meanwhile.
        for n in range(10, 140):
            filled(disk, model, n * SIZE, (n + 1) * SIZE, "meanwhile", SIZE)
            time.sleep(PAUSE_S)
        base.expect("log FAILING" in box.info(), box.info())
        base.expect(box.count("bypass_rounds") > 0, f"nothing went past the log: {box.info()}")
        time.sleep(2 * DAWDLES_MS / 1000)
        base.equal(box.count("lost_ranges"), 0, "ranges that are lost")
        model.check(disk, "past the log")
        filled(disk, model, 0, 80 * SIZE, "after it", SIZE)
        model.check(disk, "over it")
        box.log.heal()
        box.says("log ok", "the log to work again")
        filled(disk, model, 40 * SIZE, 50 * SIZE, "in the log again", SIZE)
        model.check(disk, "with the log back")
    with box.disk() as disk:
        model.check(disk, "after reopening")
    box.away()


main()
base.step("done")
